"""bench/lib/onespace_figures.py: figures of a result (onespace-bench/1), by matplotlib: medians with their quartiles,
over x as curves, or as rows of dots where x is a name or a single number. Curves differ in colour, line style and
marker, for colour-blind readers and grey printers. Without matplotlib, text and tables still work: only panels_of(),
quantity() and x_text() are used then."""
import dataclasses
import io
import math
import statistics
import textwrap

from onespace_bench import BYTES, NAMES, Layout, Spread, X, ratio

try:
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker
except ImportError:
    matplotlib = None

TIMES = ("s", "cycles")
AXES = {"s": "time", "bytes": "memory", "count": "number", "cycles": "cycles", "ratio": "ratio"}  # by unit
FIXED_COLOURS = {"tasks": 0, "processes": 1}  # the same in all figures
# Okabe and Ito's palette, extended.
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#3399cc", "#6b4fbb", "#7a5230"]
MARKERS = "osD^vP*X"
LIMIT_COLOUR = "#555555"
BANDS = 5         # up to so many curves, quartiles are bands; otherwise error bars
POINTS = 40       # up to so many points, each gets a marker
MATRIX_LABELS = 16  # on each axis of a heat map
COLUMNS = 3       # of panels in one picture
SMALLEST, LARGEST = 1e-200, 1e200  # what axes can show


@dataclasses.dataclass
class Curve:
    label: str
    x: list
    samples: list
    colour: int = 0
    dashed: bool = False
    limit: bool = False

    def spreads(self):
        return [Spread.of(values) for values in self.samples]


@dataclasses.dataclass
class Panel:
    title: str
    unit: str
    x: X
    parts: frozenset  # of the names of all its series
    curves: list
    is_matrix: bool = False


# ---- Series to panels ----

def panels_of(result, layout):
    """[Panel] in the order of the series. A name has the same colour in all panels. In a name of two parts the last
    gives the colour and the first the line style: dashed for processes, solid for tasks, alternating for others."""
    colours, firsts, panels = dict(FIXED_COLOURS), [], {}
    for series in result["series"]:
        parts = series["name"].split("/")
        chosen = [i % len(parts) for i in layout.curves if -len(parts) <= i < len(parts)]
        fixed = [part for i, part in enumerate(parts) if i not in chosen]
        x = layout.x_of(parts)
        panel = panels.setdefault((tuple(fixed), series["unit"], x),
                                  Panel(" / ".join(fixed), series["unit"], x, frozenset(fixed), [], layout.is_matrix))
        varying = [parts[i] for i in chosen] or parts[-1:]
        colour = colours.setdefault(varying[-1], len(colours))
        first = " ".join(varying[:-1])
        if first not in firsts:
            firsts.append(first)
        dashed = first == "processes" or first != "tasks" and firsts.index(first) % 2 == 1
        panel.curves.append(Curve(", ".join(varying), series["x"], series["samples"], colour, dashed))
    found = list(panels.values())
    for limit in result["limits"]:
        add_limit(limit, found, layout)
    return found


def add_limit(limit, panels, layout):
    """Adds the limit to each panel of its unit whose name has all parts that the limit's name shares with any panel:
    to those that have an x of the limit's; if there are none and it was measured at a single x, to all."""
    parts = limit["name"].split("/")
    shared = {part for part in parts if any(part in panel.parts for panel in panels)}
    fitting = [panel for panel in panels if panel.unit == limit["unit"] and shared <= panel.parts]
    matching = [panel for panel in fitting if any(at in curve.x for curve in panel.curves for at in limit["x"])]
    if not matching and len(limit["x"]) == 1:
        matching = fitting
    own = [part for part in parts if part not in shared]
    label = "limit: " + ", ".join(own or parts) if own != ["limit"] else "limit"
    if not matching:
        matching = [Panel(" / ".join(parts), limit["unit"], layout.x_of(parts), frozenset(parts), [])]
        panels += matching
    for panel in matching:
        panel.curves.append(Curve(label, limit["x"], limit["samples"], limit=True))


def guess_layout(result):
    """For results of unknown benchmarks: curves by the part with tasks or processes, else by the last; x is in bytes
    if all values are powers of two."""
    names = [series["name"].split("/") for series in result["series"]]
    ways = ("tasks", "processes", "threads")
    column = next((i for i in range(min(map(len, names))) if any(parts[i] in ways for parts in names)), -1)
    values = [x for series in result["series"] for x in series["x"]]
    is_bytes = max(values) >= 4096 and all(x >= 1 and x == int(x) and int(x) & (int(x) - 1) == 0 for x in values)
    return Layout((column,), X("bytes", BYTES) if is_bytes else X("x"))


def gains(panel, peers):
    """{x: the spread of the first peer's time over the second's} if the panel shows the times of both."""
    first, second = (next((curve for curve in panel.curves if curve.label == name), None) for name in peers)
    if not first or not second or panel.unit not in TIMES:
        return {}
    compared = dict(zip(second.x, second.samples))
    return {x: ratio(samples, compared[x]) for x, samples in zip(first.x, first.samples)
            if x in compared and min(compared[x]) > 0}


