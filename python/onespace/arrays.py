"""NumPy arrays that tasks share without a copy.

The owner exports an array under a name, others import it by owner and name, and both then have the same memory. What
an array is (type, shape, strides, byte order) travels beside it in a structure that C programs can read and write,
too: include/onespace/array.h."""
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
from ._errors import OwnerEnded

Owner = Union[int, SupportsIndex]

_lock = threading.Lock()
_live: dict[str, "Export"] = {}
_leaving: list["Export"] = []  # taken back, and still viewed by others
_types: dict[str, np.dtype] = {}
_PLAIN = re.compile(r"'([<>|=]?[a-zA-Z?]\d*(?:\[\w+\])?)'")


def _type_text(dtype: np.dtype, name: str) -> str:
    """The dtype as text, from which an equal one can be made again."""
    if dtype.hasobject:
        raise TypeError(f"array {name!r} holds Python objects (dtype {dtype}), which belong to this interpreter alone: "
                        "convert it to numbers or to text of fixed length (astype)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # metadata on a dtype is left behind
        description = np.lib.format.dtype_to_descr(dtype)
        try:
            kept = np.lib.format.descr_to_dtype(description) == dtype
        except (TypeError, ValueError):
            kept = False
    if not kept:
        raise TypeError(f"array {name!r} has elements of a type that NumPy cannot describe to others ({dtype}): "
                        "export a view of it as plain numbers, such as array.view('u2')")
    return repr(description)


def _type_of(text: str) -> np.dtype:
    dtype = _types.get(text)
    if dtype is None:
        # A plain type's text is that in quotes: without Python's parser the first import takes half the time.
        plain = _PLAIN.fullmatch(text)
        dtype = np.dtype(plain[1]) if plain else np.lib.format.descr_to_dtype(ast.literal_eval(text))
        if dtype.hasobject:
            raise TypeError(text)
        _types[text] = dtype
    return dtype


def _as_array(data: Any, name: str) -> np.ndarray:
    """The NumPy array that is the same memory."""
    if isinstance(data, np.ma.MaskedArray):
        raise TypeError(f"array {name!r} is masked, and its mask is memory of its own: export .data and .mask")
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


def _bounds(array: np.ndarray) -> tuple[int, int]:
    """The first byte of its elements, and the one behind the last."""
    low = high = array.__array_interface__["data"][0]
    if array.size == 0:
        return low, low
    for length, stride in zip(array.shape, array.strides):
        if stride < 0:
            low += (length - 1) * stride
        else:
            high += (length - 1) * stride
    return low, high + array.itemsize


def _base(array: np.ndarray) -> np.ndarray:
    """The array that it is a view of, or itself."""
    while True:
        under = array.base
        if under is not None and not isinstance(under, np.ndarray):
            under = getattr(under, "base", None)  # as_strided puts an object of its own in between
        if not isinstance(under, np.ndarray):
            return array
        array = under


def _check_extent(array: np.ndarray, low: int, high: int, name: str) -> None:
    """That it lies in the memory of the array that it is a view of, as far as NumPy knows that one."""
    base = _base(array)
    owned = _bounds(base)
    if base is not array and low != high and not (owned[0] <= low and high <= owned[1]):
        raise ValueError(f"array {name!r} lies about its shape {array.shape} and strides {array.strides}: they reach "
                         f"outside the {owned[1] - owned[0]} bytes of the array that it is a view of")
    owner = _core.owner_of(low) if low != high else 0
    if low != high and (owner is None or _core.owner_of(high - 1) is None):
        raise ValueError(f"array {name!r} lies about its shape {array.shape}: its memory is not there")
    if owner not in (_core.ROOT, _core.init()):
        raise ValueError(f"array {name!r} is memory of task {owner}: let that task export it")


class Export:
    """An array under a name, from export() until close(). A context manager."""

    def __init__(self, name: str, array: np.ndarray, read_only: bool):
        low, high = _bounds(array)
        _check_extent(array, low, high, name)
        dtype = array.dtype
        order = {"=": "<", "|": "|"}.get(dtype.byteorder, dtype.byteorder)
        self.name: str = name
        self.array: np.ndarray = array
        """The exported array."""
        self._core = _core.Export(name, array.__array_interface__["data"][0], low, high - low, dtype.itemsize,
                                  array.shape, array.strides, dtype.kind, order, _type_text(dtype, name),
                                  read_only or not array.flags.writeable, array)

    @property
    def users(self) -> list[int]:
        """Ids of the members that view it, one for each view."""
        return self._core.users()

    def close(self) -> None:
        """Take the name back. Views that others have stay valid: the array is kept until the last of them is gone."""
        with _lock:
            if _live.get(self.name) is self:
                self._core.take_back()
                del _live[self.name]
                _leaving.append(self)
        _sweep()

    def wait_unused(self, timeout: float | None = None) -> None:
        """Close, and wait until nobody views the array: from then on nobody but this program sees what is written to
        it. TimeoutError: some still do; the message says who."""
        self.close()
        end = None if timeout is None else time.monotonic() + timeout
        pause = 1e-5
        while users := self.users:
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"array {self.name!r} is still viewed by task {', '.join(map(str, sorted(set(users))))}"
                                   ": delete the arrays that were imported there")
            time.sleep(pause)
            pause = min(2 * pause, 0.01)
        _sweep()

    def __enter__(self) -> Export:
        return self

    def __exit__(self, kind, value, traceback) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<onespace.Export {self.name!r}, {self.array.dtype} {self.array.shape}>"


