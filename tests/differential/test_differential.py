"""tests/differential/test_differential.py: programs of system calls have the same trace as processes and as tasks, and
a neighbour notices nothing of them. The long run is tests/differential/run."""
import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import generator
from jobs import RUN
from minimise import minimise
from traces import INTERPRETERS, Runner, Trace, difference

CORPUS = sorted((pathlib.Path(__file__).parent / "corpus").glob("*.steps"))
BASE = int(os.environ.get("ONESPACE_SEED", "1"))
SEEDS = range(BASE, BASE + 24)
STEPS = 400


@pytest.fixture(params=["by_hand", "joined"])
def options(request):
    return [] if request.param == "by_hand" else ["--space", f"differential-{os.getpid()}"]


def interpreter_or_skip(name):
    if not (INTERPRETERS / name).exists():
        pytest.skip("musl-gcc is not installed (scripts/setup test)")
    return name


def found_in(runner, steps):
    """The difference between a process and a task, unless two processes differ as well."""
    process, task = runner.both(steps, generator.write)
    assert len(process) >= 1, process
    found = difference(process, task)
    return found if not found or not difference(process, runner.process(steps, generator.write)) else None


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_corpus_has_the_same_trace(file, options):
    with Runner(options=options) as runner:
        assert found_in(runner, generator.read(file.read_text())) is None


@pytest.mark.parametrize("interpreter", ["steps", "steps-static", "steps-musl"])
@pytest.mark.parametrize("seed", SEEDS)
def test_random_program_has_the_same_trace(seed, interpreter):
    interpreter_or_skip(interpreter)
    with Runner(interpreter) as runner:
        found = found_in(runner, generator.generate(seed, STEPS))
        assert found is None, f"tests/differential/run --seed {seed} --programs 1 --steps {STEPS}\n{found}"


def test_joined_programs_have_the_same_trace(options):
    with Runner(options=options) as runner:
        for seed in SEEDS[:8]:
            assert found_in(runner, generator.generate(seed + 1000, STEPS)) is None, seed


def test_neighbour_notices_nothing(job, guests):
    """Programs that do odd things, one after another, in the space of a task that looks at all it has. One of their
    arenas is at the same address each time, where nothing of the one before may be left."""
    space = ["--space", f"neighbours-{os.getpid()}"]
    bystander = job.start([*RUN, *space, guests("bystander")], stdin=subprocess.PIPE)
    bystander.wait_for("ready")
    some = [(file.stem, generator.read(file.read_text())) for file in CORPUS]
    some += [(seed, generator.generate(seed, STEPS)) for seed in range(SEEDS[0] + 2000, SEEDS[-1] + 2000)]
    # Both must find the same socket, which lies in that directory.
    with Runner(options=space, env={"XDG_RUNTIME_DIR": job.env["XDG_RUNTIME_DIR"]}) as runner:
        for name, steps in some:
            task = runner.task(steps, generator.write)
            assert task.lines[0].startswith("0 "), (name, task)
    bystander.process.stdin.close()
    bystander.finish().expect(shows="noticed nothing")


def test_difference_is_found_and_minimised():
    """Of programs of numbers, those differ whose trace has a 7 behind a 3: only those two are left."""
    def fails(steps):
        numbers = [step[1] for step in steps]
        lines = [str(number) for number in numbers]
        is_odd = 3 in numbers and 7 in numbers[numbers.index(3):]
        other = ["odd" if is_odd and line == "7" else line for line in lines]
        return difference(Trace(lines, 0), Trace(other, 0))
    steps = [("step", number % 10, number) for number in range(60)]
    assert minimise(steps, fails) == [("step", 3, 0), ("step", 7, 0)]


@pytest.mark.parametrize("task, expected", [
    (Trace(["0 a", "1 b"], 0), None),
    (Trace(["0 a", "1 c"], 0), "line 1"),
    (Trace(["0 a"], 0), "only the process"),
    (Trace(["0 a", "1 b"], 139), "exit status: process 0, task 139")])
def test_difference_names_the_first(task, expected):
    found = difference(Trace(["0 a", "1 b"], 0), task)
    assert found is None if expected is None else expected in found


def test_programs_are_written_and_read():
    steps = generator.generate(5, 100)
    assert generator.read(generator.write(steps, "a note\nof two lines")) == steps == generator.generate(5, 100)
