"""tests/networks/test_verbs.py: MPI jobs of two nodes over an RDMA network, as processes and as tasks: the same
results, right in every byte, and nothing left in the device."""
import re

import pytest

from cluster import NETWORKS, PROGRAMS_OF_THE_PROJECT
from guests import PROGRAMS
from jobs import ONESPACE, RUN, eventually
from launchers import none_wrong

pytestmark = pytest.mark.long
BUFFERS = 10000  # of all ranks together


@pytest.fixture(params=NETWORKS, ids=lambda network: network.name)
def network(request):
    return request.param


@pytest.mark.parametrize("each", [2, 4])  # ranks per node
def test_memory_that_is_freed_and_allocated_again(run, network, kind, each):
    """With UCX_RCACHE_CHECK_PFN, UCX aborts on a stale registration. UCX 1.13 cannot check memory of MPI_Win_allocate,
    with processes either."""
    checked = ["shared", "malloc", *(["lent"] if kind == "tasks" else [])]
    for env, memory, share in (({"UCX_RCACHE_CHECK_PFN": "1"}, checked, 3), ({}, ["allocate"], 1)):
        rounds = BUFFERS * share // 4 // (2 * each)
        result = run(network, kind, each, "network_check", rounds, 3600, *memory, env=env).expect()
        assert f"{rounds} rounds" in result.text and result.reports() == none_wrong(2 * each), result


@pytest.mark.parametrize("kind, guest, words", PROGRAMS_OF_THE_PROJECT)
def test_programs_of_the_project(run, network, kind, guest, words):
    result = run(network, kind, 2, guest, *words).expect()
    assert result.reports() == none_wrong(4), result


def test_killed_rank_leaves_no_queue_pair(nodes, run, network, kind):
    """One rank of node1 kills itself in the middle of a job; the launcher ends the others."""
    before = [nodes.queue_pairs(node) for node in range(2)]
    kill = ["sh", "-c", "'[ $(hostname) = node1 ] && (sleep 5; pkill -KILL -n network_check) & exec \"$@\"'", "sh"]
    result = run(network, kind, 2, "network_check", 1000000, 3600, "malloc", prefix=kill)
    assert result.status != 0, result
    left = nodes.run("pgrep -a network_check", 1)
    assert left.status == 1, left
    assert [nodes.queue_pairs(node) for node in range(2)] == before


def test_node_that_vanishes(nodes, command, network, kind):
    """Its connection is cut in the middle of a job, for a minute. The job ends at the latest when its user ends it, and
    leaves nothing on either node."""
    before = [nodes.queue_pairs(node) for node in range(2)]
    words = command(network, kind, 2, "network_check", 1000000, 3600, "malloc")
    with nodes.start("sleep 8; ip link set eth0 down; sleep 60; ip link set eth0 up", 1) as cut:
        result = nodes.run(f"timeout -s INT -k 120 40 {words}")
        assert result.status not in (0, 137), result
        assert eventually(lambda: nodes.run("pgrep network_check").status == 1), nodes.run("ps axf")
        assert cut.wait() == 0
    assert eventually(lambda: nodes.run("pgrep network_check", 1).status == 1), nodes.run("ps axf", 1)
    assert [nodes.queue_pairs(node) for node in range(2)] == before


def test_spawned_processes(nodes, kind):
    """On the other node. Debian's MPICH 4.0 cannot spawn, on one node either; Open MPI 4.1 over libfabric hangs, with
    processes too."""
    network = next(network for network in NETWORKS if network.name == "openmpi-ucx")
    words = [*(RUN if kind == "tasks" else []), PROGRAMS / network.mpi / "mpi_spawn"]
    result = nodes.run(network.command(1, words, ranks=1, slots=(1, 2))).expect()
    assert "sum 83" in result.text, result


def test_too_little_locked_memory_is_reported(nodes):
    """The kernel counts the registered memory of all tasks together."""
    program = PROGRAMS / "mpich/mpi_exchange"
    words = [*RUN, program]
    command = f"cd /tmp; ulimit -l 8192; exec mpiexec.mpich -n 4 {' '.join(str(word) for word in words)}"
    result = nodes.run(f"su user -c '{command}'")
    assert "4 ranks of an MPI program may not fit on this node" in result.text, result
    assert "locked memory" in result.text and "lift it: ulimit -l unlimited" in result.text, result
    result = nodes.run(f"su user -c 'ulimit -l 8192; {ONESPACE} doctor --ranks 4'")
    assert "ulimit -l unlimited" in result.text, result


def test_locked_memory_of_a_rank(nodes, run):
    """No more than src/launch/capacity.c says that a rank takes."""
    show = ["sh", "-c", "'(sleep 4; grep -h VmPin /proc/$$/status >&2) & exec \"$@\"'", "sh"]
    result = run(NETWORKS[0], "processes", 2, "network_check", 400, 3600, "malloc", prefix=show)
    sizes = [int(size) for size in re.findall(r"VmPin:\s+(\d+) kB", result.text)]
    assert sizes and max(sizes) <= 57536 + 1024, result

