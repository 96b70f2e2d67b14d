"""tests/adios2/test_adios2_copies.py: the number of copies of a step's data, counted by the programs themselves
(guests/adios2_copies), and the data of slow readers. The writer overwrites its memory as soon as ADIOS2 allows it."""
import os
import signal

import pytest

from jobs import eventually, read_process

STEPS = 6


@pytest.fixture
def counted(stream, guests):
    """Runs a writer and a reader; returns the numbers of copies and the results of both."""
    program = guests("adios2_copies")

    def run(write, read, steps=STEPS, **parameters):
        stream.configure(**parameters)
        writer = stream.start(program, write, "data", steps)
        reader = stream.start(program, read, "data")
        results = [command.finish() for command in (writer, reader)]
        for result in results:
            assert result.code == 0, result
        assert f"{steps} steps" in results[1].out, results[1]
        return [int(result.out.split()[-2]) for result in results], results
    run.program = program
    return run


def test_put_and_get_copy_once(counted):
    """Steps are lent if the reader is fast enough, which on a busy machine it is not for each step."""
    (written, read), _ = counted("put", "get", 400)
    assert read == 400 and written < read


def test_awaited_put_in_place_is_not_copied(counted):
    copies, results = counted("put", "in-place", writer={"Puts": "wait"}, reader={"Addresses": "on"})
    assert copies == [0, 0]
    written, read = [[line for line in result.out.splitlines() if line.startswith("at ")] for result in results]
    assert written == read and len(read) == STEPS


def test_put_in_place_is_copied_once(counted):
    """The program gets its memory back while the reader still reads the step's."""
    assert counted("put", "in-place", reader={"Addresses": "on"})[0] == [STEPS, 0]


@pytest.mark.parametrize("puts, copies", [("copy", [STEPS, STEPS]), ("wait", [0, STEPS])])
def test_puts_are_chosen(counted, puts, copies):
    assert counted("put", "get", writer={"Puts": puts})[0] == copies


@pytest.mark.parametrize("how", ["put-sync", "perform-puts"])
def test_program_may_reuse_its_memory_before_end_step(counted, how):
    assert counted(how, "get")[0] == [STEPS, STEPS]


def test_small_puts_are_copied_at_once(counted):
    assert counted("put-early", "get", writer={"MinDeferredSize": str(1 << 24)})[0] == [STEPS, STEPS]


@pytest.mark.parametrize("how, gets", [("get-late", 1), ("get-hold", 1), ("get-twice", 2)])
def test_slow_reader_gets_unchanged_data(counted, how, gets):
    (written, read), _ = counted("put", how, 8)
    assert read == gets * 8 and written >= 4


def test_without_a_reader_nothing_is_copied(stream, counted):
    stream.configure(RendezvousReaderCount=0)
    result = stream.run(counted.program, "put", "data", STEPS)
    assert result.code == 0 and "0 copies" in result.out, result


def test_two_readers_and_one_of_them_slow(stream, counted):
    stream.configure(RendezvousReaderCount=2)
    writer = stream.start(counted.program, "put", "data", 8)
    readers = [stream.start(counted.program, how, "data") for how in ("get", "get-late")]
    stream.finish(*readers, writer)


def test_reader_dies_in_the_middle_of_get(stream, counted):
    stream.configure(RendezvousReaderCount=2)
    writer = stream.start(counted.program, "put", "data", 8)
    doomed = stream.start(counted.program, "get-killed", "data")
    other = stream.start(counted.program, "get-hold", "data")
    assert doomed.finish().code == 137
    stream.finish(other, writer)


def test_stopped_reader_does_not_block_the_writer(stream, counted):
    """The reader continues with the copy of the step: it reads no lent memory."""
    writer = stream.start(counted.program, "put", "data", 8)
    reader = stream.start(counted.program, "get-stop", "data")
    reader.wait_for("pid ")
    pid = int(reader.so_far().out.split()[1])
    writer.wait_for("wrote 7")
    assert eventually(lambda: read_process(pid).state == "T")  # else it would stop after it was continued
    os.kill(pid, signal.SIGCONT)
    stream.finish(reader, writer)
