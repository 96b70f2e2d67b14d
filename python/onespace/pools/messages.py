"""Messages of calls and results: a pickle of protocol 5, and the buffers that it refers to, which stay in place."""
from __future__ import annotations

import copyreg
import dataclasses
import io
import pickle
import sys
from typing import Any

from .. import _core

# Kinds of messages.
CALL, READY, RESULT, ERROR, LEAVING, FAILED = range(6)
IN_PLACE_MIN_BYTES = 4096  # smaller arrays are copied into the pickle; python/core/pool.cpp has the same constant


class RemoteTraceback(Exception):
    """The cause of an exception that was raised in a worker: the text of its traceback there."""

    def __init__(self, text: str):
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


def _strided_array(buffer, dtype, shape: tuple[int, ...], offset: int, strides: tuple[int, ...]):
    import numpy as np
    return np.ndarray(shape, dtype, buffer, offset, strides)


class _MemoryRange:
    """The bytes from the first to the last element of an array, for numpy.asarray."""

    def __init__(self, array, low: int, high: int):
        self.array = array
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (high - low,),
                                    "data": (low, not array.flags.writeable)}


def _reduce_array(array):
    """As ndarray.__reduce_ex__, which copies non-contiguous arrays, memory-mapped arrays and dates."""
    import numpy as np

    from ..arrays import memory_range
    if type(array) is not np.ndarray:
        array = array.view(np.ndarray)
    flags, dtype = array.flags, array.dtype
    is_plain = (flags.c_contiguous or flags.f_contiguous) and dtype.kind not in "mMV"
    if is_plain or dtype.hasobject or array.nbytes < IN_PLACE_MIN_BYTES:
        return array.__reduce_ex__(5)
    low, high = memory_range(array)
    memory = np.asarray(_MemoryRange(array, low, high))
    offset = array.__array_interface__["data"][0] - low
    return _strided_array, (pickle.PickleBuffer(memory), dtype, array.shape, offset, array.strides)


def _reducers() -> dict:
    numpy = sys.modules.get("numpy")
    return {numpy.ndarray: _reduce_array, numpy.memmap: _reduce_array} if hasattr(numpy, "memmap") else {}


def dumps(value: Any, pickler: type | None = None) -> tuple[bytes, list[pickle.PickleBuffer]]:
    """Return the pickle and its buffers."""
    file, buffers = io.BytesIO(), []
    writer = (pickler or pickle.Pickler)(file, 5, buffer_callback=buffers.append)
    writer.dispatch_table = {**getattr(writer, "dispatch_table", copyreg.dispatch_table), **_reducers()}
    writer.dump(value)
    return file.getvalue(), buffers


@dataclasses.dataclass(frozen=True)
class Delivery:
    """How a receiver sees arrays."""
    writable: bool = False  # if they are writable for their owner
    copy_below: int = 0  # bytes: smaller arrays are writable copies


def loads(received: _core.ReceivedMessage, delivery: Delivery) -> Any:
    """Return the object of a message. Its arrays are the sender's memory; the message is returned when they are
    collected."""
    return pickle.loads(received.pickle, buffers=received.buffers(delivery.writable, delivery.copy_below))


def first_line(error: BaseException) -> str:
    """The class and the first line of the text of an exception."""
    try:
        text = str(error).strip().split("\n")[0]
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def caused_by(cause: BaseException | None, error: BaseException) -> BaseException:
    """The error, with its cause."""
    BaseException.__setattr__(error, "__cause__", cause)  # also of a frozen dataclass
    return error
