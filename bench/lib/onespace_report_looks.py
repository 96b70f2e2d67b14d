"""bench/lib/onespace_report_looks.py: how the results of each benchmark are laid out as figures: which parts of a
series' name tell the curves of one figure from each other (all other parts name the figure), and what x is."""
import dataclasses
import os
import re

WAYS = ("tasks", "processes", "threads")
BYTES, COUNTS, NAMES = "bytes", "counts", "names"


@dataclasses.dataclass(frozen=True)
class X:
    label: str
    kind: str = COUNTS  # counts; bytes, written as 4 KiB; names, to which x is the index
    names: tuple = ()


@dataclasses.dataclass(frozen=True)
class Look:
    curves: tuple                                     # which parts of a name, from 0
    x: X
    others: dict = dataclasses.field(default_factory=dict)  # by a part of the name: another X
    peers: tuple = (("processes", "tasks"),)  # (theirs, ours): parts of names whose times are compared
    headline: float = 0                       # the x that the summary speaks of; 0: the largest

    def x_of(self, parts):
        return next((self.others[part] for part in parts if part in self.others), self.x)


SIZES, RANKS = X("message size", BYTES), X("ranks")
LOOPS = X("", NAMES, ("2 M small malloc/free", "300 k mixed, 0.1-100 KB", "64 MiB malloc, touch, free x20",
                      "realloc growth to 32 MiB x20", "mmap 64 KiB, touch, munmap x20,000"))
XPMEM = X("", NAMES, ("xpmem_make", "xpmem_get", "xpmem_attach", "xpmem_detach", "xpmem_release", "xpmem_remove",
                      "make to release"))
SHM = X("", NAMES, ("shm_open", "ftruncate", "mmap", "close", "shm_open, receiver", "mmap, receiver",
                    "close, receiver", "munmap, receiver"))
# Of the names MPI/WAY/PLACE/METHOD/WHAT.
STORAGE_POINTS, STORAGE_CURVES = (2, 3), (3,)

WAY_PEERS = ("processes", "tasks")
COPIED = "shared_memory, copied in and out"

LOOKS = {
    "applications": Look((2,), RANKS),
    "configurations": Look((0,), SIZES, peers=(("Shmem", "PiP-Shmem"), ("Shmem", "PiP-XPMEM"), ("XPMEM", "PiP-XPMEM"),
                                               ("CMA, stock", "CMA, stock, tasks"))),
    "ghost": Look((3,), X("points of the mesh"), peers=(WAY_PEERS, ("persistent", "sync"))),
    "handover": Look((0,), X("bytes each way", BYTES)),
    "heap": Look((0,), LOOPS, {"processes faults": LOOPS, "tasks faults": LOOPS,
                                "processes resident": X(""), "tasks resident": X("")}),
    "mappings": Look((1,), X("size of a step", BYTES), peers=(WAY_PEERS, ("threads", "tasks"))),
    "memory": Look((1,), X("point of the program")),
    "messagerate": Look((1,), X("pairs"), peers=(WAY_PEERS, ("threads", "tasks"))),
    "miniapps": Look((2, 3), RANKS, {"messages": SIZES}),
    "p2p": Look((2,), SIZES, headline=1 << 20),
    "pagetables": Look((0,), X("workers")),
    "python-arrays": Look((1,), X("size", BYTES)),
    "python-handover": Look((0,), X("size", BYTES), peers=((COPIED, "channel"), (COPIED, "imported array and a flag"))),
    "python-starts": Look((1,), X("interpreters at once")),
    "scale": Look((2,), RANKS),
    "solvers": Look((3,), X("points along an edge"), peers=(WAY_PEERS, ("processes", "ours"))),
    "spawn": Look((0,), X("alive at once"), peers=(("posix_spawn", "tasks"), ("fork and exec", "tasks"))),
    "startup": Look((1,), RANKS),
    "storage-commits": Look(STORAGE_POINTS, X("per cent of the pages"), peers=(("mmap", "storage"),)),
    "storage-dht": Look(STORAGE_CURVES, X("slots"), peers=(("memory", "storage"), ("mmap", "storage"))),
    "storage-hacc": Look(STORAGE_POINTS, X("particles"), peers=(("collective", "storage"), ("independent", "storage"))),
    "storage-mapreduce": Look(STORAGE_POINTS, RANKS, peers=(("two-sided", "one-sided-storage"),)),
    "storage-mstream": Look(STORAGE_POINTS, X("bytes", BYTES), peers=(("memory", "storage"), ("mmap", "storage"))),
    "storage-rma": Look(STORAGE_CURVES, X("bytes", BYTES), peers=(("memory", "storage"),)),
    "storage-scattered": Look(STORAGE_POINTS, X("stores"), peers=(("mmap", "storage"),)),
    "strided": Look((0,), X("offset in the array", BYTES), peers=(WAY_PEERS, ("threads", "tasks"))),
    "sync": Look((1, 3), RANKS, {"dot": X("floats per rank")}, (WAY_PEERS, ("MPI", "sync"))),
    "windows": Look((2,), X("bytes per rank", BYTES), {
        name: RANKS for name in ("stencil-faults", "stencil-loop", "touched-faults", "touched-loop", "clear")}),
    "xpmem": Look((0, 1), XPMEM, {"shm": SHM}, (("module", "tasks"),)),
}


def look_of(stem, result):
    """By the file's name (p2p-fresh is p2p too), else by the command that wrote it, else a guess."""
    made_by = re.search(r"(?:^|[\s/])([\w-]+)/run\b", result["command"])
    for name in (stem, os.path.basename(made_by[1]) if made_by else ""):
        words = name.split("-")
        for count in range(len(words), 0, -1):
            look = LOOKS.get("-".join(words[:count]))
            if look and fits(look, result):
                return look
    return guess(result)


def fits(look, result):
    """True if every name has a part for the curves, and every x that is an index has a name."""
    for one in result["series"]:
        parts, x = one["name"].split("/"), look.x_of(one["name"].split("/"))
        if len(parts) <= min(look.curves):
            return False
        if x.kind == NAMES and any(at not in range(len(x.names)) for at in one["x"]):
            return False
    return True


def guess(result):
    """The part with tasks or processes, else the last; x is in bytes if all values are powers of two."""
    names = [one["name"].split("/") for one in result["series"]]
    column = next((i for i in range(min(map(len, names))) if any(parts[i] in WAYS for parts in names)), None)
    values = [x for one in result["series"] for x in one["x"]]
    is_bytes = max(values) >= 4096 and all(x >= 1 and x == int(x) and int(x) & (int(x) - 1) == 0 for x in values)
    return Look((column if column is not None else -1,), X("bytes", BYTES) if is_bytes else X("x"))
