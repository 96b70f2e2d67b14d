"""Collective operations of ranks on two nodes: namespaces of this machine (test_storage_nodes.py)."""
import os
import re
import types

import pytest

from jobs import RUN
from test_storage_nodes import nodes  # noqa: F401

pytestmark = pytest.mark.alone

JOBS = [("random", "", "mpich", 3), ("moves", "", "openmpi", 4), ("functions", "dense", "mpich", 4),
        ("functions", "alike", "openmpi", 3)]
MORE = [("random", "", "openmpi", 4), ("moves", "", "openmpi", 3), ("pairs", "", "mpich", 4),
        ("pairs", "", "openmpi", 3)]
if os.environ.get("ONESPACE_LONG") == "1":
    JOBS += MORE


def on_two_nodes(mpi, nodes, tmp_path, ranks, words, is_done):
    """What the job has printed when that is done."""
    launcher = types.SimpleNamespace(kind=mpi.name, launcher=mpi.launcher[0], version="")
    command = ["sh", "-c", 'exec "$@" 2>&1', "sh", *nodes.launch(launcher, ranks, words)]
    return nodes.run(types.SimpleNamespace(path=tmp_path), command, is_done, timeout=60)


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


def test_check_names_calls_that_differ(guests, mpi_named, nodes, tmp_path):
    """Those that the library does, too."""
    mpi, whats = mpi_named("mpich"), ["count", "call", "alltoallv", "reduce_scatter"]
    words = ["env", "ONESPACE_LOG=check", *RUN, "--collectives", "on", guests.mpi(mpi, "mpi_collectives_differ"),
             *whats]
    text = on_two_nodes(mpi, nodes, tmp_path, 3, words, lambda text: text.count(", reduce_scatter: ") == 3)
    failed = [f"rank {i}, {what}: failed" for i in range(3) for what in whats]
    assert sorted(line for line in text.splitlines() if line.startswith("rank ")) == sorted(failed), text
    assert text.count("collective calls differ: rank 0 has called ") == len(whats), text
