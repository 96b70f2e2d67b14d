"""tests/scripts/test_run_tests.py: scripts/run-tests counts the first failure of a test, and runs it again for
diagnosis only; a skip needs a row in docs/testing.md; the commit chooses the combinations of parameters."""
import importlib.machinery
import importlib.util
import re
import shutil
import subprocess

import pytest

from jobs import ROOT

# Fails the first time it runs.
FLAKY = """
def test_%s():
    import pathlib
    seen = pathlib.Path(__file__).with_suffix(".%s")
    known = seen.exists()
    seen.touch()
    assert known
"""
SKIPS = """
<!-- skips: begin -->
| message | why | what makes it run |
|---|---|---|
| `no …: scripts/setup arm64`, `needs root` | a reason | something |
<!-- skips: end -->
<!-- skips without setup: begin -->
| `no gcc` | a reason | something |
<!-- skips without setup: end -->
"""


class Tree:
    """A project that has only scripts/run-tests, tests and a table of skips."""

    def __init__(self, path):
        self.path = path
        for directory in ("scripts", "docs", "tests", "build"):
            (path / directory).mkdir()
        shutil.copy(ROOT / "scripts/run-tests", path / "scripts")
        (path / "docs/testing.md").write_text(SKIPS)
        (path / "pytest.ini").write_text("[pytest]\nmarkers = alone\n")

    def run(self, text, *, tolerated="0", ctest=None, setup="0"):
        (self.path / "tests/test_it.py").write_text(text)
        if ctest:
            (self.path / "build/CTestTestfile.cmake").write_text(ctest)
        done = subprocess.run([self.path / "scripts/run-tests", *([] if ctest else ["tests"])], capture_output=True,
                              text=True, timeout=300, check=False,
                              env={"PATH": "/usr/bin:/bin", "ONESPACE_FLAKY_TOLERATED": tolerated,
                                   "ONESPACE_COMBINATIONS": "a", "ONESPACE_TEST_JOBS": "1",
                                   "ONESPACE_EXPECT_SETUP": setup})
        lines = done.stdout.splitlines()
        named = [line for line in lines if line.startswith(("failed: ", "flaky: "))]
        return done.returncode, lines[-1], named, done.stdout


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


PASSES = "def test_passes():\n    pass\n"
FAILS = "def test_fails():\n    assert False\n"
FIRST, SECOND = FLAKY % ("first", "1"), FLAKY % ("second", "2")


def test_what_fails_twice_has_failed(tree):
    code, last, named, text = tree.run(PASSES + FAILS)
    assert (code, last, named) == (1, "1 passed, 1 failed, 0 skipped", ["failed: tests/test_it.py::test_fails"]), text


def test_what_passes_the_second_time_has_failed_and_is_named(tree):
    code, last, named, text = tree.run(PASSES + FIRST)
    assert (code, last) == (1, "1 passed, 1 failed, 0 skipped"), text
    assert len(named) == 1 and named[0].startswith("flaky: tests/test_it.py::test_first: "), text


def test_one_flaky_test_may_be_tolerated_and_counts_for_nothing(tree):
    code, last, named, text = tree.run(PASSES + FIRST, tolerated="1")
    assert (code, last) == (0, "1 passed, 0 failed, 0 skipped"), text
    assert len(named) == 1 and named[0].startswith("flaky: ") and "tolerated" in named[0], text


def test_two_flaky_tests_are_too_many(tree):
    code, last, named, text = tree.run(PASSES + FIRST + SECOND, tolerated="1")
    assert (code, last, len(named)) == (1, "1 passed, 2 failed, 0 skipped", 2), text


def test_flaky_test_of_ctest_is_named(tree):
    once = "[ -e seen ] || { touch seen; exit 1; }"
    alone = "import pytest\n@pytest.mark.alone\ndef test_alone():\n    pass\n"
    ctest = f'add_test([=[it.is_[once]/1]=] "/bin/sh" "-c" [=[{once}]=])\nadd_test([=[it.fails]=] "/bin/false")\n'
    code, last, named, text = tree.run(PASSES + alone, ctest=ctest)
    assert (code, last) == (1, "2 passed, 2 failed, 0 skipped"), text
    assert named[0] == "failed: it.fails" and named[1].startswith("flaky: it.is_[once]/1: "), text


