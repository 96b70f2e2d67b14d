"""tests/bench/test_bench_storage.py: the benchmarks of windows on storage run, report, and detect wrong results.
No test checks a time."""
import collections
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from jobs import ONESPACE, ROOT
from test_bench import bench, check_series, errors_into, need  # noqa: F401 (a fixture)

STORAGE = ROOT / "bench/storage"
sys.path[:0] = [str(ROOT / "bench/lib"), str(STORAGE)]
import places  # noqa: E402
import questions  # noqa: E402

TINY = {"rma": ["sizes=8 4096", "times=10", "operations=put,exchange-get"],
        "mstream": ["bytes=2M", "segment=128K", "passes=2"],
        "scattered": ["bytes=8M", "stores=16"],
        "commits": ["bytes=8M", "commits=3"],
        "dht": ["slots=64", "limited=0"],
        "hacc": ["particles=5000"],
        "mapreduce": ["bytes=256K", "part=32K", "vocabulary=2000"]}
QUESTIONS = [pytest.param(name, marks=[pytest.mark.long] if name in ("hacc", "mapreduce", "mstream") else [])
             for name in TINY]
SOURCES = {"dht": ["dht.c", "window.c"], "rma": ["rma.c", "window.c"],
           "mapreduce": ["mapreduce.c", "words.c", "window.c"]}

# Changes the last byte of put data.
FAULTY_PUT = """
#include <mpi.h>
#include <string.h>
int MPI_Put(const void *origin, int count, MPI_Datatype type, int target, MPI_Aint at, int target_count,
            MPI_Datatype target_type, MPI_Win win)
{
    static char copy[1 << 16];
    memcpy(copy, origin, count);
    copy[count - 1]++;
    return PMPI_Put(copy, count, type, target, at, target_count, target_type, win);
}
"""


def tiny(question, mpi, *more):
    settings = [word for change in TINY[question] for word in ("--set", change)]
    return ["--question", question, "--mpi", mpi, "--repeats", "1", "--no-plot", *settings, *more]


def layer_has_storage(mpi):
    library = pathlib.Path(ONESPACE).parents[1] / f"lib/libonespace-mpi-{mpi}.so"
    if not library.exists():
        pytest.skip(f"{library.name} is not built")
    symbols = subprocess.run(["nm", "-D", library], capture_output=True, text=True, check=True).stdout
    if "onespace_window_sync_all" not in symbols:
        pytest.skip("this MPI layer has no windows on storage")


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """Compiles one of the programs with MPICH; gives the command that starts it with two ranks."""
    directory = tmp_path_factory.mktemp("storage")

    def build(name, ranks=2):
        need("mpich")
        path = directory / name
        if not path.exists():
            subprocess.run(["mpicc.mpich", "-O2", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-o", path,
                            *[STORAGE / source for source in SOURCES[name]]], check=True)
        return ["mpiexec.mpich", "-n", str(ranks), path]
    return build


def plain_count(text):
    counts = collections.Counter(word[:255] for word in re.findall(rb"[a-z0-9\x80-\xff]+", text.lower()))
    return b"".join(b"%d %s\n" % (counts[word], word) for word in sorted(counts))


