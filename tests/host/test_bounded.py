"""A job that cannot start, or whose host, shim or rank is killed while it starts, ends at once, with one message."""
import os
import random
import resource
import signal
import time

import pytest

from jobs import ONESPACE, RUN

RANKS = 64
ROUNDS = 50 if os.environ.get("ONESPACE_LONG") == "1" else 1  # of each victim
GONE = "the host of the space is gone"
TIME = 60


def messages(result):
    return [line for line in result.err.split("\n") if line.startswith("onespace run:")]


def launch(job, ranks, program, of=None, **options):
    """As a launcher does that neither limits its ranks' number by its own descriptors nor ends all when one fails."""
    return [job.start([*RUN, "--space", "bounded", *program], timeout=TIME,
                      env={"PMI_RANK": str(rank), "MPI_LOCALRANKID": str(rank),
                           "MPI_LOCALNRANKS": str(of or len(ranks))}, **options) for rank in ranks]


def finish(commands):
    results = [command.finish() for command in commands]
    return results, [message for result in results for message in messages(result) if "may not fit" not in message]


@pytest.mark.parametrize("launcher", ["mpich", "openmpi"])
def test_missing_program_is_told_once(job, mpi_named, launcher):
    mpi = mpi_named(launcher)
    result = job.run(mpi.command(RANKS, [*RUN, "/no/such/program"]), timeout=TIME, env=mpi.env)
    assert result.code != 0, str(result)
    assert messages(result) == ["onespace run: /no/such/program: does not exist: Check the spelling, or install it."]


def test_rank_without_a_program_ends_the_others(job, guests):
    """Those that run are ended by the host, when their launcher does not."""
    results, told = finish(launch(job, range(7), [guests("awaits")], of=8) +
                           launch(job, [7], ["/no/such/program"], of=8))
    assert results[-1].code == 127 and all(result.code != 0 for result in results), list(map(str, results))
    assert len(told) == 1 and "/no/such/program: does not exist" in told[0], told


def test_too_few_descriptors_are_told_before_the_start(job, guests):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))

    results, told = finish(launch(job, range(RANKS), [guests("awaits")], preexec_fn=limit))
    assert all(result.code == 1 and not result.out for result in results), list(map(str, results))
    assert len(told) == 1, told
    for words in ("64 ranks do not fit on this node", "88 descriptors", "there are 48 (ulimit -Hn), enough for 24",
                  "raise it: ulimit -Hn 1024"):
        assert words in told[0], told


def test_too_little_memory_is_told_once(job, guests):
    size = 1 << 30

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (size, size))

    results, told = finish(launch(job, range(RANKS), ["--stack", "64M", guests("awaits")], preexec_fn=limit))
    assert all(result.code != 0 for result in results), list(map(str, results))
    assert len([line for line in told if "ulimit -v" in line]) == 1, told
    assert f"of {RANKS} ranks run; lift it: ulimit -v unlimited" in "".join(told)
    assert len(told) == 1, told


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become a user without other processes")
def test_too_few_processes_are_told_once(job, guests):
    user, ranks = 54322, 24

    def become():
        resource.setrlimit(resource.RLIMIT_NPROC, (ranks + 12, ranks + 12))
        os.setgid(user)
        os.setuid(user)

    os.chown(job.runtime, user, -1)
    if job.run([ONESPACE, "--version"], cwd="/", preexec_fn=become).code != 0:
        pytest.skip("the build directory is not open to other users")
    results, told = finish(launch(job, range(ranks), [guests("awaits")], cwd="/", preexec_fn=become))
    assert all(result.code != 0 and "ready" not in result.out for result in results), list(map(str, results))
    assert len(told) == 1 and "raise what binds: ulimit -u" in told[0], told


def test_full_space_by_hand_is_told(job):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))

    result = job.run([*RUN, "-n", "40", "--stack", "64M", "sleep", "30"], timeout=TIME, preexec_fn=limit)
    assert result.code != 0 and len(messages(result)) == 1, str(result)
    assert "of 40 ranks run; lift it: ulimit -v unlimited" in result.err, str(result)


def of_host(job, name):
    return [process.pid for process in job.named(name) if process.argv[:1] == ["onespace-host"]]


VICTIMS = {
    "host": lambda job: of_host(job, "onespace-host"),
    "reaper": lambda job: of_host(job, "onespace-reaper"),
    "shim": lambda job: [process.pid for process in job.shims()],
    "rank": lambda job: [process.pid for process in job.named("awaits")],
}


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("launcher", ["mpich", "openmpi"])
def test_killed_while_it_starts(job, guests, mpi_named, launcher, victim):
    """At a random moment of the start the job ends, and leaves nothing. With Open MPI when all have started: its
    launcher hangs when one of its processes, tasks or not, is killed while it starts others."""
    mpi = mpi_named(launcher)
    seed = int(os.environ.get("ONESPACE_SEED", random.randrange(1 << 30)))
    chance = random.Random(seed)
    for _ in range(ROUNDS):
        command = job.start(mpi.command(RANKS, [*RUN, guests("awaits")]), timeout=TIME, env=mpi.env)
        if launcher == "openmpi":
            command.wait_for("ready", RANKS)
        until = time.monotonic() + chance.uniform(0, 2.5)
        while time.monotonic() < until or not VICTIMS[victim](job):
            time.sleep(0.005)
        os.kill(chance.choice(VICTIMS[victim](job)), signal.SIGKILL)
        result = command.finish()
        assert result.code != 0, f"ONESPACE_SEED={seed}\n{result}"
        told = [line for line in messages(result) if GONE in line or "reaper" in line]
        assert len(told) <= (1 if victim in ("host", "reaper") else 0), f"ONESPACE_SEED={seed}\n{result}"


def test_lost_host_is_told_once(job, guests):
    commands = launch(job, range(RANKS), [guests("awaits")])
    for command in commands:
        command.wait_for("ready")
    os.kill(of_host(job, "onespace-host")[0], signal.SIGKILL)
    results, told = finish(commands)
    assert all(result.code != 0 for result in results)
    assert len(told) == 1 and GONE in told[0], told


def test_ranks_that_come_after_their_host_was_killed_do_not_wait(job, guests):
    """They start another host, which learns from the others' shims that their launch has failed."""
    ranks = 16
    early = launch(job, range(ranks // 2), [guests("awaits")], of=ranks)
    for command in early:
        command.wait_for("up")
    os.kill(of_host(job, "onespace-host")[0], signal.SIGKILL)
    late = launch(job, range(ranks // 2, ranks), [guests("awaits")], of=ranks)
    results, told = finish(early + late)
    assert all(result.code != 0 and "ready" not in result.out for result in results), list(map(str, results))
    assert len(told) == 1 and GONE in told[0], told
