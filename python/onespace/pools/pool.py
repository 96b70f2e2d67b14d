"""onespace.Pool: multiprocessing.Pool with workers that are tasks of this space."""
from __future__ import annotations

import collections
import itertools
import multiprocessing
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from functools import partial
from typing import Any

from .condition import Condition
from .executor import Executor, Future, call_chunk, chunks_of


class _TimeoutError(multiprocessing.TimeoutError, TimeoutError):
    """What either name catches."""


class AsyncResult:
    """The result of a call, or of the calls of map_async; as multiprocessing.pool.AsyncResult."""

    def __init__(self, futures: list[Future], value_of: Callable[[list], Any], callback: Callable | None,
                 error_callback: Callable | None):
        self._futures, self._value_of = futures, value_of
        self._left = len(futures)
        self._lock = threading.Lock()
        self._callback, self._error_callback = callback, error_callback
        for future in futures:
            future.add_done_callback(self._on_done)
        if not futures and callback is not None:
            callback(value_of([]))

    def _on_done(self, future: Future) -> None:
        with self._lock:
            self._left -= 1
            if self._left > 0:
                return
        error = self._error()
        if error is not None and self._error_callback is not None:
            self._error_callback(error)
        elif error is None and self._callback is not None:
            self._callback(self._value())

    def _error(self) -> BaseException | None:
        for future in self._futures:
            if future.cancelled():
                return CancelledError()
            if future.exception() is not None:
                return future.exception()
        return None

    def _value(self) -> Any:
        return self._value_of([future.result() for future in self._futures])

    def ready(self) -> bool:
        """Whether there is a result, or an exception."""
        return all(future.done() for future in self._futures)

    def successful(self) -> bool:
        """Whether no exception was raised. ValueError: it is not ready."""
        if not self.ready():
            raise ValueError(f"{self!r} not ready")
        return self._error() is None

    def wait(self, timeout: float | None = None) -> None:
        """Waits until it is ready, or for so many seconds."""
        left = timeout
        for future in self._futures:
            left = future.wait_done(left)

    def get(self, timeout: float | None = None) -> Any:
        """The result, or the exception that was raised. multiprocessing.TimeoutError: it is not ready in time."""
        self.wait(timeout)
        if not self.ready():
            raise _TimeoutError(f"no result after {timeout} s")
        return self._value()


class _Ahead:
    """Makes the calls of an iterable's items, whether or not their results are taken. A few per worker are under way at
    once: the iterable may be endless."""

    def __init__(self, pool: Pool, fn: Callable, items: Iterable, chunksize: int, in_order: bool):
        if chunksize < 1:
            raise ValueError(f"Chunksize must be 1+, not {chunksize}")
        self._pool, self._in_order, self._chunked = pool, in_order, chunksize > 1
        self._fn = partial(call_chunk, fn) if self._chunked else fn
        # The arguments of each call: (item,), or a chunk ([(item,), ...],).
        self._items: Iterator[tuple] = zip(chunks_of(zip(items), chunksize) if self._chunked else items)
        self._condition = Condition()
        self._made: collections.deque[Future] = collections.deque()  # in order
        self._done: collections.deque[Future] = collections.deque()  # as they came
        self._failed: BaseException | None = None  # the iterable's own exception
        self._is_exhausted = False
        self._rest: collections.deque = collections.deque()  # of the chunk that is being taken
        self._wanted = 0  # calls to be made now
        self._is_making = False
        pool._begin(self)
        self._make(4 * pool.workers)

    def _make(self, count: int) -> None:
        """Makes the next calls. A call that fails at once comes back here: a loop, so that many may."""
        with self._condition:
            self._wanted += count
            if self._is_making:
                return
            self._is_making = True
            while self._wanted > 0 and not self._is_exhausted:
                self._wanted -= 1
                self._make_one()
            self._is_making = False

    def _make_one(self) -> None:
        try:
            future = self._pool._executor.submit(self._fn, *next(self._items))
        except BaseException as error:
            self._is_exhausted = True
            self._failed = None if isinstance(error, StopIteration) else error
            self._condition.notify_all()
            self._pool._finish(self)
        else:
            self._made.append(future)
            future.add_done_callback(self._on_done)

    def _on_done(self, future: Future) -> None:
        with self._condition:
            self._done.append(future)
            self._condition.notify_all()
        self._make(1)

    def _take(self, timeout: float | None) -> Future | None:
        """The next future that is done; None: it is late."""
        with self._condition:
            if self._in_order:
                if not self._condition.wait_for(lambda: self._made or self._is_exhausted, timeout):
                    return None
                future = self._made[0] if self._made else self._end()
            else:
                if not self._condition.wait_for(
                        lambda: self._done or (self._is_exhausted and not self._made), timeout):
                    return None
                future = self._done.popleft() if self._done else self._end()
                self._made.remove(future)
                return future
        future.wait_done(timeout)
        if not future.done():
            return None
        with self._condition:
            self._made.popleft()
            if future in self._done:
                self._done.remove(future)
        return future

    def _end(self) -> Future:
        if self._failed is not None:
            error, self._failed = self._failed, None
            raise error
        raise StopIteration

    def __iter__(self) -> _Ahead:
        return self

    def __next__(self) -> Any:
        return self.next()

    def next(self, timeout: float | None = None) -> Any:
        """The next result. multiprocessing.TimeoutError: there is none in time."""
        if not self._rest:
            future = self._take(timeout)
            if future is None:
                raise _TimeoutError(f"no result after {timeout} s")
            if not self._chunked:
                return future.result()
            self._rest.extend(future.result())
        return self._rest.popleft()


