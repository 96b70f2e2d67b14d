"""bench/lib/onespace_report_summary.py: what the report begins with: what was gained, on what, and how sure that is.
Each line compares two series that differ only in the peers, at one x: unlike things have no common ratio."""
import dataclasses

import onespace_bench as ob
from onespace_report_chart import quantity, x_words
from onespace_report_looks import COUNTS

# Most asked first: the beginnings of the files' names. What is not named comes after them, by name.
ORDER = ("p2p", "applications", "miniapps", "collectives", "solvers", "startup", "memory", "scale", "windows",
         "storage", "insitu", "python", "pool", "sync", "ghost", "messagerate", "configurations", "xpmem", "heap",
         "mappings", "spawn", "pagetables", "strided", "teams", "sweep", "call", "handover", "adios2")
LINES = 3      # of one result in the summary
ENOUGH = 5     # repeats
EQUAL = 0.03   # a difference that nobody notices
WIDE = 0.3     # of the middle half of the ratios, relative to their median
BETTER = {"s": "as fast", "cycles": "as fast"}
WORSE = {"s": "as long", "cycles": "as long", "bytes": "as much"}


@dataclasses.dataclass
class Comparison:
    what: list   # the parts of the names that both series have in common
    x: float
    unit: str
    peers: tuple
    theirs: ob.Spread
    ours: ob.Spread
    ratio: ob.Spread  # theirs over ours, within each repeat
    repeats: int

    def sentence(self, look, versions):
        """`versions` has the full names of MPI libraries."""
        x = look.x_of(self.what)
        at = x_words(x, self.x)
        at = " ".join((at, x.label) if x.kind == COUNTS else (x.label, at)).strip()
        head = ", ".join([*(versions.get(part, part) for part in self.what), at])
        return (f"{head}: {quantity(self.ours.median, self.unit)} ({self.peers[1]}) instead of "
                f"{quantity(self.theirs.median, self.unit)} ({self.peers[0]})")

    def is_unclear(self):
        return self.ratio.low <= 1 <= self.ratio.high and self.ratio.high - self.ratio.low > 4 * EQUAL

    def is_level(self):
        return self.ratio.low <= 1 <= self.ratio.high or abs(self.ratio.median - 1) < EQUAL

    def gain(self):
        if self.is_level():
            return "unclear" if self.is_unclear() else "the same"
        faster = self.ratio.median > 1 and self.unit in BETTER
        times = self.ratio.median if faster else 1 / self.ratio.median
        return f"{times:.1f} times {BETTER[self.unit]}" if faster else f"{times:.2f} times {WORSE[self.unit]}"

    def sureness(self, busy):
        runs = f"{self.repeats} runs" if self.repeats > 1 else "one run"
        if self.repeats < ENOUGH:
            return f"a first look: {runs}" + (", on a busy machine" if busy else "")
        faster = self.ratio.median > 1 and self.unit in BETTER or self.is_level()
        ends = (self.ratio.low, self.ratio.high) if faster else (1 / self.ratio.high, 1 / self.ratio.low)
        span = f"{ends[0]:.2f} to {ends[1]:.2f} times in half of {runs}"
        if busy:
            return f"doubtful, the machine was busy: {span}"
        if self.is_unclear():
            return f"no difference is shown: {span}"
        return f"{'scatters' if self.ratio.high - self.ratio.low > WIDE * self.ratio.median else 'sure'}: {span}"


def comparisons(result, look):
    """[Comparison] in the order of the series: of the first peers that any two series have, each pair of series at
    the x that the look speaks of, else at its largest."""
    series = {one["name"]: one for one in result["series"] if one["unit"] in WORSE}
    for peers in look.peers:
        found = []
        for name, theirs in series.items():
            parts = name.split("/")
            ours = series.get("/".join(peers[1] if part == peers[0] else part for part in parts))
            if peers[0] not in parts or not ours or ours["unit"] != theirs["unit"]:
                continue
            common = [at for at in theirs["x"] if at in ours["x"] and min(sample(ours, at) + sample(theirs, at)) > 0]
            if not common:
                continue
            at = min(common, key=lambda one: abs(one - look.headline)) if look.headline else max(common)
            a, b = sample(theirs, at), sample(ours, at)
            what = [part for part in parts if part != peers[0]]
            found.append(Comparison(what, at, theirs["unit"], peers, ob.Spread.of(a), ob.Spread.of(b), ob.ratio(a, b),
                                    min(len(a), len(b))))
        if found:
            return found
    return []


def sample(series, at):
    return series["samples"][series["x"].index(at)]


def rank(path):
    """What sorts results: place in ORDER, then the name."""
    words = path.stem + "-"
    return next((number for number, name in enumerate(ORDER) if words.startswith(name + "-")), len(ORDER))


def was_busy(result):
    return any(note.startswith("other programs are running") for note in result.get("notes", []))


def machines(results):
    """Words for the machines of all results, each once."""
    words = {}
    for result in results:
        machine = result["machine"]
        words[f"{machine['cpu']}, {machine['cpus']} CPUs, {quantity(float(machine['memory_bytes']), 'bytes')}, "
              f"Linux {machine['kernel']}"] = None
    return list(words)
