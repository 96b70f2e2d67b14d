"""tests/cmd/test_report.py: onespace report makes one page of all results, whatever they hold."""
import base64
import html.parser
import json
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree

import pytest

from jobs import ONESPACE, ROOT

SERIES = {"name": "tasks", "unit": "s", "x": [1, 2, 400], "samples": [[1e-6, 2e-6], [2e-6, 2e-6], [1e-3, 3e-3]]}


def result(series, limits=(), **more):
    return {"format": "onespace-bench/1", "question": "How long?", "command": "somewhere/run", "notes": [],
            "paper": {"document": "A paper", "figure": "Figure 9", "claim": "It is fast."},
            "machine": {"cpu": "c", "cpus": 2, "kernel": "6", "memory_bytes": 1 << 34,
                        "cache_line_round_trip_s": []},
            "versions": {"onespace": "onespace 0", "compiler": "cc", "libc": "glibc"},
            "series": list(series), "limits": list(limits), **more}


class Page(html.parser.HTMLParser):
    """The references and figures of a page; its tags must be balanced."""

    def __init__(self, text):
        super().__init__()
        self.text, self.open, self.references, self.pictures = text, [], [], []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        assert tag not in ("script", "link", "iframe", "object"), tag
        if tag == "img":
            kind, _, data = attributes["src"].partition(";base64,")
            assert kind == "data:image/svg+xml"
            self.pictures.append(base64.b64decode(data).decode())
        elif "href" in attributes:
            self.references.append(attributes["href"])
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, (tag, self.open)

    def figures(self):
        return [xml.etree.ElementTree.fromstring(picture) for picture in self.pictures]

    def labels(self):
        """The texts of each figure."""
        return [{part.text for part in figure.iter() if part.tag.endswith("text")} for figure in self.figures()]


needs_matplotlib = pytest.mark.skipif(
    subprocess.run(["/usr/bin/python3", "-c", "import matplotlib"], capture_output=True, check=False).returncode != 0,
    reason="python3-matplotlib is not installed")


@pytest.fixture
def report(job, tmp_path):
    """Makes a page of {file name: its JSON, or text}; gives it and the command's result."""
    def make(files, *options, code=0, env=None):
        directory = tmp_path / "results"
        directory.mkdir(exist_ok=True)
        for name, content in files.items():
            (directory / name).write_text(content if isinstance(content, str) else json.dumps(content))
        done = job.run([ONESPACE, "report", "--results", directory, "-o", tmp_path / "page.html", *options],
                       env=env or {}).expect(code)
        assert len(done.err.splitlines()) >= 1 and "Traceback" not in done.err, done
        return (Page((tmp_path / "page.html").read_text()) if code == 0 else None), done
    return make


def test_report_shows_a_real_result(job, tmp_path):
    job.run([ROOT / "bench/mappings/run", "--workers", "2", "--iterations", "20", "--sizes", "4096,65536",
             "--repeats", "2", "--no-plot", "--results", tmp_path], env={"ONESPACE_BIN": ONESPACE}).expect()
    job.run([ONESPACE, "report"], env={"ONESPACE_BENCH_RESULTS": str(tmp_path)}).expect()
    page = Page((tmp_path / "report.html").read_text())
    data = json.loads((tmp_path / "mappings.json").read_text())
    for text in (data["paper"]["claim"], data["paper"]["figure"], data["machine"]["cpu"], data["versions"]["onespace"],
                 data["command"], "limit: enter", "processes / tasks", "64 KiB"):
        assert text in page.text, text
    assert page.text.count("<figure>") == 4  # brk, heap, mmap, touch


def test_report_refers_to_nothing_outside(report):
    page, _ = report({"a.json": result([SERIES]), "b.json": result([SERIES])})
    assert page.references == ["#q1", "#q2"]
    assert not re.search(r"url\(|@import|https?:", page.text)
    for figure in page.figures():
        assert all(value.startswith("#") for part in figure.iter() for name, value in part.attrib.items()
                   if name.endswith("href"))


