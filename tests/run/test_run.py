"""onespace run by hand, and joined to a space: counts, programs, options, exit status, messages."""
import os
import re
import signal
import subprocess
import sys

import pytest

from jobs import RUN


def sh(script):
    return ["/bin/sh", "-c", script]


def test_count_runs_that_many_tasks(job):
    result = job.run([*RUN, "-n", "4", *sh('echo "$ONESPACE_TASK_ID of $ONESPACE_NTASKS"')]).expect()
    assert result.lines == [f"{i} of 4" for i in range(4)]


def test_tasks_have_process_ids_of_their_own(job):
    result = job.run([*RUN, "-n", "4", *sh("echo $$; ls -A / | wc -l")]).expect()
    entries = str(len(os.listdir("/")))
    pids = [line for line in result.lines if line != entries]
    assert len(set(pids)) == 4 and result.lines.count(entries) == 4, str(result)


def test_colon_separates_programs(job):
    job.run([*RUN, "-n", "2", *sh("echo a$ONESPACE_TASK_ID/$ONESPACE_NTASKS"),
             ":", *sh("echo b$ONESPACE_TASK_ID/$ONESPACE_NTASKS"),
             ":", "-n", "2", "printenv", "ONESPACE_TASK_ID"]).expect(lines=["3", "4", "a0/5", "a1/5", "b2/5"])


def test_tasks_share_an_address_space(job, guests):
    """What one task keeps in a static array, another reads at the address that it was told."""
    neighbour = guests("neighbour")
    job.run([*RUN, "-n", "2", neighbour], stdin=None).expect(lines=["0 read 1001", "1 read 1000"])


def test_many_tasks_at_once(job):
    job.run([*RUN, "-n", "200", *sh("read x; exit $((ONESPACE_TASK_ID % 2 * 0))")]).expect()


# At the end of a process, as tools for MPI programs do in one that has not used MPI; not in tasks, which are `sh`.
TOOL = """
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
__attribute__((destructor)) static void end(void)
{
    if (getenv("TOOL_ABORTS") && strncmp(program_invocation_short_name, "onespace", 8) == 0)
        abort();
}
"""


@pytest.fixture(scope="module", params=["nothing", "harmless", "aborts"])
def preloaded(request, tmp_path_factory):
    """The environment that preloads a library, if any, into `onespace run`, its host and its task."""
    if request.param == "nothing":
        return {}
    directory = tmp_path_factory.mktemp("tool")
    (directory / "tool.c").write_text(TOOL)
    words = ["cc", "-shared", "-fPIC", "-o", directory / "tool.so", directory / "tool.c"]
    subprocess.run(words, check=True, timeout=180)
    return {"LD_PRELOAD": str(directory / "tool.so"), **({"TOOL_ABORTS": "1"} if request.param == "aborts" else {})}


@pytest.mark.parametrize("script,code", [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -TERM $$", 143),
                                         ("kill -KILL $$", 137), ("kill -SEGV $$", 139), ("kill -USR1 $$", 138)])
def test_exit_status_is_the_tasks(job, run, preloaded, script, code):
    job.run([*run, *sh(f"echo written; {script}")], env=preloaded).expect(code, out="written\n")


@pytest.mark.parametrize("argv,code", [(["no-such-program-anywhere"], 127), (["/etc/passwd"], 126), (["/etc"], 126),
                                       (["/etc/passwd/x"], 127), (["--no-such"], 2)])
def test_exit_status_of_a_program_that_cannot_run(job, run, preloaded, argv, code):
    job.run([*run, *argv], env=preloaded).expect(code, says=argv[0])


def test_exit_status_is_of_the_first_that_failed(job, tmp_path):
    """The first one on the command line fails when the second is gone."""
    pid = tmp_path / "pid"
    later = f"until test -s {pid}; do sleep 0.1; done; while kill -0 $(cat {pid}); do sleep 0.1; done; exit 3"
    job.run([*RUN, *sh(later), ":", *sh(f"echo $$ > {pid}; exit 4"), ":", *sh("exit 0")]).expect(4)


