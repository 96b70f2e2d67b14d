"""tests/sync/test_ghost.py: ghost updates of real ranks: of each MPI, as processes and as tasks, and of a space."""
import pytest

from jobs import RUN
from launchers import MPIS

TIME = 60


@pytest.fixture
def space_ghost(guests):
    return guests("sync_ghost")


def mpi_ghost(guests, mpi):
    return guests.mpi(mpi, "sync_ghost")


def check(result, count, how):
    assert result.code == 0 and result.lines == [f"rank {i} of {count}, {how}: 0 wrong" for i in range(count)], result


@pytest.mark.parametrize("how", ["direct", "buffers"])
def test_ghosts_of_tasks(job, space_ghost, how):
    check(job.run([*RUN, "-n", 5, space_ghost, how, 1], timeout=TIME), 5, how)


def test_ghosts_of_tasks_that_measure_what_is_faster(job, space_ghost):
    result = job.run([*RUN, "-n", 2, space_ghost, "random", 7], timeout=TIME)
    how = "direct" if "direct" in result.out else "buffers"
    check(result, 2, how)


def test_ghosts_of_processes(job, guests, stock_mpi):
    command = stock_mpi.command(4, [mpi_ghost(guests, stock_mpi), "random", "2"])
    check(job.run(command, timeout=TIME, env=stock_mpi.env), 4, "buffers")


def test_ghosts_of_mpi_ranks_that_are_tasks(job, guests, stock_mpi):
    command = stock_mpi.command(4, [*RUN, mpi_ghost(guests, stock_mpi), "direct", "3"])
    check(job.run(command, timeout=TIME, env=stock_mpi.env), 4, "direct")


@pytest.mark.parametrize("what", ["halves", "leaders"])
def test_ghosts_between_teams_go_through_messages(job, guests, stock_mpi, what):
    """Even and odd ranks share memory among themselves only."""
    command = stock_mpi.command(5, [mpi_ghost(guests, stock_mpi), what, "4"])
    check(job.run(command, timeout=TIME, env=stock_mpi.env), 5, "buffers")


@pytest.mark.parametrize("what", ["halves", "leaders"])
def test_ghosts_between_teams_of_tasks(job, guests, stock_mpi, what):
    command = stock_mpi.command(5, [*RUN, mpi_ghost(guests, stock_mpi), what, "5"])
    check(job.run(command, timeout=TIME, env=stock_mpi.env), 5, "direct")


def test_ghosts_need_one_kind_of_speaker(job, guests):
    mpi = MPIS["mpich"].needed()
    result = job.run(mpi.command(2, [mpi_ghost(guests, mpi), "speakers", "0"]), timeout=TIME)
    assert result.code == 0 and all("give the same on all" in line for line in result.lines), result
    assert len(result.lines) == 2, result


def test_ghosts_of_two_nodes(job, guests):
    """MPICH can take odd and even ranks for those of two nodes."""
    mpi = MPIS["mpich"].needed()
    result = job.run(mpi.command(4, [mpi_ghost(guests, mpi), "random", "6"]), timeout=TIME,
                     env={"MPIR_CVAR_ODD_EVEN_CLIQUES": "1"})
    check(result, 4, "buffers")


FAULTS = {
    "range": "rank 1, entry 0 of the send list for rank 2 is point 2, but the vector has 2 points",
    "count": "rank 1 sends 2 points to rank 2, which expects 1 from it: entry 1 is in one of the two lists only",
    "missing": "rank 0 sends 1 points to rank 1, which expects 0 from it: entry 0 is in one of the two lists only",
    "id":
        "rank 1, entry 0 of the send list for rank 2 is the point with id 77, but rank 2 expects that with id 1 there",
}


def check_fault(result, what):
    text = "onespace::sync::ghost_plan: " + FAULTS[what]
    assert result.code == 0 and result.lines == [f"rank {i}: {text}" for i in range(3)], result


@pytest.mark.parametrize("what", FAULTS)
def test_all_tasks_get_the_error_about_wrong_lists(job, space_ghost, what):
    check_fault(job.run([*RUN, "-n", 3, space_ghost, "mismatch", what], timeout=TIME), what)


@pytest.mark.parametrize("what", FAULTS)
def test_all_processes_get_the_error_about_wrong_lists(job, guests, what):
    mpi = MPIS["mpich"].needed()
    check_fault(job.run(mpi.command(3, [mpi_ghost(guests, mpi), "mismatch", what]), timeout=TIME), what)


def test_peers_of_a_killed_task_get_an_error(job, space_ghost):
    result = job.run([*RUN, "-n", 4, space_ghost, "lose", 2], timeout=20)
    assert result.lines == [f"rank {i} lost 2" for i in (0, 1, 3)], result


def test_peers_of_a_killed_process_get_an_error(job, guests):
    """Under the one launcher that leaves the other ranks alone when it is asked to."""
    mpi = MPIS["openmpi"].needed()
    argv = mpi.command(3, [mpi_ghost(guests, mpi), "lose", 1], "--enable-recovery")
    result = job.run(argv, timeout=20)
    assert [line for line in result.lines if "lost" in line] == [f"rank {i} lost 1" for i in (0, 2)], result
