"""tests/lib/launchers.py: the MPI libraries that the tests run, with compiler and launcher."""
import dataclasses
import glob
import os
import pathlib
import shutil

import pytest

from jobs import BUILD, ROOT, RUN

VENV = ROOT / ".venv"


@dataclasses.dataclass
class Mpi:
    name: str
    compiler: tuple
    launcher: tuple
    needs: tuple  # files and programs without which it is not here
    wheel: str = ""
    env: dict = dataclasses.field(default_factory=dict)
    builder: str = ""  # the command that builds it
    hydra: bool = False  # its launcher knows -pmi-port, -launcher and -hosts

    @property
    def is_distributions(self):
        """CMake has built the guests for it."""
        return self.name in ("mpich", "openmpi")

    @property
    def layer(self):
        """The MPI layer's library for it."""
        kind = "abi" if self.name.startswith("abi-") else "openmpi" if "openmpi" in self.name else "mpich"
        return str(BUILD / f"lib/libonespace-mpi-{kind}.so")

    def prefix(self, kind):
        """What stands before a program: `onespace run`, or for "processes" what preloads the layer."""
        return RUN if kind == "tasks" else ["env", f"LD_PRELOAD={self.layer}"]

    def needed_for(self, source):
        """This, or skips the test where the library itself fails with the guest SOURCE."""
        fails = {"mpich": "MPICH 5.0.2 ends, as processes too, at operations on types that they are not for",
                 "impi-rt": "Intel's library ignores operations on types that they are not for, without an error"}
        if source == "mpi_operations" and self.wheel in fails:
            pytest.skip(fails[self.wheel])
        return self

    def missing(self):
        for path in self.needs:
            if not shutil.which(path) and not os.path.exists(path):
                what = f"the wheel {self.wheel}" if self.wheel else path
                return f"{what} is not installed ({self.builder or 'scripts/setup test'})"
        return None

    def needed(self):
        """This, or skips the test, visibly."""
        missing = self.missing()
        if missing:
            pytest.skip(missing)
        return self

    def mpi4py(self):
        """The environment in which the system's Python finds mpi4py with this library, or skips the test."""
        libraries = sorted(glob.glob("/usr/lib/*/libpython3.11.so.1.0"))
        modules = sorted(glob.glob(str(VENV / "mpi4py/lib/python3.11/site-packages")))
        if not libraries or not modules:
            pytest.skip("no libpython3.11 or no mpi4py in .venv/mpi4py (scripts/setup test)")
        env = {**self.env, "PYTHONPATH": modules[-1], "MPI4PY_MPIABI": self.name.removeprefix("wheel-")}
        if self.wheel:
            env["LD_LIBRARY_PATH"] = str(VENV / self.wheel / "lib")
        return env

    def command(self, ranks, program, *options):
        """The launcher's command line; its options go before the count."""
        return [*self.launcher, *options, "-n", str(ranks), *program]


def none_wrong(ranks):
    """The sorted output of a guest whose ranks have found nothing wrong (tests/mpi/guests/mpi_check.h)."""
    return sorted(f"rank {i}: 0 wrong" for i in range(ranks))


# Open MPI's permission in the environment, also for a user who is root in a namespace.
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
ROOT_FLAG = ("--allow-run-as-root",) if os.geteuid() == 0 else ()
DEBIAN_MPICH_FLAGS = ("-I/usr/include/x86_64-linux-gnu/mpich",)
IMPI = VENV / "impi-rt"
IMPI_XPMEM = VENV / "impi-xpmem"
BUILT = pathlib.Path(os.environ.get("ONESPACE_MPI", os.path.expanduser("~/.cache/onespace/mpi")))

ABI_COMPILER = (str(VENV / "mpich/bin/mpicc_abi"),)

MPIS = {mpi.name: mpi for mpi in [
    Mpi("mpich", ("mpicc.mpich",), ("mpiexec.mpich",), ("mpicc.mpich", "mpiexec.mpich"), hydra=True),
    Mpi("openmpi", ("mpicc.openmpi",), ("mpiexec.openmpi", *ROOT_FLAG, "--oversubscribe"),
        ("mpicc.openmpi", "mpiexec.openmpi")),
    Mpi("wheel-mpich", (str(VENV / "mpich/bin/mpicc"),), (str(VENV / "mpich/bin/mpiexec"),),
        (str(VENV / "mpich/bin/mpicc"),), "mpich", hydra=True),
    Mpi("wheel-openmpi", (str(VENV / "openmpi/bin/mpicc"),),
        (str(VENV / "openmpi/bin/mpiexec"), *ROOT_FLAG, "--oversubscribe"),
        # In 5.0.11 the first windows of two threads at once crash in osc/ucx, as processes, too.
        (str(VENV / "openmpi/bin/mpicc"),), "openmpi", {"OMPI_MCA_osc": "^ucx"}),
    # Comes without a compiler's wrapper: MPICH's headers have the same binary interface.
    Mpi("wheel-impi", ("cc", *DEBIAN_MPICH_FLAGS, str(IMPI / "lib/libmpi.so.12")),
        (str(IMPI / "bin/mpiexec"),), (str(IMPI / "bin/mpiexec"), "mpicc.mpich"), "impi-rt",
        {"LD_LIBRARY_PATH": str(IMPI / "lib"), "I_MPI_FABRICS": "shm"}, hydra=True),
    # The binary interface of MPI 5.
    Mpi("abi-mpich", ABI_COMPILER, (str(VENV / "mpich/bin/mpiexec"),), ABI_COMPILER, "mpich", hydra=True),
]}

# Runs the same programs. Not among the others: 2021.18 ends programs at their first error, whatever handler they set.
ABI_IMPI = Mpi("abi-impi", ABI_COMPILER, (str(IMPI / "bin/mpiexec"),), (str(IMPI / "bin/mpiexec"), *ABI_COMPILER),
               "impi-rt", {"LD_LIBRARY_PATH": str(IMPI / "lib"), "I_MPI_FABRICS": "shm"}, hydra=True)

# Those that use XPMEM: Intel's from 2021.19 on when told, and what scripts/build-mpi has built.
XPMEM_MPIS = {mpi.name: mpi for mpi in [
    Mpi("impi-xpmem", ("cc", *DEBIAN_MPICH_FLAGS, str(IMPI_XPMEM / "lib/libmpi.so.12")),
        (str(IMPI_XPMEM / "bin/mpiexec"),), (str(IMPI_XPMEM / "bin/mpiexec"), "mpicc.mpich"), "impi-rt, 2021.19,",
        {"LD_LIBRARY_PATH": str(IMPI_XPMEM / "lib"), "I_MPI_FABRICS": "shm", "I_MPI_SHM_XPMEM": "1"}, hydra=True),
    Mpi("built-mpich", (str(BUILT / "mpich/bin/mpicc"),), (str(BUILT / "mpich/bin/mpiexec"),),
        (str(BUILT / "mpich/.built"),), builder="scripts/build-mpi mpich", hydra=True),
    Mpi("built-openmpi", (str(BUILT / "openmpi/bin/mpicc"),),
        (str(BUILT / "openmpi/bin/mpiexec"), *ROOT_FLAG, "--oversubscribe"),
        (str(BUILT / "openmpi/.built"),), builder="scripts/build-mpi openmpi"),
    Mpi("built-ucx", ("mpicc.mpich",), ("mpiexec.mpich",), (str(BUILT / "ucx/.built"), "mpicc.mpich", "mpiexec.mpich"),
        env={"LD_LIBRARY_PATH": str(BUILT / "ucx/lib")}, builder="scripts/build-mpi ucx", hydra=True),
]}