class Pool:
    """A multiprocessing.Pool whose workers are tasks of this space, with the same methods.

    Arrays are passed in place and are read-only, as Executor has it; the options after maxtasksperchild are those of
    Executor. If a worker is killed, all calls that have no result yet fail (BrokenProcessPool)."""

    def __init__(self, processes: int | None = None, initializer: Callable[..., Any] | None = None,
                 initargs: tuple = (), maxtasksperchild: int | None = None, **options: Any):
        if processes is not None and processes < 1:
            raise ValueError("Number of processes must be at least 1")
        self._executor = Executor(processes, initializer=initializer, initargs=initargs,
                                  max_tasks_per_child=maxtasksperchild, **options)
        self._crew = self._executor._crew
        self._is_closed = False
        self._iterations = Condition()
        self._active: set[_Ahead] = set()  # under that: they have calls to make
        self._crew.start_all()

    @property
    def workers(self) -> int:
        """The number of workers."""
        return self._crew.count

    def submit(self, fn: Callable[..., Any], args: tuple = (), kwds: dict | None = None) -> Future:
        """A concurrent.futures.Future for fn(*args, **kwds)."""
        if self._is_closed:
            raise ValueError("Pool not running")
        return self._executor.submit(fn, *args, **(kwds or {}))

    def apply(self, func: Callable[..., Any], args: tuple = (), kwds: dict | None = None) -> Any:
        """func(*args, **kwds), called in a worker."""
        return self.submit(func, args, kwds).result()

    def apply_async(self, func: Callable[..., Any], args: tuple = (), kwds: dict | None = None,
                    callback: Callable[[Any], Any] | None = None,
                    error_callback: Callable[[BaseException], Any] | None = None) -> AsyncResult:
        """The same without waiting. callback gets the result, error_callback the exception."""
        return AsyncResult([self.submit(func, args, kwds)], lambda values: values[0], callback, error_callback)

    def map(self, func: Callable[[Any], Any], iterable: Iterable, chunksize: int | None = None) -> list:
        """[func(item) for item in iterable], called in the workers."""
        return self.map_async(func, iterable, chunksize).get()

    def map_async(self, func: Callable[[Any], Any], iterable: Iterable, chunksize: int | None = None,
                  callback: Callable[[list], Any] | None = None,
                  error_callback: Callable[[BaseException], Any] | None = None) -> AsyncResult:
        """The same without waiting."""
        return self._chunks_async(func, [(item,) for item in iterable], chunksize, callback, error_callback)

    def starmap(self, func: Callable[..., Any], iterable: Iterable[Iterable], chunksize: int | None = None) -> list:
        """[func(*items) for items in iterable], called in the workers."""
        return self.starmap_async(func, iterable, chunksize).get()

    def starmap_async(self, func: Callable[..., Any], iterable: Iterable[Iterable], chunksize: int | None = None,
                      callback: Callable[[list], Any] | None = None,
                      error_callback: Callable[[BaseException], Any] | None = None) -> AsyncResult:
        """The same without waiting."""
        return self._chunks_async(func, [tuple(items) for items in iterable], chunksize, callback, error_callback)

    def _chunks_async(self, func: Callable, calls: list[tuple], chunksize: int | None, callback: Callable | None,
                      error_callback: Callable | None) -> AsyncResult:
        if chunksize is None:  # as multiprocessing: four chunks per worker
            chunksize = max(1, -(-len(calls) // (4 * self.workers)))
        futures = [self.submit(partial(call_chunk, func), (chunk,)) for chunk in chunks_of(calls, max(1, chunksize))]
        return AsyncResult(futures, lambda values: list(itertools.chain.from_iterable(values)), callback,
                           error_callback)

    def _begin(self, iteration: _Ahead) -> None:
        if self._is_closed:
            raise ValueError("Pool not running")
        with self._iterations:
            self._active.add(iteration)

    def _finish(self, iteration: _Ahead) -> None:
        with self._iterations:
            self._active.discard(iteration)
            self._iterations.notify_all()
            if self._is_closed and not self._active:
                self._crew.close()

    def imap(self, func: Callable[[Any], Any], iterable: Iterable, chunksize: int = 1) -> Iterator:
        """An iterator over the results, in order; its next() has a timeout."""
        return _Ahead(self, func, iterable, chunksize, in_order=True)

    def imap_unordered(self, func: Callable[[Any], Any], iterable: Iterable, chunksize: int = 1) -> Iterator:
        """The same, in the order in which results come."""
        return _Ahead(self, func, iterable, chunksize, in_order=False)

    def close(self) -> None:
        """No new calls; the workers end after the last one."""
        if self._crew.is_of_parent:
            self._is_closed = True
            return
        with self._iterations:
            self._is_closed = True
            if not self._active:
                self._crew.close()

    def terminate(self) -> None:
        """Kills the workers. Calls that have no result yet fail with BrokenProcessPool."""
        self._is_closed = True
        self._crew.terminate("the pool was terminated")

    def join(self) -> None:
        """Waits for the end of the workers, after close or terminate."""
        if not self._is_closed:
            raise ValueError("Pool is still running")
        if self._crew.is_of_parent:
            return
        with self._iterations:
            self._iterations.wait_for(lambda: not self._active)
        self._crew.join()

    def __enter__(self) -> Pool:
        if self._is_closed:
            raise ValueError("Pool not running")
        return self

    def __exit__(self, kind, value, traceback) -> None:
        self.terminate()
        self._crew.join()
