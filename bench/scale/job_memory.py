"""bench/scale/job_memory.py: what a job takes of the node: the mappings, page tables, page faults, descriptors and
memory of its processes while its ranks wait, and whether more ranks would fit. An address space counts once, however
many ranks are in it."""
import os
import resource

import onespace_bench as ob
from onespace_bench import MIB
from onespace_memory import Cost, address_spaces, children, descendants, is_launcher, mappings, page_tables, same_memory

PAGE = os.sysconf("SC_PAGE_SIZE")
ENTRY = 8  # bytes, in page tables as in /proc/PID/pagemap
SPAN = PAGE // ENTRY * PAGE  # mapped by one page of entries: 2 MiB
PRESENT = 0x80  # in an entry's last byte

# {quantity: unit}; that of the host exists for tasks only.
UNITS = {"mappings": "count", "descriptors of a rank": "count", "descriptors of the host": "count",
         "page tables": "bytes", "page tables of segments": "bytes", "page faults": "count",
         "memory": "bytes", "private memory": "bytes"}

RANK_BYTES = 12 * MIB       # estimate before any job was measured
GROWTH_MARGIN = 1.25        # for what grows faster than the ranks
LAUNCHER_DESCRIPTORS, OTHER_DESCRIPTORS = 4, 16  # of a launcher: for each rank, and besides


def count(ranks):
    """{quantity: number} of the processes of a job; ranks: the process IDs of its ranks."""
    others = [pid for pid in descendants() if pid not in ranks and not is_launcher(pid)]
    cost, found = Cost(), dict.fromkeys(UNITS, 0)
    for pid in address_spaces([*ranks, *others]):
        its_mappings, its_tables = mappings(pid), page_tables(pid)
        cost.add(its_mappings, its_tables)
        found["page tables"] += its_tables * 1024
        if pid in ranks:
            found["mappings"] += len(its_mappings)
            found["private memory"] += sum(mapping.kib("Anonymous") for mapping in its_mappings) * 1024
            found["page tables of segments"] += segment_tables(pid, its_mappings)
    found["memory"] = cost.bytes()
    found["page faults"] = sum(minor_faults(pid) for pid in ranks)
    found["descriptors of a rank"] = max(descriptors(pid) for pid in ranks)
    host = host_of(ranks[0], others)
    found["descriptors of the host"] = descriptors(host) if host else None
    return {what: value for what, value in found.items() if value is not None}


def host_of(rank, others):
    """The process in a task's address space that started the others there, or None if the rank is a process."""
    in_space = [pid for pid in others if same_memory(pid, rank)]
    started = {child for pid in in_space for child in children(pid)}
    return next((pid for pid in in_space if pid not in started), None)


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def minor_faults(pid):
    """Page faults without disk I/O, of all threads of the process."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        return int(file.read().rpartition(")")[2].split()[7])


def is_segment(mapping):
    """Whether ranks communicate through it. The other shared mappings are the files on disk in which Open MPI's
    launcher publishes addresses, and a page of the kernel's or of onespace's code."""
    return mapping.permissions[3] == "s" and mapping.name.startswith(("/dev/shm/", "/SYSV", "/memfd:"))


def segment_tables(pid, its_mappings):
    """Bytes of page tables that hold an entry for a page of a segment; those of higher levels are few."""
    found = set()
    try:
        with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
            for mapping in its_mappings:
                if is_segment(mapping) and mapping.kib("Rss"):
                    found |= tables_with_entries(pagemap, mapping.low, mapping.high)
    except PermissionError:
        raise ob.Failure(f"cannot read /proc/{pid}/pagemap, which shows the page tables of segments: run as the user "
                         "of the processes, without a security module that forbids it") from None
    return len(found) * PAGE


def tables_with_entries(pagemap, low, high):
    found = set()
    for table in range(low // SPAN, (high - 1) // SPAN + 1):
        start, end = max(low, table * SPAN), min(high, (table + 1) * SPAN)
        entries = os.pread(pagemap.fileno(), (end - start) // PAGE * ENTRY, start // PAGE * ENTRY)
        if max(entries[ENTRY - 1::ENTRY], default=0) & PRESENT:
            found.add(table)
    return found


def too_many(ranks, way, largest=None):
    """Why `ranks` do not fit as processes or tasks, or None. largest: the largest measured job of this kind, as (ranks,
    bytes, mappings)."""
    growth = ranks / largest[0] if largest else 0
    needed = max(ranks * RANK_BYTES, GROWTH_MARGIN * growth * largest[1] if largest else 0)
    if needed > available():
        return (f"they take about {needed / MIB:,.0f} MiB, and {available() / MIB:,.0f} MiB of memory are available: "
                "use a node with more, or end other programs")
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptors_needed = ranks * LAUNCHER_DESCRIPTORS + OTHER_DESCRIPTORS
    if limit != resource.RLIM_INFINITY and descriptors_needed > limit:
        return (f"their launcher opens about {descriptors_needed:,} descriptors, and `ulimit -n` is {limit:,}: "
                "raise it")
    mappings_needed = growth * largest[2] if largest else 0
    with open("/proc/sys/vm/max_map_count", encoding="ascii") as file:
        maximum = int(file.read())
    if way != "processes" and mappings_needed > maximum:
        return (f"their address space has about {mappings_needed:,.0f} mappings, and vm.max_map_count is {maximum:,}: "
                "raise it (sysctl -w)")
    return None


def available():
    """Bytes."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) * 1024
