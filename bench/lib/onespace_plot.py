"""bench/lib/onespace_plot.py: plots of results, as PNG and SVG: logarithmic axes, medians with the
quartiles as a band; curves differ in colour, line style and marker, for colour-blind readers and grey
printers. Needs matplotlib."""
import statistics
import textwrap

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as pyplot
from matplotlib import ticker

import onespace_bench as ob

# Okabe and Ito's palette.
STYLES = {
    "processes": {"color": "#D55E00", "linestyle": "-", "marker": "s"},
    "tasks": {"color": "#0072B2", "linestyle": "-", "marker": "o"},
    "limit": {"color": "#555555", "linestyle": "--", "marker": ""},
    "third": {"color": "#009E73", "linestyle": "-.", "marker": "^"},
    "fourth": {"color": "#CC79A7", "linestyle": ":", "marker": "D"},
    "fifth": {"color": "#E69F00", "linestyle": "-.", "marker": "v"},
}


class Axis:
    def __init__(self, axis):
        self.axis = axis
        self.lowest = self.highest = None

    def _note(self, values):
        self.lowest = min(values + ([self.lowest] if self.lowest else []))
        self.highest = max(values + ([self.highest] if self.highest else []))

    def curve(self, x, samples, style, label, marked=True):
        """samples: a list per x. marked: a marker on each point."""
        spreads = [ob.Spread.of(values) for values in samples]
        look = dict(STYLES[style], **({} if marked else {"marker": "", "linewidth": 1}))
        self.axis.plot(x, [spread.median for spread in spreads], label=label,
                       **{"linewidth": 1.8, "markersize": 5, **look})
        self.axis.fill_between(x, [spread.low for spread in spreads], [spread.high for spread in spreads],
                               color=look["color"], alpha=0.2, linewidth=0)
        self._note([spread.median for spread in spreads])

    def ratios(self, groups, samples, label="processes"):
        """Bars around 1, the line that `label` names: samples holds the ratios of each group."""
        spreads = [ob.Spread.of(values) for values in samples]
        medians = [spread.median for spread in spreads]
        self.axis.bar(range(len(groups)), medians, 0.6, color=STYLES["tasks"]["color"],
                      yerr=[[m - s.low for m, s in zip(medians, spreads)],
                            [s.high - m for m, s in zip(medians, spreads)]],
                      error_kw={"elinewidth": 1.2, "capsize": 3, "ecolor": "#222222"})
        for at, spread in enumerate(spreads):
            self.axis.annotate(f"{spread.median:.2f}", (at, spread.high), textcoords="offset points",
                               xytext=(0, 3), ha="center", fontsize=9)
        self.axis.margins(y=0.18)  # for the legend
        self.axis.axhline(1, color=STYLES["processes"]["color"], linewidth=1.8, label=label)
        self.axis.set_xticks(range(len(groups)), groups)

    def finish(self, title, x_label, y_label, sizes=False, counts=None, linear=False):
        """sizes: x is in bytes; counts: the values of x to name; linear: y from 0."""
        axis = self.axis
        axis.set_title(title, fontsize=10)
        axis.set_xlabel(x_label)
        axis.set_ylabel(y_label)
        if not linear:
            axis.set_yscale("log")
        if sizes:
            axis.set_xscale("log", base=2)
            axis.xaxis.set_major_locator(ticker.LogLocator(base=8, numticks=12))
            axis.xaxis.set_major_formatter(lambda x, _: ob.size_text(int(x)) if x >= 1 else "")
        elif counts:
            axis.set_xscale("log")
            axis.set_xticks(counts, [f"{x:g}" for x in counts])
            axis.xaxis.set_minor_locator(ticker.NullLocator())
        if not linear and self.highest / self.lowest < 30:  # too few powers of ten for ticks
            axis.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
        axis.yaxis.set_minor_formatter(ticker.NullFormatter())
        axis.grid(True, which="major", color="#dddddd", linewidth=0.8)
        axis.set_axisbelow(True)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
        axis.legend(frameon=False, fontsize=9)


def figure_of(rows, columns, result):
    """A figure with its caption, and axes[row][column]."""
    width = max(5.6 * columns, 7.5)
    figure, axes = pyplot.subplots(rows, columns, figsize=(width, 1.0 + 3.7 * rows), squeeze=False,
                                   layout="constrained")
    figure.suptitle(result.question, fontsize=12)
    cas = result.machine["cache_line_round_trip_s"]
    caption = (f"{result.machine['cpu']}, {result.machine['cpus']} CPUs, "
               f"Linux {result.machine['kernel']}; {result.versions['onespace']}")
    if cas:
        caption += f"; cache line round trip {statistics.median(cas) * 1e9:.0f} ns"
    caption = textwrap.fill(f"{caption}. Medians; bands and whiskers: quartiles.", int(width * 17))
    figure.supxlabel(caption, fontsize=8, color="#555555")
    return figure, [[Axis(axis) for axis in row] for row in axes]


def save(draw, result, stem):
    """draw(figure_of, result) makes the figure. The paths written."""
    figure = draw(figure_of, result)
    paths = [f"{stem}.png", f"{stem}.svg"]
    for path in paths:
        figure.savefig(path, dpi=130)
    pyplot.close(figure)
    return paths
