"""bench/storage/questions.py: the seven questions of bench/storage: how their programs run, and what is printed and
compared with targets. Series are named MPI/WAY/PLACE/KIND/QUANTITY, where KIND is the kind of window."""
import collections
import dataclasses
import functools
import math
import os
import re
import statistics

import onespace_bench as ob
import places
from onespace_bench import KIB, MIB

SOURCES = {"mapreduce": ["words.c"]}
ON_STORAGE = ("storage", "combined")  # kinds of windows that need the layer
BY_KIND = "{mpi}/{way}/{place}/{column}/{quantity}"
BY_QUANTITY = "{mpi}/{way}/{place}/{kind}/{column}"
WHERE = "{mpi} {way} {place}"
TITLE = "{mpi} ({version}), {way}, {place}"
PARTICLE_BYTES, HACC_HEADER = 38, 24 << 20
ELEMENT_BYTES = 16  # of the hash table


@dataclasses.dataclass
class Question:
    name: str             # of its program, too
    question: str
    figure: str
    claim: str
    settings: dict        # {name: (default with --quick, default, help)}
    bytes_needed: object  # (settings) -> in each place
    variants: object      # kinds of windows, or {name of a variant: (kind or None: no window, words)}
    lines: object         # (run, program, variant, way) -> {(quantity, x): value}
    tables: list
    targets: list
    layout: ob.Layout
    unit: object = "s"    # or (quantity) -> unit
    size: object = None   # (settings) -> the bytes of which the time to write them to the device is measured, too
    extra: object = None    # (run, program): measures more
    limits: object = None   # (run): adds more limits

    def measure(self, run):
        """For each MPI and place, interleaves the variants and ways."""
        def measure_mpi(mpi):
            for place in run.places.values():
                program = Program(run, self.name, mpi, place)
                self.measure_place(run, program)
                if self.extra:
                    self.extra(run, program)
        run.each_mpi(measure_mpi)
        if self.limits:
            self.limits(run)

    def measure_place(self, run, program):
        kind_of = {name: value[0] for name, value in self.variants.items()} if isinstance(self.variants, dict) else \
            {name: name for name in self.variants}
        names = [name for name, kind in kind_of.items() if kind in (None, *run.args.kinds)]
        variants = {f"{way}/{program.place.name}/{name}": functools.partial(self.lines, run, program, name, way)
                    for way in run.args.ways for name in names}
        rate = f"{program.place.name}/write-rate"
        size = self.size and self.size(run.settings)
        if size:
            variants[rate] = lambda: {size: size / program.place.write_rate(size)}
        samples = run.interleave(variants, cache_line=False)
        rates = samples.pop(rate, {})
        run.result.add_all(program.mpi.name + "/{variant}/{what}", samples, self.unit)
        if size:
            run.result.limit(f"{program.mpi.name}/{rate}", "s", rates)


# ---- Programs ----

class Program:
    """One of the programs, with one MPI, and its windows in one place."""

    def __init__(self, run, name, mpi, place):
        self.run, self.name, self.mpi, self.place = run, name, mpi, place
        self.path = run.place.compile_mpi(mpi, f"storage/{name}.c", late=[
            ob.BENCH / "storage" / source for source in (*SOURCES.get(name, ()), "window.c")])
        # Open MPI 4.1's osc component rdma crashes in MPI_Compare_and_swap on windows within a node, and cannot create
        # a window on a single rank's memory; the remaining components, sm and pt2pt, do both.
        old = mpi.version.startswith("Open MPI 4") and "OMPI_MCA_osc" not in os.environ
        self.env = {**mpi.env, **({"OMPI_MCA_osc": "^rdma"} if old else {})}

    def lines(self, ranks, kind, way, words, front=()):
        """{(quantity, x): value}. kind: of the windows. Only those on storage get the layer; the baseline in memory is
        the MPI's own window."""
        program = [self.path, "-w", kind, "-f", self.place.directory / self.name, *words]
        tasks = None if way == "processes" else [] if kind in ON_STORAGE else ["--mpi-layer", "off"]
        if way == "processes" and kind in ON_STORAGE:
            program = ["env", f"LD_PRELOAD={self.layer()}", *program]
        found = ob.medians(self.run.place.run([*front, *self.mpi.command(ranks, program, tasks)], env=self.env,
                                              timeout=self.run.args.timeout))
        self.place.clear()
        return found

    def layer(self):
        if self.run.args.layer:
            return self.run.args.layer
        name = f"libonespace-mpi-{'openmpi' if self.mpi.kind == 'openmpi' else 'mpich'}.so"
        return ob.onespace_file(f"lib*/{name}", f"lib/*/{name}")


