"""tests/lib/jobs.py: starts commands with a time limit each and checks that nothing is left behind.

Every process of a test carries the variable ONESPACE_TEST_JOB in its environment, tasks too, since
/proc shows them the environment of the process whose memory they share. So what is left can be told
from what other tests, or other users of the machine, are running."""
import contextlib
import dataclasses
import fcntl
import os
import pathlib
import pty
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import termios
import threading
import time
import uuid

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ONESPACE = os.environ.get("ONESPACE_BIN", str(ROOT / "build/bin/onespace"))
BUILD = pathlib.Path(os.environ.get("ONESPACE_BUILD", pathlib.Path(ONESPACE).resolve().parents[1]))
RUN = [ONESPACE, "run"]
TIMEOUT_MIN_S = 180  # limits are for what hangs: two whole runs may share the CPUs
# A user without other processes, which RLIMIT_NPROC would count: not those of another run of these tests either.
LONE_USER = 1_000_000 + os.getpid()
GRACE_S = 180  # for the host to linger and to leave, on a busy machine


@dataclasses.dataclass
class Result:
    argv: list
    code: int  # as a shell would see it: 128 + N for signal N
    out: str
    err: str

    @property
    def lines(self):
        return sorted(self.out.split("\n")[:-1])

    def expect(self, code=0, *, out=None, lines=None, err=None, shows=(), says=()):
        """Asserts the exit status, the whole output or its sorted lines, the whole of standard error, and texts that
        stand in the output (shows) and in standard error (says). Gives itself."""
        assert self.code == code, str(self)
        assert out is None or self.out == out, str(self)
        assert lines is None or self.lines == lines, str(self)
        assert err is None or self.err == err, str(self)
        for texts, stream in ((shows, self.out), (says, self.err)):
            for text in [texts] if isinstance(texts, str) else texts:
                assert text in stream, f"{text!r} is missing: {self}"
        return self

    def __str__(self):
        text = f"{' '.join(map(str, self.argv))}: exit status {self.code}\n"
        return text + f"--- stdout\n{self.out[-6000:]}\n--- stderr\n{self.err[-6000:]}"


@dataclasses.dataclass
class Process:
    pid: int
    parent: int
    name: str
    state: str
    argv: list


