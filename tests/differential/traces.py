"""tests/differential/traces.py: runs a program as a process and as a task, and compares the traces."""
import dataclasses
import os
import pathlib
import resource
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ONESPACE = os.environ.get("ONESPACE_BIN", str(ROOT / "build/bin/onespace"))
INTERPRETERS = pathlib.Path(ONESPACE).resolve().parents[1] / "tests/programs"
LIMIT_S = 180  # far more than any program needs, on a machine that does other things too


@dataclasses.dataclass
class Trace:
    lines: list
    code: int  # as a shell would see it; None: it did not end

    def __len__(self):
        return len(self.lines)


def prepare():
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def environment():
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("PMI", "OMPI_", "SLURM_", "ONESPACE_"))}
    return {**kept, "LC_ALL": "C.UTF-8"}


class Runner:
    """Runs programs in directories of its own; the same paths both ways, since a program may see them."""

    def __init__(self, interpreter="steps", options=(), env=None):
        self.interpreter = str(INTERPRETERS / interpreter)
        self.options = list(options)  # of onespace run
        self.env = {**environment(), **(env or {})}
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="differential-"))

    def close(self):
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def run(self, prefix, program):
        work = self.directory / "work"
        work.mkdir()
        try:
            process = subprocess.Popen([*prefix, self.interpreter, str(program)], cwd=work, env=self.env,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       preexec_fn=prepare)
            try:
                out, err = process.communicate(timeout=LIMIT_S)
                code = process.returncode if process.returncode >= 0 else 128 - process.returncode
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                out, err = process.communicate()
                code = None
            lines = out.decode(errors="replace").splitlines()
            # What onespace itself says of a task that left or died is not the program's.
            output = [line for line in err.decode(errors="replace").splitlines()
                    if not line.startswith(("onespace: ", "onespace run: "))]
            return Trace(lines + output, code)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def process(self, steps, text):
        return self.run([], self.written(steps, text))

    def task(self, steps, text):
        return self.run([ONESPACE, "run", *self.options], self.written(steps, text))

    def both(self, steps, text):
        return self.process(steps, text), self.task(steps, text)

    def written(self, steps, text):
        program = self.directory / "program"
        program.write_text(text(steps))
        return program


def difference(process, task):
    """None, or what the first difference is."""
    ends = f" (exit status: process {process.code}, task {task.code})"
    for i, (one, other) in enumerate(zip(process.lines, task.lines)):
        if one != other:
            return f"line {i}{ends}\n  process: {one}\n  task:    {other}"
    if len(process) != len(task):
        longer, name = (process, "process") if len(process) > len(task) else (task, "task")
        first = min(len(process), len(task))
        return f"only the {name} has line {first}{ends}: {longer.lines[first]}"
    return None if process.code == task.code else f"all lines are the same{ends}"
