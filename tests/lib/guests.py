"""tests/lib/guests.py: the programs that tests run as tasks, made from tests/*/guests."""
import pathlib
import shlex
import subprocess

import pytest

from jobs import ROOT


def source_of(name):
    """The file of that name under tests/*/guests or tests/programs; names are unique."""
    found = [*(ROOT / "tests").glob(f"*/guests/{name}"), *(ROOT / "tests/programs").glob(name)]
    assert len(found) == 1, f"{name}: {found}"
    return found[0]


class Guests:
    def __init__(self, folder):
        self.folder = folder
        self.built = {}

    def build(self, source, compiler=("cc",), flags=(), name=None):
        """The path of the program made from the guest SOURCE."""
        path = self.folder / (name or pathlib.Path(source).stem)
        if path not in self.built:
            self.built[path] = self._compile([*compiler, *flags], source_of(source), path)
        failed = self.built[path]
        if failed:
            pytest.fail(failed, pytrace=False)
        return str(path)

    def _compile(self, command, source, path):
        late = [word for word in command if word.startswith("-l") or ".so" in word]
        early = [word for word in command if word not in late]
        done = subprocess.run([*early, "-o", str(path), str(source), *late], capture_output=True,
                              text=True, timeout=180)
        return "" if done.returncode == 0 else f"{shlex.join(done.args)}:\n{done.stderr}"

    def c(self, source, *flags, name=None):
        return self.build(source, ("cc", "-O1", "-g", "-Wall", "-pthread"), flags, name)

    def mpi(self, mpi, source):
        return self.build(source, mpi.compiler, ("-O1", "-g"), f"{mpi.name}-{pathlib.Path(source).stem}")