def read_process(pid):
    directory = pathlib.Path("/proc") / str(pid)
    try:
        stat = (directory / "stat").read_text()
        argv = (directory / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return None
    fields = stat[stat.rindex(")") + 2:].split()
    name = stat[stat.index("(") + 1:stat.rindex(")")]
    return Process(int(pid), int(fields[1]), name, fields[0], argv)


def processes_with(variable, value):
    """The processes, zombies too, in whose environment the variable has that value."""
    mark = f"{variable}={value}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                marked = mark in file.read().split(b"\0")
        except OSError:
            continue
        process = read_process(entry) if marked else None
        if process:
            found.append(process)
    return found


def with_mounts(script, word="sh"):
    """A command prefix: in a mount namespace in which the script, whose $0 is the word, has mounted something."""
    unshare = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    prefix = [*unshare, "sh", "-c", f'{script} && exec "$@"', word]
    if not shutil.which("unshare") or subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no namespaces can be made here: of mounts")
    return prefix


def with_shm(options):
    """A command prefix: /dev/shm is a tmpfs with these options."""
    return with_mounts(f"mount -t tmpfs -o {options} tmpfs /dev/shm")


def with_entry(directory, name, place, more_mounts=""):
    """A command prefix: in the directory, such as /etc, the entry of that name is `place`/new/NAME, which the caller
    makes, and all others are the machine's."""
    (place / "old").mkdir()
    (place / "new").mkdir()
    for other in os.listdir(directory):
        if other != name:
            (place / "new" / other).symlink_to(place / "old" / other)
    script = f'mount --rbind {directory} "$0/old" && mount --bind "$0/new" {directory}{more_mounts}'
    return with_mounts(script, str(place))


def lone_user(descriptors):
    """A preexec function after which a command runs as a user without other processes, and may have that many
    descriptors."""
    def become():
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
        os.setgid(LONE_USER)
        os.setuid(LONE_USER)
    return become


@contextlib.contextmanager
def descriptors_in_flight(become, count):
    """More than `count` descriptors of the user that `become` makes a process are sent and not received. The kernel
    counts those against the limit of each process of the user that sends more."""
    holder = os.fork()
    if holder == 0:
        try:
            os.setsid()
            become()
            left, _right = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            for _ in range(count // 10 + 1):
                socket.send_fds(left, [b"x"], [left.fileno()] * 10)
            os.kill(os.getpid(), signal.SIGSTOP)
        finally:
            os._exit(0)
    try:
        assert os.WIFSTOPPED(os.waitpid(holder, os.WUNTRACED)[1])
        yield
    finally:
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)


def eventually(condition, seconds=180):
    """Whether the condition becomes true; the limit is for hangs."""
    deadline = time.monotonic() + seconds
    while not (result := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return result


class Command:
    """A running command; its output is read as it comes."""

    def __init__(self, job, argv, timeout, env, stdin, user_preexec, terminal, **options):
        self.job, self.argv = job, [str(word) for word in argv]
        timeout = max(timeout, TIMEOUT_MIN_S)
        self.deadline = time.monotonic() + timeout
        self.timeout = timeout
        self.text = {1: b"", 2: b""}
        self.grown = threading.Condition()
        master = slave = None
        if terminal:
            master, slave = pty.openpty()
            stdin = slave

        def prepare():
            os.setsid()
            if terminal:
                fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            if user_preexec:
                user_preexec()

        self.terminal = master
        self.process = subprocess.Popen(
            self.argv, env=env, preexec_fn=prepare,
            stdin=subprocess.PIPE if isinstance(stdin, (bytes, str)) else stdin,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        if slave is not None:
            os.close(slave)
        self.threads = [threading.Thread(target=self._read, args=(1, self.process.stdout), daemon=True),
                        threading.Thread(target=self._read, args=(2, self.process.stderr), daemon=True)]
        if isinstance(stdin, (bytes, str)):
            data = stdin.encode() if isinstance(stdin, str) else stdin
            self.threads.append(threading.Thread(target=self._write, args=(data,), daemon=True))
        for thread in self.threads:
            thread.start()

    @property
    def pid(self):
        return self.process.pid

    def _read(self, which, stream):
        while data := os.read(stream.fileno(), 65536):
            with self.grown:
                self.text[which] += data
                self.grown.notify_all()

    def _write(self, data):
        try:
            self.process.stdin.write(data)
            self.process.stdin.close()
        except BrokenPipeError:
            pass

    def so_far(self, code=-1):
        return Result(self.argv, code, self.text[1].decode(errors="replace"),
                      self.text[2].decode(errors="replace"))

    def _fail(self, why):
        alive = self.job.processes()
        self.job.kill_all()
        self.job.may_leave_socket = True
        pytest.fail(f"{why}\n{self.so_far()}\n--- alive then\n" +
                    "\n".join(str(process) for process in alive), pytrace=False)

    def _until(self):
        """When to give up: what the test did before may have taken all of the command's time."""
        return max(self.deadline, time.monotonic() + TIMEOUT_MIN_S)

    def wait_for(self, text, count=1):
        """Until standard output holds `text` that many times."""
        until = self._until()
        with self.grown:
            while self.text[1].decode(errors="replace").count(text) < count:
                left = until - time.monotonic()
                ended = not self.threads[0].is_alive()
                if left <= 0 or ended:
                    break
                self.grown.wait(min(left, 0.2))
            else:
                return
        self._fail(f"did not see {count} times {text!r}" +
                   (": the output ended" if ended else f" within {self.timeout} s"))

    def type(self, keys):
        os.write(self.terminal, keys)

    def signal(self, number):
        os.kill(self.pid, number)

    def finish(self):
        """Waits for the end, and for the end of the output as launchers and shells do."""
        try:
            code = self.process.wait(self._until() - time.monotonic())
        except subprocess.TimeoutExpired:
            self._fail(f"still running after {self.timeout} s")
        for thread in self.threads:
            thread.join(self._until() - time.monotonic())
            if thread.is_alive():
                self._fail(f"ended with {code}, but its output was held open for {self.timeout} s")
        if self.terminal is not None:
            os.close(self.terminal)
        self.process.stdout.close()
        self.process.stderr.close()
        return self.so_far(code if code >= 0 else 128 - code)


class Job:
    """The commands of one test, with a runtime directory of their own."""

    def __init__(self):
        self.token = uuid.uuid4().hex
        self.runtime = tempfile.mkdtemp(prefix="os", dir="/tmp")
        self.may_leave_socket = False  # by a host that the test has killed, or that was killed when it failed
        self.env = {name: value for name, value in os.environ.items()
                    if not name.startswith(("PMI", "OMPI_", "SLURM", "PBS_", "LSB_", "PE_", "OAR_", "ONESPACE_"))}
        self.env.update(ONESPACE_TEST_JOB=self.token, XDG_RUNTIME_DIR=self.runtime, LC_ALL="C.UTF-8")

    def start(self, argv, timeout=180, env=None, stdin=subprocess.DEVNULL, preexec_fn=None,
              terminal=False, **options):
        return Command(self, argv, timeout, {**self.env, **(env or {})}, stdin, preexec_fn, terminal,
                       **options)

    def run(self, argv, **options):
        return self.start(argv, **options).finish()

    def processes(self):
        """What this test started and is still alive (or a zombie of such a process)."""
        return processes_with("ONESPACE_TEST_JOB", self.token)

    def named(self, name):
        return [process for process in self.processes() if process.name == name]

    def shims(self):
        return [process for process in self.processes()
                if process.name == "onespace" and process.argv[1:2] == ["run"]]

    def hosts(self):
        return [process for process in self.processes()
                if process.name == "onespace-host" and process.argv[:1] == ["onespace-host"]]

    def kill_all(self):
        for _ in range(10):
            alive = self.processes()
            for process in alive:
                try:
                    os.kill(process.pid, signal.SIGKILL)
                except OSError:
                    pass
            if not alive:
                return
            time.sleep(0.05)

    def sockets(self):
        return sorted(os.path.join(directory, name) for directory, directories, files in os.walk(self.runtime)
                      for name in directories + files)

    def close(self):
        """Kills what is left and says what that was."""
        until = time.monotonic() + GRACE_S
        while True:
            alive, files = self.processes(), self.sockets()
            if not alive and (not files or self.may_leave_socket) or time.monotonic() > until:
                break
            time.sleep(0.05)
        self.kill_all()
        shutil.rmtree(self.runtime, ignore_errors=True)
        left = [str(process) for process in alive]
        if not self.may_leave_socket:
            left += files
        return left


@pytest.fixture
def job():
    job = Job()
    yield job
    left = job.close()
    assert not left, "left behind:\n" + "\n".join(left)