def test_program_that_leaves_the_space_is_named(job, run):
    result = job.run([*run, "env", "/bin/echo", "ran"]).expect(out="ran\n")
    assert "onespace run: env left the space: it executed /bin/echo, " in result.err, str(result)


def test_programs_that_leave_the_space_are_named_once(job):
    result = job.run([*RUN, "-n", "3", "env", "/bin/true"])
    assert result.code == 0 and result.err.count("left the space") == 1, str(result)


def test_program_that_cannot_execute_another_has_not_left(job, run):
    result = job.run([*run, "env", "/nonexistent"])
    assert result.code == 127 and "left the space" not in result.err, str(result)


def test_signal_that_ended_a_task_is_named(job):
    job.run([*RUN, *sh("kill -USR1 $$")]).expect(128 + signal.SIGUSR1, says="signal 10")


def test_on_failure_keep_lets_the_others_end(job):
    job.run([*RUN, *sh("exit 5"), ":", *sh("sleep 0.5; echo lived")]).expect(5, out="lived\n")


@pytest.mark.parametrize("other", ["exec sleep 600", "trap '' TERM; while :; do sleep 1; done"])
def test_on_failure_kill_ends_the_others(job, other):
    job.run([*RUN, "--on-failure", "kill", *sh("sleep 0.3; exit 5"), ":", *sh(other)]).expect(5)


@pytest.mark.parametrize("argv,word", [
    ([], "no program"), (["-n", "0", "true"], "-n 0"), (["-n", "x", "true"], "-n x"),
    (["-n", "99999", "true"], "-n 99999"), (["--on-failure", "perhaps", "true"], "perhaps"),
    (["--collectives", "some", "true"], "some"),
    (["--collectives", "off=scan,scam", "true"], "scam is not the name of a collective"),
    (["--collectives", "off=", "true"], "is not the name"),
    (["--stack", "1K", "true"], "--stack 1K"), (["--space", "a/b", "true"], "a/b"),
    (["--space", 51 * "n", "true"], "at most 50 letters"),
    (["--cpu-bind", "everywhere", "true"], "everywhere"), (["--no-such", "true"], "no-such"),
    (["true", ":"], "no program"), (["--space", "x", "-n", "2", "true"], "one task")])
def test_wrong_usage_is_reported(job, argv, word):
    job.run([*RUN, *argv]).expect(2, out="", says=word)


def test_help_goes_to_standard_output(job):
    result = job.run([*RUN, "--help"])
    assert result.code == 0 and result.out.startswith("usage: onespace run") and not result.err


def test_script_runs_by_its_first_line(job, run, tmp_path):
    script = tmp_path / "a script"
    script.write_text("#!/bin/sh -e\necho \"$0|$1\"\n")
    script.chmod(0o755)
    job.run([*run, script, "word"]).expect(out=f"{script}|word\n")


def test_relative_program_is_found_in_the_working_directory(job, run, tmp_path):
    (tmp_path / "here").write_text("#!/bin/sh\necho here\n")
    (tmp_path / "here").chmod(0o755)
    job.run([*run, "./here"], cwd=tmp_path).expect(out="here\n")


def test_path_with_a_blank_and_a_colon(job, run, guests, tmp_path):
    directory = tmp_path / "a b:c"
    directory.mkdir()
    os.symlink(guests("arguments"), directory / "arguments")
    job.run([*run, directory / "arguments", "x"]).expect(shows="x")


def test_argument_zero_is_as_typed(job, run, guests):
    program = guests("arguments")
    result = job.run([*run, os.path.basename(program)], env={"PATH": os.path.dirname(program)})
    assert result.code == 0 and result.out.startswith("argv[0]=arguments\n"), str(result)


def test_standard_input_is_the_tasks(job, run):
    job.run([*run, "cat"], stdin="from outside\n" * 100000).expect(out="from outside\n" * 100000)


def test_pipeline_ends_when_its_reader_does(job, run):
    """head closes the pipe; the writing task gets SIGPIPE or EPIPE and ends."""
    words = " ".join(run)
    job.run(["/bin/sh", "-c", f"{words} yes | head -n 1"]).expect(out="y\n")