def rate_text(run, fields):
    """The write rate of the place."""
    limit = run.result.find("{mpi}/{place}/write-rate".format(**fields))
    return f"{ob.number(statistics.median(limit.x[0] / seconds for seconds in limit.samples[0]) / 1e6)} MB/s"


# ---- Intervals ----

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


def interval_text(ratios):
    low, median, high = interval(ratios)
    return f"{median:.2f}x [{low:.2f}-{high:.2f}]"


class IntervalRatio(ob.Ratio):
    """Printed with its confidence interval."""

    def text(self, columns, x):
        samples = self.samples(columns, x)
        return interval_text(samples) if samples else "-"


STORAGE_MEMORY = IntervalRatio("storage", "memory", "storage/memory [95 %]")


def tables(columns, x, units):
    """A table for each quantity, with a column for each kind of window. units: {unit: (scale, the ends of the names of
    its quantities)}."""
    return [ob.Table(f"{{quantity}}, {TITLE}, {unit}", BY_KIND, columns, x, str, scale,
                     lambda fields, ends=ends: fields["quantity"].endswith(ends))
            for unit, (scale, ends) in units.items()]


# ---- rma: one-sided transfers, as in the RMA part of the Intel MPI Benchmarks ----

def rma_lines(run, program, kind, way):
    settings = run.settings
    selection = ["-o", settings["operations"]] if settings["operations"] else []
    return program.lines(settings.number("ranks"), kind, way, ["-n", settings["times"], *selection,
                                                               *settings["sizes"].split()])


RMA = Question(
    "rma", "What do one-sided transfers cost, when the window is on storage?", "Figures 5 and 6",
    "Transfers of 256 KiB to 4 MiB are as fast on storage windows as on memory windows.",
    {"sizes": ("8 4096 65536 1M", "8 64 512 4096 32K 256K 1M 4M", "of the transfers"),
     "times": ("100", "1000", "transfers of a measurement, at most"),
     "operations": ("", "", "a comma-separated selection"), "ranks": ("2", "2", "")},
    lambda settings: 4 * settings.number("ranks") * max(settings.numbers("sizes")),
    ["memory", "create", "mmap", "storage"], rma_lines,
    [ob.Table("{quantity}, " + TITLE + ": microseconds", BY_KIND, ["memory", "create", "mmap", "storage",
                                                                     STORAGE_MEMORY])],
    [ob.Target(WHERE + " {quantity} {x}: storage, times memory", BY_KIND, STORAGE_MEMORY, 1.1, x_text=ob.size_text)],
    ob.Layout((3,), ob.X("bytes", ob.BYTES), peers=(("memory", "storage"),)))


# ---- mstream: large puts and gets on the rank's own window, synchronised at the end ----

MSTREAM_SIZES = ("-dirty", "-written-before", "-written-sync")


def mstream_unit(quantity):
    return "bytes" if quantity.endswith(MSTREAM_SIZES) else "s"


def mstream_lines(run, program, kind, way):
    settings = run.settings
    found = program.lines(1, kind, way, [*program.place.statistics(), "-b", settings["bytes"], "-s",
                                         settings["segment"], "-n", settings["passes"], "-o", settings["accesses"],
                                         *settings["kernels"].split()])
    # KERNEL: the time of the passes plus that of the synchronisation.
    for (name, x), value in list(found.items()):
        kernel, is_passes, _ = name.partition("-passes")
        if is_passes:
            found[kernel, x] = value + found[f"{kernel}-sync", x]
    return found


