"""bench/lib/onespace_bench.py: code shared by the benchmarks: locating files, running commands, medians and
spread, tables, and results in the format onespace-bench/1 (bench/schema.json).

A benchmark is a list of variants (processes, tasks, the limit) whose runs are interleaved, A B A B..., so that
drift of the machine affects all of them alike. Each repeat gives one sample per variant and x. Ratios are
computed within each repeat; their median is the figure that is reported."""
import argparse
import dataclasses
import glob
import json
import os
import pathlib
import platform
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

FORMAT = "onespace-bench/1"
BUSY = 0.25  # other runnable threads per CPU, above which measuring makes little sense
BENCH = pathlib.Path(__file__).resolve().parents[1]
PAPER = ("Process-in-Process: Techniques for Practical Address-Space Sharing, HPDC 2018, "
         "doi:10.1145/3208040.3208045")
SECOND_PAPER = ("On the Difference between Shared Memory and Shared Address Space in HPC Communication, "
                "SCFA 2022")


class Failure(Exception):
    """Something is missing or failed: the text says what, and how to fix it."""


# ---- Where things are ----

def onespace_command():
    """The command: named by ONESPACE_BIN, else of the build tree, the same installation, or along PATH."""
    given = os.environ.get("ONESPACE_BIN")
    candidates = [given] if given else [BENCH.parent / "build/bin/onespace",
                                        BENCH.parents[2] / "bin/onespace", shutil.which("onespace")]
    for candidate in candidates:
        if candidate and os.access(candidate, os.X_OK):
            return str(pathlib.Path(candidate).absolute())
    raise Failure(f"no onespace command ({given or 'build/bin/onespace'}): build it with `make build`, "
                  "or name it in ONESPACE_BIN")


def onespace_library():
    """Compiler options to build a program against the library installed with the command."""
    prefix = pathlib.Path(onespace_command()).resolve().parents[1]
    libraries = glob.glob(f"{prefix}/lib*/libonespace.so") + glob.glob(f"{prefix}/lib/*/libonespace.so")
    includes = [path for path in (BENCH.parent / "include", prefix / "include")
                if (path / "onespace.h").exists()]
    if not libraries or not includes:
        raise Failure(f"libonespace.so or onespace.h not found in {prefix}")
    directory = os.path.dirname(libraries[0])
    return [f"-I{includes[0]}", f"-L{directory}", f"-Wl,-rpath,{directory}", "-lonespace"]


def results_directory():
    """ONESPACE_BENCH_RESULTS; else bench/results in a source tree, the user's cache in an installation."""
    if os.environ.get("ONESPACE_BENCH_RESULTS"):
        return pathlib.Path(os.environ["ONESPACE_BENCH_RESULTS"])
    if os.access(BENCH, os.W_OK) and (BENCH.parent / "CMakeLists.txt").exists():
        return BENCH / "results"
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(cache) / "onespace/bench"


def cpus():
    return sorted(os.sched_getaffinity(0))


# ---- Running commands ----

class Workplace:
    """A temporary directory for compiled programs, and commands with a time limit."""

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="onespace-bench-")
        self.path = pathlib.Path(self.directory.name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.directory.cleanup()

    def compile(self, source, name, compiler=("cc",), early=(), late=(), env=None):
        if not shutil.which(compiler[0]):
            raise Failure(f"the compiler {compiler[0]} is not installed")
        program = str(self.path / name)
        self.run([*compiler, "-O2", "-D_GNU_SOURCE", *early, "-o", program, str(source), *late], env=env)
        return program

    def compile_crew(self, source, name, more=()):
        """A program, of one source and more, whose workers are threads, tasks or processes: see lib/crew.h."""
        library = BENCH / "lib"
        return self.compile(source, name, early=[f"-I{library}"],
                            late=[*map(str, more), str(library / "crew.c"), *onespace_library(), "-pthread"])

    def run(self, command, timeout=180, env=None, **options):
        """Standard output; a command that fails raises Failure with what it said."""
        with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                              env={**os.environ, **(env or {})}, start_new_session=True,
                              **options) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise Failure(f"still running after {timeout} s: {shlex.join(process.args)}") from None
            except BaseException:
                os.killpg(process.pid, signal.SIGTERM)
                raise
        if process.returncode != 0:
            raise Failure(f"{shlex.join(process.args)}\nended with {process.returncode}:\n"
                          f"{(out + err).strip()[-2000:]}")
        return out


