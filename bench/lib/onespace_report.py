#!/usr/bin/python3
"""bench/lib/onespace_report.py: renders the benchmarks' JSON (onespace-bench/1) as one page: a summary, then a
section per file, most asked first, with figures (onespace_figures.py), the paper's claim, and the machine. A file of a
node kit (onespace-node/1) holds many results and the checks of its node; those of several nodes stand side by side.
The page is self-contained: no scripts, and no external fonts or pictures. Without matplotlib it has tables only."""
import argparse
import base64
import dataclasses
import datetime
import functools
import html
import importlib.machinery
import importlib.util
import json
import math
import pathlib
import re
import sys

import onespace_bench as ob
import onespace_figures as figures
from onespace_bench import COUNTS, NAMES
from onespace_figures import quantity, quantity_spread, x_text

NAME = "report.html"
NODE_FORMAT = "onespace-node/1"
UNITS = ("s", "bytes", "count", "cycles", "ratio")
CLAIM_LINES = 6   # comparisons beside the paper's claim
SUMMARY_LINES = 3  # comparisons of one result in the summary
ROWS_MAX = 64  # of a table: longer ones are thinned evenly
# The order of the sections, by the beginnings of the files' names; the others follow by name.
ORDER = ("cachelines", "p2p", "applications", "miniapps", "collectives", "solvers", "startup", "memory", "scale",
         "waits", "progress", "windows", "storage", "insitu", "python", "pool", "sync", "ghost", "messagerate",
         "configurations", "xpmem", "heap", "mappings", "spawn", "pagetables", "strided", "teams", "sweep", "call",
         "adios2")
REPEATS_ENOUGH = 5
EQUAL = 0.03   # smaller differences count as none
WIDE = 0.3     # of the middle half of the ratios, relative to their median
BETTER = {"s": "as fast", "cycles": "as fast"}
WORSE = {"s": "as long", "cycles": "as long", "bytes": "as much"}

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1f24; --faint: #57606a; --rule: #d8dee4; --box: #f6f8fa;
  --link: #0072b2; --gain: #00795a; --loss: #b84f00; }
@media (prefers-color-scheme: dark) { :root { --paper: #0d1117; --ink: #e6edf3; --faint: #9aa5b1; --rule: #30363d;
  --box: #161b22; --link: #58a6e8; --gain: #33c89d; --loss: #ff8c42; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem 1rem 4rem; max-width: 84rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .4rem 0; } h2 { font-size: 1.25rem; margin: 0 0 .6rem; }
a { color: var(--link); }
.faint, .note, dd, .source, figcaption, details { color: var(--faint); font-size: .9rem; }
nav ol { padding-left: 1.6rem; columns: 24rem; column-gap: 2.4rem; }
section { border-top: 1px solid var(--rule); margin-top: 2rem; padding-top: 1.4rem; }
.claim > div { background: var(--box); border-left: 4px solid var(--link); padding: .6rem .8rem; margin-bottom: .8rem; }
.claim b { display: block; font-size: .8rem; color: var(--faint); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem .8rem; font-size: .9rem; }
dt { color: var(--faint); } dd { margin: 0; }
.main, .figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 23rem), 1fr)); gap: 1.4rem; }
.gain { color: var(--gain); font-weight: 600; } .loss { color: var(--loss); font-weight: 600; }
figure { margin: 0; min-width: 0; break-inside: avoid; }
figure img { display: block; width: 100%; max-width: 34rem; background: #fff; border-radius: 4px; }
summary { cursor: pointer; } .scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .15rem .6rem; text-align: left; border-bottom: 1px solid var(--rule); vertical-align: top; }
@media (max-width: 30rem) { dl, .summary, .summary tbody, .summary tr, .summary td { display: block; }
  .summary thead { display: none; } }
@media print { details { display: none; } section { break-before: page; } }
"""


# ---- Reading ----

@dataclasses.dataclass(frozen=True)
class Source:
    """Where a result was found: a file of its own, or a node's file."""
    path: pathlib.Path
    stem: str         # names the benchmark, as p2p-fresh
    host: str = ""    # of a node's file

    def __str__(self):
        return f"{self.path}" if not self.host else f"{self.path}: {self.stem}"


