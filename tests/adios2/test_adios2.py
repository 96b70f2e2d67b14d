"""tests/adios2/test_adios2.py: ADIOS2's programs over the engine `onespace` (docs/adios2.md), which adios2.xml alone
chooses. ADIOS2 is PyPI's, without MPI: where several ranks write one stream, the launcher numbers them."""
import os
import pathlib
import subprocess
import time

import pytest

from jobs import BUILD, ROOT, RUN

PYTHON = ROOT / ".venv/adios2/bin/python"
PLUGIN = BUILD / "lib/libonespace-adios2.so"
PROGRAMS = pathlib.Path(__file__).parent / "programs"


def xml(writer, reader):
    def engine(name, parameters):
        all_of_them = {"PluginName": "onespace", "PluginLibrary": "onespace-adios2", **parameters}
        lines = "".join(f'<parameter key="{key}" value="{value}"/>' for key, value in all_of_them.items())
        return f'<io name="{name}"><engine type="plugin">{lines}</engine></io>'
    return f'<?xml version="1.0"?><adios-config>{engine("writer", writer)}{engine("reader", reader)}</adios-config>'


@pytest.fixture
def stream(job, guests, tmp_path):
    """What runs programs in a directory of their own, in which adios2.xml has the engine's parameters."""
    if not PLUGIN.exists():
        pytest.skip(f"{PLUGIN} is not built: CMake found no ADIOS2 2.12 or later (scripts/setup adios2)")

    class Stream:
        space = f"adios2-{os.getpid()}"
        program = guests("adios2_stream")
        directory = tmp_path
        options = dict(cwd=tmp_path)

        def configure(self, writer=None, reader=None, **both):
            (tmp_path / "adios2.xml").write_text(xml({**both, **(writer or {})}, {**both, **(reader or {})}))

        def run(self, *words, command=RUN, **options):
            return job.run([*command, *words], **self.with_env(options))

        def start(self, *words, command=(*RUN, "--space", space), **options):
            return job.start([*command, *words], **self.with_env(options))

        def with_env(self, options):
            env = {**os.environ, "ADIOS2_PLUGIN_PATH": str(PLUGIN.parent), **options.pop("env", {})}
            return {"cwd": tmp_path, "env": env, **options}

        def together(self, writers, readers, *options, write=("write",), read=("read",)):
            """Writer and readers as tasks of one command."""
            return self.run(*options, "-n", str(writers), self.program, *write, ":", "-n", str(readers), self.program,
                            *read)
    made = Stream()
    made.configure()
    return made


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


@pytest.mark.parametrize("writers, readers", [(3, 2), (2, 5)])
def test_boxes_reach_across_the_blocks_of_many_writers(stream, writers, readers):
    stream.configure(writer={"Ranks": "launcher", "RendezvousReaderCount": readers})
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


def test_local_joined_and_framed_arrays(stream):
    stream.configure(writer={"Ranks": "launcher"})
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


def test_arrays_are_read_in_place(stream):
    stream.configure(reader={"Addresses": "on"})
    result = stream.run(stream.program, "write", "data", "5", ":", stream.program, "in-place", "data")
    assert result.code == 0 and "5 steps in place" in result.out, result


def test_a_writer_that_waits_copies_nothing(stream):
    stream.configure(writer={"Puts": "wait"})
    result = stream.run(stream.program, "write", "data", "5", ":", stream.program, "read", "data")
    assert result.code == 0 and "5 steps, then the end" in result.out, result


def test_one_program_reads_what_another_has_named_otherwise(stream):
    stream.configure(Channel="coupling")
    result = stream.run(stream.program, "write", "out.bp", "2", ":", stream.program, "read", "in.bp")
    assert result.code == 0 and "2 steps, then the end" in result.out, result


def test_programs_in_python(stream):
    result = stream.run(PYTHON, PROGRAMS / "write.py", "4", ":", PYTHON, PROGRAMS / "read.py")
    assert result.code == 0 and "step 3" in result.out and "the end" in result.out, result


# ---- Queues, latecomers, ends ----

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


