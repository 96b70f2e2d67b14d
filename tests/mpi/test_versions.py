"""Versions of windows on storage, through MPI: in processes and in tasks (docs/checkpoints.md). What the
versions withstand is tested in tests/storage and tests/power."""

import os
import platform
import re

import pytest

from jobs import RUN

TIME = 60


@pytest.fixture(params=["processes", "tasks"])
def run_guest(request, job, guests, stock_mpi, tmp_path):
    """Runs a guest on one file; as processes the layer is preloaded."""
    front = RUN if request.param == "tasks" else ["env", f"LD_PRELOAD={stock_mpi.layer}"]

    def run(guest, ranks, *words, env=None):
        program = guests.mpi(stock_mpi, guest)
        command = stock_mpi.command(ranks, [*front, program, str(tmp_path / "data"), *words])
        return job.run(command, timeout=TIME, env={**stock_mpi.env, **(env or {})})
    return run


@pytest.fixture
def versions(run_guest):
    def run(ranks, kind, commits, *hints, env=None):
        return run_guest("mpi_versions", ranks, kind, str(commits), *hints, env=env)
    return run


@pytest.fixture
def changes(run_guest):
    """Commits few changes and returns what each rank on storage read and wrote in the last one."""
    def run(kind, found, commits, env=None):
        result = run_guest("mpi_versions_changes", 3, kind, str(commits), "7", env=env)
        assert result.code == 0, result
        assert [line for line in result.lines if "found" in line] == \
            [f"rank {i}: found {found}, made {found + commits}, 0 wrong" for i in range(3)], result
        return [tuple(map(int, re.findall(r"(?:read|wrote) (\d+)", line)))
                for line in result.lines if "wrote" in line and not (kind == "mixed" and "rank 1" in line)]
    return run


def pages_are_tracked():
    """The kernel tells which pages a process has stored into, and nothing writes to them unseen."""
    version = tuple(int(number) for number in re.findall(r"\d+", platform.release())[:2])
    return version >= (6, 7) and not any(os.path.exists(path) for path in ("/dev/xpmem", "/dev/knem"))


def says(ranks, found, made):
    return [f"rank {i}: found {found}, made {made}" for i in range(ranks)]


@pytest.mark.parametrize("kind", ["shared", "separate", "combined"])
def test_window_reopens_with_the_last_version(versions, kind):
    first = versions(2, kind, 3)
    assert first.code == 0 and first.lines == says(2, 0, 3), first
    second = versions(2, kind, 1)
    assert second.code == 0 and second.lines == says(2, 3, 4), second


@pytest.mark.parametrize("kind, put", [("mixed", {}), ("mixed-shared", {}),
                                       ("mixed-odd", {"PUT": str(3 * (2 << 20) + 3 * 1234)})])
def test_version_is_that_of_the_ranks_on_storage(versions, kind, put):
    """What is in memory is zero again; all ranks are told the same version. With PUT ranks in memory put into files."""
    assert versions(3, kind, 3, env=put).lines == says(3, 0, 3)
    second = versions(3, kind, 1, env=put)
    assert second.code == 0 and second.lines == says(3, 3, 4), second
    killed = versions(3, kind, 2, env={**put, "DIE": "1"})
    assert killed.code != 0 and says(3, 4, 6)[0] in killed.out and "is wrong" not in killed.out, killed
    last = versions(3, kind, 0, env=put)
    assert last.code == 0 and last.lines == says(3, 6, 6), last


@pytest.mark.parametrize("ranks, kind, lost", [(2, "separate", 1), (3, "mixed", 2)])
def test_lost_directory_of_a_rank_is_an_error_on_all(versions, tmp_path, ranks, kind, lost):
    """On ranks in memory, too."""
    assert versions(ranks, kind, 1).code == 0
    for path in (tmp_path / f"data.{lost}.versions").iterdir():
        path.unlink()
    result = versions(ranks, kind, 1)
    assert result.code != 0 and "no version that all 2 ranks have" in result.err, result
    assert result.out.count("allocate: ") == ranks, result