def read(path):
    """The JSON of a result or a node; raises ValueError with the reason."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, RecursionError) as error:
        raise ValueError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from None
    if not isinstance(data, dict) or data.get("format") not in (ob.FORMAT, NODE_FORMAT):
        raise ValueError(f"is not of the format {ob.FORMAT}, which the benchmarks write")
    reject_damaged(check_node if data["format"] == NODE_FORMAT else check, data)
    return data


def reject_damaged(function, data):
    """Raises ValueError with the reason if the function raises anything that damaged data lead to."""
    try:
        function(data)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        reason = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"is damaged: {reason}; run its benchmark again") from None


def check_node(data):
    for name in ("host", "began", "kernel", "libc"):
        require(isinstance(data[name], str), f"{name} is not text")
    require(isinstance(data["cpus"], int), "cpus is not a number")
    for part in data["parts"]:
        for name in ("name", "outcome", "output"):
            require(isinstance(part[name], str), f"{name} of a part is not text")
        check_numbers([part["seconds"]])
    require(isinstance(data["results"], dict), "results is not an object")


def check(result):
    """Raises an exception unless the result has everything that the page shows."""
    for mapping in (result, result["paper"], result["machine"], result["versions"]):
        mapping.keys()
    for name in ("question", "command"):
        require(isinstance(result[name], str), f"{name} is not text")
    for name in ("document", "figure", "claim"):
        require(isinstance(result["paper"][name], str), f"paper/{name} is not text")
    for name in ("cpu", "cpus", "kernel", "memory_bytes"):
        result["machine"][name]
    check_numbers(result["machine"]["cache_line_round_trip_s"])
    require(isinstance(result["versions"]["onespace"], str), "versions/onespace is not text")
    require(result["series"], "it has no series")
    for series in [*result["series"], *result["limits"]]:
        require(isinstance(series["name"], str) and series["unit"] in UNITS, "a series has no name or no known unit")
        require(len(series["x"]) == len(series["samples"]) > 0 and all(series["samples"]),
                f"{series['name']} lacks samples")
        check_numbers(series["x"])
        for samples in series["samples"]:
            check_numbers(samples)
            require(min(samples) >= 0, f"{series['name']} holds a negative number")


def check_numbers(values):
    for value in values:
        require(isinstance(value, (int, float)) and math.isfinite(float(value)), f"{value} is not a number")


def require(condition, text):
    if not condition:
        raise ValueError(text)


def collect(paths):
    """([(Source, result)], [node], [(path, reason)]) of all *.json in the directories and of the files, each once:
    read, and rejected. A node is the JSON of a node kit."""
    found, nodes, rejected, seen = [], [], [], set()
    for given in paths:
        if not given.exists():
            rejected.append((given, "does not exist"))
            continue
        for path in sorted(given.glob("*.json")) if given.is_dir() else [given]:
            if path.resolve() in seen:
                continue
            seen.add(path.resolve())
            try:
                data = read(path)
            except ValueError as error:
                rejected.append((path, str(error)))
                continue
            if data["format"] == ob.FORMAT:
                found.append((Source(path, path.stem), data))
                continue
            nodes.append(data)
            for stem, result in sorted(data["results"].items()):
                if given.is_dir() and (path.parent / f"{stem}.json").exists():
                    continue  # the kit leaves each result beside the node's file, too
                source = Source(path, stem, data["host"])
                try:
                    reject_damaged(check, result)
                    found.append((source, result))
                except ValueError as error:
                    rejected.append((source, str(error)))
    return found, nodes, rejected


# ---- Layouts ----

def layout_of(stem, result):
    """As declared by the benchmark, which the file's name tells (p2p-fresh is of p2p), else the command that wrote it;
    guessed if there is none that fits."""
    directory = re.search(r"(?:^|[\s/])([\w-]+)/run\b", result["command"])
    for name in (stem, directory[1] if directory else ""):
        layouts = declared_layouts(name.partition("-")[0])
        for prefix in sorted(layouts, key=len, reverse=True):
            if (name == prefix or name.startswith(prefix + "-")) and fits(layouts[prefix], result):
                return layouts[prefix]
    return figures.guess_layout(result)


@functools.cache
def declared_layouts(name):
    """{name of the results: Layout} of bench/NAME/run."""
    program = ob.BENCH / name / "run"
    if not name or not program.exists():
        return {}
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(program.parent))
    loader = importlib.machinery.SourceFileLoader(f"benchmark_{name}", str(program))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    sys.path.pop(0)
    return {benchmark.name: benchmark.layout for benchmark in module.BENCHMARKS}


def fits(layout, result):
    """Whether every name has a part for the curves, and every x that is an index has a name."""
    for series in result["series"]:
        parts = series["name"].split("/")
        x = layout.x_of(parts)
        if len(parts) <= min(layout.curves) or (
                x.kind == NAMES and any(at not in range(len(x.names)) for at in series["x"])):
            return False
    return True


# ---- Comparisons ----

@dataclasses.dataclass
class Comparison:
    """Of two series that differ only in the peers, at one x: different cases have no common ratio."""
    parts: list   # of the names, in common
    x: float
    unit: str
    peers: tuple
    spreads: list     # of the peers
    ratio: ob.Spread  # the first peer's over the second's, within each repeat
    repeats: int

    def place(self, layout, versions):
        """What is compared, and at which x."""
        x = layout.x_of(self.parts)
        at = x_text(x, self.x)
        at = " ".join((at, x.label) if x.kind == COUNTS else (x.label, at)).strip()
        return ", ".join([*(versions.get(part, part) for part in self.parts), at])

    def sentence(self, layout, versions):
        before, after = (quantity(spread.median, self.unit) for spread in self.spreads)
        return f"{self.place(layout, versions)}: {after} ({self.peers[1]}) instead of {before} ({self.peers[0]})"

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

    def style(self):
        """The class of the cell that shows gain()."""
        return "level" if self.is_level() else "gain" if self.ratio.median > 1 else "loss"

    def certainty(self, busy):
        runs = f"{self.repeats} runs" if self.repeats > 1 else "one run"
        if self.repeats < REPEATS_ENOUGH:
            return f"a first look: {runs}" + (", on a busy machine" if busy else "")
        faster = self.ratio.median > 1 and self.unit in BETTER or self.is_level()
        ends = (self.ratio.low, self.ratio.high) if faster else (1 / self.ratio.high, 1 / self.ratio.low)
        span = f"{ends[0]:.2f} to {ends[1]:.2f} times in half of {runs}"
        if busy:
            return f"doubtful, the machine was busy: {span}"
        if self.is_unclear():
            return f"no difference is shown: {span}"
        return f"{'scatters' if self.ratio.high - self.ratio.low > WIDE * self.ratio.median else 'sure'}: {span}"


@dataclasses.dataclass
class Pair:
    """Two series that differ only in the peers."""
    parts: list
    unit: str
    peers: tuple
    samples: dict  # of both peers, by the x that they have in common

    def at(self, x):
        first, second = self.samples[x]
        return Comparison(self.parts, x, self.unit, self.peers, [ob.Spread.of(first), ob.Spread.of(second)],
                          ob.ratio(first, second), min(len(first), len(second)))


def pairs(result, layout):
    """[Pair] in the order of the series, for the first peers that any two series have."""
    series = {entry["name"]: dict(zip(entry["x"], entry["samples"])) for entry in result["series"]
              if entry["unit"] in WORSE}
    units = {entry["name"]: entry["unit"] for entry in result["series"]}
    for peers in layout.peers:
        found = []
        for name, first in series.items():
            parts = name.split("/")
            other = "/".join(peers[1] if part == peers[0] else part for part in parts)
            if peers[0] not in parts or other not in series or units[other] != units[name]:
                continue
            second = series[other]
            common = {x: (first[x], second[x]) for x in first if x in second and min(first[x] + second[x]) > 0}
            if common:
                found.append(Pair([part for part in parts if part != peers[0]], units[name], peers, common))
        if found:
            return found
    return []


def comparisons(result, layout):
    """Of each pair at the x of the headline, else at its largest."""
    return [pair.at(min(pair.samples, key=lambda x: abs(x - layout.headline)) if layout.headline else
                    max(pair.samples)) for pair in pairs(result, layout)]


def all_comparisons(result, layout):
    """Of each pair at each x."""
    return [pair.at(x) for pair in pairs(result, layout) for x in pair.samples]


def largest_loss(result, layout):
    """Where the second peer is worst, of all pairs and x; None if it never clearly is."""
    losses = [one for one in all_comparisons(result, layout) if one.ratio.median < 1 and not one.is_level()]
    return min(losses, key=lambda one: one.ratio.median, default=None)


def shown(result, layout, most):
    """The first comparisons, and the largest loss if it is not among them. Then how many others there are."""
    found = comparisons(result, layout)
    loss = largest_loss(result, layout)
    lines = found[:most] + ([loss] if loss and loss not in found[:most] else [])
    return lines, len([one for one in found if one not in lines])


def was_busy(result):
    return any(note.startswith("other programs are running") for note in result.get("notes", []))


# ---- The page ----

def escaped(value):
    return html.escape(str(value))


def machine_text(machine):
    return (f"{machine['cpu']}, {machine['cpus']} CPUs, {quantity(float(machine['memory_bytes']), 'bytes')}, "
            f"Linux {machine['kernel']}")


def numbers_table(panel):
    """A column for each curve, a row for each x."""
    points = sorted({x for curve in panel.curves for x in curve.x})
    step = math.ceil(len(points) / ROWS_MAX)
    columns = [dict(zip(curve.x, curve.spreads())) for curve in panel.curves]
    head = "".join(f"<th>{escaped(text)}</th>" for text in [panel.x.label, *(curve.label for curve in panel.curves)])
    shade = shading(panel) if panel.is_matrix else lambda median: ""
    rows = "".join(
        f"<tr><td>{escaped(x_text(panel.x, x))}</td>" + "".join(
            f"<td{shade(column[x].median)}>{escaped(quantity_spread(column[x], panel.unit))}</td>" if x in column
            else "<td></td>" for column in columns)
        + "</tr>" for x in points[::step])
    thinned = f", every {step}th row of {len(points)}" if step > 1 else ""
    is_open = "" if figures.matplotlib else " open"
    return (f"<details{is_open}><summary>Numbers: medians and quartiles{thinned}</summary>"
            f"<div class=scroll><table><tr>{head}</tr>{rows}</table></div></details>")


def shading(panel):
    """A function that gives the attribute of a heat map's cell: the larger the median, the deeper its colour."""
    medians = [spread.median for curve in panel.curves for spread in curve.spreads() if spread.median > 0]
    low, high = min(medians, default=1), max(medians, default=1)

    def shade(median):
        depth = math.log(median / low) / math.log(high / low) if median > 0 and high > low else 0
        return f' style="background: rgb(213 94 0 / {10 + round(60 * depth)}%)"'
    return shade


