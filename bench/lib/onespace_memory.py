"""bench/lib/onespace_memory.py: what the processes of a job cost in memory.

The cost counts every page once: anonymous and shared memory by its proportional set size (Pss); of each part of a file
what that mapping has that has most of it, since Pss would depend on what else runs and maps the file (the interpreter
of a benchmark, for one). Page tables are added. An address space counts once, however many tasks are in it. Host and
shims of onespace are included, the MPI's launcher and its daemons are not."""
import ctypes
import dataclasses
import errno
import os
import pathlib
import platform

import onespace_bench as ob

LAUNCHERS = {"mpiexec", "mpirun", "orterun", "orted", "prterun", "prted", "mpiexec.openmpi", "mpirun.openmpi",
             "mpiexec.hydra", "hydra_pmi_proxy"}
KCMP_VM = 1
KCMP = {"x86_64": 312, "aarch64": 272}
PR_SET_CHILD_SUBREAPER = 36
libc = ctypes.CDLL(None, use_errno=True)


# ---- Processes ----

def adopt_descendants():
    """The host of a space leaves its parent: it becomes a child of this process, and so is found."""
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise ob.Failure("prctl(PR_SET_CHILD_SUBREAPER) failed")


def children(pid):
    found = []
    for thread in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, thread.read_text().split())
        except OSError:
            pass
    return found


def descendants():
    """Of this process."""
    left, found = children(os.getpid()), []
    while left:
        found.append(left.pop())
        left += children(found[-1])
    return found


def is_launcher(pid):
    """True also when it has ended."""
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")) in LAUNCHERS
    except OSError:
        return True


def same_memory(one, other):
    """False when one of them has ended."""
    answer = libc.syscall(KCMP[platform.machine()], one, other, KCMP_VM, 0, 0)
    if answer < 0 and ctypes.get_errno() != errno.ESRCH:
        raise ob.Failure(f"cannot tell which processes share their memory: kcmp: {os.strerror(ctypes.get_errno())}; "
                         "allow it in the container, or run as the user of the processes")
    return answer == 0


def address_spaces(pids):
    """Of each the first process that is in it."""
    found = []
    for pid in pids:
        if not any(same_memory(pid, other) for other in found):
            found.append(pid)
    return found


# ---- An address space ----

@dataclasses.dataclass
class Mapping:
    low: int
    high: int
    permissions: str
    name: str       # of the file, or what the kernel calls it
    part: tuple     # of a file on disk: device, inode, from, to; None: Pss is exact
    sizes: dict = dataclasses.field(default_factory=dict)  # {field: KiB}

    @classmethod
    def of(cls, words):
        low, high = (int(address, 16) for address in words[0].split("-"))
        name = words[5].rstrip("\n") if len(words) > 5 else ""
        is_file = int(words[4]) != 0 and not name.startswith(("/memfd:", "/dev/", "/SYSV"))
        start = int(words[2], 16)
        return cls(low, high, words[1], name, (words[3], words[4], start, start + high - low) if is_file else None)

    def kib(self, field):
        return self.sizes.get(field, 0)


def mappings(pid):
    found = []
    with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            words = line.split(None, 5)
            if not words[0].endswith(":"):
                found.append(Mapping.of(words))
            elif words[-1] == "kB":
                found[-1].sizes[words[0][:-1]] = int(words[1])
    return found


def page_tables(pid):
    """KiB, of all levels."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as lines:
        return next((int(line.split()[1]) for line in lines if line.startswith("VmPTE:")), 0)


# ---- The cost ----

class Cost:
    """Of address spaces that are added one by one."""

    def __init__(self):
        self.kib = 0     # anonymous and shared memory, page tables
        self.files = {}  # {part: KiB}

    def add(self, its_mappings, its_page_tables):
        self.kib += its_page_tables
        for one in its_mappings:
            anonymous = one.kib("Anonymous")
            if one.part:
                self.files[one.part] = max(self.files.get(one.part, 0), one.kib("Rss") - anonymous)
            self.kib += anonymous if one.part else one.kib("Pss")

    def bytes(self):
        return (self.kib + of_files(self.files)) * 1024


def of_files(parts):
    """KiB. Tasks map a library's whole extent, processes its segments: of a part and those that it overlaps counts what
    is more."""
    tops = {}
    for (*file, start, end), kib in sorted(parts.items(), key=lambda item: item[0][2] - item[0][3]):
        top = next((top for top in tops.setdefault(tuple(file), []) if start < top["end"] and end > top["start"]), None)
        if top:
            top["inner"] += kib
        else:
            tops[tuple(file)].append({"start": start, "end": end, "outer": kib, "inner": 0})
    return sum(max(top["outer"], top["inner"]) for file in tops.values() for top in file)


def cost():
    """Bytes of all descendants: what ends meanwhile is left out."""
    total, spaces = Cost(), []
    for pid in descendants():
        if is_launcher(pid) or any(same_memory(pid, other) for other in spaces):
            continue
        try:
            total.add(mappings(pid), page_tables(pid))
            spaces.append(pid)  # not of one that has ended: others may be in its address space
        except OSError:
            pass
    return total.bytes()
