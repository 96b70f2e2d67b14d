"""onespace clean: what killed MPI jobs leave behind."""
import contextlib
import errno
import json
import mmap
import os
import pathlib
import re
import shlex
import signal
import threading
import time
import uuid

import pytest

from jobs import ONESPACE, RUN, eventually, with_shm
from launchers import AS_ROOT
from observe import RT_SIGACTION, forbid

SHM = pathlib.Path("/dev/shm")
CLEAN = [ONESPACE, "clean"]
# A /tmp of its own, in which only the command's own files are, if they were below /tmp before.
BUILT = shlex.quote(str(pathlib.Path(ONESPACE).parents[1]))
OWN_TMP = f"mount --rbind {BUILT} /mnt && mount -t tmpfs tmpfs /tmp && mkdir -p {BUILT} && mount --rbind /mnt {BUILT}"
HOST = os.uname().nodename
OLD = time.time() - 3600


def make(path, age=3600, data=b"x" * 8192):
    path.write_bytes(data)
    os.utime(path, (time.time() - age, time.time() - age))
    return path


@pytest.fixture
def segment():
    """A file such as MPICH leaves."""
    path = make(SHM / f"mpich_shm_{uuid.uuid4().hex}")
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture
def listed(job, tmp_path):
    """Whether a path is listed."""
    def is_listed(path, *words):
        result = job.run([*CLEAN, "--json", *words], env={"TMPDIR": str(tmp_path)})
        assert result.code == 0, str(result)
        return [row["removed"] for row in json.loads(result.out) if row["path"] == str(path)]
    return is_listed


def test_segments_are_listed_and_removed(listed, segment):
    """Another test's doctor may look at the segment, and so use it, at this moment."""
    assert eventually(lambda: listed(segment) == [False]) and segment.exists()
    assert eventually(lambda: listed(segment) == [False])


def test_segments_may_be_opened_meanwhile(job, tmp_path):
    """By a process that then breaks the lease, which sends a signal. A filter may forbid to ignore signals."""
    segments = [make(SHM / f"mpich_shm_{uuid.uuid4().hex}") for _ in range(50)]
    is_over = threading.Event()

    def open_all():
        while not is_over.is_set():
            for segment in segments:
                os.close(os.open(segment, os.O_RDONLY))
    opener = threading.Thread(target=open_all)
    opener.start()
    try:
        for _ in range(20):
            job.run([*CLEAN, "--json"], env={"TMPDIR": str(tmp_path)},
                    preexec_fn=forbid(RT_SIGACTION, error=errno.EPERM)).expect()
    finally:
        is_over.set()
        opener.join()
        for segment in segments:
            segment.unlink()


@pytest.mark.parametrize("use", ["reading", "writing", "mapping"])
def test_segment_in_use_is_not_listed(listed, segment, use):
    with open(segment, "r+b" if use == "writing" else "rb") as file:
        if use != "mapping":
            assert not listed(segment)
        else:
            mapped = mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ)
            file.close()
            assert not listed(segment)
            mapped.close()
    assert listed(segment)


def test_recent_and_foreign_files_are_not_listed(listed, segment):
    os.utime(segment)
    assert not listed(segment)
    os.utime(segment, (OLD, OLD))
    if os.geteuid() == 0:
        os.chown(segment, 65534, -1)
        assert not listed(segment)
    mine = make(SHM / f"data-{uuid.uuid4().hex}")
    try:
        assert not listed(mine)
    finally:
        mine.unlink()


def test_links_and_pipes_are_not_followed(listed, segment, tmp_path):
    precious = make(tmp_path / "precious")
    segment.unlink()
    segment.symlink_to(precious)
    assert not listed(segment)
    segment.unlink()
    os.mkfifo(segment)
    assert not listed(segment)


def alone(script, *words):
    """The script with these arguments, where /dev/shm and /tmp are directories of its own."""
    return [*with_shm("size=1m"), "sh", "-c", f"{{ {OWN_TMP}; }} || exit 9; {script}", "sh", *words]