def mstream_model(run, fields, kernel):
    """The reference time: that of a memory window, plus writing the dirty bytes at the device's rate."""
    def samples(kind, quantity):
        return run.result.find(f"{{mpi}}/{{way}}/{{place}}/{kind}/{quantity}".format(**fields)).samples[0]

    limit = run.result.find("{mpi}/{place}/write-rate".format(**fields))
    return [seconds + dirty / limit.x[0] * write for seconds, dirty, write in
            zip(samples("memory", kernel), samples(fields["kind"], f"{kernel}-dirty"), limit.samples[0])]


def mstream_kernels(columns):
    return [name.removesuffix("-passes") for name in columns if name.endswith("-passes")]


def print_mstream(run):
    tables = {}
    for fields, columns in run.result.groups(BY_QUANTITY):
        kind = fields["kind"]
        rows = tables.setdefault((fields["mpi"], fields["way"], fields["place"]), (fields, []))[1]
        for kernel in mstream_kernels(columns):
            whole, sync = columns[kernel].samples[0], columns[f"{kernel}-sync"].samples[0]
            sizes = [statistics.median(columns[kernel + end].samples[0]) for end in MSTREAM_SIZES]
            rows.append([f"{kernel} {kind}", ob.spread_text(whole, 1e3), ob.spread_text(sync, 1e3),
                         f"{statistics.median(ob.ratios(sync, whole)):.0%}",
                         *[ob.size_text(round(size / KIB) * KIB) for size in sizes],
                         interval_text(ob.ratios(whole, mstream_model(run, fields, kernel)))
                         if kind in ("mmap", "storage") else "-"])
    for fields, rows in tables.values():
        print("\nmSTREAM, {mpi} ({version}), {way}, window of ".format(**run.result.fields(fields))
              + f"{run.settings['bytes']} on {fields['place']}, which writes {rate_text(run, fields)}: milliseconds, "
              "median (quartiles)")
        ob.table(["", "all", "of it sync", "", "dirty", "written before", "by the sync",
                  "/ (memory + dirty/rate) [95 %]"], sorted(rows, key=lambda row: row[0].split()[0]))


def check_mstream(run, targets):
    for fields, columns in run.result.groups("{mpi}/{way}/{place}/storage/{column}"):
        fields["kind"] = "storage"
        for kernel in mstream_kernels(columns):
            targets.add(f"{WHERE} {kernel}: storage, times (memory + dirty/rate)".format(**fields), statistics.median(
                ob.ratios(columns[kernel].samples[0], mstream_model(run, fields, kernel))), 1.15)


MSTREAM = Question(
    "mstream", "How fast are large accesses to a window on storage, its synchronisation included?",
    "Figures 7, 8 and 13",
    "On an SSD storage windows reach 44 % of the throughput of memory windows; a third of the time is the flush.",
    {"bytes": ("128M", "1G", "of the window"), "segment": ("4M", "16M", "of each access"),
     "passes": ("3", "10", "through the window, after a warm-up"),
     "kernels": ("SEQ PAD RND MIX", "SEQ PAD RND MIX", ""),
     "accesses": ("both", "both", "both, put or get (Figures 8b and 13b)")},
    lambda settings: 2 * settings.number("bytes") + 64 * MIB, ["memory", "mmap", "storage", "combined"], mstream_lines,
    [print_mstream], [check_mstream],
    ob.Layout((2, 3), ob.X("bytes", ob.BYTES), peers=(("memory", "storage"), ("mmap", "storage"))), mstream_unit,
    lambda settings: settings.number("bytes"))


# ---- scattered: what a synchronisation writes. A kernel with large folios in its page cache writes whole folios ----

def scattered_lines(run, program, kind, way):
    settings = run.settings
    # Other programs use the disk too: there the processes' own counts are more accurate.
    statistics_words = program.place.statistics() if program.place.name == "fast" else []
    return program.lines(1, kind, way, [*statistics_words, "-b", settings["bytes"], "-s", settings["stores"],
                                        *settings["states"].split()])


