"""tests/adios2/conftest.py: runs programs of ADIOS2 with the engine's parameters in adios2.xml."""
import os

import pytest

from jobs import BUILD, RUN

PLUGIN = BUILD / "lib/libonespace-adios2.so"


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

        def configure(self, writer=None, reader=None, **both):
            (tmp_path / "adios2.xml").write_text(xml({**both, **(writer or {})}, {**both, **(reader or {})}))

        def run(self, *words, command=RUN, **options):
            return job.run([*command, *words], **self.with_env(options))

        def start(self, *words, command=(*RUN, "--space", space), **options):
            return job.start([*command, *words], **self.with_env(options))

        def with_env(self, options):
            env = {**os.environ, "ADIOS2_PLUGIN_PATH": str(PLUGIN.parent), **options.pop("env", {})}
            return {"cwd": tmp_path, "env": env, **options}

        def outside(self, *words):
            """As a process that is in no space."""
            return self.start(*words, command=())
    made = Stream()
    made.configure()
    return made
