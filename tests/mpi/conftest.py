"""tests/mpi/conftest.py: what the tests of the MPI layer share: jobs of guests, nodes, and places for files."""
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import types

import pytest

from jobs import ROOT, RUN, eventually
from launchers import none_wrong

sys.path.append(str(ROOT / "bench/lib"))
import onespace_bench
import onespace_nodes


@pytest.fixture
def no_gpu_driver():
    """For tests of what happens without CUDA's driver. MPI libraries may load it into each rank."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return
    pytest.skip("a driver of NVIDIA's is installed")


@pytest.fixture
def run_guest(job, guests):
    """Runs a guest as tasks, or with another prefix; `options` are the launcher's. Returns the result."""
    def run(mpi, ranks, guest, *words, prefix=RUN, options=(), timeout=180, **env):
        command = mpi.command(ranks, [*prefix, guests.mpi(mpi, guest), *words], *options)
        return job.run(command, timeout=timeout, env={**mpi.env, **env})
    return run


@pytest.fixture
def check_guest(run_guest):
    """Runs a guest whose ranks must find nothing wrong."""
    def check(mpi, ranks, *words, **options):
        result = run_guest(mpi, ranks, *words, **options)
        assert result.code == 0 and result.lines == none_wrong(ranks), str(result)
        return result
    return check


@pytest.fixture
def check_after_death(run_guest, mpi_named):
    """Runs a guest on three ranks of MPICH, one of which exits; its launcher continues. The others must find nothing
    wrong, and the layer names the rank."""
    def check(dying_rank, guest, *words, **options):
        result = run_guest(mpi_named("mpich"), 3, guest, *words, options=["-disable-auto-cleanup"], **options)
        lines = [line for line in result.lines if line.startswith("rank")]
        assert lines == [line for i, line in enumerate(none_wrong(3)) if i != dying_rank], str(result)
        assert f"rank {dying_rank} of the communicator has ended" in result.err, str(result)
    return check


@pytest.fixture
def run_python(job, mpi_named):
    """Runs a script with mpi4py and the named MPI library as two tasks, which must find nothing wrong."""
    def run(name, script, *words):
        mpi = mpi_named(name)
        result = job.run(mpi.command(2, [*RUN, "/usr/bin/python3", script, *words]), env=mpi.mpi4py())
        assert result.code == 0 and result.lines == none_wrong(2), str(result)
    return run


@pytest.fixture
def fortran_mpi(stock_mpi):
    compiler = f"mpifort.{stock_mpi.name}"
    if not shutil.which(compiler) or not shutil.which("gfortran"):
        pytest.skip(f"no {compiler} or no gfortran (scripts/setup test)")
    return stock_mpi


@pytest.fixture
def sessions_mpi(mpi_named):
    """Gives an MPI library that has sessions, or skips the test."""
    def find(name):
        mpi = mpi_named(name)
        done = subprocess.run([*mpi.compiler, "-x", "c", "-fsyntax-only", "-Werror=implicit-function-declaration", "-"],
                              input="#include <mpi.h>\nint main(void) { return MPI_Session_finalize(0); }\n",
                              capture_output=True, text=True, timeout=180)
        if done.returncode:
            pytest.skip(f"{name} has no sessions")
        return mpi
    return find


@pytest.fixture(params=["processes", "tasks"])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def nodes():
    """Two namespaces of this machine, which share no memory and see none of one another's processes."""
    try:
        with onespace_nodes.Nodes(2) as made:
            yield made
    except onespace_bench.Failure as failure:
        assert "it hangs" not in str(failure), failure
        pytest.skip(str(failure))


@pytest.fixture
def run_on_nodes(nodes, tmp_path):
    """The output of a job of two nodes, with standard error if `all_output`. The job is killed some time after
    is_complete(output) (Nodes.run)."""
    def run(mpi, ranks, words, is_complete, timeout=180, all_output=False, **env):
        launcher = types.SimpleNamespace(kind=mpi.name, launcher=mpi.launcher[0], version="")
        command = nodes.launch(launcher, ranks, [str(word) for word in words])
        if all_output:
            command = ["sh", "-c", 'exec "$@" 2>&1', "sh", *command]
        return nodes.run(types.SimpleNamespace(path=tmp_path), command, is_complete, env={**mpi.env, **env},
                         timeout=timeout)
    return run


@pytest.fixture
def in_memory(tmp_path):
    """A directory in which flushing costs nothing, if there is one."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(prefix="onespace-", dir=memory) as directory:
        yield pathlib.Path(directory)


@pytest.fixture
def directory(request, tmp_path):
    """On disk for processes, in memory for tasks."""
    if "kind" in request.fixturenames and request.getfixturevalue("kind") == "tasks":
        yield request.getfixturevalue("in_memory")
        return
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)


def mount(command, directory):
    done = subprocess.run([*command, directory], capture_output=True, text=True, timeout=180)
    if done.returncode:
        pytest.skip(f"cannot mount: {done.stderr.strip()}")


@pytest.fixture(params=["tmpfs", "ext4", "xfs"])
def small_disk(request, tmp_path, tool):
    """A small file system."""
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts a file system")
    directory, image = tmp_path / "mounted", tmp_path / "image"
    directory.mkdir()
    if request.param == "tmpfs":
        mount(["mount", "-t", "tmpfs", "-o", "size=40m", "none"], directory)
    else:
        make = tool(f"mkfs.{request.param}", {"ext4": "e2fsprogs", "xfs": "xfsprogs"}[request.param])
        with open(image, "wb") as file:
            file.truncate(700 << 20)
        subprocess.run([make, "-q", image], check=True, timeout=180)
        mount(["mount", "-o", "loop", image], directory)
    yield directory
    # A host may end a moment after its job.
    assert eventually(lambda: subprocess.run(["umount", directory], timeout=180, check=False).returncode == 0)
    image.unlink(missing_ok=True)
