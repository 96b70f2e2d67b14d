"""NumPy arrays that tasks share without a copy.

The owner exports an array under a name, other members import it by owner and name, and both then use the same memory.
C programs can read and write its description (type, shape, strides, byte order): include/onespace/array.h."""
from __future__ import annotations

import ast
import re
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from typing import Any, SupportsIndex, Union

import numpy as np
from numpy.typing import DTypeLike

from . import _core
from .tasks import OwnerEnded

Owner = Union[int, SupportsIndex]

_lock = threading.RLock()  # the garbage collector may close an export in any place
_exports: dict[str, Export] = {}
_closed_exports: list[Export] = []  # still viewed by other members
_dtypes: dict[str, np.dtype] = {}
_PLAIN_DTYPE = re.compile(r"'([<>|=]?[a-zA-Z?]\d*(?:\[\w+\])?)'")


def _dtype_text(dtype: np.dtype, name: str) -> str:
    """A text from which _dtype_of reconstructs an equal dtype."""
    if dtype.hasobject:
        raise TypeError(f"array {name!r} holds Python objects (dtype {dtype}), which only this interpreter can use: "
                        "convert it to numbers or to text of fixed length (astype)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a dtype's metadata is dropped
        description = np.lib.format.dtype_to_descr(dtype)
        try:
            kept = np.lib.format.descr_to_dtype(description) == dtype
        except (TypeError, ValueError):
            kept = False
    if not kept:
        raise TypeError(f"array {name!r} has elements of a type that NumPy cannot describe to others ({dtype}): "
                        "export a view of it as plain numbers, such as array.view('u2')")
    return repr(description)


def _dtype_of(text: str) -> np.dtype:
    dtype = _dtypes.get(text)
    if dtype is None:
        # Parsing a plain type without Python's parser halves the time of the first import.
        plain = _PLAIN_DTYPE.fullmatch(text)
        dtype = np.dtype(plain[1]) if plain else np.lib.format.descr_to_dtype(ast.literal_eval(text))
        if dtype.hasobject:
            raise TypeError(text)
        _dtypes[text] = dtype
    return dtype


def _as_array(data: Any, name: str) -> np.ndarray:
    """A NumPy array of the same memory."""
    if isinstance(data, np.ma.MaskedArray):
        raise TypeError(f"array {name!r} is masked, and its mask is separate memory: export .data and .mask")
    if isinstance(data, (np.ndarray, np.generic)) or hasattr(data, "__array_interface__"):
        array = np.asarray(data)
        if not isinstance(data, np.generic):
            return array
    elif hasattr(data, "__dlpack__"):
        return np.from_dlpack(data)
    else:
        try:
            return np.asarray(memoryview(data))
        except TypeError:
            pass
    raise TypeError(f"array {name!r} is a {type(data).__name__}, which has no memory that could be shared: make it an "
                    "array first (numpy.asarray)")


def memory_range(array: np.ndarray) -> tuple[int, int]:
    """The addresses of the first byte of the elements and of the byte after the last."""
    low = high = array.__array_interface__["data"][0]
    if array.size == 0:
        return low, low
    for length, stride in zip(array.shape, array.strides):
        if stride < 0:
            low += (length - 1) * stride
        else:
            high += (length - 1) * stride
    return low, high + array.itemsize


def _base_array(array: np.ndarray) -> np.ndarray:
    """The array whose memory this array is a view of, or the array itself."""
    while True:
        base = array.base
        if base is not None and not isinstance(base, np.ndarray):
            base = getattr(base, "base", None)  # as_strided inserts another object
        if not isinstance(base, np.ndarray):
            return array
        array = base


def _check_extent(array: np.ndarray, low: int, high: int, name: str) -> None:
    """Check that the array is within the memory of its base array, as far as NumPy knows it."""
    base = _base_array(array)
    owned = memory_range(base)
    if base is not array and low != high and not (owned[0] <= low and high <= owned[1]):
        raise ValueError(f"array {name!r} lies about its shape {array.shape} and strides {array.strides}: they reach "
                         f"outside the {owned[1] - owned[0]} bytes of the array that it is a view of")
    owner = _core.owner_of(low) if low != high else 0
    if low != high and (owner is None or _core.owner_of(high - 1) is None):
        raise ValueError(f"array {name!r} lies about its shape {array.shape}: its memory is not mapped")
    if owner not in (_core.ROOT, _core.init()):
        raise ValueError(f"array {name!r} is memory of task {owner}: let that task export it")


class Export:
    """An array published under a name, from export() until close(). A context manager."""

    def __init__(self, name: str, array: np.ndarray, read_only: bool):
        low, high = memory_range(array)
        _check_extent(array, low, high, name)
        dtype = array.dtype
        order = {"=": "<", "|": "|"}.get(dtype.byteorder, dtype.byteorder)
        self.name: str = name
        self.array: np.ndarray = array
        """The exported array."""
        self._core = _core.Export(name, array.__array_interface__["data"][0], low, high - low, dtype.itemsize,
                                  array.shape, array.strides, dtype.kind, order, _dtype_text(dtype, name),
                                  read_only or not array.flags.writeable, array)

    @property
    def users(self) -> list[int]:
        """The ids of the members that view the array, one per view."""
        return self._core.users()

    def close(self) -> None:
        """Withdraw the name. Existing views stay valid: the array is kept until the last view is closed."""
        with _lock:
            if _exports.get(self.name) is self:
                self._core.unexport()
                del _exports[self.name]
                _closed_exports.append(self)
        _free_unused()

    def wait_unused(self, timeout: float | None = None) -> None:
        """Close, and wait until there are no views: afterwards no other member sees writes to the array.
        TimeoutError: there are still views; the message names their tasks."""
        self.close()
        end = None if timeout is None else time.monotonic() + timeout
        pause = 1e-5
        while users := self.users:
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"array {self.name!r} is still viewed by task "
                                   f"{', '.join(map(str, sorted(set(users))))}"
                                   ": delete the arrays that were imported there")
            time.sleep(pause)
            pause = min(2 * pause, 0.01)
        _free_unused()

    def __enter__(self) -> Export:
        return self

    def __exit__(self, kind, value, traceback) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<onespace.Export {self.name!r}, {self.array.dtype} {self.array.shape}>"


