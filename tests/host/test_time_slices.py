"""Short time slices where tasks outnumber CPUs: the threads that cut them, and what the tasks ask the kernel for."""
import ctypes
import os
import pathlib
import struct
import time

import pytest

from jobs import RUN

CPUS = sorted(os.sched_getaffinity(0))
TOO_MANY = str(len(CPUS) + 1)
SAY_AND_WAIT = ["/bin/sh", "-c", "echo up $$; exec 2>&1; read line"]
SYS_SCHED_GETATTR = 315

# They oversubscribe all CPUs and look at what the kernel gives each task.
pytestmark = pytest.mark.alone


def slicers_of(pid):
    """The CPUs of the threads that cut time slices in that process."""
    found = []
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (thread / "comm").read_text() == "onespace-slices\n":
            status = (thread / "status").read_text()
            found += [int(line.split()[1]) for line in status.splitlines() if line.startswith("Cpus_allowed_list")]
    return sorted(found)


def eventually(expected, pid):
    """Threads take their name and their CPU when they first run."""
    for _ in range(100):
        if slicers_of(pid) == expected:
            return True
        time.sleep(0.05)
    return False


def slice_of(pid):
    attributes = ctypes.create_string_buffer(48)
    if ctypes.CDLL(None).syscall(SYS_SCHED_GETATTR, pid, attributes, 48, 0) != 0:
        return None
    return struct.unpack_from("=IIQiIQ", attributes.raw)[5]


@pytest.fixture
def tasks(job):
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


def test_more_tasks_than_cpus_get_short_slices(tasks):
    command = tasks(TOO_MANY)
    assert eventually(CPUS, command.pid), slicers_of(command.pid)


def test_tasks_that_fit_get_none(tasks):
    assert slicers_of(tasks(str(len(CPUS))).pid) == []


def test_time_slices_can_be_left_to_the_kernel(tasks):
    assert slicers_of(tasks(TOO_MANY, "--time-slices", "off").pid) == []


def test_oversubscribed_tasks_ask_for_short_slices(tasks):
    command = tasks(TOO_MANY)
    pids = [int(line.split()[1]) for line in command.so_far().out.splitlines()]
    before = slice_of(os.getpid())
    if not before:
        pytest.skip("the kernel does not tell time slices (Linux 6.12)")
    assert eventually(CPUS, command.pid)
    assert {slice_of(pid) for pid in pids} == {125000}
    assert slice_of(command.pid) == before, "the root's own stays"


def test_ranks_of_a_launcher_get_short_slices(job, stock_mpi):
    command = job.start(stock_mpi.command(int(TOO_MANY), [*RUN, "/bin/sh", "-c", "echo up $PPID; exec sleep 60"]),
                        timeout=30)
    command.wait_for("up", int(TOO_MANY))
    reaper = int(command.so_far().out.split()[1])
    host = int((pathlib.Path(f"/proc/{reaper}/stat").read_text().rsplit(")", 1)[1]).split()[1])
    assert eventually(CPUS, host), slicers_of(host)
    command.signal(15)
    command.finish()
