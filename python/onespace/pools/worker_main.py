"""The program of a worker: makes calls until the pool is closed or the parent has ended."""
from __future__ import annotations

import os
import pickle
import runpy
import signal
import sys
import threading
import traceback
import types
from typing import Any

from .. import _core
from . import messages

WAKE_SIGNAL = signal.SIGURG  # only ends a system call, so that Python looks for other signals
_MAIN = "__mp_main__"  # multiprocessing imports a program's main module under the same name


class WorkerState:
    """The state of this process if it is a worker."""
    number: int | None = None
    importing_main = False
    calling = False  # during a call, which Ctrl-C interrupts


def worker_number() -> int | None:
    """The number of this worker in its pool, from 0; None if this program is not a worker."""
    return WorkerState.number


# ---- The parent's main module ----

def describe_main(is_imported: bool) -> dict[str, Any]:
    """The state that a worker needs to import the same modules as this program."""
    import multiprocessing.process as process
    sys.modules.setdefault(_MAIN, sys.modules["__main__"])
    main = sys.modules["__main__"]
    spec, file = (getattr(main, name, None) if is_imported else None for name in ("__spec__", "__file__"))
    directory = os.getcwd()
    return {"path": [entry or directory for entry in sys.path], "argv": sys.argv, "directory": directory,
            "authkey": bytes(process.current_process().authkey), "module": spec.name if spec else None,
            "file": os.path.abspath(file) if file and not spec and os.path.isfile(file) else None}


def _import_main(module: str | None, file: str | None) -> None:
    """Import the parent's main module as this program's, under a name that does not run it as a program."""
    if module is not None and (module == "__main__" or module.endswith(".__main__")):
        return  # the program of a package or directory, from which no functions are imported
    if module is None and file is None:
        return  # an interactive program
    found = types.ModuleType(_MAIN)
    WorkerState.importing_main = True
    try:
        found.__dict__.update(runpy.run_module(module, run_name=_MAIN, alter_sys=True) if module is not None else
                              runpy.run_path(file, run_name=_MAIN))
    finally:
        WorkerState.importing_main = False
    sys.modules["__main__"] = sys.modules[_MAIN] = found


def _adopt_parent_state(main: dict[str, Any], name: str) -> None:
    import multiprocessing.process as process
    process.current_process().name = threading.current_thread().name = name
    process.current_process().authkey = main["authkey"]
    with open("/proc/self/comm", "w") as comm:
        comm.write(name)
    sys.path[:], sys.argv[:] = main["path"], main["argv"]
    os.chdir(main["directory"])
    _import_main(main["module"], main["file"])


# ---- Calls ----

class CallRunner:
    """Makes calls that arrive as messages and sends their results."""

    def __init__(self, endpoint: _core.WorkerEndpoint, delivery: messages.Delivery, pickler: type | None):
        self.endpoint, self.delivery, self.pickler = endpoint, delivery, pickler

    def run(self, received: _core.ReceivedMessage) -> None:
        call_number = received.call_number
        try:
            function, args, kwargs = messages.loads(received, self.delivery)
        except BaseException as error:
            self._send_error(call_number, _load_error(error))
            return
        finally:
            del received  # only the arguments refer to the parent's memory now
        try:
            WorkerState.calling = True
            try:
                if self.endpoint.is_abandoned():  # the signal may have arrived before
                    raise KeyboardInterrupt
                result = function(*args, **kwargs)
            finally:
                WorkerState.calling = False
        except BaseException as error:
            del function, args, kwargs
            self._send_error(call_number, error)
            return
        del function, args, kwargs
        try:
            data, buffers = messages.dumps(result, self.pickler)
        except BaseException as error:
            self._send_error(call_number, _result_error(result, error))
            return
        del result
        self.endpoint.send(messages.RESULT, call_number, data, buffers)

    def _send_error(self, call_number: int, error: BaseException) -> None:
        self.endpoint.send(messages.ERROR, call_number, pack_error(error, self.pickler), None)


