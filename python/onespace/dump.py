"""Write the steps of a channel to files: `onespace insitu dump`, or python3 -m onespace.dump in a task.

HDF5, if h5py is installed: one file with a group for each step, in which the names of arrays and attributes are their
paths. NumPy's .npz: a file for each step. A global array is gathered from the parts of all ranks; other arrays of
several ranks are below rank-N/."""
from __future__ import annotations

import argparse
import errno
import os
import pathlib
import signal
import sys
import time
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _core
from .channels import Consumer, Step
from .tasks import OwnerEnded

SUFFIXES = (".h5", ".hdf5", ".npz")


class Failure(Exception):
    """A message for the user: the failure and the fix."""


# ---- A copy of a step, so that the step can be released before the copy is written ----


class Contents:
    """The arrays, their units and the attributes of a step, by name."""

    def __init__(self, step: Step):
        self.number: int = step.number
        self.arrays: dict[str, Any] = {}
        self.units: dict[str, str] = {}
        self.attributes: dict[str, int | float | str] = {}
        for rank in range(step.ranks):
            self._add_rank(step, rank, f"rank-{rank}/" if step.ranks > 1 else "")

    def _add_rank(self, step: Step, rank: int, prefix: str) -> None:
        for name in step.names(rank):
            info = step.info(name, rank)
            whole = info["global_shape"]
            if whole is not None and name in self.arrays:
                continue
            try:
                at, array = name, None if whole is None else step.read(name, (0,) * len(whole), whole)
            except LookupError:  # the parts do not cover the array
                array = None
            if array is None:
                at, array = prefix + name, np.array(step.get(name, rank), order="C")
            self.arrays[at] = array
            if info["units"]:
                self.units[at] = info["units"]
        for name, value in step.attributes(rank).items():
            if self.attributes.setdefault(name, value) != value:  # ranks usually agree
                self.attributes[prefix + name] = value


# ---- Files ----


class Hdf5:
    """One file, created with the first step and complete after each step."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self.file: Any = None

    def write(self, step: Contents) -> None:
        if not self.file:
            import h5py
            # Readers of NetCDF use the order of creation.
            self.file = h5py.File(self.path, "x", track_order=True)
        group = self.file.create_group(f"step_{step.number:06}", track_order=True)
        group.attrs["step"] = step.number
        for name, array in step.arrays.items():
            path = name.strip("/")
            if not self._is_free(group, path):
                raise Failure(f"step {step.number}: HDF5 cannot store array {name!r} together with the others: give "
                              "--output NAME.npz")
            group[path] = array
            if name in step.units:
                group[path].attrs["units"] = step.units[name]
        for name, value in step.attributes.items():
            path = name.strip("/")
            if self._is_free(group, path):
                group[path] = value  # as in Conduit
            else:  # the path is that of an array
                group.attrs[name] = value
        self.file.flush()

    @staticmethod
    def _is_free(group: Any, path: str) -> bool:
        """Whether the path can be created: it does not exist, and its parents are groups."""
        parts = path.split("/")
        parents = ["/".join(parts[:i]) for i in range(1, len(parts))]
        return "" not in parts and path not in group and \
            not any(name in group and not hasattr(group[name], "keys") for name in parents)

    def close(self) -> None:
        if self.file:
            self.file.close()


class Npz:
    """A file for each step, NAME-STEP.npz, which appears when it is complete."""

    def __init__(self, path: pathlib.Path):
        self.path = path

    def write(self, step: Contents) -> None:
        members = {**{name: array for name, array in step.arrays.items()},
                   **{f"{name}@units": np.asarray(units) for name, units in step.units.items()}}
        for name, value in step.attributes.items():
            members[name if name not in members else f"{name}@attribute"] = np.asarray(value)
        final = self.path.with_name(f"{self.path.stem}-{step.number:06}.npz")
        partial = final.with_suffix(f".{os.getpid()}.part")
        try:
            with zipfile.ZipFile(partial, "x") as archive:
                for name, value in members.items():
                    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, value, allow_pickle=False)
            os.link(partial, final)  # unlike rename, does not replace a file
        finally:
            partial.unlink(missing_ok=True)

    def close(self) -> None:
        pass


def has_h5py() -> bool:
    try:
        import h5py  # noqa: F401
    except ImportError:
        return False
    return True


def choose_output(given: str | None, channel: str) -> Hdf5 | Npz:
    path = pathlib.Path(given or channel.replace("/", "_") + (".h5" if has_h5py() else ".npz"))
    if path.suffix not in SUFFIXES:
        raise Failure(f"{path}: unknown file type: give a name that ends in {', '.join(SUFFIXES)}")
    if path.suffix == ".npz":
        return Npz(path)
    if not has_h5py():
        raise Failure(f"{path}: {sys.executable} has no h5py: install it (Debian package python3-h5py), or give "
                      "--output NAME.npz")
    if path.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    return Hdf5(path)


# ---- The command ----

# Signals only leave their number: an exception would be raised in whatever runs, also where Python ignores it, such as
# a weak reference's callback. So waits are cut into pieces.
received_signals: list[int] = []
SIGNAL_CHECK_S = 0.2


def stop(number: int, frame: Any) -> None:
    received_signals.append(number)


def exit_if_stopped() -> None:
    if received_signals:
        sys.exit(128 + received_signals[0])


def open_channel(name: str, every: bool, wait: float) -> Consumer:
    deadline = time.monotonic() + wait
    while True:
        exit_if_stopped()
        try:
            return Consumer(name, every=every, timeout=max(0, min(SIGNAL_CHECK_S, deadline - time.monotonic())))
        except TimeoutError:
            if time.monotonic() >= deadline:
                raise


def take_step(channel: Consumer) -> Step | None:
    """The next step; None: the producer has closed the channel."""
    while True:
        exit_if_stopped()
        try:
            return channel.take(SIGNAL_CHECK_S)
        except TimeoutError:
            pass
        except EOFError:
            return None


def dump(name: str, output: Hdf5 | Npz, *, every: bool, max_steps: int | None, wait: float) -> int:
    """Write steps until the producer closes the channel, at most max_steps. Return their number."""
    count = 0
    with open_channel(name, every, wait) as channel:
        try:
            while count != max_steps and (step := take_step(channel)) is not None:
                contents = Contents(step)
                step.release()  # the producer does not wait for the file
                output.write(contents)
                count += 1
        finally:
            output.close()
    return count


def main(words: Sequence[str]) -> int | str:
    parser = argparse.ArgumentParser(prog="onespace insitu dump")
    parser.add_argument("--output")
    parser.add_argument("--count", type=int)
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--wait", type=float, default=60)
    parser.add_argument("channel")
    args = parser.parse_args(words)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    try:
        if _core.init() == 0:  # a root, which has no producers in its space
            raise Failure("this process is not a task: use `onespace insitu dump`, or run it under `onespace run`")
        output = choose_output(args.output, args.channel)
        count = dump(args.channel, output, every=args.every, max_steps=args.count, wait=args.wait)
        print(f"{output.path}: {count} step{'' if count == 1 else 's'} of channel {args.channel}")
    except FileExistsError as error:
        file = error.filename2 or error.filename or args.output
        return f"onespace insitu dump: {file} exists already: remove it, or give another --output"
    except (Failure, OwnerEnded, TimeoutError, OSError, ValueError) as error:
        return f"onespace insitu dump: {error}"
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
