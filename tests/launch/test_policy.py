"""The administrator's policy holds for each way to make a space. Each test has a mount namespace whose /etc has one."""
import hashlib
import os
import pathlib
import re
import resource
import shutil
import signal
import socket

import pytest

from jobs import ONESPACE, RUN, eventually, with_entry

FILE = "/etc/onespace/policy.toml"


class Machine:
    """Runs commands as on a machine with that policy."""

    def __init__(self, job, directory):
        self.job, self.file = job, directory / "new/onespace/policy.toml"
        self.run_directory = directory / "run"
        self.run_directory.mkdir()
        self.prefix = with_entry("/etc", "onespace", directory, ' && mount --bind "$0/run" /run')
        self.file.parent.mkdir()
        self.file.parent.chmod(0o755)

    def write(self, policy):
        self.file.write_text(policy)
        self.file.chmod(0o644)

    def run(self, argv, policy=None, **options):
        if policy is not None:
            self.write(policy)
        return self.job.run([*self.prefix, *argv], **options)


@pytest.fixture
def machine(job, tmp_path):
    tmp_path.chmod(0o755)
    return Machine(job, tmp_path)


WAYS = {"by hand": RUN, "named": [*RUN, "--space", "mine"]}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("policy, words", [
    ("enabled = false", "the administrator has turned onespace off on this machine"),
    ("allow_groups = []", "lets only members of certain groups run tasks"),
    ("enabled = true\nlimit = 3", "policy.toml, line 2: limit is not a rule"),
    ("# \nallow_root\0 = true\nenabled = false", "policy.toml, line 2: no = after allow_root"),
], ids=["off", "groups", "rule", "zero"])
def test_forbidden(machine, way, policy, words):
    machine.run([*WAYS[way], "echo", "ran"], policy).expect(1, out="", says=["onespace run: ", words, FILE])


@pytest.mark.parametrize("way", WAYS)
def test_root_is_forbidden(machine, way):
    """Not an ordinary user who is root in a user namespace, as in a container without root."""
    result = machine.run([*WAYS[way], "echo", "ran"], "allow_root = false")
    if os.geteuid() == 0:
        result.expect(1, out="", says=["onespace run: ", "does not let root run tasks", FILE])
    else:
        result.expect(0, out="ran\n", err="")


@pytest.mark.parametrize("way", WAYS)
def test_allowed(machine, way):
    """The group is 0 in the namespace of an ordinary user, too."""
    policy = "enabled = true\nallow_root = true\nmax_tasks = 3\nallow_groups = ['no-such-group', '0']\n"
    machine.run([*WAYS[way], "echo", "ran"], policy).expect(0, out="ran\n", err="")


def test_without_a_file_all_is_allowed(machine):
    machine.run([*RUN, "echo", "ran"]).expect(0, out="ran\n", err="")


def test_no_variable_changes_it(machine):
    """Not the ones that name other files of onespace, either."""
    environment = {name: "/tmp" for name in ("ONESPACE_POLICY", "ONESPACE_CONFIG", "XDG_CONFIG_HOME", "HOME")}
    result = machine.run([*RUN, "echo", "ran"], "enabled = false", env=environment)
    result.expect(1, out="", says="turned onespace off")


def test_library_says_so_too(machine, guests):
    """A root of its own: the function returns -EACCES after a message."""
    result = machine.run([guests("init_prints_result")], "enabled = false")
    result.expect(0, out="-13\n", says="onespace: the administrator has turned onespace off")


def test_ranks_of_a_launcher_are_refused(machine, distributions_mpi, guests):
    ranks = distributions_mpi.command(2, [*RUN, guests.mpi(distributions_mpi, "mpi_pointer")])
    # An ordinary user is root in the namespace.
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    result = machine.run(ranks, "enabled = false", env=as_root)
    assert result.code != 0 and "rank" not in result.out and "turned onespace off" in result.err, str(result)


