"""bench/adios2/gray_scott.py: the workload of two programs: a simulation that writes two three-dimensional fields in
each step, and an analysis with another number of ranks. The results of all engines must be equal."""
import os
import pathlib
import re
import tempfile

import onespace_bench as ob
import onespace_mpi
from streams import FILES, PLUGIN, QUEUE, compile_options, configuration, parent_of, run_pair

SOURCE = pathlib.Path(__file__).resolve().parent / "gray-scott.cpp"
# Name: engine, parameters of the writer and the reader, whether all ranks write one stream. Without MPI other engines
# of ADIOS2 write a stream from one process only, so each rank then has its own stream.
LAUNCHED = {**PLUGIN, "Ranks": "launcher"}
VARIANTS = {
    "onespace, one stream": ("plugin", {**LAUNCHED, **QUEUE}, LAUNCHED, True),
    "onespace": ("plugin", {**PLUGIN, **QUEUE}, PLUGIN, False),
    "SST": ("SST", QUEUE, {}, False),
    "BP5 on tmpfs": ("BP5", {}, FILES, False),
}
WHAT = {"output": "of a step until the simulation goes on", "whole": "of a step of the simulation, output included"}


def series_name(what, variant):
    return f"gray-scott/{what}/{variant}"


class Coupled:
    """Runs a simulation and its analysis."""

    def __init__(self, place, args, result, adios2, plugin):
        self.place, self.args, self.plugin = place, args, plugin
        known = onespace_mpi.known()
        self.mpi = next((known[name] for name in ("mpich", "openmpi") if not isinstance(known[name], str)), None)
        if not self.mpi:
            raise ob.Failure(f"the workload gray-scott needs an MPI: {known['mpich']}")
        result.versions[self.mpi.name] = self.mpi.version
        early, late = compile_options(adios2)
        compiler = self.mpi.compiler[0].replace("mpicc", "mpicxx")
        self.program = place.compile(SOURCE, "gray-scott", compiler=(compiler, "-std=c++20"), early=early, late=late,
                                     env=self.mpi.env)
        self.runs, self.wanted = 0, None

    def run(self, variant):
        engine, writer, reader, is_one = VARIANTS[variant]
        streams = 1 if is_one else self.args.ranks
        self.runs += 1
        job = [ob.onespace_command(), "run", "--space", f"gray-scott-{os.getpid()}-{self.runs}"]
        front = job if engine == "plugin" else []
        with tempfile.TemporaryDirectory(dir=parent_of(engine, self.place)) as directory:
            channels = {"": "0"} if is_one else {str(i): str(i) for i in range(streams)}
            ios = {end + suffix: {**parameters, **({"Channel": f"gray-scott.{channel}"} if engine == "plugin" else {})}
                   for end, parameters in (("writer", writer), ("reader", reader))
                   for suffix, channel in channels.items()}
            (pathlib.Path(directory) / "adios2.xml").write_text(configuration(engine, ios))
            sides = [(self.args.ranks, ["simulate", streams, self.args.side, self.args.steps, self.args.gap]),
                     (self.args.readers, ["analyse", streams])]
            commands = [self.mpi.command(ranks, [*front, self.program, *words], bind=False) for ranks, words in sides]
            env = {**os.environ, **self.mpi.env, "ADIOS2_PLUGIN_PATH": str(self.plugin),
                   "OMPI_MCA_mpi_yield_when_idle": "1"}
            outputs = run_pair(commands, directory, env)
        self.compare(variant, outputs[1])
        return {what: float(re.search(rf"^{what} \d+ (\S+)$", outputs[0], re.MULTILINE)[1]) for what in WHAT}

    def compare(self, variant, text):
        found = [line for line in text.splitlines() if line.startswith("step ")]
        if len(found) != self.args.steps:
            raise ob.Failure(f"gray-scott over {variant}: the analysis saw {len(found)} of {self.args.steps} steps:\n"
                             f"{text[-2000:]}")
        self.wanted = self.wanted or found
        if found != self.wanted:
            raise ob.Failure(f"gray-scott over {variant}: the analysis found\n{found[-1]}\nand with the first engine\n"
                             f"{self.wanted[-1]}")


def measure(place, args, result, adios2, plugin):
    coupled = Coupled(place, args, result, adios2, plugin)
    runs = {variant: lambda variant=variant: coupled.run(variant) for variant in VARIANTS}
    samples = ob.alternate(runs, args.repeats)
    for variant in VARIANTS:
        for what in WHAT:
            result.add(series_name(what, variant), "s", {args.side: samples[variant][what]})
    result.note(f"gray-scott: {args.ranks} ranks write U and V of {args.side}^3 cells, {args.readers} read them; the "
                f"results of {coupled.runs} runs were equal")


def print_tables(result):
    print("\nGray-Scott: milliseconds of a step: median (quartiles)")
    ob.table(["", *WHAT.values()],
             [[variant, *[ob.spread_text(result.find(series_name(what, variant)).samples[0], 1e3) for what in WHAT]]
              for variant in VARIANTS])
