"""tests/run/test_docs.py: the documentation agrees with the sources, the commands' help and itself."""
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ONESPACE_BUILD", ROOT / "build"))
COMMAND = BUILD / "bin" / "onespace"
SUBCOMMANDS = ["run", "ps", "check", "doctor", "bench"]
PAGES = sorted(p for p in (ROOT / "man").glob("*.[13]") if not p.read_text().startswith(".so"))
LINKS = sorted(p for p in (ROOT / "man").glob("*.3") if p.read_text().startswith(".so"))
TEXTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
SOURCES = [p for folder in ("src", "cmd") for p in sorted((ROOT / folder).rglob("*.c"))]


# ---- Messages ----

STATEMENT_END = re.compile(r"[;{}]")
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
CONVERSION = re.compile(r"%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+)?)?(?:hh|h|ll|l|z|j|t)?[diouxXeEfgGcspm%]")
# Statements whose text is no message: help, what a command prints on success, checks at compile time,
# machine code, and words that are searched for in other programs' output.
NO_MESSAGE = re.compile(
    r"\b(?:static_assert|__asm__|asm)\b|\busage\b|\bjson_\w+\s*\(|doctor_say\s*\(\s*DOCTOR_GOOD|"
    r"\b(?:strstr|word_after|sscanf|memmem|fopen|open|getenv|dprintf)\s*\(|\bcommand_\w+\b|"
    r"^\s*(?:\w+\s+)*(?:printf|puts|fputs|putchar)\s*\(|\bfprintf\s*\(\s*(?:out|stdout)\b", re.M)
# Fixed parts that explain themselves wherever they stand: listed with the reason.
NOT_EXPLAINED = {
    "two words": "an example of the form of an entry; never in a source",
}


def without_comments(text):
    keep = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|/\*.*?\*/|//[^\n]*', re.S)
    return keep.sub(lambda match: match[0] if match[0][0] in "\"'" else " ", text)


def statements(text):
    """The text cut at ; { and } that are not inside a literal."""
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
    """The fixed parts of the messages of one source: of at least two words."""
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
    """The checks below are only as good as this: literals, joining, conversions, comments."""
    source = r'''
/* "not this one" */ static const char usage[] = "usage: no message";
void f(void) { fprintf(stderr, "tool: cannot open %s: "
   "bad file %d; too bad\n", a, b); say(x, c ? "is not there" : "one", ";{"); printf("all went well\n"); }
'''
    assert list(message_parts(source)) == ["tool: cannot open", "bad file", "too bad", "is not there"]


def test_every_message_is_explained():
    explained = words((ROOT / "docs" / "messages.md").read_text().replace("`", ""))
    missing = [f"{source.relative_to(ROOT)}: {part}"
               for source in SOURCES for part in message_parts(source.read_text())
               if words(part.replace("`", "")) not in explained and part not in NOT_EXPLAINED]
    assert not missing, "not in docs/messages.md:\n" + "\n".join(missing)
