"""bench/applications/memory.py: how much memory a job takes: the peak of the sum of Pss over its address spaces.

Pss divides a page by the number of its mappings, so the sum counts each page once that only the job maps, also where
several processes share it. All tasks of a space have one address space, which counts once. The processes of a job are
found by a variable in their environment; those that have it are the ranks and, with tasks, the shims and the host."""
import os
import threading
import time

import onespace_bench as ob
from onespace_memory import address_spaces

MARK = "ONESPACE_BENCH_JOB"
INTERVAL_S = 0.02


def read(pid, name):
    """b'' when the process has ended, is the kernel's, or is another user's."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def processes():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def pss(pid):
    """Bytes."""
    for line in read(pid, "smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return 0


class Peak:
    """Watches a job while the with statement's body runs it: see `environment` and `bytes`."""

    def __init__(self):
        self.job = f"{os.getpid()}-{time.monotonic_ns()}"
        self.environment = {MARK: self.job}
        self.bytes = 0
        self.failure = None
        self.others = set(processes())  # since before the job, so not of it
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        if self.failure:
            raise self.failure

    def watch(self):
        try:
            while not self.ended.wait(INTERVAL_S):
                self.bytes = max(self.bytes, self.now())
        except ob.Failure as failure:
            self.failure = failure

    def now(self):
        mark = f"{MARK}={self.job}\0".encode()
        pids = [pid for pid in processes() if pid not in self.others and mark in read(pid, "environ")]
        return sum(pss(pid) for pid in address_spaces(pids))
