"""onespace.Pool: multiprocessing.Pool with workers that are tasks of this space."""
from __future__ import annotations

import collections
import itertools
import multiprocessing
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from functools import partial
from typing import Any

from .executor import Condition, Executor, Future, call_chunk, chunks_of

CALLBACK_PATIENCE_S = 0.5  # a callback is run by another thread if it has not begun so long after the result


class _TimeoutError(multiprocessing.TimeoutError, TimeoutError):
    """`except` with either class catches it."""


class AsyncResult:
    """The result of one call, or of the calls of map_async: as multiprocessing.pool.AsyncResult, it is ready when its
    callback has run."""

    def __init__(self, futures: list[Future], combine: Callable[[list], Any], callback: Callable | None,
                 error_callback: Callable | None):
        self._futures, self._combine = futures, combine
        self._unfinished = len(futures)
        self._callback, self._error_callback = callback, error_callback
        self._condition = Condition()
        self._has_run = callback is None and error_callback is None
        self._runner: int | None = None  # the thread that runs, or has run, the callback
        self._done_since: float | None = None  # when all calls were found done, but not the callback
        for future in futures:
            future.add_done_callback(self._on_done)
        if not futures:
            self._run_callback()

    def _on_done(self, future: Future) -> None:
        with self._condition:
            self._unfinished -= 1
            if self._unfinished > 0:
                return
        self._run_callback()

    def _run_callback(self) -> None:
        """Once. An exception such as KeyboardInterrupt may end this at any place: `_has_run` is set even so."""
        me = threading.get_ident()
        try:
            with self._condition:
                if self._has_run or self._runner is not None:
                    return
                self._runner = me
            error = self._error()
            if error is not None and self._error_callback is not None:
                self._error_callback(error)
            elif error is None and self._callback is not None:
                self._callback(self._value())
        finally:
            if self._runner == me:
                self._has_run = True
                with self._condition:
                    self._condition.notify_all()

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
        """Whether all calls are done, and the callback has run. In the callback: True."""
        if not all(future.done() for future in self._futures):
            return False
        if not self._has_run and self._runner is None:
            self._take_over()
        return self._has_run or self._runner == threading.get_ident()

    def _take_over(self) -> None:
        """Run the callback if Ctrl-C has ended the thread that was about to do so."""
        now = time.monotonic()
        if self._done_since is None:
            self._done_since = now
        elif now - self._done_since > CALLBACK_PATIENCE_S:
            self._run_callback()

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
        end = None if left is None else time.monotonic() + left
        while not self.ready():
            step = CALLBACK_PATIENCE_S if end is None else min(CALLBACK_PATIENCE_S, end - time.monotonic())
            if step <= 0:
                return
            self._futures[0].check_process()  # a forked child has no thread that runs the callback
            self._condition.wait_until(lambda: self._has_run, step)

    def get(self, timeout: float | None = None) -> Any:
        """Return the result, or raise a call's exception. multiprocessing.TimeoutError: it is not ready in time."""
        self.wait(timeout)
        if not self.ready():
            raise _TimeoutError(f"no result after {timeout} s")
        return self._value()


class _ResultIterator:
    """Iterates over the results of calls that a thread submits. It is a thread because the iterable may wait for other
    results, or for the consumer. At most sixteen calls per worker are submitted and not consumed, so the iterable may
    be endless; Pool.join lifts this limit."""

    def __init__(self, pool: Pool, fn: Callable, items: Iterable, chunksize: int, in_order: bool):
        if chunksize < 1:
            raise ValueError(f"Chunksize must be 1+, not {chunksize}")
        pool._group.check_process()
        self._pool, self._in_order, self._chunked = pool, in_order, chunksize > 1
        self._fn = partial(call_chunk, fn) if self._chunked else fn
        # The arguments of each call: (item,), or for a chunk ([(item,), ...],).
        self._items: Iterator[tuple] = zip(chunks_of(zip(items), chunksize) if self._chunked else items)
        self._limit = 16 * pool.workers
        self._condition = Condition()
        self._submitted: collections.deque[Future] = collections.deque()  # and not consumed, in order of submission
        self._done: collections.deque[Future] = collections.deque()  # in order of completion, unless in_order
        self._iterable_error: BaseException | None = None  # raised by the iterable
        self._is_exhausted = False
        self._chunk_results: collections.deque = collections.deque()  # of the current chunk
        pool._add_iterator(self)
        threading.Thread(target=self._submit_calls, name="onespace-imap", daemon=True).start()

    def _submit_calls(self) -> None:
        error = None
        try:
            for args in self._items:
                future = self._pool._executor.submit(self._fn, *args)
                del args  # may be large
                with self._condition:
                    self._submitted.append(future)
                    self._condition.notify_all()
                if not self._in_order:
                    future.add_done_callback(self._on_done)
                del future
                if len(self._submitted) >= self._limit:
                    self._condition.wait_until(self._may_submit)
        except BaseException as raised:
            error = raised
        with self._condition:
            self._iterable_error, self._is_exhausted = error, True
            self._condition.notify_all()
        self._pool._remove_iterator(self)

    def _may_submit(self) -> bool:
        return len(self._submitted) <= self._limit // 2 or self._pool._submits_all

    def _on_done(self, future: Future) -> None:
        with self._condition:
            self._done.append(future)
            self._condition.notify_all()

    def _on_consumed(self) -> None:
        if len(self._submitted) == self._limit // 2:
            self._condition.notify_all()

    def _next_future(self, timeout: float | None) -> Future | None:
        """The next future that is done; None after the timeout."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if end is None else end - time.monotonic()
            future = self._condition.wait_until(self._take_in_order if self._in_order else self._take_done, left)
            if future is None or not self._in_order:
                return future
            future.wait_done(None if end is None else end - time.monotonic())
            if not future.done():
                return None
            with self._condition:
                if not self._submitted or self._submitted[0] is not future:
                    continue  # another thread has taken it
                self._submitted.popleft()
                self._on_consumed()
                return future

    def _take_in_order(self) -> Future | None:
        if not self._submitted and self._is_exhausted:
            self._raise_end()
        return self._submitted[0] if self._submitted else None

    def _take_done(self) -> Future | None:
        if not self._submitted and self._is_exhausted:
            self._raise_end()
        if not self._done:
            return None
        future = self._done.popleft()
        self._submitted.remove(future)
        self._on_consumed()
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
        self._pool._group.check_process()
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
        self._submits_all = False  # iterators do not wait until results are consumed
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

    def _submit_all(self) -> None:
        self._submits_all = True
        with self._iterators_changed:
            iterators = list(self._iterators)
        for iterator in iterators:
            with iterator._condition:
                iterator._condition.notify_all()

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
        if not self._group.is_forked_child:
            self._submit_all()  # fails, which ends the iterators

    def join(self) -> None:
        """Wait until the workers have ended. Precondition: close() or terminate(). In a callback it does not wait."""
        if not self._is_closed:
            raise ValueError("Pool is still running")
        if self._group.is_forked_child or self._group.is_in_callback:
            return
        self._submit_all()
        # An iterable that waits for ever does not keep a terminated pool from ending.
        self._iterators_changed.wait_until(lambda: not self._iterators or not self._group.is_usable)
        self._group.join()

    def __enter__(self) -> Pool:
        if self._is_closed:
            raise ValueError("Pool not running")
        return self

    def __exit__(self, kind, value, traceback) -> None:
        self.terminate()
        self._group.join()
