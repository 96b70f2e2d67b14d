"""tests/adios2/test_adios2.py: ADIOS2's programs over the engine `onespace` (docs/adios2.md), which adios2.xml alone
chooses. Where several ranks write one stream and ADIOS2 has no MPI, the launcher numbers them."""
import pathlib

import pytest

from jobs import RUN

PROGRAMS = pathlib.Path(__file__).parent / "programs"


def finish(commands):
    """What they have printed, all together."""
    results = [command.finish() for command in commands]
    for result in results:
        assert result.code == 0, result
    return "".join(result.out for result in results)


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
def test_boxes_reach_across_the_blocks_of_many_writers(stream, mpi_of_adios, writers, readers, puts):
    groups = 1 if mpi_of_adios else readers
    stream.configure(writer={"Ranks": "launcher", "RendezvousReaderCount": groups, **puts})
    started = [*stream.start_ranks(writers, "write", "data", "6"), *stream.start_ranks(readers, "read", "data")]
    assert finish(started).count("6 steps, then the end") == readers


def test_readers_of_one_group_count_as_one(stream):
    stream.configure(Ranks="launcher")
    started = [*stream.start_ranks(1, "write", "data", "3"), *stream.start_ranks(2, "read", "data")]
    assert finish(started).count("3 steps, then the end") == 2


def test_spans_are_the_memory_of_the_step(stream):
    result = stream.run(stream.program, "spans", "data", "6", ":", stream.program, "check-spans", "data")
    assert result.code == 0 and "6 steps" in result.out, result


@pytest.mark.parametrize("puts", [{}, LENT], ids=["copied", "lent"])
def test_local_joined_and_framed_arrays(stream, puts):
    stream.configure(writer={"Ranks": "launcher", **puts})
    started = [*stream.start_ranks(3, "shapes", "data"), stream.start(stream.program, "check-shapes", "data", "3")]
    assert "shapes are right" in finish(started)


def test_every_type(stream):
    result = stream.run(stream.program, "types", "data", ":", stream.program, "check-types", "data")
    assert result.code == 0 and "15 types" in result.out, result


def test_ranks_that_mpiexec_started_write_one_stream(stream, mpi_named, without_mpi):
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


def test_programs_in_python(stream, python):
    result = stream.run(python, PROGRAMS / "write.py", "4", ":", python, PROGRAMS / "read.py")
    assert result.code == 0 and "step 3" in result.out and "the end" in result.out, result
