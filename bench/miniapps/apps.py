"""bench/miniapps/apps.py: the mini-applications: how each is compiled, its input, and where it reports the time of its
work. Their sources are the user's checkouts of their public repositories."""
import dataclasses
import math
import pathlib
import re
import shutil

import onespace_bench as ob

MPIGRAPH_BYTES = 131072
# Some MPIs still have the C++ bindings that MPI-3 removed; they would need further libraries.
NO_BINDINGS = ["-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX"]
# MPI-3 removed a name. Open MPI's header makes its use an error unless told to leave such declarations out.
RENAMED = ["-DOMPI_OMIT_MPI1_COMPAT_DECLS=1", "-DMPI_Errhandler_set=MPI_Comm_set_errhandler"]


@dataclasses.dataclass
class App:
    name: str
    sources: list                 # patterns below the checkout; the first must exist
    seconds: object               # (standard output, directory) -> seconds, or None if it is not reported
    words: object                 # (ranks, short) -> its arguments
    flags: list = dataclasses.field(default_factory=list)
    late: list = dataclasses.field(default_factory=lambda: ["-lm"])
    fortran: list = dataclasses.field(default_factory=list)  # sources in the order of their modules
    inputs: list = dataclasses.field(default_factory=list)   # files that it reads from its working directory
    cubic: bool = False           # needs a cubic number of ranks
    twice: bool = False           # its macros produce #pragma lines: preprocess first, then compile the result

    def ranks(self, ranks):
        """The number of ranks to use: all, or the largest cube of them, at least 8, since a single rank sends
        nothing."""
        return max(8, math.floor(ranks ** (1 / 3) + 1e-9) ** 3) if self.cubic else ranks

    def missing(self, directory):
        """What is missing, or ''."""
        checkout = pathlib.Path(directory) / self.name
        if not checkout.is_dir():
            return f"there is no checkout {checkout}"
        absent = next((name for name in self.sources + self.fortran + self.inputs if not list(checkout.glob(name))),
                      None)
        return f"{checkout} lacks {absent}" if absent else ""

    def build(self, place, directory, mpi):
        """The program; raises Failure with the compiler's output."""
        checkout = pathlib.Path(directory) / self.name
        for name in self.inputs:
            shutil.copy(checkout / name, place.path)
        files = list(dict.fromkeys(str(path) for name in self.sources for path in sorted(checkout.glob(name))))
        if self.twice:
            files = [self.preprocess(place, mpi, path) for path in files]
        if not self.fortran:
            return place.compile(files[0], f"{self.name}-{mpi.name}", mpi.compiler, env=mpi.env,
                                 early=["-O3", "-w", *NO_BINDINGS, *self.flags, f"-I{pathlib.Path(files[0]).parent}"],
                                 late=[*files[1:], *mpi.late, *self.late])
        part = place.compile(files[0], f"{self.name}-{mpi.name}-main.o", mpi.compiler, env=mpi.env,
                             early=["-c", "-w", *NO_BINDINGS, *self.flags])
        modules = place.path / f"{self.name}-{mpi.name}-modules"
        modules.mkdir()
        rest = [str(checkout / name) for name in self.fortran]
        return place.compile(rest[0], f"{self.name}-{mpi.name}", fortran_compiler(mpi), env=mpi.env,
                             early=["-O3", "-w", "-ffree-form", "-ffree-line-length-none", "-fallow-argument-mismatch",
                                    f"-J{modules}", *self.flags], late=[*rest[1:], part, *mpi.late, *self.late])

    def preprocess(self, place, mpi, path):
        name = f"{self.name}-{mpi.name}-{pathlib.Path(path).stem}.2.cpp"
        return place.compile(path, name, mpi.compiler, early=["-E", *NO_BINDINGS, *self.flags], env=mpi.env)


def fortran_compiler(mpi):
    """The Fortran compiler of the same MPI as the C compiler."""
    if "mpicc" not in mpi.compiler[0]:
        raise ob.Failure(f"{mpi.name} has no Fortran compiler")
    return [mpi.compiler[0].replace("mpicc", "mpif90")]


