"""MPI windows on storage whose ranks run on two nodes: namespaces of this machine, which share no memory and see none
of one another's processes. The file system is one, as a parallel one is between real nodes."""
import pathlib
import platform
import random
import re
import subprocess
import tempfile

import pytest

import onespace_bench
from launchers import none_wrong

TIME = 180
# Each node has half of the CPUs, and MPI's ranks on them spin.
pytestmark = pytest.mark.alone
KINDS = [pytest.param("processes", marks=pytest.mark.long), "tasks"]
# Gives the ranks a descriptor that looks like an RDMA device's: a file on a file system that is mounted nowhere.
WITH_DEVICE = ["sh", "-c", "d=$(mktemp -d) && mount -t tmpfs none $d && mkdir -p $d/dev/infiniband && "
               "exec 9>$d/dev/infiniband/uverbs0 && umount -l $d && rmdir $d && exec \"$@\"", "sh"]
CASES = {
    "intra_node": ["intra_node_targets_are_stored_into", "locks_exclude_within_and_across_nodes",
                   "accumulates_mix_with_puts", "fences_order_within_and_across_nodes", "puts_await_the_post",
                   "requests_types_and_units", "zero_sizes", "sync_covers_puts", "large_puts_and_gets"],
    "kinds": ["some_kinds_mix", "bad_sizes_beside_storage", "one_file_failing_fails_memory"],
}


@pytest.fixture
def on_disk():
    """/tmp may be memory."""
    if subprocess.check_output(["stat", "-f", "-c", "%T", "/var/tmp"], text=True).strip() == "tmpfs":
        pytest.skip("/var/tmp is memory")
    with tempfile.TemporaryDirectory(prefix="onespace-", dir="/var/tmp") as directory:
        yield pathlib.Path(directory)


@pytest.fixture
def run_storage(guests, run_on_nodes):
    """The sorted output of a guest; it is complete once each rank has printed a line with the word."""
    def run(mpi, kind, ranks, guest, *words, last_word=" wrong\n", before=(), prefix=(), **env):
        command = [*before, *mpi.prefix(kind), *prefix, guests.mpi(mpi, guest), *words]
        return sorted(run_on_nodes(mpi, ranks, command, lambda text: text.count(last_word) == ranks, TIME,
                                   **env).splitlines())
    return run


@pytest.mark.parametrize("kind", KINDS)
def test_windows_on_storage_over_two_nodes(run_storage, mpi_named, nodes, kind, tmp_path):
    """Every rank compares what it has stored, put and got, and what is in the files of others afterwards."""
    before = nodes.received()
    lines = run_storage(mpi_named("mpich"), kind, 2, "mpi_storage", tmp_path, "one_file_at_unaligned_offsets",
                        "puts_and_gets", "large_puts_and_gets", "combined", "attributes")
    assert lines == none_wrong(2)
    assert nodes.received() - before > 3 << 20, "the large puts to the other node have gone through the network"


@pytest.mark.parametrize("cases", CASES)
@pytest.mark.parametrize("kind", KINDS)
def test_targets_within_and_across_nodes(run_storage, mpi_named, kind, cases, tmp_path):
    """Two ranks on each of two nodes: data is right with delays everywhere, and went the right way."""
    assert run_storage(mpi_named("mpich"), kind, 4, "mpi_storage", tmp_path, *CASES[cases]) == none_wrong(4)


@pytest.mark.parametrize("kind", ["processes", "tasks"])
def test_parts_that_network_devices_may_write_to(run_storage, mpi_named, kind, on_disk):
    mpi, ranks = mpi_named("mpich"), 4
    lines = run_storage(mpi, kind, ranks, "mpi_storage", on_disk, "parts_that_devices_write_to", "puts_and_gets",
                        "large_puts_and_gets", "combined", "some_kinds_mix", before=WITH_DEVICE)
    assert lines == none_wrong(ranks)
    for commits, found in ((3, 0), (0, 3)):
        lines = run_storage(mpi, kind, ranks, "mpi_versions_changes", on_disk / "data", "shared", commits, 5,
                            before=WITH_DEVICE)
        assert [line for line in lines if "found" in line] == \
            [f"rank {i}: found {found}, made {found + commits}, 0 wrong" for i in range(ranks)], lines


