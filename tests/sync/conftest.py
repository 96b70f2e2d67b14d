"""tests/sync/conftest.py: runs guests as the members of a team: tasks of a space, or ranks of an MPI."""
import pytest

from jobs import RUN

TIME = 300


@pytest.fixture
def run_tasks(job, guests):
    def run(tasks, guest, *words):
        return job.run([*RUN, "-n", tasks, guests(guest), *words], timeout=TIME)
    return run


@pytest.fixture
def run_ranks(job, guests):
    """Runs ranks of `mpi`: processes, or with RUN as the wrapper tasks of one space."""
    def run(mpi, ranks, guest, *words, wrapper=(), options=(), env=None):
        command = mpi.command(ranks, [*wrapper, guests.mpi(mpi, guest), *words], *options)
        return job.run(command, timeout=TIME, env={**mpi.env, **(env or {})})
    return run


@pytest.fixture
def run_on_two_nodes(mpi_named, run_ranks):
    """MPICH can take odd and even ranks for those of two nodes."""
    def run(ranks, guest, *words):
        return run_ranks(mpi_named("mpich"), ranks, guest, *words, env={"MPIR_CVAR_ODD_EVEN_CLIQUES": "1"})
    return run


@pytest.fixture
def check_loss_of_a_task(run_tasks):
    """Checks that the peers of the task that the guest loses get an error."""
    def check(guest, *how):
        result = run_tasks(4, guest, "lose", 2, *how)
        assert result.lines == [f"rank {i} lost 2" for i in (0, 1, 3)], result
    return check


@pytest.fixture
def check_loss_of_a_process(mpi_named, run_ranks):
    """The same under the only launcher that leaves the other ranks alone when it is asked to."""
    def check(guest, *how):
        result = run_ranks(mpi_named("openmpi"), 3, guest, "lose", 1, *how, options=["--enable-recovery"])
        assert [line for line in result.lines if "lost" in line] == [f"rank {i} lost 1" for i in (0, 2)], result
    return check
