"""A host that cannot be started, or cannot go on, is named with its cause and leaves nothing behind."""
import os
import pathlib
import resource
import shutil
import signal
import time

import pytest

from jobs import LONE_USER, ONESPACE, RUN


@pytest.mark.parametrize("count", [6, 7, 8, 9, 10, 11, 12, 13, 14])
def test_too_few_descriptors_are_named(job, count):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))

    result = job.run([*RUN, "--space", "few", "true"], preexec_fn=limit)
    causes = ("Too many open files", "has no descriptors left")
    assert result.code == 0 or any(cause in result.err for cause in causes), str(result)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv(1)")
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7])
def test_too_few_processes_are_named(job, count):
    """The fork, the second fork, the reaper or a thread of the host fails; no socket is left."""
    def limit():
        resource.setrlimit(resource.RLIMIT_NPROC, (count, count))

    if job.run(["setpriv", f"--reuid={LONE_USER}", ONESPACE, "--version"], cwd="/").code != 0:
        pytest.skip("the build directory is not open to other users")
    os.chown(job.runtime, LONE_USER, -1)
    result = job.run(["setpriv", f"--reuid={LONE_USER}", "--clear-groups", *RUN, "--space", "few", "/bin/true"],
                     cwd="/", preexec_fn=limit)
    assert result.code == 0 or "Resource temporarily unavailable" in result.err, str(result)


def test_fifo_or_link_in_the_place_of_the_log(job, tmp_path):
    """Nobody reads it: another user may have made it in /tmp."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    for name in ("fifo", "link"):
        log = {"ONESPACE_HOST_LOG": str(tmp_path / name)}
        job.run([*RUN, "--space", f"log-{name}", "echo", "ran"], env=log).expect(out="ran\n")
    assert (tmp_path / "file").read_text() == ""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv(1)")
def test_rank_that_has_nothing_to_send_starts(job, tmp_path):
    """No descriptors, and no working directory that its user may search."""
    if job.run(["setpriv", f"--reuid={LONE_USER}", ONESPACE, "--version"], cwd="/").code != 0:
        pytest.skip("the build directory is not open to other users")
    os.chown(job.runtime, LONE_USER, -1)
    (tmp_path / "closed").mkdir(0o700)
    command = f"cd {tmp_path}/closed && exec setpriv --reuid={LONE_USER} --clear-groups \"$@\" <&- >&- 2>&-"
    mark = f"/tmp/onespace-test-{job.token}"
    job.run(["sh", "-c", command, "sh", *RUN, "--space", "bare", "/bin/sh", "-c", f"echo ran >{mark}"]).expect(0)
    assert pathlib.Path(mark).read_text() == "ran\n"
    os.unlink(mark)


def test_killed_host_leaves_no_socket(job):
    command = job.start([*RUN, "--space", "killed", "/bin/sh", "-c", "echo up; exec sleep 30"])
    command.wait_for("up")
    os.kill(job.hosts()[0].pid, signal.SIGKILL)
    result = command.finish()
    assert result.code != 0 and "host of the space is gone" in result.err, str(result)
    assert job.sockets() == []


@pytest.mark.parametrize("rank,size,code", [("5", "2", 2), ("2", "2", 2), ("0", "5000", 2), ("0", "1", 0),
                                            ("x", "1", 0), ("99999999999", "1", 0)])
def test_contradictory_variables_are_named(job, rank, size, code):
    env = {"PMI_RANK": "0", "MPI_LOCALRANKID": rank, "MPI_LOCALNRANKS": size}
    result = job.run([*RUN, "--space", "numbers", "true"], env=env).expect(code)
    assert code == 0 or f"MPI_LOCALRANKID={rank} with MPI_LOCALNRANKS={size}" in result.err, str(result)


def test_variables_of_an_outer_launcher_are_not_mixed_in(job):
    """Each pair is one launcher's: a rank of Hydra's within a step of Slurm's, say."""
    env = {"PMI_RANK": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_STEP_TASKS_PER_NODE": "1",
           "OMPI_COMM_WORLD_LOCAL_SIZE": "3"}
    job.run([*RUN, "--space", "numbers", "--verbose", "/bin/sh", "-c", "echo $ONESPACE_NTASKS"],
            env=env).expect(out="1\n")


def test_hosts_that_end_in_the_same_directory_are_no_ranks(job):
    """Each that ends connects to all others, to see who listens (two job arrays on one node, say). A rank that stays
    alone is still warned of, and the host still waits for those that are to come."""
    env = {"PMI_RANK": "0", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2"}
    rank = job.start([*RUN, "--space", "waits", "/bin/sh", "-c", "echo up; read x"], env=env, terminal=True)
    rank.wait_for("up")
    for other in ("one", "two"):
        assert job.run([*RUN, "--space", other, "true"]).code == 0
    until = time.monotonic() + 180
    while len(job.hosts()) > 1 and time.monotonic() < until:
        time.sleep(0.05)
    assert len(job.hosts()) == 1
    time.sleep(2.5)  # who ends sooner is not warned of
    rank.type(b"\n")
    result = rank.finish()
    assert result.err.count("started 2 ranks on this node, but no other one came to this space") == 1, str(result)
