"""tests/mpi/collectives/conftest.py: what the tests of collective operations share."""
import re

import pytest

from jobs import RUN


@pytest.fixture
def off_and_on(run_guest):
    """The results of a guest with the library's operations and with the layer's."""
    def run(mpi, ranks, guest, timeout=180):
        results = [run_guest(mpi, ranks, guest, prefix=[*RUN, "--stats", "--collectives", which], timeout=timeout)
                   for which in ("off", "on")]
        assert results[0].code == 0, str(results[0])
        return results
    return run


@pytest.fixture
def counted():
    """How many operations the layer did, according to --stats, in all ranks together."""
    def count(result):
        found = re.search(r"all \d+ tasks together: .*; MPI collectives: (\d+);", result.err)
        assert found, str(result)
        return int(found[1])
    return count


def classes_of(lines):
    """{operation and kind of call: the class of each rank's error}"""
    found = (re.match(r"(\w+, .*?):((?: \d+ \(\d+ times\))+)$", line) for line in lines)
    return {match[1]: [int(word) for word in match[2].split()[::3]] for match in found if match}


@pytest.fixture(scope="session")
def refusals():
    """{MPI: what three ranks print of refused calls without the layer}: it takes seconds, and is run once."""
    return {}


@pytest.fixture
def refused_by_library(refusals, run_guest):
    def run(mpi):
        if mpi.name not in refusals:
            result = run_guest(mpi, 3, "mpi_collectives_refused", prefix=[*RUN, "--collectives", "off"], timeout=300)
            assert result.code == 0, str(result)
            refusals[mpi.name] = result.lines
        return refusals[mpi.name]
    return run


@pytest.fixture
def expect_error_of_one_rank(refused_by_library):
    """The rank with the wrong arguments has the library's error. The others succeed, or have an error of class OTHER
    (MPI_ERR_OTHER)."""
    def expect(mpi, other, wrong_rank, lines, least):
        library, layer = classes_of(refused_by_library(mpi)), classes_of(lines)
        assert len(layer) > least and any(other in classes for classes in layer.values()), lines
        for call, classes in layer.items():
            own = classes.pop(wrong_rank)
            if call in library and "than expected" not in call and "on one rank" not in call:
                assert own == library[call][wrong_rank], call
                assert set(classes) <= {0, other}, call
    return expect
