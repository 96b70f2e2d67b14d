"""bench/storage/places.py: where windows on storage are: on the disk, and on a fast device, which is XFS on a loop
device whose file is in memory. The write rate of each, and the kernel's settings for dirty pages."""
import contextlib
import mmap
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import onespace_bench as ob

MIB = 1 << 20
IN_NAMESPACE = "ONESPACE_BENCH_STORAGE_MOUNTS"  # set in the process that has its own mounts
DIRTY = ["dirty_background_ratio", "dirty_ratio", "dirty_background_bytes", "dirty_bytes", "dirty_expire_centisecs",
         "dirty_writeback_centisecs"]


class Place:
    """A directory for windows, and the block device below it."""

    def __init__(self, name, directory):
        self.name, self.directory = name, pathlib.Path(directory)
        self.free = self.free_bytes()
        self.kind = kind_of(directory)
        number = os.stat(directory).st_dev
        self.device = pathlib.Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")

    def statistics(self):
        """The options that make the programs count what the device writes; without such a file they count the bytes
        that they dirty themselves."""
        return ["-D", self.device / "stat"] if (self.device / "stat").exists() else []

    def describe(self):
        return f"{self.name}: {self.kind} on {self.device.resolve().name}"

    def free_bytes(self):
        status = os.statvfs(self.directory)
        return status.f_bavail * status.f_frsize

    def clear(self):
        for path in self.directory.iterdir():
            if path.is_dir():  # versions
                shutil.rmtree(path)
            else:
                path.unlink()
        if self.name == "fast":  # only this program uses it
            self.await_free_space()

    def await_free_space(self):
        """XFS frees removed files later; statvfs makes it begin. Without that the next ones may not find room."""
        deadline = time.monotonic() + 60
        while self.free_bytes() < self.free - 8 * MIB and time.monotonic() < deadline:
            time.sleep(0.01)

    def write_rate(self, size):
        """Bytes per second until all is on the device: the faster of direct I/O and buffered writes."""
        rates = []
        for measure in (direct_rate, cached_rate):
            rates.append(measure(self.directory / "write-rate", size) or 0)
            self.clear()  # XFS reserves room anew for what a file has already
        return max(rates)


def kind_of(directory):
    """The file system's type."""
    found = subprocess.run(["stat", "-f", "-c", "%T", directory], capture_output=True, text=True, check=True)
    mounts = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    number = os.stat(directory).st_dev
    here = f"{os.major(number)}:{os.minor(number)}"
    exact = [line.split(" - ")[1].split()[0] for line in mounts if line.split()[2] == here]
    return exact[-1] if exact else found.stdout.strip()


def write_all(file, size):
    block = mmap.mmap(-1, 8 * MIB)  # aligned, as direct I/O requires
    block.write(os.urandom(MIB) * 8)
    for at in range(0, size, len(block)):
        os.pwrite(file, block, at)


