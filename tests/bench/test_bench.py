"""tests/bench/test_bench.py: the benchmarks and the demonstration run and report in the promised format.
No test checks a time."""
import ctypes.util
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

import pytest

from jobs import ONESPACE, ROOT, eventually
from launchers import MPIS, XPMEM_MPIS

jsonschema = pytest.importorskip("jsonschema", reason="python3-jsonschema is not installed")

BENCH = ROOT / "bench"
SCHEMA = json.loads((BENCH / "schema.json").read_text())
# The shortest run that gives every figure.
SHORT = ["--repeats", "2", "--batches", "1", "--batch-ms", "0.2"]

# A library between p2p and MPI that damages received data. It adds, because a bit that is flipped twice, on the
# way there and back, is right again.
FAULTY_MPI = """
#include <mpi.h>
static void damage(void *buffer, int count)
{
    if (count > 1000)
        ((unsigned char *)buffer)[count - 1]++;
}
int MPI_Recv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    int result = PMPI_Recv(buffer, count, type, source, tag, comm, status);
    damage(buffer, count);
    return result;
}
int MPI_Sendrecv(const void *send, int send_count, MPI_Datatype send_type, int to, int send_tag, void *buffer,
                 int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status *status)
{
    int result = PMPI_Sendrecv(send, send_count, send_type, to, send_tag, buffer, count, type, from, tag, comm,
                               status);
    damage(buffer, count);
    return result;
}
"""


def need(mpi):
    return MPIS[mpi].needed().name


def need_two_cpus():
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two CPUs are needed")


@pytest.fixture
def worker_dies(guests):
    return guests("worker_dies")


@pytest.fixture
def bench(job, tmp_path):
    """Runs a benchmark with its results in a directory of the test: {name: series}, checked against the schema. It
    also prints its tables."""
    def run(question, *options, timeout=180):
        result = job.run([BENCH / question / "run", "--results", tmp_path, *options],
                         env={"ONESPACE_BIN": ONESPACE}, timeout=timeout)
        assert result.code == 0, result
        name, = [name for name in os.listdir(tmp_path) if name.endswith(".json")]
        data = json.loads((tmp_path / name).read_text())
        jsonschema.validate(data, SCHEMA)
        assert result.out.startswith(data["question"]) and "quartiles" in result.out, result
        return {one["name"]: one for one in data["series"] + data["limits"]}
    return run


def check_series(series, x, repeats):
    assert series["x"] == x
    assert [len(samples) for samples in series["samples"]] == [repeats] * len(x)
    assert all(value > 0 for samples in series["samples"] for value in samples)


@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
@pytest.mark.parametrize("fresh", [[], ["--fresh"]], ids=["reused", "fresh"])
def test_p2p_measures_processes_tasks_and_the_limit(bench, mpi, fresh):
    found = bench("p2p", "--mpi", need(mpi), "--sizes", "8,131072", "--no-plot", *SHORT, *fresh)
    for operation in ("sendrecv", "pingpong"):
        for variant in ("processes", "tasks", "memcpy"):
            check_series(found.pop(f"{mpi}/{operation}/{variant}"), [8, 131072], 2)
    assert not found


@pytest.mark.long
def test_p2p_plots_png_and_svg(bench, tmp_path):
    pytest.importorskip("matplotlib", reason="python3-matplotlib is not installed")
    bench("p2p", "--mpi", need("mpich"), "--sizes", "8,1024", "--operations", "sendrecv", *SHORT)
    assert (tmp_path / "p2p.png").read_bytes().startswith(b"\x89PNG")
    assert xml.etree.ElementTree.parse(tmp_path / "p2p.svg").getroot().tag.endswith("svg")


def errors_into(file, command):
    """The command with its standard error in a file: Hydra's proxy passes an abort on before text that is ready at the
    same time, and mpiexec exits at once."""
    return ["sh", "-c", 'exec "$@" 2>>"$0"', file, *command]


@pytest.mark.parametrize("options", [["-o", "sendrecv"], ["-o", "pingpong"], ["-o", "sendrecv", "-f"],
                                     ["-o", "pingpong", "-f"]], ids=" ".join)
def test_p2p_notices_wrong_contents(job, tmp_path, options):
    mpi = MPIS[need("mpich")]
    (tmp_path / "faulty.c").write_text(FAULTY_MPI)
    sources = [BENCH / "p2p/p2p.c", tmp_path / "faulty.c"]
    built = job.run([*mpi.compiler, "-D_GNU_SOURCE", "-o", tmp_path / "p2p", *sources])
    assert built.code == 0, built
    sound = job.run(mpi.command(2, [tmp_path / "p2p", "-t", "0.1", *options, "1000"]))
    assert sound.code == 0, sound
    errors = tmp_path / "errors"
    damaged = job.run(mpi.command(2, errors_into(errors, [tmp_path / "p2p", "-t", "0.1", *options, "2000"])))
    assert damaged.code != 0 and "got a wrong byte at 1999" in errors.read_text(), damaged


def test_p2p_refuses_a_job_of_one_rank(job, tmp_path):
    mpi = MPIS[need("mpich")]
    built = job.run([*mpi.compiler, "-D_GNU_SOURCE", "-o", tmp_path / "p2p", BENCH / "p2p/p2p.c"])
    assert built.code == 0, built
    result = job.run(mpi.command(1, [tmp_path / "p2p", "8"]))
    assert result.code != 0 and "belong to the same MPI" in result.err, result


def test_json_is_printed_and_written(job, tmp_path):
    result = job.run([BENCH / "spawn/run", "--counts", "1", "--repeats", "1", "--no-plot", "--json", "--results",
                      tmp_path], env={"ONESPACE_BIN": ONESPACE})
    assert result.code == 0 and json.loads(result.out) == json.loads((tmp_path / "spawn.json").read_text()), result


@pytest.mark.parametrize("where", [pytest.param([], id="all"),
                                   pytest.param(["--one-cpu"], id="one", marks=pytest.mark.long)])
def test_spawn_measures_every_method(bench, where):
    found = bench("spawn", "--counts", "1,60", "--repeats", "2", "--no-plot", *where)
    assert set(found) == {"tasks", "posix_spawn", "fork and exec", "vfork and exec", "pthread_create",
                          "clone, no program"}
    for series in found.values():
        check_series(series, [1, 60], 2)


