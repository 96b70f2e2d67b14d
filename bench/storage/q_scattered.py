"""A few scattered stores into a large window, then a synchronisation: how much is written? A kernel with large folios
in its page cache writes whole folios."""
import statistics

import jobs
import onespace_bench as ob
import onespace_mpi

QUESTION = "How much is written when few pages of a window on storage have changed?"
FIGURE = "Section 2.1, MPI_Win_sync"
CLAIM = "A synchronisation writes the pages that have changed since the last one."
SETTINGS = {"bytes": ("512M", "512M", "of the window"), "stores": ("132", "132", "of 4 KiB, scattered over it"),
            "states": ("fresh reopened written", "fresh reopened written", "of the window before")}
BOUND = 1 << 20
KINDS = ["mmap", "storage"]
UNITS = {"-written": "bytes"}


def bytes_needed(settings):
    return 2 * settings.number("bytes") + (128 << 20)  # XFS frees removed space with a delay


def measure(context, result):
    settings = context.settings

    def one_mpi(mpi):
        program = jobs.Program("scattered", mpi, context.work, context.args)
        for place in context.places.values():
            # Other programs use the disk too: there the processes' own counts are more accurate.
            statistic = place.statistics() if place.name == "fast" else []

            def run(kind, way, place=place, statistic=statistic):
                text = program.run(1, kind, ["-f", place.directory / "scattered", *statistic, "-b", settings["bytes"],
                                             "-s", settings["stores"], *settings["states"].split()], way=way)
                place.clear()
                return jobs.values(text)
            kinds = [kind for kind in KINDS if kind in context.kinds]
            jobs.measure_ways(context, result, mpi, place, kinds, run, UNITS)
    onespace_mpi.each_mpi(context.args, result, one_mpi)
    stores = settings.number("stores")
    result.limit("stored", "bytes", {stores: [float(stores * 4096)] * context.repeats})


def groups(result):
    """{(mpi, way, place): {state: {(kind, quantity): series}}}"""
    def keys_of(kind, quantity):
        state, what = quantity.rsplit("-", 1)
        return state, (kind, what)
    return jobs.grouped(result, keys_of)


def print_tables(result):
    stores = result.find("stored").x[0]
    for (mpi, way, place), states in groups(result).items():
        print(f"\nwritten after {stores} stores of 4 KiB, {mpi} ({result.versions[mpi]}), {way}, {place}; MiB, median "
              f"(quartiles); {ob.number(stores * 4096 / 2**20)} MiB were stored")
        kinds = list(dict.fromkeys(kind for kind, _ in next(iter(states.values()))))
        ob.table(["window", *kinds, *[f"sync of {kind}, ms" for kind in kinds]],
                 [[state, *[ob.spread_text(found[kind, "written"].samples[0], 1 / 2**20) for kind in kinds],
                   *[ob.spread_text(found[kind, "sync"].samples[0], 1e3) for kind in kinds]]
                  for state, found in states.items()])


def check_targets(result, targets):
    for (mpi, way, place), states in groups(result).items():
        for state, found in states.items():
            if ("storage", "written") in found:
                targets.add(f"{mpi} {way} {place} {state}: MiB written",
                            statistics.median(found["storage", "written"].samples[0]) / BOUND, 1.0, at_least=False)


def plot(figure_of, result):
    """Write amplification: bytes written over bytes stored, at least 1."""
    found = groups(result)
    kinds = list(dict.fromkeys(kind for kind, what in next(iter(next(iter(found.values())).values()))
                               if what == "written"))
    figure, axes = figure_of(len(found), len(kinds), result)
    for row, ((mpi, way, place), states) in enumerate(found.items()):
        for column, kind in enumerate(kinds):
            stored = result.find("stored").samples[0]
            axes[row][column].ratios(list(states), [jobs.pairs(one[kind, "written"].samples[0], stored)
                                                    for one in states.values()], label="what was stored")
            axes[row][column].finish(f"{kind}, {mpi}, {way}, {place}", "window before", "bytes written, times stored",
                                     linear=True)
    return figure
