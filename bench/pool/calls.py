"""bench/pool/calls.py: what a call costs in a pool with one worker.

  calls.py onespace|processes|loky CALLS BYTES[,BYTES]

Prints "OPERATION X SECONDS" for each call: empty (X 0), and with an array of X bytes: argument, which the worker reads
one element of; result, which the worker has made before; both, in and out. "memory X BYTES": what a result that came
in and went out adds to the memory of all processes while it is used."""
import os
import sys
import time

import numpy as np

WAY, CALLS, SIZES = sys.argv[1], int(sys.argv[2]), [int(word) for word in sys.argv[3].split(",")]
MUCH = 16 << 20  # bytes: few calls
made = {}


def nothing():
    pass


def same(array):
    return array


def last(array):
    return int(array[-1])


def result(size):
    if size not in made:
        made.clear()
        made[size] = np.ones(size // 8, np.int64)
    return made[size]


def executor():
    if WAY == "onespace":
        import onespace
        return onespace.Executor(1)
    if WAY == "loky":
        import loky
        return loky.ProcessPoolExecutor(1)
    import concurrent.futures
    import multiprocessing
    return concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


def used(pids):
    """Bytes of memory, each page counted once; tasks have one address space, so that one of them has it all."""
    total = 0
    for pid in pids[:1] if WAY == "onespace" else pids:
        with open(f"/proc/{pid}/smaps_rollup") as rollup:
            total += next(int(line.split()[1]) << 10 for line in rollup if line.startswith("Pss:"))
    return total


def measure(name, size, count, call):
    for i in range(count + 1):
        begin = time.perf_counter()
        call()
        if i > 0:  # the first touches memory
            print(f"{name} {size} {time.perf_counter() - begin:.9f}", flush=True)


def main():
    with executor() as pool:
        pids = [os.getpid(), pool.submit(os.getpid).result()]
        for _ in range(20):
            pool.submit(nothing).result()
        measure("empty", 0, CALLS, lambda: pool.submit(nothing).result())
        for size in SIZES:
            count = max(1, CALLS // 100) if size >= MUCH else max(1, CALLS // 10)
            array = np.ones(size // 8, np.int64)
            measure("argument", size, count, lambda a=array: pool.submit(last, a).result())
            measure("result", size, count, lambda s=size: pool.submit(result, s).result())
            measure("both", size, count, lambda a=array: pool.submit(same, a).result())
            pool.submit(result, 8).result()
            before = used(pids)
            kept = pool.submit(same, array).result()
            last(kept)
            print(f"memory {size} {max(0, used(pids) - before)}", flush=True)
            del kept, array


if __name__ == "__main__":
    main()