def limit_scattered(run):
    stores = run.settings.number("stores")
    run.result.limit("stored", "bytes", {stores: [float(stores * 4096)] * run.args.repeats})


SCATTERED = Question(
    "scattered", "How much is written when few pages of a window on storage have changed?", "Section 2.1, MPI_Win_sync",
    "A synchronisation writes the pages that have changed since the last one.",
    {"bytes": ("512M", "512M", "of the window"), "stores": ("132", "132", "of 4 KiB, scattered over it"),
     "states": ("fresh reopened written", "fresh reopened written", "of the window before")},
    lambda settings: 2 * settings.number("bytes") + 128 * MIB,  # XFS frees removed space with a delay
    ["mmap", "storage"], scattered_lines,
    tables(["mmap", "storage"], "stores of 4 KiB", {"MiB": (1 / MIB, "-written"), "milliseconds": (1e3, "-sync")}),
    [ob.Target(f"{WHERE} {state}: MiB written", f"{{mpi}}/{{way}}/{{place}}/{{column}}/{state}-written", "storage", 1.0,
               scale=1 / MIB) for state in ("fresh", "reopened", "written")],
    ob.Layout((2, 3), ob.X("stores"), peers=(("mmap", "storage"),)),
    lambda quantity: "bytes" if quantity.endswith("-written") else "s", limits=limit_scattered)


# ---- commits: versions of a window of which little has changed; the mapped file is only synchronised ----

def commits_lines(run, program, kind, way):
    settings = run.settings
    return program.lines(settings.number("ranks"), kind, way, ["-b", settings["bytes"], "-p", settings["percent"], "-n",
                                                               settings["commits"]])


def limit_commits(run):
    percent = run.settings.number("percent")
    run.result.limit("changed", "bytes", {percent: [run.settings.number("bytes") * percent / 100] * run.args.repeats})


def check_commits(run, targets):
    changed = run.result.find("changed").samples[0][0]
    for fields, columns in run.result.groups("{mpi}/{way}/{place}/storage/{column}"):
        moved = [read + written for read, written in zip(*(columns[what].samples[0] for what in ("read", "written")))]
        # In two versions, and once more by the next rank.
        targets.add(f"{WHERE}: bytes read and written, times those changed".format(**fields),
                    statistics.median(moved) / changed, 4)


COMMITS = Question(
    "commits", "What does a version cost of a window of which few pages have changed?", "Section 4, fault tolerance",
    "A commit reads and writes what has changed, and not the window.",
    {"bytes": ("256M", "1G", "of all ranks"), "percent": ("1", "1", "of the pages that change between commits"),
     "commits": ("5", "11", "whose median counts"), "ranks": ("2", "2", "")},
    lambda settings: 3 * settings.number("bytes") + 128 * MIB, ["mmap", "storage"], commits_lines,
    tables(["mmap", "storage"], "per cent", {"milliseconds": (1e3, ("store", "commit")),
                                             "MiB": (1 / MIB, ("read", "written"))}), [check_commits],
    ob.Layout((2, 3), ob.X("per cent of the pages"), peers=(("mmap", "storage"),)),
    lambda quantity: "bytes" if quantity in ("read", "written") else "s", limits=limit_commits)


# ---- dht: a distributed hash table, in core and out of core ----

def table_bytes(settings, slots):
    return settings.number("ranks") * slots * (1 + settings.number("heap")) * ELEMENT_BYTES


def dht_unit(quantity):
    return "bytes" if quantity.endswith("table") else "s"


def table_lines(run, program, kind, way, slots, front=()):
    found = program.lines(run.settings.number("ranks"), kind, way, ["-s", slots, "-x", run.settings["heap"]], front)
    return {**found, ("all", slots): found["insert", slots] + found["sync", slots]}


def dht_lines(run, program, kind, way):
    return {key: value for slots in run.settings.numbers("slots")
            for key, value in table_lines(run, program, kind, way, slots).items()}


