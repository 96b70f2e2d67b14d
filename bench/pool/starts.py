"""bench/pool/starts.py: the time from making a pool until each of its N workers has made a call, and until it is ended.

  starts.py onespace|processes|loky N[,N] REPEATS

Prints "WAY N SECONDS", per worker."""
import sys
import time

WAY, COUNTS, REPEATS = sys.argv[1], [int(word) for word in sys.argv[2].split(",")], int(sys.argv[3])


def call(_):
    time.sleep(0.01)  # so that no worker makes the calls of all


def executor(count):
    if WAY == "onespace":
        import onespace
        return onespace.Executor(count)
    if WAY == "loky":
        import loky
        return loky.ProcessPoolExecutor(count)
    import concurrent.futures
    import multiprocessing
    return concurrent.futures.ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"))


def main():
    for count in COUNTS:
        for _ in range(REPEATS):
            begin = time.perf_counter()
            with executor(count) as pool:
                list(pool.map(call, range(count)))
            print(f"{WAY} {count} {(time.perf_counter() - begin) / count:.9f}", flush=True)


if __name__ == "__main__":
    main()
