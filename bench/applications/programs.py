"""bench/applications/programs.py: the programs: their paths, arguments, inputs and results."""
import dataclasses
import math
import os
import pathlib
import re

import inputs

HERE = pathlib.Path(__file__).resolve().parent
R_HOME = "/usr/lib/R"


@dataclasses.dataclass
class Program:
    name: str
    packages: str    # of Debian
    needs: list      # files: the program first
    mpi: str         # the MPI library that the package is built with
    words: list      # the program's arguments
    files: object    # (short, ranks) -> {name: text}, into its working directory
    values: dict     # {name of a result: (file or "" for its output, pattern with one group)}; the last match counts
    tolerance: float  # largest relative difference of the results of two runs
    reason: str      # for the tolerance
    env: dict = dataclasses.field(default_factory=dict)
    as_processes: dict = dataclasses.field(default_factory=dict)  # further environment of the processes
    note: str = ""   # the reason for them

    @property
    def path(self):
        return self.needs[0]

    def missing(self):
        """What is missing and how to get it, or ''."""
        absent = next((path for path in self.needs if not os.path.exists(path)), None)
        return absent and f"there is no {absent}: apt-get install {self.packages} (scripts/setup applications)" or ""

    def results(self, text, directory):
        """{name: value}; those that are absent are left out."""
        found = {}
        for name, (file, pattern) in self.values.items():
            path = pathlib.Path(directory) / file
            content = (path.read_text(errors="replace") if path.exists() else "") if file else text
            matches = re.findall(pattern, content, re.M)
            if matches:
                found[name] = float(matches[-1])
        return found


def difference(found, wanted):
    """The largest relative difference of results; that of a NaN is infinite."""
    return max(relative(found[name], wanted[name]) for name in wanted)


def relative(found, wanted):
    if math.isnan(found) or math.isnan(wanted):
        return math.inf
    return abs(found - wanted) / max(abs(found), abs(wanted)) if found != wanted else 0.0


NUMBER = r"([-+]?\d+\.?\d*(?:[eEdD][-+]?\d+)?)"
REPEATED = "the ranks add in the same order in each run, so that all printed digits agree"
ENERGY = "the self-consistent energy is converged to a hundred times less"

PROGRAMS = [
    Program("LAMMPS", "lammps", ["/usr/bin/lmp"], "openmpi", ["-in", "in.salt", "-log", "none"], inputs.lammps,
        {name: ("", rf"^ *\d\d+ +{before}{NUMBER}{after} *$")
         for name, before, after in (("temperature", "", r"(?: +\S+){3}"), ("energy", r"(?:\S+ +){2}", r" +\S+"),
                                     ("pressure", r"(?:\S+ +){3}", ""))},
        1e-9, REPEATED),
    Program("Quantum ESPRESSO", "quantum-espresso", ["/usr/bin/pw.x"], "openmpi", ["-in", "si.in"], inputs.espresso,
        {"energy": ("", rf"^! +total energy += +{NUMBER} Ry"), "force": ("", rf"Total force = +{NUMBER}")},
        1e-7, ENERGY),
    Program("abinit", "abinit", ["/usr/bin/abinit"], "openmpi", ["si.abi"], inputs.abinit,
        {"energy": ("si.abo", rf"etotal1? +{NUMBER}"), "stress": ("si.abo", rf"^ *strten1? +{NUMBER}")},
        1e-7, ENERGY),
    Program("NWChem", "nwchem-mpich", ["/usr/bin/nwchem.mpich"], "mpich", ["water.nw"], inputs.nwchem,
        {"energy": ("", rf"Total DFT energy = +{NUMBER}"),
         "gradient": ("", rf"^ +1 O +(?:\S+ +){{5}}{NUMBER} *$")},
        1e-5, "work goes to the rank that is free, so that sums have another order in each run",
        as_processes={"ARMCI_USE_WIN_ALLOCATE": "0"},
        note="processes of NWChem run with ARMCI_USE_WIN_ALLOCATE=0: by default, on windows that MPICH 4.0.2 "
        "allocates, two and more processes compute wrong energies. Tasks run with the default"),
    Program("HPCC", "hpcc", ["/usr/bin/hpcc"], "openmpi", [], inputs.hpcc,
        {"success": ("hpccoutf.txt", rf"^Success={NUMBER}"),
         "PTRANS": ("hpccoutf.txt", rf"^PTRANS_residual={NUMBER}"),
         "HPL": ("hpccoutf.txt", rf"^\|\|Ax-b.*= +{NUMBER} "),
         "RandomAccess": ("hpccoutf.txt", rf"^MPIRandomAccess_Errors={NUMBER}"),
         "FFT": ("hpccoutf.txt", rf"^MPIFFT_maxErr={NUMBER}")},
        1e-6, "residuals of the same operations in the same order"),
    Program("mpi4py", "python3-mpi4py python3-numpy", ["/usr/bin/python3", "/usr/lib/python3/dist-packages/mpi4py",
                                                   "/usr/lib/python3/dist-packages/numpy"],
        "openmpi", [str(HERE / "poisson.py")], inputs.poisson,
        {name: ("", rf"^{name} {NUMBER}") for name in ("residual", "norm", "largest")}, 1e-12, REPEATED),
    # R and Rscript are scripts that execute this program, which would leave the space.
    Program("Rmpi", "r-cran-rmpi", [f"{R_HOME}/bin/exec/R", f"{R_HOME}/site-library/Rmpi"], "openmpi",
        ["--no-echo", "--no-restore", f"--file={HERE / 'sums.R'}"], inputs.sums,
        {name: ("", rf"^{name} {NUMBER}") for name in ("mean", "variance", "of the ranks")}, 1e-12, REPEATED,
        env={"R_HOME": R_HOME, "R_SHARE_DIR": "/usr/share/R/share", "R_LIBS_SITE": f"{R_HOME}/site-library",
             "LD_LIBRARY_PATH": f"{R_HOME}/lib", "R_ENABLE_JIT": "0"}),
]
