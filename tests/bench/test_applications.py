"""tests/bench/test_applications.py: bench/applications runs the installed programs, compares their results, measures
the memory of a job, and names missing packages. No test checks a time or a target for memory."""
import json
import os
import subprocess
import sys
import time

import pytest

from jobs import ONESPACE, ROOT
from test_bench import SCHEMA, jsonschema, need

APPLICATIONS = ROOT / "bench/applications"
sys.path[:0] = [str(ROOT / "bench/lib"), str(APPLICATIONS)]
import onespace_bench as ob  # noqa: E402
import onespace_memory  # noqa: E402
import programs  # noqa: E402

NAMES = [app.name for app in programs.PROGRAMS]
MIB = 1 << 20


def applications(job, directory, *options, program=APPLICATIONS / "run", timeout=300):
    return job.run([program, "--no-plot", "--quick", "--repeats", "1", "--results", directory / "results", *options],
                   env={"ONESPACE_BIN": ONESPACE}, timeout=timeout)


@pytest.mark.parametrize("app", programs.PROGRAMS, ids=NAMES)
def test_applications_measures_with_equal_results(job, tmp_path, app):
    if app.missing():
        pytest.skip(app.missing())
    need(app.mpi)
    result = applications(job, tmp_path, "--only", app.name, "--ranks", "2")
    assert result.code == 0, result
    data = json.loads((tmp_path / "results/applications.json").read_text())
    jsonschema.validate(data, SCHEMA)
    found = {tuple(one["name"].split("/")): one["samples"][0] for one in data["series"]}
    assert all(one["x"] == [2] for one in data["series"])
    for way in ("processes", "tasks"):
        assert found[app.name, "time", way][0] > 0
        assert found[app.name, "memory", way][0] > MIB
        # One run for the time and one for the memory.
        assert len(found[app.name, "difference", way]) == 2
        assert max(found[app.name, "difference", way]) <= app.tolerance
    assert found[app.name, "copies", "tasks"][0] + found[app.name, "collectives", "tasks"][0] > 0  # they were tasks


def test_applications_names_missing_packages(job, tmp_path):
    """With a copy of the benchmark that looks for the programs elsewhere."""
    (tmp_path / "bench").mkdir()
    for name in ("lib", "p2p"):
        (tmp_path / "bench" / name).symlink_to(ROOT / "bench" / name)
    copy = tmp_path / "bench/applications"
    copy.mkdir()
    for path in APPLICATIONS.glob("*"):
        if path.is_file():
            (copy / path.name).write_text(path.read_text().replace('"/usr/bin/', f'"{tmp_path}/bin/'))
    (copy / "run").chmod(0o755)
    result = applications(job, tmp_path, "--only", "LAMMPS,mpi4py", program=copy / "run")
    assert result.code == 1 and "nothing was measured" in result.err, result
    for said in (f"skipped LAMMPS: there is no {tmp_path}/bin/lmp: apt-get install lammps (scripts/setup applications)",
                 f"skipped mpi4py: there is no {tmp_path}/bin/python3: apt-get install python3-mpi4py"):
        assert said in result.err, result


def test_applications_refuses_what_it_does_not_know(job, tmp_path):
    result = applications(job, tmp_path, "--only", "doom")
    assert result.code == 2 and "no application doom: LAMMPS, Quantum ESPRESSO" in result.err, result


def test_applications_packages_are_those_of_setup():
    """Each package that a message names is one that the command in the message installs."""
    line = next(line for line in (ROOT / "scripts/setup").read_text().splitlines() if line.startswith("applications="))
    installed = line.split('"')[1].split()
    assert not {name for app in programs.PROGRAMS for name in app.packages.split()} - set(installed)


def test_applications_results_are_the_last_ones_printed(tmp_path):
    espresso = next(app for app in programs.PROGRAMS if app.name == "Quantum ESPRESSO")
    text = "     total energy              =     -63.0 Ry\n!    total energy              =     -63.13847043 Ry\n"
    assert espresso.results(text, tmp_path) == {"energy": -63.13847043}
    abinit = next(app for app in programs.PROGRAMS if app.name == "abinit")
    assert abinit.results("", tmp_path) == {}
    (tmp_path / "si.abo").write_text("  etotal1    -7.8289323186E+00\n  strten1    -1.5E-04  2.0E-04\n")
    assert abinit.results("", tmp_path) == {"energy": -7.8289323186, "stress": -1.5e-4}


def test_applications_difference_is_the_largest_relative_one():
    assert programs.difference({"a": 1.0, "b": 0.0}, {"a": 1.0, "b": 0.0}) == 0
    assert programs.difference({"a": -2.0, "b": 99.0}, {"a": -2.0, "b": 100.0}) == pytest.approx(0.01)
    assert programs.difference({"a": 0.0}, {"a": 1e-20}) == 1  # a result that should be zero
    assert programs.difference({"a": float("nan")}, {"a": 1.0}) == float("inf")
    assert programs.difference({"a": float("nan")}, {"a": float("nan")}) == float("inf")


HOLDER = """
import mmap, sys
held = mmap.mmap(-1, {size})  # shared with the children
for at in range(0, {size}, 4096):
    held[at] = 1
print("ready", flush=True)
sys.stdin.read()
"""


def memory_of(commands, marked=True):
    """Of programs that hold memory at the same time. The peak reaches it."""
    with onespace_memory.Peak() as peak:
        env = {**os.environ, **(peak.environment if marked else {})}
        running = [subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                   for command in commands]
        try:
            for process in running:
                assert process.stdout.readline() == b"ready\n"
            memory, end = peak.sample(), time.monotonic() + 180
            while peak.bytes < 0.9 * memory:  # samples differ a little
                assert time.monotonic() < end, (peak.bytes, memory)
                time.sleep(0.01)
        finally:
            for process in running:
                process.communicate()
    return memory


def test_memory_adds_up_processes():
    holder = [sys.executable, "-c", HOLDER.format(size=32 * MIB)]
    assert 64 * MIB <= memory_of([holder, holder]) < 128 * MIB


def test_memory_counts_what_processes_share_once():
    parent = "import os\nend, other = os.pipe()\n" + HOLDER.format(size=64 * MIB).replace(
        'print("ready"', "pid = os.fork()\nsum(held[at] for at in range(0, len(held), 4096))\n"
        "if not pid: os.write(other, b'.'); sys.stdin.read(); os._exit(0)\nos.read(end, 1)\nprint(\"ready\"")
    assert 64 * MIB <= memory_of([[sys.executable, "-c", parent]]) < 96 * MIB


def test_memory_counts_a_space_once(guests):
    holder = ["/usr/bin/python3", "-c", HOLDER.format(size=32 * MIB).replace("mmap.mmap(-1", "bytearray(").replace(
        "bytearray(, ", "bytearray(")]
    found = memory_of([[ONESPACE, "run", "-n", "1", *holder]])
    assert 32 * MIB <= found < 80 * MIB  # the space has several processes, each of which shows all of its memory


def test_memory_ignores_processes_of_others():
    assert memory_of([[sys.executable, "-c", HOLDER.format(size=MIB)]], marked=False) == 0


def test_memory_of_a_job_fails_without_kcmp(monkeypatch):
    monkeypatch.setitem(onespace_memory.KCMP, onespace_memory.platform.machine(), 10 ** 6)  # no such system call
    with pytest.raises(ob.Failure, match="cannot tell which processes share their memory: kcmp"):
        onespace_memory.same_memory(os.getpid(), os.getppid())
