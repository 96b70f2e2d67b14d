"""onespace for aarch64, in a virtual machine with two CPUs (tests/lib/machine.py): what was cross-compiled into
build-aarch64 (cmake --preset aarch64-test) runs there with Debian's packages (scripts/fetch-arm64): ONESPACE_LONG=1.

Emulation takes minutes, and does not show weak memory order: for that code was read (docs/internals/aarch64.md)."""
import os
import sys

import pytest

import machine
from jobs import ROOT

sys.path += [str(ROOT / "tests/mpi/rma"), str(ROOT / "tests/mpi/storage")]
from test_storage import GROUPS
from test_windows import CASES

BUILD = ROOT / "build-aarch64"
RUN, PROGRAMS = f"{BUILD}/bin/onespace run", BUILD / "tests/programs"
LAUNCHERS = {"mpich": "mpiexec.mpich", "openmpi": "mpiexec.openmpi --allow-run-as-root --oversubscribe"}


@pytest.fixture
def run_there():
    """Runs commands in one virtual machine after another: asserts that all succeed, gives their outputs."""
    if not os.environ.get("ONESPACE_LONG"):
        pytest.skip("a virtual machine for another CPU takes minutes: ONESPACE_LONG=1")
    try:
        machine.check(kind=machine.AARCH64)
    except machine.Unavailable as missing:
        pytest.skip(str(missing))
    if not (BUILD / "bin/onespace").exists():
        pytest.skip("no build for aarch64: cmake --preset aarch64-test && cmake --build build-aarch64")

    def run(commands, timeout=1800, kernel=None):
        suites = [path for path in BUILD.glob("tests/**/*_test") if path.is_file()]
        files = [BUILD / "bin", BUILD / "lib", PROGRAMS, *suites]
        results, text = machine.run(commands, files, kernel, timeout=timeout, memory_mib=3072, kind=machine.AARCH64)
        assert len(results) == len(commands), text
        for command, (status, output) in zip(commands, results):
            assert status == 0, f"{command}: exit status {status}\n{output}"
        return [output for _, output in results]
    return run


def test_doctor_finds_all_it_needs(run_there):
    output, = run_there([f"{BUILD}/bin/onespace doctor"])
    assert "0 wrong" in output and "all system calls to interpose are found" in " ".join(output.split()), output


def test_programs_run_as_tasks(run_there):
    hello, = run_there([f"{RUN} -n 3 /bin/echo hello"])
    assert hello == "hello\nhello\nhello"


def each_alone(suite, chosen="*", left_out=""):
    """A command that runs tests each in a process of its own, as ctest has it: they make spaces and change what a
    process has once. Each has four minutes."""
    program = BUILD / "tests" / suite
    return f"""cd /tmp; failed=0; part=
        for word in $({program} --gtest_list_tests --gtest_filter={chosen}-{left_out} | sed '1d; s/#.*//'); do
            case $word in *.) part=$word; continue ;; esac
            timeout -s KILL 240 {program} --gtest_brief=1 --gtest_filter=$part$word >out 2>&1 ||
                {{ echo $part$word: status $?; cat out; failed=1; }}
        done; [ $failed = 0 ]"""


@pytest.mark.parametrize("suite, left_out", [
    ("space/space_test", ""),
    ("spawn/spawn_test", ""),
    ("reaper/reaper_test", ""),
    ("api/api_test", ""),
    ("interpose/interpose_test", ""),
    ("insitu/insitu_test", "*chaos*:*Chaos*"),
    ("remote_call/call_test", ""),
    ("storage/region_test", ""),
    ("storage/versions/versions_test", "*kill*"),
])
def test_suite(run_there, suite, left_out):
    if not (BUILD / "tests" / suite).exists():
        pytest.skip(f"{suite} was not built")
    run_there([each_alone(suite, left_out=left_out)])


@pytest.mark.parametrize("mpi", LAUNCHERS)
@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks(run_there, mpi, ranks):
    command = f"{LAUNCHERS[mpi]} -n {ranks} {RUN} {PROGRAMS}/{mpi}"
    hello, exchange = run_there([f"{command}/mpi_hello", f"{command}/mpi_exchange"])
    assert sorted(hello.split("\n")) == [f"rank {i} of {ranks}, sum {ranks * (ranks - 1) // 2}" for i in range(ranks)]
    assert sorted(exchange.split("\n")) == [f"rank {i}: 0 wrong" for i in range(ranks)]