def figure_html(panel, question, peers):
    title = panel.title or (panel.curves[0].label if len(panel.curves) == 1 else "")
    picture = f"<b>{escaped(title)}</b>"
    if figures.matplotlib:
        data = base64.b64encode(figures.panel_svg(panel)).decode()
        picture = f'<img alt="{escaped(f"{question} {title}")}" src="data:image/svg+xml;base64,{data}">'
    found = figures.gains(panel, peers)
    caption = ""
    if found:
        points = dict.fromkeys([min(found), max(found, key=lambda x: found[x].median), max(found)])
        text = ", ".join(ob.ratio_text(found[x]) + (f" at {x_text(panel.x, x)}" if len(found) > 1 else "")
                         for x in points)
        caption = f"<figcaption>{escaped(peers[0])} / {escaped(peers[1])}: {escaped(text)}</figcaption>"
    return f"<figure>{picture}{caption}{numbers_table(panel)}</figure>"


def summary_html(found):
    """A row for each of the first comparisons of each result, and for its largest loss."""
    rows = ""
    for number, (source, result) in enumerate(found, 1):
        layout, busy = layout_of(source.stem, result), was_busy(result)
        compared, others = shown(result, layout, SUMMARY_LINES)
        for place, comparison in enumerate(compared):
            style = "level" if busy else comparison.style()
            more = f" <a href='#q{number}'>and {others} more</a>" if others and comparison is compared[-1] else ""
            question = f"<a href='#q{number}'>{escaped(result['question'])}</a>" if place == 0 else ""
            rows += (f"<tr><td>{question}</td><td>{escaped(comparison.sentence(layout, result['versions']))}{more}</td>"
                     f"<td class={style}>{escaped(comparison.gain())}</td>"
                     f"<td>{escaped(comparison.certainty(busy))}</td></tr>")
    machines = "; ".join(dict.fromkeys(machine_text(result["machine"]) for _, result in found))
    versions = ", ".join(dict.fromkeys(result["versions"]["onespace"] for _, result in found))
    heads = "".join(f"<th>{head}</th>" for head in ("question", "what", "gained", "how sure"))
    table = f"<table class=summary><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>" if rows else ""
    return (f'<section><h2 class="first">In short</h2><p>Measured on {escaped(machines)}, with {escaped(versions)}.</p>'
            f"{table}<p class=faint>Each line compares two variants of the same case, measured interleaved, at one "
            "point of its figure. Figures of other machines differ.</p></section>")


