"""Which collective operations the layer does, and which the library: `onespace run --collectives`."""
import pytest
from test_collectives_results import FORCED, ON

from jobs import RUN

# The message of the layer about counts that differ, by which the layer's operations are told from the library's.
MISMATCH = "rank 0 sends 8192 bytes in a collective operation in which this rank expects 4096"


@pytest.fixture
def is_layers(run_guest, mpi_named):
    """Whether the layer does an MPI_Bcast, whose counts differ."""
    def ask(*options, before=(), command=RUN):
        result = run_guest(mpi_named("mpich"), 2, "mpi_collectives_mismatch", *before, "count",
                           prefix=[*command, *options])
        assert "rank 0, count: " in result.out, str(result)
        return MISMATCH in result.err
    return ask


@pytest.mark.usefixtures("no_gpu_driver")
@pytest.mark.parametrize("before, expected", [((), True), (("copy",), False), (("copy", "barriers=100"), False),
                                              (("copy", "barriers=2100"), True), (("copy", "sums=1"), True)])
def test_auto_begins_where_it_pays(is_layers, before, expected):
    """With MPI_COMM_WORLD's first operation, and another communicator's first sum or many operations: the set-up takes
    as long as some dozens of them, but sums must not change their bits in between."""
    assert is_layers("--collectives", "auto", before=before) == expected


@pytest.mark.usefixtures("no_gpu_driver")
def test_auto_serves_the_first_reduction(check_guest, mpi_named):
    """Among the program's are MPI_Reduce in place with a root other than 0, in which MPICH 4.0.2 itself crashes."""
    check_guest(mpi_named("mpich"), 3, "mpi_collectives_random", "200", prefix=[*RUN, "--collectives", "auto"])


def test_auto_leaves_jobs_with_processes_alone(job, guests, stock_mpi):
    """The ranks that are processes would not take part in what tasks agree on."""
    program = guests.mpi(stock_mpi, "mpi_collectives_moves")
    parts = [*stock_mpi.command(2, [*RUN, program, "200"]), ":", "-n", "1", program, "200"]
    result = job.run(parts, env=stock_mpi.env)
    assert result.code == 0 and len(result.lines) == 3 and result.out.count(": 0 wrong") == 3, str(result)


def test_auto_leaves_programs_with_a_gpu_alone(job, is_layers, tmp_path):
    """The CPU may be unable to read its memory."""
    library = tmp_path / "libcuda.so.1"
    made = job.run(["cc", "-shared", "-Wl,-soname,libcuda.so.1", "-o", library, "-x", "c", "/dev/null"])
    assert made.code == 0, str(made)
    for which, expected in ("auto", False), ("on", True):
        assert is_layers("--collectives", which, command=["env", f"LD_PRELOAD={library}", *RUN]) == expected, which


def test_named_operations_are_left_to_the_library(is_layers):
    assert not is_layers("--collectives", "on", "--collectives", "off=Barrier,BCAST")
    assert is_layers("--collectives", "on", "--collectives", "off=gather,reduce")


def test_off_leaves_all_to_the_library(is_layers):
    assert not is_layers("--collectives", "off")


@pytest.mark.parametrize("which", ["on", "off"])
def test_statistics_count_them(check_guest, stock_mpi, counted, which):
    """Not those on the program's communicators of one rank."""
    result = check_guest(stock_mpi, 2, "mpi_collectives_moves", "200",
                         prefix=[*RUN, "--stats", "--collectives", which])
    assert 100 < counted(result) <= 400 if which == "on" else counted(result) == 0, str(result)


def test_algorithms_that_do_not_exist_are_named(check_guest, mpi_named):
    result = check_guest(mpi_named("mpich"), 2, "mpi_collectives_progress", prefix=ON, **{FORCED: "fast"})
    assert "ONESPACE_COLLECTIVES_ALGORITHM is fast: use automatic, flat" in result.err, str(result)