def parse_lines(text):
    """{(operation, x): [seconds, ...]} from lines "OPERATION X SECONDS"."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 3 and words[1].isdigit():
            found.setdefault((words[0], int(words[1])), []).append(float(words[2]))
    return found


def medians(text):
    """{(operation, x): seconds} from such lines"""
    return {key: statistics.median(values) for key, values in parse_lines(text).items()}


def progress(text):
    print(text, file=sys.stderr, flush=True)


def duration(seconds):
    """Words for an estimate: no more digits than it has."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} minutes" if minutes < 100 else f"{minutes / 60:.1f} hours"


class Left:
    """Estimates how long the rest takes from how long what was done has taken. step(done) gives words, or nothing while
    nothing was done that could be judged by. `whole` is what all of it is called."""

    def __init__(self, of, whole="", clock=time.monotonic):
        self.of, self.whole, self.clock, self.start = of, whole, clock, clock()

    def step(self, done):
        if not done:
            return ""
        seconds = (self.clock() - self.start) / done * (self.of - done)
        return f", about {duration(seconds)} left{self.whole}"


class Parts:
    """A benchmark that calls alternate() once for each of several MPI libraries says so by begin(how many): what is
    left is then told for all of them, else for the call."""

    def __init__(self):
        self.left, self.done = None, 0

    def begin(self, count):
        self.left, self.done = Left(count, " for all"), 0

    def left_of(self, repeats):
        """A function of the repeats that are done in the call that begins now."""
        if not self.left:
            return Left(repeats, " of this part").step
        before, self.done = self.done, self.done + 1
        return lambda done: self.left.step(before + done / repeats)


parts = Parts()


def alternate(variants, repeats, announce=progress):
    """Runs each of {name: function} once per repeat; each returns {key: value}. Returns
    {name: {key: [value per repeat]}}."""
    samples, left = {name: {} for name in variants}, parts.left_of(repeats)
    for repeat in range(repeats):
        announce(f"  repeat {repeat + 1} of {repeats}{left(repeat)}")
        for name, function in variants.items():
            for key, value in function().items():
                samples[name].setdefault(key, []).append(value)
    return samples


class CacheLine:
    """The round trip of a cache line between two CPUs. It depends on their placement, which changes on virtual
    machines, so it is measured in every repeat. Needs two CPUs."""

    def __init__(self, place, result):
        self.samples = result.machine["cache_line_round_trip_s"]
        self.place = place
        self.program = place.compile(BENCH / "p2p/limit.c", "limit", late=["-pthread"])

    def __call__(self):
        if len(cpus()) > 1:
            first_two = "{},{}".format(*cpus()[:2])
            text = self.place.run([self.program, "-c", first_two])
            self.samples.append(statistics.median(parse_lines(text)["cas", 0]))
        return {}


# ---- Statistics ----

@dataclasses.dataclass
class Spread:
    median: float
    low: float   # first quartile
    high: float  # third quartile

    @classmethod
    def of(cls, samples):
        if len(samples) < 2:
            return cls(samples[0], samples[0], samples[0])
        low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
        return cls(median, low, high)


def ratio(numerators, denominators):
    """Within each repeat: compares what was measured together."""
    return Spread.of([a / b for a, b in zip(numerators, denominators)])


# ---- Results ----

@dataclasses.dataclass
class Series:
    name: str
    unit: str
    x: list = dataclasses.field(default_factory=list)
    samples: list = dataclasses.field(default_factory=list)  # per x: one per repeat

    def at(self, x):
        return self.samples[self.x.index(x)] if x in self.x else None

    @classmethod
    def from_samples(cls, name, unit, by_x):
        order = sorted(by_x)
        return cls(name, unit, order, [by_x[x] for x in order])


class Result:
    def __init__(self, question, figure, claim, document=PAPER):
        self.question = question
        self.paper = {"document": document, "figure": figure, "claim": claim}
        self.machine = machine()
        self.versions = versions()
        self.series, self.limits, self.notes = [], [], []
        busy = os.getloadavg()[0] / len(cpus())
        if busy > BUSY:
            self.note(f"other programs are running ({busy:.1f} for each CPU): the figures scatter")

    def add(self, name, unit, by_x):
        self.series.append(Series.from_samples(name, unit, by_x))
        return self.series[-1]

    def limit(self, name, unit, by_x):
        self.limits.append(Series.from_samples(name, unit, by_x))
        return self.limits[-1]

    def find(self, name):
        return next((series for series in self.series + self.limits if series.name == name), None)

    def note(self, text):
        progress(f"note: {text}")
        self.notes.append(text)

    def as_dict(self):
        return {"format": FORMAT, "question": self.question, "paper": self.paper,
                "machine": self.machine, "versions": self.versions, "command": shlex.join(sys.argv),
                "series": [dataclasses.asdict(series) for series in self.series],
                "limits": [dataclasses.asdict(series) for series in self.limits], "notes": self.notes}

    def write(self, name, directory=None):
        directory = pathlib.Path(directory or results_directory())
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{name}.json"
        path.write_text(json.dumps(self.as_dict(), indent=1) + "\n")
        return path


