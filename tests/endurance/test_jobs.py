"""tests/endurance/test_jobs.py: jobs one after another, of which most lose a rank, a shim, the host, the reaper or the
launcher at a random moment. Each ends in time and leaves nothing; the jobs between them work."""
import collections
import os
import random
import signal
import time

import pytest

from jobs import RUN

RANKS = 8
JOBS = int(os.environ.get("ONESPACE_JOBS", 1000 if os.environ.get("ONESPACE_LONG") == "1" else 6))
TIME = 60
LEAVE_S = 20  # for what is left to go

VICTIMS = {
    "rank": lambda job, command: [process.pid for process in job.named("mpi_end")],
    "shim": lambda job, command: [process.pid for process in job.shims()],
    "host": lambda job, command: [process.pid for process in job.hosts()],
    "reaper": lambda job, command: [process.pid for process in job.named("onespace-reaper")],
    "launcher": lambda job, command: [command.pid],
}


def kill_one(job, command, victim, chance):
    """At a random moment, or as soon as there is one: whether it was there."""
    time.sleep(chance.uniform(0, 1.5))
    while command.process.poll() is None:
        pids = VICTIMS[victim](job, command)
        if pids:
            try:
                os.kill(chance.choice(pids), signal.SIGKILL)
                return True
            except ProcessLookupError:
                pass
        time.sleep(0.005)
    return False


def left_by(job, victim):
    """What is still there of the jobs so far, after patience: processes and files. Where the launcher has killed the
    shims of a host that was killed, nobody is left to remove its socket; the next job does."""
    end = time.monotonic() + LEAVE_S
    while True:
        left, files = [str(process) for process in job.processes()], job.sockets()
        if not left and (not files or victim in ("host", "reaper") and len(files) <= 2):
            return []
        if time.monotonic() > end:
            return left + files
        time.sleep(0.02)


@pytest.mark.parametrize("launcher", ["mpich", "openmpi"])
def test_jobs_that_lose_processes_leave_nothing(job, guests, mpi_named, launcher):
    mpi = mpi_named(launcher)
    seed = int(os.environ.get("ONESPACE_SEED", random.randrange(1 << 30)))
    chance, ends = random.Random(seed), collections.Counter()
    program = [*RUN, guests.mpi(mpi, "mpi_end")]
    for turn in range(JOBS + 1):
        victim = chance.choice([*VICTIMS, None]) if turn < JOBS else None
        if victim == "launcher" and launcher == "openmpi":
            victim = "rank"  # with processes too, its ranks outlive it for a while
        where = f"ONESPACE_SEED={seed}, job {turn}, {victim} killed"
        command = job.start(mpi.command(RANKS, [*program, "sleep" if victim else "return"]), timeout=TIME, env=mpi.env)
        if victim and launcher == "openmpi":
            # Its launcher hangs when one of its processes, tasks or not, is killed while it starts others.
            command.wait_for("ready", RANKS)
        was_there = victim and kill_one(job, command, victim, chance)
        result = command.finish()
        if victim:
            assert was_there and result.code != 0, f"{where}\n{result}"
        else:
            assert result.code == 0 and result.out.count("ready") == RANKS, f"{where}\n{result}"
        left = left_by(job, victim)
        assert not left, f"{where}, left behind:\n" + "\n".join(left)
        ends[victim or "nobody"] += 1
        if turn % 50 == 49:
            print(f"{launcher}: {turn + 1} jobs:", dict(ends), flush=True)
    print(f"{launcher}: {JOBS + 1} jobs, killed:", dict(ends))
