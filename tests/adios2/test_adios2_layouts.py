"""tests/adios2/test_adios2_layouts.py: steps whose variables are, or are not, those of the last step
(guests/adios2_layouts)."""
import pytest


@pytest.fixture
def read(stream, guests):
    program = guests("adios2_layouts")

    def run(*how, **parameters):
        stream.configure(**parameters)
        assert "36 steps" in stream.run_pair("write data", ["read", "data", *how], program=program).out
    return run


@pytest.mark.parametrize("how", [[], ["poll"], ["brief"], ["remove"], ["poll", "remove"]], ids="-".join)
def test_variables_stay_and_change(read, how):
    read(*how)


@pytest.mark.parametrize("how", [[], ["poll"]], ids="-".join)
def test_addresses_of_variables_that_stay_and_change(read, how):
    read(*how, reader={"Addresses": "on"})


@pytest.mark.parametrize("depth", [1, 3])
def test_variables_of_queued_steps(read, depth):
    read(writer={"QueueLimit": depth})