def measure_out_of_core(run, program):
    """A control group with a memory limit stands in for a small machine. Memory windows run without the limit: the
    baseline is a larger machine. A plainly mapped file is left out: each fault reads hundreds of KiB (the device's
    read-ahead), which evicts the rest of the table, so that it does not finish in useful time."""
    settings, way, place, name = run.settings, run.args.ways[0], program.place.name, program.mpi.name
    slots, kinds = settings.number("limited"), [kind for kind in ON_STORAGE if kind in run.args.kinds]
    if not slots:
        return
    try:
        with places.MemoryLimit(4 << 30) as group:  # the ranks' memory apart from the table; the layer adds to it
            for kind in ("memory", *kinds):
                table_lines(run, program, kind, way, KIB, group.front())
            base = group.peak() or settings.number("ranks") * 48 * MIB
        limit = base + table_bytes(settings, slots) * settings.number("limit") // 100
        run.result.note(f"{name}, {place}: out of core, a table of {ob.size_text(table_bytes(settings, slots))} in "
                        f"{limit >> 20} MiB, of which {base >> 20} MiB are for the ranks")

        def limited(kind):
            with places.MemoryLimit(limit) as group:
                return table_lines(run, program, kind, way, slots, group.front())

        samples = run.interleave({"memory": lambda: table_lines(run, program, "memory", way, slots),
                                  **{kind: functools.partial(limited, kind) for kind in kinds}}, cache_line=False)
        run.result.add_all(f"{name}/{way}/{place}/{{variant}}/limited-{{what}}", samples, dht_unit)
    except (ob.Failure, OSError) as failure:
        run.result.note(f"{name}, {place}: not out of core: {failure}")
        return
    try:
        limited("memory")
        run.result.note(f"{name}: memory windows ran within {limit >> 20} MiB")
    except ob.Failure:
        run.result.note(f"{name}: memory windows do not fit into {limit >> 20} MiB: the job was killed")


DHT = Question(
    "dht", "What does a hash table in windows on storage cost, while it fits into memory and when it does not?",
    "Figures 9 and 10", "On an SSD inserts take 20 % longer than in memory, 8 % with half of the window in memory; "
    "beyond the memory's size 89 % and 13 to 36 %.",
    {"slots": ("16K", "64K 128K 256K", "of each rank, in core"), "ranks": ("2", "2", ""),
     "heap": ("4", "4", "elements on the heap for each slot"),
     "limited": ("128K", "512K", "slots of each rank, out of core; 0: leave it out"),
     "limit": ("60", "60", "memory for the table, per cent of its size")},
    lambda settings: table_bytes(settings, max(settings.numbers("slots") + settings.numbers("limited"))) * 3 // 2
    + 64 * MIB, ["memory", "mmap", "storage", "combined"], dht_lines,
    tables(["memory", "mmap", "storage", "combined", STORAGE_MEMORY, IntervalRatio("combined", "memory")],
           "slots of each rank", {"milliseconds": (1e3, ("insert", "sync", "all")), "MiB": (1 / MIB, ("table",))}),
    [ob.Target(f"{WHERE} {{x}} slots, in core: {kind}, times memory", "{mpi}/{way}/{place}/{column}/insert",
               ob.Ratio(kind, "memory"), bound) for kind, bound in (("storage", 1.1), ("combined", 1.05))],
    ob.Layout((3,), ob.X("slots"), peers=(("memory", "storage"), ("mmap", "storage"))), dht_unit,
    extra=measure_out_of_core)


# ---- hacc: checkpoint and restart against MPI I/O, with the data on the device at the end ----

NO_SIEVING = ["-H", "romio_ds_write=disable", "-H", "romio_ds_read=disable"]
LARGE_BUFFERS = ["-H", "romio_cb_write=enable", "-H", "romio_cb_read=enable", "-H", "cb_buffer_size=67108864"]
# {variant: (kind of window, words)}
MPI_IO = {"independent": ("memory", ["-m", "independent"]),
          "independent-no-sieving": ("memory", ["-m", "independent", *NO_SIEVING]),
          "collective": ("memory", ["-m", "collective"]),
          "collective-64M": ("memory", ["-m", "collective", *LARGE_BUFFERS])}
