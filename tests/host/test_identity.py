"""What a shim has given up stays given up in its task, when a shim that had more has started the host."""
import os
import shutil

import pytest

from jobs import RUN

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"),
                                reason="needs root and setpriv(1), to have something to give up")

SPACE = [*RUN, "--space", "given"]
SHOW = r"""grep -E '^(Groups|Cap...|NoNewPrivs|Speculation_Store_Bypass):' /proc/self/status
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
    "namespaces": ["unshare", "-u"],
    "namespaces (mounts)": ["unshare", "-m"],
    "namespaces (of children)": ["unshare", "-p"],
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
    result = job.run([*REFUSED[what], *SPACE, "echo", "ran"])
    assert result.code == 1 and not result.out, str(result)
    assert f"differs from this process in {key} (" in result.err and f"ONESPACE_MAY_DIFFER={key}" in result.err, \
        str(result)


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
