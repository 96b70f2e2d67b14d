"""The wheel built by scripts/wheel is self-contained wherever it is installed, including the command."""
import os
import subprocess

import pytest

from jobs import ROOT

# It is built once, in a directory of the source tree; scripts/check-packages builds it for each Python.
pytestmark = [pytest.mark.xdist_group("wheel"), pytest.mark.long]

SCRIPT = """
import os, sys
import numpy as np
import onespace
assert onespace.__file__.startswith(os.environ["INSTALLED"]), onespace.__file__
if sys.argv[1:] == ["task"]:
    onespace.import_array(onespace.spawner(), "a")[:] = 7
else:
    a = np.zeros(5)
    with onespace.export("a", a), onespace.spawn_python(__file__, "task") as task:
        pass
    print(task.returncode, a.sum())
"""


@pytest.fixture(scope="module")
def installed(interpreter, tmp_path_factory):
    """A directory with the wheel in it; its name has a blank, which ld.so's --preload would split at."""
    if subprocess.run([interpreter, "-c", "import scikit_build_core"], capture_output=True, timeout=180).returncode:
        pytest.skip("no scikit-build-core (scripts/setup test)")
    directory = tmp_path_factory.mktemp("wheel")
    built = subprocess.run([ROOT / "scripts/wheel", directory], capture_output=True, text=True, timeout=900,
                           check=False,
                           env={**os.environ, "PYTHON": interpreter})
    assert built.returncode == 0, built.stderr
    target = directory / "installed here"
    subprocess.run([interpreter, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--no-deps",
                    "--target", target, built.stdout.strip()], check=True, timeout=180)
    return target


def test_installed_package_shares_arrays(job, interpreter, installed, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    result = job.run([interpreter, script], env={"PYTHONPATH": str(installed), "INSTALLED": str(installed)})
    assert result.out == "0 35.0\n", str(result)


def test_installed_command_runs_tasks(job, interpreter, installed, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    result = job.run([interpreter, "-m", "onespace", "run", interpreter, script],
                     env={"PYTHONPATH": str(installed), "INSTALLED": str(installed)})
    assert result.out == "0 35.0\n", str(result)


def test_installed_component_for_open_mpi_is_found(job, interpreter, installed):
    """Print the environment of a rank."""
    result = job.run([interpreter, "-m", "onespace", "run", "--verbose", "true"],
                     env={"PYTHONPATH": str(installed), "PMI_RANK": "0", "PMI_SIZE": "1"})
    directory = installed / "onespace/lib/onespace/openmpi"
    assert result.code == 0 and f"OMPI_MCA_mca_base_component_path={directory}:" in result.err, str(result)


def test_installed_libraries_find_one_another(installed):
    libraries = [*installed.rglob("*.so"), *installed.rglob("*.so.[0-9]*")]
    assert {"libonespace.so.0", "mca_smsc_onespace.so"} <= {library.name for library in libraries}
    for library in libraries:
        listing = subprocess.run(["ldd", library], capture_output=True, text=True, timeout=180, check=False).stdout
        assert "not found" not in listing, f"{library}:\n{listing}"
