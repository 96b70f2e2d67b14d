"""A distributed hash table in windows, in memory, on storage, and half of each: in core (Figure 9) and out of core
(Figure 10). A control group with a memory limit stands in for a small machine."""

import jobs
import onespace_bench as ob
import onespace_mpi
import places

QUESTION = "What does a hash table in windows on storage cost, while it fits into memory and when it does not?"
FIGURE = "Figures 9 and 10"
CLAIM = ("On an SSD inserts take 20 % longer than in memory, 8 % with half of the window in memory; beyond the "
         "memory's size 89 % and 13 to 36 %.")
SETTINGS = {"slots": ("16K", "64K 128K 256K", "of each rank, in core"), "ranks": ("2", "2", ""),
            "heap": ("4", "4", "elements on the heap for each slot"),
            "limited": ("128K", "512K", "slots of each rank, out of core; 0: leave it out"),
            "limit": ("60", "60", "memory for the table, per cent of its size")}
BOUNDS = {"storage": 1.1, "combined": 1.05}
KINDS = ["memory", "mmap", "storage", "combined"]
# In a plainly mapped file each fault reads hundreds of KiB (the device's read-ahead), which evicts the rest of the
# table: it does not end in useful time.
LIMITED_KINDS = ["storage", "combined"]
UNITS = {"table": "bytes"}
ELEMENT = 16


def table_bytes(settings, slots):
    return settings.number("ranks") * slots * (1 + settings.number("heap")) * ELEMENT


def bytes_needed(settings):
    largest = max(settings.numbers("slots") + settings.numbers("limited"))
    return table_bytes(settings, largest) * 3 // 2 + (64 << 20)


def measure(context, result):
    def one_mpi(mpi):
        program = jobs.Program("dht", mpi, context.work, context.args)
        for place in context.places.values():
            in_core(context, result, program, place)
            if context.settings.number("limited"):
                try:
                    out_of_core(context, result, program, place)
                except (ob.Failure, OSError) as failure:
                    result.note(f"{mpi.name}, {place.name}: not out of core: {failure}")
    onespace_mpi.each_mpi(context.args, result, one_mpi)


def runner(context, program, place):
    settings = context.settings

    def run(kind, way, slots, front=()):
        text = program.run(settings.number("ranks"), kind, ["-f", place.directory / "dht", "-s", slots, "-x",
                                                            settings["heap"]], front=front, way=way)
        place.clear()
        found = jobs.values(text)
        return {**found, ("all", slots): found["insert", slots] + found["sync", slots]}
    return run


def in_core(context, result, program, place):
    run = runner(context, program, place)

    def every_size(kind, way):
        return {key: value for slots in context.settings.numbers("slots")
                for key, value in run(kind, way, slots).items()}
    kinds = [kind for kind in KINDS if kind in context.kinds]
    jobs.measure_ways(context, result, program.mpi, place, kinds, every_size, UNITS)


def peak(group):
    for name in ("memory.max_usage_in_bytes", "memory.peak"):
        if (group.directory / name).exists():
            return int((group.directory / name).read_text())
    return None


def need_of_ranks(run, ranks, way, kinds):
    """The ranks' memory apart from the table; the layer adds to it."""
    with places.MemoryLimit(4 << 30) as group:
        for kind in ("memory", *kinds):
            run(kind, way, 1024, group.front())
        return peak(group) or ranks * (48 << 20)


