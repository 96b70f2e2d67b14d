"""tests/python/conftest.py: scripts that use the Python package, as roots and as tasks.

The package is that of the build tree, for the Python that it was configured with (ONESPACE_PYTHON)."""
import re
import subprocess
import textwrap

import pytest

from jobs import BUILD, ROOT

HEAD = """
import array, ctypes, os, signal, sys, time
import numpy as np
import onespace

def raises(kind, *words):
    '''A context that expects an exception of exactly that class, with these words in its message.'''
    class Raises:
        def __enter__(self):
            return self
        def __exit__(self, type, value, traceback):
            assert type is not None, f"{kind.__name__} was not raised"
            if type is not kind:
                return False
            missing = [word for word in words if word not in str(value)]
            assert not missing, f"no {missing} in: {value}"
            return True
    return Raises()

def start(role, *arguments, **options):
    return onespace.spawn_python(__file__, role, *map(str, arguments), **options)
"""


class Play:
    """A script with a part for the root and one for each role of its tasks."""

    def __init__(self, job, interpreter, directory):
        self.job, self.interpreter, self.directory = job, interpreter, directory
        self.common = ""
        self.env = {"PYTHONPATH": str(BUILD / "python"), "OPENBLAS_NUM_THREADS": "1"}

    def write(self, parts):
        text = HEAD + self.common
        for role, code in parts.items():
            test = "len(sys.argv) == 1" if role == "root" else f"sys.argv[1:2] == [{role!r}]"
            text += f"\nif {test}:\n" + textwrap.indent(textwrap.dedent(code), "    ")
        path = self.directory / "play.py"
        path.write_text(text)
        return path

    def start(self, before=(), env=None, **parts):
        return self.job.start([*before, self.interpreter, self.write(parts)],
                              env={**self.env, **(env or {})}, cwd=self.directory)

    def __call__(self, **parts):
        """Runs the parts and returns the output of the root and its tasks; all must succeed."""
        result = self.start(**parts).finish()
        assert result.code == 0, str(result)
        return result


@pytest.fixture
def play(job, interpreter, tmp_path):
    return Play(job, interpreter, tmp_path)


POOL_HEAD = HEAD.split("def start(")[0] + """
import concurrent.futures, multiprocessing, pickle, threading
from concurrent.futures.process import BrokenProcessPool

def address(array):
    return array.__array_interface__["data"][0]

def until(test, seconds=180):
    '''Waits until test() is true.'''
    end = time.monotonic() + seconds
    while not test():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)

def resident():
    '''Bytes of physical memory of this address space.'''
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
"""


class Program:
    """A program with functions that workers of its pools import, and a main part."""

    def __init__(self, play):
        self.play = play

    def write(self, functions, main, is_guarded=True):
        text = POOL_HEAD + textwrap.dedent(functions)
        if is_guarded:
            text += '\nif __name__ == "__main__":\n' + textwrap.indent(textwrap.dedent(main), "    ")
        else:
            text += "\n" + textwrap.dedent(main)
        path = self.play.directory / "program.py"
        path.write_text(text)
        return path

    def start(self, functions, main, before=(), is_guarded=True, timeout=180, terminal=False):
        path = self.write(functions, main, is_guarded)
        return self.play.job.start([*before, self.play.interpreter, path], timeout=timeout, env=self.play.env,
                                   cwd=self.play.directory, terminal=terminal)

    def __call__(self, functions, main, **options):
        """Run the program; it must succeed and print nothing on standard error."""
        result = self.start(functions, main, **options).finish()
        assert result.code == 0 and not result.err, str(result)
        return result


@pytest.fixture
def program(play):
    return Program(play)


@pytest.fixture
def patient(tmp_path):
    """Gives a copy of an example that waits for others three times as long: they import large packages meanwhile."""
    def copy(path):
        text, count = re.subn(r"(timeout=|PATIENCE_MS = )60", r"\g<1>180", path.read_text())
        assert count > 0, path
        (tmp_path / path.name).write_text(text)
        return tmp_path / path.name
    return copy


@pytest.fixture
def needs_modules():
    """Skips the test unless a Python interpreter has all the modules."""
    def check(python, *modules):
        find = f"import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, {modules})))"
        if subprocess.run([python, "-c", find], timeout=180, check=False).returncode != 0:
            pytest.skip(f"no {' or '.join(modules)} (scripts/setup test)")
    return check


@pytest.fixture
def pools_interpreter():
    """An interpreter of the same version with cloudpickle, joblib and others: scripts/setup test."""
    found = ROOT / ".venv" / "pools" / "bin" / "python"
    if not found.exists():
        pytest.skip("there is no .venv/pools (scripts/setup test)")
    return str(found)
