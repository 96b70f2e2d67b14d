"""The collective operations of ranks in one space give what the MPI library's own give."""
import os
import re

import pytest

from jobs import RUN
from launchers import none_wrong

LONG = os.environ.get("ONESPACE_LONG") == "1"
ROUNDS = int(os.environ.get("ONESPACE_ROUNDS") or ("30000" if LONG else "1000"))
SEEDS = [os.environ["ONESPACE_SEED"]] if "ONESPACE_SEED" in os.environ else ["1", "2"]
TIME = 180 + ROUNDS // 100
ON = [*RUN, "--collectives", "on"]
FORCED = "ONESPACE_COLLECTIVES_ALGORITHM"
ALGORITHMS = ["flat", "doubling", "tree", "large"]
REDUCTIONS = [("mpi_collectives_user_ops", "layer"), ("mpi_collectives_pairs", "")]
RANDOM = ["mpi_collectives_random", "mpi_collectives_moves"]


def test_programs_of_each_library(check_guest, mpi):
    check_guest(mpi, 3, "mpi_collectives")


@pytest.mark.parametrize("ranks", [2, 3, 5])
@pytest.mark.parametrize("guest", RANDOM)
def test_results_are_right(check_guest, stock_mpi, guest, ranks):
    for seed in SEEDS:
        check_guest(stock_mpi, ranks, guest, ROUNDS, seed, prefix=ON, timeout=TIME)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("guest, which", [*((guest, "") for guest in RANDOM), *REDUCTIONS])
def test_results_of_each_algorithm_are_right(check_guest, stock_mpi, guest, which, algorithm):
    """Forced, because the layer chooses some of them for more than eight ranks with a CPU each only."""
    for ranks in (2, 3, 5, 8) if LONG else (5,):
        check_guest(stock_mpi, ranks, guest, ROUNDS // 4, SEEDS[0], which, prefix=ON, timeout=TIME,
                    **{FORCED: algorithm})


@pytest.fixture
def run_in_spaces(job, guests, stock_mpi):
    """Runs a guest with so many ranks in each of several spaces, as on several nodes; the MPI library carries the
    messages of their leaders, here through shared memory."""
    def run(sizes, guest, *arguments, env=None):
        words = []
        for i, size in enumerate(sizes):
            words += [":", "-n", str(size)] if i else []
            words += [*ON, "--stats", "--space", f"{job.token}-{i}", guests.mpi(stock_mpi, guest), *arguments]
        result = job.run(stock_mpi.command(sizes[0], words), timeout=TIME, env={**stock_mpi.env, **(env or {})})
        assert result.code == 0 and result.lines == none_wrong(sum(sizes)), str(result)
        return result
    return run


@pytest.mark.parametrize("sizes", [(2, 1), (2, 2, 1), (1, 1, 1, 2), (1, 2, 2, 1, 1), (2, 2, 2, 1, 1, 1)])
@pytest.mark.parametrize("guest, which", [("mpi_collectives_moves", ""), ("mpi_collectives_user_ops", "dense"),
                                          ("mpi_collectives_user_ops", "alike"), ("mpi_collectives_pairs", "")])
def test_results_of_ranks_in_several_spaces_are_right(run_in_spaces, guest, which, sizes):
    """Numbers of spaces that are a power of two, and others."""
    run_in_spaces(sizes, guest, "60", SEEDS[0], which)


OVER_NODES = ["Bcast", "Gather", "Scatter", "Allgather", "Alltoall", "Allreduce", "Reduce_scatter",
              "Reduce_scatter_block"]


@pytest.mark.parametrize("items, operations", [(10, OVER_NODES), (10000, [])])
def test_operations_of_ranks_in_several_spaces_are_the_layers(run_in_spaces, items, operations):
    """If they are short; barriers always."""
    result = run_in_spaces((2, 2, 2), "mpi_collectives_named", 20, items, "Barrier", *OVER_NODES)
    counts = [int(count) for count in re.findall(r"together: .*; MPI collectives: (\d+);", result.err)]
    assert len(counts) == 3 and sum(counts) == 20 * 6 * (1 + len(operations)), result


