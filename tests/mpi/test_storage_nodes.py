"""MPI windows on storage whose ranks run on two nodes: namespaces of this machine, which share no memory and see none
of one another's processes. The file system is one, as a parallel one is between real nodes."""
import random
import re
import subprocess
import sys
import types

import pytest

from jobs import ROOT
from test_storage import TIME, prefix

sys.path.append(str(ROOT / "bench/lib"))
import onespace_bench
import onespace_nodes

# Each node has half of the CPUs, and MPI's ranks on them spin.
pytestmark = pytest.mark.alone
KINDS = [pytest.param("processes", marks=pytest.mark.long), "tasks"]

INTRA_NODE_CASES = ["intra_node_targets_are_stored_into", "locks_exclude_within_and_across_nodes",
                    "accumulates_mix_with_puts", "fences_order_within_and_across_nodes", "puts_await_the_post",
                    "requests_types_and_units", "zero_sizes", "sync_covers_puts", "large_puts_and_gets"]
MIXED_CASES = ["some_kinds_mix", "bad_sizes_beside_storage", "one_file_failing_fails_memory"]
CASES = ["one_file_at_unaligned_offsets", "puts_and_gets", "large_puts_and_gets", "combined", "attributes"]


@pytest.fixture(scope="module")
def nodes():
    try:
        with onespace_nodes.Nodes(2) as made:
            yield made
    except onespace_bench.Failure as failure:
        pytest.skip(str(failure))


@pytest.mark.parametrize("kind", KINDS)
def test_windows_on_storage_over_two_nodes(guests, mpi_named, nodes, kind, tmp_path):
    """Every rank compares what it has stored, put and got, and what is in the files of others afterwards."""
    mpi = mpi_named("mpich")
    guest = guests.mpi(mpi, "mpi_storage")
    sent = nodes.received()
    lines = run_on_nodes(nodes, mpi, kind, 2, [guest, tmp_path, *CASES], tmp_path,
                         lambda text: text.count(" wrong\n") == 2)
    assert lines == ["rank 0: 0 wrong", "rank 1: 0 wrong"]
    assert nodes.received() - sent > 3 << 20, "the large puts to the other node have gone through the network"


def run_on_nodes(nodes, mpi, kind, ranks, words, path, is_complete, env=None):
    """Standard output's lines, sorted. A job that only does not end is ended (Nodes.run)."""
    launcher = types.SimpleNamespace(kind="mpich", launcher=mpi.launcher[0])
    command = nodes.launch(launcher, ranks, [str(word) for word in [*prefix(mpi, kind), *words]])
    text = nodes.run(types.SimpleNamespace(path=path), command, is_complete, env={**mpi.env, **(env or {})},
                     timeout=TIME)
    return sorted(text.splitlines())


def run_intra_node_cases(nodes, guests, mpi, kind, path, cases):
    guest = guests.mpi(mpi, "mpi_storage")
    lines = run_on_nodes(nodes, mpi, kind, 4, [guest, path, *cases], path,
                         lambda text: text.count(" wrong\n") == 4)
    assert lines == [f"rank {i}: 0 wrong" for i in range(4)], lines


@pytest.mark.parametrize("kind", KINDS)
def test_intra_node_targets_by_loads_and_stores(guests, mpi_named, nodes, kind, tmp_path):
    """Two ranks on each of two nodes: what is right with delays everywhere, and which way it went."""
    run_intra_node_cases(nodes, guests, mpi_named("mpich"), kind, tmp_path, INTRA_NODE_CASES)


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_mix_within_and_across_nodes(guests, mpi_named, nodes, kind, tmp_path):
    run_intra_node_cases(nodes, guests, mpi_named("mpich"), kind, tmp_path, MIXED_CASES)