def test_skip_with_a_listed_reason_is_a_skip(tree):
    code, last, _, text = tree.run("import pytest\ndef test_a():\n    pytest.skip('no gcc: scripts/setup arm64')\n"
                                   "@pytest.mark.skipif(True, reason='needs root')\ndef test_b():\n    pass\n")
    assert (code, last) == (0, "0 passed, 0 failed, 2 skipped"), text


def test_skip_with_another_reason_has_failed(tree):
    code, last, named, text = tree.run("import pytest\ndef test_a():\n    pytest.skip('it needs root to work')\n")
    assert (code, last) == (1, "0 passed, 1 failed, 0 skipped"), text
    assert named == ["failed: tests/test_it.py::test_a: skipped for a reason that docs/testing.md does not list: "
                     "it needs root to work"], text


@pytest.mark.parametrize("setup, last", [("0", "0 passed, 0 failed, 1 skipped"),
                                         ("1", "0 passed, 1 failed, 0 skipped")])
def test_skip_for_a_package_fails_after_setup(tree, setup, last):
    code, found, _, text = tree.run("import pytest\ndef test_a():\n    pytest.skip('no gcc')\n", setup=setup)
    assert (code, found) == (int(setup), last), text


def test_no_tests_at_all_are_a_failure(tree):
    code, last, _, text = tree.run("")
    assert (code, last) == (1, "0 passed, 1 failed, 0 skipped"), text


def test_without_git_all_runs_have_the_same_combinations(tree):
    (tree.path / "tests/test_it.py").write_text(PASSES)
    done = subprocess.run([tree.path / "scripts/run-tests", "tests"], capture_output=True, text=True, timeout=300,
                          check=False, env={"PATH": "/nowhere", "ONESPACE_TEST_JOBS": "1"})
    assert done.returncode == 0 and "ONESPACE_COMBINATIONS=none" in done.stdout, done


def sample(literal):
    """A possible output of the message: a letter replaces each inserted value."""
    literal = re.sub(r'" << .*? << "', "X", literal)
    return re.sub(r"\{[^}]*\}", "X", re.sub(r'" <<.*', 'X"', literal).rsplit('"', 1)[0])


def test_every_reason_in_the_tests_is_listed(monkeypatch):
    monkeypatch.delenv("ONESPACE_EXPECT_SETUP", raising=False)
    loader = importlib.machinery.SourceFileLoader("run_tests", str(ROOT / "scripts/run-tests"))
    run_tests = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_tests", loader))
    loader.exec_module(run_tests)
    listed = run_tests.listed_reasons(ROOT / "docs/testing.md")
    reason = re.compile(r'(?:pytest\.skip\(|mark\.skip\(reason=|skipif\(.*reason=|importorskip\(.*reason=|^ +reason='
                        r'|GTEST_SKIP\(\) << )f?"(.*)$', re.MULTILINE)
    files = [file for file in (ROOT / "tests").rglob("*") if file.suffix in (".py", ".cpp", ".hpp")]
    found = {(file.name, sample(text)) for file in files for text in reason.findall(file.read_text())}
    assert len(found) > 100
    assert not [(file, text) for file, text in sorted(found) if not any(one.fullmatch(text) for one in listed)]


COMBINED = """
import pytest
@pytest.mark.parametrize("x", [0, 1])
@pytest.mark.parametrize("y", [0, 1])
def test_pair(x, y):
    pass
"""


def test_commit_chooses_the_combinations_and_the_others_are_skipped(tree):
    (tree.path / "tests/lib").symlink_to(ROOT / "tests/lib")
    shutil.copy(ROOT / "tests/conftest.py", tree.path / "tests")
    (tree.path / "tests/test_it.py").write_text(COMBINED)

    def ran(seed):
        done = subprocess.run(["/usr/bin/python3", "-m", "pytest", "-v", "-rs", "-p", "no:cacheprovider", "tests"],
                              cwd=tree.path, capture_output=True, text=True, timeout=300, check=False,
                              env={"PATH": "/usr/bin:/bin", "ONESPACE_COMBINATIONS": seed})
        assert "2 passed, 2 skipped" in done.stdout and f"ONESPACE_COMBINATIONS={seed}" in done.stdout, done.stdout
        return {line.split("[")[1].split("]")[0] for line in done.stdout.splitlines() if " PASSED" in line}
    halves = [ran(seed) for seed in ("commit1", "commit2", "commit1")]
    assert halves[0] == halves[-1]
    assert {frozenset(half) for half in halves} == {frozenset({"0-0", "1-1"}), frozenset({"0-1", "1-0"})}
