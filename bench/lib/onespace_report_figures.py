"""bench/lib/onespace_report_figures.py: arranges the series of one benchmark as figures: which curves go into a figure,
in which colours, with which limits, and what tasks gain over processes in it."""
import dataclasses

import onespace_bench as ob
from onespace_report_chart import Curve

TIMES = ("s", "cycles")
FIRST_COLOURS = {"tasks": 0, "processes": 1}  # the same throughout the page


@dataclasses.dataclass
class Figure:
    title: str
    unit: str
    x: object        # onespace_report_looks.X
    parts: frozenset  # of the names of all its series
    curves: list


def figures_of(result, look):
    """[Figure] in the order of the series."""
    colours = Colours()
    figures = {}
    for one in result["series"]:
        parts = one["name"].split("/")
        chosen = [i % len(parts) for i in look.curves if -len(parts) <= i < len(parts)]
        fixed = [part for i, part in enumerate(parts) if i not in chosen]
        x = look.x_of(parts)
        figure = figures.setdefault((tuple(fixed), one["unit"], x),
                                    Figure(" / ".join(fixed), one["unit"], x, frozenset(fixed), []))
        figure.curves.append(colours.curve(one, [parts[i] for i in chosen]))
    found = list(figures.values())
    for limit in result["limits"]:
        add_limit(limit, found, look)
    return found


class Colours:
    """A name has the same colour in all figures of a benchmark. In a name of two parts the last gives the colour and
    the first the line style: dashed for processes, full for tasks, alternating for others."""

    def __init__(self):
        self.taken = dict(FIRST_COLOURS)
        self.firsts = []

    def curve(self, one, parts):
        colour = self.taken.setdefault(parts[-1], len(self.taken))
        first = " ".join(parts[:-1])
        if first not in self.firsts:
            self.firsts.append(first)
        dashed = first == "processes" or first != "tasks" and self.firsts.index(first) % 2 == 1
        return Curve(", ".join(parts), one["x"], one["samples"], colour, dashed)


def add_limit(limit, figures, look):
    """Adds the limit to each figure of its unit whose name has all parts that the limit's name shares with any figure:
    to those that have an x of the limit's; if there are none and it was measured at a single x, to all."""
    parts = limit["name"].split("/")
    shared = {part for part in parts if any(part in figure.parts for figure in figures)}
    fitting = [figure for figure in figures if figure.unit == limit["unit"] and shared <= figure.parts]
    matching = [figure for figure in fitting
               if any(at in curve.x for curve in figure.curves for at in limit["x"])]
    if not matching and len(limit["x"]) == 1:
        matching = fitting
    own = [part for part in parts if part not in shared]
    label = "limit: " + ", ".join(own or parts) if own != ["limit"] else "limit"
    if not matching:
        matching = [Figure(" / ".join(parts), limit["unit"], look.x_of(parts), frozenset(parts), [])]
        figures += matching
    for figure in matching:
        figure.curves.append(Curve(label, limit["x"], limit["samples"], limit=True))


# ---- What is gained ----

def ratios(theirs, ours):
    """{x: their time over ours, within each repeat}; both are (x, samples)."""
    mine = dict(zip(*ours))
    return {at: ob.ratio(samples, mine[at]) for at, samples in zip(*theirs) if at in mine and min(mine[at]) > 0}


def gains(figure, peers):
    """The peers that a figure shows the times of."""
    theirs, ours = (next(((curve.x, curve.samples) for curve in figure.curves if curve.label == name), None)
                    for name in peers)
    return ratios(theirs, ours) if theirs and ours and figure.unit in TIMES else {}
