"""Membership, and programs as tasks."""
from __future__ import annotations

import os
import signal as _signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Union

from . import _core

ROOT: int = _core.ROOT
"""The root's id."""

PathLike = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
File = Union[int, IO, None]


class OwnerEnded(ProcessLookupError):
    """The task that owns an object has ended, or has executed another program."""


def init() -> int:
    """Make this process the root of a new space, or attach to the space of which it is a task. Return its id: 0 for the
    root. All other functions of this package call it."""
    return _core.init()


def number() -> int:
    """This task's number among the tasks that were started together. LookupError: it has none."""
    return _core.number()


def ntasks() -> int:
    """The number of tasks that were started together with this one. LookupError: this member has no number."""
    return _core.ntasks()


def spawner() -> int:
    """The id of the member that spawned this task: the root, or the task that called spawn. LookupError: this is the
    root."""
    return _core.spawner()


def task_of_number(number: int) -> int:
    """The id of the task with that number among the tasks that were started together. LookupError: it does not exist or
    has not started; OwnerEnded: it has ended."""
    return _core.task_of_number(number)


def barrier(timeout: float | None = None) -> None:
    """Wait until all tasks that were started together have arrived. Afterwards their earlier writes are visible.
    TimeoutError: this task does not count as arrived; OwnerEnded: one of the tasks has ended; LookupError: this member
    has no number."""
    _core.barrier(timeout)


def call(member: int | Task, name: str, *args: object) -> int:
    """Call a C function of another member on this thread: see Task.call. member: a Task, or an id such as ROOT."""
    return _core.call(int(member), name, *args)


def serve_calls() -> None:
    """Let other members call the C functions of this program and of its libraries until it ends."""
    _core.serve_calls()


