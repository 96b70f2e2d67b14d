"""The workers of a pool, the queue of calls, and the thread that receives results.

A call is queued here until it is posted, that is put in the queue from which the workers take calls. At most two calls
per worker are posted: each worker then finds its next call without the parent, and the others can be cancelled. Results
are received by the receiving thread, which sleeps until a worker wakes it, or by a thread that waits for a result and
polls for some microseconds before it sleeps.

Locks: `_message_lock`, held by the thread that handles messages, is acquired before `_state_lock`, which protects the
fields below it. Futures get their results under `_message_lock` only, so callbacks run under it, in the thread that
received the message."""
from __future__ import annotations

import atexit
import collections
import errno
import math
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from .. import _core, tasks
from . import messages
from .worker_main import WAKE_SIGNAL, WorkerState, describe_main

Call = tuple  # (future, pickle, buffers)
REPEAT_INTERRUPT_S = 0.5
POST_RETRY_S = 0.001

_PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_groups: weakref.WeakSet[WorkerGroup] = weakref.WeakSet()


# ---- One worker ----

class MemoryHold:
    """A hold on the memory of a member, which stays mapped after the member's end until this object is collected."""

    __slots__ = ("id", "_release")

    def __init__(self, id: int, is_held: bool = False):
        if not is_held and _core.hold(id) < 0:
            raise _owner_ended(id)
        self.id = id
        self._release = _core.release

    def __del__(self) -> None:
        release = getattr(self, "_release", None)
        if release is not None:
            release(self.id)


def _owner_ended(id: int) -> Exception:
    return tasks.OwnerEnded(errno.EOWNERDEAD,
                            f"a result is in the memory of task {id}, which has ended and was not held")


class Worker:
    """One worker, from its start until it is reaped."""

    def __init__(self, number: int, dispatcher: _core.Dispatcher, cpus: Sequence[int],
                 env: Mapping[str, str] | None):
        self.number = number
        self.is_leaving = False  # its exit is expected: the pool is closed, or it has made its last call
        self.socket, worker_socket = socket.socketpair()
        dispatcher.set_worker(number, self.socket.fileno())  # before the worker can sleep, since the socket wakes it
        try:
            with worker_socket, open(os.devnull, "rb") as null:
                fd = worker_socket.fileno()
                code = (f"import sys; sys.path.insert(0, {_PACKAGES!r}); from onespace.pools.worker_main import main; "
                        f"main({dispatcher.address}, {number}, {fd}, {_core.init()}, {os.getpid()})")
                self.task = tasks.spawn([*_interpreter(), "-c", code], stdin=null, close_fds=True, pass_fds=[fd],
                                        cpus=cpus, env=env, hold=True)
        except BaseException:
            dispatcher.set_worker(number, -1)
            self.socket.close()
            raise
        self.memory_hold = MemoryHold(self.task.id, is_held=True)
        try:
            self.process = os.pidfd_open(self.task.pid)
        except OSError:
            self.process = None  # no pidfd: the socket reports the end, too
        self.socket.setblocking(False)

    def descriptors(self) -> list[int]:
        """Descriptors that become readable when the worker has ended; the first one also when it has sent a message."""
        return [self.socket.fileno(), *([self.process] if self.process is not None else [])]

    def has_ended(self) -> bool:
        """Empty the socket. Return whether its other end is closed or the process has ended."""
        try:
            if not self.socket.recv(4096):
                return True
        except BlockingIOError:
            pass
        except OSError:
            return True
        return self.process is not None and _is_readable(self.process)

    def kill(self) -> None:
        """Send SIGKILL, also to a worker that has executed another program and is not a task any more."""
        try:
            if self.process is not None:
                signal.pidfd_send_signal(self.process, signal.SIGKILL)
            else:
                self.task.kill()
        except ProcessLookupError:
            pass

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the worker's current call."""
        self._send(signal.SIGINT)

    def repeat_interrupt(self) -> None:
        """Send another signal. An interrupt that arrives between Python's last check for signals and a system call
        does not end that call; this signal does, and then the handler of the interrupt runs."""
        self._send(WAKE_SIGNAL)

    def _send(self, number: int) -> None:
        try:
            self.task.send_signal(number)
        except OSError:
            pass

    def wait(self) -> int:
        """Return the exit code. Precondition: the worker is exiting."""
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
        raise ValueError("sys.executable is empty: a pool needs the interpreter's path to start its workers")
    return [sys.executable, *subprocess._args_from_interpreter_flags()]


