"""Debugging with stock gdb: attached to one task, to all members by `onespace gdb`, and on a core file."""
import ctypes
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess

import pytest

from jobs import ONESPACE, RUN, eventually
from observe import PS, PTRACE_DETACH, PTRACE_SEIZE, line_of, may_trace, need_core_files, tasks_of


def version_of_gdb():
    path = shutil.which("gdb")
    text = subprocess.run([path, "--version"], capture_output=True, text=True).stdout if path else ""
    found = re.search(r" (\d+)\.\d+", text.split("\n")[0])
    return int(found[1]) if found else 0


needs_gdb = pytest.mark.skipif(version_of_gdb() < 13 or not may_trace(),
                               reason="needs gdb 13 or later (package gdb), and leave to trace")


@pytest.fixture
def debugged(guests):
    return guests("debugged")


@pytest.fixture
def library(guests):
    return guests("debugged_library.so")


@pytest.fixture
def started(job):
    """Starts `onespace run` (or another command) and waits until it has said "ready" `count` times."""
    def start(*argv, count=1, command=None, **options):
        command = job.start([*(command or RUN), *argv], stdin=subprocess.PIPE, **options)
        command.wait_for("ready", count)
        return command
    return start


def tell(command, text="go\n"):
    command.process.stdin.write(text.encode())
    command.process.stdin.flush()


def end(command):
    """Ends its input and checks that nothing harmed it."""
    command.process.stdin.close()
    result = command.finish().expect()
    return result


def space_of(job, command):
    result = job.run([*PS, "--json", str(command.pid)]).expect()
    return json.loads(result.out)[0]


def pids(job, command):
    """Of the tasks, by their numbers."""
    tasks = sorted(tasks_of(space_of(job, command)), key=lambda task: (task["number"] or 0, task["id"]))
    return [task["pid"] for task in tasks]


def cpu_seconds(job, command):
    task, = tasks_of(space_of(job, command))
    return task["cpu_seconds"]


def commands(*lines):
    settings = ["set width 0", "set debuginfod enabled off"]
    return ["-nx", "-batch", *[word for line in [*settings, *lines] for word in ("-ex", line)]]


def gdb(job, pid, *lines):
    return job.run(["gdb", "-p", pid, *commands(*lines)])


def attach_all(job, wanted, *lines, **options):
    return job.start([ONESPACE, "gdb", str(wanted), "--", *commands(*lines)], **options)


# ---- Stock gdb, attached to one member ----


@needs_gdb
def test_task_shows_its_source_lines_and_globals(job, started, debugged):
    run = started(debugged)
    result = gdb(job, pids(job, run)[0], "break work", "continue", "bt", "p debugged_value", "p &debugged_value")
    assert re.search(rf"#0 +work \(step=0\) at .*{line_of('work')}", result.out), str(result)
    assert re.search(r"#1 .* in main \(argc=1, argv=.*debugged.c:\d+", result.out), str(result)
    assert "= 4711" in result.out and "<debugged_value>" in result.out, str(result)
    assert "Corrupted" not in result.err, str(result)
    end(run)


@needs_gdb
@pytest.mark.parametrize("caller", [0, 1])
def test_backtrace_goes_from_a_called_function_to_its_caller(job, started, guests, caller):
    """Either task's stack may lie above the other's."""
    run = started("-n", "2", guests("callee"), "pair", caller, count=2)
    pid = pids(job, run)[caller]
    result = gdb(job, pid, "bt")
    assert re.search(r"(?s) in reads_to_the_end .* arch_remote_call_boundary .*<signal handler called>"
                     r".* in onespace_call\b.* in pair \(from=.* in main \(", result.out), str(result)
    end(run)


@needs_gdb
def test_root_shows_the_programs_of_all_tasks(job, started, debugged, guests):
    other = guests("observed")
    run = started("-n", "2", debugged, ":", other, count=3)
    result = gdb(job, run.pid, "info sharedlibrary")
    for program, count in ((debugged, 2), (other, 1)):
        assert len(re.findall(rf"Yes .*{program}\b", result.out)) == count, str(result)
    assert len(re.findall(r"Yes .*/libc\.so\.6", result.out)) == 4, str(result)
    end(run)


