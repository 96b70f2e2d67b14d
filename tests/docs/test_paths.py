"""tests/docs/test_paths.py: what docs/internals, CONTRIBUTING and SECURITY name exists."""
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs/internals").glob("*.md"))]
TOP = "src|cmd|tests|include|examples|man|scripts|cmake|docs|bench|python|packaging|.ci|.clang-format"
PATH = re.compile(rf"`((?:{TOP})/[\w./-]+)`")
# A function and the file that is said to have it: `name` in `src/…`, `name` (`src/…`).
FUNCTION = re.compile(r"`(\w+)`\s+(?:of|in|\()\s*(?:the\s+)?`((?:src|cmd)/[\w./-]+\.[chS])`")


def relative(page):
    return str(page.relative_to(ROOT))


def is_there(name):
    return (ROOT / name).exists()


def anchors_of(page):
    titles = re.findall(r"(?m)^#+ (.*)$", re.sub(r"(?s)```.*?```", "", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_there_is_something_to_check():
    assert len(PAGES) >= 9
    assert sum(len(PATH.findall(page.read_text())) for page in PAGES) > 200


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_paths_exist(page):
    missing = sorted({name for name in PATH.findall(page.read_text()) if not is_there(name)})
    assert not missing, f"{relative(page)} names files that do not exist:\n" + "\n".join(missing)


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_functions_are_in_the_files_that_are_named(page):
    missing = [f"{function} is not in {name}" for function, name in FUNCTION.findall(page.read_text())
               if is_there(name) and not re.search(rf"\b{function}\b", (ROOT / name).read_text())]
    assert not missing, f"{relative(page)}:\n" + "\n".join(missing)


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"(?s)```.*?```", "", page.read_text())):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve() if path else page
        assert place.exists(), f"{target} does not exist"
        assert not anchor or anchor in anchors_of(place), f"{target} names no title"


def test_every_page_of_internals_is_in_its_index():
    index = (ROOT / "docs/internals/README.md").read_text()
    for page in (ROOT / "docs/internals").glob("*.md"):
        assert page.name == "README.md" or f"({page.name})" in index, f"{relative(page)} is not in the index"


def test_every_layer_is_described():
    described = (ROOT / "docs/internals/layers.md").read_text()
    nested = [part for group in ("mpi", "storage") for part in (ROOT / "src" / group).iterdir()]
    for directory in [*(ROOT / "src").iterdir(), *nested]:
        if directory.is_dir() and directory.name not in ("python", "arch"):
            assert f"`{relative(directory)}`" in described, f"layers.md lacks {relative(directory)}"


def test_every_header_of_the_registry_is_described():
    described = (ROOT / "docs/internals/registry.md").read_text()
    for header in (ROOT / "src/space").glob("*.h"):
        assert f"`{relative(header)}`" in described, f"registry.md lacks {relative(header)}"


def test_the_page_of_interposed_calls_is_current():
    result = subprocess.run([sys.executable, ROOT / "scripts/interposed-calls", "--check"], capture_output=True,
                            text=True, timeout=30, check=False)
    assert result.returncode == 0, result.stderr
