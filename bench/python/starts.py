"""bench/python/starts.py: the time from starting N interpreters at once until the last one ends.

  starts.py tasks|processes CODE N[,N] REPEATS

CODE: run by each of them. Prints "WAY N SECONDS", the time per interpreter."""
import subprocess
import sys
import time


def start_process(words):
    return subprocess.Popen(words, close_fds=False)


def main():
    way, code, counts, repeats = sys.argv[1:]
    start = start_process
    if way == "tasks":
        import onespace
        onespace.init()
        start = onespace.spawn
    for count in map(int, counts.split(",")):
        for _ in range(int(repeats)):
            begin = time.perf_counter()
            started = [start([sys.executable, "-c", code]) for _ in range(count)]
            if any(interpreter.wait() for interpreter in started):
                sys.exit(f"{way}: a Python has failed")
            print(f"{way} {count} {(time.perf_counter() - begin) / count:.9f}", flush=True)


main()