def seconds_after(pattern):
    """The seconds that follow a word in the output."""
    def seconds(text, _):
        found = re.search(pattern + r"\s*([-+.\deE]+)", text)
        return float(found[1]) if found else None
    return seconds


def ghost_seconds(_, directory):
    """It writes the time to a file when it ends."""
    path = pathlib.Path(directory) / "results.yaml"
    found = re.search(r"Total_time:\s*([-+.\deE]+)", path.read_text()) if path.exists() else None
    return float(found[1]) if found else None


def graph_seconds(text, _):
    """It reports MB/s (10^6 bytes); this is the time of a message."""
    found = re.search(r"Send avg\s+([.\d]+)", text)
    return MPIGRAPH_BYTES / (float(found[1]) * 1e6) if found and "END mpiGraph" in text else None


def md_seconds(text, _):
    """ranks, threads, steps, atoms, total time, ..., PERF_SUMMARY"""
    found = re.search(r"(?m)^\s*\d+ \d+ \d+ \d+ ([.\d]+) .*PERF_SUMMARY", text)
    return float(found[1]) if found else None


GHOST = """CONSTANTS OPTIONS UTILS ENV PROFILING GET_FACE BUFINIT PACK IRECV UNPACK_SVAF SEND_BSPMA SEND_SVAF
UNPACK_BSPMA BSPMA SVAF FLUX_ACCUMULATE BC STENCIL_COMPS STENCIL BSPMA_DIAGS SVAF_DIAGS SUM_GRID CHECKPOINT""".split()

# Inputs that take at least a tenth of a second: below that, first-touch page faults dominate.
APPS = [
    App("HPCCG", ["main.cpp", "*.cpp"], seconds_after(r"Time Summary:\s*Total\s*:"),
        lambda ranks, short: ["48", "48", "48"] if short else ["80", "80", "80"], ["-DUSING_MPI"],
        ["-lstdc++", "-lm"]),
    App("miniGhost", ["ref/main.c"], ghost_seconds,
        lambda ranks, short: ["--nx", "64", "--ny", "64", "--nz", "64", "--npx", str(ranks), "--npy", "1", "--npz", "1",
                              "--num_tsteps", "40" if short else "200"],
        ["-D_MG_MPI", "-D_MG_REAL8", "-D_MG_INT4", "-Df2c_", *RENAMED],
        fortran=[*(f"ref/MG_{name}.F" for name in GHOST), "ref/DRIVER_BSPMA.F", "ref/DRIVER_SVAF.F", "ref/DRIVER.F"]),
    App("LULESH", ["lulesh.cc", "*.cc"], seconds_after(r"Elapsed time\s*="),
        lambda ranks, short: ["-s", "15", "-i", "20" if short else "100"], ["-DUSE_MPI=1"], ["-lstdc++", "-lm"],
        cubic=True),
    App("miniMD", ["ref/ljs.cpp", "ref/*.cpp"], md_seconds,
        lambda ranks, short: ["-t", "1", "-s", "24", "-n", "50" if short else "200"],
        ["-fopenmp"], ["-lstdc++", "-lm"], inputs=["ref/in.lj.miniMD"], twice=True),
    # A sphere that moves through the box: unless its surface is inside from the start, nothing is refined or sent.
    App("miniAMR", ["ref/main.c", "ref/*.c"], seconds_after(r"Summary: ranks.* time"),
        lambda ranks, short: ["--npx", str(ranks), "--num_refine", "3", "--num_objects", "1",
                              "--object", "2", "0", "-0.4", "-0.4", "-0.4", "0.06", "0.06", "0.06", "1.1", "1.1", "1.1",
                              "0", "0", "0", "--num_tsteps", "5" if short else "10"]),
    App("mpiGraph", ["mpiGraph.c"], graph_seconds,
        lambda ranks, short: [str(MPIGRAPH_BYTES), "1000" if short else "5000", "2"]),
]