def _sweep() -> None:
    """Lets go of what nobody views any more."""
    with _lock:
        _leaving[:] = [export for export in _leaving if not export._core.settle()]


def export(name: str, data: Any, *, read_only: bool = False) -> Export:
    """Publish an array under a name that others import it by. Nothing is copied.

    data: a NumPy array of any layout and any type without Python objects, or anything with the buffer protocol
    (bytearray, array.array, mmap…) or DLPack. read_only: others get it read-only, as they do when it is read-only
    itself; between programs of one address space that is an agreement, and no wall.

    The array is kept alive until the export is closed and nobody views it any more. Order between writing and reading is
    the programs' business: a barrier, a message, a channel.

    TypeError: elements are Python objects, or there is no memory to share. ValueError: the array is not what it says.
    FileExistsError: the name is in use."""
    _core.init()
    _sweep()
    new = Export(name, _as_array(data, name), read_only)
    with _lock:
        _live[name] = new
    return new


def exports() -> dict[str, Export]:
    """The arrays that this program exports, by name."""
    with _lock:
        return dict(_live)


class View:
    """An array of another member, without a copy; from attach(). Holds the owner's memory, also beyond the owner's end,
    as do the arrays that are made of it. A context manager."""

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
        """Whether the owner has ended: nobody changes the array any more."""
        return self._core.ended

    @property
    def array(self) -> np.ndarray:
        """The array. OwnerEnded: its owner has ended; remains still has what it left."""
        if self._core.ended:
            raise OwnerEnded(130, f"array {self.name!r}: its owner, task {self.owner}, has ended: use .remains for "
                                  "what it left")
        return self.remains

    @property
    def remains(self) -> np.ndarray:
        """The array, whether its owner lives or not."""
        if self._array is None:
            raise ValueError(f"the view of array {self.name!r} is closed")
        return self._array

    def close(self) -> None:
        """Give the view back. BufferError: arrays that were made of it are still in use."""
        self._array = None
        if sys.getrefcount(self._core) > 2:  # ours, and the call's argument
            self._array = _make(self._core)
            raise BufferError(f"array {self.name!r} of task {self.owner} is still in use here: delete the arrays that "
                              "were made of this view first")
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


def _make(core: _core.View) -> np.ndarray:
    try:
        dtype = _type_of(core.type)
        if dtype.itemsize != core.item_size:
            raise ValueError(f"its elements have {core.item_size} bytes")
        return np.ndarray(core.shape, dtype, core, core.offset, core.strides)
    except (TypeError, ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError(f"array {core.name!r} of task {core.owner} lies about its type or shape ({core.type[:80]}): "
                         f"the program that exports it is wrong: {error}") from None


def attach(owner: Owner, name: str, *, timeout: float | None = None, dtype: DTypeLike | None = None,
           shape: Sequence[int] | None = None, read_only: bool = False) -> View:
    """A view of the array that a member exports under a name; waits until it does.

    owner: a Task, an id, or ROOT. dtype, shape: what it must be. read_only: not to be written to here.

    TimeoutError: there is no such array. OwnerEnded: its owner has ended. TypeError, ValueError: it is of another type,
    or shape, than asked for."""
    _core.init()
    core = _core.View(owner.__index__(), name, timeout, read_only)
    array = _make(core)
    if dtype is not None and array.dtype != np.dtype(dtype):
        raise TypeError(f"array {name!r} of task {core.owner} is of type {array.dtype}, not {np.dtype(dtype)} as asked: "
                        f"ask for {array.dtype}, or convert with astype")
    if shape is not None and array.shape != tuple(shape):
        raise ValueError(f"array {name!r} of task {core.owner} has shape {array.shape}, not {tuple(shape)} as asked")
    return View(core, array)


def import_array(owner: Owner, name: str, *, timeout: float | None = None, dtype: DTypeLike | None = None,
                 shape: Sequence[int] | None = None, read_only: bool = False) -> np.ndarray:
    """The array that a member exports under a name, without a copy: attach(...).array. It holds the owner's memory until
    it and all arrays made of it are gone."""
    return attach(owner, name, timeout=timeout, dtype=dtype, shape=shape, read_only=read_only).remains
