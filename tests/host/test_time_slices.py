"""Short turns where tasks outnumber processors: the threads that make them, and the tasks' time slices."""
import ctypes
import os
import pathlib
import struct
import time

import pytest

from jobs import RUN

PROCESSORS = sorted(os.sched_getaffinity(0))
CROWD = str(len(PROCESSORS) + 1)
SAY_AND_WAIT = ["/bin/sh", "-c", "echo up $$; exec 2>&1; read line"]
SYS_SCHED_GETATTR = 315

# They oversubscribe all CPUs and look at what the kernel gives each task.
pytestmark = pytest.mark.alone


def turns_of(pid):
    """The processors of the threads that make turns, in that process."""
    found = []
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (thread / "comm").read_text() == "onespace-turns\n":
            status = (thread / "status").read_text()
            found += [int(line.split()[1]) for line in status.splitlines() if line.startswith("Cpus_allowed_list")]
    return sorted(found)


def eventually(expected, pid):
    """Threads take their name and their processor when they first run."""
    for _ in range(100):
        if turns_of(pid) == expected:
            return True
        time.sleep(0.05)
    return False


def slice_of(pid):
    attributes = ctypes.create_string_buffer(48)
    if ctypes.CDLL(None).syscall(SYS_SCHED_GETATTR, pid, attributes, 48, 0) != 0:
        return None
    return struct.unpack_from("=IIQiIQ", attributes.raw)[5]


@pytest.fixture
def crowd(job):
    """Starts tasks by hand that wait until the test is over."""
    started = []

    def start(count, *options):
        command = job.start([*RUN, "-n", count, *options, *SAY_AND_WAIT], stdin=-1, timeout=30)
        command.wait_for("up", int(count))
        started.append(command)
        return command
    yield start
    for command in started:
        command.process.stdin.close()
        command.finish()


def test_more_tasks_than_processors_take_turns(crowd):
    command = crowd(CROWD)
    assert eventually(PROCESSORS, command.pid), turns_of(command.pid)


def test_tasks_that_fit_take_none(crowd):
    assert turns_of(crowd(str(len(PROCESSORS))).pid) == []


def test_turns_can_be_left_to_the_kernel(crowd):
    assert turns_of(crowd(CROWD, "--turns", "off").pid) == []


def test_tasks_in_a_crowd_ask_for_short_slices(crowd):
    command = crowd(CROWD)
    pids = [int(line.split()[1]) for line in command.so_far().out.splitlines()]
    before = slice_of(os.getpid())
    if not before:
        pytest.skip("the kernel does not tell time slices (Linux 6.12)")
    assert eventually(PROCESSORS, command.pid)
    assert {slice_of(pid) for pid in pids} == {125000}
    assert slice_of(command.pid) == before, "the root's own stays"


def test_ranks_of_a_launcher_take_turns(job, stock_mpi):
    command = job.start(stock_mpi.command(int(CROWD), [*RUN, "/bin/sh", "-c", "echo up $PPID; exec sleep 60"]),
                        timeout=30)
    command.wait_for("up", int(CROWD))
    keeper = int(command.so_far().out.split()[1])
    host = int((pathlib.Path(f"/proc/{keeper}/stat").read_text().rsplit(")", 1)[1]).split()[1])
    assert eventually(PROCESSORS, host), turns_of(host)
    command.signal(15)
    command.finish()
