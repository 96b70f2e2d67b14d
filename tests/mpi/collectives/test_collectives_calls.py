"""What docs/collective-operations.md promises of calls beside their results: progress, stack, threads."""
import os

import pytest
from test_collectives_results import ON

LONG = os.environ.get("ONESPACE_LONG") == "1"


@pytest.mark.long
@pytest.mark.parametrize("ranks", [2, 3] if LONG else [3])
def test_threads_have_communicators_of_their_own(check_guest, stock_mpi, ranks):
    """Another thread makes and frees communicators meanwhile."""
    for seed in "12" if LONG else "1":
        check_guest(stock_mpi, ranks, "mpi_collectives_threads", 1000 if LONG else 100, seed, prefix=ON, timeout=300)


def test_waiting_ranks_make_the_librarys_progress(check_guest, stock_mpi):
    """A rank waits in the operation while another sends to it a message that it must help to receive."""
    check_guest(stock_mpi, 2, "mpi_collectives_progress", prefix=ON)


def test_operations_need_little_stack(run_guest, distributions_mpi):
    """User-level threads have small ones."""
    result = run_guest(distributions_mpi, 2, "mpi_collectives_stack", prefix=ON)
    used = {line.rsplit(": ", 1)[0]: int(line.rsplit(": ", 1)[1]) for line in result.lines}
    assert result.code == 0 and len(used) == 18 and max(used.values()) < 6000, used


@pytest.mark.parametrize("ranks, messages, allowed", [(2, 1, 0), (2, 8, 0), (2, 60, 6000), (4, 8, 0)])
def test_one_poll_after_an_operation_finds_what_was_sent_before(run_guest, distributions_mpi, ranks, messages, allowed):
    """As it does after the library's own operation. Of several queued messages MPICH receives one or two at a time:
    without progress of the layer's a poll would miss 100,000 of those that come 60 at a time. It makes eight steps at
    least, and more if they take longer than steps that receive nothing, which a CPU that has just become faster
    hides."""
    cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))  # four ranks share them
    result = run_guest(distributions_mpi, ranks, "mpi_collectives_polls", messages, prefix=["taskset", "-c", cpus, *ON],
                       timeout=300)
    missed = [int(line.split()[2]) for line in result.lines if line.endswith(" wrong")]
    assert result.code == 0 and len(missed) == ranks and sum(missed) <= allowed, str(result)
