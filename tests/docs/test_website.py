"""tests/docs/test_website.py: the documentation as web pages (scripts/website): a strict build, no dead links, every
public declaration, and no page wider than a telephone's screen."""
import html.parser
import json
import re
import shutil
import subprocess
import urllib.parse
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("website")  # one worker builds it for all
ROOT = Path(__file__).resolve().parents[2]
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}
OF_THE_REPOSITORY = {"CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
# One of each kind: text, wide tables, long code, a man page, declarations.
LOOKED_AT = ["index.html", "launchers.html", "messages/doctor.html", "measurements/many-ranks.html",
             "symptoms/index.html", "symptoms/cma-not-permitted.html", "reference/onespace-run.html",
             "reference/onespace-h.html", "reference/onespace-sync-team-hpp.html", "reference/python.html",
             "first-job.html", "contents.html"]


class Page(html.parser.HTMLParser):
    """The URLs that a page loads, its links, and its anchors."""

    def __init__(self, path):
        super().__init__()
        self.loads, self.links, self.anchors, self.text = [], [], set(), path.read_text()
        self.feed(self.text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if given.get(LOADED.get(tag)) and given.get("rel") != "canonical":
            self.loads.append(given[LOADED[tag]])


@pytest.fixture(scope="module")
def website(tmp_path_factory):
    """Builds the website. Returns the directory and {path: Page}."""
    for needed in (ROOT / ".venv/website/bin/python", "doxygen", "mandoc"):
        if not shutil.which(needed):
            pytest.skip(f"{Path(needed).name} is not installed (scripts/setup website)")
    directory = tmp_path_factory.mktemp("website")
    done = subprocess.run([ROOT / "scripts/website", directory], capture_output=True, text=True, timeout=300,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory, {path.relative_to(directory): Page(path) for path in directory.rglob("*.html")}


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "packaging/website/mkdocs.yml.in").read_text().partition("\nnav:\n")[2]
    named = set(re.findall(r"(?m)^ *- (?:.*: )?(\S+\.md)$", navigation))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    made = {"index.md", "license.md", "examples.md", "reference/python.md"}
    assert named == pages - {"README.md"} | {"contents.md"} | OF_THE_REPOSITORY | made


def test_website_loads_nothing_from_elsewhere(website):
    _, pages = website
    assert len(pages) > 100
    outside = {(str(path), place) for path, page in pages.items() for place in page.loads
               if re.match(r"(?:https?:)?//", place)}
    assert not outside


def test_website_has_no_dead_link(website):
    directory, pages = website
    dead = []
    for path, page in pages.items():
        if path.name == "404.html":
            continue
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            name, anchor = map(urllib.parse.unquote, (parts.path, parts.fragment))
            target = (directory / path.parent / name).resolve() if name else (directory / path).resolve()
            inside = target.is_relative_to(directory.resolve())
            other = pages.get(target.relative_to(directory.resolve())) if inside else None
            if not target.exists() or other and anchor and anchor not in other.anchors:
                dead.append(f"{path}: {link}")
    assert not dead, "\n".join(dead[:40])


def test_website_has_every_public_declaration(website):
    _, pages = website
    for header in ("onespace.h", "onespace/insitu.h", "onespace/call.h", "onespace/window.h", "onespace/parallel.h",
                   "xpmem.h", "pip/pip.h"):
        name = f"reference/{re.sub('[/.]', '-', header)}.html"
        text = re.sub(r"(?s)/\*.*?\*/", "", (ROOT / "include" / header).read_text())
        names = set(re.findall(r"(?m)^(?!#|typedef|\s*static)[\w ]*[\w*]+[ *]+((?:onespace|pip|xpmem)_\w+)\s*\(", text))
        assert len(names) >= 5, (header, names)
        missing = {one for one in names if one.lower() not in pages[Path(name)].anchors}
        assert not missing, (header, missing)


def test_website_keeps_the_words_of_comments(website):
    """Text, indented parts and comments behind members, of a function, a header and a structure."""
    _, pages = website
    shown = {name: re.sub(r"<[^>]*>", "", pages[Path(f"reference/{name}.html")].text) for name in
             ("onespace-h", "onespace-insitu-h", "onespace-sync-team-hpp")}
    assert "Makes the calling process the root of a new space" in shown["onespace-h"]
    assert "producer                                  consumer" in shown["onespace-insitu-h"]
    assert "the root's id" in shown["onespace-h"].replace("&#39;", "'")
    assert "Memory of each rank of a team, visible to all." in shown["onespace-sync-team-hpp"]


def test_website_fits_a_telephone(website, tmp_path):
    """At 390 pixels no page is wider than the screen: wide tables and code scroll by themselves. The name of a command
    is in one line of its synopsis."""
    browser = shutil.which("chromium")
    if not browser:
        pytest.skip("chromium is not installed (scripts/setup browser)")
    directory, _ = website
    frames = "".join(f'<iframe width=390 height=800 src="file://{directory / name}" title="{name}"></iframe>'
                     for name in LOOKED_AT)
    script = """setInterval(() => { const all = [...document.querySelectorAll("iframe")];
      if (all.every(one => one.contentDocument && one.contentDocument.readyState == "complete"))
        document.title = JSON.stringify(all.map(one => [one.title, one.contentDocument.documentElement.scrollWidth,
          one.contentDocument.body.innerText.length,
          ...[...one.contentDocument.querySelectorAll("table.Nm code.Nm")].map(name => name.getClientRects().length)]))
      }, 1000)"""
    (tmp_path / "frames.html").write_text(f"<title>none</title>{frames}<script>{script}</script>")
    done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
                           f"--user-data-dir={tmp_path}/profile", "--virtual-time-budget=30000", "--dump-dom",
                           f"file://{tmp_path}/frames.html"], capture_output=True, text=True, timeout=300, check=False)
    found = json.loads(re.search(r"<title>(.*?)</title>", done.stdout)[1])
    assert [page[0] for page in found] == LOOKED_AT and all(length > 500 for _, _, length, *_ in found), found
    assert not [(name, width) for name, width, *_ in found if width > 390], found
    lines = [count for page in found for count in page[3:]]
    assert lines and set(lines) == {1}, found
