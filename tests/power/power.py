"""tests/power/power.py: file systems on a disk whose writes and flushes are recorded (blockdisk.c), and
what such a disk holds when its power goes.

A disk may keep what it was told in its own memory until it is flushed. So when the power goes it holds all
writes that stand before the last flush, and of the later ones any."""
import contextlib
import ctypes
import functools
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import time

LONG = os.environ.get("ONESPACE_LONG") == "1"
SEED = int(os.environ.get("ONESPACE_SEED", time.time_ns() % 1000000))
BUILD = pathlib.Path(__file__).resolve().parents[2] / "build"
BLOCKDISK = BUILD / "tests/power/blockdisk"
CREW = BUILD / "tests/storage/versions/versions-crew"
ENTRY = struct.Struct("<IIQ")  # struct trace_entry
WRITE, FLUSH, MARK = 1, 2, 3
# Small, as both allow; without what wants time at each mount.
FILE_SYSTEMS = {"ext4": ("64M", ["-q", "-E", "lazy_itable_init=0,lazy_journal_init=0"]),
                "xfs": ("300M", ["-q"])}


def missing(file_system):
    """What this machine lacks for these tests, or None."""
    if os.geteuid() != 0:
        return "mounting needs root"
    if not BLOCKDISK.exists():
        return "blockdisk was not built (libfuse3-dev)"
    for path in ("/dev/fuse", "/dev/loop-control"):
        if not os.path.exists(path):
            return f"no {path}"
    if not shutil.which(f"mkfs.{file_system}"):
        return f"no mkfs.{file_system}"
    known = pathlib.Path("/proc/filesystems").read_text().split()
    return None if file_system in known else f"the kernel has no {file_system}"


def call(*command, timeout=600):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def crew(path, **options):
    """What a job of tests/storage/versions/crew.cpp did with the file."""
    words = [f"{name}={value}" for name, value in options.items()]
    return json.loads(call(CREW, path, *words))


@functools.cache
def keep_mounts_private():
    """From here on what this process mounts is in no other mount namespace: one that somebody makes meanwhile would
    keep a file system alive that was unmounted here. And whatever is mounted goes when this process ends."""
    new_namespace = 0x00020000  # CLONE_NEWNS
    assert ctypes.CDLL(None, use_errno=True).unshare(new_namespace) == 0, os.strerror(ctypes.get_errno())
    call("mount", "--make-rprivate", "/")


@contextlib.contextmanager
def mounted(disk, directory):
    """The file system on that image, or on a file of blockdisk, through a loop device."""
    directory.mkdir(exist_ok=True)
    call("mount", "-o", "loop", disk, directory)
    try:
        yield directory
    finally:
        call("umount", directory)


class Disk:
    """A fresh file system on a recorded disk."""

    def __init__(self, directory, file_system):
        keep_mounts_private()
        self.directory, self.file_system = directory, file_system
        self.image, self.base, self.trace = directory / "image", directory / "base", directory / "trace"
        self.fuse, self.mount = directory / "fuse", directory / "mount"
        self.disk, self.control = self.fuse / "disk", self.fuse / "control"
        size, options = FILE_SYSTEMS[file_system]
        self.image.unlink(missing_ok=True)  # mkfs.xfs makes none over another
        call("truncate", "-s", size, self.image)
        call(f"mkfs.{file_system}", *options, self.image)
        call("cp", "--sparse=always", self.image, self.base)

    @contextlib.contextmanager
    def powered(self):
        self.fuse.mkdir(exist_ok=True)
        with open(self.directory / "blockdisk.log", "w") as log:
            daemon = subprocess.Popen([BLOCKDISK, self.image, self.trace, self.fuse], stderr=log)
        try:
            end = time.monotonic() + 180
            while not self.disk.exists() and daemon.poll() is None and time.monotonic() < end:
                time.sleep(0.01)
            assert self.disk.exists(), (self.directory / "blockdisk.log").read_text()
            yield self
        finally:
            subprocess.run(["umount", "-l", self.fuse], check=False)
            daemon.wait(timeout=600)

    def tell(self, text):
        self.control.write_text(text)

    def entries(self):
        data = self.trace.read_bytes()
        at = 0
        while at < len(data):
            kind, length, offset = ENTRY.unpack_from(data, at)
            at += ENTRY.size
            yield kind, offset, data[at:at + length]
            at += length


class Replay:
    """What the disk may hold, moment by moment."""

    def __init__(self, disk, seed):
        self.disk = disk
        self.random = random.Random(seed)
        self.durable, self.copy, self.copies = disk.directory / "durable", None, 0
        call("cp", "--sparse=always", disk.base, self.durable)

    def moments(self):
        """Yields (what just happened, number that was committed or synced by then) at each flush and mark; until the
        mark `end`. Between two of them `lose_power` may be called."""
        committed = 0
        self.pending = []
        with open(self.durable, "r+b", buffering=0) as image:
            for kind, offset, data in self.disk.entries():
                if kind == WRITE:
                    self.pending.append((offset, data))
                    continue
                if kind == FLUSH:
                    self._apply(image, self.pending)
                    self.pending = []
                elif data == b"end":
                    return
                elif data.startswith((b"committed ", b"synced ")):
                    committed = int(data.split()[1])
                yield ("flush" if kind == FLUSH else "mark"), committed

    @staticmethod
    def _apply(image, writes):
        for offset, data in writes:
            image.seek(offset)
            image.write(data)

    def lose_power(self, keeps_some=False):
        """An image of what is left; keeps_some: with any of the writes after the last flush. Each is a file of
        its own: a loop device that is still being detached from a file of the same name would be used again,
        with what it remembers of the image before."""
        if self.copy:
            self.copy.unlink()
        self.copies += 1
        self.copy = self.disk.directory / f"copy-{self.copies}"
        call("cp", "--sparse=always", self.durable, self.copy)
        if keeps_some:
            with open(self.copy, "r+b", buffering=0) as image:
                self._apply(image, [write for write in self.pending if self.random.random() < 0.5])
        return self.copy
