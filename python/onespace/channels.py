"""Channels: a simulation passes the arrays of its steps, in place, to analyses that run at the same time.

Either end may be a C program that uses onespace/insitu.h; see docs/insitu.md."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _core

Step = _core.Step


class Output:
    """A step from Producer.step while it is filled; published at the end of its block.

    False if the channel's policy is "skip" and consumers still need the arrays: then do not write to them; nothing is
    published."""

    __slots__ = ("_channel", "_begun", "number")

    def __init__(self, channel: Producer, begun: bool, number: int):
        self._channel = channel
        self._begun = begun
        self.number: int = number

    def __bool__(self) -> bool:
        return self._begun

    def __setitem__(self, name: str, array: Any) -> None:
        self._channel.put(name, array, "", None, None)

    def put(self, name: str, array: Any, *, units: str = "", global_shape: Sequence[int] | None = None,
            offset: Sequence[int] | None = None) -> None:
        """Add an array of numbers with 1 to 4 dimensions. It is not copied, and is kept alive while consumers read it.
        units: in UDUNITS notation. global_shape, offset: the shape of the array of all ranks, and the coordinates at
        which this part begins."""
        self._channel.put(name, array, units, global_shape, offset)

    def attribute(self, name: str, value: int | float | str) -> None:
        """Add an attribute to the step."""
        self._channel.put_attribute(name, value)

    def __enter__(self) -> Output:
        return self

    def __exit__(self, kind, value, traceback) -> None:
        if kind is None and self._begun:
            self._channel.publish()


class Producer(_core.Producer):
    """The end of a channel that publishes steps. A context manager.

    policy: what step() does while a consumer still needs the arrays that are reused next: "wait", "skip" (the step is
    not published) or "copy" (consumers get copies). depth: the number of sets of arrays, which are used in turn, or of
    copies. rank, ranks: this program's number among the programs that produce together, and their count. consumers: the
    first step waits for this many.

    FileExistsError: a channel of that name exists."""

    def __init__(self, name: str, *, policy: str = "wait", depth: int = 0, rank: int = 0, ranks: int = 1,
                 consumers: int = 0):
        super().__init__(name, policy, depth, rank, ranks, consumers)

    def step(self, number: int, timeout: float | None = None) -> Output:
        """Begin a step, which a with block fills and publishes at its end. From now on this program may write to the
        arrays of the step; before, consumers may be reading them.

        number: greater than the last one. TimeoutError: consumers still need the arrays. OwnerEnded: another rank has
        died. If the block raises an exception, nothing is published, and the channel can only be closed."""
        return Output(self, self.begin(number, timeout), number)

    def close(self, timeout: float | None = None) -> None:
        """End the channel after consumers have taken and released all steps; no consumer reads the arrays then.
        TimeoutError: consumers still have steps; call close again."""
        super().close(timeout)

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, kind, value, traceback) -> None:
        try:
            self.close(None if kind is None else 0)
        except TimeoutError:
            if kind is None:
                raise


class Consumer(_core.Consumer):
    """The end of a channel that takes steps. A context manager, and an iterator over steps until the producer closes
    it.

    every: take each published step; otherwise the newest one. timeout: how long to wait for the channel.

    A step and its arrays are valid until the next step is requested. Copy data that is needed later: the producer may
    then write to its arrays, or free them, and reading one that is gone crashes the program. The iteration raises
    OwnerEnded if a producer has died."""

    def __init__(self, name: str, *, every: bool = False, timeout: float | None = None):
        super().__init__(name, every, timeout)

    def take(self, timeout: float | None = None) -> Step:
        """The next step, to be released with Step.release or at the end of a with block. TimeoutError; EOFError: the
        producer has closed the channel; OwnerEnded."""
        return super().take(timeout)

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, kind, value, traceback) -> None:
        self.close()