def first_line(command, env=None):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False,
                              env={**os.environ, **(env or {})})
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ((done.stdout or done.stderr).strip().splitlines() or [""])[0].strip()


def machine():
    model = platform.machine()
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")),
                     model)
    return {"cpu": model, "cpus": len(cpus()), "kernel": platform.release(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "cache_line_round_trip_s": []}


def versions():
    described = ""
    if (BENCH.parent / ".git").exists():
        described = first_line(["git", "-C", str(BENCH.parent), "describe", "--always", "--dirty", "--tags"])
    name = first_line([onespace_command(), "--version"])
    return {"onespace": f"{name} ({described})" if described else name,
            "compiler": first_line(["cc", "--version"]), "libc": " ".join(platform.libc_ver())}


# ---- Text ----

def size_text(size):
    for factor, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"


def number(value):
    """Three significant digits, mostly."""
    if value is None:
        return "-"
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3}f}"


def spread_text(samples, scale=1.0):
    """median (quartile-quartile)"""
    if not samples:
        return "-"
    spread = Spread.of([value * scale for value in samples])
    return f"{number(spread.median)} ({number(spread.low)}-{number(spread.high)})"


def ratio_text(spread):
    if not spread:
        return "-"
    digits = 2 if spread.median >= 0.1 else 4
    return f"{spread.median:.{digits}f}x ({spread.low:.{digits}f}-{spread.high:.{digits}f})"


def table(headers, rows, out=None):
    widths = [max(len(row[i]) for row in [headers, *rows]) for i in range(len(headers))]
    for row in [headers, *rows]:
        cells = [cell.ljust(width) if i == 0 else cell.rjust(width)
                 for i, (cell, width) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip(), file=out or sys.stdout)


def print_head(result, out=None):
    """The context that every figure needs."""
    line = result.machine
    cas = line["cache_line_round_trip_s"]
    print(f"{result.question}\n{line['cpu']}, {line['cpus']} CPUs, Linux {line['kernel']}; "
          f"{result.versions['onespace']}", file=out or sys.stdout)
    if cas:
        print(f"a cache line goes back and forth in {spread_text(cas, 1e9)} ns", file=out or sys.stdout)


class Targets:
    """Targets beside the measured values."""

    def __init__(self):
        self.rows, self.missed = [], 0

    def add(self, name, found, bound, at_least):
        if found is None:
            return
        good = found >= bound if at_least else found <= bound
        self.missed += not good
        self.rows.append([name, f"{found:.2f}", f"{'>=' if at_least else '<='} {bound:.2f}",
                          "reached" if good else "not reached"])

    def print(self, out=None):
        if self.rows:
            print(file=out or sys.stdout)
            table(["target", "found", "wanted", ""], self.rows, out)


def directory_name(text):
    """Rejects a bad name before hours of measuring, not after."""
    if os.path.exists(text) and not os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"{text} is a file: name a directory")
    return text


def add_arguments(parser):
    parser.add_argument("--quick", action="store_true", help="fewer points and repeats, for a first look")
    parser.add_argument("--repeats", type=int, metavar="N", help="runs of each variant, interleaved")
    parser.add_argument("--json", action="store_true", help="print the results as JSON, not as a table")
    parser.add_argument("--targets", action="store_true",
                        help="hold the results against the project's targets; exit status 3 when missed")
    parser.add_argument("--no-plot", action="store_true", help="make no plot")
    parser.add_argument("--results", metavar="DIRECTORY", type=directory_name,
                        help="where the JSON and the plot go (default: ONESPACE_BENCH_RESULTS, else "
                             "bench/results, in an installation ~/.cache/onespace/bench)")


def finish(result, name, args, print_tables, targets=None, plot=None):
    """Writes, prints and plots. The exit status."""
    path = result.write(name, args.results)
    if args.json:
        print(json.dumps(result.as_dict(), indent=1))
    else:
        print_head(result)
        print_tables(result)
    found = Targets()
    if args.targets and targets:
        targets(result, found)
        found.print(sys.stderr if args.json else sys.stdout)
    written = [str(path)]
    if plot and not args.no_plot:
        try:
            import onespace_plot
            written += onespace_plot.save(plot, result, path.with_suffix(""))
        except ImportError:
            progress("no plot: python3-matplotlib is not installed")
    progress(f"wrote {', '.join(written)}")
    return 3 if found.missed else 0


def main(function):
    """A Failure ends in a message, not in a stack trace; SIGTERM also ends the commands that were started."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        sys.exit(function())
    except Failure as failure:
        print(f"{pathlib.Path(sys.argv[0]).parent.name}: {failure}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
