"""The device under windows on storage fails, or is full, through MPI: in processes and in tasks. The guest lets each
system call of one rank fail in turn, or leaves more and more room on a small disk, and checks what docs/storage.md and
docs/checkpoints.md promise. The same one layer below, with more errors: tests/storage/faults."""
import os
import pathlib
import tempfile

import pytest

from test_storage import prefix

LONG = os.environ.get("ONESPACE_LONG") == "1"
TIME = 1800 if LONG else 300
WAYS = [(library, kind) for library in ("mpich", "openmpi") for kind in ("tasks", "processes")][:None if LONG else 1]
WITHOUT_VERSIONS = ["file_per_rank", "contiguous", "alloc_mem", *(["one_file", "unlink"] if LONG else [])]
WITH_VERSIONS = ["versions", "versions_one_file", *(["versions_combined"] if LONG else [])]
DIRECT = [["write_once"]] if LONG else []


@pytest.fixture
def in_memory(tmp_path):
    """A directory in which flushing costs nothing, if there is one."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(prefix="onespace-", dir=memory) as place:
        yield pathlib.Path(place)


def run(job, guests, mpi, kind, directory, what, modes):
    """What the guest says of each mode, once it has found nothing wrong."""
    program = [*prefix(mpi, kind), guests.mpi(mpi, "mpi_storage_faults"), directory, what, *modes]
    env = {**mpi.env, **({"EVERY": "1"} if LONG else {})}
    result = job.run(mpi.command(2, program), timeout=TIME, env=env)
    assert result.code == 0 and result.err == "", str(result)
    assert [line for line in result.lines if line.startswith("rank")] == ["rank 0: 0 wrong", "rank 1: 0 wrong"], result
    return result.out


def times_failed(out):
    words = (line.split() for line in out.splitlines() if line.endswith(" times"))
    return {line[0]: int(line[2]) for line in words}


@pytest.mark.parametrize("library, kind", WAYS)
@pytest.mark.parametrize("modes", [WITHOUT_VERSIONS, WITH_VERSIONS, *DIRECT], ids=lambda modes: modes[0])
def test_each_call_that_fails_is_an_error_and_no_loss(job, guests, mpi_named, library, kind, in_memory, modes):
    failed = times_failed(run(job, guests, mpi_named(library), kind, in_memory, "calls", modes))
    needed = {"openat", "fchmod", "fallocate", "fsync", "msync"} if modes != WITH_VERSIONS else \
        {"openat", "mkdir", "fchmod", "fallocate", "pwrite", "fsync", "fdatasync", "msync"}
    assert needed <= {name for name, times in failed.items() if times}, failed


@pytest.mark.parametrize("library, kind", WAYS)
def test_disk_with_more_and_more_room(job, guests, mpi_named, library, kind, small_disk):
    """Full at each moment of opening and committing; then there is room again, and the program goes on."""
    inside = small_disk / "files"
    inside.mkdir()
    modes = [*WITH_VERSIONS, "one_file"] if LONG else ["versions_one_file"]
    run(job, guests, mpi_named(library), kind, inside, "full", modes)