def facts_of(source, result):
    yield "machine", machine_text(result["machine"])
    cas = result["machine"]["cache_line_round_trip_s"]
    if cas:
        yield "cache line round trip", quantity_spread(ob.Spread.of(cas), "s")
    yield "versions", "; ".join(text if name == "onespace" else f"{name}: {text}"
                                for name, text in result["versions"].items())
    repeats = {len(samples) for series in result["series"] for samples in series["samples"]}
    yield "samples", (f"{' to '.join(map(str, dict.fromkeys((min(repeats), max(repeats)))))} per point, interleaved; "
                      "medians, bands and whiskers: quartiles")
    yield "command", result["command"]
    changed = datetime.datetime.fromtimestamp(source.path.stat().st_mtime).isoformat(" ", "minutes")
    yield "file", f"{source}, of {changed}"
    for note in result.get("notes", []):
        yield "note", note


def section_html(number, source, result):
    layout = layout_of(source.stem, result)
    paper = result["paper"]
    facts = "".join(f"<dt>{escaped(name)}</dt><dd>{escaped(text)}</dd>" for name, text in facts_of(source, result))
    found = "".join(f"<div>{escaped(comparison.sentence(layout, result['versions']) + ': ' + comparison.gain())}</div>"
                    for comparison in shown(result, layout, CLAIM_LINES)[0])
    parts = [figure_html(panel, result["question"], layout.peers[0])
             for panel in figures.panels_of(result, layout)]
    more = (f"<details><summary>{len(parts) - 1} more figure{'s' if len(parts) > 2 else ''}</summary>"
            f"<div class=figures>{''.join(parts[1:])}</div></details>" if len(parts) > 1 else "")
    return (f'<section id="q{number}"><h2>{number}. {escaped(result["question"])}</h2>'
            f"<div class=main>{''.join(parts[:1])}<div class=claim>"
            f"<div><b>Measured</b>{found or 'See the figures.'}</div>"
            f"<div><b>The paper: {escaped(paper['figure'])}</b>{escaped(paper['claim'])}"
            f"<div class=source>{escaped(paper['document'])}</div></div></div></div>{more}<dl>{facts}</dl></section>")


