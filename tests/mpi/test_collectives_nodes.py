"""Collective operations of ranks on two nodes: namespaces of this machine (test_storage_nodes.py)."""
import os
import re
import types

import pytest

from jobs import RUN
from test_collectives_promises import classes_of, refusals, refusals_of  # noqa: F401
from test_storage_nodes import nodes  # noqa: F401

pytestmark = pytest.mark.alone

JOBS = [("random", "", "mpich", 3), ("moves", "", "openmpi", 4), ("functions", "dense", "mpich", 4),
        ("functions", "alike", "openmpi", 3)]
MORE = [("random", "", "openmpi", 4), ("moves", "", "openmpi", 3), ("pairs", "", "mpich", 4),
        ("pairs", "", "openmpi", 3)]
if os.environ.get("ONESPACE_LONG") == "1":
    JOBS += MORE


def on_two_nodes(mpi, nodes, tmp_path, ranks, words, is_done, timeout=60):
    """What the job has printed when that is done."""
    launcher = types.SimpleNamespace(kind=mpi.name, launcher=mpi.launcher[0], version="")
    command = ["sh", "-c", 'exec "$@" 2>&1', "sh", *nodes.launch(launcher, ranks, words)]
    return nodes.run(types.SimpleNamespace(path=tmp_path), command, is_done, timeout=timeout)


@pytest.mark.parametrize("source, which, name, ranks", JOBS)
def test_results_are_right(guests, mpi_named, nodes, tmp_path, source, which, name, ranks):
    """Some spaces have one rank, some two, and communicators come and go. What is large goes by the library: MPICH's
    truncates where the types of an MPI_Allgatherv differ in extent, and crashes where those of reductions have gaps."""
    mpi = mpi_named(name)
    words = [*RUN, "--stats", "--collectives", "on", guests.mpi(mpi, f"mpi_collectives_{source}"), "300", "4", which]
    text = on_two_nodes(mpi, nodes, tmp_path, ranks, words, lambda text: text.count(" wrong\n") == ranks)
    lines = sorted(line for line in text.splitlines() if line.startswith("rank "))
    assert lines == [f"rank {i}: 0 wrong" for i in range(ranks)], text
    # Hydra, when it has no more to do, may drop what comes last.
    counts = [int(count) for count in re.findall(r"together: .*MPI collectives: (\d+)", text)]
    assert max(counts, default=1) > 0, text


# The library does these on all ranks: wrong arguments of one of them leave the others waiting, as without the layer.
LEFT = ["Gatherv", "Scatterv", "Alltoallv", "Alltoallw", "Reduce_scatter", "Reduce_scatter_block"]
# With much data the library does these, and takes the arguments of one rank for right: Open MPI's MPI_Bcast crashes if
# sizes differ, MPICH's MPI_Exscan on rank 0 without a buffer, and MPICH's MPI_Alltoall hangs if one rank is in place.
LARGE_LEFT = ["Bcast", "Exscan", "Alltoall"]
# MPI, its class MPI_ERR_OTHER, ranks, items: in the records of an agreement; more; what the library does.
WRONG = [("mpich", 15, 3, 4), ("mpich", 15, 4, 100), ("mpich", 15, 4, 20000), ("openmpi", 16, 3, 4)]
if os.environ.get("ONESPACE_LONG") == "1":
    WRONG += [("mpich", 15, 4, 4), ("openmpi", 16, 4, 100), ("openmpi", 16, 4, 20000)]


@pytest.mark.parametrize("wrong_rank", [0, 1, 2])
@pytest.mark.parametrize("name, other, ranks, items", WRONG)
def test_wrong_arguments_of_one_rank_are_an_error_of_that_rank(job, guests, mpi_named, nodes, tmp_path, refusals, name,
                                                               other, ranks, items, wrong_rank):
    """Of the same class as on one node. No other rank waits, on whichever node: it succeeds, or has an error of class
    MPI_ERR_OTHER, and the next operation works. The wrong one leads others, does not lead, or is alone on its node."""
    mpi = mpi_named(name)
    program, is_in_blocks = guests.mpi(mpi, "mpi_collectives_limits"), ranks == 4
    left = LEFT + ([] if is_in_blocks else ["Scan", "Exscan"]) + (LARGE_LEFT if items == 20000 else [])
    words = [*RUN, "--collectives", "on", program, str(wrong_rank), str(items), *left]
    text = on_two_nodes(mpi, nodes, tmp_path, ranks, words, lambda text: text.count(" wrong\n") == ranks, 300)
    library, layer = classes_of(refusals_of(refusals, job, guests, mpi)), classes_of(text.splitlines())
    assert len(layer) > 90 and any(other in classes for classes in layer.values()), text
    for call, classes in layer.items():
        own = classes.pop(wrong_rank)
        if call in library and "than expected" not in call and "on one rank" not in call:
            assert own == library[call][wrong_rank], call
            assert set(classes) <= {0, other}, call
    assert all(f"rank {i}: 0 wrong" in text for i in range(ranks)), text


def test_check_names_calls_that_differ(guests, mpi_named, nodes, tmp_path):
    """Those that the library does, too."""
    mpi, whats = mpi_named("mpich"), ["count", "call", "alltoallv", "reduce_scatter"]
    words = ["env", "ONESPACE_LOG=check", *RUN, "--collectives", "on", guests.mpi(mpi, "mpi_collectives_differ"),
             *whats]
    text = on_two_nodes(mpi, nodes, tmp_path, 3, words, lambda text: text.count(", reduce_scatter: ") == 3)
    failed = [f"rank {i}, {what}: failed" for i in range(3) for what in whats]
    assert sorted(line for line in text.splitlines() if line.startswith("rank ")) == sorted(failed), text
    assert text.count("collective calls differ: rank 0 has called ") == len(whats), text
