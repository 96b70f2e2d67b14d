"""A program with the binary interface of MPI 5 gets the whole layer, with every library that has that interface."""
import dataclasses
import pathlib

import pytest

from jobs import RUN
from launchers import ABI_IMPI, MPIS, none_wrong

SYSTEM = pathlib.Path("/usr/lib/x86_64-linux-gnu")


def systems(mpi, directory):
    """Debian has them from MPICH 5 and Open MPI 6 on, and an alternative that is one of them."""
    file = SYSTEM / f"libmpi_abi_{mpi.name}.so.1.0.0"
    if not file.exists():
        pytest.skip(f"no {file} (scripts/in-debian sid python3 -m pytest tests/mpi/pmpi/test_abi.py)")
    (directory / "libmpi_abi.so.1").symlink_to(file)
    return dataclasses.replace(mpi.needed(), name=f"abi-{mpi.name}", env={"LD_LIBRARY_PATH": str(directory)})


@pytest.fixture(params=[MPIS["abi-mpich"], ABI_IMPI, MPIS["mpich"], MPIS["openmpi"]], ids=lambda mpi: mpi.name)
def library(request, tmp_path_factory):
    if request.param.is_distributions:
        return systems(request.param, tmp_path_factory.mktemp("library"))
    return request.param.needed()


@pytest.fixture
def run_program(job, guests, mpi_named, library):
    """Runs a program that was compiled once, for all libraries."""
    def run(ranks, guest, *words, prefix=RUN):
        program = guests.mpi(mpi_named("abi-mpich"), guest)
        return job.run(library.command(ranks, [*prefix, program, *words]), env=library.env)
    return run


@pytest.mark.parametrize("guest", ["mpi_collectives_random", "mpi_collectives_moves"])
def test_collectives(run_program, guest):
    result = run_program(3, guest, "500", prefix=[*RUN, "--stats", "--collectives", "on"])
    assert result.code == 0 and result.lines == none_wrong(3), str(result)
    assert "MPI collectives: " in result.err and "MPI collectives: 0;" not in result.err, str(result)


def test_windows(run_program):
    result = run_program(2, "mpi_windows", "loads_and_stores", "requests", "attributes", "communicators",
                         "derived_types")
    assert result.code == 0 and result.lines == none_wrong(2), str(result)


@pytest.mark.parametrize("kind", ["processes", "tasks"])
def test_windows_on_storage(run_program, library, tmp_path, kind):
    for found, made in (0, 2), (2, 4):
        result = run_program(2, "mpi_versions", tmp_path / "data", "separate", "2", prefix=library.prefix(kind))
        assert result.lines == [f"rank {i}: found {found}, made {made}" for i in range(2)], str(result)