def timed_writes(path, flags, size):
    """Allocates the space beforehand, as for a window."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o600)
    try:
        os.posix_fallocate(file, 0, size)
        os.fsync(file)
        start = time.monotonic()
        write_all(file, size)
        os.fsync(file)
        return size / (time.monotonic() - start)
    finally:
        os.close(file)


def direct_rate(path, size):
    try:
        return timed_writes(path, os.O_DIRECT, size)
    except OSError:  # a file system without direct I/O
        return None


def cached_rate(path, size):
    return timed_writes(path, 0, size)


# ---- The fast device ----

def enter_namespace():
    """Re-executes in a private mount namespace, so that the mounts go with the process however it ends. Root only."""
    if os.geteuid() == 0 and IN_NAMESPACE not in os.environ:
        os.environ[IN_NAMESPACE] = "1"
        probe = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
        if probe.returncode == 0:
            os.execvp("unshare", ["unshare", "-m", sys.executable, *sys.argv])
        os.environ[IN_NAMESPACE] = "0"


def mount_fast(stack, size):
    """Mounts a new file system of about that size and unlinks its image at once; returns the directory. The image is
    fully allocated first: else its pages would be charged to the memory limit of the writers."""
    if os.environ.get(IN_NAMESPACE) != "1":
        raise ob.Failure("the fast device needs root, and mount namespaces")
    base = stack.enter_context(tempfile.TemporaryDirectory(prefix="onespace-fast-"))
    image, directory = f"{base}/memory/image", f"{base}/xfs"
    for name in ("memory", "xfs"):
        os.mkdir(f"{base}/{name}")
    size = max(size, 320 * MIB)  # XFS's minimum
    try:
        run(["mount", "-t", "tmpfs", "-o", f"size={size + 16 * MIB}", "onespace-bench", f"{base}/memory"])
        stack.callback(run, ["umount", f"{base}/memory"])
        run(["fallocate", "-l", str(size), image])
        run(["mkfs.xfs", "-q", image])
        run(["mount", "-o", "loop", image, directory])
        stack.callback(run, ["umount", directory])
        os.unlink(image)
    except (OSError, subprocess.CalledProcessError) as failure:
        raise ob.Failure(f"the fast device cannot be made: {getattr(failure, 'stderr', '') or failure}") from None
    return directory


def run(command):
    subprocess.run(command, capture_output=True, text=True, check=True)


@contextlib.contextmanager
def all_places(names, disk, size, note):
    """{name: Place}; an unavailable place is noted; raises Failure if none is left."""
    with contextlib.ExitStack() as stack:
        found, missing = {}, []
        for name in names:
            try:
                directory = mount_fast(stack, size) if name == "fast" else \
                    stack.enter_context(tempfile.TemporaryDirectory(prefix="onespace-bench-", dir=disk))
                found[name] = Place(name, directory)
                if name == "disk" and found[name].kind in ("tmpfs", "ramfs"):
                    note(f"{disk} is {found[name].kind}, not a disk: name a directory on one with --disk")
            except (ob.Failure, OSError) as failure:
                missing.append(str(failure))
                note(f"without {name}: {failure}")
        if not found:
            raise ob.Failure("; ".join(missing))
        yield found


# ---- Dirty pages ----

def dirty_settings():
    return {name: int(pathlib.Path("/proc/sys/vm", name).read_text()) for name in DIRTY}


def dirty_text():
    settings = dirty_settings()
    parts = []
    for kind in ("dirty_background", "dirty"):
        amount = f"{settings[f'{kind}_bytes'] / MIB:.0f} MiB" if settings[f"{kind}_bytes"] else \
            f"{settings[f'{kind}_ratio']} % of free memory"
        parts.append(f"vm.{kind}: {amount}")
    return (f"{', '.join(parts)}; pages are old after {settings['dirty_expire_centisecs'] / 100:g} s, looked for every "
            f"{settings['dirty_writeback_centisecs'] / 100:g} s")


# ---- The small machine ----

class MemoryLimit:
    """A control group (v1 or v2) with a memory limit, which includes the page cache of its files."""

    def __init__(self, limit):
        parent, names = memory_groups()
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="onespace-bench-", dir=parent))
        self.limit = limit
        try:
            (self.directory / names[0]).write_text(str(limit))
            swap = self.directory / names[1]
            if swap.exists():
                swap.write_text("0" if names[1] == "memory.swap.max" else str(limit))
        except OSError as failure:
            self.close()
            raise ob.Failure(f"no memory limit in {self.directory}: {failure}") from None

    def front(self):
        """The prefix that runs a command in the group."""
        return ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self.directory / "cgroup.procs")]

    def peak(self):
        """Bytes, or None if the kernel does not tell."""
        paths = [self.directory / name for name in ("memory.max_usage_in_bytes", "memory.peak")]
        return next((int(path.read_text()) for path in paths if path.exists()), None)

    def close(self):
        for _ in range(50):  # processes that have just ended leave the group with a delay
            try:
                self.directory.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.1)
        ob.progress(f"note: {self.directory} is left behind")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def memory_groups():
    """The directory in which groups can be created, and the names of its limits."""
    given = os.environ.get("ONESPACE_BENCH_CGROUP")
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        _, directory, kind, options = line.split()[:4]
        if kind == "cgroup" and re.search(r"(^|,)memory(,|$)", options):
            return given or directory, ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
    unified = pathlib.Path(given or "/sys/fs/cgroup")
    if not (unified / "cgroup.controllers").exists():
        raise ob.Failure("no control groups for memory are mounted")
    try:
        if "memory" not in (unified / "cgroup.subtree_control").read_text().split():
            (unified / "cgroup.subtree_control").write_text("+memory")
    except OSError as failure:
        raise ob.Failure(f"{unified} gives no memory limits ({failure}): name a delegated control group without "
                         "processes in ONESPACE_BENCH_CGROUP") from None
    return unified, ("memory.max", "memory.swap.max")
