"""tests/docs/test_paths.py: the files that docs/internals, CONTRIBUTING and SECURITY name exist, and define the
functions that the pages say they define."""
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs/internals").glob("*.md"))]
TOP = "src|cmd|tests|include|examples|man|scripts|cmake|docs|bench|python|packaging|.ci|.clang-format"
PATH = re.compile(rf"`((?:{TOP})/[\w./-]+)`")
# Names and the file that is said to define them: `name` in `src/…`, `name` and `other` in `src/…`, `name` (`src/…`).
NAMES = r"(?:`(?:struct |enum )?\w+`(?:,? and |, ))*`(?:struct |enum )?\w+`"
SOURCE = r"`((?:src|cmd|include|plugins)/[\w./-]+\.(?:[chS]|[ch]pp))`"
DEFINED = re.compile(rf"({NAMES})\s+(?:of|in|\()\s*{SOURCE}")
# A row of a table with the columns step, function, file.
STEP = re.compile(rf"(?m)^\|[^|\n]*\| ({NAMES}) \| {SOURCE} \|$")


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


def has_body(text, start):
    """Whether the parenthesis at `start` begins the parameters of a definition."""
    depth = 0
    for end in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        if depth == 0:
            return re.match(r"\s*(?:const|noexcept|\s)*(?:\{|\\\n\s*CALL)", text[end + 1:]) is not None
    return False


def defines(file, name):
    """Whether the source defines a function, macro, type, variable, constant or label of that name."""
    text = re.sub(r"(?s)/\*.*?\*/|//[^\n]*", "", (ROOT / file).read_text())
    kinds = [rf"#\s*define {name}\b", rf"(?m)^{name}:", rf"(?m)^\w[^;(]*\b{name}(?:\[[^\]]*\])* = ",
             rf"\b(?:struct|enum|class|union) {name} (?:final )?(?::[^{{;]*)?\{{",
             rf"(?m)^ +{name}(?: = [^,]*)?," if name.isupper() else r"(?!)"]
    if any(re.search(kind, text) for kind in kinds):
        return True
    return any(has_body(text, match.end() - 1) for match in re.finditer(rf"\b{name}\(", text))


def named_definitions(page):
    """[(name, file)] that the page says are defined there."""
    found = DEFINED.findall(page.read_text()) + STEP.findall(page.read_text())
    return [(name.split()[-1], file) for names, file in found for name in re.findall(r"`([^`]+)`", names)]


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_functions_are_defined_in_the_files_that_are_named(page):
    missing = [f"{name} is not defined in {file}" for name, file in named_definitions(page)
               if is_there(file) and not defines(file, name)]
    assert not missing, f"{relative(page)}:\n" + "\n".join(missing)


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_each_step_of_a_table_names_functions_and_a_file(page):
    tables = re.findall(r"(?m)^\|[^|\n]*\| function \| file \|\n\|[-|]*\n((?:\|.*\n)*)", page.read_text())
    bad = [row for table in tables for row in table.splitlines() if not STEP.fullmatch(row)]
    assert not bad, "\n".join(bad)


# Names of glibc, musl, the kernel and the CPU.
FOREIGN_NAMES = {"CTR_EL0", "__unmapself", "_dl_get_origin", "rt_sigreturn"}


def test_identifiers_on_the_pages_are_in_the_code():
    files = [file for directory in ("bench", "cmake", "cmd", "include", "plugins", "python", "scripts", "src", "tests")
             for file in (ROOT / directory).rglob("*")
             if file.suffix in (".c", ".h", ".S", ".cpp", ".hpp", ".py", ".txt", ".cmake", ".in") and file.is_file()
             and file.parent != Path(__file__).parent]
    code = {name for file in files for name in re.findall(r"[A-Za-z_]\w*_\w*", file.read_text(errors="replace"))}
    missing = [f"{relative(page)}: {name}" for page in PAGES
               for name in re.findall(r"`([A-Za-z_]\w*_\w+)(?:\(\))?`", re.sub(r"(?s)```.*?```", "", page.read_text()))
               if name not in code | FOREIGN_NAMES]
    assert not missing, "\n".join(missing)


