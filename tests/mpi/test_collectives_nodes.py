"""Collective operations of ranks on two nodes: namespaces of this machine (test_storage_nodes.py)."""
import re
import types

import pytest

from jobs import RUN
from test_storage_nodes import nodes  # noqa: F401

pytestmark = pytest.mark.alone


@pytest.mark.parametrize("source, name, ranks", [("mpi_collectives_random", "mpich", 3),
                                                 ("mpi_collectives_random", "openmpi", 4),
                                                 ("mpi_collectives_moves", "mpich", 4)])
def test_results_are_right(guests, mpi_named, nodes, tmp_path, source, name, ranks):
    """Some spaces have one rank, some two, and communicators come and go."""
    mpi = mpi_named(name)
    launcher = types.SimpleNamespace(kind=name, launcher=mpi.launcher[0], version="")
    words = [*RUN, "--stats", "--collectives", "on", guests.mpi(mpi, source), "300", "4"]
    command = ["sh", "-c", 'exec "$@" 2>&1', "sh", *nodes.launch(launcher, ranks, words)]
    text = nodes.run(types.SimpleNamespace(path=tmp_path), command, lambda text: text.count(" wrong\n") == ranks,
                     timeout=60)
    lines = sorted(line for line in text.splitlines() if line.startswith("rank "))
    assert lines == [f"rank {i}: 0 wrong" for i in range(ranks)], text
    # mpi_collectives_moves has none that are divided. Hydra, when it has no more to do, may drop what comes last.
    counts = [int(count) for count in re.findall(r"together: .*MPI collectives: (\d+)", text)]
    assert source == "mpi_collectives_moves" or max(counts, default=1) > 0, text