@pytest.mark.long
def test_heap_measures_loops_and_resident_memory(bench):
    need_two_cpus()
    found = bench("heap", "--scale", "100", "--repeats", "2", "--no-plot")
    for variant in ("processes", "tasks"):
        check_series(found[variant], [0, 1, 2, 3, 4], 2)
        assert found[f"{variant} resident"]["unit"] == "bytes"


def test_memory_counts_every_page_once(bench):
    found = bench("memory", "--only", "patterns", "--ranks", "2", "--repeats", "1", "--no-plot")
    blocks = 400 * (1000 + 99000 / 2)  # of the point "medium", on average
    for way in ("processes", "tasks", "tasks, tuned heap"):
        series = found.pop(f"patterns/{way}")
        check_series(series, [0, 1, 2, 3, 4, 5], 1)
        start, small, medium, *_ = (samples[0] for samples in series["samples"])
        assert start < 20e6 and 0.8 < (medium - small) / (2 * blocks) < 1.2, series
    assert not found


def test_startup_measures_processes_and_tasks(bench):
    found = bench("startup", "--mpi", need("mpich"), "--ranks", "1,3", "--repeats", "2", "--no-plot")
    for variant in ("processes", "tasks"):
        check_series(found[f"mpich/{variant}"], [1, 3], 2)


def test_waits_measures_processes_and_tasks(bench):
    found = bench("waits", "--mpi", need("mpich"), "--per-cpu", "1,2", "--repeats", "2", "--ms", "1", "--no-plot")
    for operation in ("sendrecv", "waitall", "threads", "late"):
        for variant in ("processes", "tasks"):
            check_series(found.pop(f"mpich/{operation}/{variant}"), [1, 2], 2)
    assert not found


def test_progress_measures_each_operation(bench):
    options = ["--repeats", "2", "--samples", "2", "--compute-us", "100", "--no-plot"]
    found = bench("progress", "--mpi", need("mpich"), *options)
    for operation in ("receive", "ibcast", "iallreduce"):
        for variant in ("processes", "tasks", "progress"):
            check_series(found.pop(f"mpich/{operation}/{variant}"), [65536, 262144, 1048576, 4194304], 2)
    assert {name: found.pop(name).keys() for name in list(found) if "latency" in name} and not found


def scale(job, directory, *options, before=(), **env):
    """With Open MPI, one repeat: the command's result, and its series by the parts of their names without the MPI."""
    results = directory / "results"
    result = job.run([*before, BENCH / "scale/run", "--mpi", need("openmpi"), "--repeats", "1", "--ms", "1",
                      "--results", results, *options], env={"ONESPACE_BIN": ONESPACE, **env})
    if not (results / "scale.json").exists():
        return result, {}
    data = json.loads((results / "scale.json").read_text())
    jsonschema.validate(data, SCHEMA)
    return result, {tuple(one["name"].split("/")[1:]): one for one in data["series"]}


def test_scale_counts_a_job_and_reports_ranks_that_do_not_fit(job, tmp_path):
    result, found = scale(job, tmp_path, "--ranks", "2,3,9000000", "--no-plot")
    assert result.code == 0, result
    for way in ("processes", "tasks"):
        assert f"skipped 9000000 {way} of openmpi: they take about" in result.err, result
    counts = {}
    for (what, way), one in found.items():
        check_series(one, [2, 3], 1)
        counts[what, way] = [samples[0] for samples in one["samples"]]
    assert set(counts) == {("descriptors of the host", "tasks")} | {
        (what, way) for way in ("processes", "tasks")
        for what in ("start", "barrier", "message", "mappings", "page tables", "page tables of segments",
                     "page faults", "descriptors of a rank", "memory", "private memory")}
    # The host has a socket to each rank's shim.
    assert counts["descriptors of the host", "tasks"][1] == counts["descriptors of the host", "tasks"][0] + 1
    for at, ranks in enumerate((2, 3)):
        # Each rank has a segment, larger than what a page of entries maps, that all others use.
        processes, tasks = (counts["page tables of segments", way][at] / 4096 for way in ("processes", "tasks"))
        assert processes >= ranks * ranks and ranks <= tasks < processes, counts
        for way in ("processes", "tasks"):
            assert counts["page tables of segments", way][at] < counts["page tables", way][at], counts
            assert ranks << 20 < counts["private memory", way][at] < counts["memory", way][at], counts
    for way in ("processes", "tasks"):  # libc, the MPI and what it needs have dozens
        assert counts["mappings", way][1] - counts["mappings", way][0] > 30, counts


@pytest.mark.long
@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_scale_measures_what_shared_mappings_save(job, tmp_path, mpi):
    ranks = 8
    result, found = scale(job, tmp_path, "--mpi", need(mpi), "--ranks", str(ranks), "--own-mappings", "--no-plot")
    assert result.code == 0 and "tasks, own mappings" in result.out, result
    counts = {key: one["samples"][0][0] for key, one in found.items()}
    shared, own = (lambda what, way=way: counts[what, way] for way in ("tasks", "tasks, own mappings"))
    # With its own each rank maps the others' segments.
    assert own("mappings") - shared("mappings") > (ranks - 1) * (ranks - 2), counts
    assert own("page tables of segments") > 2 * shared("page tables of segments"), counts
    assert own("page faults") > shared("page faults") > 100 * ranks, counts
    assert {what for what, way in counts if way == "tasks"} == \
        {what for what, way in counts if way == "tasks, own mappings"}, counts


@pytest.mark.long
def test_scale_plots(job, tmp_path):
    pytest.importorskip("matplotlib", reason="python3-matplotlib is not installed")
    result, _ = scale(job, tmp_path, "--ranks", "2")
    assert result.code == 0 and (tmp_path / "results/scale.png").read_bytes().startswith(b"\x89PNG"), result


def test_scale_goes_on_when_tasks_fail(job, tmp_path):
    broken = tmp_path / "onespace"
    broken.write_text(f'#!/bin/sh\n[ "$1" != run ] || exit 3\nexec {ONESPACE} "$@"\n')
    broken.chmod(0o755)
    result, found = scale(job, tmp_path, "--ranks", "2,3", "--no-plot", "--targets", ONESPACE_BIN=str(broken))
    assert result.code == 1 and "FAILED: 2 tasks of openmpi: " in result.err, result
    assert "skipped 3 tasks of openmpi: fewer have failed" in result.err, result
    assert {way for _, way in found} == {"processes"} and found["start", "processes"]["x"] == [2, 3]