@needs_gdb
@pytest.mark.parametrize("kind", ["musl", "static"])
def test_other_libcs_programs_are_shown(job, started, guests, tool, kind):
    if kind == "musl":
        tool("musl-gcc", "musl-tools")
    program = guests(f"observed-{kind}")
    run = started(program)
    result = gdb(job, pids(job, run)[0], "info sharedlibrary", "info line main")
    assert len(re.findall(rf"Yes .*{program}\b", result.out)) == 1, str(result)
    assert '"tests' in result.out or "observed.c" in result.out, str(result)
    end(run)


@needs_gdb
def test_task_spawned_after_attach_is_shown(job, started, debugged, guests, tmp_path):
    other = guests("observed")
    flag, go = tmp_path / "ready", tmp_path / "go"
    space = f"later{os.getpid()}"
    first = started(debugged, command=[*RUN, "--space", space])
    second = job.start(["sh", "-c", f"until test -e {go}; do sleep 0.05; done; {ONESPACE} run --space {space} {other}"],
                       stdin=subprocess.PIPE)
    pid, = [task["pid"] for task in json.loads(job.run([*PS, "--json", space]).out)[0]["tasks"]
            if task["program"] == os.path.realpath(debugged)]
    wait = f"shell touch {go}; until test -e {flag}; do sleep 0.05; done"
    watcher = job.start(["gdb", "-p", pid, *commands("info sharedlibrary", "echo -- later --\\n", wait,
                                                     "sharedlibrary", "info sharedlibrary")])
    second.wait_for("ready")
    flag.touch()
    result = watcher.finish()
    before, after = result.out.split("-- later --")
    assert other not in before and re.search(rf"Yes .*{other}\b", after), str(result)
    end(second)
    end(first)


@needs_gdb
def test_library_opened_later_is_shown(job, started, debugged, library):
    run = started(debugged, library)
    tell(run)
    run.wait_for("42")
    result = gdb(job, pids(job, run)[0], "info sharedlibrary", "info line debugged_answer")
    assert re.search(rf"Yes .*{library}", result.out) and "debugged_library.c" in result.out, str(result)
    end(run)


# ---- onespace gdb ----


@needs_gdb
def test_breakpoint_in_all_tasks_stops_each_and_harms_none(job, started, debugged):
    run = started("-n", "3", debugged, count=3)
    result = attach_all(job, run.pid, "info inferiors", "break work", *["continue", "bt 1"] * 6,
                        "info breakpoints").finish()
    assert result.code == 0 and len(re.findall(r"^[* ] +\d+ +process \d+", result.out, re.M)) == 4, str(result)
    assert len(re.findall(rf"#0 +work \(step=0\) at .*{line_of('work')}", result.out)) == 6, str(result)
    assert len(set(re.findall(r"hit Breakpoint (1\.\d)", result.out))) == 3, str(result)
    assert end(run).out.count("done 4711") == 3


@needs_gdb
def test_breakpoint_in_shared_code_stops_each_and_harms_none(job, started, debugged):
    run = started("-n", "2", debugged, count=2)
    result = attach_all(job, run.pid, "break interpose_mmap", *["continue", "bt 1"] * 4, "delete", "tbreak work",
                        "continue").finish()
    assert len(re.findall(r"#0 +interpose_mmap \(", result.out)) == 4, str(result)
    assert "hit Temporary breakpoint" in result.out and "SIGTRAP" not in result.out, str(result)
    assert end(run).out.count("done 4711") == 2


@needs_gdb
def test_each_task_has_its_own_globals(job, started, debugged):
    run = started("-n", "2", debugged, count=2)
    first, second = pids(job, run)
    result = attach_all(job, second, "info inferiors", "set var debugged_value = 1", "inferior 2",
                        "p debugged_value").finish()
    assert re.search(rf"^\* 3 +process {second}", result.out, re.M) and "= 4711" in result.out, str(result)
    assert sorted(end(run).out.split("\n")) == ["", "done 1", "done 4711", "ready", "ready"]


