"""The workers of a pool, the calls that wait for them, and the thread that receives results.

A call is posted, that is in the queue that workers take from or with one of them, or it waits here; at most two calls
per worker are posted, so that each finds its next one without us, and the others can be cancelled. Results are received
by whoever looks first: the receiving thread, which sleeps until a worker wakes it, or a thread that waits for a result
and polls for some microseconds before it sleeps.

Locks: `_handling`, of who handles messages, before `_lock`, of the fields below it. Neither is held while futures get
their results for anything but this: callbacks run under `_handling`, in the thread that received the message."""
from __future__ import annotations

import atexit
import collections
import os
import pickle
import select
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from .. import _core
from . import messages
from .program import State, describe_main
from .worker import Held, Worker, ended_how

Call = tuple  # future, text, buffers

_crews: weakref.WeakSet[Crew] = weakref.WeakSet()


class Setup:
    """What each worker gets at its start."""

    def __init__(self, initializer: Callable | None, initargs: tuple, calls: int | None, pickler: type | None,
                 delivery: messages.Delivery, import_main: bool):
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        if calls is not None and not isinstance(calls, int):
            raise TypeError("the number of calls per worker must be an integer, or None")
        if calls is not None and calls <= 0:
            raise ValueError("the number of calls per worker must be 1 or more")
        self.initializer, self.initargs, self.calls = initializer, initargs, calls
        self.pickler, self.delivery, self.import_main = pickler, delivery, import_main

    def packed(self) -> tuple[bytes, list]:
        """As program.py unpacks it: the main module must be there before the initializer can be found in it."""
        inner, buffers = messages.dumps((self.initializer, self.initargs, self.calls, self.pickler, self.delivery),
                                        self.pickler)
        return pickle.dumps((describe_main(self.import_main), inner), 5), buffers


