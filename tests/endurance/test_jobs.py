"""tests/endurance/test_jobs.py: jobs one after another, of which most lose a rank, a shim, the host, the reaper or the
launcher at a random moment. Each ends in time and leaves nothing; the jobs between them work."""
import collections
import os
import random
import signal
import subprocess
import time

import pytest

from jobs import RUN

RANKS = 8
JOBS = int(os.environ.get("ONESPACE_JOBS", 1000 if os.environ.get("ONESPACE_LONG") == "1" else 6))
MINUTES = float(os.environ.get("ONESPACE_MINUTES", "inf"))
LEAVE_S = 60  # for what is left to go

VICTIMS = {
    "rank": lambda job, command: [process.pid for process in job.named("mpi_end")],
    "shim": lambda job, command: [process.pid for process in job.shims()],
    "host": lambda job, command: [process.pid for process in job.hosts()],
    "reaper": lambda job, command: [process.pid for process in job.named("onespace-reaper")],
    "launcher": lambda job, command: [command.pid],
}


def kill_one(job, command, victim, chance):
    """At a random moment, or as soon as there is one: whether it was there, and whether a host was. A host that was
    killed before a shim had reached it is replaced, and the job goes on: then the next one."""
    was_there, had_host = False, False
    time.sleep(chance.uniform(0, 1.5))
    while command.process.poll() is None:
        pids = VICTIMS[victim](job, command)
        if pids:
            had_host = bool(job.hosts())
            try:
                os.kill(chance.choice(pids), signal.SIGKILL)
                was_there = True
            except ProcessLookupError:
                continue
            try:
                command.process.wait(15)
            except subprocess.TimeoutExpired:
                continue
        time.sleep(0.005)
    return was_there, had_host


def left_by(job, victim, had_host, before):
    """What is still there of the jobs so far, after patience: processes and files. Where the launcher has killed the
    shims of a host that was killed, nobody is left to remove its socket, nor the directory where it kills them before
    there is a host; the next job with a host does. before: files that stayed of the last job."""
    end, may_stay = time.monotonic() + LEAVE_S, {"host": 2, "reaper": 2, "launcher": 1}.get(victim, 0)
    if victim == "shim" and not had_host:
        may_stay = max(1, before)
    while True:
        left, files = [str(process) for process in job.processes()], job.sockets()
        if not left and len(files) <= may_stay:
            return []
        if time.monotonic() > end:
            return left + files
        time.sleep(0.02)


@pytest.mark.parametrize("launcher", ["mpich", pytest.param("openmpi", marks=pytest.mark.long)])
def test_jobs_that_lose_processes_leave_nothing(job, guests, mpi_named, launcher):
    mpi = mpi_named(launcher)
    seed = int(os.environ.get("ONESPACE_SEED", random.randrange(1 << 30)))
    chance, ends = random.Random(seed), collections.Counter()
    program = [*RUN, guests.mpi(mpi, "mpi_end")]
    end = time.monotonic() + MINUTES * 60
    for turn in range(JOBS + 1):
        is_last = turn == JOBS or time.monotonic() > end
        victim = None if is_last else chance.choice([*VICTIMS, None])
        if victim == "launcher" and launcher == "openmpi":
            victim = "rank"  # with processes too, its ranks outlive it for a while
        where = f"ONESPACE_SEED={seed}, job {turn}, {victim} killed"
        command = job.start(mpi.command(RANKS, [*program, "sleep" if victim else "return"]), env=mpi.env)
        if victim and launcher == "openmpi":
            # Its launcher hangs when one of its processes, tasks or not, is killed while it starts others.
            command.wait_for("ready", RANKS)
        before = len(job.sockets())
        was_there, had_host = kill_one(job, command, victim, chance) if victim else (False, False)
        result = command.finish()
        if victim:
            assert was_there and result.code != 0, f"{where}\n{result}"
        else:
            assert result.code == 0 and result.out.count("ready") == RANKS, f"{where}\n{result}"
        left = left_by(job, victim, had_host, before)
        assert not left, f"{where}, left behind:\n" + "\n".join(left)
        ends[victim or "nobody"] += 1
        if turn % 50 == 49:
            print(f"{launcher}: {turn + 1} jobs:", dict(ends), flush=True)
        if is_last:
            break
    print(f"{launcher}: {ends.total()} jobs, killed:", dict(ends))