def test_latecomer_gets_what_is_left(stream):
    stream.configure(RendezvousReaderCount=0)
    writer = stream.start(stream.program, "write", "data", "60", "20")
    writer.wait_for("wrote 5")
    result = stream.start(stream.program, "read", "data").finish()
    steps = steps_of(result.out)
    assert result.code == 0 and steps[0] >= 4 and steps == list(range(steps[0], 60)), result
    assert writer.finish().code == 0


def test_writer_goes_on_when_a_reader_is_killed(stream):
    stream.configure(QueueLimit=1)
    writer = stream.start(stream.program, "write", "data", "50", "1")
    doomed = stream.start(stream.program, "read", "data", "100000")
    doomed.wait_for("step 0")
    doomed.process.kill()
    result = writer.finish()
    assert result.code == 0 and "wrote 49" in result.out, result


def test_reader_learns_that_the_writer_was_killed(stream):
    writer = stream.start(stream.program, "write", "data", "5000", "5")
    reader = stream.start(stream.program, "read", "data")
    reader.wait_for("step 3")
    writer.process.kill()
    result = reader.finish()
    assert "then an error" in result.out and "has died" in result.err, result


# ---- Outside a space, and errors ----

def outside(stream, *words):
    return stream.start(*words, command=())


def test_other_engine_serves_programs_outside_a_space(stream):
    writer = outside(stream, stream.program, "write", "data", "3")
    result = outside(stream, stream.program, "read-plain", "data").finish()
    assert result.code == 0 and "3 steps, then the end" in result.out, result
    assert 'stream "data": this process is in no space' in result.err and "SST is used instead" in result.err, result
    assert writer.finish().code == 0


def test_reader_in_a_space_follows_a_writer_outside(stream):
    reader = stream.start(stream.program, "read-plain", "data")
    time.sleep(0.3)
    writer = outside(stream, stream.program, "write", "data", "3")
    result = reader.finish()
    assert result.code == 0 and "3 steps, then the end" in result.out, result
    assert "its writer is not in this space" in result.err and "SST is used instead" in result.err, result
    assert writer.finish().code == 0


def test_reader_outside_the_writers_space_is_told(stream):
    writer = stream.start(stream.program, "write", "data", "3")
    for _ in range(200):
        if (stream.directory / "data.onespace").exists():
            break
        time.sleep(0.05)
    result = outside(stream, stream.program, "read", "data").finish()
    assert result.code == 3 and "start the reader in that space too" in result.out, result
    assert stream.start(stream.program, "read", "data").finish().code == 0
    assert writer.finish().code == 0
    assert not (stream.directory / "data.onespace").exists()


def test_there_is_no_writer(stream):
    stream.configure(OpenTimeoutSecs=1)
    result = stream.run(stream.program, "read", "data")
    assert result.code == 3 and "no writer of this space has opened it within 1 s" in result.out, result


def test_writer_of_another_version(stream, guests):
    impostor = stream.start(guests("adios2_impostor"), stdin=subprocess.PIPE)
    impostor.wait_for("ready")
    result = stream.start(stream.program, "read", "data").finish()
    assert result.code == 3 and "build both from the same onespace" in result.out, result
    impostor.process.stdin.close()
    assert impostor.finish().code == 0


@pytest.mark.parametrize("parameters, says", [
    ({"QueueLimit": "many"}, 'engine parameter QueueLimit="many": it is a number from 0 to 15'),
    ({"QueueFullPolicy": "Explode"}, 'it is "discard" or "block"'),
    ({"QueLimit": "1"}, "there is no engine parameter QueLimit: there are Channel, QueueLimit"),
    ({"Puts": "wait", "QueueLimit": "2"}, "leave QueueLimit and QueueFullPolicy out"),
    ({"FirstTimestepPrecious": "true"}, "is for SST alone"),
    ({"Ranks": "launcher"}, None),
])
def test_wrong_parameter(stream, parameters, says):
    stream.configure(writer=parameters)
    result = outside(stream, stream.program, "write", "data").finish()
    assert result.code == 3 and (says or "no launcher has numbered this process") in result.out, result
