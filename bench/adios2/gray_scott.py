"""bench/adios2/gray_scott.py: the workload of two programs: a simulation that writes two fields of three dimensions
each step, and an analysis of another number of ranks. Neither knows onespace; the results of all engines must be
equal."""
import os
import pathlib
import re
import tempfile

import onespace_bench as ob
import onespace_mpi
from streams import FILES, PLUGIN, QUEUE, compile_options, configuration, parent_of, run_pair

SOURCE = pathlib.Path(__file__).resolve().parent / "gray-scott.cpp"
# Name: engine, parameters of the writer and the reader, whether all ranks write one stream. An ADIOS2 without MPI lets
# other engines write one stream by one process alone, so there each rank has its own.
LAUNCHED = {**PLUGIN, "Ranks": "launcher"}
WAYS = {
    "onespace, one stream": ("plugin", {**LAUNCHED, **QUEUE}, LAUNCHED, True),
    "onespace": ("plugin", {**PLUGIN, **QUEUE}, PLUGIN, False),
    "SST": ("SST", QUEUE, {}, False),
    "BP5 on tmpfs": ("BP5", {}, FILES, False),
}
WHAT = {"output": "of a step until the simulation goes on", "whole": "of a step of the simulation, output included"}


def series_name(what, way):
    return f"gray-scott/{what}/{way}"


class Coupled:
    """One simulation and its analysis, again and again."""

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

    def run(self, way):
        engine, writer, reader, is_one = WAYS[way]
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
            said = run_pair(commands, directory, {**os.environ, **self.mpi.env, "ADIOS2_PLUGIN_PATH": str(self.plugin),
                                                  "OMPI_MCA_mpi_yield_when_idle": "1"})
        self.compare(way, said[1])
        return {what: float(re.search(rf"^{what} \d+ (\S+)$", said[0], re.MULTILINE)[1]) for what in WHAT}

    def compare(self, way, text):
        found = [line for line in text.splitlines() if line.startswith("step ")]
        if len(found) != self.args.steps:
            raise ob.Failure(f"gray-scott over {way}: the analysis saw {len(found)} of {self.args.steps} steps:\n"
                             f"{text[-2000:]}")
        self.wanted = self.wanted or found
        if found != self.wanted:
            raise ob.Failure(f"gray-scott over {way}: the analysis found\n{found[-1]}\nand with the first engine\n"
                             f"{self.wanted[-1]}")


def measure(place, args, result, adios2, plugin):
    coupled = Coupled(place, args, result, adios2, plugin)
    samples = ob.alternate({way: lambda way=way: coupled.run(way) for way in WAYS}, args.repeats)
    for way in WAYS:
        for what in WHAT:
            result.add(series_name(what, way), "s", {args.side: samples[way][what]})
    result.note(f"gray-scott: {args.ranks} ranks write U and V of {args.side}^3 cells, {args.readers} read them; the "
                f"results of {coupled.runs} runs were equal")


def print_tables(result):
    print("\nGray-Scott: milliseconds of a step: median (quartiles)")
    ob.table(["", *WHAT.values()],
             [[way, *[ob.spread_text(result.find(series_name(what, way)).samples[0], 1e3) for what in WHAT]]
              for way in WAYS])
