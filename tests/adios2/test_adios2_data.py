"""tests/adios2/test_adios2_data.py: programs of ADIOS2 exchange all kinds of data over the engine `onespace`
(docs/adios2.md), which only adios2.xml chooses. With an ADIOS2 without MPI the launcher numbers the ranks."""
import pathlib

import pytest

from jobs import RUN

PROGRAMS = pathlib.Path(__file__).parent / "programs"


# ---- Programs in C++ ----

def test_reader_gets_what_the_writer_put(stream):
    assert "5 steps, then the end" in stream.run_pair("write data 5", "read data").out


def test_reader_joins_by_the_name_of_the_space(stream):
    writer = stream.write("4")
    assert "4 steps, then the end" in stream.finish(stream.read(), writer)


LENT = {"MinDeferredSize": "0"}  # small arrays, too


@pytest.mark.parametrize("puts", [{}, LENT], ids=["copied", "lent"])
@pytest.mark.parametrize("writers, readers", [(3, 2), (2, 5)])
def test_boxes_reach_across_the_blocks_of_many_writers(stream, mpi_of_adios, writers, readers, puts):
    groups = 1 if mpi_of_adios else readers
    stream.configure(writer={"Ranks": "launcher", "RendezvousReaderCount": groups, **puts})
    started = [*stream.start_ranks(writers, "write", "data", "6"), *stream.start_ranks(readers, "read", "data")]
    assert stream.finish(*started).count("6 steps, then the end") == readers


def test_readers_of_one_group_count_as_one(stream):
    stream.configure(Ranks="launcher")
    started = [*stream.start_ranks(1, "write", "data", "3"), *stream.start_ranks(2, "read", "data")]
    assert stream.finish(*started).count("3 steps, then the end") == 2


@pytest.mark.parametrize("puts", [{}, LENT], ids=["copied", "lent"])
def test_local_and_joined_arrays(stream, puts):
    stream.configure(writer={"Ranks": "launcher", **puts})
    started = [*stream.start_ranks(3, "write-shapes", "data"), stream.start(stream.program, "read-shapes", "data", "3")]
    assert "shapes are right" in stream.finish(*started)


def test_every_type(stream):
    assert "15 types" in stream.run_pair("write-types data", "read-types data").out


def test_attributes_change_their_type(stream):
    """Their values stay the same."""
    assert "4 steps" in stream.run_pair("write-attributes data", "read-attributes data").out


def test_ranks_that_mpiexec_started_write_one_stream(stream, mpi_named, without_mpi):
    mpi = mpi_named("mpich")
    stream.configure(writer={"Ranks": "launcher"})
    tasks = [*RUN, "--space", stream.space, stream.program, "write", "data", "4"]
    writer = stream.start(*mpi.command(2, tasks), command=())
    assert "4 steps, then the end" in stream.finish(stream.read(), writer)


def test_channel_replaces_the_opened_name(stream):
    stream.configure(Channel="coupling")
    assert "2 steps, then the end" in stream.run_pair("write out.bp 2", "read in.bp").out


def test_programs_in_python(stream, python):
    result = stream.run(python, PROGRAMS / "write.py", "4", ":", python, PROGRAMS / "read.py")
    assert result.code == 0 and "step 3" in result.out and "the end" in result.out, result


# ---- Selections ----

def test_selections_that_do_not_fit_are_rejected(stream, guests):
    stream.configure(writer={"Ranks": "launcher"})
    reader = stream.start(guests("adios2_selections"), "data")
    lines = stream.finish(*stream.start_ranks(2, "write-shapes", "data"), reader)
    for message in [
        'the selection of variable "joined" has 1 dimensions instead of 2',
        'the selection of variable "joined" has 3 dimensions instead of 2',
        f'"joined" has 2 elements from {2**64 - 1} on in dimension 0, which has 3',
        '"joined" has 2 elements from 2 on in dimension 0, which has 3',
        'the memory selection of variable "joined" has 1 dimensions instead of 2',
        'the memory selection of variable "joined" has 3 elements from 0 on in dimension 0, which has 2',
        'the memory selection of variable "joined" has 3 elements from 1 on in dimension 0, which has 3',
        f'the memory selection of variable "joined" has 2 elements from {2**64 - 1} on in dimension 1',
        'the memory selection of variable "joined" has 2 elements from 0 on in dimension 0, which has 1',
        'the selection of variable "local" has 2 dimensions instead of 1',
        f'"local" has 2 elements from {2**64 - 1} on in dimension 0, which has 4',
        '"local" has 2 elements from 3 on in dimension 0, which has 4',
        f'block {2**64 - 1} of variable "local" is selected, which has 4',
        f'"number" has 2 elements from {2**64 - 1} on in dimension 0, which has 2',
        'the selection of variable "number" has 0 dimensions instead of 1',
        'the memory selection of variable "number" has 2 elements from 0 on in dimension 0, which has 1',
        'value 2 of variable "number" is selected, which has 2',
        'value 2 of variable "writer" is selected, which has 2',
        '"writer" has 1 elements from 2 on in dimension 0, which has 2',
        f'"writer" has 1 elements from {2**64 - 1} on in dimension 0, which has 2',
    ]:
        assert lines.count(message) == 3, (message, lines)  # one in each step
    assert "no failure" not in lines and "the end" in lines, lines


# ---- Limits of the interface for plug-ins ----

def test_put_with_a_span_is_rejected(stream):
    stream.configure(RendezvousReaderCount=0)
    result = stream.run(stream.program, "put-span", "data")
    assert result.code == 3 and 'Put of "grid" with a span: ADIOS2 does not let plug-ins provide' in result.out, result


def test_selections_that_plugins_do_not_see(stream):
    """Block selections that the engine cannot serve are rejected; SetMemorySelection, Min and Max have no effect."""
    stream.configure(writer={"Ranks": "launcher"})
    started = [*stream.start_ranks(2, "write-shapes", "data"), stream.start(stream.program, "read-limits", "data", "2")]
    lines = stream.finish(*started)
    assert lines.count('block 3 of variable "local" has 4 elements and the selection 2') == 3, lines
    assert lines.count("ADIOS2 does not pass SetBlockSelection of a global array to plug-ins") == 3, lines
