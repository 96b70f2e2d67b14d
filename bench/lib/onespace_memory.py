"""bench/lib/onespace_memory.py: the memory of the processes of a job, and jobs that stop at points to be measured.

The cost counts every page once: anonymous and shared memory by its proportional set size (Pss); each part of a file
by the mapping with the largest share of it, because the Pss of a file depends on other programs that map it (such as
the interpreter of the benchmark). Page tables are added. An address space counts once, however many tasks are in it.
Host and shims of onespace are included, the MPI's launcher and its daemons are not."""
import ctypes
import dataclasses
import errno
import os
import pathlib
import platform
import shlex
import shutil
import signal
import subprocess
import threading
import time

import onespace_bench as ob

LAUNCHERS = {"mpiexec", "mpirun", "orterun", "orted", "prterun", "prted", "mpiexec.openmpi", "mpirun.openmpi",
             "mpiexec.hydra", "hydra_pmi_proxy"}
KCMP_VM = 1
KCMP = {"x86_64": 312, "aarch64": 272}
PR_SET_CHILD_SUBREAPER = 36
libc = ctypes.CDLL(None, use_errno=True)
JOB_VARIABLE = "ONESPACE_BENCH_JOB"  # in the environment of a job whose peak is sampled
SAMPLE_INTERVAL_S = 0.02
JOB_LIMIT_S = 240
TERMINATE_S = 20  # until a job that got SIGTERM is killed


# ---- Processes ----

def adopt_descendants():
    """Makes this process the parent of the hosts of spaces, which leave their own parents, so that it finds them."""
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise ob.Failure("prctl(PR_SET_CHILD_SUBREAPER) failed")


def children(pid):
    found = []
    for thread in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, thread.read_text().split())
        except OSError:
            pass
    return found


def descendants():
    """The PIDs of all descendants of this process."""
    left, found = children(os.getpid()), []
    while left:
        found.append(left.pop())
        left += children(found[-1])
    return found


def is_launcher(pid):
    """True also for a process that has exited."""
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")) in LAUNCHERS
    except OSError:
        return True


def same_memory(pid, other_pid):
    """False if one of them has exited."""
    answer = libc.syscall(KCMP[platform.machine()], pid, other_pid, KCMP_VM, 0, 0)
    if answer < 0 and ctypes.get_errno() != errno.ESRCH:
        raise ob.Failure(f"cannot tell which processes share their memory: kcmp: {os.strerror(ctypes.get_errno())}; "
                         "allow it in the container, or run as the user of the processes")
    return answer == 0


def address_spaces(pids):
    """The first process of each address space."""
    found = []
    for pid in pids:
        if not any(same_memory(pid, other) for other in found):
            found.append(pid)
    return found


# ---- An address space ----

@dataclasses.dataclass
class Mapping:
    low: int
    high: int
    permissions: str
    name: str       # of the file, or what the kernel calls it
    part: tuple     # of a file on disk: device, inode, from, to; None: Pss is exact
    sizes: dict = dataclasses.field(default_factory=dict)  # {field: KiB}

    @classmethod
    def of(cls, words):
        low, high = (int(address, 16) for address in words[0].split("-"))
        name = words[5].rstrip("\n") if len(words) > 5 else ""
        is_file = int(words[4]) != 0 and not name.startswith(("/memfd:", "/dev/", "/SYSV"))
        start = int(words[2], 16)
        return cls(low, high, words[1], name, (words[3], words[4], start, start + high - low) if is_file else None)

    def kib(self, field):
        return self.sizes.get(field, 0)


def mappings(pid):
    found = []
    with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            words = line.split(None, 5)
            if not words[0].endswith(":"):
                found.append(Mapping.of(words))
            elif words[-1] == "kB":
                found[-1].sizes[words[0][:-1]] = int(words[1])
    return found


