"""tests/docs/test_defects.py: the tests that tests/differential/regressions.md names for each behaviour exist."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "tests/differential/regressions.md"
QUOTED = re.compile(r"`([^`]+)`")


def named_in(cell):
    """[(path, [names])] of "`path`: `name`, `name`; `path`, `path`"."""
    found = []
    for part in re.split(r";\s+(?=`)", cell):
        head, _, names = part.partition(": ")
        paths = [word for word in QUOTED.findall(head) if word.startswith("tests/")]
        found += [(path, QUOTED.findall(names)) for path in paths]
    return found


def rows():
    cells = [line.strip("|").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return [(row[0].strip(), row[-1]) for row in cells[1:]]


def test_each_difference_names_tests_that_are_there():
    missing = []
    for difference, cell in rows():
        for path, names in named_in(cell):
            file = ROOT / path
            if not file.exists():
                missing.append(f"{difference}: {path}")
                continue
            text = file.read_text() if file.is_file() else ""
            missing += [f"{difference}: {name} in {path}" for name in names if text and name not in text]
    assert len(rows()) > 25 and not missing, "\n".join(missing)
