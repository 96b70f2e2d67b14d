"""bench/storage/jobs.py: compiling and running the programs with each MPI, interleaving the kinds of windows, and the
statistics of pairs."""
import functools
import math
import os
import pathlib
import statistics

import onespace_bench as ob

HERE = pathlib.Path(__file__).resolve().parent
DOCUMENT = "MPI windows on storage for HPC applications, Parallel Computing 77 (2018), doi:10.1016/j.parco.2018.05.007"
SOURCES = {"rma": ["rma.c", "window.c"], "mstream": ["mstream.c", "window.c"],
           "scattered": ["scattered.c", "window.c"], "hacc": ["hacc.c", "window.c"],
           "commits": ["commits.c", "window.c"], "dht": ["dht.c", "table.c", "words.c", "window.c"],
           "mapreduce": ["mapreduce.c", "one_sided.c", "two_sided.c", "log.c", "words.c", "window.c"]}
ON_STORAGE = ("storage", "combined")  # kinds of windows that need the layer


class Program:
    """One of the programs, with one MPI."""

    def __init__(self, name, mpi, place, args):
        self.name, self.mpi, self.place, self.args = name, mpi, place, args
        first, *more = [HERE / source for source in SOURCES[name]]
        self.path = place.compile(first, f"{name}-{mpi.name}", mpi.compiler, late=[*more, *mpi.late], env=mpi.env)
        self.family = "openmpi" if mpi.kind == "openmpi" else "mpich"

    def run(self, ranks, kind, words, front=(), way="processes", timeout=None):
        """Standard output. kind: of the windows. Only those on storage get the layer; the baseline in memory is the
        MPI's own window."""
        program = [self.path, "-w", kind, *words]
        if way == "tasks":
            layer = [] if kind in ON_STORAGE else ["--mpi-layer", "off"]
            program = [ob.onespace_command(), "run", *layer, *program]
        elif kind in ON_STORAGE:
            program = ["env", f"LD_PRELOAD={self.layer()}", *program]
        command = self.mpi.command(ranks, program, bind=ranks <= len(ob.cpus()))
        return self.place.run([*front, *command], timeout=timeout or self.args.timeout,
                              env={**self.mpi.env, **workarounds(self.mpi)})

    def layer(self):
        if self.args.layer:
            return self.args.layer
        prefix = pathlib.Path(ob.onespace_command()).resolve().parents[1]
        name = f"libonespace-mpi-{self.family}.so"
        found = [*prefix.glob(f"lib*/{name}"), *prefix.glob(f"lib/*/{name}")]
        if not found:
            raise ob.Failure(f"{name} is not in {prefix}")
        return str(found[0])


def workarounds(mpi):
    """Open MPI 4.1's osc component rdma crashes in MPI_Compare_and_swap on windows within a node, and cannot create a
    window on a single rank's memory; the remaining components, sm and pt2pt, do both."""
    old = mpi.kind == "openmpi" and mpi.version.startswith("Open MPI 4")
    return {"OMPI_MCA_osc": "^rdma"} if old and "OMPI_MCA_osc" not in os.environ else {}


def values(text):
    """{(quantity, x): value} from the programs' output."""
    return {key: found[0] for key, found in ob.parse_lines(text).items()}


def add_all(result, prefix, samples, units, limit=False):
    """One series per quantity of {(quantity, x): [value per repeat]}."""
    quantities = dict.fromkeys(quantity for quantity, _ in samples)
    for quantity in quantities:
        unit = next((unit for end, unit in units.items() if quantity.endswith(end)), "s")
        add = result.limit if limit else result.add
        add(f"{prefix}/{quantity}", unit, {x: one for (which, x), one in samples.items() if which == quantity})


def measure_ways(context, result, mpi, place, names, run, units):
    """run(name, way) gives {(quantity, x): value}; the series are MPI/WAY/PLACE/NAME/QUANTITY."""
    samples = ob.alternate({(way, name): functools.partial(run, name, way) for way in context.ways for name in names},
                           context.repeats)
    for (way, name), found in samples.items():
        add_all(result, f"{mpi.name}/{way}/{place.name}/{name}", found, units)


def mpis_of(result):
    return list(dict.fromkeys(series.name.split("/")[0] for series in result.series))


def grouped(result, keys_of):
    """{(mpi, way, place): ...}: nested dictionaries, keyed by keys_of(name, quantity), of the series named
    MPI/WAY/PLACE/NAME/QUANTITY."""
    found = {}
    for series in result.series:
        mpi, way, place, name, quantity = series.name.split("/")
        *outer, last = keys_of(name, quantity)
        at = found.setdefault((mpi, way, place), {})
        for key in outer:
            at = at.setdefault(key, {})
        at[last] = series
    return found


# ---- Pairs ----

def interval(samples):
    """(low, median, high): the median and its distribution-free confidence interval of at least 95 %, from the order
    statistics that the binomial distribution gives. Fewer than six samples have no such interval: the extremes."""
    ordered = sorted(samples)
    count, outside = len(ordered), 0.0
    low = 0
    while low < (count - 1) // 2:
        outside += math.comb(count, low) / 2 ** count
        if 2 * (outside + math.comb(count, low + 1) / 2 ** count) > 0.05:
            break
        low += 1
    if count < 6:
        low = 0
    return ordered[low], statistics.median(ordered), ordered[count - 1 - low]


def pairs(numerators, denominators):
    return [a / b for a, b in zip(numerators, denominators)]


def pair_text(ratios):
    low, median, high = interval(ratios)
    return f"{median:.2f}x [{low:.2f}-{high:.2f}]"


def add_target(targets, name, ratios, bound):
    """Holds the median against the bound and shows the interval."""
    low, median, high = interval(ratios)
    targets.add(f"{name} [{low:.2f}-{high:.2f}]", median, bound, at_least=False)


def rate_text(rates):
    return f"{ob.number(statistics.median(rates) / 1e6)} MB/s"