def _free_unused() -> None:
    """Free closed exports without views."""
    with _lock:
        for export in list(_closed_exports):  # freeing an array may run code that calls this
            if export._core.free_if_unused() and export in _closed_exports:
                _closed_exports.remove(export)


def export(name: str, data: Any, *, read_only: bool = False) -> Export:
    """Publish an array under a name that others import it by. Nothing is copied.

    data: a NumPy array of any layout and any type without Python objects, or an object with the buffer protocol
    (bytearray, array.array, mmap…) or DLPack. read_only: other members get the array read-only, as they do if it is
    read-only itself. Within one address space this is a convention, which is not enforced.

    The array is kept alive until the export is closed and has no views. The programs must order writes and reads
    themselves: by a barrier, a message or a channel.

    TypeError: elements are Python objects, or there is no memory to share. ValueError: the array is inconsistent.
    FileExistsError: the name is in use."""
    _core.init()
    _free_unused()
    new = Export(name, _as_array(data, name), read_only)
    with _lock:
        _exports[name] = new
    return new


def exports() -> dict[str, Export]:
    """The arrays that this program exports, by name."""
    with _lock:
        return dict(_exports)


class View:
    """An array of another member, not copied, from attach(). The view and arrays made from it hold the owner's memory,
    even after the owner has ended. A context manager."""

    __slots__ = ("_core", "_array")

    def __init__(self, core: _core.View, array: np.ndarray):
        self._core = core
        self._array: np.ndarray | None = array

    @property
    def owner(self) -> int:
        """The owner's id."""
        return self._core.owner

    @property
    def name(self) -> str:
        return self._core.name

    @property
    def ended(self) -> bool:
        """Whether the owner has ended: the array then does not change any more."""
        return self._core.ended

    @property
    def array(self) -> np.ndarray:
        """The array. OwnerEnded: its owner has ended; `remains` still gives access."""
        if self._core.ended:
            raise OwnerEnded(130, f"array {self.name!r}: its owner, task {self.owner}, has ended: use .remains for "
                                  "the data that it left")
        return self.remains

    @property
    def remains(self) -> np.ndarray:
        """The array, whether or not its owner is alive."""
        if self._array is None:
            raise ValueError(f"the view of array {self.name!r} is closed")
        return self._array

    def close(self) -> None:
        """Release the view. BufferError: arrays made from it are still in use."""
        self._array = None
        if sys.getrefcount(self._core) > 2:  # the attribute, and the argument of getrefcount
            self._array = _array_of(self._core)
            raise BufferError(f"array {self.name!r} of task {self.owner} is still in use here: delete the arrays that "
                              "were made from this view first")
        self._core.close()

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        array = self.array
        if dtype is not None and np.dtype(dtype) != array.dtype or copy:
            if copy is False:
                raise ValueError(f"array {self.name!r} is {array.dtype}: as {dtype} it would have to be copied")
            return array.astype(dtype or array.dtype, copy=True)
        return array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __buffer__(self, flags: int) -> memoryview:  # Python 3.12 and later
        return memoryview(self.array)

    def __enter__(self) -> View:
        return self

    def __exit__(self, kind, value, traceback) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<onespace.View of {self.name!r} of task {self.owner}{', which has ended' if self.ended else ''}>"


def _array_of(core: _core.View) -> np.ndarray:
    try:
        dtype = _dtype_of(core.type)
        if dtype.itemsize != core.item_size:
            raise ValueError(f"its elements have {core.item_size} bytes")
        return np.ndarray(core.shape, dtype, core, core.offset, core.strides)
    except (TypeError, ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError(f"array {core.name!r} of task {core.owner} lies about its type or shape ({core.type[:80]}): "
                         f"fix the program that exports it: {error}") from None


def attach(owner: Owner, name: str, *, timeout: float | None = None, dtype: DTypeLike | None = None,
           shape: Sequence[int] | None = None, read_only: bool = False) -> View:
    """A view of the array that a member exports under a name; waits until the name exists.

    owner: a Task, an id, or ROOT. dtype, shape: required type and shape. read_only: make the array read-only here.

    TimeoutError: there is no such array. OwnerEnded: its owner has ended. TypeError, ValueError: its type or shape
    differs from the required one."""
    _core.init()
    core = _core.View(owner.__index__(), name, timeout, read_only)
    array = _array_of(core)
    if dtype is not None and array.dtype != np.dtype(dtype):
        raise TypeError(f"array {name!r} of task {core.owner} is of type {array.dtype}, not {np.dtype(dtype)} as "
                        f"requested: request {array.dtype}, or convert with astype")
    if shape is not None and array.shape != tuple(shape):
        raise ValueError(f"array {name!r} of task {core.owner} has shape {array.shape}, not {tuple(shape)} as "
                         "requested")
    return View(core, array)


def import_array(owner: Owner, name: str, *, timeout: float | None = None, dtype: DTypeLike | None = None,
                 shape: Sequence[int] | None = None, read_only: bool = False) -> np.ndarray:
    """The array that a member exports under a name, not copied: attach(...).array. It holds the owner's memory until it
    and all arrays made from it are collected."""
    return attach(owner, name, timeout=timeout, dtype=dtype, shape=shape, read_only=read_only).remains