def test_report_shows_every_file_of_every_directory(report, job, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.json").write_text(json.dumps(result([SERIES], question="The other directory's?")))
    names = [f"p2p-{i}.json" for i in range(5)]
    page, _ = report({name: result([SERIES], question=f"Is it {name}?") for name in names}, "--results", other,
                     "--results", other)
    titles = re.findall(r"<h2>(.*?)</h2>", page.text)
    assert titles == [f"{i + 1}. Is it {name}?" for i, name in enumerate(names)] + ["6. The other directory&#x27;s?"]


def test_report_escapes_names(report):
    name = 'a<b>&"c"/tasks</svg><script>alert(1)</script>'
    page, _ = report({"a.json": result([{**SERIES, "name": name}], question="<&>?",
                                       paper={"document": "<&>", "figure": "<i>", "claim": "]]><&>"})})
    assert page.text.count("&lt;script&gt;") >= 1 and "<script" not in page.text


EXTREMES = {
    "one x": [{**SERIES, "x": [4096], "samples": [[1e-6]]}],
    "zeros": [{**SERIES, "samples": [[0, 0], [0, 0], [0, 0]]}, {**SERIES, "name": "processes", "unit": "count"}],
    "some zeros": [{**SERIES, "samples": [[0], [0.5], [1000]]}],
    "x of zero": [{**SERIES, "x": [0, 1, 2]}],
    "huge counts": [{**SERIES, "unit": "count", "samples": [[1], [10 ** 18], [10 ** 300]]}],
    "tiny times": [{**SERIES, "samples": [[1e-300], [1e-12], [1e9]]}],
    "bytes": [{**SERIES, "unit": "bytes", "samples": [[0], [1023], [1 << 62]]}],
    "the same again": [{**SERIES, "samples": [[7, 7], [7, 7], [7, 7]]}],
    "many curves": [{**SERIES, "name": f"mpi/{i}"} for i in range(40)],
    "many points": [{**SERIES, "x": list(range(3000)), "samples": [[i + 1] for i in range(3000)]}],
    "different points": [SERIES, {**SERIES, "name": "other", "x": [3], "samples": [[1]]}],
}


@needs_matplotlib
@pytest.mark.parametrize("series", EXTREMES.values(), ids=list(EXTREMES))
def test_report_draws_extreme_values(report, series):
    page, _ = report({"a.json": result(series, [{**SERIES, "name": "limit", "x": [5], "samples": [[1e-7]]}])})
    assert page.figures() and all(len(labels) > 2 for labels in page.labels())


def test_report_without_matplotlib_has_open_tables(report, tmp_path):
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules/matplotlib.py").write_text("raise ImportError\n")
    page, done = report({"a.json": result([SERIES])}, env={"PYTHONPATH": str(tmp_path / "modules")})
    assert not page.pictures and "<details open>" in page.text and "python3-matplotlib is not installed" in done.err


@pytest.mark.parametrize("what, content, reason", [
    ("text", "no JSON {", "is not JSON"), ("another format", {"format": "else"}, "is not of the format"),
    ("a list", [1, 2], "is not of the format"),
    ("no series", result([]), "it has no series"),
    ("no machine", {**result([SERIES]), "machine": None}, "is damaged"),
    ("no claim", {**result([SERIES]), "paper": {"document": "d", "figure": "f"}}, "claim is missing"),
    ("text for numbers", result([{**SERIES, "samples": [["1"], [1], [1]]}]), "is not a number"),
    ("not a number", result([{**SERIES, "samples": [[float("nan")], [1], [1]]}]), "is not a number"),
    ("a huge number", result([{**SERIES, "samples": [[10 ** 400], [1], [1]]}]), "is damaged"),
    ("samples that lack", result([{**SERIES, "samples": [[1]]}]), "lacks samples")],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "")
def test_report_names_what_it_leaves_out(report, what, content, reason):
    page, done = report({"bad.json": content, "good.json": result([SERIES])})
    assert f"bad.json {done.err.split('bad.json ')[1].splitlines()[0]}" in done.err and reason in done.err, done
    assert len(done.err.splitlines()) == 2, done  # it, and where the page is
    assert "Left out" in page.text and "1. How long?" in page.text


def node(host, results):
    return {"format": "onespace-node/1", "host": host, "began": "2026-01-02 03:04", "kernel": "6", "libc": "glibc 2",
            "cpus": 16, "results": results,
            "parts": [{"name": "doctor", "outcome": "failed with 1", "seconds": 0.5, "output": "<b>wrong</b>"}]}


def exchange(seconds):
    return result([{"name": "processes", "unit": "s", "x": [8], "samples": [[1e-6] * 3]},
                   {"name": "tasks", "unit": "s", "x": [8], "samples": [[seconds] * 3]}])


def test_report_shows_nodes_side_by_side(report):
    page, _ = report({"a.json": node("first", {"p2p": exchange(5e-7)}),
                      "b.json": node("second", {"p2p": exchange(2e-6)})})
    assert "<th>first</th><th>second</th>" in page.text
    cells = re.search(r"<tr><td>p2p: 8 x</td><td>(.*?)</td><td>(.*?)</td></tr>", page.text)
    assert "500 ns" in cells[1] and "2.0 times as fast" in cells[1], cells
    assert "2.00 µs" in cells[2] and "2.00 times as long" in cells[2], cells
    assert page.text.count("How long?") >= 2 and page.text.count("&lt;b&gt;wrong") == 2 and "<b>wrong" not in page.text


def test_report_reads_the_file_of_one_node(report, job, tmp_path):
    """Beside the results that the kit leaves in the same directory, which count once."""
    report({"node.json": node("first", {"p2p": exchange(5e-7)}), "p2p.json": exchange(5e-7)})
    assert "wrote" in (done := job.run([ONESPACE, "report", "--results", tmp_path / "results"]).expect()).err
    assert "1 of 1 results" in done.err, done
    done = job.run([ONESPACE, "report", "--results", tmp_path / "results/node.json"]).expect()
    assert "1 of 1 results" in done.err and (tmp_path / "results/report.html").exists(), done


@pytest.mark.parametrize("damage, reason", [
    ({"host": 3}, "host is not text"), ({"parts": [{}]}, "name is missing"), ({"cpus": "many"}, "cpus is not a number"),
    ({"results": []}, "results is not an object"), ({"results": {"p2p": {}}}, "is missing")])
def test_report_names_what_is_damaged_of_a_node(report, damage, reason):
    _, done = report({"bad.json": {**node("first", {}), **damage}, "good.json": result([SERIES])})
    assert reason in done.err and "bad.json" in done.err, done


def test_report_shades_a_matrix(report):
    rows = [{"name": str(i), "unit": "s", "x": [1 - i], "samples": [[1e-7 * (i + 1)]]} for i in range(2)]
    page, _ = report({"cachelines.json": result(rows)})
    assert page.text.count("style=\"background: rgb(") == 2


def test_report_of_nothing_fails(report, tmp_path):
    _, done = report({"bad.json": "{"}, "--results", tmp_path / "absent", code=1)
    assert "no results in" in done.err and "does not exist" in done.err and "bench/run-all" in done.err, done
    assert not (tmp_path / "page.html").exists()


def test_report_keeps_the_old_page_when_it_cannot_write(report, tmp_path):
    _, done = report({"a.json": result([SERIES])}, "-o", tmp_path / "absent/page.html", code=1)
    assert "cannot write" in done.err and "-o" in done.err, done
    (tmp_path / "page.html").mkdir()
    _, done = report({}, code=1)
    assert "cannot write" in done.err, done
    assert sorted(os.listdir(tmp_path)) == ["page.html", "results"]  # and nothing half-written


def test_report_names_loops_as_their_benchmark_does(report):
    page, _ = report({"heap.json": result([{**SERIES, "x": [0, 1], "samples": [[1], [2]]}])})
    assert "2 M small malloc/free" in page.text


@needs_matplotlib
@pytest.mark.parametrize("look", ["light", pytest.param("dark", marks=pytest.mark.long),
                                  pytest.param("narrow", marks=pytest.mark.long)])
def test_report_is_drawn_by_a_browser(report, job, tmp_path, look):
    browser = shutil.which("chromium")
    if not browser:
        pytest.skip("chromium is not installed (scripts/setup browser)")
    report({"a.json": result([SERIES, {**SERIES, "name": "processes"}], [{**SERIES, "name": "limit"}])})
    width = 500 if look == "narrow" else 1200
    dark = ["--blink-settings=preferredColorScheme=0"] if look == "dark" else []
    job.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             f"--user-data-dir={tmp_path}/profile", f"--window-size={width},1600", *dark,
             f"--screenshot={tmp_path}/page.png", f"file://{tmp_path}/page.html"],
            env={"XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)}).expect()
    image = pytest.importorskip("matplotlib.image", reason="python3-matplotlib is not installed")
    pixels = image.imread(str(tmp_path / "page.png"))[..., :3]
    assert pixels.shape[:2] == (1600, width)
    assert (pixels[2, 2].mean() < 0.3) == (look == "dark"), pixels[2, 2]

    def drawn(*colour):
        return (abs(pixels - [value / 255 for value in colour]).max(axis=2) < 0.02).sum()
    assert drawn(0, 0x72, 0xb2) > 100 and drawn(0xd5, 0x5e, 0) > 100  # curves of tasks and processes
    assert (pixels[:, -4:] == pixels[2, 2]).all()  # nothing runs out of the page


# ---- The summary ----

def pair(theirs, ours, unit="s", name="mpich/send"):
    """Two series, of one x, with these samples."""
    return [{"name": f"{name}/{who}", "unit": unit, "x": [1 << 20], "samples": [samples]}
            for who, samples in (("processes", theirs), ("tasks", ours))]


def summary(page):
    rows = re.findall(r"(?s)<tr>(.*?)</tr>", page.text.split("<tbody>")[1].split("</tbody>")[0])
    return [[re.sub(r"<[^>]+>", "", cell) for cell in re.findall(r"(?s)<td[^>]*>(.*?)</td>", row)] for row in rows]


@pytest.mark.parametrize("theirs, ours, unit, gained, sure", [
    ([3e-5] * 9, [1e-5] * 9, "s", "3.0 times as fast", "sure: 3.00 to 3.00 times in half of 9 runs"),
    ([1e-5] * 9, [2e-5] * 9, "s", "2.00 times as long", "sure: 2.00 to 2.00 times in half of 9 runs"),
    ([1e-5] * 9, [1.01e-5] * 9, "s", "the same", "sure: 0.99 to 0.99 times in half of 9 runs"),
    ([1, 1, 1, 9, 9, 9], [2] * 6, "s", "unclear", "no difference is shown: 0.50 to 4.50 times in half of 6 runs"),
    ([2, 3, 4, 5, 6], [1] * 5, "s", "4.0 times as fast", "scatters: 3.00 to 5.00 times in half of 5 runs"),
    ([3e-5] * 2, [1e-5] * 2, "s", "3.0 times as fast", "a first look: 2 runs"),
    ([1 << 20] * 5, [1 << 19] * 5, "bytes", "0.50 times as much", "sure: 0.50 to 0.50 times in half of 5 runs")],
    ids=["gain", "loss", "equal", "unclear", "scatters", "few", "memory"])
def test_summary_says_what_was_gained_and_how_sure(report, theirs, ours, unit, gained, sure):
    page, _ = report({"p2p.json": result(pair(theirs, ours, unit), versions={
        "onespace": "onespace 0", "compiler": "cc", "libc": "glibc", "mpich": "MPICH 9"})})
    (question, what, *output), = summary(page)
    assert question == "How long?" and what.startswith("MPICH 9, send, message size 1 MiB: "), what
    assert output == [gained, sure]


def test_summary_shows_the_largest_loss(report):
    """Where tasks are slower at a size that is not the headline's, and where only one pair of many is."""
    series = [*pair([9] * 5, [3] * 5), *pair([9] * 5, [3] * 5, name="mpich/recv"), *pair([9] * 5, [3] * 5, name="x/y"),
              *pair([9] * 5, [3] * 5, name="openmpi/send"), *pair([9] * 5, [8] * 5, name="openmpi/recv")]
    series[-2]["x"], series[-2]["samples"] = [8, *series[-2]["x"]], [[1, 1, 1, 1, 1], *series[-2]["samples"]]
    series[-1]["x"], series[-1]["samples"] = [8, *series[-1]["x"]], [[2, 2, 2, 2, 2], *series[-1]["samples"]]
    page, _ = report({"p2p.json": result(series)})
    rows = summary(page)
    assert [row[2] for row in rows] == ["3.0 times as fast"] * 3 + ["2.00 times as long"], rows
    assert "openmpi, recv, message size 8 B" in rows[-1][1] and rows[-1][1].endswith("and 2 more"), rows


def test_summary_doubts_a_busy_machine(report):
    notes = ["other programs are running (2 for each CPU)"]
    page, _ = report({"p2p.json": result(pair([3] * 9, [1] * 9), notes=notes)})
    assert summary(page)[0][3].startswith("doubtful, the machine was busy: 3.00")
    assert "<td class=level>" in page.text and "<td class=gain>" not in page.text


def test_summary_compares_like_with_like(report):
    """Each line has one MPI, one operation, one size: no median over them."""
    series = [*pair([9] * 5, [3] * 5), *pair([8] * 5, [8] * 5, name="openmpi/send"),
              {"name": "mpich/send/threads", "unit": "s", "x": [1], "samples": [[1]]}]
    page, _ = report({"p2p.json": result(series)})
    assert [row[2] for row in summary(page)] == ["3.0 times as fast", "the same"]
    assert "median 2" not in page.text and "of 2 points" not in page.text


def test_most_asked_questions_come_first(report):
    names = ["xpmem", "startup", "p2p-fresh", "unknown", "applications"]
    page, _ = report({f"{name}.json": result([SERIES], question=f"Is it {name}?") for name in names})
    assert re.findall(r"<h2>\d+. Is it (.*?)\?</h2>", page.text) == ["p2p-fresh", "applications", "startup", "xpmem",
                                                                      "unknown"]


@needs_matplotlib
def test_axes_have_names(report):
    series = [{**SERIES, "name": "mpich/send/tasks"},
              {**SERIES, "name": "mpich/room/tasks", "unit": "bytes", "x": [7], "samples": [[1]]}]
    page, _ = report({"p2p.json": result(series)})
    curves, dots = page.labels()
    assert {"message size", "time"} <= curves and "memory" in dots


def test_report_fits_a_telephone(report, job, tmp_path):
    browser = shutil.which("chromium")
    if not browser:
        pytest.skip("chromium is not installed (scripts/setup browser)")
    long = "a name of a benchmark that has many words in it and then some more of them"
    series = [*pair([3] * 5, [1] * 5), *pair([3] * 5, [1] * 5, name=f"mpich/{long}")]
    report({"p2p.json": result(series, question=long)})
    (tmp_path / "frame.html").write_text("""<title>none</title><iframe width=390 src=page.html></iframe><script>
      onload = () => { document.title = document.querySelector("iframe").contentDocument.documentElement.scrollWidth }
      </script>""")
    done = job.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
                    "--dump-dom", f"--user-data-dir={tmp_path}/profile", f"file://{tmp_path}/frame.html"],
                   env={"XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)})
    assert int(re.search(r"<title>(.*?)</title>", done.out)[1]) <= 390, done
