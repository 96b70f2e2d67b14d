"""onespace map: whose memory lies where and what for, seen from outside. Other spaces may be on the
machine: each test looks for its own."""
import os
import pathlib
import re
import xml.etree.ElementTree

import pytest

from jobs import ONESPACE, ROOT
from observe import as_json, interposed

MAP = [ONESPACE, "map"]
MIB = 1 << 20
SVG = "{http://www.w3.org/2000/svg}"


def look(job, pid, *options, **more):
    """The space that the process belongs to."""
    result = job.run([*MAP, "--json", *options, str(pid)], **more).expect()
    space, = as_json(result)
    return space


def mapping_at(space, address):
    mapping, = [m for m in space["mappings"] if m["start"] <= address < m["end"]]
    return mapping


def resident(space, kind):
    """Of each task, in the order of their ids."""
    return [sum(row["resident"] for row in space["summary"] if row["task"] == task["id"] and row["kind"] == kind)
            for task in space["tasks"]]


def printed(command):
    """The (kind, address) pairs that the guest regions.c printed."""
    return [(kind, int(address, 16))
            for kind, address in re.findall(r"(?m)^([a-z ]+) (0x[0-9a-f]+)$", command.so_far().out)]


def test_every_kind_is_reported(job, started, guests, tmp_path):
    (tmp_path / "data").write_bytes(bytes(8192))
    run = started(guests("regions"), str(tmp_path / "data"))
    space = look(job, run.pid, "--all")
    pairs = printed(run)
    assert len(pairs) == 15, pairs
    found = [(mapping_at(space, address)["kind"], address) for _, address in pairs]
    assert found == pairs
    task = space["tasks"][0]["id"]
    assert {(m["owner"], m["task"]) for m in (mapping_at(space, a) for _, a in pairs)} == {("task", task)}


def beside_maps(pid, do):
    """What `do` gives, and the lines of /proc/PID/maps when it did: the root may still start threads."""
    while True:
        before = pathlib.Path(f"/proc/{pid}/maps").read_text()
        result = do()
        if pathlib.Path(f"/proc/{pid}/maps").read_text() == before:
            # The last line is not memory of the space: the kernel's half of the addresses.
            return result, [line for line in before.splitlines() if not line.endswith("[vsyscall]")]


def test_every_mapping_is_listed_once(job, started, observed):
    run = started("-n", "2", observed, count=2)
    space, lines = beside_maps(run.pid, lambda: look(job, run.pid, "--all"))
    assert [f"{m['start']:x}-{m['end']:x} {m['permissions']}" for m in space["mappings"]] == [
        " ".join(line.split()[:2]) for line in lines]


def test_summary_is_the_sum_of_the_mappings(job, started, observed):
    run = started("-n", "2", observed, count=2)
    space = look(job, run.pid, "--all")
    for row in space["summary"]:
        those = [m for m in space["mappings"] if (m["owner"], m["task"], m["kind"]) == (
            row["owner"], row["task"], row["kind"])]
        assert row["mappings"] == len(those) > 0
        assert row["size"] == sum(m["end"] - m["start"] for m in those)
        assert row["resident"] == sum(m["resident"] for m in those)
    assert sum(row["mappings"] for row in space["summary"]) == len(space["mappings"])


def test_owners_are_root_registry_reaper_and_tasks(job, started, observed):
    run = started("-n", "2", observed, count=2)
    space = look(job, run.pid)
    assert {row["owner"] for row in space["summary"]} == {"root", "registry", "reaper", "task"}
    assert {row["task"] for row in space["summary"]} == {None, *(task["id"] for task in space["tasks"])}
    assert [task["program"] for task in space["tasks"]] == [os.path.realpath(observed)] * 2
    assert space["root_pid"] == run.pid


@pytest.mark.parametrize("how,kind", [("heap", "heap"), ("map", "anonymous")])
def test_resident_memory_is_the_owners(job, started, observed, how, kind):
    run = started(observed, how, "48", ":", observed, count=2)
    first, second = resident(look(job, run.pid), kind)
    assert 48 * MIB <= first < 50 * MIB and second < 2 * MIB


def test_huge_pages_are_counted(job, started, guests):
    run = started(guests("regions"), "huge")
    (_, address), = [pair for pair in printed(run) if pair[0] == "huge"]

    def huge():
        text = pathlib.Path(f"/proc/{run.pid}/smaps").read_text()
        return 1024 * int(re.search(rf"(?ms)^{address:x}-.*?^AnonHugePages:\s+(\d+) kB", text)[1])
    before, found = None, 0
    while before != huge():  # khugepaged may make more of them meanwhile
        before = huge()
        if before == 0:
            pytest.skip("this system gives no transparent huge pages")
        found = mapping_at(look(job, run.pid, "--all"), address)["huge"]
    assert found == before


