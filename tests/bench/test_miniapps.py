"""tests/bench/test_miniapps.py: the counts of bench/miniapps, and its messages when it cannot measure. The applications
themselves are the user's checkouts (ONESPACE_MINIAPPS)."""
import json
import os
import sys

import pytest

from jobs import ONESPACE, ROOT
from launchers import MPIS
from test_bench import need

MINIAPPS = ROOT / "bench/miniapps"
sys.path[:0] = [str(ROOT / "bench/lib"), str(MINIAPPS)]
import apps  # noqa: E402

NAMES = [app.name for app in apps.APPS]


@pytest.fixture
def counted(job, guests, tmp_path):
    """Runs the guest with the counter; gives [{first word: [other words of each such line]}] of its ranks."""
    def run(mpi, way, *words, directory=None, program=None):
        found = MPIS[need(mpi)]
        counter = tmp_path / "sizes.so"
        built = job.run([*found.compiler, "-O2", "-shared", "-fPIC", "-o", counter, MINIAPPS / "sizes.c"])
        assert built.code == 0, built
        front = ["env", f"LD_PRELOAD={counter}", f"ONESPACE_SIZES={directory or tmp_path}"]
        front += [ONESPACE, "run"] if way == "tasks" else []
        result = job.run(found.command(2, [*front, program or guests.mpi(found, "mpi_sizes"), *words]))
        if directory:
            return result
        assert result.code == 0 and "done 0" in result.out, result
        ranks = []
        for rank in range(2):
            lines = {}
            for words in map(str.split, (tmp_path / str(rank)).read_text().splitlines()):
                lines.setdefault(words[0], []).append(words[1:])
            ranks.append(lines)
        return ranks
    return run


@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
@pytest.mark.parametrize("way", ["processes", "tasks"])
def test_counter_counts_messages_by_size(counted, mpi, way):
    ranks = counted(mpi, way)
    both = [["0", "3"], ["4096", "1"], ["8192", "1"]]
    assert ranks[0]["message"] == [both[0], ["64", "5"], *both[1:]]
    assert ranks[1]["message"] == [both[0], ["1", "1"], *both[1:]]


@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_counter_counts_messages_of_fortran_programs(counted, guests, tool, mpi):
    tool(f"mpifort.{need(mpi)}")
    tool("gfortran")
    ranks = counted(mpi, "tasks", program=guests.mpi(MPIS[mpi], "mpi_sizes_fortran"))
    assert [rank["message"] for rank in ranks] == [[["64", "1"], ["8192", "2"]], [["8192", "2"]]]


@pytest.mark.parametrize("way", ["processes", "tasks"])
def test_counter_counts_faults_and_page_tables(counted, way):
    pages = 4000  # memory in huge pages takes fewer faults, and none of it page tables of its own
    few, many = counted("mpich", way), counted("mpich", way, pages * 4096)
    added = [int(b["faults"][0][0]) - int(a["faults"][0][0]) for a, b in zip(few, many)]
    assert all(pages / 512 < more < 2 * pages for more in added), added
    assert all(int(rank["tables"][0][1]) >= 4096 for rank in few + many)
    assert len({rank["tables"][0][0] for rank in many}) == 1  # one node


@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_counter_reports_that_it_cannot_write(counted, mpi):
    result = counted(mpi, "processes", directory="/absent")
    assert result.code == 1, result
    for rank in range(2):
        assert f"cannot write /absent/{rank}: name a directory in ONESPACE_SIZES" in result.err, result


def miniapps(job, directory, *options):
    return job.run([MINIAPPS / "run", "--no-plot", "--quick", "--repeats", "1", "--results", directory / "results",
                    *options],
                   env={"ONESPACE_BIN": ONESPACE})


def test_miniapps_asks_for_checkouts(job, tmp_path):
    result = miniapps(job, tmp_path)
    assert result.code == 1 and "--apps" in result.err and all(name in result.err for name in NAMES), result


def test_miniapps_names_each_checkout_that_is_absent(job, tmp_path):
    result = miniapps(job, tmp_path, "--apps", tmp_path)
    assert result.code == 1 and all(f"no checkout {tmp_path}/{name}" in result.err for name in NAMES), result


def test_miniapps_skips_uncompilable_checkouts(job, tmp_path):
    (tmp_path / "mpiGraph").mkdir()
    (tmp_path / "mpiGraph/mpiGraph.c").write_text("#error this is not a program\n")
    result = miniapps(job, tmp_path, "--apps", tmp_path, "--mpi", need("mpich"), "--only", "mpiGraph,HPCCG")
    assert result.code == 1 and "skipped HPCCG: there is no checkout" in result.err, result
    assert "skipped mpiGraph with mpich" in result.err and "this is not a program" in result.err, result
    assert not (tmp_path / "results").exists()


def test_miniapps_refuses_an_application_that_it_does_not_know(job, tmp_path):
    result = miniapps(job, tmp_path, "--apps", tmp_path, "--only", "doom")
    assert result.code == 2 and "no application doom" in result.err, result


def test_miniapps_gives_lulesh_a_cube_of_ranks():
    lulesh = next(app for app in apps.APPS if app.name == "LULESH")
    assert [lulesh.ranks(count) for count in (2, 8, 26, 27, 64)] == [8, 8, 8, 27, 64]
    assert apps.APPS[0].ranks(26) == 26


def test_miniapps_measures_a_checkout(job, tmp_path, name="mpiGraph"):
    directory = os.environ.get("ONESPACE_MINIAPPS", "")
    app = next(app for app in apps.APPS if app.name == name)
    missing = app.missing(directory) if directory else "ONESPACE_MINIAPPS is not set"
    if missing:
        pytest.skip(missing)
    result = miniapps(job, tmp_path, "--apps", directory, "--only", name, "--mpi", need("mpich"))
    assert result.code == 0, result
    data = json.loads((tmp_path / "results/miniapps.json").read_text())
    found = {one["name"]: one["samples"][-1][-1] for one in data["series"]}
    for way in ("processes", "tasks"):
        for what in ("time", "faults", "tables"):
            assert found[f"mpich/{what}/{name}/{way}"] > 0
    assert found[f"mpich/messages/{name}"] > 0
    assert found[f"mpich/copies/{name}/tasks"] > 0  # the counted ranks were tasks


def test_miniapps_names_how_to_build_an_mpi_with_xpmem(job, tmp_path):
    (tmp_path / "mpiGraph").mkdir()
    (tmp_path / "mpiGraph/mpiGraph.c").write_text("")
    words = ["--apps", tmp_path, "--only", "mpiGraph", "--mpi"]
    for name, said in (("mpich-xpmem", "scripts/build-mpi mpich"), ("lam-xpmem", "not one of mpich, openmpi, intel")):
        result = job.run([MINIAPPS / "run", *words, name],
                         env={"ONESPACE_BIN": ONESPACE, "ONESPACE_MPI": str(tmp_path / "absent")})
        assert result.code == 1 and said in result.err, result
