"""What docs/collective-operations.md promises of the collective operations beside their results."""
import re

import pytest

from jobs import RUN
from test_collectives import ALGORITHMS, FORCED, LONG, ON, counted, right

OFF = [*RUN, "--collectives", "off"]
MPIS = ["mpich", "openmpi"] if LONG else ["mpich"]


def lines_of(job, mpi, ranks, command, timeout=300):
    result = job.run(mpi.command(ranks, command), timeout=timeout, env=mpi.env)
    assert result.code == 0, str(result)
    return result.lines


@pytest.mark.long
@pytest.mark.parametrize("ranks", [2, 3] if LONG else [3])
def test_threads_have_communicators_of_their_own(job, guests, stock_mpi, ranks):
    """Another thread makes and frees communicators meanwhile."""
    program = guests.mpi(stock_mpi, "mpi_collectives_threads")
    for seed in "12" if LONG else "1":
        lines = lines_of(job, stock_mpi, ranks, [*ON, program, "1000" if LONG else "100", seed], timeout=300)
        assert sorted(lines) == right(ranks)


def test_waiting_ranks_make_the_librarys_progress(job, guests, stock_mpi):
    """A rank waits in the operation while another sends to it what it must help to receive."""
    lines = lines_of(job, stock_mpi, 2, [*ON, guests.mpi(stock_mpi, "mpi_collectives_progress")])
    assert sorted(lines) == right(2)


@pytest.mark.parametrize("name", ["mpich", "openmpi", "wheel-mpich"])
def test_one_address_for_both_sides_may_have_data_apart(job, guests, mpi_named, name):
    """MPI_BOTTOM, and two parts of one array: MPICH refuses one address only with the same counts and types."""
    mpi = mpi_named(name)
    assert sorted(lines_of(job, mpi, 2, [*ON, guests.mpi(mpi, "mpi_collectives_bottom")])) == right(2)


def test_operations_need_little_stack(job, guests, distributions_mpi):
    """User-level threads have small ones."""
    lines = lines_of(job, distributions_mpi, 2, [*ON, guests.mpi(distributions_mpi, "mpi_collectives_stack")])
    used = {line.rsplit(": ", 1)[0]: int(line.rsplit(": ", 1)[1]) for line in lines}
    assert len(used) == 18 and max(used.values()) < 6000, used


@pytest.mark.parametrize("messages, allowed", [(1, 0), (10, 100)])
def test_one_poll_after_an_operation_finds_what_was_sent_before(job, guests, distributions_mpi, messages, allowed):
    """As it does after the library's own operation. Of several queued messages MPICH receives two at a time: without
    progress of its own the operation would leave thousands."""
    mpi, program = distributions_mpi, guests.mpi(distributions_mpi, "mpi_collectives_polls")
    lines = lines_of(job, mpi, 2, [*ON, program, str(messages)])
    missed = [int(line.split()[2]) for line in lines if line.endswith(" wrong")]
    assert len(missed) == 2 and sum(missed) <= allowed, lines


# Three ranks of MPICH that share two CPUs take seconds for this program: one after another, and once as the library's.
one_by_one = pytest.mark.xdist_group("wrong arguments")


@pytest.fixture(scope="module")
def refusals():
    """{MPI: the lines of three ranks without the layer}"""
    return {}


def refusals_of(refusals, job, guests, mpi):
    if mpi.name not in refusals:
        refusals[mpi.name] = lines_of(job, mpi, 3, [*OFF, guests.mpi(mpi, "mpi_collectives_limits")], 300)
    return refusals[mpi.name]


@one_by_one
@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_what_the_library_refuses_is_refused_alike(job, guests, mpi_named, refusals, name):
    """With the same class of error, by one call of the handler; and calls that move nothing change nothing."""
    mpi = mpi_named(name)
    program = guests.mpi(mpi, "mpi_collectives_limits")
    off, on = refusals_of(refusals, job, guests, mpi), lines_of(job, mpi, 3, [*ON, program], 300)
    assert sorted(on) == sorted(off) and len(off) > 100


CLASSES = re.compile(r"(\w+, .*?):((?: \d+ \(\d+ times\))+)$")


def classes_of(lines):
    found = (CLASSES.match(line) for line in lines)
    return {match[1]: [int(word) for word in match[2].split()[::3]] for match in found if match}


@one_by_one
@pytest.mark.parametrize("wrong_rank", [0, 1, 2])
@pytest.mark.parametrize("name, other, algorithm", [("mpich", 15, "automatic"), ("openmpi", 16, "automatic"),
                                                    *(("mpich", 15, algorithm) for algorithm in ALGORITHMS)])
