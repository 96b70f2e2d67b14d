"""What a task inherits goes into its own table: the host has one descriptor for each rank, however many they have."""
import os
import resource
import signal
import time

import pytest

from jobs import LONE_USER, RUN, descriptors_in_flight, lone_user

RANKS = 64
INHERITED = 100
OWN = 24  # of the host: listener, pipe, images of dynamic linkers


def count(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.fixture
def inherited():
    """That many descriptors for a launcher's ranks to inherit."""
    files = [os.open("/dev/null", os.O_RDONLY) for _ in range(INHERITED)]
    yield files
    for file in files:
        os.close(file)


def test_host_has_one_for_each_rank(job, guests, mpi_named, inherited, tmp_path):
    """Also while they start."""
    go = tmp_path / "go"
    command = job.start(mpi_named("mpich").command(RANKS, [*RUN, guests("descriptors"), go]),
                        pass_fds=inherited)
    most = 0
    while command.so_far().out.count("has") < RANKS and command.process.poll() is None:
        most = max([most, *(count(host.pid) for host in job.hosts())])
        time.sleep(0.02)
    most = max(most, count(job.hosts()[0].pid))
    go.touch()
    result = command.finish()
    assert result.code == 0 and result.out.count("has") == RANKS, str(result)
    assert all(line.count(":") >= 2 * INHERITED for line in result.lines), str(result)
    assert RANKS <= most <= RANKS + OWN, most


def test_tasks_have_what_processes_have(job, guests, mpi_named):
    """Rank k of Hydra's inherits about 2k: all arrive, under their numbers."""
    plain, tasks = [job.run(mpi_named("mpich").command(RANKS, [*prefix, guests("descriptors")]))
                    for prefix in ([], RUN)]
    assert plain.code == tasks.code == 0, str(tasks)
    assert tasks.lines == plain.lines


def test_limit_holds_for_each_rank_as_for_a_process(job, guests, mpi_named, inherited):
    """Together the ranks have ten times as many as the limit allows one process, the host too."""
    ranks = 32

    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (360, 360))

    for prefix in ([], RUN):
        result = job.run(mpi_named("mpich").command(ranks, [*prefix, guests("descriptors")]),
                         pass_fds=inherited, preexec_fn=limit)
        assert result.code == 0 and result.out.count("has") == ranks, str(result)


def test_task_has_as_many_as_its_limit_allows(job, guests):
    """None is left over to copy one aside; onespace run itself needs four."""
    limit = 256
    files = []

    def fill():
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    try:
        while not files or files[-1] < limit - 6:
            files.append(os.open("/dev/null", os.O_RDONLY))
        result = job.run([*RUN, "--space", "full", guests("descriptors")], pass_fds=files, preexec_fn=fill)
    finally:
        for file in files:
            os.close(file)
    assert result.code == 0 and f" {limit - 6}:" in result.out, str(result)


def test_limit_below_a_descriptor_is_kept(job):
    """A descriptor that was opened before the limit was lowered stays open, as in a process."""
    script = "exec 700</dev/null; ulimit -Sn 40; exec \"$@\""
    shown = "ulimit -Sn; test -e /proc/self/fd/700 && echo there"
    for prefix in ([], [*RUN, "--space", "low"]):
        job.run(["bash", "-c", script, "bash", *prefix, "/bin/sh", "-c", shown]).expect(out="40\nthere\n")


def test_stopped_shim_delays_no_other(job):
    """The host holds the first three until all have come, asks each for its descriptors, and they do not answer."""
    def start(rank):
        return job.start([*RUN, "--space", "stop", "/bin/echo", f"rank {rank}"],
                         env={"PMI_RANK": str(rank), "MPI_LOCALRANKID": str(rank), "MPI_LOCALNRANKS": "6"})

    stopped = [start(rank) for rank in range(3)]  # more than are asked at once
    while not job.hosts():
        time.sleep(0.01)
    time.sleep(0.1)
    for command in stopped:
        command.signal(signal.SIGSTOP)
    others = [start(rank) for rank in range(3, 6)]
    assert [command.finish().out for command in others] == [f"rank {rank}\n" for rank in range(3, 6)]
    for command in stopped:
        command.signal(signal.SIGCONT)
    assert [command.finish().out for command in stopped] == [f"rank {rank}\n" for rank in range(3)]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become a user without other processes")
def test_descriptors_in_flight_are_waited_for(job, guests):
    limit = 64
    become = lone_user(limit)
    os.chmod(job.runtime, 0o777)
    os.chown(job.runtime, LONE_USER, LONE_USER)
    with descriptors_in_flight(become, limit):
        command = job.start([*RUN, "--space", "flight", guests("descriptors")], cwd="/", preexec_fn=become)
        time.sleep(0.5)
    result = command.finish()
    if result.code == 126 or "Permission denied" in result.err:
        pytest.skip("the build directory is not open to other users")
    assert result.code == 0 and "has 0:" in result.out, str(result)
