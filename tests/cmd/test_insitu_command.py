"""onespace insitu: watches the steps of channels and writes them to files. Producers are tests/insitu/guests/insitu.c,
whose elements are a function of step and index, and programs in Python."""
import os
import re
import signal
import subprocess
import textwrap

import pytest

from jobs import BUILD, ONESPACE, RUN, eventually
from observe import in_terminal

ELEMENTS = 4096
WAIT, COPY = "0", "2"
WATCH, DUMP = [ONESPACE, "insitu", "watch"], [ONESPACE, "insitu", "dump"]


@pytest.fixture
def insitu(guests):
    return guests("insitu")


@pytest.fixture
def space():
    """A name that no other test's space has."""
    return f"insitu-command-{os.getpid()}"


@pytest.fixture
def channel(request):
    """Likewise: the command finds spaces of other tests, too."""
    return f"data-{os.getpid()}-{request.node.name}"[:63]


def elements(step):
    mask = (1 << 64) - 1
    mixed = [((step << 32 | i) * 0x9E3779B97F4A7C15) & mask for i in range(ELEMENTS)]
    return [value ^ value >> 29 for value in mixed]


def produce(job, insitu, space, channel, *words, policy=WAIT, depth="2"):
    """Goes on until its input ends."""
    return job.start([*RUN, "--space", space, insitu, "produce", channel, policy, depth, *words], stdin=subprocess.PIPE)


def end(*commands):
    for command in commands:
        command.process.stdin.close()
        command.finish()


def rows(text):
    """(smallest, largest, NaNs, type, shape, units, name) of each array."""
    return [tuple(re.split(r" +", re.sub(r"(\d+) x (\d)", r"\1*\2", line.strip())))
            for line in text.splitlines() if re.match(r" *[-\d.]", line)]


# ---- watch ----

def test_watch_shows_the_smallest_and_the_largest_element(job, insitu, channel):
    result = job.run([*RUN, insitu, "produce", channel, WAIT, "1", "1", "1", ":", *WATCH, "-n", "1", channel])
    least, most = min(elements(1)), max(elements(1))
    assert result.code == 0 and f"channel {channel}: step 1\n" in result.out, str(result)
    assert rows(result.out) == [(f"{least:.6g}", f"{most:.6g}", "0", "uint64", "4096", "-", "x")], str(result)


def test_watch_finds_the_space_and_ends_with_the_channel(job, insitu, space, channel):
    """The producer's close does not wait for the next look."""
    producer = produce(job, insitu, space, channel, "3")
    producer.wait_for("published")
    watch = job.start([*WATCH, "--interval", "50", channel])
    watch.wait_for("step 3\n")
    end(producer)
    watch.finish().expect(says=f"channel '{channel}' is closed")


def test_watch_tells_how_many_steps_there_are_in_a_second(job, insitu, space, channel):
    """The guest makes its steps as fast as it can, and copies of them."""
    watch = job.start([*WATCH, "--space", space, "--interval", "0.05", channel])  # before there is a channel
    producer = produce(job, insitu, space, channel, "30000", "1", policy=COPY)
    producer.wait_for("published")
    end(producer)
    result = watch.finish()
    numbers = [int(number) for number in re.findall(r": step (\d+)", result.out)]
    assert result.code == 0 and numbers == sorted(set(numbers)) and numbers[-1] == 30000, str(result)
    assert len(re.findall(r"step \d+, [\d.e+]+ steps/s", result.out)) == len(numbers) - 1, str(result)


def test_watch_tells_that_the_producer_died(job, insitu, space, channel):
    producer = produce(job, insitu, space, channel, "3")
    producer.wait_for("published")
    watch = job.start([*WATCH, "--interval", "0.1", channel])
    watch.wait_for("step 3\n")
    watch.wait_for("no step within 0.1 s\n")
    producer.process.kill()
    watch.finish().expect(1, says="has died")
    end(producer)