def test_scale_reports_too_few_descriptors(job, tmp_path):
    result, _ = scale(job, tmp_path, "--ranks", "30", before=("prlimit", "--nofile=100"))
    assert result.code == 1 and "nothing was measured" in result.err, result
    assert "30 processes of openmpi: their launcher opens about 136 descriptors, and `ulimit -n` is 100" in result.err


@pytest.mark.long
def test_pagetables_of_tasks_hold_a_shared_region_once(bench):
    pages = 128 * 256  # of 4 KiB in 128 MiB
    found = bench("pagetables", "--counts", "1,4", "--shared", "128", "--repeats", "2", "--no-plot")
    assert found["region/entries"]["samples"] == [[pages]]
    for kind, copies in (("threads", [1, 1]), ("tasks", [1, 1]), ("processes", [1, 4])):
        for what in ("tables", "entries"):
            shared, alone = (found.pop(f"{kind}/{case}/{what}") for case in ("shared", "alone"))
            check_series(shared, [1, 4], 2)
            added = [max(a) - max(b) for a, b in zip(shared["samples"], alone["samples"])]
            one_set = pages * (8 if what == "tables" else 1)
            assert [round(value / one_set) for value in added] == copies, (kind, what, added)
    assert set(found) == {"region/tables", "region/entries"}


@pytest.mark.long
@pytest.mark.alone
def test_merge_saves_the_equal_table_of_all_ranks_but_one(bench):
    """It switches merging on for the whole machine, and off again."""
    ksm = pathlib.Path("/sys/kernel/mm/ksm/run")
    if not ksm.exists():
        pytest.skip("this kernel cannot merge pages")
    if os.geteuid() != 0:
        pytest.skip("needs root: merging is the machine's")
    before = ksm.read_text()
    found = bench("merge", "--mpi", need("mpich"), "--ranks", "3", "--table", "32", "--own", "8", "--pages", "100",
                  "--seconds", "20", "--repeats", "1", "--no-plot")
    assert ksm.read_text() == before
    for kind in ("processes", "tasks"):
        saved, = found[f"mpich/{kind}, merged/saved"]["samples"][0]
        assert 60 << 20 < saved < 100 << 20, kind
        assert all(value > 0 for what in ("write", "again") for value in found[f"mpich/{kind}/{what}"]["samples"][0])


def test_merge_needs_two_ranks(job, tmp_path):
    command = [BENCH / "merge/run", "--mpi", "mpich", "--ranks", "1", "--results", tmp_path]
    result = job.run(command)
    assert result.code == 2 and "--ranks are at least 2" in result.err, result


def test_mappings_measures_loops_of_every_kind(bench):
    found = bench("mappings", "--workers", "3", "--iterations", "20", "--sizes", "4096,65536", "--repeats", "2",
                  "--no-plot")
    check_series(found.pop("enter"), [4096, 65536], 2)
    assert set(found) == {f"{loop}/{kind}" for loop in ("mmap", "touch", "brk", "heap")
                          for kind in ("threads", "tasks", "processes")} - {"brk/threads"}
    for series in found.values():
        check_series(series, [4096, 65536], 2)


def test_call_measures_all_ways(bench):
    need_two_cpus()
    found = bench("call", "--quick", "--repeats", "2", "--no-plot")
    assert set(found) == {"own function", "call from a task", "call from the root", "thread that spins",
                          "thread that sleeps"}
    for series in found.values():
        check_series(series, [1, 2], 2)


@pytest.mark.long
def test_strided_faults_in_processes_and_not_in_tasks(bench):
    need_two_cpus()
    found = bench("strided", "--size", "4", "--repeats", "2", "--no-plot")
    assert len(found.pop("timer")["samples"]) == 1
    for way, least, most in (("threads", 0, 8), ("tasks", 0, 8), ("processes", 1024, 1032)):
        series = found[f"{way}/write/4 KiB/at"]
        check_series(series, list(range((2048 - 32) * 1024, (2048 + 96) * 1024, 64)), 2)
        faults = found[f"{way}/write/4 KiB/faults"]["samples"][0]
        assert all(least <= count <= most for count in faults), (way, faults)


@pytest.mark.long
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_windows_counts_fewer_faults_in_tasks(bench, mpi):
    """Neighbours of a rank fault in memory that it has written as processes, but not as tasks."""
    found = bench("windows", "--mpi", need(mpi), "--sizes", "8,65536", "--windows", "3", "--ranks", "2",
                  "--edge", "2048", "--iterations", "3", "--repeats", "2", "--no-plot")
    for variant in ("processes", "tasks"):
        for maker in ("allocate", "allocate_shared"):
            check_series(found.pop(f"{mpi}/{maker}/{variant}"), [8, 65536], 2)
        for kind in ("stencil", "touched"):
            check_series(found.pop(f"{mpi}/{kind}-loop/{variant}"), [2], 2)
    for kind in ("stencil", "touched"):
        processes, tasks = (found.pop(f"{mpi}/{kind}-faults/{variant}")["samples"][0]
                            for variant in ("processes", "tasks"))
        assert min(tasks) < min(processes), (kind, processes, tasks)
    check_series(found.pop(f"{mpi}/memory"), [8, 65536], 2)
    check_series(found.pop(f"{mpi}/clear"), [2], 2)
    assert not found


@pytest.mark.long
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_windows_measures_datatypes(bench, mpi):
    found = bench("windows", "--question", "datatypes", "--mpi", need(mpi), "--quick", "--times", "2", "--repeats", "2",
                  "--no-plot")
    for call in ("put", "get", "accumulate", "get_accumulate"):
        for side in ("target", "origin", "both", "fresh"):
            for variant in ("processes", "tasks"):
                check_series(found.pop(f"{mpi}/{call}-{side}/{variant}"), [0, 1, 3, 5, 8, 14, 17, 18], 2)
    assert not found


@pytest.mark.long
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_messagerate_measures_ranks_threads_and_the_limit(bench, mpi):
    found = bench("messagerate", "--mpi", need(mpi), "--pairs", "1,2", "--repeats", "1", "--ms", "5", "--no-plot")
    for variant in ("processes", "tasks", "threads", "ring"):
        check_series(found.pop(f"{mpi}/{variant}"), [1, 2], 1)
    assert not found


