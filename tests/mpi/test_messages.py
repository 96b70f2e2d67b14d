"""Messages between ranks that are tasks arrive as they were sent, and programs that a task spawns."""
import re

import pytest

from jobs import RUN
from launchers import MPIS

WARNING = "onespace: warning:"


def test_messages_of_all_sizes(check_guest, mpi):
    check_guest(mpi, 2, "mpi_exchange")


def test_eight_ranks_exchange(check_guest, stock_mpi):
    check_guest(stock_mpi, 8, "mpi_exchange")


def test_programs_that_a_task_spawns(run_guest, mpi_named):
    """By MPI_Comm_spawn, as ordinary processes. Debian's MPICH refuses it, in processes as well."""
    result = run_guest(mpi_named("openmpi"), 1, "mpi_spawn", OMPI_MCA_rmaps_base_oversubscribe="1")
    assert result.code == 0 and result.lines == ["sum 83"], str(result)


@pytest.mark.parametrize("mpi", [name for name in MPIS if name != "wheel-impi"], indirect=True)
def test_large_messages_are_copied_in_user_space(check_guest, mpi):
    """--stats names the copies that the drop-in made. Intel MPI uses XPMEM, not process_vm_readv, between tasks."""
    result = check_guest(mpi, 2, "mpi_exchange", prefix=[*RUN, "--stats=ranks"], OMPI_MCA_pml="ob1")
    copies = [int(number) for number in re.findall(r"onespace: task .* in user space: (\d+),", result.err)]
    assert len(copies) == 2 and sum(copies) > 0, str(result)
    assert f"onespace: all 2 tasks together: copies in user space: {sum(copies)}," in result.err, str(result)
    assert WARNING not in result.err, str(result)


@pytest.mark.parametrize("guest, name, env", [
    ("mpi_exchange", "mpich", {"UCX_TLS": "self,posix"}),
    ("mpi_exchange", "openmpi", {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}),
    ("mpi_onesided", "mpich", {"UCX_TLS": "self,posix"})])
def test_messages_past_the_drop_in_are_one_line_without_a_warning(check_guest, mpi_named, guest, name, env):
    """Windows, which are one space's memory, are not a reason for a warning either."""
    result = check_guest(mpi_named(name), 2, guest, prefix=[*RUN, "--stats"], **env)
    assert WARNING not in result.err and "onespace: task " not in result.err, str(result)
    assert "onespace: all 2 tasks together: copies in user space: 0," in result.err, str(result)