def test_remove(job):
    leave = ("head -c 98304 /dev/zero >/dev/shm/vader_segment.x.0.1; "
             "touch -d '61 minutes ago' /dev/shm/vader_segment.x.0.1")
    script = f'{leave}; "$@"; echo "exit $?"; ls -A /dev/shm'
    table = job.run(alone(script, *CLEAN), cwd="/", env={"TMPDIR": "/tmp"})
    assert re.search(r" 96K +1:0[01]:\d\d +Open MPI 4 +/dev/shm/vader_segment.x.0.1\n1, 96K; remove them with: "
                     r"onespace clean --remove\nexit 0\nvader_segment.x.0.1\n$", table.out), str(table)
    removed = job.run(alone(script, *CLEAN, "--remove"), cwd="/", env={"TMPDIR": "/tmp"})
    removed.expect(out="1 removed, 96K\nexit 0\n")


def test_nothing_is_left_behind(job):
    job.run(alone('"$@"', *CLEAN), cwd="/", env={"TMPDIR": "/tmp"}).expect(out="nothing is left behind\n")


def session(directory, pid, host=HOST):
    path = directory / f"prte.{host}.{pid}.1000"
    (path / "dvm").mkdir(parents=True, mode=0o700)
    path.chmod(0o700)
    make(path / "dvm" / "contact")
    (path / "link").symlink_to("/etc/passwd")
    for one in (path / "dvm", path):
        os.utime(one, (OLD, OLD))
    return path


def ended_pid():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


def test_session_directories(job, listed, tmp_path):
    ended, running = session(tmp_path, ended_pid()), session(tmp_path, os.getpid())
    assert listed(ended) and not listed(running)
    assert not listed(session(tmp_path, ended_pid(), host="other")), "the processes of that node are not seen here"
    assert listed(session(tmp_path, ended_pid(), host=HOST.split(".")[0] + ".site.org"))
    with open(ended / "dvm" / "contact", "rb"):
        assert not listed(ended)
    (ended / "dvm").chmod(0o777)
    assert not listed(ended), "others can write to it"
    (ended / "dvm").chmod(0o700)
    script = f'mount --bind {tmp_path} /media && {OWN_TMP} && exec "$@"'
    result = job.run([*with_shm("size=1m"), "sh", "-c", script, "sh", *CLEAN, "--remove"], cwd="/",
                     env={"TMPDIR": "/media"})
    assert not ended.exists() and (running / "dvm" / "contact").exists(), str(result)


@pytest.fixture
def own_shm(job):
    """The prefix of commands in a mount namespace with a /dev/shm of its own, and that directory's path from here."""
    holder = job.start([*with_shm("size=512m"), "sh", "-c", "echo up; read x"], terminal=True)
    holder.wait_for("up")
    user = [] if os.geteuid() == 0 else ["-U", "--preserve-credentials"]
    yield ["nsenter", *user, "-m", "-t", str(holder.pid)], pathlib.Path(f"/proc/{holder.pid}/root/dev/shm")
    holder.type(b"\n")
    assert holder.finish().code == 0


@pytest.mark.parametrize("prefix", [[], [*RUN, "--shm", "space"]], ids=["processes", "tasks"])
@pytest.mark.parametrize("launcher", ["mpich", "openmpi"])
def test_killed_job(job, guests, mpi_named, own_shm, launcher, prefix, tmp_path):
    """Segments of a running job are in use; those of a killed one are listed. With --shm space there are none."""
    mpi, (enter, directory) = mpi_named(launcher), own_shm

    def listed_segments():
        rows = json.loads(job.run([*enter, *CLEAN, "--json"], cwd="/", env={"TMPDIR": str(tmp_path)}).out)
        return {pathlib.Path(row["path"]).name for row in rows if row["path"].startswith("/dev/shm/")}

    program = [*prefix, guests.mpi(mpi, "mpi_end"), "sleep"]
    env = {**mpi.env, **AS_ROOT, "TMPDIR": str(tmp_path)}  # root's directory of sessions may be in /tmp
    command = job.start([*enter, *mpi.command(2, program)], env=env, cwd="/")
    command.wait_for("ready", 2)
    for path in directory.iterdir():
        os.utime(path, (OLD, OLD))
    assert not listed_segments()
    for process in job.named("mpi_end"):
        with contextlib.suppress(ProcessLookupError):  # the launcher ends the others
            os.kill(process.pid, signal.SIGKILL)
    os.kill(command.pid, signal.SIGKILL)
    command.finish()
    assert eventually(lambda: not job.named("mpi_end"))
    left = {path.name for path in directory.iterdir()}
    assert not prefix or not left, left
    assert eventually(lambda: listed_segments() == left), f"{listed_segments()} of {left}"


def test_bad_words_are_refused(job):
    job.run([*CLEAN, "now"]).expect(2, says="takes no other words")
