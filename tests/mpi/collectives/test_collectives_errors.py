"""Errors of collective operations: wrong arguments, calls that differ between ranks, ranks that exit."""
import re

import pytest
from test_collectives_choice import MISMATCH
from test_collectives_results import ALGORITHMS, FORCED, ON, RANDOM

# Three ranks of MPICH that share two CPUs take seconds for mpi_collectives_refused: one after another.
one_by_one = pytest.mark.xdist_group("wrong arguments")


# ---- Wrong arguments ----

@one_by_one
@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_layer_refuses_what_the_library_refuses(check_guest, run_guest, mpi_named, refused_by_library, name):
    """With the same class of error, by one call of the handler; and calls that move nothing change nothing."""
    mpi = mpi_named(name)
    off, on = refused_by_library(mpi), run_guest(mpi, 3, "mpi_collectives_refused", prefix=ON, timeout=300)
    assert on.code == 0 and on.lines == off and len(off) > 100, str(on)


@one_by_one
@pytest.mark.parametrize("wrong_rank", [0, 1, 2])
@pytest.mark.parametrize("name, other, algorithm", [("mpich", 15, "automatic"), ("openmpi", 16, "automatic"),
                                                    *(("mpich", 15, algorithm) for algorithm in ALGORITHMS)])
def test_wrong_arguments_of_one_rank_are_an_error_of_that_rank(run_guest, mpi_named, expect_error_of_one_rank, name,
                                                               other, algorithm, wrong_rank):
    """No other rank waits, and the next operation works."""
    mpi = mpi_named(name)
    result = run_guest(mpi, 3, "mpi_collectives_refused", wrong_rank, prefix=ON, timeout=300, **{FORCED: algorithm})
    assert result.code == 0, str(result)
    expect_error_of_one_rank(mpi, other, wrong_rank, result.lines, least=100)


# ---- Calls that differ ----

def test_counts_that_differ_are_named(run_guest, stock_mpi):
    """As in the MPI libraries the rank that gets too much has the error."""
    result = run_guest(stock_mpi, 2, "mpi_collectives_mismatch", "count", prefix=ON)
    assert result.lines == ["rank 0, count: no error", "rank 1, count: truncated"], str(result)
    assert MISMATCH in result.err, str(result)


def test_counts_that_differ_are_an_error_of_user_defined_operations(run_guest, stock_mpi):
    result = run_guest(stock_mpi, 2, "mpi_collectives_mismatch", "user_op_count", prefix=ON)
    assert result.lines == ["rank 0, user_op_count: truncated", "rank 1, user_op_count: truncated"], str(result)
    assert "passed another size or root" in result.err, str(result)


def test_gathers_of_sizes_that_differ_end(run_guest, stock_mpi):
    result = run_guest(stock_mpi, 3, "mpi_collectives_mismatch", "sizes", prefix=ON)
    sizes = [(65536, 65536), (65536, 32768), (65536, 100), (32768, 65536), (100, 65536)]
    expected = [f"rank {rank}, {given} for {wanted}: {'no error' if rank or given <= wanted else 'truncated'}, 0 wrong"
                for rank in range(3) for given, wanted in [*sizes, sizes[0]]]
    assert result.code == 0 and result.lines == sorted(expected), str(result)


