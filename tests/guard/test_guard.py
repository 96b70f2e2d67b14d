"""onespace run --guard: a task cannot write to another's memory by mistake.

What needs protection keys runs on this machine if its CPU has them, and with ONESPACE_LONG=1 in a virtual machine
that has (tests/lib/machine.py), once for each of Debian's kernels that scripts/fetch-kernels has found."""
import os
import pathlib
import re

import pytest

import machine
from guests import PROGRAMS
from jobs import BUILD, ONESPACE, RUN
from launchers import MPIS

HAS_NONE = "pku" not in pathlib.Path("/proc/cpuinfo").read_text().split()
WILD, BESIDE = PROGRAMS / "wild-write", PROGRAMS / "extra.so"  # which it opens
# Before glibc 2.34 libc.so.6 is a link, and mappings have the file's name.
LIBC = re.search(r"/(libc[-.][^/\n]+)$", pathlib.Path("/proc/self/maps").read_text(), re.M)[1]
KINDS = {"heap": "the heap", "brk": "the heap", "arena": "mapped memory", "stack": "the main stack",
         "globals": "the globals", "bss": "the globals", "libc": f"the data of {LIBC}",
         "opened": "the data of extra.so", "loader": "the dynamic linker's data", "tls": "the thread-local storage",
         "thread-stack": "a thread's stack", "thread-tls": "a thread's stack", "guarded-stack": "a thread's stack",
         "mmap": "mapped memory", "file": "the data of passwd", "reserved": "mapped memory", "moved": "mapped memory",
         "transparent": "mapped memory", "huge": "mapped memory"}
READ_ONLY = ["constants", "code"]
OPEN = {"shared": "changed", "segment": "changed", "pkey0": "changed", "registry": "kept"}
NUMBER = r"0x[0-9a-f]+"


# ---- Here ----

@pytest.mark.skipif(not HAS_NONE, reason="this CPU has protection keys")
def test_without_keys_guard_is_refused(job):
    result = job.run([*RUN, "--guard", "-n", "2", "/bin/echo", "ran"]).expect(1, out="")
    assert result.err.count("\n") == 1 and "--guard: this CPU has no protection keys" in result.err, result


@pytest.mark.skipif(not HAS_NONE, reason="this CPU has protection keys")
def test_without_keys_a_job_is_refused_once(job):
    mpi = MPIS["mpich"].needed()
    result = job.run(mpi.command(3, [*RUN, "--guard", "/bin/echo", "ran"]), env=mpi.env)
    assert result.code != 0 and "ran" not in result.out, result
    assert result.err.count("--guard: this CPU has no protection keys") == 1, result


def test_guard_takes_report_alone(job):
    result = job.run([*RUN, "--guard=tell", "/bin/echo", "ran"])
    assert result.code == 2 and result.err.startswith("onespace run: --guard tell: not report"), result


@pytest.mark.parametrize("other", ["--no-interpose", "--thread-mode"])
def test_guard_is_not_for(job, other):
    result = job.run([*RUN, "--guard", other, "/bin/echo", "ran"])
    assert result.code == 2 and f"onespace run: --guard with {other}: " in result.err, result
    assert result.out == ""


def test_guests_do_the_same_unguarded(job, guests):
    """What the virtual machine's tests expect of them, without keys."""
    for name in ("guarded", "guarded-static"):
        result = job.run([*RUN, "-n", "2", guests(name)])
        assert result.code == 0 and result.out.count(": ok\n") == 28, result
    for kind in KINDS.keys() - {"huge"}:  # of which a machine may have none
        result = job.run([*RUN, "-n", "2", guests("wild-write"), kind])
        assert result.lines == ["0: changed", "1: reads 41", "1: went on"], (kind, result)


def test_machine_names_files_that_are_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match=f"{tmp_path}/absent: is it built"):
        machine.run(["true"], ["/bin/true", tmp_path / "absent"])


# ---- Where there are keys ----

DEBIANS = {"bookworm": (6, 1), "trixie": (6, 12), "sid": (6, 15)}  # known; sid: at least
HERE = "here"


def kernel_version():
    return tuple(int(number) for number in re.match(r"(\d+)\.(\d+)", os.uname().release).groups())


def places():
    """This machine, unless its CPU has no keys, and a virtual machine for each kernel."""
    found = {name: path for name, path in machine.kernels().items() if name in DEBIANS}
    return [pytest.param(HERE, id=HERE, marks=pytest.mark.skipif(HAS_NONE, reason="this CPU has no protection keys")),
            *([pytest.param(found[name], id=name) for name in found] or [pytest.param(None, id="none")])]


