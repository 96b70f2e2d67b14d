"""onespace.Executor: concurrent.futures with workers that are tasks of this space."""
from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import Executor as _Base
from concurrent.futures import Future as _Future
from concurrent.futures import TimeoutError as _TimeoutError  # before Python 3.11 not the built-in one
from functools import partial
from typing import Any, Union

from .condition import Condition
from .crew import Crew, Setup
from .messages import Delivery

Binding = Union[bool, Sequence[int], Sequence[Sequence[int]]]


class Future(_Future):
    """A concurrent.futures.Future. Who waits for it polls for the result before it sleeps."""

    def __init__(self, crew: Crew):
        super().__init__()
        self._condition = Condition()
        self._crew = crew

    def result(self, timeout: float | None = None) -> Any:
        """As concurrent.futures.Future.result."""
        return super().result(self._look(timeout))

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """As concurrent.futures.Future.exception."""
        return super().exception(self._look(timeout))

    def wait_done(self, timeout: float | None = None) -> float | None:
        """Waits until it is done, or for so many seconds; returns what is left of them."""
        begin = time.monotonic()
        try:
            self.exception(timeout)
        except (TimeoutError, _TimeoutError, CancelledError):
            pass
        return None if timeout is None else max(0.0, timeout - (time.monotonic() - begin))

    def _look(self, timeout: float | None) -> float | None:
        """Polls; returns what is left of the timeout."""
        if self._state in ("PENDING", "RUNNING"):  # read without the lock, which a forked child may never get
            self._crew.check_process()
        if self.done() or (timeout is not None and timeout <= 0):
            return timeout
        begin = time.monotonic()
        self._crew.look(self)
        return None if timeout is None else max(0.0, timeout - (time.monotonic() - begin))


class Executor(_Base):
    """A concurrent.futures.Executor whose workers are tasks of this space, used as ProcessPoolExecutor is.

    Arrays in arguments and results are not copied: the worker reads the caller's memory, and the caller the worker's,
    for as long as there are views of it, even after the worker's end. They are read-only.

    max_workers: the CPUs that this program may use, by default. initializer, initargs: called first in each worker.
    max_tasks_per_child: a worker is replaced after so many calls. writable: arrays arrive writable where they are
    writable at their owner's: what one side writes, the other sees; "arguments", "results": only these. copy_below:
    arguments with fewer bytes arrive as copies of their own, writable. bind: each worker may use one CPU (True), or the
    CPUs of its entry. env: the workers' environment, in addition to ours. pickler: in place of pickle.Pickler, such as
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
        if writable not in (False, True, "arguments", "results"):
            raise ValueError(f"writable is {writable!r}: give True, False, 'arguments' or 'results'")
        setup = Setup(initializer, tuple(initargs), max_tasks_per_child, pickler,
                      Delivery(writable in (True, "arguments"), copy_below), import_main)
        self._crew = Crew(max_workers, setup, Delivery(writable in (True, "results")), _cpus(bind), env)

    @property
    def is_usable(self) -> bool:
        """Whether calls can be submitted: it is neither shut down nor broken."""
        return self._crew.is_usable

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Calls fn(*args, **kwargs) in a worker. The arguments are pickled now; arrays in them are read when the call
        is made: do not change them before."""
        future = Future(self._crew)
        self._crew.submit(future, (fn, args, kwargs))
        return future

    def map(self, fn: Callable[..., Any], *iterables: Iterable, timeout: float | None = None,
            chunksize: int = 1) -> Iterator:
        """As ProcessPoolExecutor.map: an iterator over fn(*items), in order."""
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        if chunksize == 1:
            return super().map(fn, *iterables, timeout=timeout)
        chunks = super().map(partial(call_chunk, fn), chunks_of(zip(*iterables), chunksize), timeout=timeout)
        return itertools.chain.from_iterable(chunks)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """No new calls. wait: return when all have been made and the workers have ended. cancel_futures: cancel those
        that no worker has."""
        crew = self._crew
        if cancel_futures:
            crew.cancel_waiting()
        crew.close()
        if wait:
            crew.join()

    def kill(self) -> None:
        """Ends the workers at once. Calls that have no result yet fail with BrokenProcessPool."""
        self._crew.terminate("the pool was killed")
        self._crew.join()

    def __exit__(self, kind, value, traceback) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self._interrupt()
        else:
            self.shutdown(wait=True)

    def _interrupt(self) -> None:
        """Ctrl-C ends the calls that are being made, and cancels the others; the second kills the workers."""
        try:
            self._crew.interrupt()
            self._crew.join()
        except KeyboardInterrupt:
            self.kill()

    def __del__(self) -> None:
        crew = getattr(self, "_crew", None)
        if crew is not None:
            crew.close()


def call_chunk(fn: Callable, chunk: list[tuple]) -> list:
    """In a worker: several calls at once."""
    return [fn(*args) for args in chunk]


def chunks_of(items: Iterable, size: int) -> Iterator[list]:
    """Lists of so many items."""
    items = iter(items)
    while chunk := list(itertools.islice(items, size)):
        yield chunk


def _cpus(bind: Binding) -> list[list[int]]:
    """The CPUs of each worker in turn; none: all."""
    if bind is False or bind is None:
        return []
    if bind is True:
        return [[cpu] for cpu in sorted(os.sched_getaffinity(0))]
    sets = [[entry] if isinstance(entry, int) else list(entry) for entry in bind]
    if not sets or not all(sets):
        raise ValueError("bind is empty: give a CPU or some for each worker, or True")
    return sets
