"""A program with the binary interface of MPI 5 gets the whole layer, with every library that has that interface."""
import dataclasses
import pathlib

import pytest

from jobs import RUN
from launchers import ABI_IMPI, MPIS

TIME = 60
SYSTEM = pathlib.Path("/usr/lib/x86_64-linux-gnu")


def systems(mpi, directory):
    """Debian has them from MPICH 5 and Open MPI 6 on, and an alternative that is one of them."""
    file = SYSTEM / f"libmpi_abi_{mpi.name}.so.1.0.0"
    if not file.exists():
        pytest.skip(f"no {file} (scripts/in-debian sid python3 -m pytest tests/mpi/test_abi.py)")
    (directory / "libmpi_abi.so.1").symlink_to(file)
    return dataclasses.replace(mpi.needed(), name=f"abi-{mpi.name}", env={"LD_LIBRARY_PATH": str(directory)})


@pytest.fixture(params=[MPIS["abi-mpich"], ABI_IMPI, MPIS["mpich"], MPIS["openmpi"]], ids=lambda mpi: mpi.name)
def library(request, tmp_path_factory):
    if request.param.is_distributions:
        return systems(request.param, tmp_path_factory.mktemp("library"))
    return request.param.needed()


@pytest.fixture
def program(guests, mpi_named):
    """Compiled once, for all libraries."""
    return lambda name: guests.mpi(mpi_named("abi-mpich"), name)


@pytest.mark.parametrize("source", ["mpi_collectives_random", "mpi_collectives_moves"])
def test_collectives(job, program, library, source):
    run = [*RUN, "--stats", "--collectives", "on", program(source), "500"]
    result = job.run(library.command(3, run), timeout=TIME, env=library.env)
    assert result.code == 0 and result.lines == [f"rank {i}: 0 wrong" for i in range(3)], str(result)
    assert "MPI collectives: " in result.err and "MPI collectives: 0;" not in result.err, str(result)


def test_windows(job, program, library):
    words = [program("mpi_windows"), "loads_and_stores", "requests", "attributes", "communicators", "derived_types"]
    result = job.run(library.command(2, [*RUN, *words]), timeout=TIME, env=library.env)
    assert result.code == 0 and result.lines == ["rank 0: 0 wrong", "rank 1: 0 wrong"], str(result)


@pytest.mark.parametrize("kind", ["processes", "tasks"])
def test_windows_on_storage(job, program, library, tmp_path, kind):
    front = RUN if kind == "tasks" else ["env", f"LD_PRELOAD={library.layer}"]
    for found, made in (0, 2), (2, 4):
        words = [*front, program("mpi_versions"), tmp_path / "data", "separate", "2"]
        result = job.run(library.command(2, words), timeout=TIME, env=library.env)
        assert result.lines == [f"rank {i}: found {found}, made {made}" for i in range(2)], str(result)
