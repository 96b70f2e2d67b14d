"""What a shim has given up stays given up in its task, when a shim that had more has started the host."""
import os
import pathlib
import shutil
import socket
import time
import uuid

import pytest

from jobs import RUN

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"),
                                reason="needs root and setpriv(1), to have something to give up")

SPACE = [*RUN, "--space", "given"]
SHOW = r"""grep -E '^(Groups|Cap...|NoNewPrivs|Speculation_Store_Bypass|SpeculationIndirectBranch):' /proc/self/status
chrt -p $$ | sed 's/pid [0-9]*//'; ionice; nice; cat /proc/self/timerslack_ns /proc/self/personality"""

FOLLOWS = {
    "no_new_privs": ["setpriv", "--no-new-privs"],
    "bounding set": ["setpriv", "--bounding-set=-sys_admin,-net_raw"],
    "all capabilities": ["setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"],
    "ambient set": ["setpriv", "--inh-caps=+net_raw", "--ambient-caps=+net_raw"],
    "groups": ["setpriv", "--groups", "5,7,1234"],
    "no groups": ["setpriv", "--clear-groups"],
    "batch": ["chrt", "-b", "0"],
    "idle": ["chrt", "-i", "0"],
    "real time": ["chrt", "-f", "5"],
    "I/O class": ["ionice", "-c3"],
    "I/O priority": ["ionice", "-c2", "-n7"],
    "nice value": ["nice", "-n", "5"],
    "personality": ["setarch", "-R"],
    "everything": ["setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--groups", "1234",
                   "ionice", "-c3", "chrt", "-b", "0"],
}

REFUSED = {
    "oom_score_adj": ["choom", "-n", "500", "--"],
    "securebits": ["setpriv", "--securebits=+noroot"],
    "group-ids": ["setpriv", "--regid=5", "--keep-groups"],
    "user-ids": ["setpriv", "--ruid=5"],
    "loginuid": ["sh", "-c", 'echo 54321 >/proc/self/loginuid && exec "$@"', "sh"],
    "namespaces": ["unshare", "-u"],
    "namespaces (mounts)": ["unshare", "-m"],
    "namespaces (of children)": ["unshare", "-p"],
    "namespaces (network)": ["unshare", "-n"],
    "namespaces (IPC)": ["unshare", "-i"],
    "namespaces (cgroups)": ["unshare", "-C"],
    "namespaces (time)": ["unshare", "-T"],
}


@pytest.fixture
def host(job):
    command = job.start([*SPACE, "/bin/sh", "-c", "echo up; read x"], terminal=True)
    command.wait_for("up")
    yield command
    command.type(b"\n")
    assert command.finish().code == 0


def needed(tool, prefix):
    for word in ("setpriv", "chrt", "ionice", "choom", "unshare", "setarch"):
        if word in prefix:
            tool(word)


@pytest.mark.parametrize("what", list(FOLLOWS))
def test_identity_follows_into_the_task(job, host, tool, what):
    needed(tool, FOLLOWS[what])
    plain = job.run([*FOLLOWS[what], "/bin/sh", "-c", SHOW])
    if plain.code != 0:
        pytest.skip(f"not possible here: {plain.err}")
    result = job.run([*FOLLOWS[what], *SPACE, "/bin/sh", "-c", SHOW])
    assert result.code == 0 and result.out == plain.out, f"{plain}\n{result}"


@pytest.mark.parametrize("what", list(REFUSED))
def test_identity_that_cannot_follow_refuses_the_shim(job, host, tool, what):
    needed(tool, REFUSED[what])
    key = what.split()[0]
    if job.run([*REFUSED[what], "true"]).code != 0:
        pytest.skip("not possible here")
    is_refused(job.run([*REFUSED[what], *SPACE, "echo", "ran"]), key)


