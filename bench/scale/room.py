"""bench/scale/room.py: whether so many ranks fit on this node, judged by what fewer have taken."""
import dataclasses
import resource

MIB = 1 << 20
RANK_BYTES = 12 * MIB       # before any has been measured
MARGIN = 1.25               # for what grows faster than the ranks
LAUNCHER, OWN = 4, 16       # descriptors of a launcher, more than any rank has: for each rank, and else


@dataclasses.dataclass
class Job:
    """What one took that is measured."""
    ranks: int
    memory: float       # bytes
    mappings: float     # of all ranks


def too_many(ranks, way, fewer=None):
    """Why `ranks` do not fit as processes or tasks, or None. fewer: a smaller Job of this kind."""
    growth = ranks / fewer.ranks if fewer else 0
    wanted = max(ranks * RANK_BYTES, MARGIN * growth * fewer.memory if fewer else 0)
    if wanted > available():
        return (f"they take about {wanted / MIB:,.0f} MiB, and {available() / MIB:,.0f} MiB of memory are available: "
                "use a node with more, or end other programs")
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and ranks * LAUNCHER + OWN > limit:
        return (f"their launcher opens about {ranks * LAUNCHER + OWN:,} descriptors, and `ulimit -n` is {limit:,}: "
                "raise it")
    mappings = growth * fewer.mappings if fewer else 0
    if way != "processes" and mappings > max_map_count():
        return (f"their address space has about {mappings:,.0f} mappings, and vm.max_map_count is "
                f"{max_map_count():,}: raise it (sysctl -w)")
    return None


def available():
    """Bytes."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) * 1024


def max_map_count():
    with open("/proc/sys/vm/max_map_count", encoding="ascii") as file:
        return int(file.read())
