"""onespace ps: spaces and their tasks, seen from outside. Other spaces may be on the machine: each test
looks for its own."""
import errno
import os
import pathlib
import time

import pytest

from jobs import ONESPACE, RUN
from observe import PROCESS_VM_READV, PS, as_json, forbid, in_terminal, interposed

MIB = 1 << 20


def look(job, pid, **options):
    """The space that the process belongs to."""
    result = job.run([*PS, "--json", str(pid)], **options)
    assert result.code == 0, str(result)
    spaces = as_json(result)
    assert len(spaces) == 1, str(result)
    return spaces[0]


def tasks_of(space):
    return [task for task in space["tasks"] if task["id"] != 0]


def test_space_has_a_root_and_its_tasks(job, started, observed):
    run = started("-n", "3", observed, count=3)
    space = look(job, run.pid)
    root = space["tasks"][0]
    assert space["root_pid"] == run.pid and space["problem"] is None
    assert abs(space["created"] - time.time()) < 30
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


def test_task_is_found_by_its_pid(job, started, observed):
    run = started(observed)
    task, = tasks_of(look(job, run.pid))
    assert look(job, task["pid"])["root_pid"] == run.pid


def test_unknown_space_is_an_error(job):
    result = job.run([*PS, "no-such-space"])
    assert result.code == 1 and "no-such-space" in result.err and result.out == "", str(result)


def test_unknown_space_is_an_error_with_json(job):
    result = job.run([*PS, "--json", "no-such-space"])
    assert result.code == 1 and "no-such-space" in result.err and result.out.split() == ["[]"], str(result)


def test_time_goes_on(job, started, observed):
    run = started(observed)
    before = look(job, run.pid)
    time.sleep(0.3)
    after = look(job, run.pid)
    for old, new in zip(before["tasks"], after["tasks"]):
        assert 0.2 < new["time"] - old["time"] < 20


def test_cpu_seconds_are_the_tasks(job, started):
    run = started("sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo ready; read x",
                  ":", "sh", "-c", "read x")
    times = {task["number"]: task["cpu_seconds"] for task in tasks_of(look(job, run.pid))}
    assert times[0] >= 0.05 and times[1] < times[0] / 2, times


@pytest.mark.parametrize("kind,field", [("heap", "heap"), ("map", "mappings")])
def test_memory_is_told_apart(job, started, observed, kind, field):
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
    until = time.monotonic() + 10
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


def test_no_spaces_is_said(job, tool):
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
    assert "ABI 99" in space["problem"] and "ABI 1," in space["problem"], space
    assert "another version" in job.run([*PS, str(false.pid)]).out


def test_full_tables_are_told(job, started, guests):
    run = started(guests("patch_sites"), "many", ":", "sh", "-c", "echo ready; read x")
    run.wait_for("close")
    overflows = look(job, run.pid)["overflows"]
    assert overflows["patch_sites"] > 0 and overflows["mappings"] == 0, overflows
    assert f"{overflows['patch_sites']} patch sites are not interposed" in job.run([*PS, str(run.pid)]).out


def test_task_with_forgotten_mappings_is_named(job, started, guests):
    run = started(guests("patch_sites"), "fixed", "stay", ":", "sh", "-c", "echo ready; read x")
    run.wait_for("mapped 300")
    space = look(job, run.pid)
    task, other = sorted(tasks_of(space), key=lambda task: task["number"])
    assert space["overflows"]["mappings"] == task["forgotten_mappings"] == 300 - 256, space
    assert other["forgotten_mappings"] == 0, space
    shown = job.run([*PS, str(run.pid)]).out
    assert f"of these, 44 mappings were made by id {task['id']} (pid {task['pid']})\n" in shown, shown
    assert shown.count("of these") == 1, shown


def test_space_is_found_by_its_name(job, started, guests):
    false = started("named", command=[guests("false_registry")])
    space, = [space for space in as_json(job.run([*PS, "--json", "job-7"])) if space["root_pid"] == false.pid]
    assert space["name"] == "job-7"
    assert f"space job-7 of pid {false.pid}," in job.run([*PS, str(false.pid)]).out


def test_registry_of_garbage_does_no_harm(job, started, guests):
    false = started("garbage", command=[guests("false_registry")])
    for arguments in (["--json"], []):
        result = job.run([*PS, *arguments])
        assert result.code == 0 and result.err == "", str(result)
    assert false.process.poll() is None


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


def test_spaces_that_come_and_go_do_no_harm(job):
    script = f"for i in $(seq 60); do {ONESPACE} run -n 4 true; done"
    churn = job.start(["sh", "-c", script], timeout=60)
    looks = 0
    while churn.process.poll() is None:
        result = job.run([*PS, "--json"])
        assert result.code == 0, str(result)
        as_json(result)
        looks += 1
    assert churn.finish().code == 0 and looks > 3


@pytest.mark.parametrize("arguments", [["--no-such-option"], ["1", "2"]])
def test_wrong_usage_exits_with_2(job, arguments):
    result = job.run([*PS, *arguments])
    assert result.code == 2 and "--help" in result.err and result.out == "", str(result)
