"""tests/networks/test_verbs.py: MPI jobs of two nodes over an RDMA network, as processes and as tasks: the same
results, right in every byte, and nothing left in the device."""
import re

import pytest

from cluster import NETWORKS
from guests import PROGRAMS
from jobs import BUILD, ONESPACE, RUN
from launchers import none_wrong

pytestmark = pytest.mark.long
BUFFERS = 10000  # of all ranks together
KINDS = ["processes", "tasks"]
RANKS_PER_NODE = [2, 4]


def results_of(text):
    return sorted(line for line in text.splitlines() if re.match(r"rank \d+: \d+ wrong", line))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("each", RANKS_PER_NODE)
def test_memory_that_is_freed_and_allocated_again(run, network, kind, each):
    """UCX looks itself whether the first page of a registration has moved, and then aborts; in MPI_Win_allocate, UCX
    1.13 cannot, in processes either."""
    which = ["shared", "malloc", *(["lent"] if kind == "tasks" else [])]
    for env, kinds, share in (({"UCX_RCACHE_CHECK_PFN": "1"}, which, 3), ({}, ["allocate"], 1)):
        rounds = BUFFERS * share // 4 // (2 * each)
        result = run(network, kind, each, "network_check", rounds, 3600, *kinds, env=env).expect()
        assert f"{rounds} rounds" in result.text and results_of(result.text) == none_wrong(2 * each), result


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("guest, words", [("mpi_exchange", ()),
                                          ("mpi_collectives_random", ("60", "4")),
                                          ("mpi_collectives_pairs", ("60", "4"))])
def test_programs_of_the_project(run, network, kind, guest, words):
    result = run(network, kind, 2, guest, *words).expect()
    assert results_of(result.text) == none_wrong(4), result


@pytest.mark.parametrize("kind", KINDS)
def test_killed_rank_leaves_no_queue_pair(nodes, run, network, kind):
    """One rank of node1 kills itself in the middle of a job; the launcher ends the others."""
    before = [nodes.queue_pairs(node) for node in range(2)]
    kill = ["sh", "-c", "'[ $(hostname) = node1 ] && (sleep 5; pkill -KILL -n network_check) & exec \"$@\"'", "sh"]
    result = run(network, kind, 2, "network_check", 1000000, 3600, "malloc", prefix=kill)
    assert result.status != 0, result
    left = nodes.run("pgrep -a network_check", 1)
    assert left.status == 1, left
    assert [nodes.queue_pairs(node) for node in range(2)] == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("network", NETWORKS[1:], ids=lambda network: network.name)
def test_spawned_processes(nodes, network, kind):
    """On the other node. Debian's MPICH 4.0 cannot spawn, on one node either."""
    words = [*(RUN if kind == "tasks" else []), PROGRAMS / network.mpi / "mpi_spawn"]
    result = nodes.run(network.command(1, words, ranks=1, slots=(1, 2))).expect()
    assert "sum 83" in result.text, result


@pytest.mark.parametrize("kind", KINDS)
def test_windows_on_storage_of_a_shared_file_system(nodes, run, kind):
    """By NFS: node1's ranks map files that are on node0. Large puts come by RDMA, and mark no page dirty."""
    nodes.run("rm -rf /shared/*; mkdir -m 1777 /shared/windows").expect()
    prefix = [] if kind == "tasks" else ["env", f"LD_PRELOAD={BUILD}/lib/libonespace-mpi-mpich.so"]
    result = run(NETWORKS[0], kind, 2, "mpi_storage", "/shared/windows", "puts_and_gets",
                 "large_puts_and_gets", "combined", "attributes", prefix=prefix).expect()
    assert results_of(result.text) == none_wrong(4), result


def test_bytes_of_one_page_on_two_nodes_are_warned_of(nodes, run):
    """Each node's client writes the whole page."""
    nodes.run("rm -rf /shared/*; mkdir -m 1777 /shared/windows").expect()
    result = run(NETWORKS[0], "tasks", 2, "mpi_storage", "/shared/windows", "one_file_at_unaligned_offsets")
    assert "ranks 1 and 2, on two nodes, have bytes of one page of /shared/windows/" in result.text, result


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

