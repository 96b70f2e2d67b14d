"""tests/parallel/test_parallel.py: teams of the tasks that `onespace run` and MPI launchers start."""
import pytest

from guests import PROGRAMS
from jobs import RUN

TEAM = PROGRAMS / "parallel"


@pytest.mark.parametrize("what", ["loops", "reduce", "shared", "globals", "serve"])
def test_team_of_started_tasks(job, what):
    result = job.run([*RUN, "-n", 3, TEAM, "joined", 0, what])
    assert result.code == 0 and result.lines == ["ok"] * 3, result


@pytest.mark.parametrize("what", ["loops", "shared"])
def test_team_of_tasks_that_are_threads(job, what):
    result = job.run([*RUN, "--thread-mode", "-n", 3, TEAM, "joined", 0, what])
    assert result.code == 0 and result.lines == ["ok"] * 3, result


def test_teams_of_two_of_five_tasks(job):
    result = job.run([*RUN, "-n", 5, TEAM, "joined", 2, "reduce"])
    assert result.code == 0 and result.lines == ["ok"] * 5, result


def test_task_makes_a_team(job, run):
    result = job.run([*run, TEAM, "made", 3, "shared"])
    assert result.code == 0 and result.lines == ["ok"], result


def test_many_more_members_than_cpus(job):
    """None of them may spin away the time that the others need."""
    result = job.run([*RUN, "-n", 24, TEAM, "joined", 0, "many"], timeout=60)
    assert result.code == 0 and result.lines == ["ok"] * 24, result


def test_killed_member_is_an_error_for_all(job):
    """`--on-failure keep` leaves it to the others to notice."""
    result = job.run([*RUN, "--on-failure", "keep", "-n", 4, TEAM, "joined", 0, "killed"])
    assert result.code == 128 + 9, result
    assert result.lines == ["fini: Owner died"] * 3 + ["noticed"] * 3 + ["ok"] * 3, result


def test_killed_root_takes_its_team_along(job):
    command = job.start([TEAM, "made", 4, "wait"], stdin=-1)
    command.wait_for("ready")
    command.signal(9)
    assert command.finish().code == 128 + 9
    command.process.stdin.close()


def test_interrupted_team_ends(job):
    command = job.start([*RUN, "-n", 3, TEAM, "joined", 0, "wait"], stdin=-1)
    command.wait_for("ready")
    command.signal(2)
    assert command.finish().code == 128 + 2
    command.process.stdin.close()


@pytest.mark.parametrize("ranks, size", [(4, 2), (3, 3), (3, 1)])
def test_teams_of_mpi_ranks(job, guests, stock_mpi, ranks, size):
    program = guests.mpi(stock_mpi, "mpi_teams")
    result = job.run(stock_mpi.command(ranks, [*RUN, program, str(size)]), env=stock_mpi.env)
    assert result.code == 0, result
    assert result.lines == [f"rank {i} is {i % size} of {size}: right" for i in range(ranks)], result


def test_processes_cannot_join(job):
    result = job.run([TEAM, "joined", 2, "many"])
    assert result.code == 1 and result.lines == ["join: Operation not permitted", "wrong"], result
