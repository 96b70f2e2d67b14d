"""Channels: a simulation hands the arrays of its steps to analyses that run beside it, where they lie.

The same as onespace/insitu.h in C, and either end may be a program in C; docs/insitu.md says what holds for both."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _core

Step = _core.Step


class Output:
    """A step of a Producer while it is filled, from Producer.step; published at the end of its block.

    False where the channel's policy is "skip" and consumers still need the arrays: then they are not to be written to,
    and nothing is published."""

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
        """Add an array of numbers, of 1 to 4 dimensions; it is not copied, and kept alive as long as it is read. units:
        as UDUNITS writes them. global_shape, offset: of which array of all ranks it is a part, and where it begins."""
        self._channel.put(name, array, units, global_shape, offset)

    def attribute(self, name: str, value: int | float | str) -> None:
        """Add a fact about the step."""
        self._channel.put_attribute(name, value)

    def __enter__(self) -> Output:
        return self

    def __exit__(self, kind, value, traceback) -> None:
        if kind is None and self._begun:
            self._channel.publish()


class Producer(_core.Producer):
    """The end of a channel that hands out steps. A context manager.

    policy: what step() does while a consumer still needs the arrays that come next: "wait", "skip" (the step is not
    published) or "copy" (consumers get copies). depth: sets of arrays that are published in turn, or copies. rank,
    ranks: the number of this program among those that produce together. consumers: the first step waits for so many.

    FileExistsError: a living channel has that name."""

    def __init__(self, name: str, *, policy: str = "wait", depth: int = 0, rank: int = 0, ranks: int = 1,
                 consumers: int = 0):
        super().__init__(name, policy, depth, rank, ranks, consumers)

    def step(self, number: int, timeout: float | None = None) -> Output:
        """Begin a step: what it returns is filled in a with block, at whose end it is published. From here on the arrays
        that it will hand out are this program's to write to; before, consumers may be reading them.

        number: greater than the last. TimeoutError: consumers still need the arrays. OwnerEnded: another rank has died.
        A block that fails publishes nothing, and the channel can only be closed then."""
        return Output(self, self.begin(number, timeout), number)

    def close(self, timeout: float | None = None) -> None:
        """End the channel, when consumers have taken and given back what they are owed: then its arrays are this
        program's own. TimeoutError: they have not; close once more."""
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
    """The end of a channel that takes steps. A context manager, and an iterator over steps until the producer closes it.

    every: each step that is published; otherwise the newest one each time. timeout: how long to wait for the channel.

    A step and its arrays are there until the next one is asked for. An array that is kept longer stays readable but the
    producer writes to it: copy what is needed later. The iteration raises OwnerEnded when a producer has died."""

    def __init__(self, name: str, *, every: bool = False, timeout: float | None = None):
        super().__init__(name, every, timeout)

    def take(self, timeout: float | None = None) -> Step:
        """The next step, to be given back with Step.release or at the end of a with block. TimeoutError; EOFError: the
        producer has closed the channel; OwnerEnded."""
        return super().take(timeout)

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, kind, value, traceback) -> None:
        self.close()
