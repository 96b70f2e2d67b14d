"""tests/scripts/test_ci.py: .ci/run reports which parts ran, and each part has its turn. Stubs replace the parts."""
import os
import shutil
import subprocess

import pytest

from jobs import ROOT

MAKE = """#!/bin/sh
[ "$1" = fuzz ] && exit ${FUZZ_STATUS:-0}
echo "flaky: it.is: failed, and passed when it was run again"
echo "1 passed, 0 failed, 2 skipped"
echo "tolerated $ONESPACE_FLAKY_TOLERATED"
exit ${TEST_STATUS:-0}
"""


@pytest.fixture
def run(tmp_path):
    """Runs a copy of .ci/run with stubs as commands: which turn it is, and how many seconds have passed."""
    tools = tmp_path / "tools"
    for directory in (".ci", "scripts", "tests/consumer", "tools"):
        (tmp_path / directory).mkdir(parents=True)
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci")
    (tools / "make").write_text(MAKE)
    for path in ("tools/cmake", "scripts/check-aarch64", "scripts/lint", "scripts/tidy", "scripts/run-sanitized",
                 "tests/consumer/build"):
        (tmp_path / path).write_text("#!/bin/sh\necho called $(basename $0) $*\n")
    for path in (*tools.iterdir(), *(tmp_path / "scripts").iterdir(), tmp_path / "tests/consumer/build"):
        path.chmod(0o755)

    def run(turn, gone=0, **env):
        done = subprocess.run(["env", f"SECONDS={gone}", tmp_path / ".ci/run"], capture_output=True, text=True,
                              timeout=300, check=False, env={"PATH": f"{tools}:{os.environ['PATH']}",
                                                            "ONESPACE_CI_TURN": str(turn), **env})
        return done.returncode, done.stdout.splitlines()
    return run


ALWAYS = "build and test, consumers, sources for aarch64, lint"


def test_all_parts_run_if_there_is_time(run):
    code, lines = run(0)
    assert code == 0 and lines[-4:] == [
        f"== ran: {ALWAYS}, clang, fuzz, clang-tidy, asan, ubsan", lines[-3],
        "flaky: it.is: failed, and passed when it was run again", "1 passed, 0 failed, 2 skipped"], lines
    assert "tolerated 1" in lines and "called run-sanitized ubsan" in lines, lines


@pytest.mark.parametrize("turn, name", enumerate(["clang", "fuzz", "clang-tidy", "asan", "ubsan"]))
def test_part_whose_turn_it_is_runs_however_late_it_is(run, turn, name):
    for number in (turn, turn + 15):
        code, lines = run(number, gone=2000)
        assert code == 0 and lines[-4].startswith(f"== ran: {ALWAYS}, {name}; not in this run: "), lines
        assert all(f"(its turn is in {i})" in lines[-4] for i in range(1, 5)), lines


def test_part_that_cannot_run_fails_the_run(run):
    code, lines = run(1, gone=2000, FUZZ_STATUS="1")
    assert code == 1 and any(line.startswith("== fuzz: FAILED") for line in lines[-4:]), lines
    assert lines[-1] == "1 passed, 0 failed, 2 skipped"


def test_failed_tests_end_the_run(run):
    code, lines = run(0, TEST_STATUS="1")
    assert code == 1 and lines[-4] == "== ran: nothing" and lines[-1] == "1 passed, 0 failed, 2 skipped", lines
