"""tests/mpi/conftest.py: what the tests of windows in memory and on storage share."""
import glob

import pytest

from launchers import VENV


@pytest.fixture
def python_with_mpi():
    """A Python that can be a task, and where it finds mpi4py."""
    libraries = sorted(glob.glob("/usr/lib/*/libpython3.11.so.1.0"))
    modules = sorted(glob.glob(str(VENV / "mpi4py/lib/python3.11/site-packages")))
    if not libraries or not modules:
        pytest.skip("no libpython3.11 or no mpi4py in .venv/mpi4py (scripts/setup test)")
    return "/usr/bin/python3", modules[-1]
