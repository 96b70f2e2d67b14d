"""tests/differential/generator.py: random programs for the interpreter in tests/differential/guests/steps.

A program is a list of steps, a step a tuple of an operation and its numbers. Each program uses some families of
operations more than others, chosen at random, so that short programs reach deep states of a few things."""
import random

# Operation: how likely beside the others of its family, then how its numbers are chosen.
PLACE, SIZE, ANY, ENTRY, COUNT = "place", "size", "any", "entry", "count"
FAMILIES = {
    "memory": {
        "mmap": (8, PLACE, SIZE, ANY, ANY, ANY, ANY), "mmap_file": (5, PLACE, SIZE, ANY, ANY, ANY, ENTRY),
        "mmap_chosen": (4, ENTRY, SIZE, ANY, ANY, ANY, ENTRY), "munmap_chosen": (2, ENTRY),
        "mprotect_chosen": (2, ENTRY, ANY, ANY), "fill_chosen": (2, ENTRY, ANY), "sum_chosen": (2, ENTRY),
        "mremap_chosen": (3, ENTRY, SIZE), "munmap": (5, PLACE, SIZE, ANY), "mprotect": (6, PLACE, SIZE, ANY, ANY),
        "mremap": (7, PLACE, SIZE, SIZE, ANY, PLACE), "madvise": (5, PLACE, SIZE, ANY),
        "msync": (2, PLACE, SIZE, ANY), "mlock": (3, PLACE, SIZE, ANY, ANY), "mincore": (2, PLACE, SIZE),
        "fill": (5, PLACE, SIZE, ANY), "sum": (5, PLACE, SIZE), "load": (4, PLACE, ANY),
        "store": (5, PLACE, ANY, ANY), "vm_copy": (4, PLACE, PLACE, SIZE, ANY, ANY),
        "bad_vector": (2, PLACE, SIZE, ANY), "proc_maps": (0.5, ANY, ANY), "proc_smaps": (0.3, ANY),
    },
    "heap": {
        "brk": (6, ANY, ANY), "sbrk": (6, ANY, ANY), "brk_bad": (1, ANY), "heap_store": (4, ANY, ANY),
        "heap_fill": (4, ANY, ANY), "heap_sum": (3,), "heap_mprotect": (2, ANY, ANY), "heap_munmap": (1, ANY),
        "heap_mmap": (2, ANY, ANY, ANY), "heap_mlock": (1, ANY, ANY), "heap_madvise": (2, ANY, ANY),
        "heap_mremap": (1, ANY, ANY, PLACE), "malloc": (2, ANY, ANY, ANY),
    },
    "shared": {
        "shmget": (2, ENTRY, ANY, ANY), "shmat": (4, ENTRY, ENTRY, ANY, PLACE, ANY), "shmdt": (2, ENTRY, ANY, PLACE),
        "shmctl": (3, ENTRY, ANY), "shm_fill": (2, ENTRY, ANY), "shm_sum": (2, ENTRY), "memfd": (3, ENTRY, ANY, ANY),
        "share": (5, ENTRY, ENTRY, ANY, ANY, ANY), "share_sum": (3, ENTRY), "share_fill": (3, ENTRY, ANY),
        "share_touch": (2, ENTRY, ANY, ANY), "share_munmap": (3, ENTRY, ANY, ANY, ANY),
        "share_mprotect": (2, ENTRY, ANY, ANY, ANY), "share_over": (1, ENTRY, ANY),
        "share_mremap": (3, ENTRY, ANY, ANY), "share_madvise": (1, ENTRY, ANY),
        "mmap_file": (2, PLACE, SIZE, ANY, ANY, ANY, ENTRY), "truncate": (1, ENTRY, ANY, ANY),
    },
    "signals": {
        "sigaction": (10, ANY, ANY, ANY, ANY), "sigaction_raw": (1, ANY, ANY, PLACE, ANY, PLACE, ANY),
        "sigprocmask": (5, ANY, ANY, ANY), "sigpending": (3,), "kill": (8, ANY, ANY, ANY), "sigtimedwait": (3, ANY),
        "sigsuspend": (2, ANY), "sigaltstack": (4, ANY, ANY), "signalfd": (2, ENTRY, ANY, ANY),
        "signalfd_read": (2, ENTRY), "interrupted": (0.3, ANY, ANY), "timer": (0.5, ANY, ANY), "alarm": (1, ANY),
        "fatal_fault": (0.7, ANY, ANY, ANY, ANY), "load": (3, PLACE, ANY), "store": (3, PLACE, ANY, ANY),
    },
    "threads": {
        "thread": (4, COUNT, ANY, ANY), "cancel": (2, ANY), "detached": (2,), "noise": (0.2,), "stack": (1,),
        "tls": (3, ANY), "futex": (2, ANY, PLACE), "robust_list": (1,),
    },
    "processes": {
        "fork": (4, COUNT, ANY, ANY), "vfork": (2, COUNT, ANY, ANY), "posix_spawn": (2, COUNT, ANY),
        "exec_bad": (3, ANY, ENTRY), "wait_none": (2, ANY), "stop": (1, ANY, ANY), "waitid": (1, ANY),
        "pidfd": (1, ANY), "process_numbers": (2,), "session": (1, ANY), "orphan": (0.5, ANY),
    },
    "descriptors": {
        "open": (6, ENTRY, ANY, ANY, ANY), "open_bad": (1, ANY, ENTRY), "pipe": (3, ENTRY, ANY, ANY),
        "socketpair": (2, ENTRY, ANY, ANY), "memfd": (2, ENTRY, ANY, ANY), "eventfd": (2, ENTRY, ANY, ANY),
        "epoll": (2, ENTRY, ANY), "inotify": (1, ENTRY, ANY), "timerfd": (0.5, ANY, ANY), "close": (3, ENTRY),
        "dup": (4, ENTRY, ENTRY, ANY, ANY), "close_range": (1, ANY, ANY, ANY), "fcntl": (5, ENTRY, ANY, ANY),
        "read": (5, ENTRY, ANY, ANY, PLACE), "write": (6, ENTRY, ANY, ANY, ANY, PLACE),
        "pread": (2, ENTRY, ANY, ANY, ANY), "seek": (2, ENTRY, ANY, ANY), "truncate": (2, ENTRY, ANY, ANY),
        "fallocate": (1, ENTRY, ANY, ANY, ANY), "sendfile": (2, ENTRY, ENTRY, ANY, ANY),
        "vmsplice": (1, ENTRY, PLACE, ANY), "fstat": (2, ENTRY), "ioctl": (1, ENTRY, ANY), "flock": (1, ENTRY, ANY),
        "send_descriptor": (1, ENTRY, ENTRY), "poll": (2, ENTRY, ENTRY, ENTRY, ENTRY),
        "epoll_ctl": (3, ENTRY, ENTRY, ANY, ANY), "epoll_wait": (2, ENTRY, ANY), "proc_descriptors": (0.5,),
        "proc_fdinfo": (1, ENTRY),
    },
    "files": {
        "open": (3, ENTRY, ANY, ANY, ANY), "mkdir": (2, ANY, ANY), "unlink": (2, ANY), "rename": (2, ANY, ANY),
        "symlink": (2, ANY, ANY, ANY), "chdir": (2, ANY), "umask": (2, ANY), "access": (2, ANY, ANY),
        "stat": (2, ANY), "readlink": (3, ANY, ANY, ANY), "exe": (1, ANY),
    },
    "limits": {
        "getrlimit": (3, ANY, ANY), "setrlimit": (2, ANY, ANY), "priority": (1, ANY, ANY), "sched": (2, ANY, ANY),
        "prctl": (4, ANY, ANY), "futex": (2, ANY, PLACE), "robust_list": (1,), "unknown": (1, ANY),
        "uname": (1, ANY), "clock": (1, ANY), "usage": (1, ANY), "groups": (1, ANY), "proc_file": (2, ANY),
        "proc_status": (2, ANY),
    },
}
MOST_ARGUMENTS = 65535


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)
        # A few pages of one arena, and a few descriptors, that most steps are about.
        first = self.random.randrange(128)
        self.places = [min(127, first + i) for i in range(self.random.choice((4, 8, 24)))]
        self.entries = self.random.choice((3, 6, 16))
        families = list(FAMILIES)
        chosen = self.random.sample(families, self.random.choice((1, 2, 3, len(families))))
        self.weights = [8 if family in chosen else 1 for family in families]
        self.families = families

    def number(self, kind):
        pick = self.random
        if kind == PLACE:
            return pick.choice(self.places) if pick.random() < 0.9 else pick.randrange(128)
        if kind == SIZE:
            return pick.randrange(1, 6) if pick.random() < 0.8 else pick.randrange(32)
        if kind == ENTRY:
            return pick.randrange(self.entries)
        if kind == COUNT:
            return pick.randrange(12) if pick.random() < 0.9 else pick.randrange(31)
        # Most tables have few entries: their order, and combinations of flags, are in small numbers.
        return pick.randrange(64) if pick.random() < 0.5 else pick.randrange(MOST_ARGUMENTS + 1)

    def step(self):
        family = FAMILIES[self.random.choices(self.families, self.weights)[0]]
        operation, = self.random.choices(list(family), [entry[0] for entry in family.values()])
        return (operation, *(self.number(kind) for kind in family[operation][1:]))

    def program(self, length):
        steps = [self.step() for _ in range(length)]
        # How the program ends is a step, too. A child's last steps may be an end as well.
        for i, step in enumerate(steps):
            if step[0] == "fork" and self.random.random() < 0.2 and i + step[1] % 32 + 1 < length:
                steps[i + step[1] % 32 + 1] = ("exit", self.number(ANY), self.number(ANY))
        end = self.random.random()
        if end < 0.1:
            steps[-5:-5] = [("exec",)]
        elif end < 0.3:
            steps.append(("exit", self.number(ANY), self.number(ANY)))
        return steps


def generate(seed, length):
    return Generator(seed).program(length)


def write(steps, note=""):
    lines = [f"# {line}" for line in note.splitlines()]
    return "\n".join([*lines, *(" ".join(map(str, step)) for step in steps)]) + "\n"


def read(text):
    steps = []
    for line in text.splitlines():
        words = line.split()
        if words and words[0] != "#":
            steps.append((words[0], *map(int, words[1:])))
    return steps