@pytest.fixture
def run_there(request):
    """Runs commands on this machine or in the virtual machine: a list of (exit status, output)."""
    kernel = request.param
    if kernel == HERE:
        return run_here
    if not os.environ.get("ONESPACE_LONG"):
        pytest.skip("a virtual machine without KVM takes half a minute and more: ONESPACE_LONG=1")
    try:
        machine.check(kernel)
    except machine.Unavailable as missing:
        pytest.skip(str(missing))

    def run(commands, files=(), timeout=900):
        results, text = machine.run([f"exec {command}" for command in commands],
                                    [ONESPACE, BUILD / "lib", *files], kernel, timeout)
        assert len(results) == len(commands), text
        return results
    run.saves_rights_of_nested_signals = kernel is not None and DEBIANS[kernel.parent.name] >= (6, 12)
    return run


def run_here(commands, files=(), timeout=900):
    results = machine.run_here([f"exec {command}" for command in commands], timeout)
    assert len(results) == len(commands), results
    return results


run_here.saves_rights_of_nested_signals = kernel_version() >= (6, 12)
in_machine = pytest.mark.parametrize("run_there", places(), indirect=True)


@in_machine
def test_what_the_kernel_does(run_there):
    """What docs/internals/guard.md builds on."""
    program = PROGRAMS / "guard-experiments"
    (status, text), = run_there([program], [program])
    found = dict(line.split(": ", 1) for line in text.split("\n") if ": " in line)
    new = run_there.saves_rights_of_nested_signals
    killed = "killed by Segmentation fault"
    assert status == 0
    assert found["initial"] == "55555554"
    assert found["inherited_by_clone"] == "55555580"
    assert found["in_a_handler"] == "55555554, afterwards 00000000"
    assert found["handler_on_a_stack_with_a_key"] == killed
    assert found["entry_that_opens"] == "ends with 1"
    assert found["two_signals_at_once"] == ("ends with 2" if new else killed)
    assert found["two_signals_with_all_masked"] == "ends with 2"
    assert found["signal_while_the_stack_is_closed"] == ("ends with 1" if new else killed)
    assert found["rseq_area_with_a_key"].startswith(killed)
    assert found["fault"].startswith("read passes; write: si_code 4")
    assert found["fault"].endswith("rights changed in the frame hold: yes")
    assert found["one_instruction_at_a_time"] == "100 stores, 100 faults, rights closed again"
    assert "read() of a pipe into it: Bad address" in found["kernel_copies"]
    assert "process_vm_writev into it: passes" in found["kernel_copies"]
    assert found["after_execve"] == "rights 55555554, the first key is 1 again"


def wild(kind, option="--guard", tasks=2):
    """The program looks for the registry among the mappings, of which a task sees its own unless told otherwise."""
    environment = "env ONESPACE_MAPS=all " if kind == "registry" else ""
    return f"{environment}{ONESPACE} run {option} -n {tasks} {WILD} {kind}"


def message(place, writer="task 1"):
    return re.compile(rf"^onespace: {writer} \(wild-write\) wrote to {NUMBER} in {place} of task 0 \(wild-write\), at "
                      rf"wild-write\+{NUMBER}: terminated \(--guard\)$", re.M)


@in_machine
def test_a_wild_write_is_caught(run_there):
    huge = f"sh -c 'echo 8 >/proc/sys/vm/nr_hugepages; exec {wild('huge')}'"
    results = run_there([huge if kind == "huge" else wild(kind) for kind in KINDS], [WILD, BESIDE])
    for (kind, place), (status, text) in zip(KINDS.items(), results):
        assert status == 139, (kind, text)
        assert message(place).search(text) and text.count("wrote to") == 1, (kind, text)
        assert "1: reads 41" in text and "1: went on" not in text and "0: kept" in text, (kind, text)


@in_machine
def test_a_wild_write_is_caught_whoever_writes(run_there):
    """A thread, a signal handler, children, of which the parent goes on; the first 14 tasks, each with its key."""
    itself, children = ["heap thread", "heap handler"], ["heap fork", "heap vfork"]
    results = run_there([*map(wild, itself + children), wild("heap", tasks=14)], [WILD])
    for way, (status, text) in zip(itself, results):
        assert status == 139 and message("the heap").search(text) and "0: kept" in text, (way, text)
    for way, (status, text) in zip(children, results[2:4]):
        assert status == 0 and message("the heap", "a child of task 1").search(text), (way, text)
        assert "1: child killed" in text and "1: went on" in text and "0: kept" in text, (way, text)
    assert results[4][0] == 139 and message("the heap", "task 13").search(results[4][1]), results[4]