def test_space_is_found_by_the_pid_of_a_task(job, started, observed):
    run = started(observed)
    task, = look(job, run.pid)["tasks"]
    assert look(job, task["pid"])["root_pid"] == run.pid


def test_memory_outside_the_ranges_is_nobodys_beside_tasks_without_interposition(job, started, observed):
    run = started("--no-interpose", observed)
    space = look(job, run.pid, "--all")
    libc = {m["owner"] for m in space["mappings"] if m["name"] and "/libc.so" in m["name"]}
    assert libc == {"unknown"}
    assert {m["owner"] for m in space["mappings"] if m["name"] == "[heap]"} == {"root"}
    assert {m["owner"] for m in space["mappings"] if m["name"] == os.path.realpath(ONESPACE)} == {"root"}


def test_table_has_a_row_for_each_owner_and_kind(job, started, observed):
    run = started(observed)
    result = job.run([*MAP, str(run.pid)])
    title, header, *lines = result.out.splitlines()
    assert result.code == 0 and f"pid {run.pid}" in title, str(result)
    assert header.split() == ["OWNER", "KIND", "MAPPINGS", "SIZE", "RESIDENT", "HUGE", "PROGRAM"]
    assert sum(line.startswith("task ") for line in lines) == 1
    task = next(line for line in lines if line.startswith("task "))
    assert task.endswith(os.path.realpath(observed)), str(result)
    kinds = [line.split()[0] for line in lines[lines.index(task) + 1:-1]]
    assert kinds == ["program", "library", "heap", "anonymous", "stack", "onespace"], str(result)
    assert lines[-1].startswith("space")


def test_table_of_all_has_a_line_for_each_mapping(job, started, observed):
    run = started(observed)
    result, lines = beside_maps(run.pid, lambda: job.run([*MAP, "--all", str(run.pid)]))
    assert len(result.out.splitlines()) == len(lines) + 2
    assert re.search(r"(?m)^180000000000 .* registry +onespace +/memfd:onespace-space", result.out), str(result)


def test_many_tasks_are_summed_up_by_program(job, started, observed):
    run = started("-n", "12", observed, ":", "-n", "2", "sh", "-c", "echo ready; read x; :", count=14)
    lines = job.run([*MAP, str(run.pid)]).out.splitlines()
    sums = {line.split()[-1]: line for line in lines if re.match(r"\d+ tasks ", line)}
    assert sums[os.path.realpath(observed)].startswith("12 tasks ") and len(sums) == 2, lines
    assert not any(line.startswith("task ") for line in lines) and len(lines) < 50, lines
    space = look(job, run.pid)
    of_tasks = {task["id"] for task in space["tasks"] if task["program"] == os.path.realpath(observed)}
    mappings = sum(row["mappings"] for row in space["summary"] if row["task"] in of_tasks)
    assert sums[os.path.realpath(observed)].split()[3] == str(mappings), lines
    lines = job.run([*MAP, "--tasks", str(run.pid)]).out.splitlines()
    assert sum(line.startswith("task ") for line in lines) == 14, lines


def picture(job, pid, path):
    result = job.run([*MAP, "--svg", str(path), str(pid)])
    assert (result.code, result.out, result.err) == (0, "", ""), str(result)
    return xml.etree.ElementTree.parse(path).getroot()


def bars(root):
    """(y, x, width) of the pieces of the bars; the legend's have no title of their own."""
    return [(float(r.get("y")), float(r.get("x")), float(r.get("width")))
            for r in root.iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None]


@pytest.mark.parametrize("count", [2, 64])
def test_picture_has_a_bar_for_each_owner(job, started, observed, tmp_path, count):
    run = started("-n", str(count), observed, count=count)
    root = picture(job, run.pid, tmp_path / "map.svg")
    names = [text.text for text in root.iter(f"{SVG}text") if text.get("class") == "name"]
    assert names == ["root", "registry", "reaper", *(f"task {i + 1}" for i in range(count))]
    assert len({y for y, _, _ in bars(root)}) == count + 3
    width = float(root.get("viewBox").split()[2])
    assert all(0 <= x and x + long <= width for _, x, long in bars(root))
    assert f"{count} tasks" in "".join(root.itertext())


def test_picture_is_to_scale(job, started, observed, tmp_path):
    run = started(observed, "map", "64", ":", observed, "map", "32", count=2)
    lengths = {}
    for y, _, long in bars(picture(job, run.pid, tmp_path / "map.svg")):
        lengths[y] = lengths.get(y, 0) + long
    first, second = [lengths[y] for y in sorted(lengths)][-2:]
    assert 0.5 < second / first < 0.6


def test_picture_names_no_directory(job, started, observed, tmp_path):
    run = started(observed)
    text = "".join(picture(job, run.pid, tmp_path / "map.svg").itertext())
    assert "observed" in text and "/" not in text