def difficult_text(path, size=200_000):
    """A text with difficult words: longer than a part, across the end of a part, in other alphabets."""
    line = "A word, CAPITALS; naïve café - don't 42 " + "x" * 300 + " end.\n"
    text = (line * (size // len(line))).encode() + b"y" * 70_000 + b" last"
    path.write_bytes(text)
    return text


# ---- The benchmarks ----

@pytest.mark.parametrize("question", QUESTIONS)
def test_storage_benchmark_measures_memory_and_mapped_files(bench, question, tmp_path):
    found = bench("storage", *tiny(question, need("openmpi"), "--kinds", "memory,mmap", "--places", "disk", "--disk",
                                   tmp_path))
    kinds = {name.split("/")[3] for name in found if name.count("/") == 4}
    assert ("one-sided-mmap" if question == "mapreduce" else "mmap") in kinds, found
    assert all(len(samples) == 1 for one in found.values() for samples in one["samples"])


@pytest.mark.long
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_storage_benchmark_measures_windows_on_storage(bench, question, mpi, tmp_path):
    layer_has_storage(need(mpi))
    found = bench("storage", *tiny(question, mpi, "--kinds", "memory,storage,combined", "--places", "disk", "--disk",
                                   tmp_path))
    kinds = {name.split("/")[3] for name in found if name.count("/") == 4}
    assert ("one-sided-storage" if question == "mapreduce" else "storage") in kinds, found
    written = [value for name, one in found.items() if "/storage/" in name and name.endswith("-written")
               for samples in one["samples"] for value in samples]
    moved = [one["samples"][0][0] for name, one in found.items()
             if "/storage/" in name and name.endswith(("/read", "/written"))]
    assert question != "commits" or (len(moved) == 2 and max(moved) < 1 << 20), found
    assert question != "scattered" or (len(written) == 3 and max(written) <= 1 << 20), found


def test_storage_mstream_counts_dirty_bytes(bench, tmp_path):
    found = bench("storage", *tiny("mstream", need("mpich"), "--kinds", "memory,mmap", "--places", "disk", "--disk",
                                   tmp_path))
    # SEQ puts every other segment.
    assert found["mpich/processes/disk/mmap/SEQ-dirty"]["samples"] == [[1 << 20]]
    check_series(found["mpich/disk/write-rate"], [2 << 20], 1)


@pytest.mark.alone
def test_storage_fast_device_goes_with_the_benchmark(bench, job, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    job.env["TMPDIR"] = str(tmp_path)  # its file's place tells it from those of others
    found = bench("storage", *tiny("scattered", need("mpich"), "--kinds", "memory,mmap", "--places", "fast"))
    if not found:
        pytest.skip("no fast device here")
    assert found["mpich/processes/fast/mmap/fresh-written"]["x"] == [16]
    after = subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in after


def test_storage_benchmark_refuses_an_unknown_setting(job):
    result = job.run([STORAGE / "run", "--question", "rma", "--places", "disk", "--set", "size=8"])
    assert result.code == 1 and "settings of rma are sizes, times" in result.err, result


def test_storage_benchmark_reports_a_missing_layer(job, tmp_path):
    result = job.run([STORAGE / "run", *tiny("rma", need("mpich"), "--places", "disk", "--disk", tmp_path, "--results",
                                             tmp_path)], env={"ONESPACE_BIN": "/bin/true"})
    assert result.code == 1 and "libonespace-mpi-mpich.so is not in" in result.err, result


# ---- Parts of the benchmarks ----

def test_storage_memory_limit_ends_what_exceeds_it(job):
    try:
        group = places.MemoryLimit(64 << 20)
    except (places.ob.Failure, OSError) as failure:
        pytest.skip(f"no memory limits here: {failure}")
    with group:
        large = job.run([*group.front(), sys.executable, "-c", "len(b'x' * (256 << 20))"])
        small = job.run([*group.front(), sys.executable, "-c", "len(b'x' * (16 << 20))"])
    assert (large.code, small.code) == (128 + signal.SIGKILL, 0), (large, small)
    assert not group.directory.exists()


def test_storage_interval_is_that_of_the_median():
    # 95 % of eleven: the second to the tenth, since the third to the ninth are 93.5 %.
    assert questions.interval(list(range(11))) == (1, 5, 9)
    assert questions.interval([3, 1, 2]) == (1, 2, 3)


# ---- The programs ----

def failed(job, directory, program, *words):
    """The exit status of its job, and what the ranks say, which Hydra may drop when one aborts."""
    *front, path = program
    errors = directory / "errors"
    code = job.run([*front, *errors_into(errors, [path, *words])]).code
    return code, errors.read_text()


def test_storage_hints_without_effect_end_the_program(job, program, tmp_path):
    code, errors = failed(job, tmp_path, program("rma"), "-w", "storage", "-f", tmp_path / "f", "8")
    assert code != 0 and "alloc_type=storage had no effect" in errors, errors


def test_storage_rma_notices_what_arrives_wrong(job, program, tmp_path):
    library = tmp_path / "faulty.so"
    subprocess.run(["mpicc.mpich", "-shared", "-fPIC", "-o", library, "-x", "c", "-"], input=FAULTY_PUT, text=True,
                   check=True)
    *front, path = program("rma")
    code, errors = failed(job, tmp_path, [*front, "env"], f"LD_PRELOAD={library}", path, "-o", "put", "-n", "5", "4096")
    assert code != 0 and "put of 4096 bytes left something else" in errors, errors


@pytest.mark.long
@pytest.mark.parametrize("words", [[], ["-w", "mmap", "-c"], ["-m", "two"], ["-m", "two", "-c"],
                                   ["-m", "two", "-c", "-i"]], ids=" ".join)
def test_storage_mapreduce_counts_as_a_plain_count_does(job, program, tmp_path, words):
    text, output = difficult_text(tmp_path / "text"), tmp_path / "output"
    result = job.run([*program("mapreduce"), *words, "-f", tmp_path / "log", "-s", "7001", "-o", output,
                      tmp_path / "text"])
    assert result.code == 0 and output.read_bytes() == plain_count(text), result


@pytest.mark.long
@pytest.mark.parametrize("words", [["-w", "mmap"], ["-m", "two", "-i"]], ids=["one-sided", "two-sided"])
def test_storage_mapreduce_goes_on_from_its_checkpoints(job, program, tmp_path, words):
    text, output = difficult_text(tmp_path / "text", 4_000_000), tmp_path / "output"
    arguments = [*program("mapreduce"), *words, "-c", "-k", "-v", "-f", tmp_path / "log", "-s", "64K", "-o", output,
                 tmp_path / "text"]
    command = job.start(arguments)
    command.wait_for("checkpoint behind part", count=8)
    for process in job.processes():
        if process.name == "mapreduce":
            with contextlib.suppress(ProcessLookupError):  # the others end with the first
                os.kill(process.pid, signal.SIGKILL)
    killed = command.finish()
    again = job.run(arguments)
    assert again.code == 0 and output.read_bytes() == plain_count(text), again
    parts = (len(text) + 65535) // 65536
    if killed.code != 0:  # or it was done before the signal came
        assert again.out.count("checkpoint behind part") < parts + (2 if "two" in words else 0), again


def test_storage_dht_that_is_full_is_an_error(job, program, tmp_path):
    code, errors = failed(job, tmp_path, program("dht"), "-s", "8", "-x", "1", "-n", "60")
    assert code != 0 and "the hash table is full: all 8 elements" in errors, errors