@pytest.mark.parametrize("how, ranks", [("ranks", 4), ("threads", 2)])
def test_messagerate_notices_wrong_contents(job, tmp_path, how, ranks):
    mpi = MPIS[need("mpich")]
    (tmp_path / "faulty.c").write_text("""
#include <mpi.h>
int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    unsigned char *first = (unsigned char *)buffer;
    *first += *first == 7;
    return PMPI_Isend(buffer, count, type, to, tag, comm, request);
}""")
    source = BENCH / "messagerate/messagerate.c"
    for name, sources, good in (("sound", [source], True), ("damaged", [source, tmp_path / "faulty.c"], False)):
        built = job.run([*mpi.compiler, "-D_GNU_SOURCE", "-pthread", "-o", tmp_path / name, *sources])
        assert built.code == 0, built
        errors = tmp_path / f"{name}.errors"
        result = job.run(mpi.command(ranks, errors_into(errors, [tmp_path / name, how, "2", "8", "5"])))
        assert (result.code == 0 and result.out.startswith("rate 2 ")) == good, result
        assert ("a message was damaged" in errors.read_text()) != good, result


def test_messagerate_refuses_another_number_of_ranks(job, tmp_path):
    mpi = MPIS[need("mpich")]
    built = job.run([*mpi.compiler, "-D_GNU_SOURCE", "-pthread", "-o", tmp_path / "rate",
                     BENCH / "messagerate/messagerate.c"])
    assert built.code == 0, built
    errors = tmp_path / "errors"
    result = job.run(mpi.command(3, errors_into(errors, [tmp_path / "rate", "ranks", "1", "8", "5"])))
    assert result.code != 0 and "two ranks for each pair" in errors.read_text(), result


def test_solvers_measures_with_equal_results(bench):
    found = bench("solvers", "--quick", "--mpi", need("mpich"), "--points", "8,32", "--repeats", "1", "--no-plot",
                  timeout=600)
    assert set(found) == {f"mpich/2/{solver}/{way}" for way in ("processes", "tasks", "ours", "limit")
                          for solver in ("cg", "stencil", "transpose", "sparse", "particles")}
    for series in found.values():
        check_series(series, [8, 32], 1)


@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_solvers_result_does_not_depend_on_the_ranks(job, tmp_path, ranks):
    mpi = MPIS[need("mpich")]
    for solver, expected in {"stencil": 0.178752389408823, "transpose": 26024.3142668075, "sparse": 11.5005980679319,
                             "particles": -8733.89285583434}.items():
        program = tmp_path / solver
        job.run([*mpi.compiler, "-O1", "-D_GNU_SOURCE", "-o", program, BENCH / "solvers/solver.c",
                 BENCH / f"solvers/{solver}.c", "-lm"]).expect()
        done = job.run(mpi.command(ranks, [program, "-b", "1", "-t", "0.1", "64"])).expect()
        found = float(done.out.split(f"{solver}/result 64 ")[1])
        assert abs(found - expected) <= 1e-9 * abs(expected), done


def test_solvers_refuses_what_its_programs_cannot_divide(job):
    done = job.run([BENCH / "solvers/run", "--points", "24"]).expect(2)
    assert "a power of two of points along an edge, 3 for each rank" in done.err, done


def test_solvers_notices_wrong_results(job, tmp_path):
    """With a copy whose solver begins with another problem wherever it is a task."""
    copy = tmp_path / "bench/solvers"
    for name in ("solvers", "lib", "p2p"):
        shutil.copytree(BENCH / name, tmp_path / "bench" / name)
    source = (copy / "cg.c").read_text()
    assert source.count("cos(0.03 * x)") == 1
    (copy / "cg.c").write_text(source.replace("cos(0.03 * x)", 'cos(0.03 * x) + !!getenv("ONESPACE_TASK_ID")'))
    result = job.run([copy / "run", "--quick", "--mpi", need("mpich"), "--points", "8", "--repeats", "1", "--no-plot",
                      "--results", tmp_path], env={"ONESPACE_BIN": ONESPACE})
    assert result.code == 1 and "cg of 8 points results in" in result.err, result


def need_nodes(job):
    if not shutil.which("ip"):
        pytest.skip("ip is not installed (package iproute2)")
    made = job.run(["unshare", "--net", "--ipc", "--uts", "--mount", "--pid", "--fork", "ip", "link", "add", "type",
                    "veth"])
    if made.code != 0:
        pytest.skip(f"no namespaces can be made here: {made.err.strip()}")


@pytest.mark.alone
def test_messagerate_measures_two_nodes(bench, job):
    need_nodes(job)
    found = bench("messagerate", "--nodes", "--mpi", need("mpich"), "--pairs", "1", "--repeats", "1", "--ms", "5",
                  "--no-plot",
                  timeout=180)
    for variant in ("processes", "tasks", "threads", "streams"):
        check_series(found.pop(f"mpich/{variant}"), [1], 1)
    assert not found


USE_NODES = """
import sys, time
sys.path.insert(0, sys.argv[1])
import onespace_nodes, onespace_bench
with onespace_nodes.Nodes(2) as nodes, onespace_bench.Workplace() as place:
    sys.stdout.write(f"{nodes.directory} ready\\n"); sys.stdout.flush()
    nodes.run(place, nodes.pair_command(["sh", "-c", "exec sleep 1000"], ["sleep", "1000"]), lambda text: False)
"""


def test_nodes_end_when_their_program_is_killed(job, tmp_path):
    need_nodes(job)
    command = job.start([shutil.which("python3"), "-c", USE_NODES, BENCH / "lib"], env={"TMPDIR": str(tmp_path)})
    command.wait_for("ready")
    directory = pathlib.Path(command.so_far().out.split()[0])
    assert (directory / "hosts").exists()
    assert eventually(lambda: len(job.named("sleep")) == 2)
    command.signal(signal.SIGKILL)
    assert command.finish().code == 128 + 9
    assert eventually(lambda: not directory.exists())  # what runs on is found by the job


def test_nodes_end_a_job_whose_output_is_complete(job, tmp_path):
    need_nodes(job)
    script = USE_NODES.replace('"exec sleep 1000"', '"echo done; exec sleep 1000"')
    script = script.replace("False", "text == 'done\\n'")
    result = job.run([shutil.which("python3"), "-c", script, BENCH / "lib"], env={"TMPDIR": str(tmp_path)})
    assert result.code == 0, result


def test_teams_measures_tasks_and_threads(bench):
    found = bench("teams", "--workers", "1,3", "--repeats", "1", "--ms", "1", "--no-plot")
    for form in ("tasks", "openmp"):
        for operation in ("region", "for", "dynamic", "barrier", "sum"):
            check_series(found.pop(f"{form}/{operation}"), [1, 3], 1)
    assert set(found) <= {"cache line"}


