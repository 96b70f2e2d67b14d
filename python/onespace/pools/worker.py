"""A worker as its parent sees it: the task, its socket, its memory."""
from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence

from .. import _core, tasks

_PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Held:
    """The memory of a member, which stays as long as this object, even after the member's end."""

    __slots__ = ("id", "_release")

    def __init__(self, id: int, taken: bool = False):
        if not taken and _core.hold(id) < 0:
            raise _core_ended(id)
        self.id = id
        self._release = _core.release

    def __del__(self) -> None:
        release = getattr(self, "_release", None)
        if release is not None:
            release(self.id)


def _core_ended(id: int) -> Exception:
    from .._errors import OwnerEnded
    return OwnerEnded(130, f"a result lies in the memory of task {id}, which has ended, and nobody held it")


class Worker:
    """One worker, from its start until it was waited for."""

    def __init__(self, number: int, dispatcher: _core.Dispatcher, cpus: Sequence[int],
                 env: Mapping[str, str] | None):
        self.number = number
        self.is_leaving = False  # its end is no surprise: the pool is closed, or it has made as many calls as it may
        self.socket, theirs = socket.socketpair()
        dispatcher.seat(number, self.socket.fileno())  # before it can sleep: who wakes it needs the socket
        with theirs, open(os.devnull, "rb") as nothing:
            fd = theirs.fileno()
            code = (f"import sys; sys.path.insert(0, {_PACKAGES!r}); from onespace.pools.program import main; "
                    f"main({dispatcher.address}, {number}, {fd}, {_core.init()}, {os.getpid()})")
            try:
                self.task = tasks.spawn([*_interpreter(), "-c", code], stdin=nothing, close_fds=True, pass_fds=[fd],
                                        cpus=cpus, env=env, hold=True)
            except BaseException:
                dispatcher.seat(number, -1)
                self.socket.close()
                raise
        self.held = Held(self.task.id, taken=True)
        try:
            self.process = os.pidfd_open(self.task.pid)
        except OSError:
            self.process = None  # the socket tells of its end, too
        self.socket.setblocking(False)

    def descriptors(self) -> list[int]:
        """Become readable when it has ended; the first also when it has sent something."""
        return [self.socket.fileno(), *([self.process] if self.process is not None else [])]

    def has_ended(self) -> bool:
        """Empties the socket. True if there is nobody at its other end, or the process has ended."""
        try:
            if not self.socket.recv(4096):
                return True
        except BlockingIOError:
            pass
        except OSError:
            return True
        return self.process is not None and _is_readable(self.process)

    def kill(self) -> None:
        """Ends it, whatever it does; also if it has become another program, which is no task."""
        try:
            if self.process is not None:
                signal.pidfd_send_signal(self.process, signal.SIGKILL)
            else:
                self.task.kill()
        except ProcessLookupError:
            pass

    def interrupt(self) -> None:
        """Raises KeyboardInterrupt in the call that it makes."""
        try:
            self.task.send_signal(signal.SIGINT)
        except OSError:
            pass

    def wait(self) -> int:
        """Its return code. Precondition: it is ending."""
        try:
            return self.task.wait(1)
        except TimeoutError:
            self.kill()
            return self.task.wait()

    def close(self) -> None:
        self.socket.close()
        if self.process is not None:
            os.close(self.process)
            self.process = None

    def __str__(self) -> str:
        return f"worker {self.number} (task {self.task.id}, process {self.task.pid})"


def _interpreter() -> list[str]:
    if not sys.executable:
        raise ValueError("this program does not know its Python (sys.executable is empty): a pool needs it for its "
                         "workers")
    return [sys.executable, *subprocess._args_from_interpreter_flags()]


def _is_readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def ended_how(code: int) -> str:
    if code >= 0:
        return f"ended with {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
