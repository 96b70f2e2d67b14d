"""tests/endurance/test_requests.py: requests of a shim with bytes changed, sent to a living host of the same user: it
goes on serving, and holds nothing of them."""
import os
import random
import socket
import struct
import subprocess
import time

from jobs import RUN

REQUESTS = int(os.environ.get("ONESPACE_REQUESTS", 1000000 if os.environ.get("ONESPACE_LONG") == "1" else 500))
MINUTES = float(os.environ.get("ONESPACE_MINUTES", "inf"))
HEADER = 24  # of a request: magic, version, size, hash of the layout
LIMITS = [0, 1, 0x7fffffff, 0x80000000, 0xffffffff]


def connect(path):
    """Waits while the host has still to accept as many as may wait."""
    client = socket.socket(socket.AF_UNIX)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 60, 0))
    client.connect(path)
    client.settimeout(5)
    return client


def read_all(connection, patience):
    """What comes until nothing more does for so long."""
    connection.settimeout(patience)
    data = b""
    try:
        while more := connection.recv(1 << 20):
            data += more
    except TimeoutError:
        pass
    return data


def read_exactly(connection, size):
    connection.settimeout(60)
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        assert more, (len(data), size)
        data += more
    return data


def read_request(connection):
    """A struct protocol_request, whose header has its size."""
    head = read_exactly(connection, HEADER)
    return head + read_exactly(connection, struct.unpack_from("<I", head, 12)[0] - HEADER)


def request_of_a_shim(job, directory, greeting):
    """What `onespace run` sends, to a host that this test plays."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{directory}/played")
        listener.listen()
        listener.settimeout(60)
        shim = job.start([*RUN, "--space", "played", "true"])
        connection, _ = listener.accept()
        with connection:
            connection.sendall(greeting)
            request = read_request(connection)
            text_size = struct.unpack_from("<I", request, HEADER + 12)[0]  # struct protocol_request
            request += read_exactly(connection, text_size)
    assert shim.finish().code == 0  # it has started another host, since this one left
    return request


def changed(request, chance):
    """One to four bytes, or words that are often limits; the header now and then."""
    data = bytearray(request)
    for _ in range(chance.randrange(1, 5)):
        first = 0 if chance.random() < 0.05 else HEADER
        at = chance.randrange(first, len(data) - 4)
        if chance.random() < 0.5:
            data[at] = chance.randrange(256)
        else:
            data[at & ~3:(at & ~3) + 4] = chance.choice(LIMITS).to_bytes(4, "little")
    if chance.random() < 0.1:
        del data[chance.randrange(len(data)):]
    return data


def held_by(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        status = dict(line.split(":", 1) for line in file)
    with open(f"/proc/{pid}/maps", encoding="ascii") as file:
        mappings = len(file.readlines())
    return {"descriptors": len(os.listdir(f"/proc/{pid}/fd")), "mappings": mappings,
            "resident": int(status["VmRSS"].split()[0]), "tables": int(status["VmPTE"].split()[0])}


ROOM = {"descriptors": 0, "mappings": 8, "resident": 4096, "tables": 512}  # for more than before


def settled(pid, before):
    """What the host holds when it has noticed that all are gone, and their memory is unmapped."""
    end = time.monotonic() + 180
    while any((held := held_by(pid))[what] > before[what] + more for what, more in ROOM.items()) and \
            time.monotonic() < end:
        time.sleep(0.05)
    return held


def send_one(path, data, chance):
    with connect(path) as client:
        try:
            client.sendall(data)
            if chance.random() < 0.1:
                read_all(client, 0.02)
        except OSError:
            pass  # turned away


def test_host_survives_changed_requests(job):
    seed = int(os.environ.get("ONESPACE_SEED", random.randrange(1 << 30)))
    chance = random.Random(seed)
    print(f"ONESPACE_SEED={seed}")
    command = job.start([*RUN, "--space", "real", "/bin/sh", "-c", "echo up; read x"], stdin=subprocess.PIPE,
                        timeout=max(7000, REQUESTS // 10))
    command.wait_for("up")
    directory = os.path.join(job.runtime, "onespace")
    path = f"{directory}/real"
    with connect(path) as client:
        greeting = read_exactly(client, HEADER) + read_all(client, 1)  # sent at once
    host, = (process.pid for process in job.hosts())
    request = request_of_a_shim(job, directory, greeting)
    assert len(request) > 1000 and request[:8] == greeting[:8], len(request)
    before, end = None, time.monotonic() + MINUTES * 60
    for done in range(REQUESTS + 1):
        if done == min(200, REQUESTS // 2):
            before = settled(host, held_by(host))  # what is only ever taken once is there now
        send_one(path, changed(request, chance), chance)
        if done and done % min(REQUESTS // 10, 10000) == 0:
            job.run([*RUN, "--space", "real", "echo", "served"]).expect(out="served\n")
            print(f"{done} requests", flush=True)
        if before and time.monotonic() > end:
            break
    after = settled(host, before)
    print(f"{done} requests: before {before}, after {after}")
    command.process.stdin.close()
    assert command.finish().code in (0, 1)
    for what, more in ROOM.items():
        assert after[what] <= before[what] + more, (what, before, after)