def test_output_end_is_seen_while_the_task_lives(job):
    """A program that closes its output and goes on: launchers must see the end at once, as without shim."""
    command = job.start([*RUN, "--space", "out", *sh("echo done; exec >&- 2>&-; read x; exit 3")],
                        stdin=subprocess.PIPE)
    command.wait_for("done")
    command.threads[0].join(180)
    assert not command.threads[0].is_alive(), "standard output was held open"
    command.process.stdin.close()
    assert command.finish().code == 3


def test_verbose_names_the_space(job):
    result = job.run([*RUN, "--verbose", "--space", "named", "true"]).expect(says=["named", "PMIX_MCA_gds"])
    assert "copies between tasks in user space" in result.err, str(result)


def test_ranks_load_no_plugins_that_find_nothing(job):
    shown = "set HWLOC_PLUGINS_BLACKLIST=hwloc_xml_libxml.so"
    result = job.run([*RUN, "--verbose", "sh", "-c", "echo $HWLOC_PLUGINS_BLACKLIST"])
    has_cards = any(os.path.exists(name) for name in
                    ("/dev/dri/renderD128", "/dev/nvidiactl", "/dev/kfd", "/dev/dxg"))
    assert result.code == 0 and shown in result.err, str(result)
    assert result.out.startswith("hwloc_xml_libxml.so") and ("hwloc_gl.so" in result.out) != has_cards, str(result)
    job.run([*RUN, "--verbose", "sh", "-c", "echo \"[$HWLOC_PLUGINS_BLACKLIST]\""],
            env={"HWLOC_PLUGINS_BLACKLIST": ""}).expect(out="[]\n", says="left alone: HWLOC_PLUGINS_BLACKLIST")


def test_ranks_load_less_where_mappings_are_short(job):
    with open("/proc/sys/vm/max_map_count", encoding="ascii") as file:
        many = int(file.read()) // 170 + 1
    if many > 1000:
        pytest.skip("vm.max_map_count is too large")
    shown = [*RUN, "--verbose", "-n"]
    few, short = (job.run([*shown, str(count), "true"]) for count in (2, many))
    assert few.code == 0 and "HWLOC_PLUGINS_PATH" not in few.err, str(few)
    assert short.code == 0 and "set HWLOC_PLUGINS_PATH=/nonexistent" in short.err, str(short)
    assert "set OMPI_MCA_coll=^adapt,sync" in short.err and "set MALLOC_ARENA_MAX=1" in short.err, str(short)


def test_verbose_tells_of_full_tables(job, guests):
    patch_sites = guests("patch_sites")
    result = job.run([*RUN, "--verbose", patch_sites, "many"])
    assert result.code == 0 and re.search(r"\d+ patch sites are not interposed", result.err), str(result)
    assert "not interposed" not in job.run([*RUN, "--verbose", "true"]).err


def test_stats_are_one_summary(job):
    result = job.run([*RUN, "--stats", "-n", "2", "true"]).expect()
    assert re.fullmatch(r"onespace: all 2 tasks together: copies in user space: 0, .*\n", result.err), str(result)


def test_stats_of_ranks_are_a_line_for_each(job):
    result = job.run([*RUN, "--stats=ranks", "-n", "2", "true"]).expect()
    assert len(re.findall(r"onespace: task \d+ \(true, pid \d+\)", result.err)) == 2, str(result)
    assert result.err.count("onespace: all 2 tasks together: copies in user space: 0,") == 1, str(result)


def test_stats_of_a_single_task(job, run):
    result = job.run([*run, "--stats", "true"])
    assert result.code == 0 and re.fullmatch(r"onespace: task \d+ \(true, pid \d+\): .*\n", result.err), str(result)


@pytest.mark.parametrize("option,meant", [("--mpi", "--mpi-layer"), ("--stat", "--stats"), ("--cpu=core", "--cpu-bind"),
                                          ("--he", "--heap")])
def test_abbreviated_options_are_refused(job, option, meant):
    result = job.run([*RUN, option, "true"])
    if "ambiguous" not in result.err:
        assert f"no option is called {option.split('=')[0]}; there is {meant}" in result.err, str(result)
    assert result.code == 2, str(result)


