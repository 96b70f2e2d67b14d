"""The device under windows on storage fails, or is full, through MPI: in processes and in tasks. The guest lets each
system call of one rank fail in turn, or leaves more and more free space on a small disk, and checks what
docs/storage.md and docs/checkpoints.md promise. The same one layer below, with more errors: tests/storage/faults."""
import os

import pytest

from launchers import none_wrong

LONG = os.environ.get("ONESPACE_LONG") == "1"
WAYS = [(library, kind) for library in ("mpich", "openmpi") for kind in ("tasks", "processes")][:None if LONG else 1]
WITHOUT_VERSIONS = ["file_per_rank", "contiguous", "alloc_mem", *(["one_file", "unlink"] if LONG else [])]
WITH_VERSIONS = ["versions", "versions_one_file", *(["versions_combined"] if LONG else [])]
DIRECT = [["write_once"]] if LONG else []


@pytest.fixture
def run_modes(run_guest, mpi_named):
    """The guest's output for each mode, once it has found nothing wrong."""
    def run(library, kind, directory, what, modes):
        mpi = mpi_named(library)
        result = run_guest(mpi, 2, "mpi_storage_faults", directory, what, *modes, prefix=mpi.prefix(kind),
                           timeout=1800 if LONG else 300, **({"EVERY": "1"} if LONG else {}))
        assert result.code == 0 and result.err == "", str(result)
        assert [line for line in result.lines if line.startswith("rank")] == none_wrong(2), result
        return result.out
    return run


def times_failed(out):
    words = (line.split() for line in out.splitlines() if line.endswith(" times"))
    return {line[0]: int(line[2]) for line in words}


@pytest.mark.parametrize("library, kind", WAYS)
@pytest.mark.parametrize("modes", [WITHOUT_VERSIONS, WITH_VERSIONS, *DIRECT], ids=lambda modes: modes[0])
def test_each_call_that_fails_is_an_error_and_no_loss(run_modes, library, kind, in_memory, modes):
    failed = times_failed(run_modes(library, kind, in_memory, "calls", modes))
    needed = {"openat", "fchmod", "fallocate", "fsync", "msync"} if modes != WITH_VERSIONS else \
        {"openat", "mkdir", "fchmod", "fallocate", "pwrite", "fsync", "fdatasync", "msync"}
    assert needed <= {name for name, times in failed.items() if times}, failed


@pytest.mark.parametrize("library, kind", WAYS)
def test_disk_with_more_and_more_free_space(run_modes, library, kind, small_disk):
    """Full at each moment of opening and committing; then there is space again, and the program continues."""
    inside = small_disk / "files"
    inside.mkdir()
    run_modes(library, kind, inside, "full", [*WITH_VERSIONS, "one_file"] if LONG else ["versions_one_file"])
