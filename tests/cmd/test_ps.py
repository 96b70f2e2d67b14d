"""onespace ps: spaces and their tasks, seen from outside. Other spaces may be on the machine: each test
looks for its own."""
import errno
import json
import os
import pathlib
import re
import time

import pytest

from jobs import ONESPACE, RUN
from observe import PROCESS_VM_READV, PS, as_json, forbid, in_terminal, interposed, tasks_of

MIB = 1 << 20


def look(job, pid, **options):
    """The space that the process belongs to."""
    result = job.run([*PS, "--json", str(pid)], **options).expect()
    spaces = as_json(result)
    assert len(spaces) == 1, str(result)
    return spaces[0]


def test_space_has_a_root_and_its_tasks(job, started, observed):
    begin = time.time()
    run = started("-n", "3", observed, count=3)
    space = look(job, run.pid)
    root = space["tasks"][0]
    assert space["root_pid"] == run.pid and space["problem"] is None
    assert begin - 2 < space["created"] < time.time() + 2  # the kernel counts in ticks
    assert (root["id"], root["pid"], root["number"], root["state"]) == (0, run.pid, None, "running")
    assert root["program"] == str(pathlib.Path(ONESPACE).resolve())
    tasks = tasks_of(space)
    assert sorted(task["number"] for task in tasks) == [0, 1, 2]
    assert len({task["id"] for task in tasks}) == 3 and all(task["id"] > 0 for task in tasks)
    assert {task["program"] for task in tasks} == {os.path.realpath(observed)}
    assert {task["state"] for task in tasks} == {"running"}


def test_pid_is_the_tasks_own(job, started):
    run = started("sh", "-c", "echo $$ ready; read x")
    task, = tasks_of(look(job, run.pid))
    assert task["pid"] == int(run.so_far().out.split()[0])


def test_task_whose_main_thread_has_ended_is_shown(job, started, guests):
    """The kernel shows no memory of such a process."""
    run = started(guests("main_thread_ends"))
    task, = tasks_of(look(job, run.pid))
    assert task["pid"] == int(run.so_far().out.split()[0]) and task["state"] == "running"


def test_task_is_found_by_its_pid(job, started, observed):
    run = started(observed)
    task, = tasks_of(look(job, run.pid))
    assert look(job, task["pid"])["root_pid"] == run.pid


def test_time_goes_on(job, started, observed):
    run = started(observed)
    begin = time.monotonic()
    before = look(job, run.pid)
    time.sleep(0.3)
    after = look(job, run.pid)
    most = time.monotonic() - begin + 0.1  # the kernel counts in ticks
    for old, new in zip(before["tasks"], after["tasks"]):
        assert 0.2 < new["time"] - old["time"] < most


def test_cpu_seconds_are_the_tasks(job, started):
    run = started("sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo ready; read x",
                  ":", "sh", "-c", "echo ready; read x", count=2)
    times = {task["number"]: task["cpu_seconds"] for task in tasks_of(look(job, run.pid))}
    assert times[0] >= 0.05 and times[1] < times[0] / 2, times


@pytest.mark.parametrize("kind,field", [("heap", "heap"), ("map", "mappings")])
def test_memory_is_distinguished(job, started, observed, kind, field):
    run = started(observed, kind, "48", ":", observed, count=2)
    space = look(job, run.pid)
    memory = {task["number"]: task["memory"] for task in space["tasks"]}
    for of in memory.values():
        assert of["resident"] == sum(of[part] for part in ("files", "mappings", "heap", "stack"))
    assert 48 * MIB <= memory[0][field] < 52 * MIB and memory[0]["resident"] < 64 * MIB
    assert memory[1]["resident"] < 16 * MIB and memory[None]["resident"] < 16 * MIB


def test_copies_are_counted(job, started, observed, tmp_path):
    run = started("-n", "2", observed, "copy", str(tmp_path / "place"), count=2)
    tasks = {task["number"]: task for task in tasks_of(look(job, run.pid))}
    assert (tasks[1]["copies"], tasks[1]["copied_bytes"]) == (4, MIB)
    assert (tasks[0]["copies"], tasks[0]["copied_bytes"]) == (0, 0)


