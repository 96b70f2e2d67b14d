"""tests/adios2/test_adios2_lifetime.py: full queues, late readers, and writers and readers that die in each phase."""
import pytest


def steps_of(text):
    return [int(line.split()[1]) for line in text.splitlines() if line.startswith("step ")]


def test_full_queue_blocks_the_writer(stream):
    stream.configure(QueueLimit=1)
    result = stream.run(stream.program, "write", "data", "8", ":", stream.program, "read", "data", "20")
    assert result.code == 0 and steps_of(result.out) == list(range(8)), result


def test_full_queue_discards_steps(stream):
    stream.configure(QueueLimit=1, QueueFullPolicy="Discard")
    result = stream.run(stream.program, "write", "data", "40", "2", ":", stream.program, "read", "data", "50")
    steps = steps_of(result.out)
    assert result.code == 0 and "the end" in result.out and result.out.count("wrote") == 40, result
    assert steps == sorted(set(steps)) and 0 < len(steps) < 30, result


def test_latest_step_is_read(stream):
    stream.configure(reader={"AlwaysProvideLatestTimestep": "true"})
    result = stream.run(stream.program, "write", "data", "40", "2", ":", stream.program, "read", "data", "50")
    steps = steps_of(result.out)
    assert result.code == 0 and steps[-1] == 39 and len(steps) < 30, result


def test_late_reader_gets_the_remaining_steps(stream):
    stream.configure(RendezvousReaderCount=0)
    writer = stream.start(stream.program, "write", "data", "60", "20")
    writer.wait_for("wrote 5")
    result = stream.start(stream.program, "read", "data").finish()
    steps = steps_of(result.out)
    assert result.code == 0 and steps[0] >= 4 and steps == list(range(steps[0], 60)), result
    assert writer.finish().code == 0


@pytest.mark.parametrize("writers", [1, 2])
def test_late_reader_gets_the_first_step_before_the_others(stream, writers):
    stream.configure(writer={"RendezvousReaderCount": "0", "FirstTimestepPrecious": "true", "Ranks": "launcher"})
    started = stream.start_ranks(writers, "write", "data", "60", "20")
    for writer in started:
        writer.wait_for("wrote 5\n", writers // len(started))
    result = stream.start(stream.program, "read", "data").finish()
    first, *others = steps_of(result.out)
    assert result.code == 0 and first == 0 and others[0] >= 4, result
    assert others == list(range(others[0], 60)), result
    for writer in started:
        assert writer.finish().code == 0


def test_first_step_is_read_once(stream):
    stream.configure(writer={"FirstTimestepPrecious": "true"})
    result = stream.run(stream.program, "write", "data", "5", ":", stream.program, "read", "data")
    assert result.code == 0 and steps_of(result.out) == list(range(5)), result


def test_reader_of_the_latest_step_passes_over_the_first(stream):
    stream.configure(writer={"RendezvousReaderCount": "0", "FirstTimestepPrecious": "true"},
                     reader={"AlwaysProvideLatestTimestep": "true"})
    writer = stream.start(stream.program, "write", "data", "40", "20")
    writer.wait_for("wrote 5")
    result = stream.start(stream.program, "read", "data").finish()
    assert result.code == 0 and steps_of(result.out)[0] >= 4, result
    assert writer.finish().code == 0


def test_writer_continues_after_a_reader_is_killed(stream):
    stream.configure(QueueLimit=1)
    writer = stream.start(stream.program, "write", "data", "50", "1")
    doomed = stream.start(stream.program, "read", "data", "100000")
    doomed.wait_for("step 0")
    doomed.process.kill()
    result = writer.finish()
    assert result.code == 0 and "wrote 49" in result.out, result


def test_reader_gets_an_error_after_the_writer_is_killed(stream):
    writer = stream.start(stream.program, "write", "data", "5000", "5")
    reader = stream.start(stream.program, "read", "data")
    reader.wait_for("step 3")
    writer.process.kill()
    result = reader.finish()
    assert "then an error" in result.out and "has died" in result.err, result


# ---- Each phase ----

PHASES = ["open", "begin", "move", "end", "close"]


@pytest.fixture
def phases(stream, guests):
    stream.phases = guests("adios2_phases")
    stream.configure(reader={"OpenTimeoutSecs": "2"})
    return stream


def verify_stream_is_reusable(stream):
    """A new writer and reader exchange steps under the same name."""
    writer = stream.start(stream.phases, "write", "data")
    reader = stream.start(stream.phases, "read", "data")
    assert "3 steps, then the end" in reader.finish().out
    assert writer.finish().code == 0


@pytest.mark.parametrize("phase", PHASES[:-1])
def test_writer_dies_after_each_phase(phases, phase):
    reader = phases.start(phases.phases, "read", "data")
    writer = phases.start(phases.phases, "write", "data", phase)
    assert writer.finish().code == 137
    result = reader.finish()
    if phase == "open" and result.code == 3:  # it was gone before the reader had found it
        assert "no writer of this space has opened it within 2 s" in result.out, result
    else:
        steps = 1 if phase == "end" else 0
        assert result.code == 0 and f"{steps} steps, then an error" in result.out and "has died" in result.err, result
    verify_stream_is_reusable(phases)


def test_writer_is_killed_in_close(phases):
    """Its published steps are still read: Close only waits for the readers."""
    reader = phases.start(phases.phases, "read", "data", stdin=None)
    writer = phases.start(phases.phases, "write", "data")
    writer.wait_for("close")
    writer.process.kill()
    writer.finish()
    result = reader.finish()
    assert result.code == 0 and "3 steps, then" in result.out, result
    verify_stream_is_reusable(phases)


@pytest.mark.parametrize("phase, puts", [*[(phase, "lend") for phase in PHASES], ("move", "wait")])
def test_reader_dies_after_each_phase(phases, phase, puts):
    phases.configure(writer={"Puts": puts})
    writer = phases.start(phases.phases, "write", "data")
    reader = phases.start(phases.phases, "read", "data", phase)
    assert reader.finish().code == 137
    result = writer.finish()
    assert result.code == 0 and "closed" in result.out, result
    verify_stream_is_reusable(phases)


@pytest.mark.parametrize("side, other", [("write", "read"), ("read", "write")])
def test_waiting_end_is_killed(phases, side, other):
    """The writer waits in its first BeginStep, the reader in Open."""
    phases.configure(reader={"OpenTimeoutSecs": "60"})
    waiting = phases.start(phases.phases, side, "data")
    waiting.wait_for("begin" if side == "write" else "open")
    waiting.process.kill()
    waiting.finish()
    verify_stream_is_reusable(phases)


def test_readers_die_one_after_another(stream):
    stream.configure(RendezvousReaderCount=0)
    writer = stream.start(stream.program, "write", "data", "100", "20")
    for _ in range(3):
        reader = stream.start(stream.program, "read", "data")
        reader.wait_for("step")
        reader.process.kill()
        reader.finish()
    result = writer.finish()
    assert result.code == 0 and "wrote 99" in result.out, result
