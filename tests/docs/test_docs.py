"""tests/docs/test_docs.py: the documentation agrees with the sources, the commands' help and itself."""
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ONESPACE_BUILD", ROOT / "build"))
COMMAND = BUILD / "bin" / "onespace"
SUBCOMMANDS = ["run", "mpiexec", "ps", "map", "check", "doctor", "gdb", "core", "bench", "report", "windows",
               "insitu", "completion"]
PAGES = sorted(p for p in (ROOT / "man").glob("*.[135]") if not p.read_text().startswith(".so"))
LINKS = sorted(p for p in (ROOT / "man").glob("*.3") if p.read_text().startswith(".so"))
MESSAGES = sorted((ROOT / "docs" / "messages").glob("*.md"))
TEXTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")), *MESSAGES,
         *sorted((ROOT / "docs" / "measurements").glob("*.md")), *sorted((ROOT / "docs" / "symptoms").glob("*.md"))]
SOURCES = [p for directory in ("src", "cmd") for p in sorted((ROOT / directory).rglob("*.c"))]
NO_MESSAGE_SOURCES = [ROOT / "cmd/map/svg.c",  # texts of a picture
                      ROOT / "cmd/completion/completion.c",  # parts of a script
                      ROOT / "src/policy/audit.c"]  # records, which onespace-policy(5) describes


# ---- Messages ----

STATEMENT_END = re.compile(r"[;{}]")
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
CONVERSION = re.compile(r"%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+)?)?(?:hh|h|ll|l|z|j|t)?[diouxXeEfgGcspm%]|%#?$")
# Statements whose text is not a message: help, normal output, checks at compile time, machine code, words that are
# searched for in other programs' output, and names of launchers' options.
NO_MESSAGE = re.compile(
    r"\b(?:static_assert|__asm__|asm)\b|\busage\b|\b\w+_help\[\]|\bjson_\w+\s*\(|doctor_say\s*\(\s*DOCTOR_GOOD|"
    r"\b(?:strstr|word_after|sscanf|strncmp|strlen|fopen|popen|open|getenv)\s*\(|\bcommand_\w+\b|"
    r"^\s*(?:\d|NAME_AND_VALUE|AMBIGUOUS|PROGRAM_FILE|COPIES_PROGRAM), *\"|"
    r"^\s*(?:\w+\s+)*(?:printf|puts|fputs|putchar)\s*\(|\bfprintf\s*\(\s*(?:out|stdout)\b", re.M)
# Texts that the rules above mistake for messages.
NO_MESSAGES = {
    "thread stack": "a kind of memory, in the tables of onespace map",
    "while ! grep -q '^State:[[:space:]]*T' /proc/$1/status; do sleep 0.02; done; exec \"$2\" \"$1\" \"$3\" \"$4\") &":
        "a script that waits until a task has stopped",
    "xff Go buildinf": "the mark that is searched for in Go programs",
    "Intel(R) MPI": "what Intel's launcher says of itself",
    "MPICH's Hydra": "a launcher's name, in what is good",
    "mpiexec --host": "a command line of Open MPI",
    "map-by ppr:1:node -n": "its rest",
    "import sys try: import onespace.dump except ImportError as error: sys.exit(f'onespace insitu dump: {error}":
        "a script that the command runs; its message is Python's, about a missing module",
    "kill -SEGV $$": "a script that the doctor runs",
}


def without_comments(text):
    keep = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|/\*.*?\*/|//[^\n]*', re.S)
    return keep.sub(lambda match: match[0] if match[0][0] in "\"'" else " ", text)


def statements(text):
    """The parts of the text between ; { and } outside literals."""
    hidden = LITERAL.sub(lambda match: '"' + "x" * (len(match[0]) - 2) + '"', text)
    hidden = re.sub(r"'(?:[^'\\]|\\.)'|'\\..*?'", lambda match: "'" * len(match[0]), hidden)
    start = 0
    for match in STATEMENT_END.finditer(hidden):
        yield text[start:match.start()]
        start = match.end()
    yield text[start:]


def unescape(text):
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "t": " "}.get(match[1], match[1]), text)


def words(text):
    return " ".join(text.split())


def message_parts(text):
    """The fixed parts of the messages of a source that have at least two words."""
    text = re.sub(r"(?m)^\s*#.*(?:\\\n.*)*$", "", without_comments(text))
    for statement in statements(text):
        if NO_MESSAGE.search(statement):
            continue
        joined = re.sub(r'"\s+"', "", statement)
        for literal in LITERAL.finditer(joined):
            for part in CONVERSION.split(unescape(literal[1])):
                part = words(part).strip(" :;,.()'`\"-")
                if len(re.findall(r"[A-Za-z]{2,}", part)) >= 2 and " " in part:
                    yield part


