"""Programs that use a GPU of NVIDIA's run as tasks: each has a context of its own, as processes have. Skipped where
there is no such GPU, or no driver."""
import os
import signal
import subprocess
import time

import pytest

from guests import PROGRAMS
from jobs import RUN

STEPS = PROGRAMS / "cuda-steps"
NO_GPU = 77
HELD_MIB = 4096
TORCH = """
import os, torch
a, b = (torch.randn(1024, 1024, device="cuda") for _ in range(2))
error = ((a @ b).double() - a.double() @ b.double()).norm() / (a.double() @ b.double()).norm()
print("right" if error < 1e-3 else f"error {error}")
"""


@pytest.fixture(scope="module", autouse=True)
def _gpu():
    done = subprocess.run([STEPS], stdout=subprocess.PIPE, timeout=180, check=False)
    if done.returncode == NO_GPU:
        pytest.skip("no GPU of NVIDIA's here, or no driver")
    assert done.returncode == 0, done.stdout


def used_mib(job):
    """The GPU's memory in use, with that of a process that asks."""
    result = job.run([STEPS, "used"]).expect()
    return int(result.out.split()[1])


def wait_until_at_most(job, mib):
    """The reaper unmaps what a killed task had mapped, and with it goes the memory."""
    deadline = time.monotonic() + 180
    while (used := used_mib(job)) > mib:
        assert time.monotonic() < deadline, f"{used} MiB of the GPU's memory are in use, not {mib}"


@pytest.mark.parametrize("tasks", [1, 2, 8, 16])
def test_tasks_copy_to_the_gpu_and_back(job, tasks):
    job.run([*RUN, "-n", str(tasks), STEPS, "copy"]).expect(out="copy: 0 wrong\n" * tasks)


@pytest.mark.parametrize("victim", [0, 1])
def test_killed_task_gives_back_its_memory_and_the_other_goes_on(job, started, victim):
    before = used_mib(job)
    command = started("-n", "2", STEPS, "hold", str(HELD_MIB), "wait", "copy", count=2)
    both = used_mib(job)
    assert both - before >= 2 * HELD_MIB
    tasks = sorted((process for process in job.processes() if process.name == "cuda-steps"), key=lambda one: one.pid)
    assert len(tasks) == 2, tasks
    os.kill(tasks[victim].pid, signal.SIGKILL)
    wait_until_at_most(job, both - HELD_MIB)
    command.process.stdin.close()
    command.finish().expect(128 + signal.SIGKILL, shows="copy: 0 wrong")
    wait_until_at_most(job, before)


@pytest.mark.parametrize("exporter, importer", [([], []), (RUN, []), ([], RUN), (RUN, RUN)])
def test_memory_of_the_gpu_is_shared_with_other_spaces(job, tmp_path, exporter, importer):
    """By CUDA IPC."""
    handle = str(tmp_path / "handle")
    first = job.start([*exporter, STEPS, "export", handle])
    second = job.run([*importer, STEPS, "import", handle])
    first = first.finish()
    assert (first.code, second.code) == (0, 0) and "import: right" in second.out, f"{first}\n{second}"


def test_memory_of_the_gpu_is_shared_between_tasks_of_a_space(job, tmp_path):
    handle = str(tmp_path / "handle")
    result = job.run([*RUN, STEPS, "export", handle, ":", STEPS, "import", handle])
    assert result.code == 0 and sorted(result.lines) == ["export: taken", "import: right"], result


def test_origins_of_puts_and_gets_in_the_memory_of_the_gpu(job, guests, stock_mpi):
    command = stock_mpi.command(2, [*RUN, guests.mpi(stock_mpi, "mpi_window_device"), PROGRAMS / "gpu-memory.so"])
    job.run(command, env=stock_mpi.env).expect(lines=["rank 0: 0 wrong", "rank 1: 0 wrong"])


@pytest.mark.parametrize("tasks", [1, 2])
def test_pytorch(job, tasks):
    if job.run(["python3", "-c", "import torch; raise SystemExit(not torch.cuda.is_available())"]).code != 0:
        pytest.skip("no PyTorch with CUDA here")
    job.run([*RUN, "-n", str(tasks), "python3", "-c", TORCH]).expect(out="right\n" * tasks)