@needs_gdb
def test_library_that_the_root_opens_harms_nobody(job, started, debugged, library, guests):
    root = guests("debugged_root")
    run = started(command=[root, library, debugged])
    debugger = attach_all(job, run.pid, "set breakpoint pending on", "break debugged_answer", "break work if 0",
                          "echo -- waits --\\n", "continue", "bt 2", "info inferiors")
    debugger.wait_for("-- waits --")
    tell(run)
    result = debugger.finish()
    assert re.search(rf"#0 +debugged_answer \(\) at .*{line_of('answer')}", result.out), str(result)
    assert "Thread 1.1" in result.out and "SIGTRAP" not in result.out, str(result)
    run.wait_for("42")
    end(run)


@needs_gdb
def test_library_that_a_task_opens_harms_nobody(job, started, debugged, library):
    run = started(debugged, library)
    debugger = attach_all(job, run.pid, "set breakpoint pending on", "break debugged_answer", "echo -- waits --\\n",
                          "continue", "bt 2")
    debugger.wait_for("-- waits --")
    tell(run)
    result = debugger.finish()
    assert re.search(rf"#0 +debugged_answer \(\) at .*{line_of('answer')}", result.out), str(result)
    run.wait_for("42")
    end(run)


@needs_gdb
def test_task_that_runs_the_roots_program_differs_from_it(job, started, debugged):
    run = started(ONESPACE, "run", "--space", "inner", debugged)
    asked = ["info line command_run", "p command_run"]
    result = attach_all(job, run.pid, *asked, "inferior 2", *asked, "info sharedlibrary").finish()
    in_root, in_task = result.out.split("[Switching to inferior 2 [process")
    lines, values = (re.compile(r"run/run.c\" +starts at address (0x[0-9a-f]+)"),
                     re.compile(r"= .* (0x[0-9a-f]+) <command_run>"))
    place, = lines.findall(in_root)
    assert values.findall(in_root) == [place] and not place.startswith("0x18"), str(result)
    # A name means the task's own. The code of the space, here of the same file, is known in the task too, and gdb
    # lists a file's places in the order in which it happened to allocate their symbols.
    own, = values.findall(in_task)
    assert own.startswith("0x18") and sorted(lines.findall(in_task)) == sorted([own, place]), str(result)
    end(run)


@needs_gdb
def test_attach_adds_tasks_spawned_later(job, started, debugged, tmp_path):
    flag = tmp_path / "ready"
    space = f"more{os.getpid()}"
    first = started(debugged, str(flag), command=[*RUN, "--space", space])
    debugger = attach_all(job, space, "break found", "echo -- waits --\\n", "continue", "onespace-attach",
                          "info inferiors", "bt", "p debugged_value")
    debugger.wait_for("-- waits --")
    second = started(debugged, command=[*RUN, "--space", space])
    flag.touch()
    result = debugger.finish()
    assert re.search(r"^\* 3 +process \d+", result.out, re.M), str(result)
    assert "in main (argc=1" in result.out and "= 4711" in result.out, str(result)
    end(second)
    end(first)


@needs_gdb
def test_debugger_killed_leaves_the_tasks_running(job, started, debugged):
    run = started("-n", "2", debugged, count=2)
    debugger = attach_all(job, run.pid, "echo -- waits --\\n", "continue")
    debugger.wait_for("-- waits --")
    gdb_pid, = [process.pid for process in job.processes() if process.argv[:2] == ["gdb", "-quiet"]]
    os.kill(gdb_pid, 9)
    debugger.finish().expect(137)
    assert not [name for name in os.listdir("/tmp") if name.startswith("onespace-gdb.") and is_of(name, run.pid)]
    shown = gdb(job, run.pid, "info sharedlibrary")
    assert len(re.findall(rf"Yes .*{debugged}\b", shown.out)) == 2, f"the chain is whole again\n{shown}"
    assert end(run).out.count("done 4711") == 2


def is_of(name, root):
    """Whether that directory is of a debugger of this root."""
    try:
        return any(f"attach {root}\n".encode() in path.read_bytes() for path in pathlib.Path("/tmp", name).iterdir())
    except OSError:
        return False


