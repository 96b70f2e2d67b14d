"""A space whose memory control group is full: the kernel ends all of it, and one message says so and why."""
import pathlib
import re
import shlex
import signal
import subprocess
import time
import uuid

import pytest

from jobs import RUN, eventually
from observe import DOCTOR, as_json

MIB = 1 << 20
LIMIT = 160 * MIB
FIRST = "142"  # MiB; the last sample may be ten less (SAMPLE_STEP in src/launch/oom_watch.c)
MOUNT = pathlib.Path("/sys/fs/cgroup")


@pytest.fixture
def limited():
    """A memory control group with that limit, of version 1 or 2, in which commands start: a preexec_fn and its path."""
    old = MOUNT / "memory" / "memory.limit_in_bytes"
    base = old.parent if old.exists() else MOUNT
    group = base / f"onespace-test-{uuid.uuid4().hex[:8]}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"cannot make a memory control group: {error}")
    file = group / ("memory.limit_in_bytes" if old.exists() else "memory.max")
    try:
        if not file.exists():
            pytest.skip("the memory controller is not there for new control groups")
        file.write_text(str(LIMIT))
        for name in ("memory.swap.max", "memory.swappiness"):
            if (group / name).exists():
                (group / name).write_text("0")
        yield group, lambda: (group / "cgroup.procs").write_text("0")
    finally:
        while (group / "cgroup.procs").read_text():
            time.sleep(0.01)
        group.rmdir()


def killed(group):
    for name in ("memory.events", "memory.oom_control"):
        if (group / name).exists():
            return int(re.search(r"^oom_kill (\d+)$", (group / name).read_text(), re.M)[1])
    raise AssertionError(group)


def is_reported(result, group, must_name_task=True):
    """Once, and what it says of the limit, the counter and the largest task is true."""
    reported = [line for line in result.err.split("\n") if line.startswith("onespace run:")]
    assert len(reported) == 1, str(result)
    match = re.search(r"killed all tasks of the space.*: (\S+) has a limit of (\d+) MiB, and oom_kill of (\S+) went "
                      r"from 0 to (\d+)(?:; of its tasks pid (\d+) used most, (\d+) MiB)?; ask for more memory",
                      reported[0])
    assert match, str(result)
    assert match[1] == match[3] == str(group) and int(match[2]) == LIMIT // MIB
    assert int(match[4]) == killed(group) > 0
    if must_name_task or match[5]:
        assert match[5] == re.search(r"hog (\d+)", result.out)[1] and int(match[6]) >= 130, str(result)


def test_full_group_by_hand_is_reported(job, guests, limited):
    group, enter = limited
    result = job.run([*RUN, "-n", "4", guests("hog"), FIRST, "100"], preexec_fn=enter).expect(128 + signal.SIGKILL)
    is_reported(result, group)


@pytest.mark.parametrize("launcher", ["mpich", "openmpi"])
def test_full_group_is_reported_once_for_a_job(job, guests, mpi_named, limited, launcher):
    """The launcher is not in the group, as its daemon is not in that of Slurm's step."""
    mpi, group = mpi_named(launcher), limited[0]
    command = shlex.join([*RUN, guests("hog"), FIRST, "100"])
    result = job.run(mpi.command(4, ["sh", "-c", f"echo 0 > {group}/cgroup.procs && exec {command}"]), env=mpi.env)
    assert result.code != 0, str(result)
    # Only the first rank's shim knows that task, and another shim reports if the first one is late.
    is_reported(result, group, must_name_task=False)


def test_other_space_of_the_full_group_lives_on(job, guests, limited):
    """The kernel ends the space that uses most, and nothing is said of the other."""
    group, enter = limited
    other = job.start([*RUN, "-n", "2", "sh", "-c", "echo ready; read line; echo $line"], stdin=subprocess.PIPE,
                      preexec_fn=enter)
    other.wait_for("ready", 2)
    result = job.run([*RUN, "-n", "4", guests("hog"), FIRST, "100"], preexec_fn=enter).expect(128 + signal.SIGKILL)
    is_reported(result, group)
    other.process.stdin.close()
    other.finish().expect(err="")


@pytest.mark.parametrize("space", [[], ["--space", "lives"]], ids=["by_hand", "joined"])
def test_process_that_a_task_has_started_is_killed_alone(job, limited, space):
    """It has memory of its own, and the tasks are smaller."""
    group, enter = limited
    child = "/usr/bin/python3 -c 'bytearray(400 << 20)'; echo child $?; echo goes on"
    result = job.run([*RUN, *space, "sh", "-c", child], preexec_fn=enter)
    assert result.code == 0 and result.lines == ["child 137", "goes on"] and killed(group) == 1, str(result)
    assert "onespace" not in result.err, str(result)


def used_mib(group):
    name = "memory.current" if (group / "memory.current").exists() else "memory.usage_in_bytes"
    return int((group / name).read_text()) // MIB


def test_tasks_in_another_group_use_the_roots_and_do_not_outlive_it(job, guests, limited):
    """The kernel charges memory to the group of the one process that owns it (mm->owner), which is the root. When that
    is killed the kernel gives the memory to a task that is about to be killed, too."""
    group, enter = limited
    other = group.parent / f"{group.name}-other"
    other.mkdir()
    try:
        command = job.start([*RUN, guests("hog"), "8", "64"], preexec_fn=enter)
        command.wait_for("hog")
        task = int(command.so_far().out.split()[1])
        (other / "cgroup.procs").write_text(str(task))
        assert eventually(lambda: used_mib(group) >= 64), used_mib(group)
        assert used_mib(other) < 32
        command.signal(signal.SIGKILL)
        assert command.finish().code == 128 + signal.SIGKILL
        assert eventually(lambda: not (other / "cgroup.procs").read_text())
    finally:
        job.kill_all()
        assert eventually(lambda: not (other / "cgroup.procs").read_text())
        other.rmdir()


@pytest.mark.parametrize("program", [["true"], ["sh", "-c", "kill -9 $PPID"], ["sh", "-c", "kill -9 $$"]])
def test_nothing_is_reported_of_other_ends(job, limited, program):
    """The last one is what `kill` and launchers do, too: the same signal, and no counter that went up."""
    group, enter = limited
    result = job.run([*RUN, "-n", "2", *program], preexec_fn=enter)
    assert killed(group) == 0 and "control group" not in result.err, str(result)


def test_doctor_warns_when_little_would_stay_free(job, limited):
    _, enter = limited

    def memory(ranks):
        found = as_json(job.run([*DOCTOR, "--json", "--ranks", str(ranks)], preexec_fn=enter))
        line, = [line for line in found if line["subject"] == "memory"]
        return line

    # 32 MiB and 8 MiB for each rank; a quarter of the limit is to stay free.
    assert memory(10)["status"] == "good"
    line = memory(12)
    assert line["status"] == "warning" and "163840 KiB there" in line["finding"] and line["fix"], line