def _load_error(error: BaseException) -> BaseException:
    return messages.caused_by(error, pickle.UnpicklingError(
        f"the function or an argument of this call cannot be loaded in worker {WorkerState.number}: "
        f"{messages.first_line(error)}: define functions and classes at the top level of a module that the worker can "
        "import, or give the pool pickler=cloudpickle.CloudPickler"))


def _result_error(result: Any, error: BaseException) -> BaseException:
    return messages.caused_by(error, pickle.PicklingError(
        f"the result of this call, a {type(result).__name__}, cannot be sent back: {messages.first_line(error)}: "
        "return a value that can be pickled"))


def pack_error(error: BaseException, pickler: type | None) -> bytes:
    """An exception as a message that can always be loaded: (pickle or None, first line, traceback)."""
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    for name in ("__traceback__", "__cause__", "__context__"):
        BaseException.__setattr__(error, name, None)  # also of a frozen dataclass
    try:
        data, buffers = messages.dumps(error, pickler)
        packed = data if not buffers else pickle.dumps(error)
    except Exception:
        packed = None
    return pickle.dumps((packed, messages.first_line(error), trace))


# ---- Start and exit ----

def _on_sigint(number: int, frame) -> None:
    if WorkerState.calling:
        raise KeyboardInterrupt


def _exit(status: int) -> None:
    """Exit without freeing memory, because the parent may have views of it."""
    try:
        threading._shutdown()
        __import__("atexit")._run_exitfuncs()
        for file in (sys.stdout, sys.stderr):
            if file is not None:
                file.flush()
    except BaseException:
        traceback.print_exc()
        status = status or 1
    finally:
        os._exit(status)


def _exit_with_parent(process: int) -> None:
    """Exit when the parent ends, even during a call."""
    import select
    poll = select.poll()
    poll.register(process, select.POLLIN)
    poll.poll()
    os._exit(1)


def _attach(address: int, number: int, socket: int, parent: int, parent_pid: int) -> _core.WorkerEndpoint:
    try:
        process = os.pidfd_open(parent_pid)
    except OSError:
        process = -1  # the parent has ended, or the kernel has no pidfd
    _core.init()
    if _core.hold(parent) < 0:
        os._exit(1)  # the parent has ended
    os.set_inheritable(socket, False)
    endpoint = _core.WorkerEndpoint(address, number, socket, process)
    if parent != _core.ROOT and process >= 0:  # all tasks end with the root
        threading.Thread(target=_exit_with_parent, args=[process], daemon=True).start()
    return endpoint


def _set_up(endpoint: _core.WorkerEndpoint, number: int) -> tuple[CallRunner, int | None]:
    """Import the parent's main module and call the initializer."""
    received = endpoint.setup()
    main, inner = pickle.loads(received.pickle)
    _adopt_parent_state(main, f"onespace-{number}")
    inner = pickle.loads(inner, buffers=received.buffers(False, 0))
    initializer, initargs, remaining_calls, pickler, delivery = inner
    if initializer is not None:
        try:
            initializer(*initargs)
        except SystemExit as error:
            raise RuntimeError(f"the initializer called sys.exit({error.code})") from error
    return CallRunner(endpoint, delivery, pickler), remaining_calls


def main(address: int, number: int, socket: int, parent: int, parent_pid: int) -> None:
    """Called by the command line that worker_group.Worker starts."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _on_sigint)
        signal.signal(WAKE_SIGNAL, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # blocked by worker_group.WorkerGroup._run
    WorkerState.number = number
    endpoint = _attach(address, number, socket, parent, parent_pid)
    try:
        runner, remaining_calls = _set_up(endpoint, number)
    except BaseException as error:
        endpoint.send(messages.FAILED, 0, pack_error(error, None), None)
        _exit(1)
    endpoint.send(messages.READY, 0, b"", None)
    while (received := endpoint.take()) is not None:
        runner.run(received)
        del received
        if remaining_calls is not None:
            remaining_calls -= 1
            if remaining_calls == 0:
                endpoint.send(messages.LEAVING, 0, b"", None)
                break
    _exit(0)
