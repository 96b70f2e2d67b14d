"""tests/networks/conftest.py: two virtual machines with an RDMA network (tests/lib/cluster.py), of each release of
Debian that is here, and the MPI jobs that run on them."""
import pytest

import cluster
from guests import PROGRAMS
from jobs import BUILD, RUN
from launchers import none_wrong
from machine import Unavailable

# Words before the program of each rank. Windows on storage need the MPI layer, which processes preload.
PREFIXES = {"processes": [], "tasks": RUN, "tasks-all-collectives": [*RUN, "--collectives", "on"],
            "processes-layer": ["env", f"LD_PRELOAD={BUILD}/lib/libonespace-mpi-mpich.so"]}


# There jobs with windows may abort or hang in MPI_Finalize, as processes too: UCX 1.18's assertion on wait_ctx->cb_id.
ENDS_BADLY = ("trixie",)


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


@pytest.fixture(params=["processes", "tasks"])
def kind(request):
    return request.param


@pytest.fixture
def command():
    """The command line of a job of a guest on both nodes."""
    def make(network, kind, ranks_per_node, guest, *words, env=None, prefix=()):
        return network.command(ranks_per_node, [*PREFIXES[kind], *prefix, PROGRAMS / network.mpi / guest, *words], env)
    return make


@pytest.fixture
def run(nodes, release, command):
    """Runs such a job, which must have used the RDMA network."""
    def run(network, kind, ranks_per_node, *words, timeout=1800, **options):
        before, line = nodes.packets(0), command(network, kind, ranks_per_node, *words, **options)
        result = nodes.run_until_all_report(line, cluster.COUNT * ranks_per_node) if release in ENDS_BADLY else \
            nodes.run(line, timeout=timeout)
        assert nodes.packets(0) > before, f"nothing was sent by RDMA\n{result}"
        return result
    return run


@pytest.fixture
def expect_right(release):
    """Expects that the ranks of a job with windows found nothing wrong."""
    def expect(result, ranks):
        assert result.reports() == none_wrong(ranks), result
        if release not in ENDS_BADLY:
            result.expect()
    return expect