# The paths of the calls that a reader follows most: title, page, and the most files that one may lead through.
CALL_PATHS = [("From `onespace_spawn` to `main`:", "life-of-a-task.md", 6),
              ("From `exit` to the free slot:", "life-of-a-task.md", 6),
              ("`MPI_Put` on a window of one node", "mpi-layer.md", 6),
              ("The path of an `MPI_Allreduce` of 8 bytes", "collectives.md", 6),
              ("From `mpiexec … onespace run PROGRAM` to the task:", "libraries.md", 8)]


@pytest.mark.parametrize("title, page, most", CALL_PATHS, ids=[title for title, *_ in CALL_PATHS])
def test_call_path_is_short(title, page, most):
    text = (ROOT / "docs/internals" / page).read_text().split(title)[1]
    table = text[:text.index("\n\n", text.index("|---"))]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    steps = STEP.findall(table)
    assert len(rows) == len(steps) >= 5, "each row has the columns step, function, file"
    assert len({file for _, file in steps}) <= most


def test_glossary_is_short_and_its_terms_are_those_of_the_code():
    text = (ROOT / "docs/internals/README.md").read_text()
    terms = re.findall(r"(?m)^\| ([\w ]+) \|", text[text.index("## Glossary"):text.index("## The central")])[1:]
    files = [file for directory in ("src", "cmake") for file in sorted((ROOT / directory).rglob("*"))]
    code = "\n".join(file.read_text() for file in files if file.suffix in (".c", ".h", ".cmake", ".txt"))
    identifiers = set(re.findall(r"\w+", re.sub(r"(?s)/\*.*?\*/", "", code.lower())))
    unused = [term for term in terms if not any(
        re.search(rf"(?:^|_){re.sub(' ', '_', term.removesuffix(' mode'))}(?:s|_|$)", name) for name in identifiers)]
    assert 15 <= len(terms) <= 25 and not unused, unused


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"(?s)```.*?```", "", page.read_text())):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve() if path else page
        assert place.exists(), f"{target} does not exist"
        assert not anchor or anchor in anchors_of(place), f"{target} names no title"


def test_every_page_of_internals_is_in_its_index_and_on_the_website():
    index = (ROOT / "docs/internals/README.md").read_text()
    navigation = (ROOT / "packaging/website/mkdocs.yml.in").read_text()
    for page in (ROOT / "docs/internals").glob("*.md"):
        assert page.name == "README.md" or f"({page.name})" in index, f"{relative(page)} is not in the index"
        assert f"internals/{page.name}\n" in navigation, f"{relative(page)} is not in the navigation of the website"


def test_every_header_of_the_registry_is_described():
    described = (ROOT / "docs/internals/registry.md").read_text()
    for header in (ROOT / "src/space").glob("*.h"):
        assert f"`{relative(header)}`" in described, f"registry.md lacks {relative(header)}"


def test_the_page_of_interposed_calls_is_current():
    result = subprocess.run([sys.executable, ROOT / "scripts/interposed-calls", "--check"], capture_output=True,
                            text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr


# Headers and sources of other projects that comments name.
FOREIGN = {"PluginEngineInterface.h", "binfmt_script.c", "link.h", "lustre_user.h", "malloc.h", "mpi.h", "mpif.h",
           "unwind.h", "xpmem_internal.h"}


def test_comments_name_files_that_exist():
    sources = [file for directory in ("src", "cmd", "include", "plugins") for file in (ROOT / directory).rglob("*")
               if file.suffix in (".c", ".h", ".S", ".cpp", ".hpp")]
    known = {str(file.relative_to(ROOT)).replace("arch/x86_64", "arch") for directory in ("examples", "python", "tests")
             for file in (ROOT / directory).rglob("*")}
    known |= {str(file.relative_to(ROOT)).replace("arch/x86_64", "arch") for file in sources}
    ends = {"/".join(path.split("/")[-count:]) for path in known for count in range(1, 8)}
    stale = [f"{source.relative_to(ROOT)}: {name}" for source in sources
             for comment in re.findall(r"(?s)/\*.*?\*/|//[^\n]*", source.read_text())
             for name in re.findall(r"(?<![\w<./-])(?:\w+/)*\w+\.(?:c|h|S|cpp|hpp|py)\b", comment)
             if name.replace("arch/x86_64", "arch") not in ends and name.split("/")[-1] not in FOREIGN]
    assert not stale, "\n".join(stale)
