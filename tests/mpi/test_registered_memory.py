"""tests/mpi/test_registered_memory.py: a network library that has registered memory hears that the memory goes, also
when another task frees it. io_uring's fixed buffers stand in for the card."""
import os
import pathlib
import tempfile

import pytest

from jobs import RUN

TIME = 90
FLAGS = ("-O1", "-g", "-rdynamic", "-ldl", "-luring")
MEMORY = ["allocate", "allocate_shared", "small", "storage", "alloc_mem", "dynamic", "segment"]


# An MPI library's own UCX would put its hooks into the place of the program's.
OWN_HOOKS = {"UCX_MEM_MMAP_HOOK_MODE": "none"}


@pytest.fixture
def directory():
    """In memory: io_uring does not pin pages of files on disk."""
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("no /dev/shm")
    with tempfile.TemporaryDirectory(prefix="onespace-", dir="/dev/shm") as place:
        yield place


def needed_header(name, package):
    if not pathlib.Path("/usr/include", name).exists():
        pytest.skip(f"no {name} (package {package})")


def run_cases(job, program, mpi, cases, directory, kind="tasks", env=OWN_HOOKS):
    words = [*(RUN if kind == "tasks" else []), program, directory, *cases]
    result = job.run(mpi.command(2, words), timeout=TIME, env={**mpi.env, **env})
    if result.code == 77:
        pytest.skip("io_uring is not permitted")
    assert result.code == 0 and result.lines == ["rank 0: 0 wrong", "rank 1: 0 wrong"], str(result)


@pytest.mark.parametrize("case", MEMORY)
def test_registrations_end_with_the_memory(job, guests, stock_mpi, directory, case):
    needed_header("liburing.h", "liburing-dev")
    program = guests.build("mpi_registered.c", stock_mpi.compiler, FLAGS, f"{stock_mpi.name}-registered")
    run_cases(job, program, stock_mpi, [case], directory)


def test_registrations_of_processes_end_with_the_memory(job, guests, stock_mpi, directory):
    needed_header("liburing.h", "liburing-dev")
    program = guests.build("mpi_registered.c", stock_mpi.compiler, FLAGS, f"{stock_mpi.name}-registered")
    run_cases(job, program, stock_mpi, ["allocate", "allocate_shared", "dynamic", "segment"], directory, "processes")


def test_registration_cache_of_ucx(job, guests, stock_mpi, directory):
    """Its hooks change the code of libc's functions."""
    needed_header("liburing.h", "liburing-dev")
    needed_header("ucs/memory/rcache.h", "libucx-dev")
    program = guests.build("mpi_registered.c", stock_mpi.compiler, (*FLAGS, "-DUCX", "-lucs", "-lucm"),
                           f"{stock_mpi.name}-registered-ucx")
    run_cases(job, program, stock_mpi, MEMORY, directory, env={"UCX_MEM_MMAP_HOOK_MODE": "bistro"})
