"""tests/differential/test_suites.py: tests/differential/suites reads the lists of MPICH's suite, runs what they say
both ways, and tells what differs. The programs of this suite are scripts: the launcher does not mind. So is the JDK
of the test of OpenJDK's suite, and its jtreg."""
import os
import pathlib
import subprocess

import pytest

from launchers import MPIS

SUITES = pathlib.Path(__file__).parent / "suites"
SCRIPTS = {
    "coll/good": "echo ' No Errors'",
    "coll/told": "[ \"$1 $WORD\" = '7 42' ] && echo 'No errors'",
    "coll/talks": "echo 'No Errors'; echo more",
    "coll/fatal": "exit 3",
    "coll/more/differs": "grep -q onespace-space /proc/$$/maps || echo ' No Errors'",
    "coll/never": "exec sleep 1000",
}
LIST = """# a comment
good 2
told 1 arg=7 env=WORD=42   # another one
talks
fatal 1 resultTest=TestErrFatal
later 1 mpiversion=9.0
absent 1
more
"""


@pytest.fixture
def suite(tmp_path):
    MPIS["mpich"].needed()
    for name, text in SCRIPTS.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    (tmp_path / "coll/testlist").write_text(LIST)
    (tmp_path / "coll/more/testlist").write_text("differs 1\n")
    return tmp_path


def suites(*words, **variables):
    return subprocess.run([SUITES, *words], capture_output=True, text=True, timeout=900, check=False,
                          env={**os.environ, **variables})


def test_mpich_suite_both_ways(suite):
    done = suites("mpich", suite, "coll")
    assert "left out: coll/later 1: needs MPI 9.0" in done.stdout, done
    assert "left out: coll/absent 1: cannot be compiled" in done.stdout, done
    assert "differs: differs 1: process ok, task does not say No Errors; again: " in done.stdout, done
    assert "| coll | 4 | 3 | 3 | 0 | 0 | 0 |\n| coll/more | 1 | 1 | 0 | 0 | 1 | 0 |" in done.stdout, done
    assert done.returncode == 1 and not done.stderr, done


@pytest.mark.long
def test_program_that_never_ends_is_ended(suite):
    (suite / "coll/testlist").write_text("never 2\n")
    done = suites("--limit", "3", "mpich", suite, "coll")
    assert done.returncode == 0 and "| coll | 1 | 0 | 0 | 0 | 0 | 0 |" in done.stdout, done


def test_suite_that_is_not_there_is_reported(tmp_path):
    done = suites("mpich", tmp_path, "coll")
    assert done.returncode != 0 and "name a configured test/mpi of MPICH" in done.stderr, done
    assert "Traceback" not in done.stderr, done


# The JDK's java fails as a task.
JTREG = """
for word; do case $word in -testjdk:*) java=${word#-testjdk:}/bin/java ;; esac; done
echo "Passed: java/lang/Alike.java"
[ -e "${java%/bin/java}/lib/modules" ] && $java differs && echo "Passed: java/lang/Differs.java" ||
    echo "FAILED: java/lang/Differs.java"
echo "Error:  java/lang/Broken.java"
echo "Error: Some tests failed or other problems occurred."
exit 2
"""


def test_jtreg_suite_both_ways(tmp_path):
    files = {"jtreg": JTREG, "jdk/bin/java": "! grep -q onespace-space /proc/$$/maps", "jdk/bin/javac": "exit 1",
             "jdk/lib/modules": ""}
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = suites("jtreg", "--java", tmp_path / "jdk", tmp_path, "java/lang", PATH=path)
    output = "differs: java/lang/Differs.java: process ok, task FAILED; again: process ok, task FAILED"
    assert output in done.stdout, done
    assert "| OpenJDK java/lang | 4 | 2 | 1 | 0 | 1 | 0 |" in done.stdout, done
    assert done.returncode == 1 and not done.stderr, done


# Ends alike on both ranks but for one test, which fails in a task.
MPI4PY = """
import os, sys
is_task = "ONESPACE_TASK_ID" in os.environ
print("testAlike (test_rma.TestRMA.testAlike) ... ok", file=sys.stderr)
print("testSkipped (test_rma.TestRMA.testSkipped) ... skipped 'a reason'", file=sys.stderr)
print("testDiffers (test_rma.TestRMA.testDiffers) ...", "FAIL" if is_task else "ok", file=sys.stderr)
sys.exit("^test_rma\\\\.py$" not in sys.argv)
"""


def test_mpi4py_suite_both_ways(tmp_path):
    MPIS["mpich"].needed()
    (tmp_path / "main.py").write_text(MPI4PY)
    (tmp_path / "test_rma.py").touch()
    done = suites("mpi4py", tmp_path)
    assert "differs: testDiffers (test_rma.TestRMA.testDiffers): process ok, task FAIL; again: " in done.stdout, done
    assert "| mpi4py | 4 | 3 | 2 | 1 | 1 | 0 |" in done.stdout, done
    assert done.returncode == 1 and not done.stderr, done
