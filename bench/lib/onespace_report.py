#!/usr/bin/python3
"""bench/lib/onespace_report.py: renders the benchmarks' JSON (onespace-bench/1) as one page: a summary, then a
section per file, most asked first, with figures (onespace_report_chart), the paper's claim, and the machine.
The page is self-contained: no scripts, and no external fonts or pictures."""
import argparse
import datetime
import html
import json
import math
import pathlib
import sys

import onespace_bench as ob
from onespace_report_chart import chart, is_level, needs_legend, quantity, spread_words, swatch, x_words
from onespace_report_figures import figures_of, gains
from onespace_report_looks import look_of
from onespace_report_style import STYLE
from onespace_report_summary import LINES, comparisons, machines, rank, was_busy

NAME = "report.html"
UNITS = ("s", "bytes", "count", "cycles", "ratio")
HERE = 6   # lines of what was found, beside the paper's claim
ROWS = 64  # of a table, at most: longer ones are thinned evenly


# ---- Reading ----

def read(path):
    """The result; raises ValueError with the reason."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, RecursionError) as error:
        raise ValueError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except ValueError as error:
        raise ValueError(f"is no JSON: {error}") from None
    if not isinstance(result, dict) or result.get("format") != ob.FORMAT:
        raise ValueError(f"is not of the format {ob.FORMAT}, which the benchmarks write")
    try:
        check(result)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ValueError(f"is damaged: {describe(error)}; run its benchmark again") from None
    return result


def describe(error):
    return f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)


def check(result):
    for words in (result, result["paper"], result["machine"], result["versions"]):
        words.keys()  # are objects
    for name in ("question", "command"):
        want(isinstance(result[name], str), f"{name} is no text")
    for name in ("document", "figure", "claim"):
        want(isinstance(result["paper"][name], str), f"paper/{name} is no text")
    for name in ("cpu", "cpus", "kernel", "memory_bytes"):
        result["machine"][name]  # is there
    numbers(result["machine"]["cache_line_round_trip_s"])
    want(isinstance(result["versions"]["onespace"], str), "versions/onespace is no text")
    want(result["series"], "it has no series")
    for one in [*result["series"], *result["limits"]]:
        want(isinstance(one["name"], str) and one["unit"] in UNITS, "a series has no name or no known unit")
        want(len(one["x"]) == len(one["samples"]) > 0 and all(one["samples"]), f"{one['name']} lacks samples")
        numbers(one["x"])
        for samples in one["samples"]:
            numbers(samples)
            want(min(samples) >= 0, f"{one['name']} holds a negative number")


def numbers(values):
    for value in values:
        want(isinstance(value, (int, float)) and math.isfinite(float(value)), f"{value} is no number")


def want(good, what):
    if not good:
        raise ValueError(what)


def collect(directories):
    """([(path, result)], [(path, what is wrong)]) of all *.json in the directories, each file once."""
    found, wrong, seen = [], [], set()
    for directory in directories:
        if not directory.is_dir():
            wrong.append((directory, "is not a directory"))
            continue
        for path in sorted(directory.glob("*.json")):
            if path.resolve() in seen:
                continue
            seen.add(path.resolve())
            try:
                found.append((path, read(path)))
            except ValueError as error:
                wrong.append((path, str(error)))
    return found, wrong


# ---- Pieces of the page ----

def escaped(value):
    return html.escape(str(value))


def table_of(figure):
    """A column for each curve, a row for each x."""
    points = sorted({at for curve in figure.curves for at in curve.x})
    step = math.ceil(len(points) / ROWS)
    rows = [f"<tr><th>{escaped(figure.x.label)}</th>" + "".join(
        f"<th>{escaped(one.label)}</th>" for one in figure.curves)
            + "</tr>"]
    held = [dict(zip(one.x, one.spreads())) for one in figure.curves]
    known = {at for one in figure.curves if not is_level(one, figure.curves) for at in one.x}
    for at in points[::step]:
        cells = "".join(f"<td>{escaped(spread_words(one[at], figure.unit)) if at in one else ''}</td>" for one in held)
        name = x_words(figure.x, at) if at in known else f"{at:,g}"
        rows.append(f"<tr><td>{escaped(name)}</td>{cells}</tr>")
    some = f", every {step}th row of {len(points)}" if step > 1 else ""
    return (f"<details><summary>Numbers: medians and quartiles{some}</summary><div class=scroll><table>"
            f"{''.join(rows)}</table></div></details>")


def caption_of(figure, peers):
    found = gains(figure, peers)
    if not found:
        return ""
    shown = dict.fromkeys([min(found), max(found, key=lambda at: found[at].median), max(found)])
    words = ", ".join(f"{ob.ratio_text(found[at])}" + (f" at {x_words(figure.x, at)}" if len(found) > 1 else "")
                      for at in shown)
    return f"<figcaption>{escaped(peers[0])} / {escaped(peers[1])}: {escaped(words)}</figcaption>"


def figure_part(figure, question, peers):
    title = figure.title or (figure.curves[0].label if len(figure.curves) == 1 else "")
    head = f"<h3>{escaped(title)}</h3>" if title else ""
    points = {at for curve in figure.curves if not curve.limit for at in curve.x}
    if len(points) == 1 and figure.x.label:
        head += f"<div class=faint>{escaped(figure.x.label)}: {escaped(x_words(figure.x, min(points)))}</div>"
    legend = "<ul class=legend>" + "".join(f"<li>{swatch(curve)}{escaped(curve.label)}</li>"
                                           for curve in figure.curves) + "</ul>"
    return (f"<figure>{head}{legend if needs_legend(figure.curves, figure.x) else ''}"
            f"{chart(f'{question} {title}', figure.curves, figure.x, figure.unit)}"
            f"{caption_of(figure, peers)}{table_of(figure)}</figure>")


def found_here(result, look):
    """One sentence for each two series that are compared."""
    for one in comparisons(result, look)[:HERE]:
        yield f"{one.sentence(look, result['versions'])}: {one.gain()}"


def summary_of(found):
    """What was gained, on what, how sure: a row for each of the first comparisons of each result."""
    rows = ""
    for number, (path, result) in enumerate(found, 1):
        look = look_of(path.stem, result)
        compared, busy = comparisons(result, look), was_busy(result)
        for place, one in enumerate(compared[:LINES]):
            style = "level" if busy or one.is_level() else "gain" if one.ratio.median > 1 else "loss"
            more = f" <a href='#q{number}'>and {len(compared) - LINES} more</a>" if (
                place == LINES - 1 and len(compared) > LINES) else ""
            question = f"<a href='#q{number}'>{escaped(result['question'])}</a>" if place == 0 else ""
            what = escaped(one.sentence(look, result["versions"])) + more
            rows += (f"<tr><td>{question}</td><td>{what}</td><td class={style}>"
                     f"{escaped(one.gain())}</td><td>{escaped(one.sureness(busy))}</td></tr>")
    on = "; ".join(machines([result for _, result in found]))
    versions = ", ".join(dict.fromkeys(result["versions"]["onespace"] for _, result in found))
    heads = "".join(f"<th>{head}</th>" for head in ("question", "what", "gained", "how sure"))
    table = (f"<table class=summary><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>" if rows else "")
    return (f'<section class="short"><h2 class="first">In short</h2><p>Measured on {escaped(on)}, with '
            f"{escaped(versions)}.</p>{table}<p class=faint>Each line compares two ways of doing the same, measured "
            "interleaved, at one point of the figure that it leads to. Figures of other machines differ.</p></section>")


def facts_of(path, result):
    machine, versions = result["machine"], result["versions"]
    memory = quantity(float(machine["memory_bytes"]), "bytes")
    yield "machine", f"{machine['cpu']}, {machine['cpus']} CPUs, {memory}, Linux {machine['kernel']}"
    cas = machine["cache_line_round_trip_s"]
    if cas:
        yield "cache line round trip", spread_words(ob.Spread.of(cas), "s")
    yield "versions", "; ".join(f"{name}: {text}" if name != "onespace" else text for name, text in versions.items())
    repeats = [len(samples) for one in result["series"] for samples in one["samples"]]
    many = f"{min(repeats)} to {max(repeats)}" if min(repeats) < max(repeats) else f"{max(repeats)}"
    yield "samples", f"{many} per point, interleaved; medians, bands and whiskers: quartiles"
    yield "command", result["command"]
    changed = datetime.datetime.fromtimestamp(path.stat().st_mtime).isoformat(" ", "minutes")
    yield "file", f"{path}, of {changed}"
    for note in result.get("notes", []):
        yield "note", note


def section_of(number, path, result):
    look = look_of(path.stem, result)
    figures = figures_of(result, look)
    paper = result["paper"]
    facts = "".join(f"<dt>{escaped(name)}</dt><dd>{escaped(text)}</dd>" for name, text in facts_of(path, result))
    here = "".join(f"<div>{escaped(sentence)}</div>" for sentence in found_here(result, look))
    parts = [figure_part(one, result["question"], look.peers[0]) for one in figures]
    more = (f"<details class=more><summary>{len(parts) - 1} more figure{'s' if len(parts) > 2 else ''}</summary>"
            f"<div class=figures>{''.join(parts[1:])}</div></details>" if len(parts) > 1 else "")
    return (f'<section id="q{number}"><h2>{number}. {escaped(result["question"])}</h2>'
            f"<div class=main>{''.join(parts[:1])}<div class=held>"
            f"<div class=here><b>Here</b>{here or 'See the figures.'}</div>"
            f"<div><b>The paper: {escaped(paper['figure'])}</b>{escaped(paper['claim'])}"
            f"<div class=source>{escaped(paper['document'])}</div></div></div></div>{more}<dl>{facts}</dl></section>")


def page_of(found, wrong):
    contents = "".join(f'<li><a href="#q{number}">{escaped(result["question"])}</a> '
                       f"<span class=faint>{escaped(path.name)}</span></li>"
                       for number, (path, result) in enumerate(found, 1))
    left_out = "".join(f"<li>{escaped(path)}: {escaped(what)}</li>" for path, what in wrong)
    if left_out:
        left_out = f"<section><h2>Left out</h2><ul class=note>{left_out}</ul></section>"
    sections = "".join(section_of(number, path, result) for number, (path, result) in enumerate(found, 1))
    now = datetime.datetime.now().isoformat(" ", "minutes")
    return ("<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>"
            '<meta name=viewport content="width=device-width, initial-scale=1"><title>onespace: measurements</title>'
            f"<style>{STYLE}</style></head><body><h1>onespace: measurements</h1><p class=faint>Made {now} by onespace "
            f"report of {len(found)} file{'s' if len(found) > 1 else ''}. Limits, dashed and grey, are what the "
            "machine could do at best, measured interleaved with the rest. Axes are logarithmic where the values span "
            "decades; zero is drawn at their start.</p>"
            f"{summary_of(found)}<nav><ol>{contents}</ol></nav>{sections}{left_out}</body></html>\n")


# ---- The command ----

def parse_arguments():
    parser = argparse.ArgumentParser(prog="onespace report", description=__doc__)
    parser.add_argument("--results", metavar="DIRECTORY", action="append", type=pathlib.Path,
                        help="with the JSON of benchmarks; may be given several times (default: where they write it)")
    parser.add_argument("-o", "--output", metavar="FILE", type=pathlib.Path,
                        help=f"the page (default: {NAME} in the first directory)")
    args = parser.parse_args()
    args.results = args.results or [ob.results_directory()]
    args.output = args.output or args.results[0] / NAME
    return args


def write(path, page):
    """Whole or not at all: who reads the page meanwhile sees the old one."""
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.write_text(page, encoding="utf-8", errors="replace")
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise ob.Failure(f"cannot write {path}: {error.strerror}: name another file with -o") from None


def main():
    args = parse_arguments()
    found, wrong = collect(args.results)
    found.sort(key=lambda one: rank(one[0]))
    for path, what in wrong:
        ob.progress(f"onespace report: {path} {what}")
    if not found:
        raise ob.Failure(f"no results in {', '.join(map(str, args.results))}: run `onespace bench` or bench/run-all "
                         "first, or name their directory with --results")
    write(args.output, page_of(found, wrong))
    ob.progress(f"wrote {args.output}: {len(found)} of {len(found) + len(wrong)} files")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ob.Failure as failure:
        print(f"onespace report: {failure}", file=sys.stderr)
        sys.exit(1)
