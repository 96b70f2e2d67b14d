"""tests/networks/test_tcp.py: MPI jobs of two nodes over TCP, where packets are late, out of order or lost: the same
results, as processes and as tasks."""
import pytest

from cluster import PROGRAMS_OF_THE_PROJECT, TCP_NETWORKS
from launchers import none_wrong

pytestmark = pytest.mark.long


@pytest.fixture(params=TCP_NETWORKS, ids=lambda network: network.name)
def network(request):
    return request.param


@pytest.fixture(params=["delay 2ms 1ms", "delay 1ms loss 1%"], ids=["late", "lost"], autouse=True)
def disturbed(request, nodes):
    nodes.disturb(request.param)
    yield
    nodes.disturb("")


@pytest.fixture
def run(nodes, command):
    """Runs a job with two ranks on each node, which must find nothing wrong."""
    def run(*words):
        before = nodes.packets(0)
        result = nodes.run_until_all_report(command(*words), 4)
        assert result.reports() == none_wrong(4) and nodes.packets(0) == before, result
    return run


@pytest.mark.parametrize("kind, guest, words", PROGRAMS_OF_THE_PROJECT)
def test_programs_of_the_project(run, network, kind, guest, words):
    run(network, kind, 2, guest, *words)
