"""Versions of windows on storage, through MPI: in processes and in tasks (docs/checkpoints.md). What the
versions withstand is tested in tests/storage and tests/power."""

import pytest

from jobs import RUN

TIME = 60


@pytest.fixture(params=["processes", "tasks"])
def versions(request, job, guests, stock_mpi, tmp_path):
    """Runs the guest on one file; as processes the layer is preloaded."""
    program = guests.mpi(stock_mpi, "mpi_versions")
    front = RUN if request.param == "tasks" else ["env", f"LD_PRELOAD={stock_mpi.layer}"]

    def run(ranks, kind, commits, *hints, env=None):
        command = stock_mpi.command(ranks, [*front, program, str(tmp_path / "data"), kind, str(commits), *hints])
        return job.run(command, timeout=TIME, env={**stock_mpi.env, **(env or {})})
    return run


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