def test_watch_that_is_killed_does_not_stop_the_producer(job, insitu, space, channel):
    producer = produce(job, insitu, space, channel, "3")
    producer.wait_for("published")
    watch = job.start([*WATCH, channel])
    watch.wait_for("step 3\n")
    watch.process.kill()
    watch.finish()
    producer.process.stdin.close()
    assert producer.finish().code == 0


def test_watch_replaces_what_it_showed_on_a_terminal(job, insitu, space, channel):
    producer = produce(job, insitu, space, channel, "3")
    producer.wait_for("published")
    lines = in_terminal([*WATCH, "-n", "1", channel], 40, job.env)
    text = "\n".join(lines)
    assert "\033[H" in text and f"channel {channel}: step 3" in text, text
    end(producer)


PRODUCERS = {
    # Strides, types, elements that are not numbers, an empty array, attributes.
    "one": """
        table = np.array([(i, -i / 2) for i in range(5)], dtype="i4,f8")
        with onespace.Producer(channel, consumers=1) as out, out.step(12, timeout=180) as step:
            for type in "i1 i2 i4 i8 u1 u2 u4 u8 f4 f8".split():
                step[type] = np.array([[3, 1], [2, 5]], type)[:, 1]
            step["some"] = np.array([np.nan, 2, -np.inf, np.nan])
            step["none"] = np.array([np.nan])
            step["empty"] = np.zeros((0, 3))
            step["fields/second/values"] = table["f1"]
            step.put("speed", np.full((2, 3, 4), 7.5), units="m s-1")
            step.attribute("state/time", 0.25)
            step.attribute("state/cycle", 3)
            step.attribute("coordsets/coords/type", "uniform")
            step.attribute("speed", "fast")
        """,
    # Parts of a global array, of another that is not all there, and of none.
    "ranks": """
        import onespace as one
        rank = one.number()
        with onespace.Producer(channel, rank=rank, ranks=2, consumers=1) as out, out.step(5, timeout=180) as step:
            whole = np.arange(24.0).reshape(4, 6)
            step.put("whole", whole[2 * rank:2 * rank + 2], global_shape=(4, 6), offset=(2 * rank, 0))
            step.put("holes", whole[rank:rank + 1], global_shape=(4, 6), offset=(2 * rank, 0))
            step["own"] = np.full(rank + 1, 10 + rank)
            step.attribute("both", 1)
            step.attribute("rank", rank)
        """,
}


@pytest.fixture
def python(job, interpreter, tmp_path, channel):
    """Runs such a producer, and with it a command that takes its steps."""
    def run(which, *command, count=1, env=None):
        script = tmp_path / "producer.py"
        script.write_text("import sys\nimport numpy as np\nimport onespace\nchannel = sys.argv[1]\n" +
                          textwrap.dedent(PRODUCERS[which]))
        # Numbers of a group are those of one program's tasks.
        start = [*RUN, "-n", str(count), interpreter, script, channel, ":", "-n", "1", *command, channel]
        return job.run(start, cwd=tmp_path, env={"PYTHONPATH": str(BUILD / "python"), "ONESPACE_PYTHON": interpreter,
                                                 **(env or {})})
    return run


@pytest.fixture
def h5py(interpreter):
    if subprocess.run([interpreter, "-c", "import h5py"], capture_output=True, timeout=180).returncode != 0:
        pytest.skip("no h5py (scripts/setup test)")


def test_watch_reads_all_types_and_strides(python):
    result = python("one", *WATCH, "-n", "1")
    types = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"]
    short = "i1 i2 i4 i8 u1 u2 u4 u8 f4 f8".split()
    assert result.code == 0, str(result)
    assert rows(result.out) == [
        *[("1", "5", "0", type, "2", "-", name) for type, name in zip(types, short)],
        ("-inf", "2", "2", "float64", "4", "-", "some"), ("-", "-", "1", "float64", "1", "-", "none"),
        ("-", "-", "0", "float64", "0x3", "-", "empty"), ("-2", "0", "0", "float64", "5", "-", "fields/second/values"),
        ("7.5", "7.5", "0", "float64", "2x3x4", "m", "s-1", "speed")], str(result)


