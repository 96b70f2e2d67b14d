"""Files below /dev/shm in memory of the space: --shm."""
import os
import pathlib
import random
import re
import resource
import signal
import socket
import struct
import time
import uuid

import pytest

from jobs import LONE_USER, ONESPACE, RUN, descriptors_in_flight, eventually, lone_user, with_shm

SHM = pathlib.Path("/dev/shm")
SPACE = [*RUN, "--shm", "space"]
NAME_SIZE = 256
OPEN, UNLINK, LINK, RENAME, STATFS = range(5)  # enum shm_operation in src/space/shm.h
ADDRESS = re.compile(r"(?m)^\S+: \S+ \S+ \S+ 0005 01 (\d+) @(\S+)$")  # listening sockets of /proc/net/unix


@pytest.fixture(params=["size=64k", "ro"])
def unusable(request):
    return with_shm(request.param)


@pytest.fixture
def name():
    return f"onespace-test-{uuid.uuid4().hex}"


@pytest.mark.parametrize("mode", ["system", "space"])
def test_names_are_as_in_a_directory(job, guests, name, mode):
    expected = job.run([guests("shm_names"), name])
    assert expected.code == 0 and expected.out.count("\n") > 60, str(expected)
    job.run([*RUN, "--shm", mode, guests("shm_names"), name]).expect(out=expected.out)
    assert not list(SHM.glob(f"*{name}*"))


@pytest.mark.parametrize("host", [[], ["--space", "shm"]])
def test_tasks_share_files_and_semaphores_by_name(job, guests, name, host):
    count = [] if host else ["-n", "3"]
    env = [{}] if not host else [{"PMI_RANK": str(rank), "MPI_LOCALRANKID": str(rank), "MPI_LOCALNRANKS": "3"}
                                 for rank in range(3)]
    commands = [job.start([*SPACE, *host, *count, guests("shm_shared"), f"/{name}", "keep"], env=one) for one in env]
    commands[0].wait_for("counted 3")
    assert not list(SHM.glob(f"*{name}*"))
    for process in job.named("shm_shared"):
        os.kill(process.pid, signal.SIGKILL)
    assert all(command.finish().code != 0 for command in commands)
    assert eventually(lambda: not job.processes()), job.processes()


def test_run_in_a_task_leaves_the_server_as_it_is(job, name, tmp_path):
    script = f"echo kept >/dev/shm/{name}; while [ ! -e go ]; do sleep 0.05; done; read x </dev/shm/{name}; echo $x"
    job.run([*RUN, "--shm", "space", "sh", "-c", script, ":", ONESPACE, "run", "--shm", "auto", "touch", "go"],
            cwd=tmp_path).expect(out="kept\n")


@pytest.mark.parametrize("victim", ["root", "server"])
def test_killed(job, guests, name, victim):
    """Neither leaves anything. Without the server names are the system's."""
    command = job.start([*SPACE, "-n", "2", guests("shm_shared"), f"/{name}", "keep"])
    command.wait_for("counted 2")
    server, = job.named("onespace-shm")
    os.kill(command.pid if victim == "root" else server.pid, signal.SIGKILL)
    if victim == "server":
        assert eventually(lambda: not job.named("onespace-shm"))
        command.signal(signal.SIGTERM)
    assert command.finish().code != 0
    assert eventually(lambda: not job.processes()), job.processes()
    assert not list(SHM.glob(f"*{name}*"))


@pytest.mark.parametrize("ranks", [4, 128] if os.environ.get("ONESPACE_LONG") == "1" else [4])
def test_mpi_where_the_directory_cannot_be_used(job, guests, mpi, unusable, ranks):
    result = job.run([*unusable, *mpi.command(ranks, [*RUN, guests.mpi(mpi, "mpi_many")])], env=mpi.env)
    total = ranks * (ranks - 1) // 2
    assert result.code == 0 and f"{ranks} ranks, sum {total}, around {2 * total}\n" in result.out, str(result)
    assert eventually(lambda: not job.processes()), job.processes()


@pytest.mark.parametrize("options, ranks, words", [
    ("size=100m", 3, "files below /dev/shm are the system's;"),
    ("size=100m", 4, "files below /dev/shm are in memory of the space: /dev/shm has 102400 KiB free, 4 ranks may need "
                     "128 MiB;"),
    ("ro", 1, "files below /dev/shm are in memory of the space: /dev/shm: Read-only file system;"),
    ("size=0", 64, "files below /dev/shm are the system's;"),  # no limit
])
def test_choice(job, options, ranks, words):
    prefix = with_shm(options)
    if options == "ro" and os.geteuid() != 0:
        prefix = with_shm("ro,mode=1777")
    result = job.run([*prefix, *RUN, "-v", "-n", str(ranks), "true"])
    assert result.code == 0 and words in result.err, str(result)


def test_bad_value_is_refused(job):
    job.run([*RUN, "--shm", "tmpfs", "true"]).expect(2, says="--shm tmpfs: not auto, space or system")


def test_choice_of_the_user_is_kept(job):
    prefix = with_shm("size=64k")
    for mode, words in (("system", "are the system's;"), ("space", "are in memory of the space;")):
        result = job.run([*prefix, *RUN, "-v", "--shm", mode, "true"])
        assert result.code == 0 and words in result.err, str(result)