def nodes_of(found):
    """{name of a node: {stem: result}} of the results that come from nodes' files."""
    nodes = {}
    for source, result in found:
        if source.host:
            nodes.setdefault((source.path, source.host), {})[source.stem] = result
    hosts = [host for _, host in nodes]
    return {host if hosts.count(host) == 1 else f"{host} ({path})": results for (path, host), results in nodes.items()}


def side_by_side_html(found):
    """A row for each comparison that at least two nodes have, a column for each node."""
    nodes = nodes_of(found)
    if len(nodes) < 2:
        return ""
    rows = ""
    for stem in dict.fromkeys(source.stem for source, _ in found if source.host):
        by_place = {}  # {what is compared: {node: Comparison}}
        for name, results in nodes.items():
            layout = layout_of(stem, results[stem]) if stem in results else None
            for comparison in all_comparisons(results[stem], layout) if layout else []:
                by_place.setdefault(comparison.place(layout, {}), {})[name] = comparison
        for place, by_node in by_place.items():
            if len(by_node) > 1:
                rows += f"<tr><td>{escaped(stem)}: {escaped(place)}</td>" + "".join(
                    side_by_side_cell(by_node.get(name)) for name in nodes) + "</tr>"
    if not rows:
        return ""
    heads = "".join(f"<th>{escaped(name)}</th>" for name in ["what", *nodes])
    return ("<section><h2>Nodes side by side</h2><p class=faint>The compared variant's median, and what it gained over "
            "its peer on the same node.</p>"
            f"<div class=scroll><table><tr>{heads}</tr>{rows}</table></div></section>")


def side_by_side_cell(comparison):
    if not comparison:
        return "<td></td>"
    return (f"<td>{escaped(quantity(comparison.spreads[1].median, comparison.unit))}, "
            f"<span class={comparison.style()}>{escaped(comparison.gain())}</span></td>")