SWEEP = ["--cells", "8,8,8", "--angles", "4", "--groups", "3", "--chunk", "3", "--orders", "2", "--repeats", "1",
         "--no-plot"]


@pytest.mark.long
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_sweep_measures_every_form(bench, mpi):
    """It ends with an error unless all forms find the solutions that can be checked, the same to the last bit."""
    found = bench("sweep", "--mpi", need(mpi), "--workers", "1,2", "--cpus", "2", *SWEEP, timeout=180)
    for form in ("MPI", "MPI + OpenMP, 1 each", "MPI + tasks, 1 each", "MPI + OpenMP, 2 each", "MPI + tasks, 2 each",
                 "one rank / CPUs"):
        check_series(found.pop(f"{mpi}/{form}"), [2], 1)
    assert not found


def test_sweep_refuses_workers_that_no_cpus_fit(job):
    result = job.run([BENCH / "sweep/run", "--workers", "4", "--cpus", "2"])
    assert result.code == 2 and "none is a multiple of 4" in result.err, result


by_one_worker = pytest.mark.xdist_group("sweep")  # which compiles it once


@pytest.fixture(scope="module")
def built_sweep(tmp_path_factory):
    """Gives the program, with more sources in it."""
    mpi, prefix, made = MPIS[need("mpich")], pathlib.Path(ONESPACE).parents[1], {}

    def build(*more):
        if more not in made:
            program = tmp_path_factory.mktemp("sweep") / "sweep"
            subprocess.run([*mpi.compiler, "-O2", "-fopenmp", "-D_GNU_SOURCE", f"-I{ROOT}/include", "-o", program,
                            *sorted((BENCH / "sweep").glob("*.c")), *more, f"-L{prefix}/lib",
                            f"-Wl,-rpath,{prefix}/lib", "-lonespace", "-lm"], check=True, timeout=180)
            made[more] = program
        return made[more]
    return build


@pytest.fixture
def sweep(job, built_sweep):
    """Solves a problem in a cube of some cells on some ranks: {what: value}."""
    def solve(ranks, cells, *words, more=()):
        program = built_sweep(*more)
        problem = [f"{axis}={cells}" for axis in ("nx", "ny", "nz")] + [
            f"width={1 / cells}", "angles=5", "groups=3", "orders=3"]
        result = job.run(MPIS["mpich"].command(ranks, [program, "mpi", "1", *problem, "tolerance=1e-8", *words]))
        assert result.code == 0, result
        return {line.split()[0]: float(line.split()[2]) for line in result.out.splitlines()}
    return solve


@pytest.mark.long
@by_one_worker
def test_sweep_is_of_second_order(sweep):
    """Half the width of the cells, a quarter of the error."""
    coarse, fine = (sweep(1, cells, "known=1", "steps=0")["error"] for cells in (8, 16))
    assert 3.6 < coarse / fine < 4.4


@pytest.mark.long
@by_one_worker
def test_sweep_is_of_second_order_in_time(sweep):
    """Half the width of the cells and half the time step, a quarter of the error."""
    coarse, fine = (sweep(1, cells, "known=1", f"steps={cells // 4}", f"step={4 / cells}")["error"]
                    for cells in (8, 16))
    assert 3.6 < coarse / fine < 4.4


@pytest.mark.long
@by_one_worker
def test_sweep_scatters_by_direction(sweep):
    """A problem that is not known depends on the orders of scattering; the known one is found with any number of
    them."""
    words = ("steps=0", "width=1")
    assert len({round(sweep(1, 8, *words, f"orders={orders}")["flux"], 5) for orders in (1, 2, 3)}) == 3
    errors = [sweep(1, 8, "known=1", "steps=0", f"orders={orders}")["error"] for orders in (1, 2, 4)]
    assert max(errors) < 1.1 * min(errors)


@by_one_worker
def test_sweep_is_the_same_on_any_number_of_ranks(sweep):
    words = ("width=1", "chunk=3", "inners=2", "outers=2")
    assert len({sweep(ranks, 9, *words)["flux"] for ranks in (1, 2, 3, 6)}) == 1


@pytest.mark.long
@by_one_worker
def test_sweep_depends_on_what_its_neighbours_send(sweep, tmp_path):
    (tmp_path / "faulty.c").write_text("""
#include <mpi.h>
int MPI_Recv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    int result = PMPI_Recv(buffer, count, type, source, tag, comm, status);
    for (int i = 0; i < count; i++)
        ((double *)buffer)[i] += 0.1;
    return result;
}""")
    words = ("known=1", "steps=0")
    sound, damaged = sweep(2, 8, *words)["error"], sweep(2, 8, *words, more=[tmp_path / "faulty.c"])["error"]
    assert damaged > 2 * sound


@pytest.mark.parametrize("word", ["nx=a", "nx=0", "nx=1.5", "colour=1", "nx"])
@by_one_worker
def test_sweep_refuses_words_that_it_does_not_know(job, built_sweep, tmp_path, word):
    errors = tmp_path / "errors"
    result = job.run(MPIS["mpich"].command(1, errors_into(errors, [built_sweep(), "mpi", "1", word])))
    said = "sizes must be 1 or more" if word == "nx=0" else "NAME=NUMBER"
    assert result.code != 0 and said in errors.read_text(), result


def test_xpmem_measures_each_call(bench):
    found = bench("xpmem", "--repeats", "2", "--no-plot")
    check_series(found.pop("locked addition"), [0], 2)
    for when in ("first", "warm"):
        check_series(found.pop(f"tasks/{when}"), list(range(7)), 2)
        check_series(found.pop(f"shm/{when}"), list(range(8)), 2)
    assert not found


@pytest.mark.long
def test_configurations_measures_each_and_counts_attaches(bench):
    XPMEM_MPIS["impi-xpmem"].needed()
    found = bench("configurations", "--mpi", "intel", "--ranks", "2", "--patterns", "exchange", "--sizes",
                  "64,65536", "--repeats", "2", "--batches", "1", "--batch-ms", "1", "--no-plot")
    expected = ["Shmem", "PiP-Shmem", "PiP-XPMEM"]
    expected += ["XPMEM"] if os.path.exists("/dev/xpmem") else []
    expected += [] if MPIS["mpich"].missing() else ["CMA, stock", "CMA, stock, tasks"]
    for name in expected:
        check_series(found.pop(f"{name}/exchange"), [64, 65536], 2)
    counts = {name: series["samples"][0][0] for name, series in found.items()}
    assert counts["PiP-Shmem/exchange/attaches"] == 0 < counts["PiP-XPMEM/exchange/attaches"], counts
    assert counts["PiP-XPMEM/exchange/messages"] > counts["PiP-XPMEM/exchange/attaches"], counts


