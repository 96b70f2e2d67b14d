"""onespace.Executor: concurrent.futures with workers that are tasks of this space."""
from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import Executor as _Base
from concurrent.futures import Future as _Future
from concurrent.futures import TimeoutError as _TimeoutError  # before Python 3.11 not the built-in one
from concurrent.futures._base import LOGGER
from functools import partial
from typing import Any, Union

from .. import _core
from .messages import Delivery
from .worker_group import WorkerGroup, WorkerSetup

Binding = Union[bool, Sequence[int], Sequence[Sequence[int]]]


class Condition(threading.Condition):
    """A condition variable that is safe with signal handlers that raise exceptions.

    threading.Condition acquires and releases its lock in methods written in Python. A signal handler that raises in
    such a method leaves the lock acquired, or makes `with` release it twice."""

    # `with` calls the methods of the lock itself, in which no signal handler runs.
    __enter__ = property(lambda self: self._lock.__enter__)  # type: ignore[assignment]
    __exit__ = property(lambda self: self._lock.__exit__)  # type: ignore[assignment]

    def wait(self, timeout: float | None = None) -> bool:
        """Return False at once: hides threading.Condition.wait, which is unsafe here. Use wait_until."""
        return False

    def wait_until(self, take: Callable[[], Any], timeout: float | None = None) -> Any:
        """Wait, without the lock, until take(), called with it, returns something true. Return that; after the timeout
        what it returns then."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            with self:
                taken = take()
                if taken:
                    return taken
                waiter = threading.Lock()
                waiter.acquire()
                self._waiters.append(waiter)  # type: ignore[attr-defined]
            try:
                left = -1 if end is None else max(0, min(end - time.monotonic(), threading.TIMEOUT_MAX))
                is_notified = waiter.acquire(True, left)
            finally:
                with self:
                    if waiter in self._waiters:  # type: ignore[attr-defined]
                        self._waiters.remove(waiter)  # type: ignore[attr-defined]
            if not is_notified:
                with self:
                    return take()


class Future(_Future):
    """A concurrent.futures.Future. A waiting thread polls for the result before it sleeps."""

    def __init__(self, group: WorkerGroup):
        super().__init__()
        self._condition = Condition()
        self._group = group

    def result(self, timeout: float | None = None) -> Any:
        """As concurrent.futures.Future.result."""
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """As concurrent.futures.Future.exception."""
        self._wait(timeout)
        return super().exception(0)

    def wait_done(self, timeout: float | None = None) -> float | None:
        """Wait until the future is done, at most `timeout` seconds. Return the remaining seconds."""
        begin = time.monotonic()
        try:
            self.exception(timeout)
        except (TimeoutError, _TimeoutError, CancelledError):
            pass
        return None if timeout is None else max(0.0, timeout - (time.monotonic() - begin))

    def check_process(self) -> None:
        """RuntimeError in a forked child of the process that made the pool."""
        self._group.check_process()

    def announce(self) -> None:
        """Wake the waiting threads and run the remaining callbacks of a future that is done: Ctrl-C may have
        interrupted set_result or set_exception."""
        with self._condition:
            self._condition.notify_all()
        self._invoke_callbacks()

    def _invoke_callbacks(self) -> None:
        """As the base class, but each callback runs once, even if an exception such as KeyboardInterrupt ends one and
        this is called again."""
        while True:
            try:
                callback = self._done_callbacks.pop(0)
            except IndexError:
                return
            try:
                callback(self)
            except Exception:
                LOGGER.exception("exception calling callback for %r", self)

    def _wait(self, timeout: float | None) -> None:
        left = self._poll_result(timeout)
        if self._state in ("PENDING", "RUNNING"):
            self._condition.wait_until(self.done, left)

    def _poll_result(self, timeout: float | None) -> float | None:
        """Poll for the result. Return the remaining timeout."""
        if self._state in ("PENDING", "RUNNING"):  # without the lock, which nothing releases in a forked child
            self._group.check_process()
        if self.done() or (timeout is not None and timeout <= 0):
            return timeout
        begin = time.monotonic()
        self._group.poll(self, timeout)
        return None if timeout is None else max(0.0, timeout - (time.monotonic() - begin))


class Executor(_Base):
    """A concurrent.futures.Executor whose workers are tasks of this space. Use it like ProcessPoolExecutor.

    Arrays in arguments and results are not copied: the worker reads the caller's memory, and the caller the worker's.
    The memory stays mapped as long as there are views of it, even after the worker's end. The arrays are read-only.

    max_workers: by default the number of CPUs that this program may use. initializer, initargs: called first in each
    worker. max_tasks_per_child: a worker is replaced after that many calls. writable: arrays are writable if they are
    writable for their owner, and each side sees what the other writes; "arguments", "results": only these. copy_below:
    arguments with fewer bytes are writable copies. bind: bind each worker to one CPU (True), or to the CPUs of its
    entry. env: variables added to the workers' environment. pickler: replaces pickle.Pickler, such as
    cloudpickle.CloudPickler. import_main: import this program's main module in workers.

    A worker that ends breaks the pool: concurrent.futures.process.BrokenProcessPool, as with ProcessPoolExecutor."""

    def __init__(self, max_workers: int | None = None, *, initializer: Callable[..., Any] | None = None,
                 initargs: tuple = (), max_tasks_per_child: int | None = None, writable: bool | str = False,
                 copy_below: int = 0, bind: Binding = False, env: Mapping[str, str] | None = None,
                 pickler: type | None = None, import_main: bool = True):
        if max_workers is None:
            max_workers = len(os.sched_getaffinity(0))
        if max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        if max_workers > _core.TASKS_MAX:
            raise ValueError(f"max_workers is {max_workers}: a space has at most {_core.TASKS_MAX} tasks")
        if writable not in (False, True, "arguments", "results"):
            raise ValueError(f"writable is {writable!r}: must be True, False, 'arguments' or 'results'")
        setup = WorkerSetup(initializer, tuple(initargs), max_tasks_per_child, pickler,
                      Delivery(writable in (True, "arguments"), copy_below), import_main)
        self._group = WorkerGroup(max_workers, setup, Delivery(writable in (True, "results")), _cpus_of(bind), env)

    @property
    def is_usable(self) -> bool:
        """Whether calls can be submitted: the pool is neither shut down nor broken."""
        return self._group.is_usable

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Call fn(*args, **kwargs) in a worker. The arguments are pickled now, but their arrays are read during the
        call: do not change them before its end."""
        future = Future(self._group)
        self._group.submit(future, (fn, args, kwargs))
        return future

    def map(self, fn: Callable[..., Any], *iterables: Iterable, timeout: float | None = None,
            chunksize: int = 1, **options: Any) -> Iterator:
        """As ProcessPoolExecutor.map: an iterator over fn(*items), in order. options: those of this version of Python,
        such as buffersize."""
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        if chunksize == 1:
            return super().map(fn, *iterables, timeout=timeout, **options)
        chunks = super().map(partial(call_chunk, fn), chunks_of(zip(*iterables), chunksize), timeout=timeout, **options)
        return itertools.chain.from_iterable(chunks)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Reject new calls. wait: return when all calls are done and the workers have ended. cancel_futures: cancel the
        calls that no worker has taken."""
        group = self._group
        group.close()
        if cancel_futures:
            group.cancel_queued()
        if wait:
            group.join()

    def kill(self) -> None:
        """Kill the workers. Calls without a result fail with BrokenProcessPool."""
        self._group.terminate("the pool was killed")
        self._group.join()

    def __exit__(self, kind, value, traceback) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self._interrupt()
        else:
            self.shutdown(wait=True)

    def _interrupt(self) -> None:
        """The first Ctrl-C interrupts the running calls and cancels the others; the second kills the workers."""
        try:
            self._group.interrupt()
            self._group.join()
        except KeyboardInterrupt:
            self.kill()

    def __del__(self) -> None:
        group = getattr(self, "_group", None)
        if group is not None:
            group.close()


def call_chunk(fn: Callable, chunk: list[tuple]) -> list:
    """Several calls, made by one message to a worker."""
    return [fn(*args) for args in chunk]


def chunks_of(items: Iterable, size: int) -> Iterator[list]:
    """Lists of `size` items."""
    items = iter(items)
    while chunk := list(itertools.islice(items, size)):
        yield chunk


def _cpus_of(bind: Binding) -> list[list[int]]:
    """The CPUs of each worker, used in turn; an empty list: all CPUs."""
    if bind is False or bind is None:
        return []
    if bind is True:
        return [[cpu] for cpu in sorted(os.sched_getaffinity(0))]
    sets = [[entry] if isinstance(entry, int) else list(entry) for entry in bind]
    if not sets or not all(sets):
        raise ValueError("bind is empty: give one or more CPUs for each worker, or True")
    return sets
