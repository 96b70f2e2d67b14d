"""MPI libraries that use XPMEM find the space's libxpmem.so.0 and copy large messages once."""
import os
import shutil
import subprocess

import pytest

from jobs import ONESPACE, ROOT, RUN
from launchers import XPMEM_MPIS

BUILD = os.path.dirname(os.path.dirname(ONESPACE))


@pytest.fixture(params=list(XPMEM_MPIS), scope="session")
def xpmem_mpi(request):
    return XPMEM_MPIS[request.param].needed()


def attaches(result):
    return [int(line.split("XPMEM attaches: ")[1].split(",")[0])
            for line in result.err.splitlines() if line.startswith("onespace: task ") and "XPMEM attaches: " in line]


@pytest.mark.parametrize("source", ["mpi_exchange", "mpi_collectives", "mpi_onesided"])
def test_ranks_attach_each_others_memory(job, guests, xpmem_mpi, source):
    """What was sent arrives, and --stats tells of the attaches."""
    argv = xpmem_mpi.command(2, [*RUN, "--stats=ranks", guests.mpi(xpmem_mpi, source)])
    result = job.run(argv, env=xpmem_mpi.env).expect(lines=[f"rank {i}: 0 wrong" for i in range(2)])
    counts = attaches(result)
    assert len(counts) == 2, str(result)
    if source == "mpi_exchange":
        assert min(counts) > 0, str(result)


def test_ranks_as_processes_get_along_without(job, guests, xpmem_mpi):
    """Where there is no module the same libraries work, by their other ways."""
    if os.path.exists("/dev/xpmem"):
        pytest.skip("here is the kernel module")
    job.run(xpmem_mpi.command(2, [guests.mpi(xpmem_mpi, "mpi_exchange")]),
            env=xpmem_mpi.env).expect(lines=[f"rank {i}: 0 wrong" for i in range(2)])


def test_without_the_library_beside_the_agent_tasks_find_none(job, guests, tmp_path):
    """And the doctor says so."""
    for name in ("bin/onespace", "lib/libonespace-agent.so"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(f"{BUILD}/{name}", tmp_path / name)
    opens = [guests("opens"), "libxpmem.so.0"]
    plain = job.run(opens)
    job.run([tmp_path / "bin/onespace", "run", *opens]).expect(out=plain.out)
    found = job.run([tmp_path / "bin/onespace", "doctor"])
    assert "libxpmem.so.0 was not found beside the agent" in " ".join(found.out.split()), str(found)


def test_every_call_is_described():
    """One man page for all, with a link for each."""
    header = (ROOT / "include/xpmem.h").read_text()
    calls = ["version", "make", "remove", "get", "release", "attach", "detach"]
    page = (ROOT / "man/xpmem.3").read_text()
    for call in calls:
        assert f"xpmem_{call}(" in header and f".Nm xpmem_{call}" in page
        assert (ROOT / f"man/xpmem_{call}.3").read_text() == ".so man3/xpmem.3\n"


def test_symbols_are_the_modules_librarys():
    """Unversioned, and nothing else; no library is needed, so that one file serves every libc."""
    library = f"{BUILD}/lib/libxpmem.so.0"
    symbols = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
    calls = ["attach", "detach", "get", "init", "ioctl", "make", "release", "remove", "version"]
    assert [line.split()[2] for line in symbols.stdout.splitlines()] == [f"xpmem_{call}" for call in calls]
    dynamic = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    assert "[libxpmem.so.0]" in dynamic and "NEEDED" not in dynamic
