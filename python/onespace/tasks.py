"""Membership, and programs as tasks."""
from __future__ import annotations

import os
import signal as _signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Union

from . import _core

ROOT: int = _core.ROOT
"""The root's id."""

PathLike = Union[str, "os.PathLike[str]"]
File = Union[int, IO, None]


def init() -> int:
    """Make this process the root of a new space, or attach to the space that it is a task of. Returns its id: 0 for the
    root. Everything else in this package calls it."""
    return _core.init()


def number() -> int:
    """This task's number among those that were started together. LookupError: it has none."""
    return _core.number()


def ntasks() -> int:
    """How many tasks were started together with this one. LookupError: this member has no number."""
    return _core.ntasks()


def spawner() -> int:
    """The id of the member that spawned this task: the root, or the task that called spawn. LookupError: this is the
    root."""
    return _core.spawner()


def task_of_number(number: int) -> int:
    """The id of the task with that number among those that were started together. LookupError: there is none (yet);
    OwnerEnded: it has ended."""
    return _core.task_of_number(number)


def barrier(timeout: float | None = None) -> None:
    """Wait until all tasks that were started together have arrived. What they wrote before is visible afterwards.
    TimeoutError: the arrival is revoked; OwnerEnded: one of them has ended; LookupError: this member has no number."""
    _core.barrier(timeout)


def call(member: int | Task, name: str, *args: object) -> int:
    """Call a C function of another member, on this thread: see Task.call. member: a task, or an id such as ROOT."""
    return _core.call(int(member), name, *args)


def serve_calls() -> None:
    """Let other members call the C functions of this program and of its libraries, from now on until it ends."""
    _core.serve_calls()


class Task:
    """A task started by this program. As a context manager it is waited for at the end of the block."""

    def __init__(self, id: int, args: Sequence[str], pid: int):
        self.id: int = id
        """Its id in the space."""
        self.args: tuple[str, ...] = tuple(args)
        self.pid: int = pid
        """Its process id."""
        self.returncode: int | None = None
        """The exit status; -N if signal N ended it; None: not known yet."""
        self.user_s: float | None = None
        """CPU time in user mode, once it has been waited for."""
        self.system_s: float | None = None
        """CPU time in the kernel, likewise."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; return its return code. TimeoutError: it still runs."""
        if self.returncode is None:
            ended = _core.wait(self.id, timeout)
            if ended is None:
                raise TimeoutError(f"{self} still runs after {timeout} s")
            _, status, self.user_s, self.system_s = ended
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def poll(self) -> int | None:
        """The return code, or None while it runs."""
        try:
            return self.wait(0)
        except TimeoutError:
            return None

    def send_signal(self, number: int) -> None:
        """Send it a signal; no effect if it has ended."""
        if self.poll() is None:
            try:
                _core.kill(self.id, number)
            except ProcessLookupError:
                pass

    def terminate(self) -> None:
        """Send it SIGTERM."""
        self.send_signal(_signal.SIGTERM)

    def kill(self) -> None:
        """Send it SIGKILL."""
        self.send_signal(_signal.SIGKILL)

    def call(self, name: str, *args: object) -> int:
        """Call a C function of the task's program or of its libraries, on this thread, with the task's heap, errno and
        thread-local storage. The task serves calls (spawn(calls=True), or onespace_call_serve in C).

        args: at most six integers, None (NULL), bytes, or objects with a contiguous buffer (arrays), whose address the
        function gets, as it gets nothing else: their size is an argument of its own. Returns what the function returns
        as a signed integer of 64 bits; a function that returns an int, or nothing, leaves the upper 32, or all,
        undefined. Other threads of this program run meanwhile. LookupError: there is no such function; OwnerEnded: the
        task has ended, perhaps during the call; OSError with ECANCELED: the function threw an exception, with ENOTSUP:
        the task serves no calls."""
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


def spawn(args: Sequence[PathLike], *, env: Mapping[str, str] | None = None, cwd: PathLike | None = None,
          stdin: File = None, stdout: File = None, stderr: File = None, close_fds: bool = False,
          pass_fds: Iterable[int] = (), number: int | None = None, ntasks: int | None = None,
          cpus: Iterable[int] = (), new_session: bool = False, hold: bool = False,
          calls: bool = False) -> Task:
    """Run a program as a task of this space. Arguments named as those of subprocess.Popen mean the same.

    args: the program, searched along PATH, and its arguments. env: its environment (None: ours). cwd: its working
    directory. stdin, stdout, stderr: descriptors or files (None: ours). close_fds: it gets only these three and
    pass_fds. number, ntasks: its number among tasks that are started together, and their number (see barrier). cpus:
    CPUs that it may use. hold: its exports can be imported even after its end. calls: its C functions can be called
    (Task.call).

    ValueError: an argument or a variable contains a null byte, or a variable's name contains "=".
    FileNotFoundError, PermissionError: the program's file. OSError with ENOEXEC: it cannot be a task; the message says
    why and what to do. The space ends with this program: wait for the tasks."""
    words = [os.fspath(word) for word in ([args] if isinstance(args, (str, os.PathLike)) else args)]
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
    for file in (sys.stdout, sys.stderr):  # our earlier output must come before the task's
        if file is not None and not file.closed:
            file.flush()
    directory = -1 if cwd is None else os.open(cwd, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        id = _core.spawn(words[0], words, environment, directory, descriptors, -1 if number is None else number,
                         -1 if ntasks is None else ntasks, flags, list(cpus))
    finally:
        if directory >= 0:
            os.close(directory)
    return Task(id, words, _core.pid(id))


def _variable(name: str, value: str) -> str:
    if "=" in name:
        raise ValueError(f"illegal environment variable name: {name!r} contains '='")
    return f"{name}={value}"


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def spawn_python(script: PathLike, *args: str, python: PathLike | None = None, cwd: PathLike | None = None,
                 **options) -> Task:
    """Run a Python script as a task, with this program's interpreter and virtual environment (or `python`). Options are
    those of spawn. FileNotFoundError: there is no such script."""
    path = os.path.join(cwd, script) if cwd is not None else os.fspath(script)
    if not os.path.exists(path):
        raise FileNotFoundError(2, "there is no such script: give its path, from the task's working directory",
                                os.fspath(script))
    if os.path.isdir(path) and not os.path.exists(os.path.join(path, "__main__.py")):
        raise IsADirectoryError(21, "is a directory without __main__.py: give a script", os.fspath(script))
    program = os.fspath(python or sys.executable)
    if not program:
        raise ValueError("this program does not know its Python (sys.executable is empty): give python=")
    return spawn([program, os.fspath(script), *args], cwd=cwd, **options)
