"""mSTREAM: large puts and gets on the rank's own window, synchronised at the end, in memory, on storage, and half of
each (Figures 7, 8, 13); and the effect of the kernel's settings for dirty pages."""
import statistics

import jobs
import onespace_bench as ob
import onespace_mpi
import places

QUESTION = "How fast are large accesses to a window on storage, its synchronisation included?"
FIGURE = "Figures 7, 8 and 13"
CLAIM = "On an SSD storage windows reach 44 % of the throughput of memory windows; a third of the time is the flush."
SETTINGS = {"bytes": ("128M", "1G", "of the window"), "segment": ("4M", "16M", "of each access"),
            "passes": ("3", "10", "through the window, after a warm-up"),
            "kernels": ("SEQ PAD RND MIX", "SEQ PAD RND MIX", ""),
            "accesses": ("both", "both", "both, put or get (Figures 8b and 13b)")}
BOUND = 1.15
KINDS = ["memory", "mmap", "storage", "combined"]
UNITS = {"-dirty": "bytes", "-before": "bytes", "-written-sync": "bytes"}
SWEEP = [(1, 2), (10, 20), (40, 80)]  # vm.dirty_background_ratio, vm.dirty_ratio; the paper's last one is 80


def bytes_needed(settings):
    return 2 * settings.number("bytes") + (64 << 20)


def measure(context, result):
    def one_mpi(mpi):
        program = jobs.Program("mstream", mpi, context.work, context.args)
        for place in context.places.values():
            measure_place(context, result, mpi, program, place)
            if context.args.change_dirty:
                sweep(context, result, mpi, program, place)
    onespace_mpi.each_mpi(context.args, result, one_mpi)


def runner(context, program, place):
    settings = context.settings

    def run(kind, way):
        text = program.run(1, kind, ["-f", place.directory / "mstream", *place.statistics(), "-b", settings["bytes"],
                                     "-s", settings["segment"], "-n", settings["passes"], "-o", settings["accesses"],
                                     *settings["kernels"].split()], way=way)
        place.clear()
        return with_totals(jobs.values(text))
    return run


def with_totals(found):
    """KERNEL: the time of the passes plus that of the synchronisation."""
    sums = {(name.removesuffix("-passes"), x): value + found[name.removesuffix("-passes") + "-sync", x]
            for (name, x), value in found.items() if name.endswith("-passes")}
    return {**found, **sums}


