"""tests/power/test_power.py: versions of a window on a disk that loses its power, or fails.

A job commits on a file system whose disk is recorded. Then the power goes at each flush of the recording
and after each commit: the image is mounted, which is the file system's recovery, and a job opens the window:
no version may be lost whose commit had returned, and nothing torn may be taken for a version.

ONESPACE_LONG=1: every flush of ten recordings per file system, and there each moment again with any of the
writes that were not flushed. Else some of them of one recording. ONESPACE_SEED=N repeats a run's choices."""
import os
import random

import pytest

from power import LONG, SEED, Disk, Replay, call, crew, missing, mounted

# By one worker, one after another: the process that mounts has a mount namespace of its own from then on.
pytestmark = pytest.mark.xdist_group("power")


def record(disk, **options):
    with disk.powered(), mounted(disk.disk, disk.mount):
        outcome = crew(disk.mount / "data", control=disk.control, **options)
        disk.tell("mark end")
    assert outcome["error"] == 0 and not outcome["torn"], outcome
    return outcome


def look(disk, image, **options):
    with mounted(image, disk.directory / "look"):
        return crew(disk.directory / "look/data", **dict(options, commits=0))


def wrong(outcome, committed):
    """What is wrong after the power came back, or None."""
    if outcome["hung"]:
        return "the job that opens the window hangs"
    if outcome["error"]:
        return outcome["text"]
    if outcome["torn"]:
        return outcome["torn"]
    if outcome["restored"] < committed:
        return f"version {committed} was committed, {outcome['restored']} is there"
    return None


def first_fault(disk, seed, chance, **options):
    """Loses the power at moments of the recording: at each commit's return, and at flushes with that chance."""
    replay = Replay(disk, seed)
    choose = random.Random(seed)
    looks = 0
    for what, committed in replay.moments():
        if what == "flush" and choose.random() >= chance:
            continue
        for keeps_some in (False, True) if LONG or what == "mark" else (choose.random() < 0.5,):
            looks += 1
            fault = wrong(look(disk, replay.lose_power(keeps_some), **options), committed)
            if fault:
                return f"{what} {looks}, {'some' if keeps_some else 'no'} later writes: {fault}"
    print(f"{looks} losses of power")
    assert looks
    return None


@pytest.mark.parametrize("separate", [0, 1], ids=["shared_file", "file_per_rank"])
def test_power_loss_loses_and_tears_nothing(disk, separate):
    options = {"ranks": 2, "separate": separate, "pages": 64, "keep": 1}
    for seed in range(SEED, SEED + (5 if LONG else 1)):
        if seed > SEED:
            disk = Disk(disk.directory, disk.file_system)
        assert record(disk, commits=6 if LONG else 4, seed=seed, **options)["committed"] >= 4
        assert first_fault(disk, seed, 1 if LONG else 0.12, **options) is None


# Checks of the check: with one step taken away the power loss must be noticed. (The third, without the nonce,
# is in tests/storage/versions/versions_test.cpp: a power loss alone does not bring back what it needs.)

@pytest.mark.parametrize("step", ["flush", "agreement"])
def test_power_loss_is_noticed_without(disk, step):
    options = {"ranks": 3, "separate": 0, "pages": 64, "keep": 1}
    record(disk, commits=8, seed=SEED, without=step, **options)
    fault = first_fault(disk, SEED, 0, **options)
    assert fault
    print(fault)


def test_reflinks_share_what_did_not_change(tmp_path):
    lack = missing("xfs")
    if lack:
        pytest.skip(lack)
    disk = Disk(tmp_path, "xfs")
    with mounted(disk.image, disk.mount):
        assert crew(disk.mount / "data", ranks=1, pages=4000, commits=2)["error"] == 0
        extents = call("filefrag", "-v", "-b4096", disk.mount / "data.versions/rank-0.slot-1")
    # The second version writes about a seventh of the pages.
    shared = sum(int(line.split(":")[3]) for line in extents.splitlines() if "shared" in line)
    assert shared > 2000, extents


# ---- Disks that fail ----

@pytest.mark.parametrize("kind", ["flush", "write"])
def test_commit_on_failing_disk_is_an_error_on_all_ranks(disk, kind):
    with disk.powered():
        with mounted(disk.disk, disk.mount):
            assert crew(disk.mount / "data", commits=2)["committed"] == 2
            # The journal is written every few seconds. It must not fail before the ranks have opened the file.
            call("sync", "-f", disk.mount)
            disk.tell(f"fail {kind} 0")
            failed = crew(disk.mount / "data", commits=1)
            assert failed["error"] < 0 and not failed["errors_differ"] and not failed["hung"]
            assert failed["text"]
            disk.tell("heal")
        with mounted(disk.disk, disk.mount):
            after = crew(disk.mount / "data", commits=1)
    assert wrong(after, 2) is None and after["committed"] == after["restored"] + 1


@pytest.mark.parametrize("kind", ["flush", "write"])
def test_disk_that_fails_during_commits_keeps_the_last(disk, kind):
    choose = random.Random(SEED)
    with disk.powered():
        committed = 0
        for _ in range(6 if LONG else 3):
            with mounted(disk.disk, disk.mount):
                disk.tell(f"fail {kind} {choose.randrange(1, 40)}")
                # A failed commit must fail again: a second flush may succeed without the data
                # that the first one lost.
                failed = crew(disk.mount / "data", commits=20, retries=1)
                assert not failed["hung"] and not failed["errors_differ"], failed
                disk.tell("heal")
                committed = max(committed, failed["committed"])
            with mounted(disk.disk, disk.mount):
                after = crew(disk.mount / "data", commits=1)
                assert wrong(after, committed) is None
                committed = after["committed"]


def test_reads_that_fail_are_an_error_on_all_ranks(disk):
    with disk.powered():
        with mounted(disk.disk, disk.mount):
            assert crew(disk.mount / "data", commits=2, pages=500)["committed"] == 2
        with mounted(disk.disk, disk.mount):
            os.listdir(disk.mount / "data.versions")
            disk.tell("fail read 2")
            failed = crew(disk.mount / "data", commits=0, pages=500)
            disk.tell("heal")
            assert failed["error"] < 0 and not failed["errors_differ"] and not failed["hung"], failed
            assert "data" in failed["text"], failed
        with mounted(disk.disk, disk.mount):
            assert wrong(crew(disk.mount / "data", commits=0, pages=500), 2) is None