@pytest.mark.long
def test_run_all_runs_each_and_reports_progress(job, tmp_path):
    need_two_cpus()
    result = job.run([BENCH / "run-all", "--quick", "--only", "pagetables,strided", "--repeats", "1", "--no-plot",
                      "--results", tmp_path], env={"ONESPACE_BIN": ONESPACE})
    assert result.code == 0 and "FAILED" not in result.out and "target" not in result.out, result
    assert "left" not in result.err.split("repeat")[0], result  # nothing is known yet
    for number, name in ((1, "pagetables"), (2, "strided")):
        assert f"[{number}/2] bench/{name}: begins" in result.err, result
        jsonschema.validate(json.loads((tmp_path / f"{name}.json").read_text()), SCHEMA)
    assert [line.split()[0] for line in result.out.splitlines()[-4:]] == ["benchmark", "pagetables", "strided",
                                                                          "all"]
    again = job.run([BENCH / "run-all", "--quick", "--only", "strided", "--repeats", "1", "--no-plot", "--results",
                     tmp_path], env={"ONESPACE_BIN": ONESPACE})
    assert re.search(r"^\[1/1\] bench/strided: begins, about \d+ s left for all$", again.err, re.M), again


def test_estimates_of_the_time_left_follow_the_time_spent(monkeypatch):
    sys.path.insert(0, str(BENCH / "lib"))
    import onespace_bench as ob
    now = [0.0]
    left = ob.TimeLeft(4, clock=lambda: now[0])
    assert left.text(0) == ""
    now[0] = 30.0
    assert [left.text(1), left.text(2), left.text(3)] == [", about 90 s left", ", about 30 s left", ", about 10 s left"]
    assert [ob.duration(seconds) for seconds in (0.2, 99, 600, 7200)] == ["1 s", "99 s", "10 minutes", "2.0 hours"]
    monkeypatch.setattr(ob.time, "monotonic", lambda: now[0])
    printed, interleaver = [], ob.Interleaver()
    interleaver.run({"one": lambda: {"a": 1}}, 2, printed.append)
    interleaver.expect(2)
    interleaver.left.clock = lambda: now[0]
    interleaver.left.start = now[0]

    def step():
        now[0] += 5
        return {}
    for _ in range(2):  # of two MPI libraries
        interleaver.run({"one": step}, 2, printed.append)
    assert printed == ["  repeat 1 of 2", "  repeat 2 of 2, about 1 s left of this part",
                       "  repeat 1 of 2", "  repeat 2 of 2, about 15 s left for all",
                       "  repeat 1 of 2, about 10 s left for all", "  repeat 2 of 2, about 5 s left for all"]


def test_interleaving_gives_each_repeat_one_sample_per_variant():
    sys.path.insert(0, str(BENCH / "lib"))
    import onespace_bench as ob
    order = []

    def variant(name):
        def run():
            order.append(name)
            return {8: len(order)}
        return run
    samples = ob.Interleaver().run({name: variant(name) for name in "ab"}, 3, lambda text: None)
    assert order == list("ababab") and samples == {"a": {8: [1, 3, 5]}, "b": {8: [2, 4, 6]}}


class Clock:
    """A place whose deadline passes when it has been asked so many times."""

    def __init__(self, times):
        self.times = times

    @property
    def deadline(self):
        self.times -= 1
        return 1 if self.times < 0 else None


def test_time_limit_keeps_the_repeats_that_are_complete():
    sys.path.insert(0, str(BENCH / "lib"))
    import onespace_bench as ob

    def repeats(interleaver):
        return interleaver.run({"a": lambda: {8: 1}, "b": lambda: {8: 2}}, 3, lambda text: None)
    late = ob.Interleaver(Clock(0))  # the first repeat is made in any case
    assert repeats(late) == {"a": {8: [1]}, "b": {8: [2]}} and late.is_cut
    with pytest.raises(ob.Ended):
        repeats(late)
    in_time = ob.Interleaver(Clock(100))
    assert repeats(in_time) == {"a": {8: [1] * 3}, "b": {8: [2] * 3}} and not in_time.is_cut


def test_a_benchmark_that_is_cut_short_says_so(bench, tmp_path):
    found = bench("cachelines", "--time-limit", "0.001", "--repeats", "3", "--no-plot")
    assert {len(samples) for series in found.values() for samples in series["samples"]} == {1}


FAILS_LATE = """
import sys
sys.path.insert(0, {library!r})
import onespace_bench as ob

def measure(run):
    run.result.add("first", "s", {{1: [1.0]}})
    raise ob.Failure("the second part is broken")

ob.main(ob.Benchmark("late", "Does it fail?", "none", "none", measure))
"""


@pytest.mark.parametrize("limit", [[], ["--time-limit", "60"]])
def test_a_failure_keeps_what_was_measured_only_with_a_time_limit(job, tmp_path, limit):
    script = tmp_path / "late"
    script.write_text(FAILS_LATE.format(library=str(BENCH / "lib")))
    done = job.run([sys.executable, script, "--no-plot", "--results", tmp_path / "results", *limit],
                   env={"ONESPACE_BIN": ONESPACE}).expect(1)
    assert "the second part is broken" in done.err, done
    file = tmp_path / "results/late.json"
    assert file.exists() == bool(limit)
    if limit:
        assert json.loads(file.read_text())["notes"][-1] == "FAILED: the second part is broken"


def test_programs_are_compiled_once_where_they_are_kept(job, tmp_path):
    run = [BENCH / "cachelines/run", "--no-plot", "--repeats", "1", "--results", tmp_path / "results"]
    done = job.run([*run, "--compile"], env={"ONESPACE_BIN": ONESPACE}).expect(2)
    assert "ONESPACE_BENCH_PROGRAMS must name the directory" in done.err, done
    kept = {"ONESPACE_BIN": ONESPACE, "ONESPACE_BENCH_PROGRAMS": str(tmp_path / "programs")}
    job.run([*run, "--compile"], env=kept).expect()
    assert os.listdir(tmp_path / "programs") == ["p2p-limit"] and not (tmp_path / "results").exists()
    built = (tmp_path / "programs/p2p-limit").stat().st_mtime_ns
    job.run(run, env=kept).expect()
    assert (tmp_path / "programs/p2p-limit").stat().st_mtime_ns == built