WINDOWS = {"mmap": ("mmap", []), "storage": ("storage", []),
           "storage-once": ("storage", ["-H", "access_style=read_once,write_once"])}
HINTED = "storage-once"  # compared with MPI I/O with its best hints


def hacc_lines(run, program, name, way):
    kind, words = {**MPI_IO, **WINDOWS}[name]
    found = {}
    for particles in run.settings.numbers("particles"):
        found |= program.lines(run.settings.number("ranks"), kind, way, [*words, "-n", particles])
    return found


def best_mpi_io(columns, x):
    return min((name for name in MPI_IO if name in columns), key=lambda name: statistics.median(columns[name].at(x)))


def print_hacc(run):
    for fields, columns in run.result.groups(BY_KIND):
        for x in next(iter(columns.values())).x:
            best = best_mpi_io(columns, x)
            print(f"\n{fields['quantity']} of {x} particles ({x * PARTICLE_BYTES / MIB:.0f} MiB), "
                  f"{TITLE.format(**run.result.fields(fields))}, which writes {rate_text(run, fields)}: milliseconds, "
                  "median (quartiles)")
            ob.table(["", "time", f"/ {best} [95 %]"],
                     [[name, ob.spread_text(series.at(x), 1e3),
                       interval_text(ob.ratios(series.at(x), columns[best].at(x)))]
                      for name, series in columns.items()])


def check_hacc(run, targets):
    for fields, columns in run.result.groups(BY_KIND):
        for x in columns[HINTED].x if HINTED in columns else []:
            best = best_mpi_io(columns, x)
            targets.add(f"{WHERE} {{quantity}} of {x}: {HINTED}, times {best}".format(**fields), statistics.median(
                ob.ratios(columns[HINTED].at(x), columns[best].at(x))), {"fast": 0.9, "disk": 1.0}[fields["place"]])


HACC = Question(
    "hacc", "How fast are checkpoint and restart by a window on storage, compared with MPI I/O?", "Figure 11",
    "On a local disk MPI I/O is 2 to 4 % faster; on Lustre windows on storage are 32 % faster.",
    {"particles": ("200K", "8M", "of all ranks"), "ranks": ("2", "2", "")},
    # XFS needs as much space again if a file's space is already allocated.
    lambda settings: 3 * max(settings.numbers("particles")) * PARTICLE_BYTES + HACC_HEADER + 64 * MIB,
    {**MPI_IO, **WINDOWS}, hacc_lines, [print_hacc], [check_hacc],
    ob.Layout((2, 3), ob.X("particles"), peers=(("collective", "storage"), ("independent", "storage"))),
    size=lambda settings: sum(settings.numbers("particles")) * PARTICLE_BYTES)


# ---- mapreduce: a word count with checkpoints, with constant work per rank (weak scaling) or in total (strong) ----

# {variant: (kind of window or None for two-sided, words)}; the first of each group is without checkpoints.
COUNTERS = {"one-sided": ("memory", []), "one-sided-mmap": ("mmap", ["-c"]), "one-sided-storage": ("storage", ["-c"]),
            "two-sided": (None, ["-m", "two"]), "two-sided-whole": (None, ["-m", "two", "-c"]),
            "two-sided-new": (None, ["-m", "two", "-c", "-i"])}


class Corpora:
    """Texts with word frequencies that follow Zipf's law, or the one of --text, and plain counts of their words."""

    def __init__(self, run):
        self.run, self.counted = run, {}
        self.program = run.place.compile("storage/corpus.c")

    def text(self, size):
        """(path, the expected output)"""
        size = 0 if self.run.args.text else size
        if size not in self.counted:
            path = self.run.args.text or self.run.place.path / f"corpus-{size}"
            if not self.run.args.text:
                self.run.place.run(["sh", "-c", 'exec "$0" "$1" "$2" >"$3"', self.program, size,
                                    self.run.settings["vocabulary"], path])
            ob.progress(f"counting the words of {path} for comparison")
            self.counted[size] = path, plain_count(path)
        return self.counted[size]


