"""tests/mpi/conftest.py: what the tests of windows in memory and on storage share."""
import glob
import os
import pathlib
import shutil
import subprocess
import tempfile

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


@pytest.fixture(params=["processes", "tasks"])
def kind(request):
    return request.param


@pytest.fixture
def directory(request, tmp_path):
    """For processes on disk, for tasks in memory, where flushing costs nothing."""
    in_memory = "kind" in request.fixturenames and request.getfixturevalue("kind") == "tasks"
    if not in_memory or not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        shutil.rmtree(tmp_path, ignore_errors=True)
        return
    with tempfile.TemporaryDirectory(prefix="onespace-", dir="/dev/shm") as place:
        yield pathlib.Path(place)


def mount(command, place):
    done = subprocess.run([*command, place], capture_output=True, text=True, timeout=30)
    if done.returncode:
        pytest.skip(f"cannot mount: {done.stderr.strip()}")


@pytest.fixture(params=["tmpfs", "ext4", "xfs"])
def small_disk(request, tmp_path, tool):
    """A file system of little space."""
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts a file system")
    place, image = tmp_path / "mounted", tmp_path / "image"
    place.mkdir()
    if request.param == "tmpfs":
        mount(["mount", "-t", "tmpfs", "-o", "size=40m", "none"], place)
    else:
        make = tool(f"mkfs.{request.param}", {"ext4": "e2fsprogs", "xfs": "xfsprogs"}[request.param])
        with open(image, "wb") as file:
            file.truncate(700 << 20)
        subprocess.run([make, "-q", image], check=True, timeout=60)
        mount(["mount", "-o", "loop", image], place)
    yield place
    subprocess.run(["umount", place], check=True, timeout=60)
    image.unlink(missing_ok=True)