# ---- Numbers as text ----

def significant(value):
    """Three significant digits, without an exponent for ordinary numbers."""
    if value == 0 or not 1e-4 <= abs(value) < 1e6:
        return f"{value:.3g}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def quantity(value, unit):
    """120 µs, 4 KiB, 1.2 M"""
    if unit == "s":
        if value == 0:
            return "0 s"
        exponent = min(max(math.floor(math.log10(abs(value)) / 3 + 1e-9), -3), 0)
        return f"{significant(value / 1000 ** exponent)} {('s', 'ms', 'µs', 'ns')[-exponent]}"
    if unit != "bytes" and abs(value) < 10000:
        return f"{value:g}" if value == int(value) else significant(value)
    factor, units = (1024, ("B", "KiB", "MiB", "GiB", "TiB")) if unit == "bytes" else (1000, ("", *"kMGTPE"))
    power = 0
    while abs(value) >= factor and power < len(units) - 1:
        value, power = value / factor, power + 1
    text = f"{value:g}" if value == int(value) and value < factor else significant(value)
    return f"{text} {units[power]}".strip()


def tick_text(value, unit):
    """Without trailing zeros."""
    text, _, rest = quantity(value, unit).partition(" ")
    if "." in text and "e" not in text:
        text = text.rstrip("0").rstrip(".")
    return f"{text} {rest}".strip()


def quantity_spread(spread, unit):
    if spread.low == spread.high:
        return quantity(spread.median, unit)
    return f"{quantity(spread.median, unit)} ({quantity(spread.low, unit)} to {quantity(spread.high, unit)})"


def x_text(x, value):
    if x.kind == NAMES and value in range(len(x.names)):
        return x.names[int(value)]
    if x.kind == BYTES:
        return quantity(value, "bytes")
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


# ---- Pictures ----

def has_rows(panel):
    """Whether it shows rows of dots rather than curves."""
    return panel.x.kind == NAMES or len({x for curve in panel.curves if not curve.limit for x in curve.x}) < 2


def style(curve):
    if curve.limit:
        return {"color": LIMIT_COLOUR, "linestyle": "--", "marker": ""}
    return {"color": COLOURS[curve.colour % len(COLOURS)], "linestyle": "--" if curve.dashed else "-",
            "marker": MARKERS[curve.colour % len(MARKERS)]}


def shown(value):
    return min(max(float(value), 0.0 if value <= 0 else SMALLEST), LARGEST)


def draw_values(axis, curve, positions, spreads, band, across):
    """A curve over x, or dots in rows if across."""
    medians, low, high = ([shown(getattr(spread, name)) for spread in spreads] for name in ("median", "low", "high"))
    look = style(curve)
    errors = [[m - at for m, at in zip(medians, low)], [at - m for m, at in zip(medians, high)]]
    if across:
        axis.errorbar(medians, positions, xerr=errors, label=curve.label, capsize=2, markersize=5,
                      **{**look, "linestyle": "", "marker": look["marker"] or "|"})
        return
    if len(spreads) > POINTS:
        look["marker"] = ""
    axis.plot(positions, medians, label=curve.label, linewidth=1.8, markersize=5, **look)
    if band:
        axis.fill_between(positions, low, high, color=look["color"], alpha=0.18, linewidth=0)
    else:
        axis.errorbar(positions, medians, yerr=errors, fmt="none", ecolor=look["color"], elinewidth=1, alpha=0.5)


def draw_curves(axis, panel):
    points = {x for curve in panel.curves if not curve.limit for x in curve.x}
    for curve in panel.curves:
        if curve.limit and len(curve.x) == 1 and curve.x[0] not in points:
            axis.axhline(shown(curve.spreads()[0].median), label=curve.label, linewidth=1.8, color=LIMIT_COLOUR,
                         linestyle="--")
        else:
            draw_values(axis, curve, curve.x, curve.spreads(), len(panel.curves) <= BANDS, False)
    positive = [x for x in points if x > 0] or [1]
    if max(positive) / min(positive) >= 8 and min(points) >= 0:
        axis.set_xscale("log" if min(points) > 0 else "symlog", base=2 if panel.x.kind == BYTES else 10)
    ticks = sorted(points) if len(points) <= 6 else None
    if ticks:
        axis.set_xticks(ticks)
        axis.xaxis.set_minor_locator(ticker.NullLocator())
    elif panel.x.kind == BYTES and min(points) > 0:
        axis.xaxis.set_major_locator(ticker.LogLocator(base=8, numticks=12))
    axis.xaxis.set_major_formatter(lambda x, _: x_text(panel.x, x))
    axis.set_xlabel(panel.x.label)
    axis.set_ylabel(AXES[panel.unit])