# ---- Programs and users that mean harm ----


def inferiors(result):
    return len(re.findall(r"^[* ] +\d+ +process \d+", result.out, re.M))


@needs_gdb
@pytest.mark.parametrize("characters", ["\n", "\r", "\x1b"])
def test_path_with_control_characters_gives_gdb_no_commands(job, started, debugged, tmp_path, characters):
    """Beside the directory lies a file whose name is the beginning of the directory's."""
    evil = tmp_path / f"a{characters}shell touch pwned{characters}#b"
    evil.mkdir()
    shutil.copy(debugged, tmp_path / "a")
    program = shutil.copy(debugged, evil)
    run = started(str(program))
    result = attach_all(job, run.pid, "info inferiors", cwd=tmp_path).finish()
    assert not (tmp_path / "pwned").exists() and inferiors(result) == 2, str(result)
    assert "is shown without its program: the path" in result.err and "control characters" in result.err, str(result)
    assert characters not in result.err.replace("\n", "") + " ".join(result.err.split("\n")), str(result)
    end(run)


@needs_gdb
def test_root_debugs_the_space_of_a_user_as_that_user(job, started, somebody, tmp_path):
    run = started("sh", "-c", "echo ready; read x", preexec_fn=somebody)
    result = attach_all(job, run.pid, "info inferiors", "shell id -u; id -G; cat /proc/self/status", cwd="/").finish()
    assert inferiors(result) == 2, str(result)
    assert "65534\n65534\n" in result.out and re.search(r"NoNewPrivs:\s1\nSeccomp:\s2", result.out), str(result)
    run.process.stdin.close()
    run.finish()


# ---- Core files ----


@needs_gdb
def test_core_file_shows_the_crashed_task_and_the_others(job, debugged, guests, tmp_path):
    need_core_files()

    def allow():
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    # The other one must be past its start, too: gdb finds its program in what its dynamic linker has listed.
    run = job.start([*RUN, guests("dumped"), "0", "stay", ":", debugged, "crash"], stdin=subprocess.PIPE, cwd=tmp_path,
                    preexec_fn=allow)
    run.wait_for("ready", 2)
    other, _ = pids(job, run)
    tell(run)
    # All must be there until the file is written, and the first end that `onespace run` finds must be the crash.
    assert eventually(lambda: "was ended by signal 11" in run.so_far().err), str(run.so_far())
    os.kill(other, 15)
    result = run.finish()
    cores = list(tmp_path.glob("core*"))
    assert result.code == 128 + 11 and cores, str(result)
    shown = job.run(["gdb", ONESPACE, str(cores[0]), *commands("bt", "frame function act", "p debugged_value",
                                                               "info sharedlibrary")])
    assert re.search(rf"#0 .*act \(\) at .*{line_of('crash')}", shown.out) and "= 4711" in shown.out, str(shown)
    assert re.search(r"Yes.*/dumped\n", shown.out), str(shown)


# ---- Tracing ----


def test_strace_shows_the_calls_of_each_task(job, tool, tmp_path):
    trace = tmp_path / "trace"
    job.run([tool("strace", "strace"), "-f", "-e", "trace=write", "-o", trace, *RUN, "-n", "2",
             "echo", "traced"]).expect(out="traced\n" * 2)
    writers = re.findall(r'^(\d+) +write\(1, "traced', trace.read_text(), re.M)
    assert len(set(writers)) == 2, trace.read_text()


@pytest.mark.parametrize("attached", [pytest.param(False, id="whole run", marks=pytest.mark.long),
                                      pytest.param(True, id="one task")])