class Crew:
    """See above. cpus: of each worker, in turn; empty: all. env: of workers, in addition to ours."""

    def __init__(self, count: int, setup: Setup, delivery: messages.Delivery, cpus: Sequence[Sequence[int]],
                 env: Mapping[str, str] | None):
        if State.importing_main:
            raise RuntimeError("this program starts a pool when a worker imports it, so that each worker would start "
                               "workers: start it under `if __name__ == '__main__':`")
        _core.init()
        self.count, self.setup, self.delivery = count, setup, delivery
        self._cpus = cpus
        self._env = {**os.environ, **env} if env else None
        self._pid = os.getpid()
        self.dispatcher = _core.Dispatcher(count, 2 * count, len(os.sched_getaffinity(0)))
        self.dispatcher.set_setup(*setup.packed())
        self._handling = threading.RLock()
        self._inbox: list[_core.Received] = []  # received, but not handled
        self._lock = threading.RLock()
        self._next = 0  # number of the newest call
        self._posted: dict[int, Future] = {}
        self._waiting: collections.deque[Call] = collections.deque()
        self._workers: dict[int, Worker] = {}  # by number
        self._watched: dict[int, Worker] = {}  # by descriptor
        self._is_closing = False  # no new calls
        self._is_closed = False  # workers were told
        self.broken: BrokenProcessPool | None = None
        self._starts_all = False
        self._epoll = select.epoll()
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        self._epoll.register(self._woken, select.EPOLLIN)
        _crews.add(self)
        # Started here, not with the first call, where a signal's handler might come between.
        self._thread = threading.Thread(target=self._run, name="onespace-pool", daemon=True)
        self._running = threading.Lock()  # held by the thread
        self._running.acquire()
        self._is_over = False
        self._thread.start()

    # ---- Calls ----

    def submit(self, future: Future, call: tuple) -> None:
        """Makes the call (function, args, kwargs) in a worker."""
        self._check()
        try:
            text, buffers = messages.dumps(call, self.setup.pickler)
        except Exception as error:
            future.set_running_or_notify_cancel()
            future.set_exception(_not_sent(call[0], error))
            return
        with self._lock:
            self._check()
            self._waiting.append((future, text, buffers))
            self._post()
            wanted = self._wants_worker()
        if wanted:
            self._wake()

    def start_all(self) -> None:
        """Starts all workers now, not when there are calls for them."""
        self.check_process()
        self._starts_all = True
        self._wake()

    @property
    def is_usable(self) -> bool:
        return self.broken is None and not self._is_closing and not self.is_of_parent

    @property
    def is_of_parent(self) -> bool:
        """In a forked child: another thread of the parent may have held the locks at the fork, and no thread of this
        process releases them. So nothing here takes a lock before it has asked this."""
        return os.getpid() != self._pid

    def check_process(self) -> None:
        """Raises RuntimeError in a forked child."""
        if self.is_of_parent:
            raise RuntimeError("this pool belongs to the parent of this forked process: make the calls there, or start "
                               "a program with onespace.spawn")

    def _check(self) -> None:
        self.check_process()
        if self.broken is not None:
            raise _another(self.broken)
        if self._is_closing:
            raise RuntimeError("cannot schedule new futures after shutdown")

    def _post(self) -> None:
        """Passes on calls as long as workers should have more."""
        while self._waiting and len(self._posted) < 2 * self.count:
            future = self._waiting[0][0]
            if not future.running() and not future.set_running_or_notify_cancel():
                self._waiting.popleft()
                continue
            self._next += 1
            if not self.dispatcher.post(messages.JOB, self._next, self._waiting, self._posted):
                return

    def cancel_waiting(self) -> None:
        """Cancels the calls that no worker has."""
        if self.is_of_parent:
            return
        with self._lock:
            waiting, self._waiting = self._waiting, collections.deque()
        for future, _, _ in waiting:
            if future.cancel():
                future.set_running_or_notify_cancel()

    # ---- Workers ----

    def _wants_worker(self) -> bool:
        """Whether one more has something to do."""
        count = len(self._workers)
        return (count < self.count and self.broken is None and not self._is_closed and
                (self._starts_all or len(self._posted) + len(self._waiting) > count))

    def _start_workers(self) -> None:
        """By the receiving thread alone: in the main thread a signal's handler might come between."""
        while self._wants_worker():
            number = next(seat for seat in range(self.count) if seat not in self._workers)
            cpus = self._cpus[number % len(self._cpus)] if self._cpus else ()
            try:
                worker = Worker(number, self.dispatcher, cpus, self._env)
            except Exception as error:
                if not self._workers:
                    self._break(f"no worker can be started: {messages.first_line(error)}", error)
                return  # those that there are make the calls
            with self._lock:
                self._workers[number] = worker
                for descriptor in worker.descriptors():
                    self._watched[descriptor] = worker
                    self._epoll.register(descriptor, select.EPOLLIN)
                if self.broken is not None:
                    worker.is_leaving = True
                    worker.kill()

    def _remove(self, worker: Worker) -> None:
        """It has ended, or left the space."""
        self.drain()  # what it sent before
        code = worker.wait()
        with self._lock:
            self._workers.pop(worker.number, None)
            self.dispatcher.seat(worker.number, -1)
            for descriptor in worker.descriptors():
                self._watched.pop(descriptor, None)
                self._epoll.unregister(descriptor)
        self.dispatcher.drop(worker.number)
        worker.close()
        if not worker.is_leaving:
            self._break(f"{worker} {ended_how(code)}: the calls that had no result yet are lost, and the pool can make "
                        "no more")

    def _break(self, text: str, cause: BaseException | None = None) -> None:
        """Ends the pool with an error."""
        with self._lock:
            if self.broken is not None:
                return
            self.broken = BrokenProcessPool(text)
            self.broken.__cause__ = cause
            futures = [*self._posted.values(), *(future for future, _, _ in self._waiting)]
            self._waiting.clear()
            self._kill_workers()
        for future in futures:
            _finish(future, error=_another(self.broken))
        self._posted.clear()

    def _kill_workers(self) -> None:
        for worker in list(self._workers.values()):
            worker.is_leaving = True
            worker.kill()

    def interrupt(self) -> None:
        """Closes the pool, raises KeyboardInterrupt in the calls that are being made, and cancels all others."""
        if self.is_of_parent:
            return
        self._is_closing = True
        self.cancel_waiting()
        with self._lock:
            self._close_workers()
            self.dispatcher.abandon()
            for worker in self._workers.values():
                worker.interrupt()
        self._wake()

    def _close_workers(self) -> None:
        self._is_closed = True
        for worker in self._workers.values():
            worker.is_leaving = True
        self.dispatcher.close()

    def processes(self) -> list[int]:
        """Process ids of the workers."""
        self.check_process()
        with self._lock:
            return [worker.task.pid for worker in self._workers.values()]

    # ---- Results ----

    def look(self, future: Future) -> None:
        """Polls for the result, for as long as results come or CPUs are free."""
        self.check_process()
        while not future.done() and self.dispatcher.watch():
            self.drain()

    def drain(self) -> None:
        """Handles what has arrived. Ctrl-C may interrupt it anywhere: what is in the inbox then, the receiving thread
        handles, again if need be, since a future accepts only its first result."""
        with self._handling:
            try:
                self.dispatcher.collect(self._inbox)
                while self._inbox:
                    received = self._inbox[0]
                    self._handle(received)
                    if self._inbox and self._inbox[0] is received:
                        del self._inbox[0]
                    del received
            except BaseException:
                self._wake()
                raise

    def _handle(self, received: _core.Received) -> None:
        worker = self._workers[received.sender]
        received.memory = worker.held
        if received.kind == messages.READY:
            return
        if received.kind == messages.LEAVING:
            worker.is_leaving = True
            return
        if received.kind == messages.FAILED:
            worker.is_leaving = True
            line, trace = _unpack_error(received)[1:]
            self._break(f"{worker} could not start: {line}", messages.RemoteTraceback(trace))
            return
        future = self._posted.get(received.number)
        if future is None:
            return
        if not future.done():
            self._settle(future, received, worker)
        with self._lock:
            self._posted.pop(received.number, None)
            self._post()
        if self._is_closing and not self._posted:
            self._wake()

    def _settle(self, future: Future, received: _core.Received, worker: Worker) -> None:
        try:
            if received.kind == messages.ERROR:
                _finish(future, error=_error_of(received))
                return
            received.memory = self._memory_of(received, worker)
            value = messages.loads(received, self.delivery)
        except Exception as error:
            new = pickle.UnpicklingError(f"the result of a call in {worker} cannot be loaded: "
                                         f"{messages.first_line(error)}")
            new.__cause__ = error
            _finish(future, error=new)
            return
        _finish(future, value)

    def _memory_of(self, received: _core.Received, worker: Worker) -> list:
        """What keeps the buffers of a result where they are, even after the worker's end. They may be the worker's own,
        arguments that it got from us, or what it got from workers of its own."""
        kept: list = [worker.held]
        for address in received.addresses:
            owner = _core.owner_of(address)
            if owner == worker.task.id:
                continue
            ours = self.dispatcher.lent(worker.number, address)
            if ours is not None:
                kept.append(ours)
            elif owner is None or owner not in (_core.ROOT, _core.init()):
                kept.append(Held(-1 if owner is None else owner))
        return kept

    # ---- The receiving thread ----

    def _run(self) -> None:
        try:
            self._receive()
        finally:
            self._is_over = True
            self._running.release()

    def _receive(self) -> None:
        try:
            while not self._has_finished():
                self.drain()
                self._start_workers()
                if not self.dispatcher.sleep():
                    continue
                events = self._epoll.poll()
                self.dispatcher.woken()
                for descriptor, _ in events:
                    self._on_event(descriptor)
        except BaseException as error:
            self._break(f"the pool's receiving thread failed: {messages.first_line(error)}", error)
            raise
        self._release()

    def _release(self) -> None:
        """Precondition: no worker is left."""
        for future in self._posted.values():  # no worker took the call
            _finish(future, error=CancelledError())
        with self._lock:
            if self._waker >= 0:
                self._epoll.close()
                os.close(self._woken)
                os.close(self._waker)
                self._waker = -1
        self.dispatcher.drop_all()

    def _on_event(self, descriptor: int) -> None:
        if descriptor == self._woken:
            os.read(self._woken, 4096)
            return
        worker = self._watched.get(descriptor)
        if worker is not None and worker.has_ended():
            self._remove(worker)

    def _has_finished(self) -> bool:
        """Closes the pool when it has made its last call. True: no worker is left."""
        with self._lock:
            idle = not self._posted and not self._waiting
            if self._is_closing and idle and not self._is_closed:
                self._close_workers()
            return (self._is_closed or self.broken is not None) and not self._workers

    def _wake(self) -> None:
        with self._lock:
            if self._waker >= 0:
                try:
                    os.write(self._waker, b"\0")
                except BlockingIOError:
                    pass

    # ---- The end ----

    def close(self) -> None:
        """No new calls; workers end after the last one."""
        if not self.is_of_parent:
            self._is_closing = True
            self._wake()

    def join(self) -> None:
        """Waits for the end of the workers. Precondition: close() or terminate()."""
        if self.is_of_parent or self._thread is threading.current_thread():
            return
        # Not Thread.join: before Python 3.13 it takes the thread for ended when a signal's handler raises in there.
        while not self._is_over:
            if self._running.acquire(timeout=1):
                self._running.release()

    def terminate(self, text: str) -> None:
        """Kills the workers; calls that have no result yet fail with this text."""
        if not self.is_of_parent:
            self.close()
            if self._posted or self._waiting or not self._is_closed:
                self._break(text)
            with self._lock:
                self._kill_workers()
            self._wake()