def test_watch_puts_the_parts_of_ranks_together(python):
    result = python("ranks", *WATCH, "-n", "1", count=2)
    assert result.code == 0, str(result)
    assert rows(result.out) == [("0", "23", "0", "float64", "4x6", "-", "whole"),
                                ("0", "11", "0", "float64", "4x6", "-", "holes"),
                                ("10", "11", "0", "int64", "2*1", "-", "own")], str(result)


# ---- dump ----

READ = """
import sys
import numpy as np
def read(path):
    if path.endswith(".npz"):
        return dict(np.load(path))
    import h5py
    with h5py.File(path) as file:
        found = {}
        for group in file.values():
            group.visititems(lambda name, item: found.update({f"{group.name[1:]}/{name}": item[()]})
                             if isinstance(item, h5py.Dataset) else None)
            found.update({f"{group.name[1:]}@{name}": value for name, value in group.attrs.items()})
        return found
"""


@pytest.fixture
def reader(interpreter, tmp_path):
    """Runs code after what defines read(path), with an interpreter that has h5py and NumPy."""
    def run(code):
        done = subprocess.run([interpreter, "-c", READ + textwrap.dedent(code)], cwd=tmp_path, capture_output=True,
                              text=True, timeout=180)
        assert done.returncode == 0, done.stderr
        return done.stdout
    return run


def dump_of(job, interpreter, tmp_path, *words, **options):
    return job.start([*DUMP, *words], cwd=tmp_path, env={"PYTHONPATH": str(BUILD / "python"),
                                                         "ONESPACE_PYTHON": interpreter}, **options)


def test_dump_has_every_step_whole(job, insitu, interpreter, h5py, space, channel, tmp_path, reader):
    dump = dump_of(job, interpreter, tmp_path, "--every", "-o", "a.h5", "--space", space, channel)
    producer = produce(job, insitu, space, channel, "20", "1")
    producer.wait_for("published")
    end(producer)
    dump.finish().expect(out=f"a.h5: 20 steps of channel {channel}\n")
    sums = [sum(elements(step)) % (1 << 64) for step in range(1, 21)]
    reader(f"""
        found = read("a.h5")
        for step, sum in enumerate({sums}, 1):
            at = f"step_{{step:06}}"
            assert int(found[f"{{at}}/x"].sum()) == sum == int(found[f"{{at}}/checksum"]) % (1 << 64)
        assert len(found) == 60, sorted(found)
        """)


def test_dump_as_npz_is_a_file_for_each_step(job, insitu, interpreter, channel, tmp_path, reader):
    result = job.run([*RUN, insitu, "produce", channel, WAIT, "1", "3", "1", ":",
                      *DUMP, "--every", "-o", "a.npz", channel], cwd=tmp_path,
                     env={"PYTHONPATH": str(BUILD / "python"), "ONESPACE_PYTHON": interpreter})
    assert result.code == 0 and f"a.npz: 3 steps of channel {channel}\n" in result.out, str(result)
    assert sorted(path.name for path in tmp_path.glob("a*")) == [f"a-00000{step}.npz" for step in (1, 2, 3)]
    reader(f"""
        for step, values in enumerate({[elements(step)[-9:] for step in (1, 2, 3)]}, 1):
            assert read(f"a-00000{{step}}.npz")["x"].tolist()[{ELEMENTS - 9}:] == values
        """)