def test_perf_names_the_functions_of_tasks(job, started, guests, tool, tmp_path, attached):
    perf, data = tool("perf", "linux-perf"), tmp_path / "perf.data"
    record = [perf, "record", "-F", "997", "-e", "cpu-clock:u", "-N", "-o", data]
    if job.run([*record, "true"]).code != 0:
        pytest.skip("perf may not measure here: see kernel.perf_event_paranoid")
    burning = guests("burning")
    if attached:
        run = started(burning, "1000")
        pid, = pids(job, run)
        # perf starts the command when it measures.
        recording = job.start([*record, "-p", pid, "sh", "-c", "echo measures; read x; :"], stdin=subprocess.PIPE)
        recording.wait_for("measures")
        before = cpu_seconds(job, run)
        assert eventually(lambda: cpu_seconds(job, run) > before + 0.5)
        recording.process.stdin.close()
        result = recording.finish()
        os.kill(pid, 15)
        run.finish()
    else:
        result = job.run([*record, *RUN, "-n", "2", burning, "1"])
    assert result.code == 0, str(result)
    report = job.run([perf, "report", "-i", data, "--stdio", "--sort", "comm,dso,symbol"])
    assert re.search(r"burning +burning +\[\.\] burn_in_program", report.out), str(report)
    assert re.search(r"burning +libc\.so\.6 +\[\.\] \w*memchr\w*", report.out), str(report)


@pytest.mark.parametrize("method", ["fp", pytest.param("dwarf", marks=pytest.mark.long)])
def test_perf_follows_calls_through_a_trampoline(job, guests, tool, tmp_path, method):
    perf, data = tool("perf", "linux-perf"), tmp_path / "perf.data"
    record = [perf, "record", "-F", "199", "-e", "cpu-clock", "--call-graph", method, "-N", "-o", data]
    if job.run([*record, "true"]).code != 0:
        pytest.skip("perf may not measure the kernel here: see kernel.perf_event_paranoid")
    job.run([*record, *RUN, guests("mapping"), "1"]).expect()
    script = job.run([perf, "script", "-i", data, "-F", "ip,sym"])
    # From the handler, which made the call, through the trampoline to the program.
    through = r"interpose_m(un)?map\n(.*\n){0,3}?\s+\w+ arch_syscall_entry\n(\s+\w+ .*\n)*?\s+\w+ main\n"
    assert re.search(through, script.out), str(script)


# ---- What cannot be ----


def test_gdb_that_is_missing_is_reported(job, started, debugged):
    run = started(debugged)
    result = job.run([ONESPACE, "gdb", str(run.pid)], env={"PATH": "/nonexistent"})
    assert result.code == 127 and "no gdb on your PATH: install" in result.err, str(result)
    end(run)


def test_gdb_that_is_too_old_is_reported(job, started, debugged, tmp_path):
    old = tmp_path / "gdb"
    old.write_text("#!/bin/sh\necho 'GNU gdb (GDB) 12.1'\n")
    old.chmod(0o755)
    run = started(debugged)
    result = job.run([ONESPACE, "gdb", str(run.pid)], env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert result.code == 1 and "12.1" in result.err and "13 or later" in result.err, str(result)
    end(run)


@needs_gdb
def test_task_that_is_traced_already_is_reported(job, started, debugged):
    run = started(debugged)
    task = pids(job, run)[0]
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    assert ptrace(PTRACE_SEIZE, task, 0, 0) == 0, ctypes.get_errno()
    result = job.run([ONESPACE, "gdb", str(run.pid)]).expect(1)
    assert f"process {task} is traced by process {os.getpid()} already" in result.err, str(result)
    os.kill(task, 19)
    os.waitpid(task, 0x40000000)  # __WALL
    assert ptrace(PTRACE_DETACH, task, 0, 18) == 0, ctypes.get_errno()  # 18: SIGCONT
    end(run)


@needs_gdb
def test_space_that_is_not_there_is_reported(job):
    job.run([ONESPACE, "gdb", "no-such-space"]).expect(1, says="no-such-space")


@needs_gdb
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv(1)")
def test_space_of_another_user_is_reported(job, started, debugged):
    run = started(debugged)
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    result = job.run([*nobody, ONESPACE, "gdb", str(run.pid)], cwd="/")
    if "ermission denied" in result.err and "onespace gdb" not in result.err:
        pytest.skip("the build directory is not open to other users")
    assert result.code == 1 and "of user root, cannot be read: run this as that user" in result.err, str(result)
    end(run)
