"""Datatypes and operations of one-sided calls: every constructor, on both sides of every call; every operation on
every type, as the library has them."""
import pytest


@pytest.mark.parametrize("guest", ["mpi_datatypes", "mpi_operations"])
def test_types_and_operations(check_guest, stock_mpi, guest):
    check_guest(stock_mpi.needed_for(guest), 2, guest)
