"""bench/lib/onespace_report_chart.py: figures of the report as inline SVG: curves over x with their quartiles as
bands, or, where x is a name or a single number, rows of dots with their quartiles as whiskers.

Colours are classes of the page's style sheet (c0 to c7, limit), so that they follow the light or dark scheme; markers
differ too, for colour-blind readers and grey printers. Every point has a title that browsers show under the pointer."""
import dataclasses
import html
import math

import onespace_bench as ob
from onespace_report_looks import BYTES, NAMES

WIDTH, HEIGHT = 420, 262
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 24, 42
ROW, LETTER = 22, 7.2  # height of a row of dots; approximate width of a letter
COLOURS, MARKERS = 8, 4
AXES = {"s": "time", "bytes": "memory", "count": "number", "cycles": "cycles", "ratio": "ratio"}  # by unit
MARKED = 40  # up to so many points, each gets a marker
BANDS = 5    # up to so many curves, quartiles are bands; else whiskers


@dataclasses.dataclass
class Curve:
    label: str
    x: list
    samples: list
    colour: int = 0
    dashed: bool = False
    limit: bool = False

    def spreads(self):
        return [ob.Spread.of(values) for values in self.samples]

    @property
    def style(self):
        return "limit" if self.limit else f"c{self.colour % COLOURS}"

    @property
    def dash(self):
        return ' stroke-dasharray="7 4"' if self.limit else ' stroke-dasharray="2 3"' if self.dashed else ""


# ---- Numbers as text ----

def significant(value):
    """Three significant digits; no 1e+05."""
    if value == 0 or not 1e-4 <= abs(value) < 1e6:
        return f"{value:.3g}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def quantity(value, unit):
    """120 µs, 4 KiB, 1.2 M"""
    if unit == "bytes":
        return scaled(value, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))
    if unit == "s":
        if value == 0:
            return "0 s"
        exponent = min(max(math.floor(math.log10(abs(value)) / 3 + 1e-9), -3), 0)
        return f"{significant(value / 1000 ** exponent)} {('s', 'ms', 'µs', 'ns')[-exponent]}"
    if abs(value) < 10000:
        return f"{value:g}" if value == int(value) else significant(value)
    return scaled(value, 1000, ("", "k", "M", "G", "T", "P", "E"))


def scaled(value, factor, units):
    power = 0
    while abs(value) >= factor and power < len(units) - 1:
        value, power = value / factor, power + 1
    text = f"{value:g}" if value == int(value) and value < factor else significant(value)
    return f"{text} {units[power]}".strip()


def short(value, unit):
    """For axes: without trailing zeros."""
    number, _, rest = quantity(value, unit).partition(" ")
    if "." in number and "e" not in number:
        number = number.rstrip("0").rstrip(".")
    return f"{number} {rest}".strip()


# ---- Axes ----

class Axis:
    """Maps values to positions between start and end; logarithmic when they span decades."""

    def __init__(self, values, start, end, base=10, log=None, unit="count"):
        positive = [value for value in values if value > 0]
        self.start, self.end, self.base, self.unit = start, end, base, unit
        self.log = bool(positive) and (max(positive) / min(positive) >= 10 if log is None else log)
        if self.log:
            self.low, self.high = math.log(min(positive)), math.log(max(positive))
        else:
            self.low, self.high = min(values), max(values)
        if self.low == self.high:
            self.low, self.high = (self.low - 1, self.high + 1) if self.log else (0, self.high or 1)

    def pad(self, share, from_zero):
        extra = (self.high - self.low) * share
        self.low = 0 if from_zero and not self.log else self.low - extra
        self.high += extra
        return self

    def at(self, value):
        """On a logarithmic axis zero is drawn at the start."""
        place = (math.log(value) if value > 0 else self.low) if self.log else value
        return self.start + (self.end - self.start) * (place - self.low) / (self.high - self.low)

    def ticks(self, most=6):
        return self.powers(most) if self.log else self.steps(most)

    def powers(self, most):
        per = math.log(self.base)
        first, last = math.ceil(self.low / per - 1e-9), math.floor(self.high / per + 1e-9)
        if last - first < 2 and self.base == 10:
            found = [factor * 10.0 ** power for power in range(first - 1, last + 1) for factor in (1, 2, 5)]
            return [value for value in found if self.low <= math.log(value) <= self.high]
        step = max(1, math.ceil((last - first + 1) / most))
        return [float(self.base) ** power for power in range(first, last + 1, step)]

    def steps(self, most):
        rough = (self.high - self.low) / most
        base = 2 if self.unit == "bytes" else 10
        step = float(base) ** math.floor(math.log(rough, base))
        step *= next(factor for factor in (1, 2, 5, 10) if factor * step >= rough)
        return [step * i for i in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]


