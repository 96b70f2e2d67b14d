"""bench/python/starts.py: from the start of N Pythons at once to the end of the last.

  starts.py tasks|processes CODE N[,N] REPEATS

CODE: what each of them runs. Prints "WAY N SECONDS", per Python."""
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
            if any(one.wait() for one in started):
                sys.exit(f"{way}: a Python has failed")
            print(f"{way} {count} {(time.perf_counter() - begin) / count:.9f}", flush=True)


main()
