"""One-sided transfers on windows on storage, timed as in the RMA part of the Intel MPI Benchmarks (Figures 5, 6),
compared with the same MPI's MPI_Win_allocate and MPI_Win_create in memory, and with a file mapped by the program."""
import jobs
import onespace_bench as ob
import onespace_mpi

QUESTION = "What do one-sided transfers cost, when the window is on storage?"
FIGURE = "Figures 5 and 6"
CLAIM = "Transfers of 256 KiB to 4 MiB are as fast on storage windows as on memory windows."
SETTINGS = {"sizes": ("8 4096 65536 1M", "8 64 512 4096 32K 256K 1M 4M", "of the transfers"),
            "times": ("100", "1000", "transfers of a measurement, at most"),
            "operations": ("", "", "a comma-separated selection"),
            "ranks": ("2", "2", "")}
BOUND = 1.1
KINDS = ["memory", "create", "mmap", "storage"]


def bytes_needed(settings):
    return 4 * settings.number("ranks") * max(settings.numbers("sizes"))


def measure(context, result):
    settings = context.settings

    def one_mpi(mpi):
        program = jobs.Program("rma", mpi, context.work, context.args)
        words = ["-n", settings["times"], *(["-o", settings["operations"]] if settings["operations"] else []),
                 *settings["sizes"].split()]
        for place in context.places.values():
            def run(kind, way, place=place):
                text = program.run(settings.number("ranks"), kind, ["-f", place.directory / "rma", *words], way=way)
                place.clear()
                return jobs.values(text)
            kinds = [kind for kind in KINDS if kind in context.kinds]
            jobs.measure_ways(context, result, mpi, place, kinds, run, {})
    onespace_mpi.each_mpi(context.args, result, one_mpi)


def groups(result):
    """{(mpi, way, place): {operation: {kind: series}}}"""
    return jobs.grouped(result, lambda kind, operation: (operation, kind))


def print_tables(result):
    for (mpi, way, place), operations in groups(result).items():
        for operation, kinds in operations.items():
            print(f"\n{operation}, {mpi} ({result.versions[mpi]}), {way}, {place}: microseconds, median (quartiles)")
            memory, storage = kinds["memory"], kinds.get("storage")
            ob.table(["size", *kinds, "storage/memory [95 %]"],
                     [[ob.size_text(x), *[ob.spread_text(one.at(x), 1e6) for one in kinds.values()],
                       jobs.pair_text(jobs.pairs(storage.at(x), memory.at(x))) if storage else "-"]
                      for x in memory.x])


def check_targets(result, targets):
    for (mpi, way, place), operations in groups(result).items():
        for operation, kinds in operations.items():
            for x in kinds["memory"].x if "storage" in kinds else []:
                jobs.add_target(targets, f"{mpi} {way} {place} {operation} {ob.size_text(x)}: storage, times memory",
                                jobs.pairs(kinds["storage"].at(x), kinds["memory"].at(x)), BOUND)


def plot(figure_of, result):
    """A row for each MPI, way and place; some of the operations."""
    found = groups(result)
    shown = [one for one in ("put", "get", "accumulate", "exchange-put") if one in next(iter(found.values()))] or \
        list(next(iter(found.values())))[:4]
    figure, axes = figure_of(len(found), len(shown), result)
    styles = {"memory": "processes", "storage": "tasks", "create": "third", "mmap": "fourth"}
    for row, ((mpi, way, place), operations) in enumerate(found.items()):
        for column, operation in enumerate(shown):
            for kind, series in operations[operation].items():
                axes[row][column].curve(series.x, [[value * 1e6 for value in one] for one in series.samples],
                                        styles[kind], kind)
            axes[row][column].finish(f"{operation}, {mpi}, {way}, {place}", "bytes", "microseconds", sizes=True)
    return figure