def _is_readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def describe_exit(code: int) -> str:
    if code >= 0:
        return f"ended with {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


# ---- All workers ----

class WorkerSetup:
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
        """The message that worker_main._set_up unpacks: the main module, which may define the initializer, is imported
        before the initializer is unpickled."""
        inner, buffers = messages.dumps((self.initializer, self.initargs, self.calls, self.pickler, self.delivery),
                                        self.pickler)
        return pickle.dumps((describe_main(self.import_main), inner), 5), buffers


class WorkerGroup:
    """The workers of one pool. cpus: the CPUs of each worker, used in turn; empty: all. env: added to this program's
    environment for the workers."""

    def __init__(self, worker_count: int, setup: WorkerSetup, delivery: messages.Delivery,
                 cpus: Sequence[Sequence[int]], env: Mapping[str, str] | None):
        if WorkerState.importing_main:
            raise RuntimeError("this program starts a pool when a worker imports it, so that each worker would start "
                               "workers: start it under `if __name__ == '__main__':`")
        _core.init()
        self.worker_count, self.setup, self.delivery = worker_count, setup, delivery
        self._cpus = cpus
        self._env = {**os.environ, **env} if env else None
        self._pid = os.getpid()
        self.dispatcher = _core.Dispatcher(worker_count, 2 * worker_count, len(os.sched_getaffinity(0)))
        self.dispatcher.set_setup(*setup.packed())
        self._message_lock = threading.RLock()
        self._received: list[_core.ReceivedMessage] = []  # not handled yet
        self._state_lock = threading.RLock()
        self._last_call_number = 0  # of posted calls
        self._posted: dict[int, Future] = {}
        self._queue: collections.deque[Call] = collections.deque()
        self._is_post_delayed = False  # the receiving thread tries again after POST_RETRY_S
        # Posted calls, by number, that cannot be sent: the receiving thread fails them.
        self._unsendable: collections.deque[tuple[int, Exception]] = collections.deque()
        self._workers: dict[int, Worker] = {}  # by number
        self._worker_by_fd: dict[int, Worker] = {}
        self._is_closing = False  # rejects new calls
        self._workers_closed = False  # workers exit when the queue is empty
        self._is_interrupted = False
        self.broken: BrokenProcessPool | None = None
        self._starts_all_workers = False
        self._epoll = select.epoll()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._epoll.register(self._wake_read, select.EPOLLIN)
        # Started here rather than with the first call, where a signal handler might interrupt the start.
        self._thread = threading.Thread(target=self._run, name="onespace-pool", daemon=True)
        self._thread_lock = threading.Lock()  # held by the thread until it ends
        self._thread_lock.acquire()
        self._is_finished = False
        self._thread.start()
        _groups.add(self)

    def __del__(self) -> None:
        if hasattr(self, "_wake_write"):
            os.close(self._wake_read)
            os.close(self._wake_write)

    # ---- Calls ----

    def submit(self, future: Future, call: tuple) -> None:
        """Queue the call (function, args, kwargs)."""
        self._check_usable()
        try:
            data, buffers = messages.dumps(call, self.setup.pickler)
        except Exception as error:
            future.set_running_or_notify_cancel()
            future.set_exception(_submit_error(call[0], error))
            return
        with self._state_lock:
            self._check_usable()
            self._queue.append((future, data, buffers))
            self._post_calls()
            needs_worker = self._needs_worker()
        if needs_worker:
            self._wake()

    def start_all(self) -> None:
        """Start all workers now, rather than when there are calls for them."""
        self.check_process()
        self._starts_all_workers = True
        self._wake()

    @property
    def is_usable(self) -> bool:
        return self.broken is None and not self._is_closing and not self.is_forked_child

    @property
    def is_forked_child(self) -> bool:
        """Whether this process is a forked child. Another thread of the parent may have held the locks at the fork, and
        no thread of the child releases them: check this before acquiring a lock."""
        return os.getpid() != self._pid

    @property
    def is_in_callback(self) -> bool:
        """Whether this thread runs a callback of a future that got its result."""
        return (self._thread is threading.current_thread() or
                self._message_lock._is_owned() or self._state_lock._is_owned())  # type: ignore[attr-defined]

    def check_process(self) -> None:
        """Raise RuntimeError in a forked child."""
        if self.is_forked_child:
            raise RuntimeError("this pool belongs to the parent of this forked process: make the calls there, or start "
                               "a program with onespace.spawn")

    def _check_usable(self) -> None:
        self.check_process()
        if self.broken is not None:
            raise _copy_of_error(self.broken)
        if self._is_closing:
            raise RuntimeError("cannot schedule new futures after shutdown")

    def _post_calls(self) -> None:
        """Post queued calls, up to two per worker. Precondition: `_state_lock`."""
        while self._queue and len(self._posted) < 2 * self.worker_count:
            future = self._queue[0][0]
            if not future.running() and not _start_or_notify_cancel(future):
                self._queue.popleft()
                continue
            self._last_call_number += 1
            try:
                is_posted = self.dispatcher.post(messages.CALL, self._last_call_number, self._queue, self._posted)
            except Exception as error:
                self._posted[self._last_call_number] = future
                self._unsendable.append((self._last_call_number, error))
                self._queue.popleft()
                self._wake()
                continue
            if not is_posted:  # the worker that takes the call of the next cell is preempted
                if not self._is_post_delayed:
                    self._is_post_delayed = True
                    self._wake()
                return
        self._is_post_delayed = False

    def cancel_queued(self) -> None:
        """Cancel the calls that are not posted."""
        if self.is_forked_child:
            return
        with self._state_lock:
            queued = [future for future, _, _ in self._queue]
        for future in queued:
            future.cancel()
        with self._state_lock:
            for future in queued:
                if future.cancelled():
                    _start_or_notify_cancel(future)
            self._queue = collections.deque(call for call in self._queue if not call[0].cancelled())
        self._wake()

    # ---- Workers ----

    def _needs_worker(self) -> bool:
        """Whether another worker would have a call to make."""
        started = len(self._workers)
        return (started < self.worker_count and self.broken is None and not self._workers_closed and
                (self._starts_all_workers or len(self._posted) + len(self._queue) > started))

    def _start_workers(self) -> None:
        """Called by the receiving thread only: in the main thread a signal handler might interrupt the start."""
        while self._needs_worker():
            number = next(number for number in range(self.worker_count) if number not in self._workers)
            cpus = self._cpus[number % len(self._cpus)] if self._cpus else ()
            with self._message_lock:  # no thread handles the worker's messages before it is registered
                try:
                    worker = Worker(number, self.dispatcher, cpus, self._env)
                except Exception as error:
                    if not self._workers:
                        self._fail_all(f"no worker can be started: {messages.first_line(error)}", error)
                    return  # the existing workers make the calls
                with self._state_lock:
                    self._workers[number] = worker
                    for descriptor in worker.descriptors():
                        self._worker_by_fd[descriptor] = worker
                        self._epoll.register(descriptor, select.EPOLLIN)
                    worker.is_leaving |= self._workers_closed
                    if self.broken is not None:
                        worker.is_leaving = True
                        worker.kill()

    def _remove_worker(self, worker: Worker) -> None:
        """Reap a worker that has ended or left the space."""
        self.handle_messages()  # those that it sent before
        code = worker.wait()
        self.handle_messages()  # of a worker that closed its socket and went on
        with self._state_lock:
            self._workers.pop(worker.number, None)
            self.dispatcher.set_worker(worker.number, -1)
            for descriptor in worker.descriptors():
                self._worker_by_fd.pop(descriptor, None)
                self._epoll.unregister(descriptor)
        self.dispatcher.free_worker_messages(worker.number)
        worker.close()
        if not worker.is_leaving:
            self._fail_all(f"{worker} {describe_exit(code)}: the calls without a result are lost, and the pool accepts "
                           "no more")

    def _fail_all(self, text: str, cause: BaseException | None = None) -> None:
        """Fail all calls and kill the workers."""
        with self._state_lock:
            if self.broken is not None:
                return
            self.broken = messages.caused_by(cause, BrokenProcessPool(text))
            self._kill_workers()
        self._fail_calls()  # if Ctrl-C interrupts this, _release fails the others

    def _fail_calls(self) -> None:
        with self._state_lock:
            futures = [*self._posted.values(), *(future for future, _, _ in self._queue)]
        for future in futures:
            _finish(future, error=_copy_of_error(self.broken))
        with self._state_lock:
            self._queue.clear()
            self._posted.clear()

    def _fail_unsendable(self) -> None:
        while self._unsendable:
            call_number, error = self._unsendable.popleft()
            with self._state_lock:
                future = self._posted.pop(call_number, None)
                self._post_calls()
            if future is not None:
                _finish(future, error=error)
            self._wake()  # this may have been the last call of a closed pool

    def _kill_workers(self) -> None:
        for worker in list(self._workers.values()):
            worker.is_leaving = True
            worker.kill()

    def interrupt(self) -> None:
        """Close the pool, raise KeyboardInterrupt in the running calls, and cancel the others."""
        if self.is_forked_child:
            return
        self._is_closing = True
        self.cancel_queued()
        with self._state_lock:
            self._close_workers()
            self.dispatcher.abandon()
            for worker in self._workers.values():
                worker.interrupt()
            self._is_interrupted = True
        self._wake()

    def _close_workers(self) -> None:
        self._workers_closed = True
        for worker in self._workers.values():
            worker.is_leaving = True
        self.dispatcher.close()

    def processes(self) -> list[int]:
        """The process ids of the workers."""
        self.check_process()
        with self._state_lock:
            return [worker.task.pid for worker in self._workers.values()]

    # ---- Results ----

    def poll(self, future: Future, timeout: float | None) -> None:
        """Poll for the result while results arrive or CPUs are free, at most `timeout` seconds."""
        self.check_process()
        end = math.inf if timeout is None else time.monotonic() + timeout
        try:
            while not future.done() and time.monotonic() < end and self.dispatcher.poll_results():
                self.handle_messages()
        except BaseException:
            self._wake()  # a message that arrived during the poll has woken no thread
            raise

    def handle_messages(self) -> None:
        """Handle the received messages. Ctrl-C may interrupt this anywhere: the receiving thread then handles the
        remaining messages. It may handle one of them again, which is harmless: a future keeps its first result and runs
        each callback once."""
        with self._message_lock:
            try:
                self.dispatcher.collect_results(self._received)
                while self._received:
                    received = self._received[0]
                    self._handle_message(received)
                    if self._received and self._received[0] is received:
                        del self._received[0]
                    del received
            except BaseException:
                self._wake()
                raise

    def _handle_message(self, received: _core.ReceivedMessage) -> None:
        worker = self._workers[received.sender]
        received.memory = worker.memory_hold
        if received.kind == messages.READY:
            return
        if received.kind == messages.LEAVING:
            worker.is_leaving = True
            return
        if received.kind == messages.FAILED:
            worker.is_leaving = True
            line, trace = _unpack_error(received)[1:]
            self._fail_all(f"{worker} could not start: {line}", messages.RemoteTraceback(trace))
            return
        future = self._posted.get(received.call_number)
        if future is None:
            return
        if future.done():
            future.announce()
        else:
            self._resolve(future, received, worker)
        with self._state_lock:
            self._posted.pop(received.call_number, None)
            self._post_calls()
        if self._is_closing and not self._posted:
            self._wake()

    def _resolve(self, future: Future, received: _core.ReceivedMessage, worker: Worker) -> None:
        try:
            if received.kind == messages.ERROR:
                _finish(future, error=_load_error(received))
                return
            received.memory = self._memory_holds(received, worker)
            value = messages.loads(received, self.delivery)
        except Exception as error:
            _finish(future, error=messages.caused_by(error, pickle.UnpicklingError(
                f"the result of a call in {worker} cannot be loaded: {messages.first_line(error)}")))
            return
        _finish(future, value)

    def _memory_holds(self, received: _core.ReceivedMessage, worker: Worker) -> list:
        """References and holds that keep the buffers of a result mapped after the worker's end. The buffers may be the
        worker's own memory, arguments from this program, or memory of the worker's own workers."""
        holds: list = [worker.memory_hold]
        for address in received.addresses:
            owner = _core.owner_of(address)
            if owner == worker.task.id:
                continue
            argument = self.dispatcher.find_lent(worker.number, address)
            if argument is not None:
                holds.append(argument)
            elif owner is None:
                raise tasks.OwnerEnded(errno.EOWNERDEAD, "a result is in memory whose owner has ended")
            elif owner not in (_core.ROOT, _core.init()):
                holds.append(MemoryHold(owner))
        return holds

    # ---- The receiving thread ----

    def _run(self) -> None:
        # The workers inherit this. A Ctrl-C before they have a handler would end them; see worker_main.main.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self._receive()
        finally:
            self._is_finished = True
            self._thread_lock.release()

    def _receive(self) -> None:
        try:
            while not self._has_finished():
                self.handle_messages()
                self._fail_unsendable()
                self._start_workers()
                if not self.dispatcher.prepare_sleep():
                    continue
                events = self._epoll.poll(self._sleep_seconds())
                self.dispatcher.finish_sleep()
                if self._is_post_delayed:
                    with self._state_lock:
                        self._post_calls()
                elif self._is_interrupted and not events:
                    for worker in self._workers.values():
                        worker.repeat_interrupt()
                for descriptor, _ in events:
                    self._on_event(descriptor)
        except BaseException as error:
            self._fail_all(f"the pool's receiving thread failed: {messages.first_line(error)}", error)
            raise
        self._release()

    def _sleep_seconds(self) -> float | None:
        return POST_RETRY_S if self._is_post_delayed else REPEAT_INTERRUPT_S if self._is_interrupted else None

    def _release(self) -> None:
        """Free the resources. Precondition: all workers have ended."""
        if self.broken is not None:
            self._fail_calls()
        for future in list(self._posted.values()):  # not taken by any worker
            _finish(future, error=CancelledError())
        with self._state_lock:
            self._epoll.close()
        self.dispatcher.free_all_messages()

    def _on_event(self, descriptor: int) -> None:
        if descriptor == self._wake_read:
            os.read(self._wake_read, 4096)
            return
        worker = self._worker_by_fd.get(descriptor)
        if worker is not None and worker.has_ended():
            self._remove_worker(worker)

    def _has_finished(self) -> bool:
        """Close the workers after the last call of a closed pool. Return whether all workers have ended."""
        with self._state_lock:
            idle = not self._posted and not self._queue
            if self._is_closing and idle and not self._workers_closed:
                self._close_workers()
            return (self._workers_closed or self.broken is not None) and not self._workers

    def _wake(self) -> None:
        """Wake the receiving thread. Acquires no lock, because Executor.__del__ calls this in any place."""
        try:
            os.write(self._wake_write, b"\0")
        except BlockingIOError:
            pass

    # ---- Closing ----

    def close(self) -> None:
        """Reject new calls; the workers exit after the last call."""
        if not self.is_forked_child:
            self._is_closing = True
            self._wake()

    def join(self) -> None:
        """Wait until the workers have ended. Precondition: close() or terminate(). In a callback of a future it returns
        at once, because the receiving thread may wait for the callback."""
        if self.is_forked_child or self.is_in_callback:
            return
        # Before Python 3.13 Thread.join marks the thread as ended if a signal handler raises an exception in it.
        while not self._is_finished:
            if self._thread_lock.acquire(timeout=1):
                self._thread_lock.release()

    def terminate(self, text: str) -> None:
        """Kill the workers; calls without a result fail with this text."""
        if not self.is_forked_child:
            self.close()
            if self._posted or self._queue or not self._workers_closed:
                self._fail_all(text)
            with self._state_lock:
                self._kill_workers()
            self._wake()