DIFFERENT = [("count", "MPI_Bcast of 8192 bytes, root 0, and rank 1 MPI_Bcast of 4096 bytes, root 0"),
             ("root", "MPI_Bcast of 8 bytes, root 0, and rank 1 MPI_Bcast of 8 bytes, root 1"),
             ("operation", "MPI_Allreduce of 4 bytes with MPI_SUM, and rank 1 MPI_Allreduce of 4 bytes with MPI_MAX"),
             ("call", "MPI_Barrier, and rank 1 MPI_Allreduce of 4 bytes with MPI_SUM"),
             ("gather", "MPI_Gather of 8 bytes, root 0, and rank 1 MPI_Gather of 4 bytes, root 0"),
             ("gatherv", "MPI_Gather of 4 bytes, root 0, and rank 1 MPI_Gatherv, root 0"),
             ("scatter", "MPI_Scatter of 8 bytes, root 0, and rank 1 MPI_Scatter of 4 bytes, root 0"),
             ("allgatherv", "MPI_Allgatherv of 3 bytes, and rank 1 MPI_Allgatherv of 3 bytes, with other counts for "
                            "the ranks"),
             ("alltoall", "MPI_Alltoall of 4 bytes, and rank 1 MPI_Alltoall of 8 bytes"),
             ("alltoallv", "MPI_Alltoall of 4 bytes, and rank 1 MPI_Alltoallv"),
             ("reduce_scatter", "MPI_Reduce_scatter of 12 bytes with MPI_SUM, and rank 1 MPI_Reduce_scatter of 12 "
                                "bytes with MPI_SUM, with other counts for the ranks"),
             ("block", "MPI_Reduce_scatter of 12 bytes with MPI_SUM, and rank 1 MPI_Reduce_scatter_block of 4 bytes "
                       "with MPI_SUM")]


def test_check_names_calls_that_differ(run_guest, stock_mpi):
    """On all ranks the call fails, and the next one works; one rank prints why."""
    result = run_guest(stock_mpi, 3, "mpi_collectives_mismatch", *(way for way, _ in DIFFERENT), prefix=ON,
                       ONESPACE_LOG="check")
    assert result.lines == sorted(f"rank {i}, {way}: failed" for i in range(3) for way, _ in DIFFERENT), str(result)
    messages = re.findall(r"collective calls differ: rank 0 has called (.*): all ranks must", result.err)
    assert messages == [message for _, message in DIFFERENT], str(result)


@pytest.mark.parametrize("guest", RANDOM)
def test_check_passes_what_is_right(check_guest, stock_mpi, guest):
    check_guest(stock_mpi, 3, guest, "300", prefix=ON, ONESPACE_LOG="check")


# ---- A rank that exits ----

OPERATIONS = ["Allreduce", "Alltoallv", "Barrier", "Bcast of rank 0", "Bcast of rank 1", "Scatter"]


@pytest.mark.parametrize("names", [["Allreduce"], pytest.param(OPERATIONS, marks=pytest.mark.long)])
def test_death_of_a_rank_ends_each_operation(run_guest, mpi_named, names):
    """Also where it would have read another's memory. A rank that has what it needs has no error."""
    result = run_guest(mpi_named("mpich"), 3, "mpi_collectives_rank_death", *names, prefix=ON,
                       options=["-disable-auto-cleanup"])
    expected = [f"rank {rank}, {name}: {'no' if (rank, name) == (2, 'Bcast of rank 0') else 'an'} error"
                for rank in (0, 2) for name in names]
    assert [line for line in result.lines if line.startswith("rank")] == sorted(expected), str(result)
    assert "rank 1 of the communicator has ended" in result.err, str(result)


def test_death_of_a_rank_ends_a_barrier_of_several_spaces(job, guests, mpi_named):
    """Rank 1 of the first space leads for no other, so that a rank that lives tells the other space."""
    mpi = mpi_named("mpich")
    spaces = [[*ON, "--space", f"{job.token}-{i}", guests.mpi(mpi, "mpi_collectives_rank_death"), "Barrier"]
              for i in range(2)]
    words = [*spaces[0], ":", "-n", "1", *spaces[1]]
    result = job.run(mpi.command(2, words, "-disable-auto-cleanup"), env=mpi.env)
    assert [line for line in result.lines if line.startswith("rank")] == [
        f"rank {rank}, Barrier: an error" for rank in (0, 2)], str(result)
    assert "rank 0 could not take part" in result.err, str(result)


def test_end_of_a_rank_after_a_call_does_not_fail_the_call_of_others(run_guest, mpi_named):
    """Rank 3 leaves by exit when it has returned from a barrier in which the others wait for rank 2."""
    result = run_guest(mpi_named("mpich"), 4, "mpi_collectives_leave", prefix=ON, options=["-disable-auto-cleanup"],
                       ONESPACE_COLLECTIVES_ALGORITHM="doubling")
    assert result.lines == [f"rank {rank}: 0" for rank in range(4)], str(result)
