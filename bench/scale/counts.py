"""bench/scale/counts.py: what a job whose ranks wait at a point takes of the node: mappings, page tables, page faults,
descriptors, memory. An address space counts once, however many ranks are in it."""
import os

import onespace_bench as ob
from onespace_memory import Cost, address_spaces, children, descendants, is_launcher, mappings, page_tables, same_memory

PAGE = os.sysconf("SC_PAGE_SIZE")
ENTRY = 8  # bytes, in page tables as in /proc/PID/pagemap
SPAN = PAGE // ENTRY * PAGE  # what the entries of one page of them map: 2 MiB
PRESENT = 0x80  # in an entry's last byte

# {what is counted: its unit}; the host's only of tasks.
UNITS = {"mappings": "count", "descriptors of a rank": "count", "descriptors of the host": "count",
         "page tables": "bytes", "page tables of segments": "bytes", "page faults": "count",
         "memory": "bytes", "private memory": "bytes"}


def count(ranks):
    """{what: number} of the processes of a job, whose ranks these process IDs are."""
    others = [pid for pid in descendants() if pid not in ranks and not is_launcher(pid)]
    cost, found = Cost(), dict.fromkeys(UNITS, 0)
    for pid in address_spaces([*ranks, *others]):
        its_mappings, its_tables = mappings(pid), page_tables(pid)
        cost.add(its_mappings, its_tables)
        found["page tables"] += its_tables * 1024
        if pid in ranks:
            found["mappings"] += len(its_mappings)
            found["private memory"] += sum(one.kib("Anonymous") for one in its_mappings) * 1024
            found["page tables of segments"] += segment_tables(pid, its_mappings)
    found["memory"] = cost.bytes()
    found["page faults"] = sum(minor_faults(pid) for pid in ranks)
    found["descriptors of a rank"] = max(descriptors(pid) for pid in ranks)
    host = host_of(ranks[0], others)
    found["descriptors of the host"] = descriptors(host) if host else None
    return {what: value for what, value in found.items() if value is not None}


def host_of(rank, others):
    """The process in a task's address space that started the others there, or None: then the rank is a process."""
    together = [pid for pid in others if same_memory(pid, rank)]
    started = {child for pid in together for child in children(pid)}
    return next((pid for pid in together if pid not in started), None)


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def minor_faults(pid):
    """Of all threads of the process, so far: those that read nothing from a disk."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        return int(file.read().rpartition(")")[2].split()[7])


def is_segment(mapping):
    """Of shared memory that ranks communicate through. The other shared mappings are the files on disk in which Open
    MPI's launcher keeps what ranks look up, and a page of the kernel's or of onespace's code."""
    return mapping.permissions[3] == "s" and mapping.name.startswith(("/dev/shm/", "/SYSV", "/memfd:"))


def segment_tables(pid, its_mappings):
    """Bytes of page tables that hold an entry for a page of a segment; those of higher levels are few."""
    found = set()
    try:
        with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
            for one in its_mappings:
                if is_segment(one) and one.kib("Rss"):
                    found |= tables_with_entries(pagemap, one.low, one.high)
    except PermissionError:
        raise ob.Failure(f"cannot read /proc/{pid}/pagemap, which tells the page tables of segments: run as the user "
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
