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

from .executor import Condition, Executor, Future, call_chunk, chunks_of


class _TimeoutError(multiprocessing.TimeoutError, TimeoutError):
    """`except` with either class catches it."""


class AsyncResult:
    """The result of one call, or of the calls of map_async: as multiprocessing.pool.AsyncResult."""

    def __init__(self, futures: list[Future], combine: Callable[[list], Any], callback: Callable | None,
                 error_callback: Callable | None):
        self._futures, self._combine = futures, combine
        self._unfinished = len(futures)
        self._lock = threading.Lock()
        self._callback, self._error_callback = callback, error_callback
        for future in futures:
            future.add_done_callback(self._on_done)
        if not futures and callback is not None:
            callback(combine([]))

    def _on_done(self, future: Future) -> None:
        with self._lock:
            self._unfinished -= 1
            if self._unfinished > 0:
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
        return self._combine([future.result() for future in self._futures])

    def ready(self) -> bool:
        """Whether all calls are done."""
        return all(future.done() for future in self._futures)

    def successful(self) -> bool:
        """Whether no call raised an exception. ValueError: the result is not ready."""
        if not self.ready():
            raise ValueError(f"{self!r} not ready")
        return self._error() is None

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the result is ready, at most `timeout` seconds."""
        left = timeout
        for future in self._futures:
            left = future.wait_done(left)

    def get(self, timeout: float | None = None) -> Any:
        """Return the result, or raise a call's exception. multiprocessing.TimeoutError: it is not ready in time."""
        self.wait(timeout)
        if not self.ready():
            raise _TimeoutError(f"no result after {timeout} s")
        return self._value()


class _ResultIterator:
    """Submits the calls of an iterable's items and iterates over their results. At most four calls per worker are
    submitted ahead of time, so the iterable may be endless."""

    def __init__(self, pool: Pool, fn: Callable, items: Iterable, chunksize: int, in_order: bool):
        if chunksize < 1:
            raise ValueError(f"Chunksize must be 1+, not {chunksize}")
        self._pool, self._in_order, self._chunked = pool, in_order, chunksize > 1
        self._fn = partial(call_chunk, fn) if self._chunked else fn
        # The arguments of each call: (item,), or for a chunk ([(item,), ...],).
        self._items: Iterator[tuple] = zip(chunks_of(zip(items), chunksize) if self._chunked else items)
        self._condition = Condition()
        self._submitted: collections.deque[Future] = collections.deque()  # in order of submission
        self._done: collections.deque[Future] = collections.deque()  # in order of completion
        self._iterable_error: BaseException | None = None  # raised by the iterable
        self._is_exhausted = False
        self._chunk_results: collections.deque = collections.deque()  # of the current chunk
        self._calls_to_submit = 0
        self._is_submitting = False
        pool._add_iterator(self)
        self._submit_calls(4 * pool.workers)

    def _submit_calls(self, count: int) -> None:
        """Submit the next calls. A call that fails at once calls this again: the loop avoids recursion."""
        with self._condition:
            self._calls_to_submit += count
            if self._is_submitting:
                return
            self._is_submitting = True
            try:
                while self._calls_to_submit > 0 and not self._is_exhausted:
                    self._calls_to_submit -= 1
                    self._submit_next()
            finally:
                self._is_submitting = False

    def _submit_next(self) -> None:
        try:
            future = self._pool._executor.submit(self._fn, *next(self._items))
        except BaseException as error:
            self._is_exhausted = True
            self._iterable_error = None if isinstance(error, StopIteration) else error
            self._condition.notify_all()
            self._pool._remove_iterator(self)
        else:
            self._submitted.append(future)
            future.add_done_callback(self._on_done)

    def _on_done(self, future: Future) -> None:
        with self._condition:
            self._done.append(future)
            self._condition.notify_all()
        self._submit_calls(1)

    def _next_future(self, timeout: float | None) -> Future | None:
        """The next future that is done; None after the timeout."""
        while True:
            future = self._condition.wait_until(self._take_in_order if self._in_order else self._take_done, timeout)
            if future is None or not self._in_order:
                return future
            future.wait_done(timeout)
            if not future.done():
                return None
            with self._condition:
                if not self._submitted or self._submitted[0] is not future:
                    continue  # another thread has taken it
                self._submitted.popleft()
                if future in self._done:
                    self._done.remove(future)
                return future

    def _take_in_order(self) -> Future | None:
        if not self._submitted and self._is_exhausted:
            self._raise_end()
        return self._submitted[0] if self._submitted else None

    def _take_done(self) -> Future | None:
        if not self._done and not self._submitted and self._is_exhausted:
            self._raise_end()
        if not self._done:
            return None
        future = self._done.popleft()
        self._submitted.remove(future)
        return future

    def _raise_end(self) -> None:
        if self._iterable_error is not None:
            error, self._iterable_error = self._iterable_error, None
            raise error
        raise StopIteration

    def __iter__(self) -> _ResultIterator:
        return self

    def __next__(self) -> Any:
        return self.next()

    def next(self, timeout: float | None = None) -> Any:
        """The next result. multiprocessing.TimeoutError: no result in time."""
        if not self._chunk_results:
            future = self._next_future(timeout)
            if future is None:
                raise _TimeoutError(f"no result after {timeout} s")
            if not self._chunked:
                return future.result()
            self._chunk_results.extend(future.result())
        return self._chunk_results.popleft()