def test_extractor_finds_what_it_should():
    """Literals, joined literals, conversions and comments: the checks below depend on it."""
    source = r'''
/* "not this one" */ static const char usage[] = "usage: no message";
void f(void) { fprintf(stderr, "tool: cannot open %s: "
   "bad file %d; too bad\n", a, b); say(x, c ? "is not there" : "one", ";{"); printf("all went well\n"); }
'''
    assert list(message_parts(source)) == ["tool: cannot open", "bad file", "too bad", "is not there"]


def test_every_message_is_explained():
    explained = words(" ".join(page.read_text() for page in MESSAGES).replace("`", ""))
    missing = [f"{source.relative_to(ROOT)}: {part}"
               for source in SOURCES if source not in NO_MESSAGE_SOURCES for part in message_parts(source.read_text())
               if words(part.replace("`", "")) not in explained and part not in NO_MESSAGES]
    assert not missing, "not in docs/messages:\n" + "\n".join(missing)


def test_exceptions_are_still_there():
    found = {part for source in SOURCES for part in message_parts(source.read_text())}
    assert not [text for text in NO_MESSAGES if text not in found]


# ---- Man pages ----

def long_options(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))


def rendered(page):
    """The page as plain text."""
    result = subprocess.run(["groff", "-mdoc", "-Tascii", "-P-cbou", page], capture_output=True, text=True,
                            timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_help_and_man_page_name_the_same_options(name):
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    help_text = subprocess.run([COMMAND, name, "--help"], capture_output=True, text=True, timeout=300,
                               check=True).stdout
    page = rendered(ROOT / "man" / f"onespace-{name}.1")
    assert long_options(help_text), "no option in the help"
    # Every page explains --help, which a help text may omit.
    assert long_options(help_text) | {"--help"} == long_options(page) | {"--help"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_man_page_is_clean(page):
    if shutil.which("mandoc"):
        command = ["mandoc", "-Tlint", "-Wwarning", page]
    elif shutil.which("groff"):
        command = ["groff", "-mdoc", "-Tascii", "-ww", "-z", page]
    else:
        pytest.skip("neither mandoc nor groff is installed")
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (result.stdout + result.stderr).strip() == ""


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
def test_man_link_leads_to_a_page_that_names_it(link):
    match = re.fullmatch(r"\.so man3/((?:onespace_\w+|xpmem)\.3)\n", link.read_text())
    assert match, "not of the form .so man3/NAME.3"
    assert f".Nm {link.stem}\n" in (ROOT / "man" / match[1]).read_text().replace(" ,\n", "\n")


def header():
    include = ROOT / "include"
    return "".join(re.sub(r"typedef [^;]*;", "", without_comments(path.read_text()))
                   for path in (include / "onespace.h", include / "onespace/insitu.h", include / "onespace/call.h"))


def test_every_function_has_a_man_page_and_a_line_in_the_api_table():
    functions = set(re.findall(r"\b(onespace_\w+)\s*\(", header()))
    assert len(functions) >= 18
    # Functions of onespace/window.h that the MPI layer defines.
    layer = {name for source in (ROOT / "src" / "mpi").rglob("*.c")
             for name in re.findall(r"(?m)^int (onespace_window_\w+)\(", source.read_text())}
    declared = set(re.findall(r"\b(onespace_window_\w+)\s*\(",
                              without_comments((ROOT / "include" / "onespace" / "window.h").read_text())))
    assert len(layer) >= 6 and layer <= declared
    team_header = without_comments((ROOT / "include" / "onespace" / "parallel.h").read_text())
    teams = set(re.findall(r"\b(onespace_parallel_\w+)\(", re.sub(r"typedef [^;]*;", "", team_header)))
    assert len(teams) >= 13
    arrays = set(re.findall(r"\bint (onespace_array_\w+)\(",
                            without_comments((ROOT / "include" / "onespace" / "array.h").read_text())))
    assert len(arrays) >= 8
    functions |= layer | teams | arrays
    pages = {p.stem for p in [*PAGES, *LINKS] if p.suffix == ".3" and p.stem.startswith("onespace_")}
    assert functions == pages
    table = set(re.findall(r"`(onespace_\w+)`", (ROOT / "docs" / "api.md").read_text()))
    assert functions <= table


def test_every_spawn_flag_and_attribute_is_documented():
    flags = set(re.findall(r"\bONESPACE_SPAWN_\w+", header())) - {"ONESPACE_SPAWN_ATTR_INIT"}
    body = re.search(r"struct onespace_spawn_attr \{(.*?)\};", header(), re.S)[1]
    fields = set(re.findall(r"(\w+)\s*[,;]", body))
    assert flags and fields
    page = (ROOT / "man" / "onespace_spawn.3").read_text()
    named = set(re.findall(r"[A-Za-z_]\w+", page))
    assert not (flags | fields) - named
    assert not flags - set(re.findall(r"\w+", (ROOT / "docs" / "api.md").read_text()))


# ---- Links and references ----

@pytest.mark.parametrize("text", TEXTS, ids=lambda text: str(text.relative_to(ROOT)))
def test_links_lead_somewhere(text):
    content = re.sub(r"(?s)```.*?```", "", text.read_text())
    for target in re.findall(r"\]\(([^)\s]+)\)", content):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        place = (text.parent / path).resolve() if path else text
        assert place.exists(), f"{target} does not exist"
        if anchor:
            titles = re.findall(r"(?m)^#+ (.*)$", place.read_text())
            anchors = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
            assert anchor in anchors, f"{target} names no title"


def test_documents_that_sources_name_exist():
    for source in [*SOURCES, *(ROOT / "src").rglob("*.h"), *(ROOT / "src").rglob("*.S")]:
        for name in re.findall(r"\bdocs/[\w/-]+\.md\b", source.read_text()):
            assert (ROOT / name).exists(), f"{source.relative_to(ROOT)} names {name}"


def test_files_that_documents_name_exist():
    for text in TEXTS:
        for name in re.findall(r"`((?:src|cmd|tests|include|examples|man|scripts)/[\w./-]+)`", text.read_text()):
            assert (ROOT / name).exists(), f"{text.name} names {name}"


def test_environment_defaults_are_explained():
    source = (ROOT / "src/launch/mpi_defaults.c").read_text()
    defaults = re.findall(r'\{"(\w+)",\s*"([^"]*)"', source)
    assert defaults
    text = (ROOT / "docs" / "launchers-reference.md").read_text()
    for name, value in defaults:
        assert f"| `{name}` | `{value}` |" in text


def test_debugging_recipe_shows_the_stack_of_a_task(tmp_path):
    """The command in docs/debugging.md, with a stock gdb, on a task of a space of two."""
    if not shutil.which("gdb"):
        pytest.skip("gdb is not installed")
    recipe = re.search(r"(?s)```sh\n(awk .*?) > tasks\.gdb\n", (ROOT / "docs" / "debugging.md").read_text())[1]
    source, program = tmp_path / "guest.c", tmp_path / "guest"
    source.write_text('#include <unistd.h>\nstatic void inner(void) { write(1, "x", 1); pause(); }\n'
                      "int main(void) { inner(); return 0; }\n")
    subprocess.run(["cc", "-g", "-O0", source, "-o", program], check=True, timeout=300)
    with subprocess.Popen([COMMAND, "run", "-n", "2", program], stdout=subprocess.PIPE) as root:
        try:
            assert os.read(root.stdout.fileno(), 1) == b"x" and os.read(root.stdout.fileno(), 1) == b"x"
            reaper = int(Path(f"/proc/{root.pid}/task/{root.pid}/children").read_text().split()[-1])  # the youngest
            children = [threads.read_text() for threads in Path(f"/proc/{reaper}/task").glob("*/children")]
            task = " ".join(children).split()[-1]
            commands = subprocess.run(["sh", "-c", recipe.replace("PID", task)], capture_output=True,
                                      text=True, timeout=300, check=True).stdout
            (tmp_path / "tasks.gdb").write_text(commands)
            seen = subprocess.run(["gdb", "-q", "-batch", "-nx", "-p", task, "-x", tmp_path / "tasks.gdb",
                                   "-ex", "bt"], capture_output=True, text=True, timeout=300, check=False)
        finally:
            root.terminate()
    if "ptrace: Operation not permitted" in seen.stderr:
        pytest.skip("this container forbids ptrace")
    assert re.search(r"in inner \(\) at .*guest\.c:2", seen.stdout), seen.stdout + seen.stderr
    assert re.search(r"in main \(\) at .*guest\.c:3", seen.stdout)


def test_table_of_patch_sites_knows_every_interposed_call():
    """If it fails, the table is of an older build: run scripts/fetch-libcs, then patch-oracle --markdown."""
    page = (ROOT / "docs/internals/patch-sites.md").read_text()
    interposed = set(re.findall(r"\bCALL\((\w+), IN_(?!NONE)", (ROOT / "src/interpose/calls.h").read_text()))
    table = page[page.index("| file | found |"):]
    rows = [row.split(" | ") for row in table[:table.index("\n\n")].splitlines()[2:]]
    found = {name for row in rows for name in re.findall(r"([a-z_0-9]+) \d+", row[1])} - {"cpuid"}
    absent, = re.findall(r"None of these files has a call of ([^:]*):", page)
    assert {"mmap", "seccomp"} <= interposed and len(rows) > 10
    assert found | set(re.findall(r"`(\w+)`", absent)) == interposed
    assert not found & set(re.findall(r"`(\w+)`", absent))