def test_dump_keeps_units_attributes_and_empty_arrays(python, h5py, reader):
    result = python("one", *DUMP, "-o", "a.h5")
    assert result.code == 0, str(result)
    reader("""
        found = {name.split("/", 1)[-1]: value for name, value in read("a.h5").items()}
        assert found["speed"].shape == (2, 3, 4) and found["empty"].shape == (0, 3) and found["i2"].dtype == "i2"
        assert found["fields/second/values"].tolist() == [0, -0.5, -1, -1.5, -2]
        assert (found["state/time"], found["state/cycle"], found["coordsets/coords/type"]) == (0.25, 3, b"uniform")
        assert found["step_000012@speed"] == "fast" and found["step_000012@step"] == 12  # an array has that name
        import h5py
        assert h5py.File("a.h5")["step_000012/speed"].attrs["units"] == "m s-1"
        """)


@pytest.mark.parametrize("suffix", ["h5", "npz"])
def test_dump_gathers_global_arrays(python, suffix, reader, request):
    if suffix == "h5":
        request.getfixturevalue("h5py")
    result = python("ranks", *DUMP, "-o", f"a.{suffix}", count=2)
    assert result.code == 0, str(result)
    reader(f"""
        found = {{name.removeprefix("step_000005/"): value
                 for name, value in read({'a.h5' if suffix == 'h5' else 'a-000005.npz'!r}).items()}}
        assert found["whole"].tolist() == np.arange(24.0).reshape(4, 6).tolist()
        assert found["rank-0/own"].tolist() == [10] and found["rank-1/own"].tolist() == [11, 11]
        assert found["rank-0/holes"].tolist() == [[0, 1, 2, 3, 4, 5]] and "holes" not in found
        assert (found["both"], found["rank"], found["rank-1/rank"]) == (1, 0, 1)
        """)


@pytest.mark.parametrize("suffix", ["h5", "npz"])
def test_dump_keeps_what_came_before_the_producers_death(job, insitu, interpreter, space, channel, tmp_path, suffix,
                                                         reader, request):
    if suffix == "h5":
        request.getfixturevalue("h5py")
    dump = dump_of(job, interpreter, tmp_path, "--every", "-o", f"a.{suffix}", "--space", space, channel)
    producer = produce(job, insitu, space, channel, "3", "1", depth="1")
    producer.wait_for("published")  # the third; so the second was released
    producer.process.kill()
    result = dump.finish()
    assert result.code == 1 and "has died" in result.err and "Traceback" not in result.err, str(result)
    file = "a.h5" if suffix == "h5" else "a-000002.npz"
    at = "step_000002/x" if suffix == "h5" else "x"
    reader(f"assert read({file!r})[{at!r}].tolist()[{ELEMENTS - 9}:] == {elements(2)[-9:]}")
    assert not list(tmp_path.glob("*.part"))
    end(producer)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_dump_that_is_stopped_leaves_a_whole_file(job, insitu, interpreter, h5py, space, channel, tmp_path, reader,
                                                  number):
    producer = produce(job, insitu, space, channel, "3")
    producer.wait_for("published")
    dump = dump_of(job, interpreter, tmp_path, "-o", "a.h5", channel)
    assert eventually((tmp_path / "a.h5").exists)
    dump.signal(number)
    result = dump.finish()
    assert result.code == 128 + number and "Traceback" not in result.err, str(result)
    producer.process.stdin.close()
    assert producer.finish().code == 0
    reader("print(len(read('a.h5')))")


def test_signal_that_comes_where_python_ignores_exceptions_stops_the_dump(job, interpreter):
    """In the callback of a weak reference, which numpy, h5py and Python itself use."""
    script = """
import os, signal, sys, weakref
from onespace import dump
class Object: pass
signal.signal(signal.SIGINT, dump.stop)
thing = Object()
reference = weakref.ref(thing, lambda reference: os.kill(os.getpid(), signal.SIGINT))
del thing
dump.take_step(None)"""
    result = job.run([interpreter, "-c", script], env={"PYTHONPATH": str(BUILD / "python")})
    assert result.code == 128 + signal.SIGINT and result.err == "", str(result)