def draw_rows(axis, panel):
    """A row for each name, or for each curve if x is a single number."""
    if panel.x.kind == NAMES:
        positions = sorted({x for curve in panel.curves for x in curve.x})
        labels = [x_text(panel.x, x) for x in positions]
        for curve in panel.curves:
            draw_values(axis, curve, [positions.index(x) for x in curve.x], curve.spreads(), False, True)
    else:
        labels = [curve.label for curve in panel.curves]
        for row, curve in enumerate(panel.curves):
            draw_values(axis, curve, [row] * len(curve.x), curve.spreads(), False, True)
    axis.set_yticks(range(len(labels)), [textwrap.shorten(label, 34, placeholder="…") for label in labels])
    axis.set_ylim(len(labels) - 0.5, -0.5)
    axis.set_xlabel(AXES[panel.unit])


def draw_matrix(axis, panel):
    """A heat map, with the curves from top to bottom; darker is larger."""
    points = sorted({x for curve in panel.curves for x in curve.x})
    rows = [[math.nan] * len(points) for _ in panel.curves]
    for row, curve in zip(rows, panel.curves):
        for x, spread in zip(curve.x, curve.spreads()):
            row[points.index(x)] = spread.median
    picture = axis.imshow(rows, cmap="viridis_r", norm=matplotlib.colors.LogNorm(), aspect="auto")
    for set_ticks, labels in ((axis.set_xticks, [x_text(panel.x, x) for x in points]),
                              (axis.set_yticks, [curve.label for curve in panel.curves])):
        step = math.ceil(len(labels) / MATRIX_LABELS)
        set_ticks(range(0, len(labels), step), labels[::step])
    axis.set_xlabel(panel.x.label)
    axis.set_ylabel(panel.x.label)
    bar = axis.figure.colorbar(picture, ax=axis)
    for set_formatter in (bar.ax.yaxis.set_major_formatter, bar.ax.yaxis.set_minor_formatter):
        set_formatter(lambda value, _: tick_text(value, panel.unit))


def draw(axis, panel):
    """One panel: its values are logarithmic if they span a decade."""
    if panel.is_matrix:
        draw_matrix(axis, panel)
        return
    across = has_rows(panel)
    (draw_rows if across else draw_curves)(axis, panel)
    values = [shown(spread.median) for curve in panel.curves for spread in curve.spreads()]
    positive = [value for value in values if value > 0]
    scale, values_axis = (axis.set_xscale, axis.xaxis) if across else (axis.set_yscale, axis.yaxis)
    if positive and max(positive) / min(positive) >= 10:
        scale("log", nonpositive="clip")
        if max(positive) / min(positive) < 30:
            values_axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        values_axis.set_minor_formatter(ticker.NullFormatter())
    elif across:
        axis.set_xlim(left=0)
    else:
        axis.set_ylim(bottom=0)
    values_axis.set_major_formatter(lambda value, _: tick_text(value, panel.unit))
    title = panel.title or (panel.curves[0].label if len(panel.curves) == 1 else "")
    axis.set_title(textwrap.fill(title, 60), fontsize=10)
    axis.grid(True, which="major", color="#dddddd", linewidth=0.8)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    if len(panel.curves) > 1 and (panel.x.kind == NAMES or not across):
        axis.legend(frameon=False, fontsize=8)


def panel_svg(panel):
    """The panel alone, as bytes."""
    is_list = has_rows(panel) and panel.x.kind != NAMES and not panel.is_matrix
    height = 1.2 + 0.28 * len(panel.curves) if is_list else 3.5
    figure, axis = pyplot.subplots(figsize=(5.2, height))
    draw(axis, panel)
    picture = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(picture, format="svg", metadata={"Date": None}, bbox_inches="tight")
    pyplot.close(figure)
    return picture.getvalue()


def save(result, layout, stem):
    """All panels in one picture, as PNG and SVG, captioned with the machine. The paths written."""
    if not matplotlib:
        raise ImportError("matplotlib")
    panels = panels_of(result, layout)
    columns = min(COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    width = max(5.6 * columns, 7.5)
    figure, axes = pyplot.subplots(rows, columns, figsize=(width, 1.0 + 3.7 * rows), squeeze=False,
                                   layout="constrained")
    flat = [axis for row in axes for axis in row]
    for axis, panel in zip(flat, panels):
        draw(axis, panel)
    for axis in flat[len(panels):]:
        axis.set_visible(False)
    figure.suptitle(result["question"], fontsize=12)
    machine, cas = result["machine"], result["machine"]["cache_line_round_trip_s"]
    caption = (f"{machine['cpu']}, {machine['cpus']} CPUs, Linux {machine['kernel']}; {result['versions']['onespace']}"
               + (f"; cache line round trip {statistics.median(cas) * 1e9:.0f} ns" if cas else "")
               + ". Medians; bands and whiskers: quartiles.")
    figure.supxlabel(textwrap.fill(caption, int(width * 17)), fontsize=8, color="#555555")
    paths = [f"{stem}.png", f"{stem}.svg"]
    for path in paths:
        figure.savefig(path, dpi=130 if rows < 20 else 60)
    pyplot.close(figure)
    return paths