def test_shared_file_restarts_with_other_ranks(versions):
    assert versions(4, "shared", 1).lines == says(4, 0, 1)
    for ranks, found in ((2, 1), (3, 2)):
        result = versions(ranks, "shared", 1)
        assert result.lines == says(ranks, found, found + 1), result


def test_killed_rank_leaves_the_last_version(versions):
    killed = versions(2, "shared", 2, env={"DIE": "1"})
    assert killed.code != 0 and says(2, 0, 2)[0] in killed.out, killed
    result = versions(2, "shared", 0)
    assert result.lines == says(2, 2, 2), result


@pytest.mark.long
@pytest.mark.parametrize("kind, hints", [("shared", ()), ("separate", ("access_style=write_once,read_once",))])
def test_large_puts_are_in_the_version_or_not_at_all(versions, kind, hints):
    """Of up to 20 MiB, at any byte, to all ranks. What was put after the last commit is not in it, whether the job
    was killed then or ended."""
    put = {"PUT": str(2 * (27 << 20) + 2 * 1234)}
    killed = versions(2, kind, 2, *hints, env={**put, "DIE": "1"})
    assert killed.code != 0 and says(2, 0, 2)[0] in killed.out, killed
    for found, commits in ((2, 1), (3, 0)):
        result = versions(2, kind, commits, *hints, env=put)
        assert result.code == 0 and result.lines == says(2, found, found + commits), result


@pytest.mark.long
def test_large_commit_says_that_it_is_made_durable(versions, tmp_path):
    """By the first rank, where nothing is known of how long that takes. A small one says nothing."""
    large = versions(2, "separate", 1, env={"PUT": str(2 * (257 << 20))})
    told = [line for line in large.err.splitlines() if "durable" in line]
    assert large.code == 0 and len(told) == 1, large
    assert f"commit of {tmp_path}/data.0: 257 MiB of this rank are written, and are now made durable" in told[0], large
    small = versions(2, "shared", 2)
    assert small.code == 0 and "commit of" not in small.err, small


@pytest.mark.parametrize("hint, word", [("storage_alloc_discard=true", "storage_alloc_discard"),
                                        ("storage_alloc_unlink=true", "storage_alloc_unlink")])
def test_hints_that_exclude_versions_are_refused(versions, hint, word):
    result = versions(2, "shared", 1, hint)
    assert result.code != 0 and word in result.err, result
    assert all("allocate: " in line for line in result.out.splitlines() if line.startswith("rank")), result


def test_window_without_versions_cannot_commit(versions):
    result = versions(2, "shared", 1, "storage_alloc_versions=0")
    assert result.code != 0 and "storage_alloc_versions=1" in result.err, result


@pytest.mark.parametrize("kind", ["separate", "shared", "combined", "mixed", "contiguous", "noncontiguous", "queried"])
def test_what_ranks_store_by_any_way_is_in_the_version(request, changes, kind):
    """A commit neither reads nor writes more than what has changed, whichever rank stored it. Compared are parts in
    memory, those of tasks that share pages, and, in the first commits of a job, what slots hold of the one before."""
    found, is_tasks = 0, request.node.callspec.params["run_guest"] == "tasks"
    may_read = kind == "combined" or (is_tasks and kind == "contiguous")
    for commits in (3, 1, 2, 4):
        moved = changes(kind, found, commits)
        found += commits
    assert found == 10 and len(moved) == (2 if kind == "mixed" else 3)
    for read, wrote in moved if pages_are_tracked() else ():
        assert wrote < 2 << 20, moved
        assert read < 64 << 10 or may_read, moved
    assert changes(kind, found, 0) == []


@pytest.mark.parametrize("kind", ["separate", "noncontiguous"])
def test_what_a_forked_child_stores_is_in_the_version(changes, kind):
    """Nobody sees its stores, so that all is compared from there on."""
    child = {"CHILD": "3"}
    changes(kind, 0, 2, env=child)
    assert all(read > 3 << 20 for read, _ in changes(kind, 2, 3, env=child))
    changes(kind, 5, 0, env=child)
