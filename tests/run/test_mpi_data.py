"""What MPI moves between ranks that are tasks arrives as it was sent."""
import os
import shlex

import pytest

from jobs import RUN

TIME = 60


def run_checked(job, guests, mpi, source, ranks, **env):
    argv = mpi.command(ranks, [*RUN, guests.mpi(mpi, source)])
    result = job.run(argv, timeout=TIME, env={**mpi.env, **env})
    assert result.code == 0 and result.lines == [f"rank {i}: 0 wrong" for i in range(ranks)], str(result)


@pytest.mark.parametrize("ranks", [2])
def test_messages_of_all_sizes(job, guests, mpi, ranks):
    run_checked(job, guests, mpi, "mpi_exchange.c", ranks)


@pytest.mark.parametrize("ranks", [3])
def test_collectives(job, guests, mpi, ranks):
    run_checked(job, guests, mpi, "mpi_collectives.c", ranks)


@pytest.mark.parametrize("ranks", [3])
def test_one_sided(job, guests, mpi, ranks):
    run_checked(job, guests, mpi, "mpi_onesided.c", ranks)


def test_eight_ranks_exchange(job, guests, stock_mpi):
    run_checked(job, guests, stock_mpi, "mpi_exchange.c", 8)


def test_large_messages_are_copied_in_user_space(job, guests, mpi):
    """--stats names the copies that the drop-in made."""
    if mpi.name == "wheel-impi":
        pytest.skip("Intel MPI uses XPMEM, not process_vm_readv, between tasks")
    env = {**mpi.env, "OMPI_MCA_pml": "ob1"}
    argv = mpi.command(2, [*RUN, "--stats", guests.mpi(mpi, "mpi_exchange.c")])
    result = job.run(argv, timeout=TIME, env=env)
    assert result.code == 0, str(result)
    copies = [int(line.split("in user space: ")[1].split(",")[0])
              for line in result.err.splitlines() if "in user space: " in line]
    assert len(copies) == 2 and sum(copies) > 0, str(result)


def test_windows_leave_no_files_in_shared_memory(job, guests, mpi, tool):
    """In a /dev/shm of its own, since others use that folder too."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for a mount")
    inner = shlex.join(mpi.command(2, [*RUN, guests.mpi(mpi, "mpi_onesided.c")]))
    left = []
    for prefix in ("", "plain"):
        command = inner if not prefix else inner.replace(shlex.join(RUN) + " ", "")
        script = (f"mount -t tmpfs none /dev/shm || exit 99; {command} >&2; code=$?; sleep 0.5; "
                  "ls -A /dev/shm | wc -l; exit $code")
        result = job.run([tool("unshare"), "--mount", "/bin/sh", "-c", script], timeout=TIME, env=mpi.env)
        if result.code == 99:
            pytest.skip("may not mount")
        assert result.code == 0, str(result)
        left.append(int(result.out))
    assert left[0] <= left[1], f"files left: {left[0]}, by processes {left[1]}"