def test_parts_that_cannot_be_copies_are_warned_of(run_storage, mpi_named, on_disk):
    if tuple(int(number) for number in re.findall(r"\d+", platform.release())[:2]) < (6, 5):
        pytest.skip("Linux before 6.5 lets devices write into mapped files")
    lines = run_storage(mpi_named("mpich"), "tasks", 2, "mpi_storage", on_disk, "same_bytes", before=WITH_DEVICE,
                        all_output=True)
    assert [line for line in lines if line.startswith("rank ")] == none_wrong(2)
    assert sum("cannot be a copy in memory: the MPI library may fail" in line for line in lines) == 1, lines


def test_node_that_cannot_reach_its_parts_does_without(run_storage, mpi_named, tmp_path):
    lines = run_storage(mpi_named("mpich"), "processes", 4, "mpi_storage", tmp_path, "one_part_is_out_of_reach",
                        "locks_exclude_within_and_across_nodes", "fences_order_within_and_across_nodes")
    assert lines == none_wrong(4)


def test_intra_node_targets_where_locks_come_late(run_storage, mpi_named, tool, tmp_path):
    """Open MPI's windows by messages: MPI_Win_lock only asks for the lock (MPICH's waits for it), and threads are
    refused."""
    listed = subprocess.run([tool("ompi_info", "openmpi-bin")], capture_output=True, text=True, timeout=180,
                            check=False)
    if "MCA osc: pt2pt" not in listed.stdout:
        pytest.skip("this Open MPI has no osc/pt2pt (versions before 5 have it)")
    lines = run_storage(mpi_named("openmpi"), "processes", 4, "mpi_storage", tmp_path,
                        "locks_exclude_within_and_across_nodes", "fences_order_within_and_across_nodes",
                        prefix=["ONE_THREAD=1"], OMPI_MCA_osc="pt2pt", OMPI_MCA_pml="ob1", OMPI_MCA_btl="tcp,self")
    assert lines == none_wrong(4)


@pytest.mark.parametrize("layout", ["shared", "separate", "combined", "mixed-odd"])
@pytest.mark.parametrize("kind", KINDS)
def test_versions_over_two_nodes_survive_a_kill(run_storage, mpi_named, kind, layout, tmp_path):
    """Rank 1 is killed at random moments; then all ranks find one version, at least as new as what any rank was
    told."""
    chance, known = random.Random(layout), 0
    times = [*(chance.randrange(5, 250) for _ in range(4)), 500, 1000, 2000, 4000, 8000, 16000, 0]
    while times:
        after_ms = times.pop(0)
        try:
            lines = run_storage(mpi_named("mpich"), kind, 2, "mpi_versions", tmp_path / "data", layout,
                                "1000" if after_ms else "1", last_word=", made ", DIE_AFTER_MS=str(after_ms))
        except onespace_bench.Failure as failure:
            lines = str(failure).splitlines()
        text = "\n".join(lines)
        assert "is wrong" not in text and "_allocate:" not in text, text
        found = {int(version) for version in re.findall(r"rank \d: found (\d+)$", text, re.MULTILINE)}
        # Killed before it was found: the launcher may also lose the last lines.
        assert (len(found) == 1 or after_ms and not found) and all(known <= version for version in found), (known, text)
        known = max([known, *found, *(int(version) for version in re.findall(r"committed (\d+)", text))])
        if known > 0 and len(times) <= 7:  # the longer ones are for a machine that is too busy to commit before
            times = times[-1:]
    assert known > 1, text


@pytest.mark.parametrize("layout", ["separate", "shared"])
@pytest.mark.parametrize("kind", KINDS)
def test_versions_over_two_nodes_have_what_ranks_stored_by_any_way(run_storage, mpi_named, kind, layout, tmp_path):
    """Within a node by loads and stores, to the other and by accumulates through MPI."""
    found = 0
    for commits in (3, 4, 0):
        lines = run_storage(mpi_named("mpich"), kind, 4, "mpi_versions_changes", tmp_path / "data", layout, commits, 5)
        found += commits
        assert [line for line in lines if "found" in line] == \
            [f"rank {i}: found {found - commits}, made {found}, 0 wrong" for i in range(4)], lines