def test_number_of_tasks(machine):
    policy = "max_tasks = 2\n"
    machine.run([*RUN, "-n", "2", "echo", "ran"], policy).expect(0, out="ran\n" * 2)
    result = machine.run([*RUN, "-n", "3", "echo", "ran"], policy)
    result.expect(1, out="", says=f"3 ranks are more than the 2 tasks of one space that max_tasks in {FILE} allows")


def test_number_of_tasks_at_once(machine, guests):
    """A task that spawns finds the space full; when others have ended, it is not."""
    result = machine.run([*RUN, guests("spawns_until_full")], "max_tasks = 3\n")
    result.expect(0, out="2 at once, then -11\n" * 2,
                  says=f"the space is full: wait for tasks to end; max_tasks in {FILE} allows no more")


@pytest.mark.parametrize("policy, code, words", [
    ("allow_differences = ['uts']", 1, f"and allow_differences in {FILE} does not permit namespaces"),
    ("allow_differences = ['namespaces']", 0, ""),
    ("", 0, ""),
], ids=["others", "named", "not-given"])
def test_differences(machine, tool, tmp_path, policy, code, words):
    """A rank in another namespace joins a space that the variable opens, if the policy lets it."""
    script = """
        "$0" run --space given sh -c 'echo >"$0"; exec sleep 1000' "$1" & first=$!
        until [ -e "$1" ]; do sleep 0.05; done
        "$2" --uts "$0" run --space given echo joined
        code=$?
        kill $first
        wait
        exit $code"""
    result = machine.run(["sh", "-c", script, ONESPACE, str(tmp_path / "up"), tool("unshare")], policy,
                         env={"ONESPACE_MAY_DIFFER": "namespaces"})
    assert result.code == code and words in result.err and ("joined" in result.out) == (code == 0), str(result)


def test_guard_is_required(machine):
    """Where the CPU has no keys, nothing runs; where it has, each task is guarded, whatever option is given."""
    command = [*RUN, "sh", "-c", "echo guard=$ONESPACE_GUARD"]
    result = machine.run(command, "require_guard = true\n", env={"ONESPACE_GUARD": "0"})
    if result.code == 0:
        assert result.out == "guard=1\n", str(result)
    else:
        result.expect(126, out="", says=f"cannot be guarded, as require_guard in {FILE} demands")
    machine.run([*RUN, "--no-interpose", "true"]).expect(2, says=f"must be guarded: require_guard in {FILE}")


@pytest.mark.parametrize("mode, who", [(0o666, "file"), (0o777, "directory")])
def test_file_that_others_may_change_is_refused(machine, mode, who):
    (machine.file if who == "file" else machine.file.parent).touch()
    machine.file.write_text("enabled = true\n")
    (machine.file if who == "file" else machine.file.parent).chmod(mode)
    machine.run([*RUN, "true"]).expect(1, says=f"{FILE} (Permission denied): let the administrator make it")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_file_of_another_user_is_refused(machine):
    machine.file.write_text("enabled = true\n")
    os.chown(machine.file, 1234, 1234)
    machine.run([*RUN, "true"]).expect(1, says="a regular file of root's")


def test_directory_in_its_place_is_refused(machine):
    machine.file.mkdir()
    machine.run([*RUN, "true"]).expect(1, says="a regular file of root's")


@pytest.mark.parametrize("target", ["/nowhere", "../issue"])
def test_link_in_its_place_is_refused(machine, target):
    """One that leads nowhere, perhaps because a file system is not mounted, does not mean that all is allowed."""
    machine.file.symlink_to(target)
    machine.run([*RUN, "true"]).expect(1, says=f"{FILE} (Too many levels of symbolic links)")


@pytest.mark.parametrize("kind", ["link", "file"])
def test_directory_of_another_kind_is_refused(machine, kind):
    directory = machine.file.parent
    directory.rmdir()
    if kind == "link":
        directory.symlink_to("/nowhere")
    else:
        directory.touch()
    machine.run([*RUN, "true"]).expect(1, says=f"{FILE} (Not a directory)")


def test_without_the_directory_all_is_allowed(machine):
    machine.file.parent.rmdir()
    machine.run([*RUN, "echo", "ran"]).expect(0, out="ran\n", err="")