def test_cachelines_measures_all_pairs(bench):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two CPUs are needed")
    found = bench("cachelines", "--cpus", "2", "--repeats", "2", "--no-plot")
    first, second = found
    assert found[first]["x"] == [int(second)] and found[second]["x"] == [int(first)]
    assert found[first]["samples"] == found[second]["samples"] and min(found[first]["samples"][0]) > 0


def test_p2p_estimates_its_duration(job, tmp_path):
    mpi = MPIS["mpich"].needed()
    done = job.run([BENCH / "p2p/run", "--mpi", mpi.name, "--sizes", "8", "--operations", "sendrecv", "--repeats", "2",
                    "--batches", "1", "--batch-ms", "1", "--no-plot", "--results", tmp_path],
                   env={"ONESPACE_BIN": ONESPACE})
    lines = done.err.splitlines()
    assert "mpich: 2 runs each of processes, tasks and memcpy: about 4 s in all" in lines, done
    assert any(re.fullmatch(r"  repeat 2 of 2, about \d+ s left for all", line) for line in lines), done


@pytest.mark.long
def test_run_all_terminates_what_it_started(job, tmp_path):
    command = job.start(["sh", "-c", 'exec "$0" --only pagetables --results "$TMPDIR" 2>&1', BENCH / "run-all"],
                        env={"ONESPACE_BIN": ONESPACE, "TMPDIR": str(tmp_path)})
    command.wait_for("repeat 2 of")
    while len(job.processes()) <= 2:  # between two programs
        time.sleep(0.001)
    command.signal(signal.SIGTERM)
    result = command.finish()  # and the fixture looks for processes
    assert result.code == 128 + signal.SIGTERM and not os.listdir(tmp_path), result


def test_run_all_names_the_benchmark_that_failed(job, tmp_path):
    result = job.run([BENCH / "run-all", "--only", "pagetables", "--results", tmp_path],
                     env={"ONESPACE_BIN": tmp_path / "absent"})
    assert result.code == 1 and "bench/pagetables: FAILED with 1" in result.err, result


def test_run_all_refuses_a_benchmark_that_is_not_there(job):
    result = job.run([BENCH / "run-all", "--only", "absent"], env={"ONESPACE_BIN": ONESPACE})
    assert result.code == 1 and "no benchmark absent" in result.err, result


@pytest.mark.parametrize("kind", ["tasks", "processes"])
def test_workers_end_when_a_worker_is_killed(job, worker_dies, kind):
    result = job.run([worker_dies, kind, "worker"])
    assert (result.code, result.out) == (1, "") and "worker 1 ended too early" in result.err, result


@pytest.mark.parametrize("kind", ["tasks", "processes"])
def test_workers_end_when_its_program_is_killed(job, worker_dies, kind):
    result = job.run([worker_dies, kind, "leader"])  # the fixture looks for workers that were left behind
    assert (result.code, result.out) == (128 + signal.SIGKILL, ""), result


@pytest.mark.long
def test_sync_measures_every_question(bench):
    found = bench("sync", "--mpi", need("mpich"), "--ranks", "2", *SHORT, "--no-plot")
    for way in ("processes", "tasks"):
        for question in ("barrier", "allreduce", "mismatch-leave"):
            check_series(found[f"mpich/{way}/{question}/MPI"], [2], 2)
            check_series(found[f"mpich/{way}/{question}/sync"], [2], 2)


def need_meshes(job, directory):
    """Meshes are made in a directory of the test."""
    if not importlib.util.find_spec("gmsh") or not ctypes.util.find_library("metis"):
        pytest.skip("python3-gmsh or libmetis is not installed (scripts/setup test)")
    job.env["XDG_CACHE_HOME"] = str(directory)


@pytest.mark.long
def test_ghost_measures_every_variant(bench, job, tmp_path):
    need_meshes(job, tmp_path)
    found = bench("ghost", "--mpi", need("mpich"), "--ranks", "2", "--sizes", "0.2,0.3", *SHORT, "--no-plot",
                  timeout=150)
    points = found["mpich/2 ranks/tasks/sync"]["x"]
    assert len(points) == 2
    for name in ("isend", "persistent", "neighbor", "fence", "pscw", "lock-tuned", "sync", "limit"):
        check_series(found[f"mpich/2 ranks/processes/{name}"], points, 2)
    check_series(found["mpich/2 ranks/tasks/sync-buffers"], points, 2)


@pytest.mark.alone
@pytest.mark.long
def test_ghost_measures_two_nodes(bench, job, tmp_path):
    need_nodes(job)
    need_meshes(job, tmp_path)
    found = bench("ghost", "--mpi", need("mpich"), "--nodes", "2", "--ranks", "2", "--sizes", "0.3", "--variants",
                  "persistent,sync,sync-leaders", *SHORT, "--no-plot", timeout=180)
    points = found["mpich/2 ranks on 2 nodes/tasks/sync"]["x"]
    for name in ("persistent", "sync", "sync-leaders"):
        check_series(found[f"mpich/2 ranks on 2 nodes/processes/{name}"], points, 2)


@pytest.mark.parametrize("missing", SCHEMA["required"])
def test_schema_wants_every_promised_field(missing):
    data = {"format": "onespace-bench/1", "question": "q", "command": "c", "limits": [], "notes": [],
            "paper": {"document": "d", "figure": "f", "claim": "c"},
            "machine": {"cpu": "c", "cpus": 1, "kernel": "k", "memory_bytes": 1,
                        "cache_line_round_trip_s": []},
            "versions": {"onespace": "o", "compiler": "c", "libc": "l"},
            "series": [{"name": "n", "unit": "s", "x": [1], "samples": [[1.0]]}]}
    jsonschema.validate(data, SCHEMA)
    del data[missing]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, SCHEMA)


def test_bench_command_prints_the_table(job, tmp_path):
    result = job.run([ONESPACE, "bench", "--quick", "--repeats", "1", "--mpi", need("mpich")], timeout=400,
                     env={"ONESPACE_BENCH_RESULTS": str(tmp_path)})
    assert result.code == 0, result
    jsonschema.validate(json.loads((tmp_path / "p2p.json").read_text()), SCHEMA)
    header = next(line for line in result.out.splitlines() if line.startswith("size"))
    assert header.split() == ["size", "processes", "tasks", "ratio", "memcpy"]
    assert any(line.startswith("4 MiB") for line in result.out.splitlines())


