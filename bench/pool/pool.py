"""bench/pool/pool.py: what a pool of Python workers costs; WAY is onespace, processes (ProcessPoolExecutor, spawn) or
loky.

  pool.py calls WAY CALLS BYTES[,BYTES]

With one worker, "OPERATION X SECONDS" for each call: empty (X 0), and with an array of X bytes: argument, which the
worker reads one element of; result, which the worker has made before; both, in and out. "memory X BYTES": what a result
that came in and went out adds to the memory of all processes while it is used.

  pool.py starts WAY N[,N] REPEATS

"WAY N SECONDS", per worker, from making a pool until each of its N workers has made a call, and until it is ended.

  pool.py work WAY filter|grid|groupby MIB WORKERS REPEATS

"KIND MIB SECONDS" for each repeat after the first, in which workers start. filter: a smoothing of each image of a
stack, MIB in all. grid: scikit-learn's grid search of a random forest over MIB of features, through joblib. groupby:
pandas' group-by of each of eight frames."""
import os
import sys
import time

import numpy as np

MUCH = 16 << 20  # bytes: few calls
IMAGE = 1024  # elements along each side
made = {}


def executor(way, workers):
    if way == "onespace":
        import onespace
        return onespace.Executor(workers)
    if way == "loky":
        import loky
        return loky.ProcessPoolExecutor(workers)
    import concurrent.futures
    import multiprocessing
    return concurrent.futures.ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


def report(name, x, value):
    print(f"{name} {x} {value:.9f}", flush=True)


def timed(function):
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


# ---- Calls ----

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


def used(way, pids):
    """Bytes of memory, each page counted once; tasks have one address space, so that one of them has it all."""
    total = 0
    for pid in pids[:1] if way == "onespace" else pids:
        with open(f"/proc/{pid}/smaps_rollup") as rollup:
            total += next(int(line.split()[1]) << 10 for line in rollup if line.startswith("Pss:"))
    return total


def measure_call(name, size, count, call):
    call()  # touches memory
    for _ in range(count):
        report(name, size, timed(call))


def calls(way, count, sizes):
    count = int(count)
    with executor(way, 1) as pool:
        pids = [os.getpid(), pool.submit(os.getpid).result()]
        for _ in range(20):
            pool.submit(nothing).result()
        measure_call("empty", 0, count, lambda: pool.submit(nothing).result())
        for size in map(int, sizes.split(",")):
            fewer = max(1, count // 100) if size >= MUCH else max(1, count // 10)
            array = np.ones(size // 8, np.int64)
            measure_call("argument", size, fewer, lambda a=array: pool.submit(last, a).result())
            measure_call("result", size, fewer, lambda s=size: pool.submit(result, s).result())
            measure_call("both", size, fewer, lambda a=array: pool.submit(same, a).result())
            pool.submit(result, 8).result()
            before = used(way, pids)
            kept = pool.submit(same, array).result()
            last(kept)
            report("memory", size, max(0, used(way, pids) - before))
            del kept, array


# ---- Starts ----

def pause(_):
    time.sleep(0.01)  # so that no worker makes the calls of all


def start_and_end(way, workers):
    with executor(way, workers) as pool:
        list(pool.map(pause, range(workers)))


def starts(way, counts, repeats):
    for workers in map(int, counts.split(",")):
        for _ in range(int(repeats)):
            report(way, workers, timed(lambda n=workers: start_and_end(way, n)) / workers)


# ---- Work ----

def smooth(image):
    inner = (image[:-2, 1:-1] + image[2:, 1:-1] + image[1:-1, :-2] + image[1:-1, 2:]) * np.float32(0.125)
    return inner + image[1:-1, 1:-1] * np.float32(0.5)


def means(frame):
    return frame.groupby("key").mean()


def filter_work(way, mib, workers):
    images = np.random.default_rng(1).random((max(1, mib >> 2), IMAGE, IMAGE), np.float32)
    pool = executor(way, workers)
    return lambda: sum(float(image[0, 0]) for image in pool.map(smooth, images)), pool.shutdown


def groupby_work(way, mib, workers):
    import pandas
    count = (mib << 20) // 16 // 8
    random = np.random.default_rng(1)
    frames = [pandas.DataFrame({"key": random.integers(0, 100, count), "value": random.random(count)})
              for _ in range(8)]
    pool = executor(way, workers)
    return lambda: sum(len(frame) for frame in pool.map(means, frames)), pool.shutdown


def grid_work(way, mib, workers):
    import joblib
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import GridSearchCV
    if way == "onespace":
        import onespace.joblib  # noqa: F401 (registers the backend)
    random = np.random.default_rng(1)
    x = random.random((max(100, (mib << 20) // 8 // 20), 20))
    y = x[:, 0] > x[:, 1]
    search = GridSearchCV(RandomForestClassifier(4, max_samples=min(1000, len(x) // 2), random_state=1),
                          {"max_depth": [2, 4, 6, 8]}, cv=2, refit=False)

    def run():
        with joblib.parallel_config(backend=way, n_jobs=workers):
            search.fit(x, y)
    return run, lambda: None


def work(way, kind, mib, workers, repeats):
    run, end = {"filter": filter_work, "grid": grid_work, "groupby": groupby_work}[kind](way, int(mib), int(workers))
    run()
    for _ in range(int(repeats)):
        report(kind, mib, timed(run))
    end()


if __name__ == "__main__":
    {"calls": calls, "starts": starts, "work": work}[sys.argv[1]](*sys.argv[2:])
