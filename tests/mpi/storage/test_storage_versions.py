"""Versions of windows on storage, through MPI: in processes and in tasks (docs/checkpoints.md). tests/storage and
tests/power test what the versions withstand."""
import os
import platform
import re

import pytest


@pytest.fixture
def run_on_file(run_guest, stock_mpi, kind, tmp_path):
    """Runs a guest on one file."""
    def run(guest, ranks, *words, **env):
        return run_guest(stock_mpi, ranks, guest, tmp_path / "data", *words, prefix=stock_mpi.prefix(kind), **env)
    return run


@pytest.fixture
def versions(run_on_file):
    def run(ranks, layout, commits, *hints, **env):
        return run_on_file("mpi_versions", ranks, layout, commits, *hints, **env)
    return run


@pytest.fixture
def changes(run_on_file):
    """Commits few changes and returns what each rank on storage read and wrote in the last one."""
    def run(layout, found, commits, **env):
        result = run_on_file("mpi_versions_changes", 3, layout, commits, "7", **env)
        assert result.code == 0, result
        assert [line for line in result.lines if "found" in line] == \
            [f"rank {i}: found {found}, made {found + commits}, 0 wrong" for i in range(3)], result
        return [tuple(map(int, re.findall(r"(?:read|wrote) (\d+)", line)))
                for line in result.lines if "wrote" in line and not (layout == "mixed" and "rank 1" in line)]
    return run


def pages_are_tracked():
    """The kernel reports which pages a process has stored into, and nothing writes to them unseen."""
    version = tuple(int(number) for number in re.findall(r"\d+", platform.release())[:2])
    return version >= (6, 7) and not any(os.path.exists(path) for path in ("/dev/xpmem", "/dev/knem"))


def lines_of(ranks, found, made):
    return [f"rank {i}: found {found}, made {made}" for i in range(ranks)]


@pytest.mark.parametrize("layout", ["shared", "separate", "combined"])
def test_window_reopens_with_the_last_version(versions, layout):
    first = versions(2, layout, 3)
    assert first.code == 0 and first.lines == lines_of(2, 0, 3), first
    second = versions(2, layout, 1)
    assert second.code == 0 and second.lines == lines_of(2, 3, 4), second


@pytest.mark.parametrize("layout, put", [("mixed", {}), ("mixed-shared", {}),
                                       ("mixed-odd", {"PUT": str(3 * (2 << 20) + 3 * 1234)})])
def test_version_is_that_of_the_ranks_on_storage(versions, layout, put):
    """What is in memory is zero again; all ranks get the same version. With PUT ranks in memory put into files."""
    assert versions(3, layout, 3, **put).lines == lines_of(3, 0, 3)
    second = versions(3, layout, 1, **put)
    assert second.code == 0 and second.lines == lines_of(3, 3, 4), second
    killed = versions(3, layout, 2, **put, DIE="1")
    assert killed.code != 0 and lines_of(3, 4, 6)[0] in killed.out and "is wrong" not in killed.out, killed
    last = versions(3, layout, 0, **put)
    assert last.code == 0 and last.lines == lines_of(3, 6, 6), last


@pytest.mark.parametrize("ranks, layout, lost", [(2, "separate", 1), (3, "mixed", 2)])
def test_lost_directory_of_a_rank_is_an_error_on_all(versions, tmp_path, ranks, layout, lost):
    """On ranks in memory, too."""
    assert versions(ranks, layout, 1).code == 0
    for path in (tmp_path / f"data.{lost}.versions").iterdir():
        path.unlink()
    result = versions(ranks, layout, 1)
    assert result.code != 0 and "no version that all 2 ranks have" in result.err, result
    assert result.out.count("allocate: ") == ranks, result


def test_shared_file_restarts_with_other_ranks(versions):
    assert versions(4, "shared", 1).lines == lines_of(4, 0, 1)
    for ranks, found in ((2, 1), (3, 2)):
        result = versions(ranks, "shared", 1)
        assert result.lines == lines_of(ranks, found, found + 1), result


def test_killed_rank_leaves_the_last_version(versions):
    killed = versions(2, "shared", 2, DIE="1")
    assert killed.code != 0 and lines_of(2, 0, 2)[0] in killed.out, killed
    result = versions(2, "shared", 0)
    assert result.lines == lines_of(2, 2, 2), result


@pytest.mark.long
@pytest.mark.parametrize("layout, hints", [("shared", ()), ("separate", ("access_style=write_once,read_once",))])
def test_large_puts_are_in_the_version_or_not_at_all(versions, layout, hints):
    """Of up to 20 MiB, at any byte, to all ranks. What was put after the last commit is not in it, whether the job
    was killed then or ended."""
    put = {"PUT": str(2 * (27 << 20) + 2 * 1234)}
    killed = versions(2, layout, 2, *hints, **put, DIE="1")
    assert killed.code != 0 and lines_of(2, 0, 2)[0] in killed.out, killed
    for found, commits in ((2, 1), (3, 0)):
        result = versions(2, layout, commits, *hints, **put)
        assert result.code == 0 and result.lines == lines_of(2, found, found + commits), result


@pytest.mark.long
def test_large_commit_says_that_it_is_made_durable(versions, tmp_path):
    """By the first rank, where nothing is known of how long that takes. A small one says nothing."""
    large = versions(2, "separate", 1, PUT=str(2 * (257 << 20)))
    messages = [line for line in large.err.splitlines() if "durable" in line]
    assert large.code == 0 and len(messages) == 1, large
    expected = f"commit of {tmp_path}/data.0: 257 MiB of this rank are written, and are now made durable"
    assert expected in messages[0], large
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


@pytest.mark.parametrize("layout", ["separate", "shared", "combined", "mixed", "contiguous", "noncontiguous",
                                    "queried"])
def test_what_ranks_store_by_any_way_is_in_the_version(changes, kind, layout):
    """A commit neither reads nor writes more than what has changed, whichever rank stored it. Compared are parts in
    memory, those of tasks that share pages, and, in the first commits of a job, what slots hold of the one before."""
    found = 0
    may_read = layout == "combined" or (kind == "tasks" and layout == "contiguous")
    for commits in (3, 1, 2, 4):
        moved = changes(layout, found, commits)
        found += commits
    assert found == 10 and len(moved) == (2 if layout == "mixed" else 3)
    for read, wrote in moved if pages_are_tracked() else ():
        assert wrote < 2 << 20, moved
        assert read < 64 << 10 or may_read, moved
    assert changes(layout, found, 0) == []


@pytest.mark.parametrize("layout", ["separate", "noncontiguous"])
def test_what_a_forked_child_stores_is_in_the_version(changes, layout):
    """No rank sees its stores, so all is compared from there on."""
    child = {"CHILD": "3"}
    changes(layout, 0, 2, **child)
    assert all(read > 3 << 20 for read, _ in changes(layout, 2, 3, **child))
    changes(layout, 5, 0, **child)
