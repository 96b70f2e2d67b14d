"""tests/adios2/test_adios2.py: ADIOS2's programs over the engine `onespace` (docs/adios2.md), which adios2.xml alone
chooses. ADIOS2 is PyPI's, without MPI: where several ranks write one stream, the launcher numbers them."""
import pathlib

import pytest

from jobs import ROOT, RUN

PYTHON = ROOT / ".venv/adios2/bin/python"
PROGRAMS = pathlib.Path(__file__).parent / "programs"


def ranked(program, rank, ranks, *words):
    """With the number that a launcher would have given it, for Ranks="launcher"."""
    return [program, f"{rank}/{ranks}", *words]


# ---- Programs in C++ ----

def test_reader_gets_what_the_writer_put(stream):
    result = stream.run(stream.program, "write", "data", "5", ":", stream.program, "read", "data")
    assert result.code == 0 and "5 steps, then the end" in result.out, result


def test_reader_joins_by_the_name_of_the_space(stream):
    writer = stream.start(stream.program, "write", "data", "4")
    reader = stream.start(stream.program, "read", "data")
    for command in (reader, writer):
        result = command.finish()
        assert result.code == 0, result
    assert "4 steps, then the end" in reader.so_far().out


LENT = {"MinDeferredSize": "0"}  # small arrays, too


@pytest.mark.parametrize("puts", [{}, LENT], ids=["copied", "lent"])
@pytest.mark.parametrize("writers, readers", [(3, 2), (2, 5)])
def test_boxes_reach_across_the_blocks_of_many_writers(stream, writers, readers, puts):
    stream.configure(writer={"Ranks": "launcher", "RendezvousReaderCount": readers, **puts})
    words = []
    for rank in range(writers):
        words += [*ranked(stream.program, rank, writers, "write", "data", "6"), ":"]
    for rank in range(readers):
        words += [*ranked(stream.program, rank, readers, "read", "data"), ":"]
    result = stream.run(*words[:-1])
    assert result.code == 0 and result.out.count("6 steps, then the end") == readers, result


def test_readers_of_one_group_count_as_one(stream):
    stream.configure(Ranks="launcher")
    words = [*ranked(stream.program, 0, 1, "write", "data", "3"), ":",
             *ranked(stream.program, 0, 2, "read", "data"), ":", *ranked(stream.program, 1, 2, "read", "data")]
    result = stream.run(*words)
    assert result.code == 0 and result.out.count("3 steps, then the end") == 2, result


def test_spans_are_the_memory_of_the_step(stream):
    result = stream.run(stream.program, "spans", "data", "6", ":", stream.program, "check-spans", "data")
    assert result.code == 0 and "6 steps" in result.out, result


@pytest.mark.parametrize("puts", [{}, LENT], ids=["copied", "lent"])
def test_local_joined_and_framed_arrays(stream, puts):
    stream.configure(writer={"Ranks": "launcher", **puts})
    words = []
    for rank in range(3):
        words += [*ranked(stream.program, rank, 3, "shapes", "data"), ":"]
    result = stream.run(*words, stream.program, "check-shapes", "data", "3")
    assert result.code == 0 and "shapes are right" in result.out, result


def test_every_type(stream):
    result = stream.run(stream.program, "types", "data", ":", stream.program, "check-types", "data")
    assert result.code == 0 and "15 types" in result.out, result


def test_ranks_that_mpiexec_started_write_one_stream(stream, mpi_named):
    mpi = mpi_named("mpich")
    stream.configure(writer={"Ranks": "launcher"})
    tasks = [*RUN, "--space", stream.space, stream.program, "write", "data", "4"]
    writer = stream.start(*mpi.command(2, tasks), command=())
    reader = stream.start(stream.program, "read", "data")
    for command in (reader, writer):
        result = command.finish()
        assert result.code == 0, result
    assert "4 steps, then the end" in reader.so_far().out


def test_one_program_reads_what_another_has_named_otherwise(stream):
    stream.configure(Channel="coupling")
    result = stream.run(stream.program, "write", "out.bp", "2", ":", stream.program, "read", "in.bp")
    assert result.code == 0 and "2 steps, then the end" in result.out, result


def test_programs_in_python(stream):
    result = stream.run(PYTHON, PROGRAMS / "write.py", "4", ":", PYTHON, PROGRAMS / "read.py")
    assert result.code == 0 and "step 3" in result.out and "the end" in result.out, result