def test_intra_node_targets_where_locks_come_late(guests, mpi_named, nodes, tool, tmp_path):
    """Open MPI's windows by messages: MPI_Win_lock only asks for the lock (MPICH's waits for it), and threads are
    refused."""
    listed = subprocess.run([tool("ompi_info", "openmpi-bin")], capture_output=True, text=True, timeout=30, check=False)
    if "MCA osc: pt2pt" not in listed.stdout:
        pytest.skip("this Open MPI has no osc/pt2pt (versions before 5 have it)")
    mpi = mpi_named("openmpi")
    guest = guests.mpi(mpi, "mpi_storage")
    launcher = types.SimpleNamespace(kind="openmpi", launcher=mpi.launcher[0], version="Open MPI 4")
    words = [*prefix(mpi, "processes"), "ONE_THREAD=1", guest, tmp_path, "locks_exclude_within_and_across_nodes",
             "fences_order_within_and_across_nodes"]
    text = nodes.run(types.SimpleNamespace(path=tmp_path), nodes.launch(launcher, 4, [str(word) for word in words]),
                     lambda text: text.count(" wrong\n") == 4, timeout=TIME,
                     env={**mpi.env, "OMPI_MCA_osc": "pt2pt", "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self"})
    assert sorted(text.splitlines()) == [f"rank {i}: 0 wrong" for i in range(4)], text


def test_node_that_cannot_reach_its_parts_does_without(guests, mpi_named, nodes, tmp_path):
    run_intra_node_cases(nodes, guests, mpi_named("mpich"), "processes", tmp_path,
                         ["one_part_is_out_of_reach", "locks_exclude_within_and_across_nodes",
                          "fences_order_within_and_across_nodes"])


@pytest.mark.parametrize("layout", ["shared", "separate", "combined", "mixed-odd"])
@pytest.mark.parametrize("kind", KINDS)
def test_versions_over_two_nodes_survive_a_kill(guests, mpi_named, nodes, kind, layout, tmp_path):
    """Rank 1 is killed at random moments; then all ranks find one version, not older than what any rank was told."""
    mpi = mpi_named("mpich")
    guest = guests.mpi(mpi, "mpi_versions")
    chance, known = random.Random(layout), 0
    for after_ms in [*(chance.randrange(5, 250) for _ in range(4)), 0]:
        words = [guest, tmp_path / "data", layout, "1000" if after_ms else "1"]
        try:
            lines = run_on_nodes(nodes, mpi, kind, 2, words, tmp_path, lambda text: text.count(", made ") == 2,
                                 {"DIE_AFTER_MS": str(after_ms)})
        except onespace_bench.Failure as failure:
            lines = str(failure).splitlines()
        said = "\n".join(lines)
        assert "is wrong" not in said and "_allocate:" not in said, said
        found = {int(version) for version in re.findall(r"rank \d: found (\d+)$", said, re.MULTILINE)}
        # Killed before it was found: the launcher may also lose what was said last.
        assert (len(found) == 1 or after_ms and not found) and all(known <= version for version in found), (known, said)
        known = max([known, *found, *(int(version) for version in re.findall(r"committed (\d+)", said))])
    assert known > 1, said


@pytest.mark.parametrize("layout", ["separate", "shared"])
@pytest.mark.parametrize("kind", KINDS)
def test_versions_over_two_nodes_have_what_ranks_stored_by_any_way(guests, mpi_named, nodes, kind, layout, tmp_path):
    """Within a node by loads and stores, to the other and by accumulates through MPI."""
    mpi = mpi_named("mpich")
    guest, found = guests.mpi(mpi, "mpi_versions_changes"), 0
    for commits in (3, 4, 0):
        lines = run_on_nodes(nodes, mpi, kind, 4, [guest, tmp_path / "data", layout, commits, 5], tmp_path,
                             lambda text: text.count(" wrong\n") == 4)
        found += commits
        assert [line for line in lines if "found" in line] == \
            [f"rank {i}: found {found - commits}, made {found}, 0 wrong" for i in range(4)], lines