def test_cpu_time_of_tasks_is_that_of_children(job):
    """As with processes: time(1) and batch systems ask for it."""
    script = ("import os, subprocess, sys; subprocess.run(sys.argv[1:], check=True)\n"
              "times = os.times(); print(times.children_user + times.children_system)")
    burn = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; grep -v ^x /proc/self/stat >/dev/null; times"
    result = job.run([sys.executable, "-c", script, *RUN, "-n", "2", "/bin/sh", "-c", burn]).expect()
    counted = float(result.out.splitlines()[-1])
    reported = sum(60 * int(minutes) + float(seconds)
               for minutes, seconds in re.findall(r"(\d+)m([\d.]+)s", result.out))
    assert 0 < reported <= counted + 0.1, str(result) # times(1) counts in hundredths


@pytest.mark.parametrize("option", ["core", "list"])
def test_cpu_bind_gives_each_task_its_cpu(job, option):
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        pytest.skip("needs two CPUs")
    policy = "core" if option == "core" else f"{allowed[1]},{allowed[0]}"
    result = job.run([*RUN, "-n", "2", "--cpu-bind", policy,
                      *sh("echo $ONESPACE_TASK_ID $(taskset -pc $$ | sed 's/.*: //')")]).expect()
    given = dict(line.split() for line in result.lines)
    assert set(given) == {"0", "1"} and all(cpu.isdigit() for cpu in given.values()), str(result)
    if option == "list":
        assert given == {"0": str(allowed[1]), "1": str(allowed[0])}
    else:
        assert given["0"] != given["1"]


def test_cpu_bind_to_cores_alone_needs_hwloc(job, tmp_path):
    (tmp_path / "libhwloc.so.15").touch()
    env = {"LD_LIBRARY_PATH": str(tmp_path)}
    result = job.run([*RUN, "-n", "1", "--cpu-bind", "core", "true"], env=env).expect(2)
    assert "--cpu-bind core needs hwloc: " in result.err and str(tmp_path) in result.err, str(result)
    cpu = max(os.sched_getaffinity(0))
    assert job.run([*RUN, "-n", "1", "--cpu-bind", str(cpu), "true"], env=env).code == 0


def test_cpu_bind_holds_for_a_task_that_joins(job):
    cpu = max(os.sched_getaffinity(0))
    result = job.run([*RUN, "--space", "bound", "--cpu-bind", str(cpu), *sh("taskset -pc $$")])
    assert result.code == 0 and result.out.split()[-1] == str(cpu), str(result)


@pytest.mark.parametrize("policy", ["core", "0,1"])
def test_cpu_bind_of_a_rank_without_a_number_is_refused(job, policy):
    """All of them would be bound to one CPU."""
    says = f"--cpu-bind {policy}: nothing says which of the node's ranks this is"
    job.run([*RUN, "--space", "bound", "--cpu-bind", policy, "true"]).expect(2, says=says)


def test_stack_gives_that_much(job, run, guests):
    recursion = guests("recursion")
    assert job.run([*run, "--stack", "64M", recursion, "48"]).code == 0
    assert job.run([*run, "--stack", "1M", recursion, "48"]).code == 139


def test_stack_follows_the_limit(job, run, guests):
    recursion = guests("recursion")
    job.run(["/bin/sh", "-c", f"ulimit -s 65536; exec {' '.join(run)} {recursion} 48"]).expect()


@pytest.mark.parametrize("option", ["--heap=libc", "--heap=tuned", "--no-interpose"])
def test_heap_options_run_programs(job, run, option, guests):
    job.run([*run, option, guests("patterns"), "1"]).expect()


def test_options_before_and_behind_the_colon(job):
    """What is given for the first program holds for the next too."""
    job.run([*RUN, "--stack", "16M", "-n", "1", *sh("exit 0"), ":", *sh("echo $ONESPACE_NTASKS")]).expect(out="2\n")


def test_run_inside_a_task_makes_a_space_of_its_own(job):
    job.run([*RUN, "-n", "2", *RUN, "-n", "2", *sh("echo inner")]).expect(lines=["inner"] * 4)
