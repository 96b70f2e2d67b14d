"""What docs/collective-operations.md promises of nonblocking operations. As processes the guest's expectations are
checked against the libraries' own."""
import os

import pytest
from test_collectives_results import ON

from jobs import RUN

LONG = os.environ.get("ONESPACE_LONG") == "1"
GUEST = "mpi_collectives_nonblocking"
CASES = ["completes_while_another_rank_receives", "root_is_far_ahead", "root_waits_for_each",
         "communicator_is_freed_meanwhile", "message_is_found_after_a_barrier",
         "messages_and_operations_are_waited_for_together", "ours_and_the_librarys_alternate"]
ROUNDS = 20000 if LONG else 500


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_operations_complete_in_any_order(run_guest, counted, stock_mpi, ranks):
    """Many at a time, by all calls that test or wait."""
    least = 3 if stock_mpi.hydra else 0.5  # of Open MPI's operations the layer has only reductions
    for seed in (1, 2):
        result = run_guest(stock_mpi, ranks, GUEST, "random", ROUNDS, seed, prefix=[*ON, "--stats"], timeout=300)
        assert result.code == 0, str(result)
        assert counted(result) > least * ranks * ROUNDS, str(result)


def test_cases_of_processes_are_those_of_the_library(run_guest, distributions_mpi):
    result = run_guest(distributions_mpi, 2, GUEST, *CASES, prefix=[], timeout=300)
    assert result.code == 0, str(result)


@pytest.mark.parametrize("ranks", [2, 3])
def test_cases_are_right(check_guest, mpi, ranks):
    check_guest(mpi, ranks, GUEST, *CASES, prefix=ON, timeout=300)


def test_messages_proceed_when_the_communicator_is_freed(check_guest, stock_mpi):
    check_guest(stock_mpi, 3, GUEST, "messages_proceed_when_the_communicator_is_freed", prefix=RUN)


def test_wrong_arguments_of_one_rank_are_an_error(run_guest, stock_mpi):
    """That rank gets its own class, those that needed its data another, and the next operation is right."""
    result = run_guest(stock_mpi, 2, GUEST, "wrong_arguments_of_rank_0_are_an_error", prefix=ON)
    assert result.code == 0, str(result)
    assert result.err.count("no result, because rank 0 could not take part") == 3, str(result)


def test_wrong_root_of_one_rank_is_an_error(run_guest, stock_mpi):
    result = run_guest(stock_mpi, 2, GUEST, "wrong_root_of_rank_1_is_an_error", prefix=ON)
    assert result.code == 0, str(result)
    assert "no result, because rank 1 could not take part" in result.err, str(result)


def test_sizes_that_differ_are_an_error(run_guest, hydra_mpi):
    result = run_guest(hydra_mpi, 2, GUEST, "sizes_that_differ_are_an_error", prefix=ON)
    assert result.code == 0, str(result)
    assert "rank 0 sends 32 bytes in a collective operation in which this rank expects 16" in result.err


@pytest.mark.parametrize("settings", [["--collectives", "off"], ["--collectives", "off=iallreduce,ibcast,ibarrier"]])
def test_operations_may_be_left_to_the_library(run_guest, counted, distributions_mpi, settings):
    one, all_of_them = (
        run_guest(distributions_mpi, 2, GUEST, *cases, prefix=[*ON[:-2], "--stats", *settings])
        for cases in (["completes_while_another_rank_receives"], ["root_is_far_ahead"]))
    assert one.code == all_of_them.code == 0, f"{one}{all_of_them}"
    assert counted(all_of_them) - counted(one) < 10, f"{one}{all_of_them}"