def is_refused(result, key):
    assert result.code == 1 and not result.out, str(result)
    assert f"differs from this process in {key} (" in result.err and f"ONESPACE_MAY_DIFFER={key}" in result.err, \
        str(result)


@pytest.mark.parametrize("what", ["timer_slack", "store_bypass", "indirect_branch"])
def test_identity_that_prctl_sets_follows_into_the_task(job, host, guests, what):
    show = ["/bin/sh", "-c", SHOW]
    plain = job.run([guests("prctl_set"), what, *show])
    if plain.code == 77:
        pytest.skip("the kernel or the CPU does not let a process set it")
    assert plain.out != job.run(show).out
    result = job.run([guests("prctl_set"), what, *SPACE, *show])
    assert result.code == 0 and result.out == plain.out, f"{plain}\n{result}"


def test_memory_that_may_not_be_writable_and_executable_refuses_the_shim(job, host, guests):
    """The kernel keeps that once for all that share memory."""
    result = job.run([guests("prctl_set"), "mdwe", *SPACE, "echo", "ran"])
    if result.code == 77:
        pytest.skip("before Linux 6.3")
    is_refused(result, "mdwe")


@pytest.fixture
def group():
    """A control group, as a preexec_fn by which a command starts in it."""
    mount = pathlib.Path("/sys/fs/cgroup")
    path = (mount if (mount / "cgroup.procs").exists() else mount / "memory") / f"onespace-test-{uuid.uuid4().hex[:8]}"
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"cannot make a control group: {error}")
    yield lambda: (path / "cgroup.procs").write_text("0")
    while (path / "cgroup.procs").read_text():
        time.sleep(0.01)
    path.rmdir()


def test_other_control_group_refuses_the_shim(job, host, group):
    is_refused(job.run([*SPACE, "echo", "ran"], preexec_fn=group), "cgroup")


def test_other_control_group_may_be_allowed(job, group):
    allowed = {"ONESPACE_MAY_DIFFER": "cgroup"}
    command = job.start([*SPACE, "/bin/sh", "-c", "echo up; cat /proc/self/cgroup; read x"], terminal=True, env=allowed)
    command.wait_for("up")
    result = job.run([*SPACE, "cat", "/proc/self/cgroup"], preexec_fn=group)
    command.type(b"\n")
    hosts = command.finish()
    assert result.code == 0 and result.out == hosts.out.replace("up\n", ""), f"{hosts}\n{result}"


def test_other_root_refuses_the_shim(job, tool, tmp_path):
    """The same files below another directory, in the same mount namespace."""
    if job.run(["unshare", "-m", "mount", "--rbind", "/", tmp_path]).code != 0:
        pytest.skip("cannot mount")
    command = job.start(["unshare", "-m", "sh", "-c", 'mount --rbind / "$0" && exec "$@"', tmp_path, *SPACE,
                         "/bin/sh", "-c", "echo up; read x"], terminal=True)
    command.wait_for("up")
    enter = [tool("nsenter"), "-t", command.pid, "-m"]
    same = job.run([*enter, *SPACE, "echo", "ran"])
    other = job.run([*enter, tool("chroot"), tmp_path, *SPACE, "echo", "ran"])
    command.type(b"\n")
    assert command.finish().code == 0
    assert same.code == 0 and same.out == "ran\n", str(same)
    is_refused(other, "root")


def test_identity_that_may_differ(job, tool):
    tool("choom")
    command = job.start([*SPACE, "/bin/sh", "-c", "echo up; read x"], terminal=True,
                        env={"ONESPACE_MAY_DIFFER": "cgroup,oom_score_adj"})
    command.wait_for("up")
    result = job.run(["choom", "-n", "500", "--", *SPACE, "cat", "/proc/self/oom_score_adj"])
    command.type(b"\n")
    assert command.finish().code == 0
    assert result.code == 0 and result.out == "0\n", str(result)