def base_of(unit):
    return 2 if unit == "bytes" else 10


def named_ticks(axis, values, apart):
    """The values whose labels fit."""
    found, last = [], None
    for value in values:
        if last is None or abs(axis.at(value) - last) >= apart:
            found.append(value)
            last = axis.at(value)
    return found


# ---- Pieces of SVG ----

def text(x, y, words, anchor="middle", style=""):
    more = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{html.escape(words)}</text>'


def line(x1, y1, x2, y2, style, more=""):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{style}"{more}/>'


def marker(x, y, curve, title=""):
    shapes = (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"',
              f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7"',
              f'<path d="M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5-5z"', f'<path d="M{x:.1f} {y - 4.5:.1f}l4.8 8.4h-9.6z"')
    shape = shapes[2] if curve.limit else shapes[(curve.colour + curve.colour // COLOURS) % MARKERS]
    hollow = " hollow" if curve.dashed or curve.limit else ""
    return f'{shape} class="mark {curve.style}{hollow}"><title>{html.escape(title)}</title></{shape[1:].split()[0]}>'


def swatch(curve):
    """For the legend: a piece of the curve."""
    return (f'<svg class="swatch" viewBox="0 0 30 12" aria-hidden="true">'
            f'{line(1, 6, 29, 6, f"curve {curve.style}", curve.dash)}{marker(15, 6, curve)}</svg>')


def picture(height, label, parts):
    return (f'<svg class="chart" viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{html.escape(label)}">'
            + "".join(parts) + "</svg>")


def spread_words(spread, unit):
    if spread.low == spread.high:
        return quantity(spread.median, unit)
    return f"{quantity(spread.median, unit)} ({quantity(spread.low, unit)} to {quantity(spread.high, unit)})"


def x_words(x, value):
    if x.kind == NAMES:
        return x.names[int(value)]
    if x.kind == BYTES:
        return quantity(value, "bytes")
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


# ---- Curves over x ----

def curves_chart(label, curves, x, unit):
    levels = [spread for curve in curves for spread in curve.spreads()]
    values = [value for spread in levels for value in (spread.median, spread.low, spread.high)]
    all_x = sorted({at for curve in curves if not is_level(curve, curves) for at in curve.x})
    positive = [at for at in all_x if at > 0] or [1]
    axis_y = Axis(values, HEIGHT - BOTTOM, TOP, base=base_of(unit), unit=unit).pad(0.06, from_zero=True)
    axis_x = Axis(all_x, LEFT, WIDTH - RIGHT, base=2 if x.kind == BYTES else 10,
                  log=positive[-1] / positive[0] >= 8 and (all_x[0] > 0 or x.kind == BYTES),
                  unit="bytes" if x.kind == BYTES else "count")
    axis_x.pad(0.04, from_zero=False)
    parts = []
    for tick in axis_y.ticks():
        parts += [line(LEFT, axis_y.at(tick), WIDTH - RIGHT, axis_y.at(tick), "grid"),
                  text(LEFT - 6, axis_y.at(tick) + 4, short(tick, unit), "end")]
    if x.kind == BYTES and len(all_x) > 8:
        ticks = axis_x.ticks(6)
    else:
        ticks = named_ticks(axis_x, all_x, 54)
    for tick in ticks:
        parts += [line(axis_x.at(tick), HEIGHT - BOTTOM, axis_x.at(tick), HEIGHT - BOTTOM + 4, "grid"),
                  text(axis_x.at(tick), HEIGHT - BOTTOM + 17, x_words(x, tick))]
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, x.label or "x", style="label"))
    parts.append(text(4, 12, AXES[unit], "start", "label"))
    for curve in sorted(curves, key=lambda one: not one.limit):
        parts += one_curve(curve, curves, axis_x, axis_y, x, unit)
    return picture(HEIGHT, label, parts)


def is_level(curve, curves):
    """A limit measured at a single x that no series has: a line across the figure."""
    return curve.limit and len(curve.x) == 1 and not any(curve.x[0] in one.x for one in curves if not one.limit)