class Pool:
    """A multiprocessing.Pool whose workers are tasks of this space, with the same methods.

    Arrays are passed in place and are read-only. The options after maxtasksperchild are those of Executor. If a worker
    is killed, all calls without a result fail (BrokenProcessPool)."""

    def __init__(self, processes: int | None = None, initializer: Callable[..., Any] | None = None,
                 initargs: tuple = (), maxtasksperchild: int | None = None, **options: Any):
        if processes is not None and processes < 1:
            raise ValueError("Number of processes must be at least 1")
        self._executor = Executor(processes, initializer=initializer, initargs=initargs,
                                  max_tasks_per_child=maxtasksperchild, **options)
        self._group = self._executor._group
        self._is_closed = False
        self._iterators_changed = Condition()
        self._iterators: set[_ResultIterator] = set()  # with calls to submit; protected by _iterators_changed
        self._group.start_all()

    @property
    def workers(self) -> int:
        """The number of workers."""
        return self._group.worker_count

    def submit(self, fn: Callable[..., Any], args: tuple = (), kwds: dict | None = None) -> Future:
        """A concurrent.futures.Future for fn(*args, **kwds)."""
        if self._is_closed:
            raise ValueError("Pool not running")
        return self._executor.submit(fn, *args, **(kwds or {}))

    def apply(self, func: Callable[..., Any], args: tuple = (), kwds: dict | None = None) -> Any:
        """Return func(*args, **kwds), called in a worker."""
        return self.submit(func, args, kwds).result()

    def apply_async(self, func: Callable[..., Any], args: tuple = (), kwds: dict | None = None,
                    callback: Callable[[Any], Any] | None = None,
                    error_callback: Callable[[BaseException], Any] | None = None) -> AsyncResult:
        """As apply, without waiting. callback gets the result, error_callback the exception."""
        return AsyncResult([self.submit(func, args, kwds)], lambda values: values[0], callback, error_callback)

    def map(self, func: Callable[[Any], Any], iterable: Iterable, chunksize: int | None = None) -> list:
        """Return [func(item) for item in iterable], called in the workers."""
        return self.map_async(func, iterable, chunksize).get()

    def map_async(self, func: Callable[[Any], Any], iterable: Iterable, chunksize: int | None = None,
                  callback: Callable[[list], Any] | None = None,
                  error_callback: Callable[[BaseException], Any] | None = None) -> AsyncResult:
        """As map, without waiting."""
        return self._chunks_async(func, [(item,) for item in iterable], chunksize, callback, error_callback)

    def starmap(self, func: Callable[..., Any], iterable: Iterable[Iterable], chunksize: int | None = None) -> list:
        """Return [func(*items) for items in iterable], called in the workers."""
        return self.starmap_async(func, iterable, chunksize).get()

    def starmap_async(self, func: Callable[..., Any], iterable: Iterable[Iterable], chunksize: int | None = None,
                      callback: Callable[[list], Any] | None = None,
                      error_callback: Callable[[BaseException], Any] | None = None) -> AsyncResult:
        """As starmap, without waiting."""
        return self._chunks_async(func, [tuple(items) for items in iterable], chunksize, callback, error_callback)

    def _chunks_async(self, func: Callable, calls: list[tuple], chunksize: int | None, callback: Callable | None,
                      error_callback: Callable | None) -> AsyncResult:
        if chunksize is None:  # as multiprocessing: four chunks per worker
            chunksize = max(1, -(-len(calls) // (4 * self.workers)))
        futures = [self.submit(partial(call_chunk, func), (chunk,)) for chunk in chunks_of(calls, max(1, chunksize))]
        return AsyncResult(futures, lambda values: list(itertools.chain.from_iterable(values)), callback,
                           error_callback)

    def _add_iterator(self, iterator: _ResultIterator) -> None:
        if self._is_closed:
            raise ValueError("Pool not running")
        with self._iterators_changed:
            self._iterators.add(iterator)

    def _remove_iterator(self, iterator: _ResultIterator) -> None:
        with self._iterators_changed:
            self._iterators.discard(iterator)
            self._iterators_changed.notify_all()
            if self._is_closed and not self._iterators:
                self._group.close()

    def imap(self, func: Callable[[Any], Any], iterable: Iterable, chunksize: int = 1) -> Iterator:
        """An iterator over the results in order; its next() has a timeout."""
        return _ResultIterator(self, func, iterable, chunksize, in_order=True)

    def imap_unordered(self, func: Callable[[Any], Any], iterable: Iterable, chunksize: int = 1) -> Iterator:
        """As imap, in the order in which results arrive."""
        return _ResultIterator(self, func, iterable, chunksize, in_order=False)

    def close(self) -> None:
        """Reject new calls; the workers exit after the last call."""
        if self._group.is_forked_child:
            self._is_closed = True
            return
        with self._iterators_changed:
            self._is_closed = True
            if not self._iterators:
                self._group.close()

    def terminate(self) -> None:
        """Kill the workers. Calls without a result fail with BrokenProcessPool."""
        self._is_closed = True
        self._group.terminate("the pool was terminated")

    def join(self) -> None:
        """Wait until the workers have ended. Precondition: close() or terminate()."""
        if not self._is_closed:
            raise ValueError("Pool is still running")
        if self._group.is_forked_child:
            return
        self._iterators_changed.wait_until(lambda: not self._iterators)
        self._group.join()

    def __enter__(self) -> Pool:
        if self._is_closed:
            raise ValueError("Pool not running")
        return self

    def __exit__(self, kind, value, traceback) -> None:
        self.terminate()
        self._group.join()
