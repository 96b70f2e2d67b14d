"""tests/mutants/test_mutants.py: some of the mutants; `make mutants` tries all of them."""
import importlib.machinery
import importlib.util
import pathlib
import shutil
import subprocess

import pytest

RUN = pathlib.Path(__file__).parent / "run"


def test_every_mutant_changes_the_sources_as_they_are():
    loader = importlib.machinery.SourceFileLoader("mutants", str(RUN))
    mutants = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutants", loader))
    loader.exec_module(mutants)
    for mutant in mutants.MUTANTS:
        mutants.changed(mutant)


@pytest.mark.long
@pytest.mark.parametrize("name", ["dissemination-wait", "load-relaxed", "node-fence-wait"])
def test_mutant_is_caught(name):
    if not shutil.which("spin"):
        pytest.skip("spin is not installed (scripts/setup test)")
    done = subprocess.run([RUN, name], capture_output=True, text=True, timeout=300,
                          check=False)
    assert done.returncode == 0 and "1 mutants, 0 not as expected" in done.stdout, done.stdout + done.stderr