def one_curve(curve, curves, axis_x, axis_y, x, unit):
    spreads = curve.spreads()
    if is_level(curve, curves):
        at = axis_y.at(spreads[0].median)
        title = f"<title>{html.escape(f'{curve.label}: {spread_words(spreads[0], unit)}')}</title>"
        return [f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" class="curve limit"{curve.dash}>{title}</path>']
    points = [(axis_x.at(at), axis_y.at(spread.median)) for at, spread in zip(curve.x, spreads)]
    upper = [f"{axis_x.at(at):.1f} {axis_y.at(spread.high):.1f}" for at, spread in zip(curve.x, spreads)]
    lower = [f"{axis_x.at(at):.1f} {axis_y.at(spread.low):.1f}" for at, spread in zip(curve.x, spreads)]
    if len(curves) <= BANDS:
        parts = [f'<path d="M{"L".join(upper + lower[::-1])}z" class="band {curve.style}"/>']
    else:
        parts = [f'<path d="{"".join(f"M{high}L{low}" for high, low in zip(upper, lower))}" '
                 f'class="whisker curve {curve.style}"/>']
    path = "L".join(f"{px:.1f} {py:.1f}" for px, py in points)
    parts.append(f'<path d="M{path}" class="curve {curve.style}"{curve.dash}>'
                 f"<title>{html.escape(curve.label)}</title></path>")
    if len(points) <= MARKED:
        parts += [marker(px, py, curve, f"{curve.label}, {x_words(x, at)}: {spread_words(spread, unit)}")
                  for (px, py), at, spread in zip(points, curve.x, spreads)]
    return parts


# ---- Rows of dots ----

def rows_of(curves, x):
    """[(name, [(curve, spread)])]: one row per name if x is names, else one per curve."""
    if x.kind != NAMES:
        return [(curve.label, [(curve, spread)]) for curve in curves for spread in curve.spreads()]
    points = [(int(at), curve, spread) for curve in curves for at, spread in zip(curve.x, curve.spreads())]
    return [(x.names[index], [(curve, spread) for at, curve, spread in points if at == index])
            for index in sorted({at for at, _, _ in points})]


def dots_chart(label, curves, x, unit):
    rows = rows_of(curves, x)
    single = all(len(dots) == 1 for _, dots in rows)
    values = [value for _, dots in rows for _, spread in dots for value in (spread.median, spread.low, spread.high)]
    names = [shorten(name) for name, _ in rows]
    left = max(60, max(map(len, names)) * LETTER + 10)
    right = 72 if single else 16
    bottom = TOP + ROW * len(rows)
    axis = Axis(values, left, WIDTH - right, base=base_of(unit), unit=unit).pad(0.06, from_zero=True)
    parts = []
    for tick in named_ticks(axis, axis.ticks(4), 48):
        parts += [line(axis.at(tick), TOP, axis.at(tick), bottom, "grid"),
                  text(axis.at(tick), bottom + 15, short(tick, unit))]
    for curve in curves:
        if curve.limit and single:
            parts.append(line(axis.at(curve.spreads()[0].median), TOP, axis.at(curve.spreads()[0].median), bottom,
                              "curve limit", curve.dash))
    for number, (name, dots) in enumerate(rows):
        y = TOP + ROW * (number + 0.5)
        parts.append(text(left - 6, y + 4, names[number], "end"))
        for curve, spread in dots:
            title = f"{name}{'' if single else ', ' + curve.label}: {spread_words(spread, unit)}"
            if single and not axis.log:
                parts.append(line(left, y, axis.at(spread.median), y, "lead"))
            parts += [line(axis.at(spread.low), y, axis.at(spread.high), y, f"curve {curve.style}"),
                      marker(axis.at(spread.median), y, curve, title)]
        if single:
            parts.append(text(WIDTH - 4, y + 4, quantity(dots[0][1].median, unit), "end"))
    parts.append(text((left + WIDTH - right) / 2, bottom + 31, AXES[unit], style="label"))
    return picture(bottom + 38, label, parts)


def shorten(name, most=34):
    return name if len(name) <= most else name[:most - 1] + "…"


def has_one_x(curves):
    return len({at for curve in curves if not curve.limit for at in curve.x}) < 2


def needs_legend(curves, x):
    """Rows of a single dot are labelled instead."""
    return len(curves) > 1 and (x.kind == NAMES or not has_one_x(curves))


def chart(label, curves, x, unit):
    draw = dots_chart if x.kind == NAMES or has_one_x(curves) else curves_chart
    return draw(label, curves, x, unit)
