"""Calls that wait for a message: tasks that share CPUs give them away meanwhile (src/mpi/wrap/waits.c)."""
import os

import pytest

from jobs import RUN
from launchers import none_wrong

CASES = ["sends", "ready_send", "sendrecv", "sendrecv_replace", "large", "waits", "no_request", "probes", "no_partner",
         "errors", "large_counts"]
ONE_CPU = ["taskset", "-c", "0"]


@pytest.mark.parametrize("ranks", [2, 5])
@pytest.mark.parametrize("kind", ["processes", "tasks"])
def test_calls_that_wait(check_guest, mpi, kind, ranks):
    """The same messages, statuses and errors as in processes; five ranks outnumber two CPUs, two outnumber one."""
    fewer = ONE_CPU if ranks == 2 else []
    check_guest(mpi, ranks, "mpi_waits", *CASES, prefix=[*fewer, *mpi.prefix(kind)])


@pytest.mark.parametrize("prefix, words", [
    ([*ONE_CPU, *RUN], "yields"),
    ([*ONE_CPU, *RUN, "--mpi-layer", "off"], "does not yield"),
    (RUN, "does not yield"),
    (ONE_CPU, "does not yield"),  # a process
], ids=["shared", "off", "own", "process"])
def test_rank_yields_where_tasks_outnumber_cpus(run_guest, mpi_named, prefix, words):
    result = run_guest(mpi_named("mpich"), 2, "mpi_waits", "yield", prefix=prefix)
    assert result.code == 0 and result.lines == [*none_wrong(2), f"the last rank {words}"], str(result)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two CPUs are needed")
@pytest.mark.parametrize("ranks, words", [(2, "does not sleep"), (4, "sleeps")])
def test_pair_of_ranks_shares_two_cpus_with_the_jobs_others(run_guest, distributions_mpi, ranks, words):
    """A communicator of two ranks has a CPU for each, but not alone. What waits long in the layer then sleeps."""
    cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))
    prefix = ["taskset", "-c", cpus, *RUN, "--collectives", "on"]
    result = run_guest(distributions_mpi, ranks, "mpi_waits", "pairs", prefix=prefix)
    assert result.code == 0 and f"rank 1 {words}" in result.lines, str(result)
