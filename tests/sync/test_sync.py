"""tests/sync/test_sync.py: teams of real ranks: of each MPI, as processes and as tasks, and of a space."""
import pytest

from jobs import RUN
from launchers import none_wrong

GUEST = "sync_team"


def check(result, lines):
    assert result.code == 0 and result.lines == lines, result


def ranks(count, kind):
    return [f"rank {i} of {count}, {kind}: 0 wrong" for i in range(count)]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_team_of_a_space(run_tasks, count):
    check(run_tasks(count, GUEST, "team", 50), ranks(count, "direct"))


@pytest.mark.parametrize("count, kind", [(1, "direct"), (4, "windows")])
def test_team_of_processes(run_ranks, stock_mpi, count, kind):
    check(run_ranks(stock_mpi, count, GUEST, "team", 20), ranks(count, kind))


def test_team_of_mpi_ranks_that_are_tasks_is_direct(run_ranks, stock_mpi):
    check(run_ranks(stock_mpi, 3, GUEST, "team", 20, wrapper=RUN), ranks(3, "direct"))


def test_rank_may_be_late_by_seconds(run_tasks):
    check(run_tasks(3, GUEST, "late", 3), [f"rank {i} is there" for i in range(3)])


@pytest.mark.parametrize("how", ["kill", "exit", "exec"])
def test_peers_of_a_lost_task_get_an_error(check_loss_of_a_task, how):
    check_loss_of_a_task(GUEST, how)


def test_peers_of_a_lost_process_get_an_error(check_loss_of_a_process):
    check_loss_of_a_process(GUEST, "kill")


def test_teams_are_made_one_after_another(run_tasks):
    check(run_tasks(3, GUEST, "repeat", 50), ["made"] * 3)


def test_teams_of_mpi_ranks_are_made_one_after_another(run_ranks, stock_mpi):
    check(run_ranks(stock_mpi, 3, GUEST, "repeat", 3), ["made"] * 3)


@pytest.mark.parametrize("count", [2, 5])
def test_collectives_of_a_space(run_tasks, count):
    check(run_tasks(count, GUEST, "collect", 10), none_wrong(count))


@pytest.mark.parametrize("wrapper", [[], RUN], ids=["processes", "tasks"])
def test_collectives_of_mpi_ranks(run_ranks, stock_mpi, wrapper):
    check(run_ranks(stock_mpi, 3, GUEST, "collect", 10, wrapper=wrapper), none_wrong(3))


def test_cluster_of_one_node(run_ranks, stock_mpi):
    result = run_ranks(stock_mpi, 3, GUEST, "cluster", 10)
    check(result, [f"rank {i} is {i} of 3 on one of 1 nodes: 0 wrong" for i in range(3)])


def test_cluster_of_two_nodes(run_on_two_nodes):
    result = run_on_two_nodes(4, GUEST, "cluster", 10)
    check(result, [f"rank {i} is {i // 2} of 2 on one of 2 nodes: 0 wrong" for i in range(4)])
