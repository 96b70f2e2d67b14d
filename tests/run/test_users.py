"""Unprivileged users can run tasks too, and nobody reaches another user's host."""
import os
import re
import shutil
import signal
import socket
import subprocess

import pytest

from jobs import BUILD, ONESPACE, RUN, eventually

NOBODY = 65534

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"),
                                reason="needs root and setpriv(1), to become other users")


def as_user(argv, user):
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *argv]


def as_nobody(argv):
    return as_user(argv, NOBODY)


def needs_open_build(user):
    if subprocess.run(as_user([ONESPACE, "--version"], user), capture_output=True, cwd="/").returncode != 0:
        pytest.skip("the build directory is not open to other users")


@pytest.fixture
def nobody(job):
    """A runtime directory of that user's; the build must be readable for it."""
    needs_open_build(NOBODY)
    os.chown(job.runtime, NOBODY, NOBODY)
    return job


def test_unprivileged_by_hand(nobody, guests):
    result = nobody.run(as_nobody([*RUN, "-n", "4", guests("patterns"), "1"]), cwd="/")
    assert result.code == 0 and result.out == "intact\n" * 4, str(result)


def test_unprivileged_joined(nobody):
    result = nobody.run(as_nobody([*RUN, "--space", "mine", "id", "-u"]), cwd="/")
    assert result.code == 0 and result.out == f"{NOBODY}\n", str(result)


def test_unprivileged_under_launchers(nobody, guests, distributions_mpi):
    """Those of the wheels need not be open to other users."""
    argv = distributions_mpi.command(2, [*RUN, guests.mpi(distributions_mpi, "mpi_pointer")])
    result = nobody.run(as_nobody(argv), cwd="/", env={"HOME": "/tmp"})
    assert result.code == 0 and result.lines == ["rank 0: 0 wrong", "rank 1: 0 wrong"], str(result)


def test_unprivileged_with_no_new_privileges(nobody):
    result = nobody.run(["setpriv", f"--reuid={NOBODY}", "--clear-groups", "--no-new-privs", "--bounding-set=-all",
                         *RUN, "--space", "bare", "echo", "ran"], cwd="/")
    assert result.code == 0 and result.out == "ran\n", str(result)


def test_without_a_runtime_directory_tmp_is_used(job):
    """XDG_RUNTIME_DIR is not set in batch jobs."""
    result = job.run(["env", "-u", "XDG_RUNTIME_DIR", *RUN, "--verbose", "--space", f"os{os.getpid()}", "echo", "ran"])
    assert result.code == 0 and result.out == "ran\n", str(result)


def directory_and_socket(job):
    directory = os.path.join(job.runtime, "onespace")
    return directory, os.path.join(directory, os.listdir(directory)[0])


def test_name_of_fifty_bytes_can_be_joined(job, tmp_path):
    """As long as the names that onespace makes after launchers may be."""
    space = [*RUN, "--space", 50 * "n"]
    first = job.start([*space, "sh", "-c", "echo up; while [ ! -e go ]; do sleep 0.05; done"], cwd=tmp_path)
    first.wait_for("up")
    job.run([*space, "touch", "go"], cwd=tmp_path).expect()
    first.finish().expect(out="up\n")


def test_directory_that_the_user_may_not_search_is_refused(nobody, tmp_path):
    """Else the task would begin in the directory of the space's first task, which is another one."""
    (tmp_path / "closed").mkdir(mode=0o700)
    space = as_nobody([*RUN, "--space", "closed"])
    first = nobody.start([*space, "sleep", "300"], cwd="/")
    assert eventually(lambda: nobody.named("sleep"))
    result = nobody.run(["sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", tmp_path / "closed", *space, "pwd"])
    assert result.code != 0 and "working directory may not be searched" in result.err and not result.out, str(result)
    first.signal(signal.SIGTERM)
    first.finish()


def test_another_user_cannot_reach_the_socket(job):
    command = job.start([*RUN, "--space", "closed", "/bin/sh", "-c", "echo up; read x"], terminal=True)
    command.wait_for("up")
    directory, path = directory_and_socket(job)
    assert os.stat(directory).st_mode & 0o777 == 0o700 and os.stat(directory).st_uid == 0
    script = ("import socket, sys; s = socket.socket(socket.AF_UNIX)\n"
              "try: s.connect(sys.argv[1]); print('reached')\nexcept OSError as error: print(error.errno)")
    result = job.run(as_nobody(["/usr/bin/python3", "-c", script, path]), cwd="/")
    command.type(b"\n")
    assert result.out == "13\n", str(result)
    assert command.finish().code == 0


def test_host_turns_another_user_away(job):
    """Even one who got past the directory's permissions."""
    command = job.start([*RUN, "--space", "closed", "/bin/sh", "-c", "echo up; read x"], terminal=True)
    command.wait_for("up")
    directory, path = directory_and_socket(job)
    for place in (job.runtime, directory, path):
        os.chmod(place, 0o777)
    script = ("import socket, sys; s = socket.socket(socket.AF_UNIX); s.settimeout(180); s.connect(sys.argv[1])\n"
              "print('connected')\n"
              "try:\n while s.recv(100000): pass\n print('turned away')\n"
              "except ConnectionError: print('turned away')")
    result = job.run(as_nobody(["/usr/bin/python3", "-c", script, path]), cwd="/")
    command.type(b"\n")
    assert command.finish().code == 0
    assert result.out == "connected\nturned away\n", str(result)


