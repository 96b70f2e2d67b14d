"""tests/lib/guests.py: the programs that tests run as tasks. CMake builds them (tests/guests.cmake); compiled here is
only what is linked in a way of its own, and what is for the MPI libraries of wheels and of scripts/build-mpi."""
import shlex
import subprocess

import pytest

from jobs import BUILD, ROOT

PROGRAMS = BUILD / "tests/programs"
INCLUDE = f"-I{ROOT / 'include'}"
LIBRARY = (f"-L{BUILD / 'lib'}", f"-Wl,-rpath,{BUILD / 'lib'}", "-Wl,--as-needed", "-lonespace")
# As MPI_GUEST_FLAGS and tests/sync/guests have them.
MPI_FLAGS = {".c": ("-O1", "-g", INCLUDE, f"-I{ROOT / 'tests'}", *LIBRARY),
             ".cpp": ("-O1", "-g", INCLUDE, f"-I{ROOT / 'tests'}", "-std=c++20", "-DFROM_MPI", "-lstdc++", "-lm")}


def sources_of(names):
    """The files of these names below the directories `guests`; names are unique."""
    return [file for name in names for file in (ROOT / "tests").glob(f"**/guests/**/{name}")]


def source_of(name):
    source, = sources_of([name])
    return source


class Guests:
    def __init__(self, directory):
        self.directory = directory
        self.built = {}

    def __call__(self, name):
        """The path of the program, or of the library NAME.so, that CMake has built."""
        path = PROGRAMS / name
        if not path.exists():
            pytest.fail(f"{path} is not built (make build-tests)", pytrace=False)
        return str(path)

    def mpi(self, mpi, name):
        """The path of that program for an MPI library."""
        if mpi.is_distributions or (PROGRAMS / mpi.name / name).exists():  # a node kit has some for its wheels
            return self(f"{mpi.name}/{name}")
        source, = sources_of(f"{name}{suffix}" for suffix in MPI_FLAGS)
        return self.build(source.name, mpi.compiler, MPI_FLAGS[source.suffix], f"{mpi.name}-{name}")

    def build(self, source, compiler, flags, name):
        """The path of the program NAME, compiled from the guest SOURCE once in a session."""
        path = self.directory / name
        if path not in self.built:
            self.built[path] = self._compile([*compiler, *flags], source_of(source), path)
        failed = self.built[path]
        if failed:
            pytest.fail(failed, pytrace=False)
        return str(path)

    def _compile(self, command, source, path):
        late = [word for word in command if word.startswith("-l") or ".so" in word]
        late.sort(key=lambda word: "/libmpi.so" in word)  # a layer stands in front of it
        early = [word for word in command if word not in late]
        done = subprocess.run([*early, "-o", str(path), str(source), *late], capture_output=True,
                              text=True, timeout=180)
        return "" if done.returncode == 0 else f"{shlex.join(done.args)}:\n{done.stderr}"
