"""bench/memory/points.py: what a job's processes cost in memory, and a job that stops at points to be measured.

The cost counts every page once: anonymous and shared memory by its proportional set size (Pss); of each part of a file
what that mapping has that has most of it, since Pss would depend on what else runs and maps the file (the interpreter
of this script, for one). Page tables are added. Host and shims of onespace are included, the MPI's launcher and its
daemons are not."""
import ctypes
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import time

import onespace_bench as ob

LAUNCHERS = {"mpiexec", "mpirun", "orterun", "orted", "prterun", "prted", "mpiexec.openmpi", "mpirun.openmpi",
             "mpiexec.hydra", "hydra_pmi_proxy"}
SYS_KCMP, KCMP_VM = 312, 1  # of x86-64
PR_SET_CHILD_SUBREAPER = 36
LIMIT_S = 240
libc = ctypes.CDLL(None, use_errno=True)


def adopt_descendants():
    """The host of a space leaves its parent: it becomes a child of this process, and so is found."""
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
    left, found = children(os.getpid()), []
    while left:
        found.append(left.pop())
        left += children(found[-1])
    return found


def page_tables(pid):
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as lines:
        return next((int(line.split()[1]) for line in lines if line.startswith("VmPTE:")), 0)


def mappings(pid):
    """For each (part of a file, or None where Pss is exact; {field: KiB})."""
    key, sizes = None, {}
    with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            words = line.split()
            if words[0].endswith(":"):
                if words[-1] == "kB":
                    sizes[words[0]] = int(words[1])
                continue
            yield key, sizes
            low, high = (int(address, 16) for address in words[0].split("-"))
            is_file = int(words[4]) != 0 and not words[5].startswith(("/memfd:", "/dev/", "/SYSV"))
            start = int(words[2], 16)
            key, sizes = ((words[3], words[4], start, start + high - low) if is_file else None), {}
    yield key, sizes


def add_cost(pid, files):
    """KiB of anonymous and shared memory and page tables; parts of files go into {part: KiB}."""
    kib = page_tables(pid)
    for part, sizes in mappings(pid):
        anonymous = sizes.get("Anonymous:", 0)
        if part:
            files[part] = max(files.get(part, 0), sizes.get("Rss:", 0) - anonymous)
        kib += anonymous if part else sizes.get("Pss:", 0)
    return kib


def of_files(parts):
    """KiB. Tasks map a library's whole extent, processes its segments: of a part and those that it overlaps counts what
    is more."""
    tops = {}
    for (*file, start, end), kib in sorted(parts.items(), key=lambda item: item[0][2] - item[0][3]):
        top = next((top for top in tops.setdefault(tuple(file), []) if start < top["end"] and end > top["start"]), None)
        if top:
            top["inner"] += kib
        else:
            tops[tuple(file)].append({"start": start, "end": end, "outer": kib, "inner": 0})
    return sum(max(top["outer"], top["inner"]) for file in tops.values() for top in file)


def cost():
    """Bytes of all descendants: what ends meanwhile is left out."""
    spaces, files, total = [], {}, 0
    for pid in descendants():
        try:
            if os.path.basename(os.readlink(f"/proc/{pid}/exe")) in LAUNCHERS:
                continue
            if any(libc.syscall(SYS_KCMP, pid, other, KCMP_VM, 0, 0) == 0 for other in spaces):
                continue  # a task of a space that was counted
            total += add_cost(pid, files)
            spaces.append(pid)
        except OSError:
            pass
    return (total + of_files(files)) * 1024


def reap():
    """What was adopted and has ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


class Job:
    """Commands that run at the same time, of `partners` processes or tasks in all."""

    def __init__(self, commands, partners, directory, env, cwd=None):
        self.commands, self.partners, self.cwd = commands, partners, cwd
        self.points = pathlib.Path(directory, "points")
        self.output = pathlib.Path(directory, "output")
        shutil.rmtree(self.points, ignore_errors=True)
        self.points.mkdir()
        self.env = {**os.environ, **env, "ONESPACE_POINTS": str(self.points)}

    def reached(self, point):
        return len([name for name in os.listdir(self.points) if name.rpartition(".")[0] == point]) == self.partners

    def run(self, points):
        """{point: bytes}; without points {"largest": bytes}, sampled."""
        found, left, deadline = {}, list(points), time.monotonic() + LIMIT_S
        with open(self.output, "w+", encoding="utf-8", errors="replace") as output:
            running = [subprocess.Popen([str(word) for word in command], env=self.env, cwd=self.cwd, stdout=output,
                                        stderr=output, stdin=subprocess.DEVNULL, start_new_session=True)
                       for command in self.commands]
            try:
                while any(process.poll() is None for process in running):
                    if not points:
                        found["largest"] = max(cost(), found.get("largest", 0))
                    elif left and self.reached(left[0]):
                        time.sleep(0.2)  # the last to come may still be on the way to sleep
                        found[left[0]] = cost()
                        (self.points / f"{left.pop(0)}.go").touch()
                    if time.monotonic() > deadline:
                        raise ob.Failure(f"still running after {LIMIT_S} s: {shlex.join(running[0].args)}")
                    time.sleep(0.02)
            finally:
                for process in running:
                    if process.poll() is None:
                        os.killpg(process.pid, signal.SIGTERM)
                        process.wait()
            time.sleep(0.1)
            reap()
            output.seek(0)
            if left or any(process.returncode for process in running):
                raise ob.Failure(f"{shlex.join(running[0].args)}\nfailed, or did not come to the point {left[:1]}:\n"
                                 f"{output.read().strip()[-2000:]}")
        return found