def test_executed_task_shows_what_it_runs_now(job, started, tool):
    cat = tool("cat")
    run = started("sh", "-c", "echo ready; exec cat")
    until = time.monotonic() + 180
    while True:
        task, = tasks_of(look(job, run.pid))
        if task["state"] == "executed" or time.monotonic() > until:
            break
        time.sleep(0.05)
    assert task["state"] == "executed" and task["program"] == os.path.realpath(cat), task


def test_ended_tasks_show_how(job, started, guests):
    root = started(command=[guests("observed_root")])
    ended = [(task["state"], task["exit_status"], task["signal"])
             for task in tasks_of(look(job, root.pid))]
    assert ended == [("ended", 7, None), ("ended", None, 15)]
    table = job.run([*PS, str(root.pid)]).out
    assert "ended: 7" in table and "ended: SIGTERM" in table, table


def test_forked_child_is_no_member(job, started, guests):
    root = started(command=[guests("observed_root")])
    child = int(root.so_far().out.split()[1])
    spaces = as_json(job.run([*PS, "--json"]))
    assert [space["root_pid"] for space in spaces if space["root_pid"] in (root.pid, child)] == [root.pid]
    assert job.run([*PS, str(child)]).code == 1


def test_table_has_a_line_for_each(job, started, observed):
    run = started("-n", "2", observed, count=2)
    result = job.run([*PS, str(run.pid)])
    title, header, *lines = result.out.splitlines()
    assert result.code == 0 and f"pid {run.pid}" in title and "2 tasks" in title, str(result)
    assert header.split()[:4] == ["ID", "PID", "NUM", "STATE"], str(result)
    assert len(lines) == 3 and lines[1].endswith(os.path.realpath(observed)), str(result)


def test_table_fits_the_terminal(job, started, guests, tmp_path, observed):
    directory = tmp_path / ("a-directory-with-a-long-name-" * 4)
    directory.mkdir()
    program = directory / "program-at-the-end"
    program.write_bytes(pathlib.Path(observed).read_bytes())
    program.chmod(0o755)
    run = started(str(program))
    lines = in_terminal([*PS, str(run.pid)], 80, job.env)
    assert max(map(len, lines[1:])) <= 80, lines
    assert any("..." in line and line.endswith("program-at-the-end") for line in lines), lines


def test_no_spaces_is_reported(job, tool):
    unshare = [tool("unshare"), "--map-root-user", "--pid", "--fork", "--mount-proc"]
    if job.run([*unshare, "true"]).code != 0:
        pytest.skip("no process namespace can be made here")
    result = job.run([*unshare, *PS])
    assert (result.code, result.out, result.err) == (0, "no spaces\n", ""), str(result)
    result = job.run([*unshare, *PS, "--json"])
    assert result.code == 0 and as_json(result) == []


