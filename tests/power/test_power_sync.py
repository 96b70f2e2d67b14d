"""tests/power/test_power_sync.py: what a synchronisation of a window on storage made durable is there after a
power loss, in a file that did not exist before. See test_power.py for how the power is lost."""
import random

import pytest

from power import BUILD, LONG, SEED, Replay, call, mounted

PAGE, PAGES, OFFSET = 4096, 1088, 1000  # as synchronise.c has them

# By one worker, one after another: the process that mounts has a mount namespace of its own from then on.
pytestmark = pytest.mark.xdist_group("power")


def is_stored(page, turn):
    return page == turn % PAGES or ((page * 2654435761 + turn * 40503) & 0xffffffff) >> 4 & 1


def number(data, at):
    return int.from_bytes(data[at:at + 4], "little")


def wrong(path, synced):
    """The first page that is older than what was synchronised, or None."""
    if not path.exists():
        return None if synced == 0 else "the file is not there"
    data = path.read_bytes()
    for page in range(PAGES):
        least = max((turn for turn in range(1, synced + 1) if is_stored(page, turn)), default=0)
        first = number(data, OFFSET + page * PAGE)
        last = number(data, OFFSET + (page + 1) * PAGE - 4)
        if min(first, last) < least:
            return f"page {page} is of round {min(first, last)}, but round {least} was synchronised"
    return None


def first_fault(disk, rounds, chance, how):
    with disk.powered(), mounted(disk.disk, disk.mount):
        call(BUILD / "tests/power/synchronise", disk.mount / "data", rounds, disk.control, how)
        disk.tell("mark end")
    replay, choose, looks = Replay(disk, SEED), random.Random(SEED), 0
    for what, synced in replay.moments():
        if what == "flush" and choose.random() >= chance:
            continue
        looks += 1
        with mounted(replay.lose_power(choose.random() < 0.5), disk.directory / "look") as look:
            fault = wrong(look / "data", synced)
        if fault:
            return fault
    assert looks >= rounds
    return None


@pytest.mark.parametrize("how", ["stores", "copies", "direct"])
def test_synchronised_window_survives_power_loss(disk, how):
    assert first_fault(disk, 60 if LONG else 8, 1 if LONG else 0.3, how) is None


def test_power_loss_is_noticed_without_the_flush(disk):
    assert first_fault(disk, 8, 0, "without-flush")