@pytest.mark.parametrize("ranks", [2, 3, 5, 8] if LONG else [3])
@pytest.mark.parametrize("guest, which", REDUCTIONS)
def test_reductions_are_right(check_guest, stock_mpi, counted, guest, which, ranks):
    """And all of them are the layer's."""
    result = check_guest(stock_mpi, ranks, guest, ROUNDS // 4, SEEDS[0], which, prefix=[*ON, "--stats"], timeout=TIME)
    assert counted(result) == ROUNDS // 4 * ranks, str(result)


@pytest.mark.parametrize("which", ["on", "off"])
def test_large_counts(check_guest, stock_mpi, which):
    """By the layer, by the library, and where that has none by its functions with int counts."""
    check_guest(stock_mpi, 3, "mpi_collectives_large_counts", prefix=[*RUN, "--collectives", which])


@pytest.mark.parametrize("name, guest, which", [
    ("mpich", "mpi_collectives_user_ops", "dense"), ("openmpi", "mpi_collectives_user_ops", "alike"),
    ("mpich", "mpi_collectives_pairs", ""), ("openmpi", "mpi_collectives_pairs", ""),
    ("openmpi", "mpi_collectives_random", ""), ("openmpi", "mpi_collectives_moves", "")])
def test_libraries_agree_with_the_check(check_guest, mpi_named, name, guest, which):
    """What these programs expect is what the MPI library does in processes. MPICH 4.0.2 reduces types that have gaps,
    but fails an assertion when it frees them; it crashes where the root of an MPI_Reduce in place is not rank 0, and
    truncates where the types of an MPI_Allgatherv differ in extent."""
    check_guest(mpi_named(name), 2, guest, ROUNDS // 4, "1", which, prefix=[], timeout=TIME)


@pytest.mark.parametrize("guest", ["mpi_collectives", "mpi_onesided", "mpi_operations", "mpi_datatypes"])
def test_other_programs_run_as_before(off_and_on, stock_mpi, guest):
    off, on = off_and_on(stock_mpi.needed_for(guest), 2, guest)
    assert (on.code, on.lines) == (0, off.lines), f"{off}\n{on}"


@pytest.mark.parametrize("name", ["mpich", "openmpi", "wheel-mpich"])
def test_one_address_for_both_sides_may_have_data_apart(check_guest, mpi_named, name):
    """MPI_BOTTOM, and two parts of one array: MPICH refuses one address only with the same counts and types."""
    check_guest(mpi_named(name), 2, "mpi_collectives_same_address", prefix=ON)


NO_ALIAS_CHECK = {"MPIR_CVAR_COLL_ALIAS_CHECK": "0"}  # Open MPI checks it in reductions only


def test_own_block_may_be_sent_and_received_where_the_library_does_not_mind(check_guest, stock_mpi):
    """Debian's MPICH accepts the arguments, with processes too, but has an assertion against copying a block onto
    itself."""
    check_guest(stock_mpi, 3, "mpi_collectives_same_address", "own", prefix=ON, **NO_ALIAS_CHECK)


def test_own_block_may_be_sent_and_received_in_several_spaces(run_in_spaces):
    """The other ranks do not know of it."""
    run_in_spaces((2, 2), "mpi_collectives_same_address", "own", env=NO_ALIAS_CHECK)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_results_that_depend_on_the_order_are_the_same_on_all_ranks(check_guest, mpi_named, name, algorithm):
    """NaNs, the sign of zero, the index of equal values."""
    for ranks in 2, 5:
        check_guest(mpi_named(name), ranks, "mpi_collectives_order", prefix=ON, timeout=TIME, **{FORCED: algorithm})


@pytest.mark.parametrize("name, ranks", [(name, ranks) for name in ("mpich", "openmpi") for ranks in (2, 5)] if LONG
                         else [("mpich", 5), ("openmpi", 2)])
def test_rounded_sums_have_the_same_bits_in_each_run(run_guest, mpi_named, name, ranks):
    """And on all ranks. The second run has delays."""
    first, second = (run_guest(mpi_named(name), ranks, "mpi_collectives_bits", seed, prefix=ON, timeout=300)
                     for seed in "01")
    assert first.code == 0 and first.lines == second.lines, f"{first}\n{second}"
    assert first.lines[-ranks:] == none_wrong(ranks) and len(first.lines) == 70 + ranks


@pytest.mark.parametrize("name", ["mpich", "openmpi"] if LONG else ["mpich"])
def test_all_operations_on_all_types_give_the_librarys_results(off_and_on, mpi_named, counted, name):
    """And what the library computes, the layer computes: sums of MPI_CHAR, too."""
    off, on = off_and_on(mpi_named(name), 3, "mpi_collectives_types", timeout=300)
    done = [line for line in off.lines if not line.endswith(": refused")]
    assert len(done) > 1000 and any(line.startswith("MPI_SUM of 1 MPI_CHAR:") for line in done)
    assert (on.code, on.lines) == (0, off.lines), str(on)
    assert counted(on) >= 3 * len(done)


@pytest.mark.parametrize("guest", ["mpi_collectives_f08", "mpi_collectives_mpif"])
def test_fortran_has_them_too(check_guest, distributions_mpi, counted, guest):
    assert counted(check_guest(distributions_mpi, 3, guest, prefix=[*ON, "--stats"])) == 6 * 3
