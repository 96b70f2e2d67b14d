"""tests/sync/test_ghost.py: ghost updates of real ranks: of each MPI, as processes and as tasks, and of a space."""
import pytest

from jobs import RUN

GUEST = "sync_ghost"


def check(result, ranks, path):
    assert result.code == 0 and result.lines == [f"rank {i} of {ranks}, {path}: 0 wrong" for i in range(ranks)], result


@pytest.mark.parametrize("path", ["direct", "buffers"])
def test_ghosts_of_tasks(run_tasks, path):
    check(run_tasks(5, GUEST, path, 1), 5, path)


def test_ghosts_of_tasks_that_measure_what_is_faster(run_tasks):
    result = run_tasks(2, GUEST, "random", 7)
    check(result, 2, "direct" if "direct" in result.out else "buffers")


def test_ghosts_of_processes(run_ranks, stock_mpi):
    check(run_ranks(stock_mpi, 4, GUEST, "random", 2), 4, "buffers")


def test_ghosts_of_mpi_ranks_that_are_tasks(run_ranks, stock_mpi):
    check(run_ranks(stock_mpi, 4, GUEST, "direct", 3, wrapper=RUN), 4, "direct")


@pytest.mark.parametrize("teams", ["halves", "leaders"])
@pytest.mark.parametrize("wrapper, path", [([], "buffers"), (RUN, "direct")], ids=["processes", "tasks"])
def test_ghosts_between_teams(run_ranks, stock_mpi, teams, wrapper, path):
    """Even and odd ranks share memory among themselves only: messages go between processes."""
    check(run_ranks(stock_mpi, 5, GUEST, teams, 4, wrapper=wrapper), 5, path)


def test_ghosts_need_one_kind_of_speaker(run_ranks, mpi_named):
    result = run_ranks(mpi_named("mpich"), 2, GUEST, "speakers", 0)
    assert result.code == 0 and all("give the same on all" in line for line in result.lines), result
    assert len(result.lines) == 2, result


def test_ghosts_of_two_nodes(run_on_two_nodes):
    check(run_on_two_nodes(4, GUEST, "random", 6), 4, "buffers")


FAULTS = {
    "range": "rank 1, entry 0 of the send list for rank 2 is point 2, but the vector has 2 points",
    "count": "rank 1 sends 2 points to rank 2, which expects 1 from it: entry 1 is in one of the two lists only",
    "missing": "rank 0 sends 1 points to rank 1, which expects 0 from it: entry 0 is in one of the two lists only",
    "id":
        "rank 1, entry 0 of the send list for rank 2 is the point with id 77, but rank 2 expects that with id 1 there",
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("members", ["tasks", "processes"])
def test_all_get_the_error_about_wrong_lists(run_tasks, run_ranks, mpi_named, members, fault):
    words = (3, GUEST, "mismatch", fault)
    result = run_tasks(*words) if members == "tasks" else run_ranks(mpi_named("mpich"), *words)
    text = "onespace::sync::ghost_plan: " + FAULTS[fault]
    assert result.code == 0 and result.lines == [f"rank {i}: {text}" for i in range(3)], result


def test_peers_of_a_killed_task_get_an_error(check_loss_of_a_task):
    check_loss_of_a_task(GUEST)


def test_peers_of_a_killed_process_get_an_error(check_loss_of_a_process):
    check_loss_of_a_process(GUEST)