def measure_place(context, result, mpi, program, place):
    run = runner(context, program, place)
    kinds = [kind for kind in KINDS if kind in context.kinds]
    size = context.settings.number("bytes")
    variants = {(way, kind): lambda kind=kind, way=way: run(kind, way) for way in context.ways for kind in kinds}
    variants["write rate"] = lambda: {("write-rate", size): place.write_rate(size // 2)}
    samples = ob.alternate(variants, context.repeats)
    rates = samples.pop("write rate")
    for variant, found in samples.items():
        jobs.add_all(result, f"{mpi.name}/{variant[0]}/{place.name}/{variant[1]}", found, UNITS)
    jobs.add_all(result, f"{mpi.name}/{place.name}", {key: [size / rate for rate in one]
                                                      for key, one in rates.items()}, {}, limit=True)


def sweep(context, result, mpi, program, place):
    """Interleaves the settings; x is vm.dirty_ratio."""
    run = runner(context, program, place)
    kind = "storage" if "storage" in context.kinds else "mmap"

    def with_setting(background, ratio):
        with places.dirty_ratios(background, ratio):
            return {(quantity, ratio): value for (quantity, _), value in run(kind, context.ways[0]).items()}
    samples = ob.alternate({ratio: lambda b=background, r=ratio: with_setting(b, r) for background, ratio in SWEEP},
                           context.repeats)
    merged = {key: one for found in samples.values() for key, one in found.items()}
    jobs.add_all(result, f"{mpi.name}/dirty-ratio/{place.name}/{kind}", merged, UNITS)


def groups(result, swept=False):
    """{(mpi, way, place): {kind: {quantity: series}}}"""
    found = jobs.grouped(result, lambda kind, quantity: (kind, quantity))
    return {where: kinds for where, kinds in found.items() if (where[1] == "dirty-ratio") == swept}


def write_seconds(result, mpi, place):
    """Seconds for the whole window, per repeat."""
    return result.find(f"{mpi}/{place}/write-rate").samples[0]


def model(result, mpi, place, memory, kind, kernel, part):
    """The reference time: that of a memory window, plus writing the dirty bytes at the device's rate."""
    size = memory[kernel].x[0]
    return [time + part * dirty / size * write for time, dirty, write in
            zip(memory[kernel].samples[0], kind[f"{kernel}-dirty"].samples[0], write_seconds(result, mpi, place))]


def kernels_of(kinds):
    return [name.removesuffix("-passes") for name in kinds["memory"] if name.endswith("-passes")]


def print_tables(result):
    for (mpi, way, place), kinds in groups(result).items():
        size = next(iter(kinds["memory"].values())).x[0]
        rate = [size / one for one in write_seconds(result, mpi, place)]
        print(f"\nmSTREAM, {mpi} ({result.versions[mpi]}), {way}, window of {ob.size_text(size)} on {place}, which "
              f"writes {jobs.rate_text(rate)}: milliseconds, median (quartiles)")
        rows = []
        for kernel in kernels_of(kinds):
            for kind, found in kinds.items():
                whole, sync = found[kernel].samples[0], found[f"{kernel}-sync"].samples[0]
                share = statistics.median([a / b for a, b in zip(sync, whole)])
                expected = model(result, mpi, place, kinds["memory"], found, kernel, 1)
                against = jobs.pair_text(jobs.pairs(whole, expected)) \
                    if kind in ("mmap", "storage") else "-"
                rows.append([f"{kernel} {kind}", ob.spread_text(whole, 1e3), ob.spread_text(sync, 1e3), f"{share:.0%}",
                             *[ob.size_text(round(statistics.median(found[f"{kernel}-{what}"].samples[0]) / 1024)
                                            * 1024)
                               for what in ("dirty", "written-before", "written-sync")], against])
        ob.table(["", "all", "of it sync", "", "dirty", "written before", "by the sync",
                  "/ (memory + dirty/rate) [95 %]"],
                 rows)
    for (mpi, _, place), kinds in groups(result, swept=True).items():
        for kind, found in kinds.items():
            print(f"\nthe effect of vm.dirty_ratio (vm.dirty_background_ratio: half), {mpi}, {kind}, {place}: ms")
            names = [name for name in found if name.split("-")[-1] in ("passes", "sync") and "written" not in name]
            ob.table(["", *[f"{x} %" for x in found[names[0]].x]],
                     [[name, *[ob.spread_text(one, 1e3) for one in found[name].samples]] for name in names])


def check_targets(result, targets):
    for (mpi, way, place), kinds in groups(result).items():
        for kernel in kernels_of(kinds) if "storage" in kinds else []:
            found = kinds["storage"]
            jobs.add_target(targets, f"{mpi} {way} {place} {kernel}: storage, times (memory + dirty/rate)",
                            jobs.pairs(found[kernel].samples[0],
                                       model(result, mpi, place, kinds["memory"], found, kernel, 1)), BOUND)


def plot(figure_of, result):
    """Ratios to memory, by kernel."""
    found = groups(result)
    kinds = [kind for kind in ("mmap", "storage", "combined") if kind in next(iter(found.values()))]
    figure, axes = figure_of(len(found), len(kinds), result)
    for row, ((mpi, way, place), by_kind) in enumerate(found.items()):
        for column, kind in enumerate(kinds):
            kernels = kernels_of(by_kind)
            axes[row][column].ratios(kernels, [jobs.pairs(by_kind[kind][kernel].samples[0],
                                                          by_kind["memory"][kernel].samples[0]) for kernel in kernels],
                                     label="memory")
            axes[row][column].finish(f"{kind}, {mpi}, {way}, {place}", "kernel", "time, times that of a memory window",
                                     linear=True)
    return figure