@in_machine
def test_what_is_not_reported(run_there):
    """The rest of the table in docs/guard.md: shared memory and what its owner has opened, the registry, another task
    with the same key, copies by the kernel; constants and code, a write to which is an ordinary SIGSEGV."""
    kinds = [*OPEN, *READ_ONLY]
    results = run_there([*map(wild, kinds), wild("heap read"), wild("heap copy"), wild("heap", tasks=15)], [WILD])
    assert not [text for _, text in results if "wrote to" in text], results
    for kind, (status, text) in zip(kinds, results):
        assert ("1: went on" in text) == (kind in OPEN) == (status == 0), (kind, text)
        assert f"0: {OPEN.get(kind, 'kept')}" in text, (kind, text)
    assert [status for status, _ in results[len(OPEN):-3]] == [139, 139], results
    filled, copied, same_key = (text for _, text in results[-3:])
    assert "1: Bad address" in filled and "0: kept" in filled, filled
    assert "1: passes" in copied and "0: changed" in copied, copied
    assert "14: went on" in same_key and "0: changed" in same_key, same_key


@in_machine
def test_reports_and_children(run_there):
    spawner = PROGRAMS / "spawner"
    report, child, refused = run_there([
        wild("heap itself 1000", "--guard=report"), f"{ONESPACE} run --guard {spawner}",
        f"{ONESPACE} run --guard {spawner} refused"], [WILD, spawner, "/usr/bin/true"])
    assert report[0] == 0 and "1: went on" in report[1] and "0: changed" in report[1], report
    assert report[1].count("continuing (--guard=report)") == 1, report  # of 1000 times
    assert child[0] == 0 and "kept, child killed" in child[1], child
    assert child[1].count("in the globals of task 0 (spawner)") == 3, child
    output = "-22 /usr/bin/true: would be guarded, since the task that spawns it is: leave ONESPACE_SPAWN_NO_INTERPOSE"
    assert refused[0] == 0 and refused[1].count(output) == 3, refused


@in_machine
def test_programs_go_on_as_ever(run_there):
    """Signals, threads, children, memory: with glibc, static, with musl, and as 16 tasks, which share keys."""
    libc = pathlib.Path("/lib/ld-musl-x86_64.so.1")
    names = ["guarded", "guarded-static"]
    if libc.exists() and (PROGRAMS / "guarded-musl").exists():
        names.append("guarded-musl")
    commands = [f"{ONESPACE} run {option} -n 2 {PROGRAMS / name}" for name in names
                for option in ("--guard", "--guard=report")]
    commands += [f"{ONESPACE} run --guard -n 16 {PROGRAMS / 'guarded'} signals",
                 f"{ONESPACE} run --guard {PROGRAMS / 'raw-handler'}"]
    libcs = [libc] if "guarded-musl" in names else []
    results = run_there(commands, [*(PROGRAMS / name for name in (*names, "raw-handler")), *libcs])
    for command, (status, text) in zip(commands[:-2], results):
        assert status == 0 and text.count(": ok") == 28 and "onespace" not in text, (command, text)
    assert results[-2][0] == 0 and results[-2][1].count("signals: ok") == 16, results[-2]
    new = run_there.saves_rights_of_nested_signals
    assert results[-1] == (0, "0, handled 10") if new else results[-1][0] == 139, results[-1]


@in_machine
def test_mpi_jobs_and_what_onespace_shares(run_there):
    """MPI's messages, windows and collective operations, teams: nothing is reported, and all is right. Not
    mpi_onesided: in this machine its MPI_Finalize waits for minutes now and then, as processes too."""
    mpich = PROGRAMS / "mpich"
    guests = [(2, "", "mpi_exchange"), (3, "", "mpi_collectives"), (3, "--collectives on", "mpi_collectives"),
              (3, "", "mpi_windows"), (3, "--collectives on", "mpi_collectives_user_ops 40 1 layer"),
              (3, "--collectives on", "mpi_collectives_pairs 40")]
    hydra = ["/usr/bin/mpiexec.mpich", "/usr/bin/mpiexec.hydra", "/usr/bin/hydra_pmi_proxy"]
    commands = [f"mpiexec.mpich -n {ranks} {ONESPACE} run --guard {options} {mpich / name}"
                for ranks, options, name in guests]
    commands.append(f"{ONESPACE} run --guard -n 3 {PROGRAMS / 'parallel'} joined 0 reduce")
    commands.append(f"{ONESPACE} run --guard -n 3 {PROGRAMS / 'sync_team'} team 5")
    results = run_there(commands, [*hydra, *(mpich / name.split()[0] for _, _, name in guests),
                                   PROGRAMS / "parallel", PROGRAMS / "sync_team"])
    for (ranks, _, _), (status, text) in zip(guests, results):
        assert status == 0 and sorted(text.split("\n")) == [f"rank {i}: 0 wrong" for i in range(ranks)], text
    assert results[-2] == (0, "ok\nok\nok") and results[-1][0] == 0 and results[-1][1].count("0 wrong") == 3, results
