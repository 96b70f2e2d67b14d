"""tests/adios2/test_adios2_example.py: the example of docs/adios2.md works unchanged in an empty directory."""
import os
import re
import shutil

import pytest

from jobs import BUILD, ROOT
from launchers import AS_ROOT

VENV = ROOT / ".venv/adios2/bin"


def code_block(language, text=""):
    """The first block of code in `language` that contains `text`."""
    blocks = re.findall(rf"(?s)```{language}\n(.*?)```", (ROOT / "docs/adios2.md").read_text())
    return next(code for code in blocks if text in code)


@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
@pytest.mark.parametrize("is_reader_first", [False, True])
def test_example_works_unchanged(job, tmp_path, mpi, is_reader_first):
    if not (BUILD / "lib/libonespace-adios2.so").exists() or not (VENV / "python3").exists():
        pytest.skip("the engine of ADIOS2 is not built, or PyPI's is not in .venv/adios2 (scripts/setup adios2)")
    if not shutil.which(f"mpicxx.{mpi}"):
        pytest.skip(f"{mpi} is not installed")
    tools, place = tmp_path / "tools", tmp_path / "place"
    for directory in (tools, place):
        directory.mkdir()
    for tool in ("mpicxx", "mpiexec"):
        (tools / tool).write_text(f'#!/bin/sh\nexec {shutil.which(f"{tool}.{mpi}")} "$@"\n')
        (tools / tool).chmod(0o755)
    (place / "writer.cpp").write_text(code_block("cpp", "MPI_Init"))
    (place / "reader.py").write_text(code_block("python", "Adios"))
    more = re.search(r"`(<parameter key=\"Ranks\".*?/>)`", (ROOT / "docs/adios2.md").read_text())[1]
    (place / "adios2.xml").write_text(code_block("xml").replace("</engine>", f"{more}</engine>"))
    build, run = code_block("sh", "mpicxx").rsplit("mpiexec", 1)
    env = {"PATH": f"{BUILD / 'bin'}:{tools}:{VENV}:{os.environ['PATH']}", "ADIOS2_PLUGIN_PATH": str(BUILD / "lib"),
           **AS_ROOT, "OMPI_MCA_rmaps_base_oversubscribe": "1"}

    def shell(script):
        return job.start(["sh", "-e", "-c", script], cwd=place, env=env)
    built = shell(build).finish()
    assert built.code == 0, built
    commands = {"writer": f"mpiexec{run}", "reader": code_block("sh", "reader.py")}
    order = sorted(commands, reverse=not is_reader_first)
    started = {name: shell(commands[name]) for name in order}
    results = {name: command.finish() for name, command in started.items()}
    assert all(result.code == 0 for result in results.values()), [str(result) for result in results.values()]
    lines = results["reader"].out.splitlines()
    assert lines == [f"step {step} (4000,) {100 * step + 1.5}" for step in range(5)], results["reader"]
