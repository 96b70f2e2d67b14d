"""tests/adios2/conftest.py: runs programs of ADIOS2 with the engine's parameters in adios2.xml. The tests run with
PyPI's ADIOS2, which has no MPI; they also support one that is built with Open MPI."""
import os
import pathlib
import subprocess

import pytest

from jobs import BUILD, ROOT, RUN, eventually
from launchers import MPIS

PLUGIN = BUILD / "lib/libonespace-adios2.so"


def xml(writer, reader):
    def engine(name, parameters):
        merged = {"PluginName": "onespace", "PluginLibrary": "onespace-adios2", "Channel": "data", **parameters}
        given = {key: value for key, value in merged.items() if value is not None}
        lines = "".join(f'<parameter key="{key}" value="{value}"/>' for key, value in given.items())
        return f'<io name="{name}"><engine type="plugin">{lines}</engine></io>'
    return f'<?xml version="1.0"?><adios-config>{engine("writer", writer)}{engine("reader", reader)}</adios-config>'


@pytest.fixture(scope="session")
def mpi_of_adios():
    """The MPI of the ADIOS2 that the engine is built for, or None."""
    if not PLUGIN.exists():
        pytest.skip(f"{PLUGIN} is not built: CMake found no ADIOS2 2.12 or later (scripts/setup adios2)")
    libraries = subprocess.run(["ldd", PLUGIN], capture_output=True, text=True, timeout=180, check=True).stdout
    return MPIS["openmpi"].needed() if "libmpi.so.40" in libraries else None


@pytest.fixture
def without_mpi(mpi_of_adios):
    if mpi_of_adios:
        pytest.skip("needs an ADIOS2 without MPI")


@pytest.fixture(scope="session")
def python():
    """A Python interpreter with an ADIOS2."""
    for found in (ROOT / ".venv/adios2/bin/python", pathlib.Path("/usr/bin/python3")):
        has = [found, "-c", "import adios2, numpy"]
        if found.exists() and subprocess.run(has, capture_output=True, timeout=180, check=False).returncode == 0:
            return found
    pytest.skip("no Python with ADIOS2 (scripts/setup adios2)")


@pytest.fixture
def stream(job, guests, mpi_of_adios, tmp_path):
    """Runs programs in a directory whose adios2.xml has the engine's parameters."""
    class Stream:
        space = f"adios2-{os.getpid()}"
        program = guests("adios2_stream")
        directory = tmp_path

        def configure(self, writer=None, reader=None, **both):
            (tmp_path / "adios2.xml").write_text(xml({**both, **(writer or {})}, {**both, **(reader or {})}))

        def run(self, *words, command=RUN, **options):
            return job.run([*command, *words], **self.with_env(options))

        def run_pair(self, write, read, program=program, **options):
            """Runs a writer and a reader in one space, which both succeed. `write` and `read` are their words."""
            first, last = ((words.split() if isinstance(words, str) else words) for words in (write, read))
            result = self.run(program, *first, ":", program, *last, **options)
            assert result.code == 0, result
            return result

        def start(self, *words, command=(*RUN, "--space", space), **options):
            return job.start([*command, *words], **self.with_env(options))

        def write(self, *words):
            return self.start(self.program, "write", "data", *words)

        def read(self, *words):
            return self.start(self.program, "read", "data", *words)

        def finish(self, *commands):
            """Waits for commands, which all succeed; returns their output."""
            results = [command.finish() for command in commands]
            for result in results:
                assert result.code == 0, result
            return "".join(result.out for result in results)

        def contact(self):
            """The contact file of a writer, for whose creation this waits."""
            contact = tmp_path / "data.onespace"
            assert eventually(contact.exists)
            return contact

        def start_ranks(self, ranks, *words):
            """Starts a program of `ranks` ranks: of MPI, or numbered as by a launcher, for Ranks="launcher"."""
            if mpi_of_adios:
                task = [*RUN, "--space", self.space, self.program, *words]
                return [self.start(*mpi_of_adios.command(ranks, task), command=())]
            return [self.start(self.program, f"{rank}/{ranks}", *words) for rank in range(ranks)]

        def with_env(self, options):
            env = {**os.environ, "ADIOS2_PLUGIN_PATH": str(PLUGIN.parent), **options.pop("env", {})}
            return {"cwd": tmp_path, "env": env, **options}

        def outside(self, *words):
            """Starts a process outside any space."""
            return self.start(*words, command=())
    made = Stream()
    made.configure()
    return made
