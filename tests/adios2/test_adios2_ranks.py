"""tests/adios2/test_adios2_ranks.py: the ranks of a reader with a communicator (guests/adios2_ranks) agree on the
result of each BeginStep; each end of the stream frees what it owns."""
import subprocess
import time

import pytest

from guests import PROGRAMS
from jobs import RUN
from launchers import MPIS

STEPS = 6


@pytest.fixture
def start(stream):
    """Starts ranks of the guest with the MPI that CMake has found."""
    program = PROGRAMS / "adios2_ranks"
    if not program.exists():
        pytest.skip("the guest adios2_ranks is not built: CMake found no MPI")
    libraries = subprocess.run(["ldd", program], capture_output=True, text=True, timeout=180, check=True).stdout
    mpi = MPIS["openmpi" if "libmpi.so.40" in libraries else "mpich"].needed()

    def run(ranks, *words):
        return stream.start(*mpi.command(ranks, [*RUN, "--space", stream.space, program, *words]), command=())
    return run


def steps_of(lines):
    return sorted(int(line.split()[1]) for line in lines.splitlines() if line.startswith("step "))


@pytest.mark.parametrize("words", [["not-ready"], ["not-ready", "precious"]], ids="-".join)
def test_step_that_one_rank_has_not_got_is_not_ready(stream, start, words):
    assert stream.finish(start(3, *words)).count("0 steps, then the end") == 2


@pytest.mark.parametrize("words, first", [(["late"], []), (["late", "precious"], [0])], ids=["late", "late-precious"])
def test_ranks_that_open_late_begin_with_the_same_step(stream, start, words, first):
    assert steps_of(stream.finish(start(3, *words))) == sorted(2 * [*first, *range(2, STEPS)])


def test_ranks_get_the_same_error(stream, start):
    """One rank has taken a step before the writer is killed."""
    writer = stream.write("3", "0", "never")
    readers = start(2, "killed")
    readers.wait_for("waits")
    time.sleep(0.5)
    writer.process.kill()
    writer.finish()
    (stream.directory / "killed").touch()
    assert stream.finish(readers).count("steps, then an error") == 2  # the death may become known late


def test_channel_is_opened_once(stream, start):
    writer = stream.write("3")
    assert "3 steps, then the end" in stream.finish(start(1, "open-once"), writer)


def test_stream_is_opened_on_all_ranks_or_on_none(stream, start):
    output = stream.finish(start(3, "open-apart"))
    assert output.count("another rank could not open it") == 1
    assert output.count("no writer of this space has opened it within 0 s") == 1


def test_communicator_is_freed(stream, start):
    assert stream.finish(start(2, "communicator")).count("all freed") == 2
