"""Collective operations of ranks on two nodes, namespaces of this machine."""
import os
import re

import pytest
from test_collectives_results import ON

from launchers import none_wrong

pytestmark = pytest.mark.alone
LONG = os.environ.get("ONESPACE_LONG") == "1"

JOBS = [("random", "", "mpich", 3), ("pairs", "", "openmpi", 4), ("user_ops", "dense", "mpich", 4),
        ("user_ops", "alike", "openmpi", 3), ("moves", "", "mpich", 4), ("moves", "", "openmpi", 4)]
if LONG:
    JOBS += [("random", "", "openmpi", 4), ("pairs", "", "mpich", 4), ("pairs", "", "openmpi", 3)]


def ranks_of(text):
    return sorted(line for line in text.splitlines() if line.startswith("rank "))


@pytest.mark.parametrize("guest, which, name, ranks", JOBS)
def test_results_are_right(guests, mpi_named, run_on_nodes, guest, which, name, ranks):
    """Some spaces have one rank, some two, and communicators come and go. What is large goes by the library: MPICH's
    crashes where the types of reductions have gaps."""
    mpi = mpi_named(name)
    words = [*ON, "--stats", guests.mpi(mpi, f"mpi_collectives_{guest}"), "300", "4", which]
    text = run_on_nodes(mpi, ranks, words, lambda text: text.count(" wrong\n") == ranks, all_output=True)
    assert ranks_of(text) == none_wrong(ranks), text
    # Hydra, when it has no more to do, may drop what comes last.
    counts = [int(count) for count in re.findall(r"together: .*MPI collectives: (\d+)", text)]
    assert max(counts, default=1) > 0, text


# The layer leaves wrong arguments of these to the library, where the other ranks wait.
NOT_CHECKED = ["Bcast", "Gather", "Gatherv", "Scatter", "Scatterv", "Allgather", "Allgatherv", "Alltoall", "Alltoallv",
        "Alltoallw", "Reduce", "Scan", "Exscan"]
# MPI, its class MPI_ERR_OTHER, ranks, items: 4 (data in the record of the agreement), 100 (after it), 20000 (library).
WRONG = [("mpich", 15, 3, 4), ("mpich", 15, 4, 100), ("mpich", 15, 4, 20000), ("openmpi", 16, 3, 4),
         ("openmpi", 16, 3, 100)]
if LONG:
    WRONG += [("mpich", 15, 4, 4), ("openmpi", 16, 4, 4), ("openmpi", 16, 4, 20000)]


@pytest.mark.parametrize("wrong_rank", [0, 1, 2])
@pytest.mark.parametrize("name, other, ranks, items", WRONG)
def test_wrong_arguments_of_one_rank_are_an_error_of_that_rank(guests, mpi_named, run_on_nodes,
                                                               expect_error_of_one_rank, name, other, ranks, items,
                                                               wrong_rank):
    """As on one node: no other rank waits, on whichever node, and the next operation works. The wrong one leads
    others, does not lead, or is alone on its node."""
    mpi = mpi_named(name)
    words = [*ON, guests.mpi(mpi, "mpi_collectives_refused"), wrong_rank, items, *NOT_CHECKED]
    text = run_on_nodes(mpi, ranks, words, lambda text: text.count(" wrong\n") == ranks, 300, all_output=True)
    expect_error_of_one_rank(mpi, other, wrong_rank, text.splitlines(), least=12)
    assert all(line in text for line in none_wrong(ranks)), text


def test_check_names_calls_that_differ(guests, mpi_named, run_on_nodes):
    """Those that the library does, too."""
    mpi, ways = mpi_named("mpich"), ["count", "call", "alltoallv", "reduce_scatter"]
    words = ["env", "ONESPACE_LOG=check", *ON, guests.mpi(mpi, "mpi_collectives_mismatch"), *ways]

    def is_complete(text):  # the messages come by another pipe than the results
        return text.count(", reduce_scatter: ") == 3 and text.count("collective calls differ: ") >= len(ways)
    text = run_on_nodes(mpi, 3, words, is_complete, all_output=True)
    assert ranks_of(text) == sorted(f"rank {i}, {way}: failed" for i in range(3) for way in ways), text
    assert text.count("collective calls differ: rank 0 has called ") == len(ways), text
