"""The first call of each MPI function finds where it leads (src/agent/mpi.c)."""


def test_constructor_calls_mpi_while_another_thread_does(check_guest, distributions_mpi, guests):
    """The C library holds its lock for loading meanwhile."""
    library = guests.mpi(distributions_mpi, "mpi_constructor")
    check_guest(distributions_mpi, 1, "mpi_first_calls", library, timeout=60)