def out_of_core(context, result, program, place):
    """Memory windows run without the limit: the baseline is a larger machine."""
    settings, way = context.settings, context.ways[0]
    slots, run = settings.number("limited"), runner(context, program, place)
    kinds = [kind for kind in LIMITED_KINDS if kind in context.kinds]
    base = need_of_ranks(run, settings.number("ranks"), way, kinds)
    limit = base + table_bytes(settings, slots) * settings.number("limit") // 100
    result.note(f"{program.mpi.name}, {place.name}: out of core, a table of "
                f"{ob.size_text(table_bytes(settings, slots))} "
                f"in {limit >> 20} MiB, of which {base >> 20} MiB are for the ranks")

    def limited(kind):
        with places.MemoryLimit(limit) as group:
            return run(kind, way, slots, group.front())
    variants = {"memory": lambda: run("memory", way, slots)}
    variants.update({kind: lambda kind=kind: limited(kind) for kind in kinds})
    for kind, found in ob.alternate(variants, context.repeats).items():
        jobs.add_all(result, f"{program.mpi.name}/{way}/{place.name}/{kind}", {
            (f"limited-{quantity}", x): one for (quantity, x), one in found.items()}, UNITS)
    note_fate_of_memory(result, program, limit, lambda: run_memory_limited(run, way, slots, limit))


def run_memory_limited(run, way, slots, limit):
    with places.MemoryLimit(limit) as group:
        run("memory", way, slots, group.front())


def note_fate_of_memory(result, program, limit, call):
    try:
        call()
        result.note(f"{program.mpi.name}: memory windows went on within {limit >> 20} MiB")
    except ob.Failure:
        result.note(f"{program.mpi.name}: memory windows do not fit into {limit >> 20} MiB: the job was killed")


def groups(result):
    """{(mpi, way, place): {kind: {quantity: series}}}"""
    return jobs.grouped(result, lambda kind, quantity: (kind, quantity))


def rows_of(kinds, head):
    rows = []
    for x in kinds["memory"][f"{head}insert"].x if f"{head}insert" in kinds["memory"] else []:
        for kind, found in kinds.items():
            if f"{head}insert" not in found:  # plain mmap is left out out of core
                continue
            rows.append([f"{x} {kind}", f"{found[f'{head}table'].at(x)[0] / 2**20:.1f}",
                         *[ob.spread_text(found[head + what].at(x), 1e3) for what in ("insert", "sync")],
                         *[jobs.pair_text(jobs.pairs(found[head + what].at(x), kinds["memory"][head + what].at(x)))
                           for what in ("insert", "all")]])
    return rows


def print_tables(result):
    for (mpi, way, place), kinds in groups(result).items():
        for head, text in (("", "in core"), ("limited-", "out of core; memory windows without the limit")):
            rows = rows_of(kinds, head)
            if rows:
                print(f"\nhash table, {mpi} ({result.versions[mpi]}), {way}, {place}, {text}: milliseconds, median "
                      "(quartiles); times memory windows [95 %]")
                ob.table(["slots of each rank", "MiB", "insert", "sync", "insert", "with sync"], rows)


def check_targets(result, targets):
    for (mpi, way, place), kinds in groups(result).items():
        for kind, bound in BOUNDS.items():
            for x in kinds[kind]["insert"].x if kind in kinds else []:
                jobs.add_target(targets, f"{mpi} {way} {place} {x} slots, in core: {kind}, times memory",
                                jobs.pairs(kinds[kind]["insert"].at(x), kinds["memory"]["insert"].at(x)), bound)


def plot(figure_of, result):
    """Ratios to memory windows, in core and out of core."""
    found = groups(result)
    heads = [head for head in ("", "limited-") if any(f"{head}insert" in kinds["memory"] for kinds in found.values())]
    figure, axes = figure_of(len(found), len(heads), result)
    for row, ((mpi, way, place), kinds) in enumerate(found.items()):
        for column, head in enumerate(heads):
            memory = kinds["memory"].get(f"{head}insert")
            if not memory:
                continue
            x = memory.x[-1]
            shown = [kind for kind in KINDS[1:] if f"{head}insert" in kinds.get(kind, {})]
            axes[row][column].ratios(shown, [jobs.pairs(kinds[kind][f"{head}insert"].at(x), memory.at(x))
                                             for kind in shown], label="memory")
            axes[row][column].finish(f"{'out of core' if head else 'in core'}, {x} slots, {mpi}, {way}, {place}",
                                     "window", "time of inserts, times memory", linear=True)
    return figure
