"""tests/adios2/test_adios2_lifetime.py: full queues, late readers, and writers and readers that die in each phase."""
import pytest


def steps_of(text):
    return [int(line.split()[1]) for line in text.splitlines() if line.startswith("step ")]


def test_full_queue_blocks_the_writer(stream):
    stream.configure(QueueLimit=1)
    assert steps_of(stream.run_pair("write data 8", "read data 20").out) == list(range(8))


def test_full_queue_discards_steps(stream):
    stream.configure(QueueLimit=1, QueueFullPolicy="Discard")
    result = stream.run_pair("write data 40 2", "read data 300")
    steps = steps_of(result.out)
    assert "the end" in result.out and result.out.count("wrote") == 40, result
    assert steps == sorted(set(steps)) and 0 < len(steps) < 30, result


def test_latest_step_is_read(stream):
    stream.configure(reader={"AlwaysProvideLatestTimestep": "true"})
    result = stream.run_pair("write data 40 2", "read data 300")
    steps = steps_of(result.out)
    assert steps[-1] == 39 and len(steps) < 30, result


def read_late(stream, *writers, count=1):
    """The steps of a reader that opens the stream after the sixth step. The writers wait with their last step for the
    file "go-on". Each writer prints `count` lines for a step."""
    for writer in writers:
        writer.wait_for("wrote 5\n", count)
    reader = stream.read()
    reader.wait_for("open")
    (stream.directory / "go-on").touch()
    return steps_of(stream.finish(reader))


def test_late_reader_gets_the_remaining_steps(stream):
    stream.configure(RendezvousReaderCount=0)
    writer = stream.write("60", "20", "go-on")
    steps = read_late(stream, writer)
    assert steps[0] >= 4 and steps == list(range(steps[0], 60))
    stream.finish(writer)


@pytest.mark.parametrize("writers", [1, 2])
def test_late_reader_gets_the_first_step_before_the_others(stream, writers):
    stream.configure(writer={"RendezvousReaderCount": "0", "FirstTimestepPrecious": "true", "Ranks": "launcher"})
    started = stream.start_ranks(writers, "write", "data", "60", "20", "go-on")
    first, *others = read_late(stream, *started, count=writers // len(started))
    assert first == 0 and others[0] >= 4 and others == list(range(others[0], 60))
    stream.finish(*started)


def test_late_ranks_without_a_communicator_are_rejected(stream, without_mpi):
    """They cannot agree on a first step."""
    stream.configure(Ranks="launcher", writer={"RendezvousReaderCount": "0"})
    writer, = stream.start_ranks(1, "write", "data", "4", "0", "go-on")
    writer.wait_for("wrote 1\n")
    for reader in stream.start_ranks(2, "read", "data"):
        result = reader.finish()
        assert result.code == 3 and "its writer has begun the first step, and the 2 ranks" in result.out, result
    (stream.directory / "go-on").touch()
    stream.finish(writer)


def test_first_step_is_read_once(stream):
    stream.configure(writer={"FirstTimestepPrecious": "true"})
    assert steps_of(stream.run_pair("write data 5", "read data").out) == list(range(5))


def test_reader_of_the_latest_step_passes_over_the_first(stream):
    stream.configure(writer={"RendezvousReaderCount": "0", "FirstTimestepPrecious": "true"},
                     reader={"AlwaysProvideLatestTimestep": "true"})
    writer = stream.write("40", "20", "go-on")
    assert read_late(stream, writer)[0] >= 4
    stream.finish(writer)


def test_writer_continues_after_a_reader_is_killed(stream):
    stream.configure(QueueLimit=1)
    writer = stream.write("50", "1")
    doomed = stream.read("100000")
    doomed.wait_for("step 0")
    doomed.process.kill()
    assert "wrote 49" in stream.finish(writer)


def test_reader_gets_an_error_after_the_writer_is_killed(stream):
    writer = stream.write("5000", "5")
    reader = stream.read()
    reader.wait_for("step 3")
    writer.process.kill()
    result = reader.finish()
    assert "then an error" in result.out and "has died" in result.err, result


# ---- Each phase ----

PHASES = ["open", "begin", "move", "end", "close"]


@pytest.fixture
def phases(stream, guests):
    stream.program = guests("adios2_phases")
    return stream


def verify_stream_is_reusable(stream):
    """A new writer and reader exchange steps under the same name."""
    writer, reader = stream.write(), stream.read()
    assert "3 steps, then the end" in stream.finish(reader, writer)


@pytest.mark.parametrize("phase", PHASES[:-1])
def test_writer_dies_after_each_phase(phases, phase):
    if phase == "open":
        phases.configure(reader={"OpenTimeoutSecs": "2"})
    reader = phases.read()
    writer = phases.write("wait" if phase == "end" else phase)
    if phase == "end":  # a step that no reader has taken yet ends with its writer
        reader.wait_for("move")
        writer.process.kill()
    assert writer.finish().code == 137
    result = reader.finish()
    if phase == "open" and result.code == 3:  # it was gone before the reader had found it
        assert "no writer of this space has opened it within 2 s" in result.out, result
    else:
        steps = 1 if phase == "end" else 0
        assert result.code == 0 and f"{steps} steps, then an error" in result.out and "has died" in result.err, result
    phases.configure()
    verify_stream_is_reusable(phases)


def test_writer_is_killed_in_close(phases):
    """Its published steps are still read: Close only waits for the readers."""
    reader = phases.read()
    writer = phases.write()
    writer.wait_for("close")
    writer.process.kill()
    writer.finish()
    assert "3 steps, then" in phases.finish(reader)
    verify_stream_is_reusable(phases)


@pytest.mark.parametrize("phase, puts", [*[(phase, "lend") for phase in PHASES], ("move", "wait")])
def test_reader_dies_after_each_phase(phases, phase, puts):
    phases.configure(writer={"Puts": puts})
    writer = phases.write()
    reader = phases.read(phase)
    assert reader.finish().code == 137
    assert "closed" in phases.finish(writer)
    verify_stream_is_reusable(phases)


@pytest.mark.parametrize("side", ["write", "read"])
def test_waiting_end_is_killed(phases, side):
    """The writer waits in its first BeginStep, the reader in Open."""
    waiting = phases.start(phases.program, side, "data")
    waiting.wait_for("begin" if side == "write" else "open")
    waiting.process.kill()
    waiting.finish()
    verify_stream_is_reusable(phases)


def test_readers_die_one_after_another(stream):
    """Each is killed after its first step, which it gets even when the writer waits with its last."""
    stream.configure(writer={"RendezvousReaderCount": "0", "FirstTimestepPrecious": "true"})
    writer = stream.write("100", "20", "go-on")
    for _ in range(3):
        reader = stream.read()
        reader.wait_for("step")
        reader.process.kill()
        reader.finish()
    (stream.directory / "go-on").touch()
    assert "wrote 99" in stream.finish(writer)
