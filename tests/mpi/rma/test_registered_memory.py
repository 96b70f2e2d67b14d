"""A network library that has registered memory learns that the memory goes, also when another task frees it.
io_uring's fixed buffers stand in for the card."""
import os
import pathlib

import pytest

from guests import INCLUDE
from jobs import ROOT, RUN
from launchers import none_wrong

FLAGS = ("-O1", "-g", INCLUDE, f"-I{ROOT / 'tests'}", "-rdynamic", "-ldl", "-luring")
MEMORY = ["allocate", "allocate_shared", "small", "storage", "alloc_mem", "dynamic", "segment"]


@pytest.fixture
def check_registrations(job, guests, stock_mpi, in_memory):
    """Runs the guest on kinds of memory. In memory: io_uring does not pin pages of files on disk. An MPI library's own
    UCX would put its hooks into the place of the program's, unless `hooks` permits that."""
    def check(memory, prefix=RUN, headers=("liburing.h", "liburing-dev"), flags=(), hooks="none"):
        if not os.access("/dev/shm", os.W_OK):
            pytest.skip("no /dev/shm")
        for name, package in zip(headers[::2], headers[1::2]):
            if not pathlib.Path("/usr/include", name).exists():
                pytest.skip(f"no {name} (package {package})")
        program = guests.build("mpi_registered.c", stock_mpi.compiler, (*FLAGS, *flags),
                               f"{stock_mpi.name}-registered{'-ucx' if flags else ''}")
        result = job.run(stock_mpi.command(2, [*prefix, program, in_memory, *memory]),
                         env={**stock_mpi.env, "UCX_MEM_MMAP_HOOK_MODE": hooks})
        if result.code == 77:
            pytest.skip("io_uring is not permitted")
        assert result.code == 0 and result.lines == none_wrong(2), str(result)
    return check


@pytest.mark.parametrize("memory", MEMORY)
def test_registrations_end_with_the_memory(check_registrations, memory):
    check_registrations([memory])


def test_registrations_of_processes_end_with_the_memory(check_registrations):
    check_registrations(["allocate", "allocate_shared", "dynamic", "segment"], prefix=[])


def test_registration_cache_of_ucx(check_registrations):
    """Its hooks change the code of libc's functions."""
    check_registrations(MEMORY, flags=("-DUCX", "-lucs", "-lucm"), hooks="bistro",
                        headers=("liburing.h", "liburing-dev", "ucs/memory/rcache.h", "libucx-dev"))
