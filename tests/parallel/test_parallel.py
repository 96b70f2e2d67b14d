"""tests/parallel/test_parallel.py: teams of the tasks that `onespace run` and MPI launchers start."""
import pytest

from guests import PROGRAMS
from jobs import RUN

TEAM = PROGRAMS / "parallel"


@pytest.fixture
def check(job):
    """Runs a team whose tasks must all print "ok"."""
    def run(count, *words, command=RUN, timeout=300):
        result = job.run([*command, *words], timeout=timeout)
        assert result.code == 0 and result.lines == ["ok"] * count, result
    return run


@pytest.mark.parametrize("case", ["loops", "reduce", "shared_memory", "globals", "serve", "serve_often"])
def test_team_of_started_tasks(check, case):
    check(3, "-n", 3, TEAM, "joined", 0, case)


@pytest.mark.parametrize("case", ["loops", "shared_memory"])
def test_team_of_tasks_that_are_threads(check, case):
    check(3, "--thread-mode", "-n", 3, TEAM, "joined", 0, case)


def test_teams_of_two_of_five_tasks(check):
    check(5, "-n", 5, TEAM, "joined", 2, "reduce")


def test_task_makes_a_team(check, run):
    check(1, TEAM, "made", 3, "shared_memory", command=run)


def test_many_more_members_than_cpus(check):
    """None of them may spin away the time that the others need."""
    check(24, "-n", 24, TEAM, "joined", 0, "barriers")


def test_killed_member_is_an_error_for_all(job):
    """`--on-failure keep` leaves it to the others to notice."""
    result = job.run([*RUN, "--on-failure", "keep", "-n", 4, TEAM, "joined", 0, "killed"])
    assert result.code == 128 + 9, result
    assert result.lines == ["fini: Owner died"] * 3 + ["noticed"] * 3 + ["ok"] * 3, result


@pytest.mark.parametrize("command, signal", [([TEAM, "made", 4, "wait"], 9),
                                             ([*RUN, "-n", 3, TEAM, "joined", 0, "wait"], 2)], ids=["root", "run"])
def test_killed_root_and_interrupted_run_end_their_team(job, command, signal):
    started = job.start(command, stdin=-1)
    started.wait_for("ready")
    started.signal(signal)
    assert started.finish().code == 128 + signal
    started.process.stdin.close()


@pytest.mark.parametrize("ranks, size", [(4, 2), (3, 3), (3, 1)])
def test_teams_of_mpi_ranks(job, guests, stock_mpi, ranks, size):
    program = guests.mpi(stock_mpi, "mpi_teams")
    result = job.run(stock_mpi.command(ranks, [*RUN, program, str(size)]), env=stock_mpi.env)
    assert result.code == 0, result
    assert result.lines == [f"rank {i} is {i % size} of {size}: right" for i in range(ranks)], result


def test_processes_cannot_join(job):
    result = job.run([TEAM, "joined", 2, "barriers"])
    assert result.code == 1 and result.lines == ["join: Operation not permitted", "wrong"], result
