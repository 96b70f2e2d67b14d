"""tests/run/test_older_kernels.py: what older kernels lack, on this kernel: system calls denied as if there were none,
and undumpable spaces. tests/kernels has the kernels themselves."""
import errno
import os
import shutil
import signal
import subprocess
import time

import pytest

from jobs import ONESPACE, RUN
from launchers import MPIS
from observe import forbid

NOBODY = 65534
FIRST_AFTER_4_18 = 424  # pidfd_send_signal; clone3 is 435, close_range 436, process_madvise 440
UNDUMPABLE = {"ONESPACE_DUMPABLE": "0"}
OPEN = 64  # src/reaper/reaper.h: DUMPABLE_SIGNAL


def as_before_5_1():
    return forbid(*range(FIRST_AFTER_4_18, FIRST_AFTER_4_18 + 60), error=errno.ENOSYS)


@pytest.mark.parametrize("options", [[], ["--thread-mode"], ["--no-interpose"]])
def test_tasks_without_calls_after_4_18(job, guests, options):
    job.run([*RUN, *options, "-n", "3", guests("patterns"), "1"], preexec_fn=as_before_5_1()).expect(out="intact\n" * 3)


@pytest.mark.parametrize("way", ["crash", "abort", "kill", "exec", "thread-crash", "main-thread-ends"])
def test_ends_without_calls_after_4_18(job, run, guests, way):
    program = [guests("ending"), way]
    plain = job.run(program, preexec_fn=as_before_5_1())
    task = job.run([*run, *program], preexec_fn=as_before_5_1())
    assert task.code == plain.code != 0, f"{plain}\n{task}"


def test_a_launchers_job_without_calls_after_4_18(job, guests):
    mpi = MPIS["mpich"].needed()
    argv = mpi.command(3, [*RUN, guests.mpi(mpi, "mpi_exchange")])
    result = job.run(argv, env=mpi.env, preexec_fn=as_before_5_1())
    assert result.code == 0 and result.lines == [f"rank {i}: 0 wrong" for i in range(3)], str(result)


# ---- Undumpable spaces ----

def as_nobody(argv):
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *argv]


@pytest.fixture
def nobody(job):
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv(1), to become another user")
    if subprocess.run(as_nobody([ONESPACE, "--version"]), capture_output=True, cwd="/").returncode != 0:
        pytest.skip("the build directory is not open to other users")
    os.chown(job.runtime, NOBODY, NOBODY)
    return job


def may_read(job, pid):
    return job.run(as_nobody(["cat", f"/proc/{pid}/maps"]), cwd="/").code == 0


WAITS = ["sh", "-c", "echo ready; read line"]


def test_an_undumpable_space_is_opened_to_ps_alone(nobody, started):
    name = f"undumpable{os.getpid()}"
    started("--space", name, *WAITS, command=as_nobody(RUN), cwd="/", env=UNDUMPABLE)
    reaper, = nobody.named("onespace-reaper")
    assert closes(nobody, reaper)  # where `onespace ps` of another test has opened it
    for _ in range(2):
        result = nobody.run(as_nobody([ONESPACE, "ps", name]), cwd="/")
        assert result.code == 0 and "dash" in result.out and "cannot be read" not in result.out, str(result)
    assert closes(nobody, reaper), "it stays open"


def closes(job, reaper):
    deadline = time.monotonic() + 180
    while may_read(job, reaper.pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_a_space_is_closed_when_all_that_opened_it_have_ended_somehow(nobody, started):
    started(*WAITS, command=as_nobody(RUN), cwd="/", env=UNDUMPABLE)
    reaper, = nobody.named("onespace-reaper")
    opens = ["sh", "-c", f"kill -{OPEN} {reaper.pid}; echo sent; exec sleep 60"]
    os.kill(reaper.pid, signal.SIGSTOP)  # so that it gets both signals at once
    openers = [nobody.start(as_nobody(opens), cwd="/") for _ in range(2)]
    for opener in openers:
        opener.wait_for("sent")
    os.kill(reaper.pid, signal.SIGCONT)
    deadline = time.monotonic() + 180
    while not may_read(nobody, reaper.pid):
        assert time.monotonic() < deadline, "it stays closed"
        time.sleep(0.01)
    for opener in openers:
        time.sleep(0.3)
        assert may_read(nobody, reaper.pid), "closed to one that needs it"
        opener.signal(signal.SIGKILL)
        opener.finish()
    assert closes(nobody, reaper), "it stays open"


def test_an_undumpable_space_is_opened_to_several_at_once(nobody, started):
    name = f"undumpable{os.getpid()}"
    started("--space", name, *WAITS, command=as_nobody(RUN), cwd="/", env=UNDUMPABLE)
    reaper, = nobody.named("onespace-reaper")
    for _ in range(5):
        commands = [nobody.start(as_nobody([ONESPACE, "ps", name]), cwd="/") for _ in range(4)]
        for result in [command.finish() for command in commands]:
            assert result.code == 0 and "dash" in result.out and "cannot be read" not in result.out, str(result)
    assert closes(nobody, reaper), "it stays open"


# The signal that opens a space would end any other process: a task that starts has the reaper's name for a moment, and
# its handlers where the space is undumpable.
SLEEPER = """
import os, signal, sys, time
def rename():
    open("/proc/self/comm", "w").write("onespace-reaper")
if sys.argv[1] == "task":
    reaper = os.getpid()
    signal.signal({open}, lambda *_: os.getpid() == reaper or os._exit(1))
    if os.fork():
        rename()
        time.sleep(600)
rename()
print("ready", flush=True)
sys.stdin.read()
print("lives", flush=True)
"""


@pytest.mark.parametrize("like", ["process", "task"])
def test_ps_sends_its_signal_to_reapers_alone(nobody, like):
    sleeper = nobody.start(as_nobody(["/usr/bin/python3", "-c", SLEEPER.replace("{open}", str(OPEN)), like]),
                           stdin=subprocess.PIPE, cwd="/")
    sleeper.wait_for("ready")
    nobody.run(as_nobody([ONESPACE, "ps"]), cwd="/")
    sleeper.process.stdin.close()
    sleeper.wait_for("lives")
    nobody.kill_all()


@pytest.mark.parametrize("choice, readable", [("0", False), ("1", True)])
def test_the_user_may_choose(nobody, started, choice, readable):
    started(*WAITS, command=as_nobody(RUN), cwd="/", env={"ONESPACE_DUMPABLE": choice})
    reaper, = nobody.named("onespace-reaper")
    assert may_read(nobody, reaper.pid) if readable else closes(nobody, reaper)


@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_an_undumpable_job_of_a_user(nobody, guests, name):
    """MPICH with UCX would open the other ranks' memory in /proc/PID/fd."""
    mpi = MPIS[name].needed()
    argv = mpi.command(2, [*RUN, "--stats", guests.mpi(mpi, "mpi_exchange")])
    result = nobody.run(as_nobody(argv), cwd="/", env={**mpi.env, **UNDUMPABLE, "HOME": "/tmp"})
    assert result.code == 0 and result.lines == ["rank 0: 0 wrong", "rank 1: 0 wrong"], str(result)
    assert "copies in user space: 0," not in result.err, str(result)
