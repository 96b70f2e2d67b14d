"""The program of a worker: takes calls until the pool is closed, or its parent is gone."""
from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import traceback
import types
from typing import Any

from .. import _core
from . import messages

_MAIN = "__mp_main__"  # the name under which multiprocessing, too, imports a program's main module


class State:
    """What this process is, if it is a worker."""
    number: int | None = None
    importing_main = False
    calling = False  # a call is being made: Ctrl-C interrupts it


def worker_number() -> int | None:
    """The number, from 0, of this worker in its pool; None: this program is no worker."""
    return State.number


# ---- The parent's main module ----

def describe_main(is_imported: bool) -> dict[str, Any]:
    """What a worker needs to import the same modules as this program."""
    import multiprocessing.process as process
    sys.modules.setdefault(_MAIN, sys.modules["__main__"])
    main = sys.modules["__main__"]
    spec, file = (getattr(main, name, None) if is_imported else None for name in ("__spec__", "__file__"))
    directory = os.getcwd()
    return {"path": [entry or directory for entry in sys.path], "argv": sys.argv, "directory": directory,
            "authkey": bytes(process.current_process().authkey), "module": spec.name if spec else None,
            "file": os.path.abspath(file) if file and not spec and os.path.isfile(file) else None}


def _import_main(module: str | None, file: str | None) -> None:
    """Makes the parent's main module this program's, without what it does as a program."""
    if module is not None and (module == "__main__" or module.endswith(".__main__")):
        return  # of a package or a directory: a program, not a module that functions are imported from
    if module is None and file is None:
        return  # an interactive program
    found = types.ModuleType(_MAIN)
    State.importing_main = True
    try:
        found.__dict__.update(runpy.run_module(module, run_name=_MAIN, alter_sys=True) if module is not None else
                              runpy.run_path(file, run_name=_MAIN))
    finally:
        State.importing_main = False
    sys.modules["__main__"] = sys.modules[_MAIN] = found


def _prepare(main: dict[str, Any], name: str) -> None:
    import multiprocessing.process as process
    process.current_process().name = threading.current_thread().name = name
    process.current_process().authkey = main["authkey"]
    with open("/proc/self/comm", "w") as comm:
        comm.write(name)
    sys.path[:], sys.argv[:] = main["path"], main["argv"]
    os.chdir(main["directory"])
    _import_main(main["module"], main["file"])


# ---- Calls ----

class Caller:
    """Makes the calls of messages and sends their results."""

    def __init__(self, end: _core.Worker, delivery: messages.Delivery, pickler: type | None):
        self.end, self.delivery, self.pickler = end, delivery, pickler

    def run(self, received: _core.Received) -> None:
        number = received.number
        try:
            function, args, kwargs = messages.loads(received, self.delivery)
        except BaseException as error:
            self._send_error(number, _not_loaded(error))
            return
        finally:
            del received  # from here on only the arguments keep the parent's memory
        try:
            State.calling = True
            try:
                if self.end.is_abandoned():  # its signal may have come before
                    raise KeyboardInterrupt
                result = function(*args, **kwargs)
            finally:
                State.calling = False
        except BaseException as error:
            del function, args, kwargs
            self._send_error(number, error)
            return
        del function, args, kwargs
        try:
            text, buffers = messages.dumps(result, self.pickler)
        except BaseException as error:
            self._send_error(number, _not_dumped(result, error))
            return
        del result
        self.end.send(messages.RESULT, number, text, buffers)

    def _send_error(self, number: int, error: BaseException) -> None:
        self.end.send(messages.ERROR, number, pack_error(error, self.pickler), None)


def _not_loaded(error: BaseException) -> BaseException:
    import pickle
    new = pickle.UnpicklingError(
        f"the function or an argument of this call cannot be loaded in worker {State.number}: "
        f"{messages.first_line(error)}: define functions and classes at the top level of a module that the worker can "
        "import, or give the pool pickler=cloudpickle.CloudPickler")
    new.__cause__ = error
    return new


def _not_dumped(result: Any, error: BaseException) -> BaseException:
    import pickle
    new = pickle.PicklingError(f"the result of this call, a {type(result).__name__}, cannot be sent back: "
                               f"{messages.first_line(error)}: return what can be pickled")
    new.__cause__ = error
    return new


def pack_error(error: BaseException, pickler: type | None) -> bytes:
    """An exception as a message that can always be loaded: its pickle, or None, its text, its traceback."""
    import pickle
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    error.__traceback__ = None
    error.__cause__ = error.__context__ = None
    try:
        text, buffers = messages.dumps(error, pickler)
        packed = text if not buffers else pickle.dumps(error)
    except Exception:
        packed = None
    return pickle.dumps((packed, messages.first_line(error), trace))


# ---- The worker's life ----

def _interrupted(number: int, frame) -> None:
    if State.calling:
        raise KeyboardInterrupt


def _end(status: int) -> None:
    """Ends without freeing memory: the parent may have views of it."""
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


def _watch(process: int) -> None:
    """Ends this program with its parent, even during a call."""
    import select
    poll = select.poll()
    poll.register(process, select.POLLIN)
    poll.poll()
    os._exit(1)


def _attach(address: int, number: int, socket: int, parent: int, parent_pid: int) -> _core.Worker:
    try:
        process = os.pidfd_open(parent_pid)
    except OSError:
        process = -1  # gone, or an old kernel
    _core.init()
    if _core.hold(parent) < 0:
        os._exit(1)  # it has ended
    os.set_inheritable(socket, False)
    end = _core.Worker(address, number, socket, process)
    if parent != _core.ROOT and process >= 0:  # with the root all tasks end
        threading.Thread(target=_watch, args=[process], daemon=True).start()
    return end


def _set_up(end: _core.Worker, number: int) -> tuple[Caller, int | None]:
    """Imports the parent's main module and calls the initializer."""
    import pickle
    received = end.setup()
    main, inner = pickle.loads(received.text)
    _prepare(main, f"onespace-{number}")
    inner = pickle.loads(inner, buffers=received.buffers(False, 0))
    initializer, initargs, calls, pickler, delivery = inner
    if initializer is not None:
        try:
            initializer(*initargs)
        except SystemExit as error:
            raise RuntimeError(f"the initializer called sys.exit({error.code})") from error
    return Caller(end, delivery, pickler), calls


def main(address: int, number: int, socket: int, parent: int, parent_pid: int) -> None:
    """Called by the command line that worker.py makes."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupted)
    State.number = number
    end = _attach(address, number, socket, parent, parent_pid)
    try:
        caller, calls = _set_up(end, number)
    except BaseException as error:
        end.send(messages.FAILED, 0, pack_error(error, None), None)
        _end(1)
    end.send(messages.READY, 0, b"", None)
    while (received := end.take()) is not None:
        caller.run(received)
        del received
        if calls is not None:
            calls -= 1
            if calls == 0:
                end.send(messages.LEAVING, 0, b"", None)
                break
    _end(0)
