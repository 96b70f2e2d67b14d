"""Ranks killed while they store, put and synchronise, again and again on the same files (docs/storage.md): data that
MPI_Win_sync reported as synchronised is there, and no word is torn. A kill leaves the kernel's page cache as it was;
tests/power checks that synchronised data is on the device."""
import os
import random
import signal
import struct
import subprocess
import time

import pytest

from launchers import none_wrong

LONG = os.environ.get("ONESPACE_LONG") == "1"
KILLS = 40 if LONG else 2
RANKS = 3
ENTRY = struct.Struct("=4Q")  # of the guest's journal: pid, begun, synced, synced_all
ENDLESS = 1000000
# Layout, bytes of a large put, further hints.
WAYS = {
    "shared_file": ("shared", 200 << 10, ()),
    "file_per_rank": ("separate", 1 << 20, ("access_style=random",)),
    "some_in_memory": ("mixed", 300 << 10, ()),
    "direct_io": ("separate", 5 << 20, ("access_style=write_once,read_once",)),
}
# A /dev/shm of its own shows what a job leaves in it.
IN_OWN_MEMORY = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /dev/shm || exit 99; "$@"; code=$?; '
              'for name in $(ls -A /dev/shm); do echo "left in /dev/shm: $name"; done; exit $code', "sh"]


def read_journal(path):
    data = path.read_bytes() if path.exists() else b""
    entries = list(ENTRY.iter_unpack(data[:RANKS * ENTRY.size]))
    return entries if len(entries) == RANKS else [(0, 0, 0, 0)] * RANKS


def wait_for_rounds(command, path, count):
    """Waits until rank 0 has synchronised so many rounds of this job; returns the process of each rank."""
    before = read_journal(path)
    while command.process.poll() is None and time.monotonic() < command.deadline:
        now = read_journal(path)
        if all(new[0] != old[0] for new, old in zip(now, before)) and now[0][2] >= before[0][2] + count:
            return [entry[0] for entry in now]
        time.sleep(0.001)
    return pytest.fail(f"no {count} rounds\n{command.so_far()}", pytrace=False)


@pytest.fixture(scope="module")
def own_memory():
    """IN_OWN_MEMORY, if mounting is permitted."""
    try:
        may = subprocess.run([*IN_OWN_MEMORY, "true"], capture_output=True, timeout=180, check=False).returncode == 0
    except FileNotFoundError:
        may = False
    return IN_OWN_MEMORY if may else []


@pytest.fixture
def seed():
    value = int(os.environ.get("ONESPACE_SEED", random.randrange(1 << 32)))
    print(f"ONESPACE_SEED={value}")
    return value


@pytest.mark.parametrize("way", WAYS)
def test_killed_while_synchronising(job, guests, stock_mpi, kind, way, own_memory, tmp_path, seed):
    chance = random.Random(seed)
    layout, size, hints = WAYS[way]
    guest = guests.mpi(stock_mpi, "mpi_storage_killed")
    journal = tmp_path / "journal"

    def words(rounds):
        program = [*stock_mpi.prefix(kind), guest, tmp_path / "data", journal, layout, size, rounds, *hints]
        return [*own_memory, *stock_mpi.command(RANKS, program)]

    for _ in range(KILLS):
        command = job.start(words(ENDLESS), env=stock_mpi.env)
        processes = wait_for_rounds(command, journal, chance.randrange(1, 12))
        time.sleep(chance.random() * 0.02)
        os.kill(chance.choice(processes), signal.SIGKILL)
        result = command.finish()
        assert result.code != 0 and "wrong" not in result.out and "left in" not in result.out, str(result)
    result = job.run(words(0), env=stock_mpi.env)
    assert result.code == 0 and result.lines == none_wrong(RANKS), str(result)
