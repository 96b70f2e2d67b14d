"""As many ranks as a node of many cores has, at default limits: right results, and an end."""
import resource
import time

import pytest

from jobs import RUN

RANKS = 512
RANK_MIB = 12  # more than a rank of these takes
TIME = 1800    # two CPUs take minutes

pytestmark = pytest.mark.long


@pytest.fixture(params=["mpich", "openmpi"])
def mpi(request, mpi_named):
    with open("/proc/meminfo", encoding="ascii") as lines:
        available = next(int(line.split()[1]) // 1024 for line in lines if line.startswith("MemAvailable:"))
    if available < RANKS * RANK_MIB:
        pytest.skip(f"{RANKS} ranks may take {RANKS * RANK_MIB} MiB, and {available} MiB are available")
    return mpi_named(request.param)


def run(job, guests, mpi, words, descriptors):
    """The result of the job of that program, or of these words before it."""
    began = time.monotonic()
    result = job.run(mpi.command(RANKS, [*words, guests.mpi(mpi, "mpi_many")]), timeout=TIME, env=mpi.env,
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, descriptors))
    print(f"{mpi.name}, {RANKS} {'tasks' if words else 'processes'}, {descriptors[0]} descriptors: exit status "
          f"{result.code} after {time.monotonic() - began:.0f} s")
    return result


def is_right(result):
    total = RANKS * (RANKS - 1) // 2
    return result.code == 0 and result.out == f"{RANKS} ranks, sum {total}, around {2 * total}\n"


def test_many_ranks(job, guests, mpi):
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    result = run(job, guests, mpi, RUN, (most, most))
    assert is_right(result), str(result)


def test_many_ranks_with_few_descriptors(job, guests, mpi):
    """Where processes can: a launcher itself has several descriptors for each rank."""
    few = (1024, 1024)
    processes = run(job, guests, mpi, [], few)
    if not is_right(processes):
        pytest.skip(f"a job of processes does not work with {few[0]} descriptors either: {processes.err[-300:]}")
    result = run(job, guests, mpi, RUN, few)
    assert is_right(result), str(result)