def node_html(node):
    """The parts of a node kit: how each ended, and what the checks printed."""
    rows = "".join(f"<tr><td>{escaped(part['name'])}</td><td class={part_style(part)}>{escaped(part['outcome'])}</td>"
                   f"<td>{part['seconds']:.0f} s</td></tr>" for part in node["parts"])
    outputs = "".join(f"<details><summary>{escaped(part['name'])}: its output</summary><pre class=scroll>"
                      f"{escaped(part['output'])}</pre></details>" for part in node["parts"] if part["output"])
    return (f"<section><h2>Node {escaped(node['host'])}</h2><p>{node['cpus']} CPUs, Linux {escaped(node['kernel'])}, "
            f"{escaped(node['libc'])}; begun {escaped(node['began'])}.</p><div class=scroll><table><tr><th>part</th>"
            f"<th>outcome</th><th>time</th></tr>{rows}</table></div>{outputs}</section>")


def part_style(part):
    return "loss" if part["outcome"].startswith(("failed", "stopped")) else "level"


def page_html(found, nodes, rejected):
    contents = "".join(f'<li><a href="#q{number}">{escaped(result["question"])}</a> '
                       f"<span class=faint>{escaped(source.host or source.path.name)}</span></li>"
                       for number, (source, result) in enumerate(found, 1))
    left_out = "".join(f"<li>{escaped(path)}: {escaped(reason)}</li>" for path, reason in rejected)
    if left_out:
        left_out = f"<section><h2>Left out</h2><ul class=note>{left_out}</ul></section>"
    sections = "".join(section_html(number, source, result) for number, (source, result) in enumerate(found, 1))
    now = datetime.datetime.now().isoformat(" ", "minutes")
    return ("<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>"
            '<meta name=viewport content="width=device-width, initial-scale=1"><title>onespace: measurements</title>'
            f"<style>{STYLE}</style></head><body><h1>onespace: measurements</h1><p class=faint>Made {now} by onespace "
            f"report of {len(found)} result{'s' if len(found) > 1 else ''}. Limits, dashed and grey, are the same "
            "work without a protocol, such as memcpy between two threads, measured interleaved with the rest; another "
            "way of copying can be faster. Axes are logarithmic where the values span "
            "decades.</p>"
            f"{summary_html(found) if found else ''}{side_by_side_html(found)}{''.join(map(node_html, nodes))}"
            f"<nav><ol>{contents}</ol></nav>{sections}{left_out}</body></html>\n")


# ---- The command ----

def write(path, page):
    """Replaces the file at once: a reader never sees half a page."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        temporary.write_text(page, encoding="utf-8", errors="replace")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ob.Failure(f"cannot write {path}: {error.strerror}: name another file with -o") from None


def main():
    parser = argparse.ArgumentParser(prog="onespace report", description=__doc__)
    parser.add_argument("--results", metavar="PATH", action="append", type=pathlib.Path,
                        help="a directory with the JSON of benchmarks, or one such file, also of a node kit; may be "
                             "given several times (default: where the benchmarks write)")
    parser.add_argument("-o", "--output", metavar="FILE", type=pathlib.Path,
                        help=f"the page (default: {NAME} in the first directory, or beside the first file)")
    args = parser.parse_args()
    paths = args.results or [ob.results_directory()]
    output = args.output or (paths[0].parent if paths[0].is_file() else paths[0]) / NAME
    found, nodes, rejected = collect(paths)
    found.sort(key=lambda one: next((number for number, name in enumerate(ORDER)
                                     if f"{one[0].stem}-".startswith(f"{name}-")), len(ORDER)))
    for path, reason in rejected:
        ob.progress(f"onespace report: {path} {reason}")
    if not found and not nodes:
        raise ob.Failure(f"no results in {', '.join(map(str, paths))}: run `onespace bench` or bench/run-all "
                         "first, or name their directory with --results")
    if not figures.matplotlib:
        ob.progress("onespace report: tables without figures: python3-matplotlib is not installed")
    write(output, page_html(found, nodes, rejected))
    ob.progress(f"wrote {output}: {len(found)} of {len(found) + len(rejected)} results")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ob.Failure as failure:
        print(f"onespace report: {failure}", file=sys.stderr)
        sys.exit(1)
