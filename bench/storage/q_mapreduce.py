"""MapReduce: a word count, one-sided with checkpoints by windows on storage, and two-sided with checkpoints by
collective MPI I/O, with constant work per rank (weak scaling) or in total (strong scaling) (Figure 12). The text is
artificial with word frequencies that follow Zipf's law, or the one of --text. Each result is compared with a plain
count."""
import collections
import functools
import re

import jobs
import onespace_bench as ob
import onespace_mpi

QUESTION = "What do checkpoints of a MapReduce cost by windows on storage, and by MPI I/O?"
FIGURE = "Figure 12"
CLAIM = ("In weak scaling checkpoints by windows on storage cost 3.8 % on average; with 512 ranks the job is 59 % "
         "faster.")
SETTINGS = {"bytes": ("8M", "512M", "of the text: for each rank in weak, of all in strong scaling"),
            "part": ("1M", "64M", "of the text, for each task; behind each is a checkpoint"),
            "ranks": ("2", "1 2", ""), "scalings": ("weak", "weak strong", ""),
            "vocabulary": ("20000", "100000", "different words of the made-up text")}
BOUND = 1.04
UNITS = {"durable": "bytes"}
# name: (kind of window or None for two-sided, words); the first of each way is the one without checkpoints
VARIANTS = {"one-sided": ("memory", []), "one-sided-mmap": ("mmap", ["-c"]), "one-sided-storage": ("storage", ["-c"]),
            "two-sided": (None, ["-m", "two"]), "two-sided-whole": (None, ["-m", "two", "-c"]),
            "two-sided-new": (None, ["-m", "two", "-c", "-i"])}


def bytes_needed(settings):
    size, most = settings.number("bytes"), max(settings.numbers("ranks"))
    return most * (size // 2 + (32 << 20)) * 2 + (64 << 20)


class Corpora:
    """Texts and the plain counts of their words, by size."""

    def __init__(self, context):
        self.context, self.made = context, {}
        self.program = context.work.compile(jobs.HERE / "corpus.c", "corpus")

    def of(self, size):
        """(path, the expected output)"""
        if self.context.args.text:
            size = 0
        if size not in self.made:
            path = self.context.args.text or self.make(size)
            ob.progress(f"counting the words of {path} for comparison")
            self.made[size] = path, plain_count(path)
        return self.made[size]

    def make(self, size):
        path = self.context.work.path / f"corpus-{size}"
        self.context.work.run(["sh", "-c", 'exec "$0" "$1" "$2" >"$3"', self.program, size,
                               self.context.settings["vocabulary"], path])
        return path


def plain_count(path):
    counts = collections.Counter()
    rest = b""
    with open(path, "rb") as file:
        while block := file.read(1 << 24):
            block = rest + block
            cut = re.search(rb"[A-Za-z0-9\x80-\xff]*\Z", block).start()
            counts.update(re.findall(rb"[a-z0-9\x80-\xff]+", block[:cut].lower()))
            rest = block[cut:]
    counts.update(re.findall(rb"[a-z0-9\x80-\xff]+", rest.lower()))
    cut = collections.Counter()
    for word, times in counts.items():
        cut[word[:255]] += times
    return b"".join(b"%d %s\n" % (cut[word], word) for word in sorted(cut))


def measure(context, result):
    corpora = Corpora(context)

    def one_mpi(mpi):
        program = jobs.Program("mapreduce", mpi, context.work, context.args)
        names = [name for name, (kind, _) in VARIANTS.items() if kind in (None, *context.kinds)]
        for place in context.places.values():
            run = functools.partial(all_sizes, context, program, corpora, place)
            jobs.measure_ways(context, result, mpi, place, names, run, UNITS)
    onespace_mpi.each_mpi(context.args, result, one_mpi)


def all_sizes(context, program, corpora, place, name, way):
    settings, found = context.settings, {}
    kind, words = VARIANTS[name]
    output = context.work.path / "output"
    for scaling in settings["scalings"].split():
        for ranks in settings.numbers("ranks"):
            size = settings.number("bytes") * (ranks if scaling == "weak" else 1)
            corpus, expected = corpora.of(size)
            text = program.run(ranks, kind or "memory", ["-f", place.directory / "mr", "-s", settings["part"],
                                                         "-o", output, *words, corpus], way=way)
            place.clear()
            if output.read_bytes() != expected:
                raise ob.Failure(f"{name} with {ranks} ranks counted other words than a plain count of {corpus}")
            output.unlink()
            found.update({(f"{scaling}-{quantity}", ranks): value
                          for (quantity, _), value in jobs.values(text).items()})
    return found


def groups(result):
    """{(mpi, way, place): {scaling: {variant: {quantity: series}}}}"""
    def keys_of(variant, quantity):
        scaling, what = quantity.split("-", 1)
        return scaling, variant, what
    return jobs.grouped(result, keys_of)


def overhead(variants, name, x):
    """Ratios to the same without checkpoints."""
    base = name if name in ("one-sided", "two-sided") else name.rsplit("-", 1)[0]
    return jobs.pairs(variants[name]["total"].at(x), variants[base]["total"].at(x))


def print_tables(result):
    for (mpi, way, place), scalings in groups(result).items():
        for scaling, variants in scalings.items():
            print(f"\nMapReduce, {scaling} scaling, {mpi} ({result.versions[mpi]}), {way}, checkpoints on {place}: "
                  "milliseconds, median (quartiles)")
            rows = [[f"{x} {name}", *[ob.spread_text(found[what].at(x), 1e3) for what in ("total", "checkpoint")],
                     ob.number(found["durable"].at(x)[0] / 2**20), jobs.pair_text(overhead(variants, name, x))]
                    for x in next(iter(variants.values()))["total"].x for name, found in variants.items()]
            ob.table(["ranks", "total", "checkpoints", "MiB", "/ without [95 %]"], rows)


def check_targets(result, targets):
    for (mpi, way, place), scalings in groups(result).items():
        variants = scalings.get("weak", {})
        for x in variants["one-sided-storage"]["total"].x if "one-sided-storage" in variants else []:
            ours, theirs = (overhead(variants, name, x) for name in ("one-sided-storage", "two-sided-whole"))
            where = f"{mpi} {way} {place}, {x} ranks"
            jobs.add_target(targets, f"{where}: with checkpoints, times without", ours, BOUND)
            jobs.add_target(targets, f"{where}: that, times the two-sided version's", jobs.pairs(ours, theirs), 1.0)


def plot(figure_of, result):
    """The cost of checkpoints."""
    found = groups(result)
    scalings = list(next(iter(found.values())))
    figure, axes = figure_of(len(found), len(scalings), result)
    for row, ((mpi, way, place), by_scaling) in enumerate(found.items()):
        for column, scaling in enumerate(scalings):
            variants = by_scaling[scaling]
            x = next(iter(variants.values()))["total"].x[-1]
            names = [name for name in variants if name not in ("one-sided", "two-sided")]
            axes[row][column].ratios([name.replace("-sided-", "-sided\n") for name in names],
                                     [overhead(variants, name, x) for name in names], label="without checkpoints")
            axes[row][column].finish(f"{scaling} scaling, {x} ranks, {mpi}, {way}, {place}", "",
                                     "time, times that without", linear=True)
    return figure
