"""tests/sync/test_sync.py: teams of real ranks: of each MPI, as processes and as tasks, and of a space."""
import pytest

from jobs import RUN
from launchers import MPIS

TIME = 60


@pytest.fixture
def space_team(guests):
    return guests("sync_team")


def mpi_team(guests, mpi):
    return guests.mpi(mpi, "sync_team")


def ranks(count, kind):
    return [f"rank {i} of {count}, {kind}: 0 wrong" for i in range(count)]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_team_of_a_space(job, space_team, count):
    result = job.run([*RUN, "-n", count, space_team, "team", "50"], timeout=TIME)
    assert result.code == 0 and result.lines == ranks(count, "direct"), result


@pytest.mark.parametrize("count", [1, 4])
def test_team_of_processes(job, guests, stock_mpi, count):
    command = stock_mpi.command(count, [mpi_team(guests, stock_mpi), "team", "20"])
    result = job.run(command, timeout=TIME, env=stock_mpi.env)
    assert result.code == 0 and result.lines == ranks(count, "direct" if count == 1 else "windows"), result


def test_team_of_mpi_ranks_that_are_tasks_is_direct(job, guests, stock_mpi):
    command = stock_mpi.command(3, [*RUN, mpi_team(guests, stock_mpi), "team", "20"])
    result = job.run(command, timeout=TIME, env=stock_mpi.env)
    assert result.code == 0 and result.lines == ranks(3, "direct"), result


def test_rank_may_be_late_by_seconds(job, space_team):
    result = job.run([*RUN, "-n", 3, space_team, "late", "3"], timeout=TIME)
    assert result.code == 0 and result.lines == [f"rank {i} is there" for i in range(3)], result


@pytest.mark.parametrize("how", ["kill", "exit", "exec"])
def test_peers_of_a_lost_task_get_an_error(job, space_team, how):
    result = job.run([*RUN, "-n", 4, space_team, "lose", 2, how], timeout=20)
    assert result.lines == [f"rank {i} lost 2" for i in (0, 1, 3)], result


def test_peers_of_a_lost_process_get_an_error(job, guests):
    """Under the one launcher that leaves the other ranks alone when it is asked to."""
    mpi = MPIS["openmpi"].needed()
    argv = mpi.command(3, [mpi_team(guests, mpi), "lose", 1, "kill"], "--enable-recovery")
    result = job.run(argv, timeout=20)
    assert [line for line in result.lines if "lost" in line] == [f"rank {i} lost 1" for i in (0, 2)], result


def test_teams_are_made_one_after_another(job, space_team):
    result = job.run([*RUN, "-n", 3, space_team, "twice", "50"], timeout=TIME)
    assert result.code == 0 and result.lines == ["made"] * 3, result


def test_teams_of_mpi_ranks_are_made_one_after_another(job, guests, stock_mpi):
    command = stock_mpi.command(3, [mpi_team(guests, stock_mpi), "twice", "3"])
    result = job.run(command, timeout=TIME, env=stock_mpi.env)
    assert result.code == 0 and result.lines == ["made"] * 3, result


def right(count):
    return [f"rank {i}: 0 wrong" for i in range(count)]


@pytest.mark.parametrize("count", [2, 5])
def test_collectives_of_a_space(job, space_team, count):
    result = job.run([*RUN, "-n", count, space_team, "collect", "10"], timeout=TIME)
    assert result.code == 0 and result.lines == right(count), result


@pytest.mark.parametrize("wrapper", [[], RUN], ids=["processes", "tasks"])
def test_collectives_of_mpi_ranks(job, guests, stock_mpi, wrapper):
    command = stock_mpi.command(3, [*wrapper, mpi_team(guests, stock_mpi), "collect", "10"])
    result = job.run(command, timeout=TIME, env=stock_mpi.env)
    assert result.code == 0 and result.lines == right(3), result


def test_cluster_of_one_node(job, guests, stock_mpi):
    command = stock_mpi.command(3, [mpi_team(guests, stock_mpi), "cluster", "10"])
    result = job.run(command, timeout=TIME, env=stock_mpi.env)
    assert result.lines == [f"rank {i} is {i} of 3 on one of 1 nodes: 0 wrong" for i in range(3)], result


def test_cluster_of_two_nodes(job, guests):
    """MPICH can take odd and even ranks for those of two nodes."""
    mpi = MPIS["mpich"].needed()
    result = job.run(mpi.command(4, [mpi_team(guests, mpi), "cluster", "10"]), timeout=TIME,
                     env={"MPIR_CVAR_ODD_EVEN_CLIQUES": "1"})
    assert result.lines == [f"rank {i} is {i // 2} of 2 on one of 2 nodes: 0 wrong" for i in range(4)], result