@pytest.mark.parametrize("less", [["--no-new-privs"], ["--bounding-set=-net_raw"]])
def test_identity_of_the_host_is_no_less_than_the_shims(job, less):
    command = job.start(["setpriv", *less, *SPACE, "/bin/sh", "-c", "echo up; read x"], terminal=True)
    command.wait_for("up")
    result = job.run([*SPACE, "echo", "ran"])
    command.type(b"\n")
    assert command.finish().code == 0
    assert result.code == 1 and not result.out and "that the host of the space lacks" in result.err, str(result)


def test_identity_of_others_in_the_space_is_unchanged(job, host):
    """Credentials are each kernel task's own."""
    given = job.start(["setpriv", "--no-new-privs", "--bounding-set=-all", *SPACE, "/bin/sh", "-c", "echo up; read x"],
                      terminal=True)
    given.wait_for("up")
    plain = job.run(["/bin/sh", "-c", SHOW])
    result = job.run([*SPACE, "/bin/sh", "-c", SHOW])
    given.type(b"\n")
    assert given.finish().code == 0
    assert result.code == 0 and result.out == plain.out, str(result)


def test_seccomp_filter_refuses_the_shim(job, host, guests):
    result = job.run([guests("filtered"), *SPACE, "echo", "ran"])
    assert result.code == 1 and not result.out and "differs from this process in seccomp (" in result.err, str(result)


def test_session_keyring_refuses_the_shim(job, host, guests):
    result = job.run([guests("own_keyring"), *SPACE, "echo", "ran"])
    if result.code == 77:
        pytest.skip("no keyrings here")
    assert result.code == 1 and not result.out and "differs from this process in keyring (" in result.err, str(result)


# ---- Processes of the same user that are no `onespace run` ----

def socket_of(job):
    return os.path.join(job.runtime, "onespace", "given")


def impostor(job, guests, what, script):
    result = job.run([guests("impostor"), socket_of(job), what, "/bin/sh", "-c", script])
    if result.code == 77:
        pytest.skip("no process can be given a PID here")
    assert result.code == 0, str(result)
    return result


def test_impostor_gets_no_larger_limits_than_it_has(job, host, guests):
    """Nor other CPUs or another umask: its request does not tell them."""
    result = impostor(job, guests, "limited", "ulimit -c; ulimit -Hc; ulimit -f; ulimit -Hf; umask; nproc")
    values = [line for line in result.out.split("\n") if line != "runs"]  # before them, or among them
    assert values == ["0", "0", "8", "8", "0077", "1", ""], str(result)


def test_impostor_cannot_deny_its_securebits(job, host, guests):
    result = impostor(job, guests, "securebits", "echo ran")
    output = "refused: the host of the space differs from this process in securebits (0; here: SECBIT_NOROOT)"
    assert result.out.startswith(output), str(result)


def test_impostor_gets_no_privileges_of_a_process_that_has_its_former_pid(job, host, guests):
    result = impostor(job, guests, "reused", "grep NoNewPrivs /proc/self/status")
    output = "refused: the host of the space cannot see this process (No such process)"
    assert result.out.startswith(output), str(result)


# It says how much came, and whether a secret was in it.
LISTENER = """
import os, socket, sys
path, greeting = sys.argv[1], bytes.fromhex(sys.argv[2])
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen()
print("up", flush=True)
connection, _ = listener.accept()
listener.close()
os.unlink(path)
connection.sendall(greeting)
data, count = b"", 0
while True:
    part, fds, _, _ = socket.recv_fds(connection, 65536, 250)
    count += len(fds)
    if not part:
        break
    data += part
print("bytes", len(data), "secret", data.count(b"OPEN SESAME"), "descriptors", count)
"""

CONFINED = {
    "namespaces": ["unshare", "-m"],
    "namespaces (network)": ["unshare", "-n"],
    "seccomp": [],
    "the right to gain privileges": ["setpriv", "--no-new-privs"],
    "capabilities": ["setpriv", "--bounding-set=-net_raw"],
}