def test_wrong_arguments_of_one_rank_are_an_error_of_that_rank(job, guests, mpi_named, refusals, name, other, algorithm,
                                                               wrong_rank):
    """The library's. No other rank waits: it succeeds, or has an error of class MPI_ERR_OTHER, and the next operation
    works."""
    mpi = mpi_named(name)
    program = guests.mpi(mpi, "mpi_collectives_limits")
    library = classes_of(refusals_of(refusals, job, guests, mpi))
    forced = job.run(mpi.command(3, [*ON, program, str(wrong_rank)]), timeout=300, env={**mpi.env, FORCED: algorithm})
    layer = classes_of(forced.lines)
    assert forced.code == 0, str(forced)
    assert len(layer) > 100 and any(other in classes for classes in layer.values())
    for call, classes in layer.items():
        own = classes.pop(wrong_rank)
        if call in library and "than expected" not in call and "on one rank" not in call:
            assert own == library[call][wrong_rank], call
            assert set(classes) <= {0, other}, call


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_results_that_depend_on_the_order_are_the_same_on_all_ranks(job, guests, mpi_named, name, algorithm):
    """NaNs, the sign of zero, the index of equal values."""
    mpi = mpi_named(name)
    program = guests.mpi(mpi, "mpi_collectives_order")
    for ranks in 2, 5:
        result = job.run(mpi.command(ranks, [*ON, program]), timeout=60, env={**mpi.env, FORCED: algorithm})
        assert result.code == 0 and sorted(result.lines) == right(ranks), str(result)


def test_algorithms_that_do_not_exist_are_named(job, guests, mpi_named):
    mpi = mpi_named("mpich")
    result = job.run(mpi.command(2, [*ON, guests.mpi(mpi, "mpi_collectives_progress")]), timeout=60,
                     env={**mpi.env, FORCED: "fast"})
    assert result.code == 0 and "ONESPACE_COLLECTIVES_ALGORITHM is fast: use automatic, flat" in result.err, str(result)


@pytest.mark.parametrize("name, ranks", [(name, ranks) for name in MPIS for ranks in (2, 5)] if LONG else
                         [("mpich", 5), ("openmpi", 2)])
def test_rounded_sums_have_the_same_bits_in_each_run(job, guests, mpi_named, name, ranks):
    """And on all ranks. The second run has delays."""
    mpi = mpi_named(name)
    program = guests.mpi(mpi, "mpi_collectives_bits")
    once, again = (sorted(lines_of(job, mpi, ranks, [*ON, program, seed])) for seed in "01")
    assert once == again and once[-ranks:] == right(ranks) and len(once) == 70 + ranks


@pytest.mark.parametrize("name", MPIS)
def test_all_operations_on_all_types_give_the_librarys_results(job, guests, mpi_named, name):
    """And what the library computes, the layer computes: sums of MPI_CHAR, too."""
    mpi = mpi_named(name)
    program = guests.mpi(mpi, "mpi_collectives_types")
    off = lines_of(job, mpi, 3, [*OFF, program])
    result = job.run(mpi.command(3, [*ON, "--stats", program]), timeout=300, env=mpi.env)
    done = [line for line in off if not line.endswith(": refused")]
    assert len(done) > 1000 and any(line.startswith("MPI_SUM of 1 MPI_CHAR:") for line in done)
    assert result.code == 0 and result.lines == off, str(result)
    assert counted(result) >= 3 * len(done)


@pytest.mark.parametrize("source", ["mpi_collectives_f08", "mpi_collectives_mpif"])
def test_fortran_has_them_too(job, guests, distributions_mpi, source):
    program = guests.mpi(distributions_mpi, source)
    result = job.run(distributions_mpi.command(3, [*ON, "--stats", program]), timeout=60)
    assert result.code == 0 and sorted(result.lines) == right(3), str(result)
    assert counted(result) == 6 * 3, str(result)


def test_end_of_a_rank_after_a_call_does_not_fail_the_call_of_others(job, guests, mpi_named):
    """Rank 3 leaves by exit when it has returned from a barrier in which the others wait for rank 2."""
    mpi = mpi_named("mpich")
    result = job.run(mpi.command(4, [*ON, guests.mpi(mpi, "mpi_collectives_leave")], "-disable-auto-cleanup"),
                     timeout=60, env={"ONESPACE_COLLECTIVES_ALGORITHM": "doubling"})
    assert result.lines == [f"rank {rank}: 0" for rank in range(4)], str(result)


@pytest.mark.long
def test_death_of_a_rank_ends_each_operation(job, guests, mpi_named):
    """Also where it would have read another's memory. A rank that has what it needs has no error."""
    mpi = mpi_named("mpich")
    result = job.run(mpi.command(3, [*ON, guests.mpi(mpi, "mpi_collectives_death")], "-disable-auto-cleanup"),
                     timeout=60)
    names = ["Barrier", "Bcast of rank 0", "Bcast of rank 1", "Alltoallv", "Allreduce", "Scatter"]
    expected = [f"rank {rank}, {name}: {'no' if (rank, name) == (2, 'Bcast of rank 0') else 'an'} error"
                for rank in (0, 2) for name in names]
    assert sorted(line for line in result.lines if line.startswith("rank")) == sorted(expected), str(result)