def test_fifo_in_its_place_does_not_stop_the_run(machine):
    os.mkfifo(machine.file, 0o644)
    machine.run([*RUN, "true"], timeout=20).expect(1, says="a regular file of root's")


# ---- Records ----

class Log:
    """Takes what is sent to the journal, or to /dev/log, of the machine."""

    def __init__(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        # A socket's name has at most 107 bytes.
        self.directory = os.open(path.parent, os.O_PATH)
        self.name = f"/proc/self/fd/{self.directory}/{path.name}"
        self.socket.bind(self.name)
        path.chmod(0o666)

    def close(self):
        self.socket.close()
        os.close(self.directory)

    def fill(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
            try:
                while True:
                    sender.sendto(b"filler", self.name)
            except BlockingIOError:
                pass

    def records(self):
        found = []
        while True:
            try:
                found.append(self.socket.recv(65536).decode())
            except BlockingIOError:
                return found

    def fields(self):
        """Of each record in the journal's form, a dictionary."""
        return [dict(line.split("=", 1) for line in record.splitlines()) for record in self.records()]


@pytest.fixture
def journal(machine):
    log = Log(machine.run_directory / "systemd/journal/socket")
    yield log
    log.close()


def events(records):
    return [record["ONESPACE_EVENT"] for record in records]


def test_starts_and_ends_are_recorded(machine, journal):
    machine.run([*RUN, "-n", "2", "sh", "-c", "exit 3"], "log = true").expect(3)
    records = journal.fields()
    assert sorted(events(records)) == ["space-end", "space-start", "task-end", "task-end", "task-start", "task-start"]
    assert events(records)[0] == "space-start" and events(records)[-1] == "space-end", records
    for record in records:
        assert record["SYSLOG_IDENTIFIER"] == "onespace" and record["SYSLOG_FACILITY"] == "10", record
        assert record["ONESPACE_ROOT_PID"] == records[0]["ONESPACE_ROOT_PID"] and record["ONESPACE_UID"] == "0", record
        assert record["MESSAGE"].startswith(record["ONESPACE_EVENT"] + " space="), record
    tasks = [record for record in records if record["ONESPACE_EVENT"].startswith("task")]
    shell = os.path.realpath(shutil.which("sh"))
    assert all(os.path.realpath(record["ONESPACE_PROGRAM"]) == shell for record in tasks), records
    assert [record["ONESPACE_EXIT"] for record in tasks if record["ONESPACE_EVENT"] == "task-end"] == ["3", "3"]
    started = {(record["ONESPACE_TASK"], record["ONESPACE_PID"]) for record in tasks}
    assert len(started) == 2 and "ONESPACE_SHA256" not in records[1], records


@pytest.mark.parametrize("limit", [256, 64])
def test_all_is_recorded_with_few_descriptors(machine, journal, limit):
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    machine.run([*RUN, "true"], "log = true", preexec_fn=few).expect(0)
    assert sorted(events(journal.fields())) == ["space-end", "space-start", "task-end", "task-start"]


def test_owner_is_the_login_and_the_batch_job(machine, journal):
    machine.run([*RUN, "true"], "log = true", env={"SLURM_JOB_ID": "4711"}).expect(0)
    login = pathlib.Path("/proc/self/loginuid")
    words = f"login {login.read_text().strip() if login.exists() else 'unknown'}, SLURM_JOB_ID 4711"
    assert journal.fields()[0]["ONESPACE_OWNER"] == words


def test_digest_is_that_of_the_program(machine, journal):
    program = shutil.which("true")
    machine.run([*RUN, program], "log = true\nlog_digest = true").expect(0)
    digest = hashlib.sha256(pathlib.Path(program).read_bytes()).hexdigest()
    assert [record.get("ONESPACE_SHA256") for record in journal.fields()].count(digest) == 1


def test_killed_task_and_execution_are_recorded(machine, journal):
    machine.run([*RUN, "sh", "-c", "kill -9 $$", ":", "sh", "-c", "exec sleep 1"], "log = true").expect(137)
    records = journal.fields()
    assert [record["ONESPACE_SIGNAL"] for record in records if "ONESPACE_SIGNAL" in record] == ["9"], records
    assert events(records).count("task-left") == 1 and events(records).count("task-end") == 1, records


def test_tasks_of_tasks_and_of_a_named_space_are_recorded(machine, journal, guests):
    machine.run([*RUN, "--space", "named", guests("spawns_until_full")], "log = true\nmax_tasks = 3").expect(0)
    records = journal.fields()
    assert events(records).count("task-start") == 5 and events(records).count("task-end") == 5, records
    assert {record["ONESPACE_SPACE"] for record in records[1:]} == {"named"}, records


def test_end_of_a_killed_root_is_recorded(machine, journal, tmp_path):
    """Without a terminal, whose hangup would end the task, too."""
    machine.write("log = true")
    os.mkfifo(tmp_path / "fifo")
    run = machine.job.start([*machine.prefix, *RUN, "sh", "-c", "echo up; read x <$0", tmp_path / "fifo"])
    run.wait_for("up")
    root = int(journal.fields()[0]["ONESPACE_ROOT_PID"])
    os.kill(root, signal.SIGKILL)
    assert run.finish().code == 137
    records = []
    assert eventually(lambda: records.extend(journal.fields()) or "space-end" in events(records)), records
    assert [record["ONESPACE_SIGNAL"] for record in records if record["ONESPACE_EVENT"] == "task-end"] == ["9"], records


def test_names_cannot_forge_a_record(machine, journal, tmp_path):
    name = tmp_path / "a\nMESSAGE=forged\nONESPACE_EVENT=task-end"
    shutil.copy(shutil.which("true"), name)
    machine.run([*RUN, str(name)], "log = true").expect(0)
    for record in journal.records():
        assert len(record.splitlines()) == len({line.split("=")[0] for line in record.splitlines()}), record


def test_without_a_journal_the_records_go_to_syslog(machine):
    place = machine.run_directory.parent / "devices"
    place.mkdir()
    machine.prefix = [*with_entry("/dev", "log", place), *machine.prefix]
    log = Log(place / "new/log")
    machine.run([*RUN, "true"], "log = true").expect(0)
    records = log.records()
    assert len(records) == 4 and all(re.match(r"<86>onespace\[\d+\]: (space|task)-(start|end) space=", record)
                                     for record in records), records
    log.close()


def test_full_log_does_not_stop_the_job_and_the_losses_are_counted(machine, journal):
    """While nobody reads, the first record is lost, and the second if it is written before the program writes; the next
    one that arrives says how many."""
    machine.write("log = true")
    journal.fill()
    run = machine.job.start([*machine.prefix, *RUN, "sh", "-c", "echo up; read x"], terminal=True)
    run.wait_for("up")
    journal.records()
    run.type(b"\n")
    assert run.finish().code == 0
    records = journal.fields()
    lost = 4 - len(records)
    assert lost in (1, 2) and events(records) == ["space-start", "task-start", "task-end", "space-end"][lost:], records
    assert records[0]["MESSAGE"].endswith(f" lost={lost}"), records
    assert not any(" lost=" in record["MESSAGE"] for record in records[1:]), records


def test_without_a_log_jobs_run(machine):
    machine.run([*RUN, "echo", "ran"], "log = true").expect(0, out="ran\n", err="")


def test_doctor_shows_it(machine):
    result = machine.run([ONESPACE, "doctor"], "max_tasks = 100\nallow_differences = ['cgroup', 'keyring']\n")
    rules = f"{FILE}: at most 100 tasks; ONESPACE_MAY_DIFFER may name cgroup, keyring"
    assert rules in " ".join(result.out.split()), str(result)
    result = machine.run([ONESPACE, "doctor"], "enabled = false\n")
    assert result.code == 1 and "turned onespace off" in result.out, str(result)
    machine.file.unlink()
    result = machine.run([ONESPACE, "doctor"])
    assert "no policy" in result.out, str(result)