def plain_count(path):
    """Lines "COUNT WORD", in order of the words, of which the first 255 bytes count."""
    counts, rest = collections.Counter(), b""
    with open(path, "rb") as file:
        while block := file.read(1 << 24):
            block = rest + block
            end = re.search(rb"[A-Za-z0-9\x80-\xff]*\Z", block).start()
            counts.update(word[:255] for word in re.findall(rb"[a-z0-9\x80-\xff]+", block[:end].lower()))
            rest = block[end:]
    counts.update(word[:255] for word in re.findall(rb"[a-z0-9\x80-\xff]+", rest.lower()))
    return b"".join(b"%d %s\n" % (counts[word], word) for word in sorted(counts))


def mapreduce_lines(run, program, name, way):
    (kind, words), settings, found = COUNTERS[name], run.settings, {}
    run.corpora = run.corpora or Corpora(run)
    output = run.place.path / "output"
    for scaling in settings["scalings"].split():
        for ranks in settings.numbers("ranks"):
            text, expected = run.corpora.text(settings.number("bytes") * (ranks if scaling == "weak" else 1))
            measured = program.lines(ranks, kind or "memory", way, ["-s", settings["part"], "-o", output, *words, text])
            if output.read_bytes() != expected:
                raise ob.Failure(f"{name} with {ranks} ranks counted other words than a plain count of {text}")
            output.unlink()
            found |= {(f"{scaling}-{quantity}", ranks): value for (quantity, _), value in measured.items()}
    return found


def without(name):
    """The same variant without checkpoints."""
    return "-".join(name.split("-")[:2])


def overhead(columns, name, x):
    return ob.ratios(columns[name].at(x), columns[without(name)].at(x))


def check_mapreduce(run, targets):
    for fields, columns in run.result.groups("{mpi}/{way}/{place}/{column}/weak-total"):
        for x in columns["one-sided-storage"].x if "one-sided-storage" in columns else []:
            ours, theirs = (overhead(columns, name, x) for name in ("one-sided-storage", "two-sided-whole"))
            where = f"{WHERE}, {x} ranks".format(**fields)
            targets.add(f"{where}: with checkpoints, times without", statistics.median(ours), 1.04)
            targets.add(f"{where}: that, times the two-sided version's",
                        statistics.median(ob.ratios(ours, theirs)), 1.0)


MAPREDUCE = Question(
    "mapreduce", "What do checkpoints of a MapReduce cost by windows on storage, and by MPI I/O?", "Figure 12",
    "In weak scaling checkpoints by windows on storage cost 3.8 % on average; with 512 ranks the job is 59 % faster.",
    {"bytes": ("8M", "512M", "of the text: for each rank in weak, of all in strong scaling"),
     "part": ("1M", "64M", "of the text, for each task; a checkpoint follows each"), "ranks": ("2", "1 2", ""),
     "scalings": ("weak", "weak strong", ""), "vocabulary": ("20000", "100000", "different words of the text")},
    lambda settings: max(settings.numbers("ranks")) * (settings.number("bytes") // 2 + 32 * MIB) * 2 + 64 * MIB,
    COUNTERS, mapreduce_lines,
    [*tables([*COUNTERS, *(IntervalRatio(name, without(name)) for name in COUNTERS if name != without(name))], "ranks",
             {"milliseconds": (1e3, "total")}),
     *tables(COUNTERS, "ranks", {"milliseconds": (1e3, "checkpoint"), "MiB": (1 / MIB, "durable")})], [check_mapreduce],
    ob.Layout((2, 3), ob.X("ranks"), peers=(("two-sided", "one-sided-storage"),)),
    lambda quantity: "bytes" if quantity.endswith("durable") else "s")

QUESTIONS = {question.name: question for question in (RMA, MSTREAM, SCATTERED, COMMITS, DHT, HACC, MAPREDUCE)}