def test_picture_of_a_hostile_name_is_well_formed(job, started, observed, tmp_path):
    program = os.fsencode(tmp_path) + b"/a<&\"\xff\x1b>"
    pathlib.Path(os.fsdecode(program)).write_bytes(pathlib.Path(observed).read_bytes())
    os.chmod(program, 0o755)
    run = started(os.fsdecode(program))
    assert 'a<&"��>' in "".join(picture(job, run.pid, tmp_path / "map.svg").itertext())


def test_picture_that_cannot_be_written_is_an_error(job, started, observed):
    run = started(observed)
    result = job.run([*MAP, "--svg", "/no/such/directory/map.svg", str(run.pid)])
    assert result.code == 1 and "/no/such/directory/map.svg: No such file" in result.err, str(result)
    job.run([*MAP, "--svg", "/dev/full", str(run.pid)]).expect(1, says="No space left")


def test_picture_of_several_spaces_asks_which(job, started, observed, tmp_path):
    started(observed), started(observed)
    job.run([*MAP, "--svg", str(tmp_path / "map.svg")]).expect(1, says="give its name or a pid")


def test_users_see_their_own_space(job, started, somebody):
    run = started("sh", "-c", "echo ready; read x", preexec_fn=somebody)
    space = look(job, run.pid, preexec_fn=somebody)
    assert resident(space, "library")[0] > 0


def test_others_space_is_refused_and_the_fix_reported(job, started, observed, somebody):
    run = started(observed)
    result = job.run([*MAP, str(run.pid)], preexec_fn=somebody).expect(1, out="")
    assert f"process {run.pid}, of user root, cannot be read: run this as that user" in result.err, str(result)


def test_forbidden_registry_leaves_slots(job, started, guests, observed):
    """Under Yama the mappings can be read, but not whose task a slot is."""
    run = started("-n", "2", observed, count=2)
    space = look(job, run.pid, "--all", env=interposed(guests, FAKE_NO_PTRACE=1))
    assert "ptrace_scope" in space["problem"]
    rows = {row["slot"] for row in space["summary"] if row["owner"] == "task"}
    assert len(rows) == 2 and None not in rows
    assert {row["task"] for row in space["summary"]} == {None}


def test_forbidden_to_root_too_offers_no_setting(job, started, guests, observed, tmp_path):
    """kernel.yama.ptrace_scope 3 cannot be left."""
    scope = tmp_path / "proc/sys/kernel/yama/ptrace_scope"
    scope.parent.mkdir(parents=True)
    scope.write_text("3\n")
    run = started(observed)
    space = look(job, run.pid, env=interposed(guests, FAKE_NO_PTRACE=1, FAKE_ROOT=str(tmp_path)))
    assert "ptrace_scope is 3, which forbids it even to root" in space["problem"] and "run this" not in space["problem"]


def test_kernel_without_smaps_leaves_sizes(job, started, tool, observed, tmp_path):
    run = started(observed)
    script = (f"cp /proc/{run.pid}/maps /proc/{run.pid}/status /proc/{run.pid}/stat {tmp_path} && "
              f"mount -t tmpfs none /proc/{run.pid} && cp {tmp_path}/* /proc/{run.pid} && exec \"$@\"")
    command = [tool("unshare"), "--mount", "sh", "-c", script, "sh", *MAP]
    if job.run([tool("unshare"), "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]).code != 0:
        pytest.skip("file systems cannot be mounted here")
    result = job.run([*command, "--json", str(run.pid)]).expect()
    rows = as_json(result)[0]["summary"]
    assert {row["resident"] for row in rows} == {None} and all(row["size"] > 0 for row in rows)
    result = job.run([*command, "--svg", str(tmp_path / "map.svg"), str(run.pid)])
    assert result.code == 0 and "mapped bytes" in (tmp_path / "map.svg").read_text(), str(result)


def keys(value):
    if isinstance(value, list):
        return set().union(*map(keys, value)) if value else set()
    if isinstance(value, dict):
        return set(value) | set().union(*map(keys, value.values()))
    return set()


def test_json_is_described_in_the_man_page(job, started, observed):
    run = started(observed)
    page = (ROOT / "man" / "onespace-map.1").read_text()
    described = set(re.findall(r"(?m)^\.It (?:Va|Li) (\w+)", page))
    assert keys(look(job, run.pid, "--all")) == described


def test_spaces_that_end_meanwhile_are_left_out(job, started):
    loop = started("-c", 'echo ready; for i in $(seq 60); do "$0" run true; done', ONESPACE, command=["sh"])
    while loop.process.poll() is None:
        result = job.run(MAP)
        assert (result.code, result.err) == (0, ""), str(result)