def _start_or_notify_cancel(future: Future) -> bool:
    """As future.set_running_or_notify_cancel(), which must not be called again after it has returned False."""
    return future._state != "CANCELLED_AND_NOTIFIED" and future.set_running_or_notify_cancel()


def _finish(future: Future, value: Any = None, error: BaseException | None = None) -> None:
    try:
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)
    except InvalidStateError:
        pass  # cancelled, or resolved before


def _copy_of_error(error: BrokenProcessPool) -> BrokenProcessPool:
    """Each future gets its own exception, because raising one adds to its traceback."""
    return messages.caused_by(error.__cause__, BrokenProcessPool(*error.args))


def _submit_error(function: Any, error: Exception) -> Exception:
    name = getattr(function, "__qualname__", None) or repr(function)
    return messages.caused_by(error, pickle.PicklingError(
        f"the call of {name} cannot be sent to a worker: {messages.first_line(error)}: use functions of modules and "
        "arguments that can be pickled, or give the pool pickler=cloudpickle.CloudPickler"))


def _unpack_error(received: _core.ReceivedMessage) -> tuple[bytes | None, str, str]:
    return messages.loads(received, messages.Delivery())


def _load_error(received: _core.ReceivedMessage) -> BaseException:
    packed, line, trace = _unpack_error(received)
    try:
        error = pickle.loads(packed) if packed is not None else None
    except Exception:
        error = None
    if not isinstance(error, BaseException):
        error = RuntimeError(f"a call raised an exception that cannot be pickled: {line}")
    return messages.caused_by(messages.RemoteTraceback(trace), error)


@atexit.register
def _close_all() -> None:
    for group in list(_groups):
        group.close()
    for group in list(_groups):
        try:
            group.join()
        except BaseException:
            group.terminate("the program exits")
            group.join()
            raise
    sys.stdout is not None and sys.stdout.flush()