@pytest.mark.parametrize("is_rank", [False, True], ids=["alone", "rank"])
@pytest.mark.parametrize("what", list(CONFINED))
def test_shim_sends_nothing_to_a_host_that_is_confined(job, host, guests, what, is_rank):
    """A process of the same user that is confined listens in place of a host."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(socket_of(job))
        greeting = client.recv(65536)
    fake = os.path.join(job.runtime, "onespace", "fake")
    prefix = CONFINED[what] or [guests("filtered")]
    listener = job.start([*prefix, "/usr/bin/python3", "-c", LISTENER, fake, greeting.hex()])
    listener.wait_for("up")
    env = {"SECRET": "OPEN SESAME"}
    if is_rank:
        env |= {"PMI_RANK": "0", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2"}
    result = job.run([*RUN, "--space", "fake", "echo", "OPEN SESAME"], env=env)
    heard = listener.finish()
    assert result.code == 1 and not result.out and what.split(" (")[0] in result.err, str(result)
    assert "this process has" in result.err or "ONESPACE_MAY_DIFFER=" in result.err, str(result)
    # A rank tells that it is not coming, so that the others do not wait for it.
    assert heard.out.endswith("secret 0 descriptors 0\n"), str(heard)
    assert is_rank or "bytes 0 " in heard.out, str(heard)


def test_shim_sends_nothing_to_a_host_that_hides_its_namespaces(job):
    """It has all capabilities in a user namespace of its own: an ordinary user cannot read the links in ns then."""
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    os.chown(job.runtime, 65534, 65534)
    holder = job.start([*user, *SPACE, "/bin/sh", "-c", "echo up; read x"], terminal=True, cwd="/")
    holder.wait_for("up")
    greets = "import socket, sys\nhost = socket.socket(socket.AF_UNIX)\nhost.connect(sys.argv[1])\n"
    greeting = job.run([*user, "/usr/bin/python3", "-c", greets + "print(host.recv(65536).hex())", socket_of(job)])
    fake = os.path.join(job.runtime, "onespace", "fake")
    # With another exec its memory would belong to that namespace, and the namespace's creator could read everything.
    hides = ("import ctypes\nCLONE_NEWUSER, CLONE_NEWNS, PR_SET_DUMPABLE = 0x10000000, 0x20000, 4\n"
             "assert ctypes.CDLL(None).unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0\n"
             "assert ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0) == 0\n")
    listener = job.start([*user, "/usr/bin/python3", "-c", hides + LISTENER, fake, greeting.out.strip()], cwd="/")
    listener.wait_for("up")
    result = job.run([*user, *RUN, "--space", "fake", "echo", "OPEN SESAME"], cwd="/", env={"SECRET": "OPEN SESAME"})
    assert listener.finish().out.endswith("bytes 0 secret 0 descriptors 0\n"), str(result)
    result.expect(1, out="", says="differs from this process in namespaces")
    holder.type(b"\n")
    assert holder.finish().code == 0


def test_rank_that_declines_the_host_ends_the_others(job, tool):
    """The first rank of two would wait for the second in vain."""
    env = {"PMI_RANK": "0", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2"}
    holder = job.start([*RUN, "--space", "given", "/bin/sh", "-c", "echo up; read x"], terminal=True)
    holder.wait_for("up")
    first = job.start([*RUN, "--space", "given", "sleep", "100"], env=env)
    second = job.run([tool("unshare"), "-m", *RUN, "--space", "given", "sleep", "100"],
                     env=env | {"PMI_RANK": "1", "MPI_LOCALRANKID": "1"})
    first = first.finish()
    holder.type(b"\n")
    assert holder.finish().code == 0
    assert first.code != 0 and second.code != 0, f"{first}\n{second}"
    output = first.err + second.err
    assert output.count("differs from this process in namespaces (") == 1, f"{first}\n{second}"