def test_descriptors_of_the_server_run_out(job):
    """It answers nevertheless, and serves again when names are free."""
    script = '''
import errno, os
made = []
try:
    while True:
        os.close(os.open(f"/dev/shm/x{len(made)}", os.O_RDWR | os.O_CREAT))
        made.append(len(made))
except OSError as error:
    print(errno.errorcode[error.errno], len(made))
for one in made[2:]:
    os.unlink(f"/dev/shm/x{one}")
os.close(os.open("/dev/shm/again", os.O_RDWR | os.O_CREAT))
'''
    result = job.run([*SPACE, "/usr/bin/python3", "-c", script],
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
    assert result.code == 0 and re.fullmatch(r"ENOSPC 5\d\n", result.out), str(result)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become a user without other processes")
def test_descriptors_in_flight_are_waited_for(job):
    """The server cannot send the new file's descriptor, so it forgets the name, and the task asks again."""
    limit = 64
    script = "import os; print('up', flush=True); input(); os.open('/dev/shm/x', os.O_CREAT | os.O_EXCL); print('made')"
    become = lone_user(limit)
    os.chown(job.runtime, LONE_USER, LONE_USER)
    if job.run([ONESPACE, "--version"], cwd="/", preexec_fn=become).code != 0:
        pytest.skip("the build directory is not open to other users")
    command = job.start([*SPACE, "/usr/bin/python3", "-c", script], cwd="/", preexec_fn=become, terminal=True)
    command.wait_for("up")
    with descriptors_in_flight(become, limit):
        command.type(b"\n")
        time.sleep(0.5)
        assert "made" not in command.so_far().out
    result = command.finish()
    assert result.code == 0 and "made" in result.out, str(result)


# ---- Hostile peers of the server ----


def address_of(server):
    """The abstract address on which the process listens, with its leading zero."""
    sockets = {os.stat(f"/proc/{server.pid}/fd/{fd}").st_ino for fd in os.listdir(f"/proc/{server.pid}/fd")}
    for inode, address in ADDRESS.findall(pathlib.Path("/proc/net/unix").read_text()):
        if int(inode) in sockets:
            return b"\0" + address.encode()
    return None


def request(operation, name=b"", to=b"", flags=0, mode=0o600):
    return struct.pack(f"IiI{NAME_SIZE}s{NAME_SIZE}s", operation, flags, mode, name, to)


def ask(address, data):
    """The result and the descriptors of the reply, or None if the connection was closed without."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
        peer.settimeout(600)
        peer.connect(address)
        try:
            peer.send(data)
        except BrokenPipeError:
            return None
        reply, fds, _, _ = socket.recv_fds(peer, 1024, 16)
        for fd in fds:
            os.close(fd)
        return (struct.unpack_from("i", reply)[0], len(fds)) if reply else None


@pytest.fixture
def server(job):
    command = job.start([*SPACE, "/bin/sh", "-c", "echo up; read x"], terminal=True)
    command.wait_for("up")
    yield address_of(job.named("onespace-shm")[0])
    command.type(b"\n")
    assert command.finish().code == 0


def works(address):
    made = ask(address, request(OPEN, b"good", flags=os.O_RDWR | os.O_CREAT))
    return made == (0, 1) and ask(address, request(UNLINK, b"good")) == (0, 0)


def test_bad_requests_are_refused(server):
    refused = [request(9), request(OPEN, b""), request(OPEN, b"a/b", flags=os.O_CREAT), request(OPEN, b".."),
               request(OPEN, b"x" * NAME_SIZE, flags=os.O_CREAT), request(LINK, b"x", b"../x"),
               request(RENAME, b"x", b"")]
    for data in refused:
        assert ask(server, data) == (-22, 0), data
    for data in (b"", b"x", request(OPEN, b"x")[:-1]):
        assert ask(server, data) is None
    assert works(server)


@pytest.mark.parametrize("base", [0, os.O_RDWR | os.O_CREAT, os.O_TMPFILE | os.O_CREAT])
def test_flags_of_all_kinds(server, base):
    """Those that libc or the kernel take in another way than a file's owner expects, such as O_TMPFILE."""
    for flags in [*(base | 1 << bit for bit in range(31)), 0x7fffffff]:
        result, descriptors = ask(server, request(OPEN, b"flags", flags=flags))
        assert (result == 0) == (descriptors == 1) and result <= 0, flags
        ask(server, request(UNLINK, b"flags"))
    assert works(server)


def test_random_requests(server):
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chance = random.Random(seed)
    names = [b"a", b"b", b"c"]
    for _ in range(3000):
        data = bytearray(request(chance.randrange(6), chance.choice(names), chance.choice(names),
                                 chance.choice([0, os.O_RDWR, os.O_CREAT, os.O_CREAT | os.O_EXCL, os.O_TRUNC]),
                                 chance.randrange(1 << 12)))
        for _ in range(chance.choice([0, 0, 1, 5])):
            data[chance.randrange(len(data))] = chance.randrange(256)
        ask(server, bytes(data[:chance.choice([len(data), len(data), chance.randrange(len(data))])]))
    assert works(server)


def test_peers_that_say_nothing_delay_no_other(server):
    silent = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(200)]
    for peer in silent:
        peer.connect(server)
    assert works(server)
    for peer in silent:
        peer.close()
    assert works(server)


def test_other_users_are_refused(job, server, somebody):
    script = ("import socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); "
              "s.connect(bytes.fromhex(sys.argv[1])); s.settimeout(600); print(len(s.recv(100)))")
    result = job.run(["/usr/bin/python3", "-c", script, server.hex()], preexec_fn=somebody, cwd="/")
    assert result.code == 0 and result.out == "0\n", str(result)
    assert works(server)
