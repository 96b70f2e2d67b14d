"""Versions of a window of which little has changed: what does a commit take, and how much does it read and write? The
mapped file is synchronised instead, which makes no version."""
import statistics

import jobs
import onespace_bench as ob
import onespace_mpi

QUESTION = "What does a version cost of a window of which few pages have changed?"
FIGURE = "Section 4, fault tolerance"
CLAIM = "A commit reads and writes what has changed, and not the window."
SETTINGS = {"bytes": ("256M", "1G", "of all ranks"), "percent": ("1", "1", "of the pages that change between commits"),
            "commits": ("5", "11", "of which the median counts"), "ranks": ("2", "2", "")}
BOUND = 4  # bytes read and written, times those changed: in two versions, once more by the next rank
KINDS = ["mmap", "storage"]
UNITS = {"read": "bytes", "written": "bytes"}


def bytes_needed(settings):
    return 3 * settings.number("bytes") + (128 << 20)


def measure(context, result):
    settings = context.settings

    def one_mpi(mpi):
        program = jobs.Program("commits", mpi, context.work, context.args)
        for place in context.places.values():
            def run(kind, way, place=place):
                text = program.run(settings.number("ranks"), kind,
                                   ["-f", place.directory / "commits", "-b", settings["bytes"], "-p",
                                    settings["percent"], "-n", settings["commits"]], way=way)
                place.clear()
                return jobs.values(text)
            kinds = [kind for kind in KINDS if kind in context.kinds]
            jobs.measure_ways(context, result, mpi, place, kinds, run, UNITS)
    onespace_mpi.each_mpi(context.args, result, one_mpi)
    percent = settings.number("percent")
    changed = settings.number("bytes") * percent / 100
    result.limit("changed", "bytes", {percent: [changed] * context.repeats})


def groups(result):
    """{(mpi, way, place): {kind: {quantity: series}}}"""
    return jobs.grouped(result, lambda kind, quantity: (kind, quantity))


def print_tables(result):
    changed = result.find("changed").samples[0][0]
    for (mpi, way, place), kinds in groups(result).items():
        print(f"\nafter changes of {ob.number(changed / 2**20)} MiB, {mpi} ({result.versions[mpi]}), {way}, {place}; "
              "median (quartiles)")
        ob.table(["window", "stores, ms", "commit, ms", "read, MiB", "written, MiB"],
                 [[kind, *[ob.spread_text(found[what].samples[0], scale) for what, scale in
                           (("store", 1e3), ("commit", 1e3), ("read", 1 / 2**20), ("written", 1 / 2**20))]]
                  for kind, found in kinds.items()])


def check_targets(result, targets):
    changed = result.find("changed").samples[0][0]
    for (mpi, way, place), kinds in groups(result).items():
        if "storage" in kinds:
            moved = [read + written for read, written in zip(*(kinds["storage"][what].samples[0]
                                                               for what in ("read", "written")))]
            targets.add(f"{mpi} {way} {place}: bytes read and written, times those changed",
                        statistics.median(moved) / changed, BOUND, at_least=False)


def plot(figure_of, result):
    """Bytes read and written over bytes changed."""
    found = groups(result)
    figure, axes = figure_of(len(found), 1, result)
    changed = result.find("changed").samples[0]
    for row, ((mpi, way, place), kinds) in enumerate(found.items()):
        axes[row][0].ratios([f"{kind}, {what}" for kind in kinds for what in ("read", "written")],
                            [jobs.pairs(kinds[kind][what].samples[0], changed)
                             for kind in kinds for what in ("read", "written")], label="what was changed")
        axes[row][0].finish(f"{mpi}, {way}, {place}", "window", "bytes, times those changed", linear=True)
    return figure