def test_pids_are_those_of_the_caller_in_a_container(job, started, tool, observed):
    unshare = [tool("unshare"), "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if job.run([*unshare, "true"]).code != 0:
        pytest.skip("no process namespace can be made here")
    started(observed, command=[*unshare, *RUN])
    mine = {process.pid for process in job.processes()}
    spaces = [space for space in as_json(job.run([*PS, "--json"])) if space["root_pid"] in mine]
    assert len(spaces) == 1 and tasks_of(spaces[0])[0]["pid"] in mine, spaces


def test_registry_of_another_version_is_named(job, started, guests):
    false = started("version", command=[guests("false_registry")])
    space = look(job, false.pid)
    assert re.search(r"registry is of ABI tag 0x63; this command knows ABI tag 0x[0-9a-f]+\)", space["problem"]), space
    assert "another version" in job.run([*PS, str(false.pid)]).out


def test_full_tables_are_reported(job, started, guests):
    run = started(guests("patch_sites"), "many", ":", "sh", "-c", "echo ready; read x")
    run.wait_for("close")
    overflows = look(job, run.pid)["overflows"]
    assert overflows["patch_sites"] > 0 and overflows["mappings"] == 0, overflows
    assert f"{overflows['patch_sites']} patch sites are not interposed" in job.run([*PS, str(run.pid)]).out


def test_task_with_forgotten_mappings_is_named(job, started, guests):
    run = started(guests("patch_sites"), "fixed", str(256 + 16384 + 44), "stay", ":", "sh", "-c", "echo ready; read x")
    run.wait_for("mapped 16684")
    space = look(job, run.pid)
    task, other = sorted(tasks_of(space), key=lambda task: task["number"])
    assert space["overflows"]["mappings"] == task["forgotten_mappings"] == 44, space
    assert other["forgotten_mappings"] == 0, space
    shown = job.run([*PS, str(run.pid)]).out
    assert f"of these, 44 mappings were made by id {task['id']} (pid {task['pid']})\n" in shown, shown
    assert shown.count("of these") == 1, shown


def test_watcher_that_an_unmapping_waits_for_is_named(job, started, guests):
    run = started("-n", "2", guests("watch-unmapping"))
    if "watching" not in run.so_far().out:
        pytest.skip("needs userfaultfd")
    until = time.monotonic() + 180
    while not (space := look(job, run.pid))["unmapping"] and time.monotonic() < until:
        time.sleep(0.1)
    watcher, = [task for task in tasks_of(space) if task["state"] == "running"]
    assert space["unmapping"]["watchers"] == [watcher["id"]] and space["unmapping"]["time"] >= 1, space
    shown = " ".join(job.run([*PS, str(run.pid)]).out.split())
    assert re.search(f"memory of id {space['unmapping']['task']} has been unmapped for .*; id {watcher['id']} "
                     rf"\(pid {watcher['pid']}\) has a userfaultfd: it must read from it, or end", shown), shown


def test_space_is_found_by_its_name(job, started, guests):
    false = started("named", command=[guests("false_registry")])
    space, = [space for space in as_json(job.run([*PS, "--json", "job-7"])) if space["root_pid"] == false.pid]
    assert space["name"] == "job-7"
    assert f"space job-7 of pid {false.pid}," in job.run([*PS, str(false.pid)]).out


def test_process_that_does_not_map_the_registry_is_no_task_of_it(job, started, guests):
    """Else a user could have root's commands act on the processes of others."""
    other = started("sh", "-c", "echo ready; read x")
    other_task, = tasks_of(look(job, other.pid))
    false = started("names", other_task["pid"], command=[guests("false_registry")])
    task, = tasks_of(look(job, false.pid))
    assert task["pid"] is None and task["state"] == "running", task
    assert look(job, other_task["pid"])["root_pid"] == other.pid


def test_problem_reaches_no_terminal_with_control_characters(job, started, guests):
    false = started("escapes", command=[guests("false_registry")])
    shown = job.run([*PS, str(false.pid)])
    assert "a?]0;title???1mb?c" in shown.out, str(shown)
    assert "a?]0;title???1mb?c" in look(job, false.pid)["problem"]


def test_json_escapes_what_controls_a_terminal(job, started, observed, tmp_path):
    program = tmp_path / "a\u009b1m\x7f"
    program.write_bytes(pathlib.Path(observed).read_bytes())
    program.chmod(0o755)
    run = started(str(program))
    result = job.run([*PS, "--json", str(run.pid)])
    assert "\\u009b1m\\u007f" in result.out and "\u009b" not in result.out, str(result)
    assert tasks_of(look(job, run.pid))[0]["program"] == str(program)


def test_registry_not_yet_filled_is_no_space(job, started, guests):
    false = started("empty", command=[guests("false_registry")])
    assert job.run([*PS, str(false.pid)]).code == 1


def test_name_that_is_no_text_is_valid_json(job, started, observed, tmp_path):
    program = os.fsencode(tmp_path) + b'/a"\\\xff\x1b'
    pathlib.Path(os.fsdecode(program)).write_bytes(pathlib.Path(observed).read_bytes())
    os.chmod(program, 0o755)
    run = started(os.fsdecode(program))
    task, = tasks_of(look(job, run.pid))
    assert task["program"].endswith('/a"\\�\x1b'), task
    assert "\x1b" not in job.run([*PS, str(run.pid)]).out


def test_works_where_process_vm_readv_is_forbidden(job, started, observed):
    run = started(observed)
    space = look(job, run.pid, preexec_fn=forbid(PROCESS_VM_READV, error=errno.EPERM))
    assert space["problem"] is None and len(tasks_of(space)) == 1


def test_forbidden_memory_leaves_what_proc_tells(job, started, guests, observed):
    run = started("-n", "2", observed, count=2)
    space = look(job, run.pid, env=interposed(guests, FAKE_NO_PTRACE=1))
    assert "ptrace_scope" in space["problem"] and space["root_pid"] == run.pid
    tasks = [task for task in space["tasks"] if task["id"] is None]
    assert sorted(task["pid"] for task in tasks) == sorted(
        task["pid"] for task in tasks_of(look(job, run.pid)))
    assert {task["program"] for task in tasks} == {"observed"} and all(t["time"] >= 0 for t in tasks)


def test_users_see_their_own_spaces(job, started, somebody):
    wait = ["sh", "-c", "echo ready; read x"]
    mine, theirs = started(*wait), started(*wait, preexec_fn=somebody)
    roots = [space["root_pid"] for space in as_json(job.run([*PS, "--json"], preexec_fn=somebody))]
    assert theirs.pid in roots and mine.pid not in roots
    space = look(job, theirs.pid)
    assert space["uid"] == 65534


def test_root_reads_the_space_of_a_user_as_that_user(job, started, somebody, tool, tmp_path):
    run = started("sh", "-c", "echo ready; read x", preexec_fn=somebody)
    trace = tmp_path / "trace"
    calls = "trace=setgroups,setresgid,setresuid,process_vm_readv,pread64"
    result = job.run([tool("strace", "strace"), "-f", "-e", calls, "-o", trace, *PS, "--json", str(run.pid)])
    assert as_json(result)[0]["uid"] == 65534, str(result)
    lines = [" ".join(line.split()) for line in trace.read_text().splitlines()]
    reader, = [line.split()[0] for line in lines if "setresuid(65534, 65534, 65534) = 0" in line]
    dropped = lines.index(f"{reader} setresuid(65534, 65534, 65534) = 0")
    assert f"{reader} setgroups(0, NULL) = 0" in lines[:dropped], lines
    assert f"{reader} setresgid(65534, 65534, 65534) = 0" in lines[:dropped], lines
    readers = {(line.split()[0], at > dropped) for at, line in enumerate(lines)
               if re.search(r" process_vm_readv\(| pread64\([^\"]*\"1onspace", line)}
    assert readers == {(reader, True)}, lines


def test_user_that_stops_the_reading_process_stops_nothing_else(job, started, somebody, guests):
    theirs = started("sh", "-c", "echo ready; read x", preexec_fn=somebody)
    result = job.run([*PS, "--json", str(theirs.pid)], env=interposed(guests, FAKE_STOP=1))
    assert "was ended by signal 9" in result.err and json.loads(result.out) == [], str(result)
    result = job.run([*PS, "--json"], env=interposed(guests, FAKE_STOP=1))
    assert theirs.pid not in [space["root_pid"] for space in json.loads(result.out)], str(result)


# ---- Many tasks ----


def test_many_tasks_are_summed_up_by_program_and_state(job, started, observed):
    run = started("-n", "40", observed, ":", "-n", "4", "sh", "-c", "echo ready; read x; :", count=44)
    lines = job.run([*PS, str(run.pid)]).out.splitlines()
    assert "44 tasks" in lines[0] and lines[1].split()[:3] == ["TASKS", "STATE", "TIME"], lines
    rows = [(line.split()[0], line.split()[1], line.split()[-1]) for line in lines[2:]]
    assert rows[0][0] == "root" and ("40", "running", os.path.realpath(observed)) == rows[1], lines
    assert rows[2][:2] == ("4", "running") and len(rows) == 3, lines


def test_summary_counts_how_tasks_ended_apart(job, started, guests):
    root = started(command=[guests("observed_root"), "24"])
    lines = job.run([*PS, str(root.pid)]).out.splitlines()
    counts = {" ".join(line.split()[1:3]): line.split()[0] for line in lines[2:]}
    assert counts["ended: 7"] == "12" and counts["ended: SIGTERM"] == "12", lines


def test_all_lists_each_of_many(job, started, observed):
    run = started("-n", "40", observed, count=40)
    lines = job.run([*PS, "--all", str(run.pid)]).out.splitlines()
    assert len(lines) == 2 + 41 and lines[1].split()[0] == "ID", lines
    assert len(tasks_of(look(job, run.pid))) == 40


def test_sort_by_memory_shows_the_largest(job, started, observed):
    run = started("-n", "30", observed, ":", observed, "map", "40", count=31)
    largest = max(tasks_of(look(job, run.pid)), key=lambda task: task["memory"]["private"])
    summary = job.run([*PS, "--sort", "memory", str(run.pid)]).out.splitlines()
    at = summary.index("the 8 with the most memory:")
    group, = [line for line in summary[2:at] if line.split()[0] == "31"]
    assert f"(id {largest['id']})" in group, summary
    assert len(summary) == at + 2 + 8 and summary[at + 2].split()[0] == str(largest["id"]), summary
    lines = job.run([*PS, "--all", "--sort", "memory", str(run.pid)]).out.splitlines()
    assert [line.split()[0] for line in lines[2:4]] == ["0", str(largest["id"])], lines


def test_sort_by_time_puts_the_busiest_first(job, started, observed):
    busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo ready; read x"
    run = started("-n", "2", observed, ":", "sh", "-c", busy, ":", observed, count=4)
    result = job.run([*PS, "--json", "--sort", "time", str(run.pid)])
    tasks = as_json(result)[0]["tasks"]
    assert tasks[0]["id"] == 0 and tasks[1]["number"] == 2, str(result)


def test_private_memory_leaves_out_what_others_map(job, started, observed, tool):
    """Each task's read-only pages of the libc are shared with the others, its own mapping is not."""
    run = started("-n", "2", observed, "map", "24", count=2)
    for task in tasks_of(look(job, run.pid)):
        memory = task["memory"]
        assert 24 * MIB <= memory["private"] < memory["resident"] - MIB // 2, memory
        assert memory["private"] <= memory["proportional"] < memory["resident"], memory
    header = job.run([*PS, str(run.pid)]).out.splitlines()[1]
    assert "MEMORY PRIVATE" in header, header


# ---- Memory that is short ----


PLENTY = "MemTotal: 1048576000 kB\nMemAvailable: 1048575000 kB\n"
V2 = ("0::/job/step\n", "/sys/fs/cgroup/job", "memory.max", "memory.current", "inactive_file")
V1 = ("4:memory:/job\n", "/sys/fs/cgroup/memory/job", "memory.limit_in_bytes", "memory.usage_in_bytes",
      "total_inactive_file")


@pytest.mark.parametrize("group,directory,limit,usage,cached", [V2, V1], ids=["v2", "v1"])
@pytest.mark.parametrize("used,of_files,is_short", [(950, 0, True), (950, 100, False), (500, 0, False)])
def test_task_that_uses_most_of_a_full_group_is_named(job, started, observed, machine, group, directory, limit,
                                                      usage, cached, used, of_files, is_short):
    run = started(observed, ":", observed, "map", "40", count=2)
    env = machine({f"/proc/{run.pid}/cgroup": group, "/proc/meminfo": PLENTY,
                   f"{directory}/{limit}": f"{1000 << 20}\n", f"{directory}/{usage}": f"{used << 20}\n",
                   f"{directory}/memory.stat": f"anon 5\n{cached} {of_files << 20}\n"})
    space = look(job, run.pid, env=env)
    text = job.run([*PS, str(run.pid)], env=env).out
    task, = [task for task in tasks_of(space) if task["number"] == 1]
    if not is_short:
        assert space["shortage"] is None and "memory is short" not in text, text
        return
    assert space["shortage"] == {"place": directory, "used": used << 20, "limit": 1000 << 20, "task": task["id"]}
    assert (f"memory is short: {directory} has 950M of 1.0G in use; of this space id {task['id']} (pid {task['pid']}) "
            "uses most") in text.replace("1000M", "1.0G"), text


def test_full_machine_is_reported(job, started, observed, machine):
    run = started(observed)
    env = machine({f"/proc/{run.pid}/cgroup": "0::/\n",
                   "/proc/meminfo": "MemTotal: 1000000 kB\nMemAvailable: 50000 kB\n"})
    assert "memory is short: this machine has 928M of 977M in use" in job.run([*PS, str(run.pid)], env=env).out