def storage_job(mpi, ranks, group):
    """Says nothing but the ranks' results if it works: some cases are to fail, and are explained on standard error."""
    job = f"{LAUNCHERS[mpi]} -n {ranks} {RUN} {PROGRAMS}/{mpi}/mpi_storage /dev/shm/w {' '.join(GROUPS[group])}"
    return f"mkdir /dev/shm/w; {job} 2>said; status=$?; rm -r /dev/shm/w; [ $status = 0 ] || cat said; exit $status"


def expect_none_wrong(outputs, ranks):
    for output in outputs:
        assert sorted(output.split("\n")) == [f"rank {i}: 0 wrong" for i in range(ranks)], output


@pytest.mark.parametrize("mpi", LAUNCHERS)
@pytest.mark.parametrize("ranks", [2, 4])
def test_windows(run_there, mpi, ranks):
    """The case left out asks for more memory than there is, and says so."""
    cases = " ".join(case for case in CASES if case != "failure_on_one_rank_fails_all")
    job = f"{LAUNCHERS[mpi]} -n {ranks} {RUN} {PROGRAMS}/{mpi}/mpi_windows"
    expect_none_wrong(run_there([f"{job} {cases}"]), ranks)


@pytest.mark.parametrize("mpi", LAUNCHERS)
@pytest.mark.parametrize("ranks", [2, 4])
def test_storage_windows(run_there, mpi, ranks):
    groups = GROUPS if ranks == 2 else ["calls", "errors", "some_ranks"]
    expect_none_wrong(run_there([storage_job(mpi, ranks, group) for group in groups]), ranks)


@pytest.mark.parametrize("mpi", LAUNCHERS)
@pytest.mark.parametrize("ranks, kinds", [(2, ["shared", "separate", "combined"]), (4, ["shared", "mixed"])])
def test_versions(run_there, mpi, ranks, kinds):
    job = f"{LAUNCHERS[mpi]} -n {ranks} {RUN} {PROGRAMS}/{mpi}/mpi_versions"
    files = [f"/dev/shm/{kind}/data {kind}" for kind in kinds]
    outputs = run_there([f"mkdir /dev/shm/{kind}; {job} {file} 3; {job} {file} 1; rm -r /dev/shm/{kind}"
                         for kind, file in zip(kinds, files)])
    expected = sorted(f"rank {i}: found {found}, made {made}" for i in range(ranks) for found, made in [(0, 3), (3, 4)])
    for output in outputs:
        assert sorted(output.split("\n")) == expected, output


@pytest.mark.parametrize("policy, depth, mode", [("wait", 1, "every"), ("skip", 2, "latest"), ("copy", 4, "every")])
def test_channels(run_there, policy, depth, mode):
    """The consumers check what they see of each step."""
    insitu = PROGRAMS / "insitu"
    producer = f"{insitu} produce data {['wait', 'skip', 'copy'].index(policy)} {depth} 50 2"
    consumers = f"-n 2 {insitu} consume data {['latest', 'every'].index(mode)}"
    output, = run_there([f"{RUN} {producer} : {consumers}"])
    steps = "50 steps, the last 50" if mode == "every" else "the last 50"
    assert output.count(f"{steps}: No data available") == 2, output


@pytest.mark.parametrize("pages", ["16k", "64k"])
def test_larger_pages(run_there, pages):
    kernel = machine.kernels(machine.AARCH64).get(pages)
    if not kernel:
        pytest.skip(f"no kernel with such pages in .arm64/{pages}/boot: scripts/fetch-arm64 has that of 16 KiB")
    ranks = [f"{launcher} -n 2 {RUN} {PROGRAMS}/{mpi}/mpi_exchange" for mpi, launcher in LAUNCHERS.items()]
    windows = [storage_job("mpich", 2, group) for group in ("calls", "hints")]
    size, *_ = run_there(["python3 -c 'import mmap; print(mmap.PAGESIZE)'", f"{BUILD}/bin/onespace doctor", *ranks,
                          *windows, each_alone("spawn/spawn_test", "spawn.*")], kernel=kernel)
    assert size == str(int(pages[:-1]) * 1024)