def test_bench_command_reports_that_mpicc_is_missing(job, tmp_path):
    (tmp_path / "python3").symlink_to(shutil.which("python3"))
    result = job.run([ONESPACE, "bench"], env={"PATH": str(tmp_path)})
    assert result.code == 1 and "no mpicc along PATH" in result.err, result


def test_bench_command_reports_that_python_is_missing(job, tmp_path):
    hide = "mount --bind /dev/null /usr/bin/python3"
    if job.run(["unshare", "-rm", "sh", "-c", hide]).code != 0:
        pytest.skip("user namespaces, to hide python3 in, are not to be had")
    result = job.run(["unshare", "-rm", "sh", "-c", f'{hide}; PATH={tmp_path}; exec "$0" bench', ONESPACE])
    assert result.code == 1 and "cannot run python3" in result.err, result


def test_demo_sets_processes_and_tasks_side_by_side(job):
    for mpi in ("mpich", "openmpi"):
        need(mpi)
    result = job.run([ROOT / "scripts/demo", "--repeats", "1"], env={"ONESPACE_BIN": ONESPACE}, timeout=200)
    assert result.code == 0, result
    assert result.out.count("each rank read its neighbour's static array where it lies") == 2, result
    rows = [line for line in result.out.splitlines() if line.endswith("x")]
    assert any(line.startswith("MPICH") and "1 MiB" in line for line in rows), result
    assert any(line.startswith("Open MPI") and "128 KiB" in line for line in rows), result


@pytest.mark.long
def test_insitu_measures_each_hand_over(bench):
    need_two_cpus()
    found = bench("insitu", "--sizes", "65536", "--repeats", "1", "--no-plot")
    found.pop("ADIOS2 SST", None)  # where its wheel is installed
    for name in ("onespace", "shared_memory, with its copy", "half a cache line's round trip"):
        check_series(found.pop(name), [65536], 1)
    assert not found


@pytest.mark.long
def test_adios2_measures_steps(bench):
    need_two_cpus()
    if not list((ROOT / ".venv/adios2/lib").glob("python*/site-packages/adios2/include")):
        pytest.skip("PyPI's adios2 is not in .venv/adios2 (scripts/setup adios2)")
    if not (pathlib.Path(ONESPACE).resolve().parents[1] / "lib/libonespace-adios2.so").exists():
        pytest.skip("the engine of ADIOS2 is not built")
    found = bench("adios2", "--sizes", "65536", "--repeats", "1", "--no-plot")
    for way in ("put and get", "SST", "BP5 on tmpfs"):
        for name in (way, f"{way}, without a pause"):
            check_series(found[name], [65536], 1)


@pytest.fixture
def package():
    if not list(pathlib.Path(ONESPACE).parents[1].glob("python/onespace/_core.*.so")):
        pytest.skip("the Python package is not built (scripts/setup test, then make build-tests)")


@pytest.fixture
def has_pools():
    needed = ROOT / ".venv/pools/bin/python"
    command = [needed, "-c", "import loky, joblib, sklearn, pandas"]
    if not needed.exists() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("loky, joblib, scikit-learn or pandas is not installed in .venv/pools (scripts/setup test)")


@pytest.mark.long
def test_python_measures_each_hand_over(bench, package):
    need_two_cpus()
    found = bench("python", "--sizes", "65536", "--repeats", "2", "--no-plot")
    names = {"channel", "channel, asleep", "imported array and a flag", "export and import each step",
             "shared_memory, copied in", "shared_memory, copied in and out", "Connection"}
    assert set(found) == names | {"half a cache line's round trip"}
    for name in names:
        check_series(found[name], [65536], 2)


@pytest.mark.long
def test_python_measures_imports_and_their_memory(bench, package):
    found = bench("python", "--question", "arrays", "--sizes", "33554432", "--repeats", "1", "--no-plot")
    for name in ("first import", "import"):
        for way in ("tasks", "processes"):
            check_series(found[f"{name}/{way}"], [33554432], 1)
    added = {way: found[f"memory added/{way}"]["samples"][0][0] for way in ("tasks", "processes")}
    assert added["tasks"] < 8 << 20 and added["processes"] >= 32 << 20, added


@pytest.mark.long
def test_python_measures_starts(bench, package):
    found = bench("python", "--question", "starts", "--counts", "1,2", "--repeats", "1", "--no-plot", "--quick")
    assert set(found) == {f"{code}/{way}" for code in ("nothing", "import numpy") for way in ("tasks", "processes")}
    for series in found.values():
        check_series(series, [1, 2], 1)


@pytest.mark.long
def test_pool_measures_calls_and_their_memory(bench, package):
    found = bench("pool", "--sizes", "65536,33554432", "--calls", "20", "--repeats", "1", "--no-plot")
    for way in ("onespace", "ProcessPoolExecutor"):
        check_series(found[f"empty/{way}"], [0], 1)
        for name in ("argument", "result", "both"):
            check_series(found[f"{name}/{way}"], [65536, 33554432], 1)
    added = {way: found[f"memory/{way}"]["samples"][1][0] for way in ("onespace", "ProcessPoolExecutor")}
    assert added["onespace"] < 8 << 20 and added["ProcessPoolExecutor"] >= 32 << 20, added


@pytest.mark.long
def test_pool_measures_starts(bench, package):
    found = bench("pool", "--question", "starts", "--counts", "1,2", "--repeats", "1", "--no-plot", "--quick")
    for way in ("onespace", "ProcessPoolExecutor"):
        check_series(found[way], [1, 2], 1)


@pytest.mark.long
def test_pool_measures_real_work(bench, package, has_pools):
    found = bench("pool", "--question", "work", "--mib", "1", "--repeats", "1", "--no-plot", "--quick")
    assert set(found) == {f"{kind}/{way}" for kind in ("filter", "groupby", "grid") for way in ("onespace", "loky")}
    for series in found.values():
        check_series(series, [1], 1)


@pytest.mark.long
def test_insitu_measures_lammps_with_an_analysis(bench):
    need_two_cpus()
    if not pathlib.Path("/usr/include/lammps/library.h").exists():
        pytest.skip("LAMMPS is not installed (package liblammps-dev)")
    found = bench("insitu", "--question", "lammps", "--cells", "4", "--repeats", "1", "--no-plot")
    check_series(found.pop("LAMMPS alone"), [4], 1)
    for name in ("onespace", "shared memory"):
        check_series(found.pop(f"{name}, handing over"), [4], 1)
        assert found.pop(f"{name}, added")["x"] == [4]  # a difference: on a busy machine it may be below 0
    assert not found