def test_host_survives_nonsense(job):
    """Somebody of the same user who sends rubbish, or nothing, or goes away in the middle."""
    command = job.start([*RUN, "--space", "rubbish", "/bin/sh", "-c", "echo up; read x; echo end"], terminal=True)
    command.wait_for("up")
    _, path = directory_and_socket(job)
    for rubbish in (b"", b"x", b"x" * 5000, bytes(100000)):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(5)
            client.connect(path)
            try:
                client.sendall(rubbish)
            except OSError:
                pass
    job.run([*RUN, "--space", "rubbish", "echo", "served"]).expect(out="served\n")
    command.type(b"\n")
    command.finish().expect(shows="end")


def test_silent_client_does_not_hold_others_up(job):
    """A shim that was stopped after it connected must not keep the next from being served."""
    command = job.start([*RUN, "--space", "silent", "/bin/sh", "-c", "echo up; read x"], terminal=True)
    command.wait_for("up")
    _, path = directory_and_socket(job)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        client.sendall(b"\0")
        result = job.run([*RUN, "--space", "silent", "echo", "served"])
    command.type(b"\n")
    command.finish()
    assert result.code == 0 and result.out == "served\n", str(result)


@pytest.mark.parametrize("what", ["others' directory", "open directory", "link"])
def test_runtime_directory_that_is_not_private_is_refused(job, what, tmp_path):
    directory = os.path.join(job.runtime, "onespace")
    if what == "link":
        os.symlink(tmp_path, directory)
    else:
        os.mkdir(directory, 0o777 if what == "open directory" else 0o700)
        os.chmod(directory, 0o777 if what == "open directory" else 0o700)
        if what == "others' directory":
            os.chown(directory, NOBODY, NOBODY)
    result = job.run([*RUN, "--space", "x", "echo", "ran"])
    os.unlink(directory) if what == "link" else os.rmdir(directory)
    assert result.code not in (0, 126, 127) and not result.out and directory in result.err, str(result)
    assert re.search("mode|private|only you", result.err), str(result)


def test_two_users_have_a_host_each(job):
    os.chmod(job.runtime, 0o700)
    space = f"same{os.getpid()}"
    mine = job.start([*RUN, "--space", space, "/bin/sh", "-c", "echo up; read x"], terminal=True)
    mine.wait_for("up")
    env = {"XDG_RUNTIME_DIR": "/nonexistent"}
    theirs = job.run(as_nobody([*RUN, "--space", space, "id", "-u"]), cwd="/", env=env)
    mine.type(b"\n")
    assert theirs.out == f"{NOBODY}\n" and mine.finish().code == 0, str(theirs)


# ---- Another user has taken the name of the directory in /tmp ----

USER = 1000000 + os.getpid()  # of this test alone
PLACE = f"/tmp/onespace-{USER}"


@pytest.fixture
def squatter(job):
    needs_open_build(USER)
    os.mkdir(PLACE, 0o755)  # root's, in a directory from which its user cannot remove it
    yield job
    os.rmdir(PLACE)
    assert [name for name in os.listdir("/tmp") if name.startswith(f"onespace-{USER}")] == []


UNSET = ["env", "-u", "XDG_RUNTIME_DIR"]


def test_directory_in_tmp_that_another_user_has_made_is_not_used(squatter):
    result = squatter.run(as_user([*UNSET, *RUN, "--space", "x", "echo", "ran"], USER), cwd="/")
    assert result.code == 0 and result.out == "ran\n", str(result)
    eventually(lambda: not squatter.hosts())  # the host has left and removed its directory


def test_ranks_agree_on_a_directory_in_tmp(squatter):
    """Started at the same time, without a lock in common: all have the same reaper."""
    count = 8
    ranks = [squatter.start(as_user([*UNSET, *RUN, "--space", "x", "sh", "-c", "echo $PPID"], USER), cwd="/",
                            env={"PMI_RANK": str(i), "MPI_LOCALRANKID": str(i), "MPI_LOCALNRANKS": str(count)})
             for i in range(count)]
    results = [rank.finish() for rank in ranks]
    assert all(result.code == 0 for result in results), "\n".join(map(str, results))
    assert len({result.out for result in results}) == 1, "\n".join(map(str, results))
    eventually(lambda: not squatter.hosts())


def test_tmp_in_which_nothing_can_be_made_is_named(job, tool):
    """A directory that is another user's, in a /tmp where this user can make no other. The build may be in /tmp."""
    script = f'mount --bind {BUILD} /mnt && mount -t tmpfs -o mode=755 none /tmp && mkdir "$0" && exec "$@"'
    plain = job.run([tool("unshare"), "-m", "sh", "-c", script, PLACE, "true"], cwd="/")
    if plain.code != 0:
        pytest.skip(f"cannot mount: {plain.err}")
    run = as_user([*UNSET, "/mnt/bin/onespace", "run", "--space", "x", "true"], USER)
    result = job.run(["unshare", "-m", "sh", "-c", script, PLACE, *run], cwd="/")
    text = f"{PLACE} is another user's, and no other directory can be made in /tmp: Permission denied: set XDG_RUNTIME"
    assert result.code == 1 and text in result.err and "remove" not in result.err, str(result)
