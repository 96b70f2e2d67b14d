"""tests/networks/conftest.py: two virtual machines with an RDMA network (tests/lib/cluster.py), of each release of
Debian that is here, and the MPI jobs that run on them."""
import pytest

import cluster
from guests import PROGRAMS
from jobs import RUN
from machine import Unavailable


def pytest_generate_tests(metafunc):
    if "release" in metafunc.fixturenames:
        metafunc.parametrize("release", cluster.releases() or ["none"], scope="module")


@pytest.fixture(scope="module")
def nodes(release):
    try:
        made = cluster.Cluster(release)
    except Unavailable as missing:
        pytest.skip(str(missing))
    with made:
        yield made


@pytest.fixture(params=cluster.NETWORKS, ids=lambda network: network.name)
def network(request):
    return request.param


@pytest.fixture
def run(nodes):
    """Runs a guest on both nodes, as processes or tasks; it must have used the RDMA network."""
    def run(network, kind, ranks_per_node, guest, *words, env=None, prefix=(), timeout=1800):
        words = [*(RUN if kind == "tasks" else []), *prefix, PROGRAMS / network.mpi / guest, *words]
        before = nodes.packets(0)
        result = nodes.run(network.command(ranks_per_node, words, env), timeout=timeout)
        assert nodes.packets(0) > before, f"nothing was sent by RDMA\n{result}"
        return result
    return run
