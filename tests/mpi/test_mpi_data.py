"""What MPI moves between ranks that are tasks arrives as it was sent."""
import os
import re
import shlex

import pytest

from jobs import RUN
from launchers import MPIS

TIME = 60
WARNING = "onespace: warning:"


def run_checked(job, guests, mpi, source, ranks, **env):
    argv = mpi.command(ranks, [*RUN, guests.mpi(mpi, source)])
    result = job.run(argv, timeout=TIME, env={**mpi.env, **env})
    assert result.code == 0 and result.lines == [f"rank {i}: 0 wrong" for i in range(ranks)], str(result)


@pytest.mark.parametrize("ranks", [2])
def test_messages_of_all_sizes(job, guests, mpi, ranks):
    run_checked(job, guests, mpi, "mpi_exchange", ranks)


@pytest.mark.parametrize("ranks", [3])
def test_collectives(job, guests, mpi, ranks):
    run_checked(job, guests, mpi, "mpi_collectives", ranks)


@pytest.mark.parametrize("ranks", [3])
def test_one_sided(job, guests, mpi, ranks):
    run_checked(job, guests, mpi, "mpi_onesided", ranks)


def test_programs_that_a_task_spawns(job, guests, mpi_named):
    """By MPI_Comm_spawn, as ordinary processes. Debian's MPICH refuses it, in processes as well."""
    mpi = mpi_named("openmpi")
    result = job.run(mpi.command(1, [*RUN, guests.mpi(mpi, "mpi_spawn")]), timeout=TIME,
                     env={**mpi.env, "OMPI_MCA_rmaps_base_oversubscribe": "1"})
    assert result.code == 0 and result.lines == ["sum 83"], str(result)


def test_eight_ranks_exchange(job, guests, stock_mpi):
    run_checked(job, guests, stock_mpi, "mpi_exchange", 8)


@pytest.mark.parametrize("mpi", [name for name in MPIS if name != "wheel-impi"], indirect=True)
def test_large_messages_are_copied_in_user_space(job, guests, mpi):
    """--stats names the copies that the drop-in made. Intel MPI uses XPMEM, not process_vm_readv, between tasks."""
    env = {**mpi.env, "OMPI_MCA_pml": "ob1"}
    argv = mpi.command(2, [*RUN, "--stats=ranks", guests.mpi(mpi, "mpi_exchange")])
    result = job.run(argv, timeout=TIME, env=env)
    assert result.code == 0, str(result)
    copies = [int(number) for number in re.findall(r"onespace: task .* in user space: (\d+),", result.err)]
    assert len(copies) == 2 and sum(copies) > 0, str(result)
    assert f"onespace: all 2 tasks together: copies in user space: {sum(copies)}," in result.err, str(result)
    assert WARNING not in result.err, str(result)


@pytest.mark.parametrize("name,env", [("mpich", {"UCX_TLS": "self,posix"}),
                                      ("openmpi", {"OMPI_MCA_pml": "ob1",
                                                   "OMPI_MCA_btl_vader_single_copy_mechanism": "none"})])
def test_messages_past_the_drop_in_are_one_line_without_a_warning(job, guests, mpi_named, name, env):
    mpi = mpi_named(name)
    argv = mpi.command(2, [*RUN, "--stats", guests.mpi(mpi, "mpi_exchange")])
    result = job.run(argv, timeout=TIME, env={**mpi.env, **env})
    assert result.code == 0 and result.lines == ["rank 0: 0 wrong", "rank 1: 0 wrong"], str(result)
    assert WARNING not in result.err and "onespace: task " not in result.err, str(result)
    assert "onespace: all 2 tasks together: copies in user space: 0," in result.err, str(result)


def test_windows_of_a_space_are_no_reason_to_warn(job, guests, mpi_named):
    mpi = mpi_named("mpich")
    argv = mpi.command(2, [*RUN, "--stats", guests.mpi(mpi, "mpi_onesided")])
    result = job.run(argv, timeout=TIME, env={**mpi.env, "UCX_TLS": "self,posix"})
    assert result.code == 0 and "onespace: all 2 tasks together: copies in user space: 0," in result.err, str(result)
    assert WARNING not in result.err, str(result)


def test_windows_leave_no_files_in_shared_memory(job, guests, stock_mpi, tool):
    """In a /dev/shm of its own, since others use that directory too."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for a mount")
    inner = shlex.join(stock_mpi.command(2, [*RUN, guests.mpi(stock_mpi, "mpi_onesided")]))
    left = []
    for prefix in ("", "plain"):
        command = inner if not prefix else inner.replace(shlex.join(RUN) + " ", "")
        script = (f"mount -t tmpfs none /dev/shm || exit 99; {command} >&2; code=$?; sleep 0.5; "
                  "ls -A /dev/shm | wc -l; exit $code")
        result = job.run([tool("unshare"), "--mount", "/bin/sh", "-c", script], timeout=TIME, env=stock_mpi.env)
        if result.code == 99:
            pytest.skip("may not mount")
        assert result.code == 0, str(result)
        left.append(int(result.out))
    assert left[0] <= left[1], f"files left: {left[0]}, by processes {left[1]}"