def test_dump_overwrites_nothing(job, insitu, interpreter, h5py, space, channel, tmp_path):
    producer = produce(job, insitu, space, channel, "3")
    producer.wait_for("published")
    for name, output in (("a.h5", "a.h5"), ("b-000003.npz", "b.npz")):
        (tmp_path / name).write_text("kept")
        result = dump_of(job, interpreter, tmp_path, "-n", "1", "-o", output, channel).finish()
        assert result.code == 1 and f"{name} exists already" in result.err, str(result)
        assert (tmp_path / name).read_text() == "kept"
    end(producer)


@pytest.mark.parametrize("output,words", [("a.txt", "unknown file type"), ("nowhere/a.h5", "nowhere"),
                                          ("nowhere/a.npz", "nowhere")])
def test_dump_that_cannot_write_says_why(job, insitu, interpreter, h5py, space, channel, tmp_path, output, words):
    producer = produce(job, insitu, space, channel, "3")
    producer.wait_for("published")
    result = dump_of(job, interpreter, tmp_path, "-n", "1", "-o", output, channel).finish()
    assert result.code == 1 and words in result.err and "Traceback" not in result.err, str(result)
    producer.process.stdin.close()
    assert producer.finish().code == 0


def test_dump_names_the_package_that_it_misses(job, channel):
    result = job.run([*DUMP, channel], env={"ONESPACE_PYTHON": "/usr/bin/python3", "PYTHONPATH": "/nonexistent"})
    assert result.code == 1 and "/usr/bin/python3 cannot use the package onespace" in result.err, str(result)
    job.run([*DUMP, channel], env={"ONESPACE_PYTHON": "no-such-python"}).expect(1, says="cannot run no-such-python")


# ---- Bad input ----

@pytest.mark.parametrize("words,message", [
    ([], "say what to do first"), (["-n", "2"], "say what to do first"), (["look", "data"], "it cannot do look"),
    (["watch"], "name a channel"),
    (["dump", "a", "b"], "one channel at a time"), (["watch", ""], "names have 1 to 63 bytes"),
    (["watch", "x" * 64], "names have 1 to 63 bytes"), (["watch", "-o", "a.h5", "x"], "is an option of dump"),
    (["watch", "--every", "x"], "is an option of dump"), (["watch", "-n", "0", "x"], "give a number from 1 on"),
    (["watch", "-n", "1e3", "x"], "give a number from 1 on"), (["watch", "--interval", "0", "x"], "give seconds"),
    (["watch", "--interval", "nan", "x"], "give seconds"), (["dump", "--wait", "-1", "x"], "give seconds"),
    (["dump", "--wait", "1s", "x"], "give seconds"), (["watch", "--evry", "x"], "did you mean --every?")])
def test_what_is_wrong_is_reported(job, words, message):
    job.run([ONESPACE, "insitu", *words]).expect(2, says=[message, "onespace insitu --help"])


def test_channel_that_is_not_there_is_reported(job, space):
    job.run([*WATCH, f"no-such-{os.getpid()}"]).expect(1, says="no space that you may look at has a channel")
    result = job.run([*WATCH, "--space", space, "--wait", "0.1", "no-such"])
    assert result.code == 1 and "there was no channel 'no-such' within 0.1 s" in result.err, str(result)


def test_space_that_takes_no_tasks_is_reported(job, insitu, channel):
    producer = job.start([*RUN, insitu, "produce", channel, WAIT, "1", "1"], stdin=subprocess.PIPE)
    producer.wait_for("published")
    job.run([*WATCH, channel]).expect(1, says=f"(root {producer.pid}) takes no tasks from outside")
    end(producer)


def test_channels_of_one_name_need_the_space(job, insitu, space, channel):
    producers = [produce(job, insitu, f"{space}-{i}", channel, str(3 + i)) for i in range(2)]
    for producer in producers:
        producer.wait_for("published")
    job.run([*WATCH, "-n", "1", channel]).expect(1, says=f"2 spaces have a channel '{channel}'")
    job.run([*WATCH, "-n", "1", "--space", f"{space}-1", channel]).expect(shows=": step 4\n")
    end(*producers)