def page_tables(pid):
    """KiB, of all levels."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as lines:
        return next((int(line.split()[1]) for line in lines if line.startswith("VmPTE:")), 0)


# ---- The cost ----

class Cost:
    """The sum over the address spaces that were added."""

    def __init__(self):
        self.kib = 0     # anonymous and shared memory, page tables
        self.files = {}  # {part: KiB}

    def add(self, its_mappings, its_page_tables):
        self.kib += its_page_tables
        for mapping in its_mappings:
            anonymous = mapping.kib("Anonymous")
            if mapping.part:
                self.files[mapping.part] = max(self.files.get(mapping.part, 0), mapping.kib("Rss") - anonymous)
            self.kib += anonymous if mapping.part else mapping.kib("Pss")

    def bytes(self):
        return (self.kib + of_files(self.files)) * 1024


def of_files(parts):
    """KiB. Tasks map a library's whole extent, processes its segments: the larger of a part and the sum of those that
    it overlaps counts."""
    tops = {}
    for (*file, start, end), kib in sorted(parts.items(), key=lambda item: item[0][2] - item[0][3]):
        top = next((top for top in tops.setdefault(tuple(file), []) if start < top["end"] and end > top["start"]), None)
        if top:
            top["inner"] += kib
        else:
            tops[tuple(file)].append({"start": start, "end": end, "outer": kib, "inner": 0})
    return sum(max(top["outer"], top["inner"]) for file in tops.values() for top in file)


def cost():
    """Bytes of all descendants but those that exit meanwhile."""
    total, spaces = Cost(), []
    for pid in descendants():
        if is_launcher(pid) or any(same_memory(pid, other) for other in spaces):
            continue
        try:
            total.add(mappings(pid), page_tables(pid))
            spaces.append(pid)  # not of an exited process: others may be in its address space
        except OSError:
            pass
    return total.bytes()


# ---- The peak of a job ----

def read(pid, name):
    """b'' if the process has exited, is the kernel's, or is another user's."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def processes():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def pss(pid):
    """Bytes."""
    for line in read(pid, "smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return 0


class Peak:
    """Samples the memory of the job that the with statement's body runs with `environment`: `bytes` is the peak of the
    sum of Pss over its address spaces. Pss divides a page by the number of its mappings, so the sum counts each page
    once that only the job maps. The ranks inherit the variable, and with tasks the shims and the host."""

    def __init__(self):
        self.job = f"{os.getpid()}-{time.monotonic_ns()}"
        self.environment = {JOB_VARIABLE: self.job}
        self.bytes = 0
        self.failure = None
        self.others = set(processes())  # older than the job
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        if self.failure:
            raise self.failure

    def watch(self):
        try:
            while not self.ended.wait(SAMPLE_INTERVAL_S):
                self.bytes = max(self.bytes, self.sample())
        except ob.Failure as failure:
            self.failure = failure

    def sample(self):
        mark = f"{JOB_VARIABLE}={self.job}\0".encode()
        pids = [pid for pid in processes() if pid not in self.others and mark in read(pid, "environ")]
        return sum(pss(pid) for pid in address_spaces(pids))


# ---- A job that stops at points ----

def reap():
    """Reaps adopted processes that have exited."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


class Job:
    """Commands that run at the same time, of `partners` processes or tasks in all."""

    def __init__(self, commands, partners, directory, env, cwd=None, limit_s=JOB_LIMIT_S):
        self.commands, self.partners, self.cwd, self.limit_s = commands, partners, cwd, limit_s
        self.points = pathlib.Path(directory, "points")
        self.output = pathlib.Path(directory, "output")
        self.text = ""  # what it has printed; complete after run()
        shutil.rmtree(self.points, ignore_errors=True)
        self.points.mkdir()
        self.env = {**os.environ, **env, "ONESPACE_POINTS": str(self.points)}

    def at(self, point):
        """The files of the partners that have reached it."""
        return [self.points / name for name in os.listdir(self.points)
                if name.rpartition(".")[0] == point and not name.endswith(".go")]

    def run(self, points, measure=cost):
        """{point: the result of measure() there}; without points {"largest": bytes}, sampled."""
        found, left, deadline = {}, list(points), time.monotonic() + self.limit_s
        with open(self.output, "w+", encoding="utf-8", errors="replace") as output:
            running = [subprocess.Popen([str(word) for word in command], env=self.env, cwd=self.cwd, stdout=output,
                                        stderr=output, stdin=subprocess.DEVNULL, start_new_session=True)
                       for command in self.commands]
            try:
                while any(process.poll() is None for process in running):
                    if not points:
                        found["largest"] = max(measure(), found.get("largest", 0))
                    elif left and len(self.at(left[0])) == self.partners:
                        time.sleep(0.2)  # the last partner may not sleep yet
                        found[left[0]] = measure()
                        (self.points / f"{left.pop(0)}.go").touch()
                    if time.monotonic() > deadline:
                        raise ob.Failure(f"still running after {self.limit_s} s: {shlex.join(running[0].args)}")
                    time.sleep(0.02)
            finally:
                for process in running:
                    end(process)
            time.sleep(0.1)
            reap()
            output.seek(0)
            self.text = output.read()
        if left or any(process.returncode for process in running):
            raise ob.Failure(f"{shlex.join(running[0].args)}\nfailed, or did not reach the point {left[:1]}:\n"
                             f"{self.text.strip()[-2000:]}")
        return found


def end(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(TERMINATE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def end_descendants():
    """Kills the processes that a failed job has left."""
    for pid in descendants():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    time.sleep(0.1)
    reap()
