"""Programs that are linked with the runtime for GPUs of AMD, of which Linux lets one task of a space use a GPU. The
runtime is an empty library of its name, and the GPU's device an empty file: no instruction for a GPU runs."""
import os
import re
import subprocess

import pytest

from jobs import RUN, with_entry

PROGRAM = r"""
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    cpu_set_t cpus;
    sched_getaffinity(0, sizeof(cpus), &cpus);
    printf("%s", getenv("ONESPACE_TASK_ID") ? "task" : "process");
    if (argc > 1)
        printf(" on %d of CPUs", CPU_COUNT(&cpus));
    printf("\n");
    return argc > 1 ? atoi(argv[1]) : 0;
}
"""


@pytest.fixture(params=["libamdhip64.so.6", "libhsa-runtime64.so.1"])
def library(request):
    return request.param


@pytest.fixture
def hip(tmp_path, library):
    """A program that needs the library."""
    (tmp_path / "program.c").write_text(PROGRAM)
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "/dev/null", f"-Wl,-soname,{library}", "-o", library],
                   cwd=tmp_path, check=True, timeout=180)
    subprocess.run(["cc", "program.c", "-Wl,--no-as-needed", library, f"-Wl,-rpath,{tmp_path}", "-o", "hip"],
                   cwd=tmp_path, check=True, timeout=180)
    return str(tmp_path / "hip")


@pytest.fixture
def with_gpu(tmp_path):
    """A command prefix: on a machine that has /dev/kfd."""
    prefix = with_entry("/dev", "kfd", tmp_path)
    (tmp_path / "new/kfd").touch()
    return prefix


def test_ranks_stay_processes(job, mpi_named, with_gpu, hip, library):
    result = job.run([*with_gpu, *mpi_named("mpich").command(3, [*RUN, hip])])
    assert result.code == 0 and result.lines == ["process"] * 3, str(result)
    said = f"onespace run: {hip} uses a GPU of AMD ({library}), which only one task of a space can: its ranks stay"
    assert result.err.count(said) == 1, str(result)


def test_rank_that_stays_a_process_has_its_binding_and_exit_status(job, mpi_named, with_gpu, hip):
    cpu = str(max(os.sched_getaffinity(0)))
    command = mpi_named("mpich").command(1, ["env", "MPI_LOCALNRANKS=2", *RUN, "--cpu-bind", cpu, hip, "7"])
    job.run([*with_gpu, *command]).expect(7, shows="process on 1 of CPUs\n")


def test_one_rank_of_a_node_is_a_task(job, mpi_named, with_gpu, hip):
    result = job.run([*with_gpu, *mpi_named("mpich").command(1, [*RUN, hip])])
    assert result.code == 0 and result.out == "task\n" and "GPU" not in result.err, str(result)


def test_ranks_are_tasks_where_there_is_no_gpu(job, mpi_named, hip):
    if os.path.exists("/dev/kfd"):
        pytest.skip("there is a GPU of AMD here")
    result = job.run(mpi_named("mpich").command(2, [*RUN, hip]))
    assert result.code == 0 and result.lines == ["task"] * 2 and "GPU" not in result.err, str(result)


@pytest.mark.parametrize("parts, tasks", [([["-n", "2"]], 2), ([[], [":"]], 2), ([["-n", "3"], [":"]], 4)])
def test_several_tasks_by_hand_are_refused(job, with_gpu, hip, library, parts, tasks):
    words = [word for part in parts for word in (*part, hip)]
    said = f"onespace run: {tasks} of the tasks use a GPU of AMD ({library}), which only one task of a space can"
    job.run([*with_gpu, *RUN, *words]).expect(126, out="", says=said)


def test_one_task_beside_others_uses_it(job, with_gpu, hip):
    result = job.run([*with_gpu, *RUN, hip, ":", "-n", "2", "/bin/echo", "other"])
    assert result.code == 0 and result.lines == ["other", "other", "task"], str(result)


def test_check_says_it(job, hip, library):
    result = job.run([RUN[0], "check", hip])
    assert result.code == 0, result
    assert f"uses GPUs of AMD ({library})" in re.sub(r"\s+", " ", result.out), result


def test_doctor_warns_of_it(job, with_gpu):
    result = job.run([*with_gpu, RUN[0], "doctor"])
    assert "warning  GPU of AMD  only one task of a space can use it" in re.sub("  +", "  ", result.out), result
