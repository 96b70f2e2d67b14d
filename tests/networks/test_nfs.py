"""tests/networks/test_nfs.py: windows on storage whose files are on NFS. node0 is the server: its ranks map the files
themselves, which are in its memory; those of node1 map them through its client."""
import random
import re

import pytest

import cluster
from cluster import NETWORKS
from jobs import eventually

pytestmark = pytest.mark.long
CRASHES = 3


@pytest.fixture(params=["processes-layer", "tasks"])
def kind(request):
    return request.param


@pytest.fixture
def directory(nodes):
    nodes.run("rm -rf /shared/*; mkdir -m 1777 /shared/windows").expect()
    return "/shared/windows"


def test_windows_over_two_nodes(run, expect_right, directory, kind):
    """Large puts come by RDMA, and mark no page dirty."""
    expect_right(run(NETWORKS[0], kind, 2, "mpi_storage", directory, "puts_and_gets", "large_puts_and_gets", "combined",
                     "attributes"), 4)


def test_messages_from_and_to_windows_of_one_rank(run, expect_right, directory, kind):
    """UCX sends them by RDMA, if it can register the memory."""
    expect_right(run(NETWORKS[0], kind, 2, "storage_messages", directory), 4)


def test_bytes_of_one_folio_on_two_nodes_are_warned_of(run, directory):
    """Each node's client writes whole pages, and since Linux 6.11 whole folios."""
    result = run(NETWORKS[0], "tasks", 2, "mpi_storage", directory, "one_file_at_unaligned_offsets")
    assert f"ranks 1 and 2, on two nodes, have bytes of the same 2048 KiB of {directory}/" in result.text, result


def test_synchronising_files_that_the_server_no_longer_exports_is_an_error(nodes, run, directory, kind):
    """Their handles are stale. Only for node1: node0 has them itself."""
    try:
        result = run(NETWORKS[0], kind, 2, "storage_stale", directory, f"'exportfs -u {cluster.EXPORTED}'")
    finally:
        nodes.run(f"exportfs -o {cluster.EXPORT_OPTIONS} {cluster.EXPORTED}").expect()
    lines = sorted(line for line in result.text.splitlines() if ": sync: " in line)
    assert lines[:2] == ["rank 0: sync: kept", "rank 1: sync: kept"], result
    assert len(lines) == 4 and not any("kept" in line for line in lines[2:]), result
    for part in (2, 3):
        lost = f"part-{part}: .*: (the file system lost data of this window|cannot write to this file)"
        assert re.search(lost, result.text), result


@pytest.mark.parametrize("layout", ["separate", "shared"])
def test_versions_survive_the_crash_of_a_node(nodes, command, directory, kind, layout):
    """node1 loses its power at random moments; then all ranks find one version, at least as new as what any rank was
    told, on node0 alone and on both. node0 may have to wait until the server drops the locks of node1."""
    chance, known = random.Random(layout), 0

    def words(commits):
        return command(NETWORKS[0], kind, 2, "mpi_versions", f"{directory}/data", layout, commits,
                       env={"DIE_AFTER_MS": "0"})

    def alone():
        return nodes.run(words(0).replace("node0,node1 -ppn 2", "node0 -ppn 4"))

    def found(result):
        nonlocal known
        assert "is wrong" not in result.text, result
        versions = {int(version) for version in re.findall(r"rank \d: found (\d+)$", result.text, re.MULTILINE)}
        assert len(versions) == 1 and versions.pop() >= known, (known, result)

    for _ in range(CRASHES):
        with nodes.start(words(1000000)) as job:
            lines, left = [], chance.randrange(2, 30)
            for line in job.stdout:
                lines.append(line)
                left -= "committed" in line
                if not left:
                    break
            nodes.end(1)
            nodes.run("pkill -KILL -f ^mpiexec; pkill -x ssh")
            lines += job.stdout.readlines()
        text = "".join(lines)
        assert eventually(lambda: nodes.run("pgrep mpi_versions").status == 1), nodes.run("ps axf")
        found(cluster.Result(job.returncode, text))
        known = max(int(version) for version in re.findall(r"committed (\d+)", text))

        result = alone()
        if result.status:
            assert re.search("another window or job has|in use by another window", result.text), result
            assert eventually(lambda: alone().status == 0), result
            result = alone()
        found(result)
        nodes.boot(1)
        nodes.await_node(1)
        found(nodes.run(words(0)).expect())