class Task:
    """A task started by this program. As a context manager it waits for the task at the end of the block."""

    def __init__(self, id: int, args: Sequence[str], pid: int):
        self.id: int = id
        """Its id in the space."""
        self.args: tuple[str, ...] = tuple(args)
        self.pid: int = pid
        """Its process id."""
        self.returncode: int | None = None
        """The exit status; -N if signal N ended the task; None: not known yet."""
        self.user_s: float | None = None
        """CPU time in user mode in seconds, known after wait()."""
        self.system_s: float | None = None
        """CPU time in the kernel in seconds, known after wait()."""
        self._ended: list[tuple[int, int, float, float]] = []  # filled by _core.wait, once
        self._waiting: list[None] = []  # one for each thread in _core.wait

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the task has ended; return its return code. TimeoutError: it still runs."""
        if self.returncode is None:
            self._waiting.append(None)
            try:
                if not self._ended and not _core.wait(self.id, timeout, self._ended):
                    raise TimeoutError(f"{self} still runs after {timeout} s")
            except ChildProcessError:
                if not self._other_thread_has_status():
                    raise
            finally:
                self._waiting.pop()
            pid, status, self.user_s, self.system_s = self._ended[0]
            if self.pid < 0:  # the task ended before spawn asked for it
                self.pid = pid
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def _other_thread_has_status(self) -> bool:
        """The status is given once: another thread that waits may have it, and be about to store it."""
        end = time.monotonic() + 1
        while not self._ended and len(self._waiting) > 1 and time.monotonic() < end:
            time.sleep(0.0001)
        return bool(self._ended)

    def poll(self) -> int | None:
        """The return code, or None while the task runs."""
        try:
            return self.wait(0)
        except TimeoutError:
            return None

    def send_signal(self, number: int) -> None:
        """Send a signal to the task; no effect if it has ended."""
        if self.returncode is None:
            try:
                _core.kill(self.id, number)
            except ProcessLookupError:
                pass

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(_signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(_signal.SIGKILL)

    def call(self, name: str, *args: object) -> int:
        """Call a C function of the task's program or of its libraries on this thread, with the task's heap, errno and
        thread-local storage. The task must serve calls (spawn(calls=True), or onespace_call_serve in C).

        args: at most six integers, None (NULL), bytes, or objects with a contiguous buffer (arrays). For a buffer the
        function gets the address only: pass the size as another argument. Returns the function's result as a signed
        64-bit integer; if the function returns an int or nothing, the upper 32 or all bits are undefined. Other
        threads of this program run meanwhile. LookupError: there is no such function; OwnerEnded: the task has ended,
        perhaps during the call; OSError with ECANCELED: the function threw an exception; with ENOTSUP: the task does
        not serve calls."""
        return call(self, name, *args)

    def __index__(self) -> int:
        return self.id

    __int__ = __index__

    def __enter__(self) -> Task:
        return self

    def __exit__(self, kind, value, traceback) -> None:
        if kind is not None:
            self.kill()
        self.wait()

    def __repr__(self) -> str:
        state = "running" if self.returncode is None else f"ended with {self.returncode}"
        return f"<onespace.Task {self.id} ({' '.join(self.args[:3])}), {state}>"


def _descriptor(file: File) -> int:
    return file if isinstance(file, int) else file.fileno()


def spawn(args: Sequence[PathLike], *, env: Mapping[str | bytes, PathLike] | None = None, cwd: PathLike | None = None,
          stdin: File = None, stdout: File = None, stderr: File = None, close_fds: bool = False,
          pass_fds: Iterable[int] = (), number: int | None = None, ntasks: int | None = None,
          cpus: Iterable[int] = (), new_session: bool = False, hold: bool = False,
          calls: bool = False) -> Task:
    """Run a program as a task of this space. Arguments named as those of subprocess.Popen mean the same.

    args: the program, searched in PATH, and its arguments. env: its environment (None: this program's). cwd: its
    working directory. stdin, stdout, stderr: descriptors or files (None: this program's). close_fds: the task gets only
    these three and pass_fds. number, ntasks: its number among tasks that are started together, and their count (see
    barrier). cpus: the CPUs that it may use. hold: its exports can be imported even after its end. calls: its C
    functions can be called (Task.call).

    ValueError: an argument or a variable contains a null byte, or a variable's name contains "=".
    FileNotFoundError, PermissionError: the program's file cannot be executed. OSError with ENOEXEC: the program cannot
    be a task; the message has the reason and the fix. The space ends with this program: wait for the tasks."""
    words = [os.fspath(word) for word in ([args] if isinstance(args, (str, bytes, os.PathLike)) else args)]
    if not words:
        raise ValueError("args is empty: give a program and its arguments")
    if (number is None) != (ntasks is None):
        raise ValueError("number and ntasks belong together: give both or neither")
    if number is not None and not 0 <= number < ntasks:
        raise ValueError(f"number {number} is not below ntasks {ntasks}")
    descriptors = [(_descriptor(file), target) for target, file in enumerate((stdin, stdout, stderr))
                   if file is not None]
    if close_fds:
        given = {target for _, target in descriptors}
        descriptors += [(target, target) for target in (0, 1, 2) if target not in given and _is_open(target)]
    descriptors += [(fd, fd) for fd in pass_fds]
    flags = ((_core.CLOSE_FDS if close_fds else 0) | (_core.SESSION if new_session else 0) |
             (_core.HOLD if hold else 0) | (_core.CALLS if calls else 0))
    environment = None if env is None else [_variable(name, value) for name, value in env.items()]
    for file in (sys.stdout, sys.stderr):  # earlier output must precede the task's
        if file is not None and not file.closed:
            file.flush()
    directory = -1 if cwd is None else os.open(cwd, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        id = _core.spawn([os.fsencode(word) for word in words], environment, directory, descriptors,
                         -1 if number is None else number, -1 if ntasks is None else ntasks, flags, list(cpus))
    finally:
        if directory >= 0:
            os.close(directory)
    task = Task(id, [os.fsdecode(word) for word in words], _core.pid(id))
    if task.pid < 0:
        task.wait()  # the status has the process id of a task that has ended
    return task


def _variable(name: str | bytes, value: PathLike) -> bytes:
    if b"=" in os.fsencode(name):
        raise ValueError(f"illegal environment variable name: {name!r} contains '='")
    return os.fsencode(name) + b"=" + os.fsencode(value)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def spawn_python(script: PathLike, *args: str, python: PathLike | None = None, cwd: PathLike | None = None,
                 **options) -> Task:
    """Run a Python script as a task, with this program's interpreter and virtual environment (or `python`). It has the
    options of spawn. FileNotFoundError: there is no such script."""
    script = os.fsdecode(script)
    path = os.path.join(os.fsdecode(cwd), script) if cwd is not None else script
    if not os.path.exists(path):
        raise FileNotFoundError(2, "there is no such script: give its path, from the task's working directory", script)
    if os.path.isdir(path) and not os.path.exists(os.path.join(path, "__main__.py")):
        raise IsADirectoryError(21, "is a directory without __main__.py: give a script", script)
    program = os.fspath(python or sys.executable)
    if not program:
        raise ValueError("sys.executable is empty: give python=")
    return spawn([program, script, *args], cwd=cwd, **options)