def _finish(future: Future, value: Any = None, error: BaseException | None = None) -> None:
    try:
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)
    except InvalidStateError:
        pass  # it was cancelled, or has this result already


def _another(error: BrokenProcessPool) -> BrokenProcessPool:
    """An exception of its own for each future: raising one adds to its traceback."""
    new = BrokenProcessPool(*error.args)
    new.__cause__ = error.__cause__
    return new


def _not_sent(function: Any, error: Exception) -> Exception:
    name = getattr(function, "__qualname__", None) or repr(function)
    new = pickle.PicklingError(f"the call of {name} cannot be sent to a worker: {messages.first_line(error)}: use "
                               "functions of modules and arguments that can be pickled, or give the pool "
                               "pickler=cloudpickle.CloudPickler")
    new.__cause__ = error
    return new


def _unpack_error(received: _core.Received) -> tuple[bytes | None, str, str]:
    return messages.loads(received, messages.Delivery())


def _error_of(received: _core.Received) -> BaseException:
    packed, line, trace = _unpack_error(received)
    try:
        error = pickle.loads(packed) if packed is not None else None
    except Exception:
        error = None
    if not isinstance(error, BaseException):
        error = RuntimeError(f"a call raised an exception that cannot be pickled: {line}")
    error.__cause__ = messages.RemoteTraceback(trace)
    return error


@atexit.register
def _close_all() -> None:
    for crew in list(_crews):
        crew.close()
    for crew in list(_crews):
        try:
            crew.join()
        except BaseException:
            crew.terminate("the program ends")
            crew.join()
            raise
    sys.stdout is not None and sys.stdout.flush()
