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


@pytest.mark.parametrize("source, which, name, ranks", JOBS)
def test_results_are_right(guests, mpi_named, nodes, tmp_path, source, which, name, ranks):
    """Some spaces have one rank, some two, and communicators come and go. What is large goes by the library: MPICH's
    truncates where the types of an MPI_Allgatherv differ in extent, and crashes where those of reductions have gaps."""
    mpi = mpi_named(name)
    launcher = types.SimpleNamespace(kind=name, launcher=mpi.launcher[0], version="")
    words = [*RUN, "--stats", "--collectives", "on", guests.mpi(mpi, f"mpi_collectives_{source}"), "300", "4", which]
    command = ["sh", "-c", 'exec "$@" 2>&1', "sh", *nodes.launch(launcher, ranks, words)]
    text = nodes.run(types.SimpleNamespace(path=tmp_path), command, lambda text: text.count(" wrong\n") == ranks,
                     timeout=60)
    lines = sorted(line for line in text.splitlines() if line.startswith("rank "))
    assert lines == [f"rank {i}: 0 wrong" for i in range(ranks)], text
    # Hydra, when it has no more to do, may drop what comes last.
    counts = [int(count) for count in re.findall(r"together: .*MPI collectives: (\d+)", text)]
    assert max(counts, default=1) > 0, text
