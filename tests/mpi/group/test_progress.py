"""onespace run --progress: ranks that wait make progress for ranks that compute (src/mpi/group/progress_thread.c)."""
import os
import re

import pytest

from jobs import RUN
from launchers import none_wrong

PROGRESS = [*RUN, "--progress"]
HANG_MS, SHORT_MS = "60000", "300"
CASES = ["send", "waitall", "barrier", "ibcast"]

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two CPUs are needed")


def received(result):
    return dict(re.fullmatch(r"(\w+): received (.*)", line).groups() for line in result.lines if "received" in line)


def test_rank_receives_while_it_computes(run_guest, mpi):
    result = run_guest(mpi, 2, "mpi_progress", HANG_MS, *CASES, prefix=PROGRESS)
    assert result.code == 0 and received(result) == dict.fromkeys(CASES, "while it computed"), str(result)
    assert [line for line in result.lines if line.startswith("rank")] == none_wrong(2), str(result)


def test_rank_receives_while_it_computes_without_collectives_of_the_layer(run_guest, distributions_mpi):
    """A rank's progress thread starts with its first call that waits."""
    cases = ["nothing", "send", "waitall", "ibcast"]
    prefix = [*PROGRESS, "--collectives", "off"]
    result = run_guest(distributions_mpi, 2, "mpi_progress", HANG_MS, *cases, prefix=prefix)
    assert result.code == 0 and received(result) == dict.fromkeys(cases[1:], "while it computed"), str(result)


def test_mpi_init_gives_the_level_of_threads(run_guest, mpi):
    result = run_guest(mpi, 2, "mpi_progress", HANG_MS, "send", prefix=PROGRESS, LEVEL="init")
    assert result.code == 0 and received(result) == {"send": "while it computed"}, str(result)


def test_rank_ends_while_others_wait(run_guest, distributions_mpi):
    """Its progress thread is awake when it calls MPI_Finalize, more often than not."""
    for _ in range(10):
        result = run_guest(distributions_mpi, 2, "mpi_progress", HANG_MS, "last_message", prefix=PROGRESS)
        assert result.code == 0 and result.lines == none_wrong(2) and not result.err, str(result)


def test_threads_wait_at_the_same_time(run_guest, distributions_mpi):
    result = run_guest(distributions_mpi, 2, "mpi_progress", HANG_MS, "threads", "send", prefix=PROGRESS)
    assert result.code == 0 and received(result) == {"send": "while it computed"}, str(result)


@pytest.mark.parametrize("cpus", ["0", "0,1"])
def test_ranks_that_share_a_cpu_by_their_binding_are_told(run_guest, mpi_named, cpus):
    prefix = ["taskset", "-c", cpus, *PROGRESS]
    result = run_guest(mpi_named("mpich"), 2, "mpi_progress", SHORT_MS, "send", prefix=prefix)
    assert result.code == 0, str(result)
    assert result.err.count("has no effect: ranks outnumber their CPUs") == (cpus == "0"), str(result)


def test_rank_does_not_without_the_option(run_guest, distributions_mpi):
    result = run_guest(distributions_mpi, 2, "mpi_progress", SHORT_MS, "send", "waitall")
    assert result.code == 0 and received(result) == dict.fromkeys(["send", "waitall"], "in MPI_Wait"), str(result)


def test_ranks_that_outnumber_cpus_are_told_that_it_has_no_effect(run_guest, distributions_mpi):
    ranks = os.cpu_count() + 1
    result = run_guest(distributions_mpi, ranks, "mpi_progress", SHORT_MS, "send", prefix=PROGRESS)
    assert result.code == 0 and received(result) == {"send": "in MPI_Wait"}, str(result)
    said = f"onespace run: --progress has no effect: {ranks} ranks outnumber {os.cpu_count()} CPUs"
    assert result.err.count(said) == 1, str(result)


def test_forked_child_leaves_the_helper_alone(run_guest, distributions_mpi):
    result = run_guest(distributions_mpi, 2, "mpi_progress", HANG_MS, "forks", "send", prefix=PROGRESS,
                       OMPI_MCA_mpi_warn_on_fork="0")
    assert result.code == 0 and received(result) == {"send": "while it computed"}, str(result)


def test_job_that_aborts_ends_as_without_the_option(run_guest, distributions_mpi):
    codes = [run_guest(distributions_mpi, 2, "mpi_progress", HANG_MS, "aborts", prefix=prefix).code
             for prefix in (RUN, PROGRESS)]
    assert codes == [5, 5]


def test_program_that_does_not_finalize_ends(run_guest, distributions_mpi):
    """With which status is the launcher's affair."""
    result = run_guest(distributions_mpi, 2, "mpi_progress", HANG_MS, "exits", prefix=PROGRESS)
    assert result.code != 0 or result.lines == none_wrong(2), str(result)


def test_too_low_a_level_of_threads_is_reported_once(run_guest, mpi_named):
    """MPI_Init_thread with MPI_THREAD_FUNNELED."""
    result = run_guest(mpi_named("mpich"), 2, "mpi_progress", SHORT_MS, "send", prefix=PROGRESS, LEVEL="1")
    assert received(result) == {"send": "in MPI_Wait"}, str(result)
    said = "--progress has no effect: MPI was initialised with less than MPI_THREAD_MULTIPLE"
    assert result.err.count(said) == 1, str(result)


@pytest.mark.parametrize("options, words", [(["--mpi-layer", "off"], "--progress with --mpi-layer off"),
                                            (["--thread-mode", "-n", "2"], "--progress with --thread-mode")])
def test_options_that_exclude_one_another(job, options, words):
    job.run([*PROGRESS, *options, "true"]).expect(2, out="", says=words)
