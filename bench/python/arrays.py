"""bench/python/arrays.py: the cost of sharing a Python array, whatever its size.

  arrays.py tasks|processes BYTES

tasks: the root exports the array, and a task imports it. processes: multiprocessing.shared_memory, with the array
already in it. Both first write the array, then read one element of each page. Prints "KIND BYTES SECONDS", and
"memory BYTES ADDED": the growth of resident memory and page tables in bytes by importing and reading the array."""
import multiprocessing
import os
import sys
import time
from multiprocessing import shared_memory

import numpy as np

WAY, BYTES = sys.argv[1], int(sys.argv[2])
REPEATS, PAGE_WORDS = 300, 512


def report(kind, *values):
    for value in values:
        print(f"{kind} {BYTES} {value:.9f}")
    sys.stdout.flush()


def timed(function, *arguments):
    start = time.perf_counter_ns()
    result = function(*arguments)
    return result, (time.perf_counter_ns() - start) * 1e-9


def memory_bytes():
    with open("/proc/self/status", encoding="ascii") as file:
        found = dict(line.split(":", 1) for line in file)
    return sum(int(found[name].split()[0]) * 1024 for name in ("VmRSS", "VmPTE"))


def report_memory_of(make):
    """The memory added by reading all of the array that `make` returns."""
    assert np.ones(PAGE_WORDS)[::PAGE_WORDS].sum() == 1  # NumPy has allocated what it needs
    before = memory_bytes()
    array = make()
    assert array[::PAGE_WORDS].sum() == array.size // PAGE_WORDS
    report("memory", max(0, memory_bytes() - before))
    return array


def root():
    import onespace
    array = np.ones(BYTES // 8, np.int64)
    onespace.export("other", np.zeros(1)).close()
    costs = []
    for _ in range(REPEATS):
        made, seconds = timed(onespace.export, "array", array)
        costs.append((seconds, timed(made.close)[1]))
    report("export", *(cost[0] for cost in costs))
    report("close", *(cost[1] for cost in costs))
    with onespace.export("array", array), onespace.spawn_python(*sys.argv, "task") as task:
        return task.wait()


def task():
    import onespace
    onespace.init()
    first, seconds = timed(onespace.import_array, onespace.ROOT, "array")
    report("first", seconds)
    del first
    report("import", *(timed(onespace.import_array, onespace.ROOT, "array")[1] for _ in range(REPEATS)))
    with onespace.attach(onespace.ROOT, "array") as view:
        report("dlpack", *(timed(np.from_dlpack, view)[1] for _ in range(REPEATS)))
    report_memory_of(lambda: onespace.import_array(onespace.ROOT, "array"))


def attach(name):
    segment = shared_memory.SharedMemory(name=name)
    return segment, np.ndarray(BYTES // 8, np.int64, segment.buf)


def process(name):
    kept, seconds = timed(attach, name)
    report("first", seconds)
    costs = []
    for _ in range(REPEATS):
        (segment, array), seconds = timed(attach, name)
        costs.append(seconds)
        del array
        segment.close()
    report("import", *costs)
    report_memory_of(lambda: kept[1])
    sys.stdout.flush()
    os._exit(0)  # collecting a segment while arrays refer to it prints an error


def run_processes():
    segment = shared_memory.SharedMemory(create=True, size=BYTES)
    try:
        np.ndarray(BYTES // 8, np.int64, segment.buf)[:] = 1
        side = multiprocessing.get_context("spawn").Process(target=process, args=(segment.name,))
        side.start()
        side.join()
        return abs(side.exitcode)
    finally:
        segment.close()
        segment.unlink()


if __name__ == "__main__":
    if len(sys.argv) > 3:
        task()
    else:
        sys.exit(root() if WAY == "tasks" else run_processes())
