"""tests/mutants/test_mutants.py: some of the mutants; `make mutants` tries all of them."""
import pathlib
import shutil
import subprocess

import pytest


@pytest.mark.long
@pytest.mark.parametrize("name", ["dissemination-wait", "load-relaxed", "node-fence-wait"])
def test_mutant_is_caught(name):
    if not shutil.which("spin"):
        pytest.skip("spin is not installed (scripts/setup test)")
    done = subprocess.run([pathlib.Path(__file__).parent / "run", name], capture_output=True, text=True, timeout=300,
                          check=False)
    assert done.returncode == 0 and "1 mutants, 0 not as expected" in done.stdout, done.stdout + done.stderr
