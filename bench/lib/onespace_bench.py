"""bench/lib/onespace_bench.py: the harness of the benchmarks. A benchmark declares a Benchmark (question, options,
tables, targets, layout of the plot) and a function that measures; main() does everything else: options, results in the
format onespace-bench/1 (bench/schema.json), tables, plot.

Variants (processes, tasks, the limit) run interleaved, A B A B..., so that drift of the machine affects all of them
alike. Each repeat gives one sample per variant and x. Ratios are computed within each repeat; their median is the
figure that is reported."""
import argparse
import dataclasses
import functools
import json
import os
import pathlib
import platform
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

FORMAT = "onespace-bench/1"
OVERTIME_S = 15  # of a command that runs when the time limit passes
BUSY = 0.25  # other runnable threads per CPU, above which results scatter
BENCH = pathlib.Path(__file__).resolve().parents[1]
KIB, MIB = 1 << 10, 1 << 20
PAPER = ("Process-in-Process: Techniques for Practical Address-Space Sharing, HPDC 2018, "
         "doi:10.1145/3208040.3208045")
SECOND_PAPER = ("On the Difference between Shared Memory and Shared Address Space in HPC Communication, "
                "SCFA 2022")
WAYS = {"processes": None, "tasks": []}  # the options of onespace run if the ranks are tasks
MPI_HELP = "all, path (mpicc and mpiexec along PATH), or names such as mpich"


class Failure(Exception):
    """Something is missing or failed: the text says what, and how to fix it."""


class Ended(Exception):
    """Nothing more is to be measured: the time limit has passed, or only the programs were wanted (--compile)."""


# ---- Paths ----

def onespace_command():
    """The command onespace: named by ONESPACE_BIN, else of the build tree, the same installation, or along PATH."""
    given = os.environ.get("ONESPACE_BIN")
    candidates = [given] if given else [BENCH.parent / "build/bin/onespace",
                                        BENCH.parents[2] / "bin/onespace", shutil.which("onespace")]
    for candidate in candidates:
        if candidate and os.access(candidate, os.X_OK):
            return str(pathlib.Path(candidate).absolute())
    raise Failure(f"no onespace command ({given or 'build/bin/onespace'}): build it with `make build`, "
                  "or name it in ONESPACE_BIN")


def onespace_run(*options):
    """The words before a program that runs as tasks."""
    return [onespace_command(), "run", *options]


def onespace_file(*patterns):
    """A file of the build tree or the installation that the command belongs to."""
    prefix = pathlib.Path(onespace_command()).resolve().parents[1]
    found = [path for pattern in patterns for path in prefix.glob(pattern)]
    if not found:
        raise Failure(f"{pathlib.Path(patterns[0]).name} is not in {prefix}")
    return found[0]


def onespace_includes():
    """Compiler options to find the public headers."""
    source = BENCH.parent / "include"
    return [f"-I{source if (source / 'onespace.h').exists() else onespace_file('include/onespace.h').parent}"]


def onespace_library():
    """Compiler options to build a program against the library installed with the command."""
    directory = onespace_file("lib*/libonespace.so", "lib/*/libonespace.so").parent
    return [*onespace_includes(), f"-L{directory}", f"-Wl,-rpath,{directory}", "-lonespace"]


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


def need_two_cpus():
    if len(cpus()) < 2:
        raise Failure("two CPUs are needed; this process may use only one")


# ---- Commands ----

class Workplace:
    """A temporary directory for compiled programs, and commands with a time limit. Programs that
    ONESPACE_BENCH_PROGRAMS holds are not compiled again, and others are kept there."""

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="onespace-bench-")
        self.path = pathlib.Path(self.directory.name)
        kept = os.environ.get("ONESPACE_BENCH_PROGRAMS")
        self.kept = kept and pathlib.Path(kept).absolute()
        self.deadline = None  # of the benchmark, as time.monotonic()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.directory.cleanup()

    def compile(self, source, name=None, compiler=("cc",), early=(), late=(), env=None):
        """The program's path. source: below bench/. early, late: options before and after the source."""
        source = pathlib.Path(source)
        name = name or source.stem
        program = str(self.path / name)
        if self.kept and not source.is_absolute():
            program = str(self.kept / f"{source.parent}-{name}")
            if os.access(program, os.X_OK):
                return program
            self.kept.mkdir(parents=True, exist_ok=True)
        if not shutil.which(compiler[0]):
            raise Failure(f"the compiler {compiler[0]} is not installed" + (
                f", and ONESPACE_BENCH_PROGRAMS has no {os.path.basename(program)}" if self.kept else ""))
        self.run([*compiler, "-O2", "-D_GNU_SOURCE", f"-I{BENCH / 'lib'}", *early, "-o", program, BENCH / source,
                  *late], env=env)
        return program

    def machine_option(self):
        """Compiles for this CPU; programs that are kept, for those of the last ten years."""
        return "-march=haswell" if self.kept and platform.machine() == "x86_64" else "-march=native"

    def compile_mpi(self, mpi, source, early=(), late=()):
        """The program for an MPI library (onespace_mpi.Mpi)."""
        return self.compile(source, f"{pathlib.Path(source).stem}-{mpi.name}", mpi.compiler, early=early,
                            late=[*late, *mpi.late], env=mpi.env)

    def compile_workers(self, source):
        """A program whose workers are threads, tasks or processes: see lib/workers.h."""
        return self.compile(source, late=[BENCH / "lib/workers.c", *onespace_library(), "-pthread"])

    def run(self, command, timeout=180, env=None, **options):
        """Standard output; a command that fails raises Failure with its output. It ends soon after the deadline."""
        if self.deadline:
            timeout = min(timeout, max(self.deadline - time.monotonic(), 0) + OVERTIME_S)
        with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                              env={**os.environ, **(env or {})}, start_new_session=True,
                              **options) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise Failure(f"still running after {timeout:.0f} s: {shlex.join(process.args)}") from None
            except BaseException:
                os.killpg(process.pid, signal.SIGTERM)
                raise
        if process.returncode != 0:
            raise Failure(f"{shlex.join(process.args)}\nexited with {process.returncode}:\n"
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
    """{(operation, x): seconds} from such lines: the median of each operation and x."""
    return {key: statistics.median(values) for key, values in parse_lines(text).items()}


def by_x(lines, operation):
    """{x: value} of one operation."""
    return {x: value for (name, x), value in lines.items() if name == operation}


def each(function, values):
    """{name: the call of the function with the value of that name}, or with each name in a list: for interleave()."""
    values = values if isinstance(values, dict) else {name: name for name in values}
    return {name: functools.partial(function, value) for name, value in values.items()}


def first_line(command, env=None):
    """The first line that a command prints, or an empty string."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False,
                              env={**os.environ, **(env or {})})
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ((done.stdout or done.stderr).strip().splitlines() or [""])[0].strip()


class Interpreter:
    """A Python with the package onespace: that of a virtual environment, or this one; the package is the build tree's
    or an installed one. `modules` must be importable."""

    def __init__(self, place, environment, modules):
        self.place = place
        built = pathlib.Path(onespace_command()).resolve().parents[1] / "python"
        paths = [str(built)] if built.is_dir() else []
        self.env = {"PYTHONPATH": os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])]),
                    "OPENBLAS_NUM_THREADS": "1"}
        for self.program in (str(environment / "bin/python"), sys.executable):
            if self.has(modules):
                return
        raise Failure(f"no Python has {modules}: scripts/setup test, then make build-tests; or install the wheel of "
                         "onespace and run this with that Python")

    def has(self, modules):
        try:
            self.place.run([self.program, "-c", f"import {modules}"], env=self.env)
        except (OSError, Failure):
            return False
        return True

    def lines(self, script, *words):
        """The medians of the lines that a script prints: {(operation, x): value}."""
        return medians(self.place.run([self.program, script, *words], env=self.env, timeout=900))


# ---- Interleaved runs ----

def progress(text):
    print(text, file=sys.stderr, flush=True)


def duration(seconds):
    """Text for an estimate, with no more digits than it has."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} minutes" if minutes < 100 else f"{minutes / 60:.1f} hours"


class TimeLeft:
    """Estimates the remaining time from the time that the completed share has taken. `scope` names the whole."""

    def __init__(self, total, scope="", clock=time.monotonic):
        self.total, self.scope, self.clock, self.start = total, scope, clock, clock()

    def text(self, done):
        """Empty while nothing is done."""
        if not done:
            return ""
        seconds = (self.clock() - self.start) / done * (self.total - done)
        return f", about {duration(seconds)} left{self.scope}"


class Interleaver:
    """Runs variants interleaved. A benchmark that knows how often it will call run() sets the number of rounds;
    estimates of the remaining time then are for all of them, else for the current round. Once the deadline of the
    place has passed, no repeat begins but the very first: run() returns those that are complete, or raises Ended if
    there are none."""

    def __init__(self, place=None, compile_only=False):
        self.left, self.rounds_done = None, 0
        self.place, self.compile_only = place, compile_only
        self.is_cut = False  # whether the deadline cost a repeat

    def expect(self, rounds):
        self.left, self.rounds_done = TimeLeft(rounds, " for all"), 0

    def run(self, variants, repeats, announce=progress):
        """Runs each of {name: function} once per repeat; each returns {key: value}. Returns
        {name: {key: [value per repeat]}}."""
        if self.compile_only:
            raise Ended
        samples = {name: {} for name in variants}
        left = self.left or TimeLeft(repeats, " of this part")
        for repeat in range(repeats):
            is_first = self.rounds_done + repeat == 0
            if self.place and self.place.deadline and time.monotonic() >= self.place.deadline and not is_first:
                self.is_cut = True
                if repeat == 0:
                    raise Ended
                break
            share = self.rounds_done + repeat / repeats if self.left else repeat
            announce(f"  repeat {repeat + 1} of {repeats}{left.text(share)}")
            for name, function in variants.items():
                for key, value in function().items():
                    samples[name].setdefault(key, []).append(value)
        self.rounds_done += 1
        return samples


class CacheLine:
    """The round trip of a cache line between two CPUs. It depends on their placement, which changes on virtual
    machines, so it is measured in every repeat. Needs two CPUs."""

    def __init__(self, place, result):
        self.samples = result.machine["cache_line_round_trip_s"]
        self.place = place
        self.program = place.compile("p2p/limit.c", late=["-pthread"])

    def __call__(self):
        if len(cpus()) > 1:
            first_two = "{},{}".format(*cpus()[:2])
            text = self.place.run([self.program, "-c", first_two])
            self.samples.append(statistics.median(parse_lines(text)["cas", 0]))
        return {}


# ---- Statistics and text ----

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
    """The spread of the ratios within each repeat."""
    return Spread.of(ratios(numerators, denominators))


def ratios(numerators, denominators):
    return [a / b for a, b in zip(numerators, denominators)]


def size_text(size):
    for factor, unit in ((MIB, "MiB"), (KIB, "KiB")):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"


def number(value):
    """With three significant digits in most cases."""
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


# ---- Results ----

@dataclasses.dataclass
class Series:
    name: str
    unit: str
    x: list = dataclasses.field(default_factory=list)
    samples: list = dataclasses.field(default_factory=list)  # per x: one per repeat

    def at(self, x):
        """The samples at x, or None."""
        return self.samples[self.x.index(x)] if x in self.x else None

    @classmethod
    def from_samples(cls, name, unit, samples_by_x):
        order = sorted(samples_by_x)
        return cls(name, unit, order, [samples_by_x[x] for x in order])


class Result:
    """Series and limits with slash-separated names, and the context that their figures need."""

    def __init__(self, question, figure, claim, document=PAPER):
        self.question = question
        self.paper = {"document": document, "figure": figure, "claim": claim}
        self.machine = machine()
        self.versions = versions()
        self.series, self.limits, self.notes = [], [], []
        busy = os.getloadavg()[0] / len(cpus())
        if busy > BUSY:
            self.note(f"other programs are running ({busy:.1f} for each CPU): the figures scatter")

    def add(self, name, unit, samples_by_x):
        self.series.append(Series.from_samples(name, unit, samples_by_x))
        return self.series[-1]

    def limit(self, name, unit, samples_by_x):
        self.limits.append(Series.from_samples(name, unit, samples_by_x))
        return self.limits[-1]

    def add_all(self, template, samples, unit="s", limits=(), only=None):
        """Adds the series of {variant: {x or (what, x): [value per repeat]}}. Their names are the template with
        {variant} and {what}. unit: one for all, or a function of `what`. limits: the variants that are limits. only:
        the values of `what` to add, in order."""
        for variant, found in samples.items():
            series = {}
            for key, values in found.items():
                what, x = key if isinstance(key, tuple) else (None, key)
                series.setdefault(what, {})[x] = values
            for what in only or series:
                if what in series:
                    name = template.format(variant=variant, what=what)
                    add = self.limit if variant in limits else self.add
                    add(name, unit(what) if callable(unit) else unit, series[what])

    def find(self, name):
        return next((series for series in self.series + self.limits if series.name == name), None)

    def groups(self, pattern):
        """[(fields, {column: series})] of the series and limits whose names match a pattern such as
        "{mpi}/{operation}/{column}", in order of their first occurrence. fields: the parts of the names but the
        column, by name."""
        expression = "".join(re.escape(part) if i % 2 == 0 else rf"(?P<{part}>{'.+' if part == 'column' else '[^/]+'})"
                             for i, part in enumerate(re.split(r"\{(\w+)\}", pattern)))
        found = {}
        for series in self.series + self.limits:
            match = re.fullmatch(expression, series.name)
            if match:
                fields = match.groupdict()
                column = fields.pop("column")
                found.setdefault(tuple(fields.items()), {})[column] = series
        return [(dict(fields), columns) for fields, columns in found.items()]

    def fields(self, name_of_fields):
        """The values of `version` and of the fields for titles."""
        return {**name_of_fields, "version": self.versions.get(name_of_fields.get("mpi"), "")}

    def note(self, text):
        progress(f"note: {text}")
        self.notes.append(text)

    def failed(self):
        """Whether something that was to be measured failed; the notes name it."""
        return any(note.startswith("FAILED") for note in self.notes)

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

    def print_head(self):
        """The context that every figure needs."""
        print(f"{self.question}\n{self.machine['cpu']}, {self.machine['cpus']} CPUs, Linux {self.machine['kernel']}; "
              f"{self.versions['onespace']}")
        if self.machine["cache_line_round_trip_s"]:
            print("round trip of a cache line: "
                  f"{spread_text(self.machine['cache_line_round_trip_s'], 1e9)} ns")


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


# ---- Options ----

def numbers(text):
    """The type of options such as --sizes: whole numbers, comma-separated."""
    return [int(word) for word in text.split(",")]


def words(known, what):
    """The type of options that name some of the known values, comma-separated."""
    def parse(text):
        chosen = text.split(",")
        unknown = [word for word in chosen if word not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"no {what} {', '.join(unknown)}: {', '.join(known)}")
        return chosen
    return parse


def directory_name(text):
    """Rejects a file before the benchmark runs."""
    if os.path.exists(text) and not os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"{text} is a file: name a directory")
    return text


@dataclasses.dataclass
class Option:
    """An option of a benchmark. Its value is `quick` with --quick, else `full`."""
    flag: str
    help: str = ""
    full: object = None
    quick: object = None
    type: object = str  # bool: an option without a value
    metavar: str = None
    choices: list = None

    @property
    def name(self):
        return self.flag.removeprefix("--").replace("-", "_")

    def add_to(self, parser):
        if self.type is bool:
            parser.add_argument(self.flag, action="store_true", help=self.help)
            return
        default = ",".join(map(str, self.full)) if isinstance(self.full, list) else self.full
        text = self.help if default is None else f"{self.help} (default: {default})".strip()
        metavar = self.metavar or (None if self.choices else "N[,N]" if self.type is numbers else "N")
        parser.add_argument(self.flag, type=self.type, metavar=metavar, choices=self.choices,
                            help=text.replace("%", "%%"))

    def resolve(self, args):
        if getattr(args, self.name) is None:
            value = self.quick if args.quick and self.quick is not None else self.full
            setattr(args, self.name, list(value) if isinstance(value, list) else value)


def names_option(flag, known, what, default=None, text=""):
    """Its value is a list of some of the known names: by default all."""
    return Option(flag, text, list(known) if default is None else default, type=words(known, what),
                  metavar=f"{what.upper()}[,{what.upper()}]")


def mpi_option(default="all"):
    return Option("--mpi", MPI_HELP, default, metavar="NAME[,NAME]")


def sizes_option(full, quick, text="of the messages"):
    return Option("--sizes", text, full, quick, numbers, "BYTES[,BYTES]")


def batch_options(full, quick):
    """Those of programs with BENCH_OPTIONS (bench.h). full, quick: (batches per repeat, milliseconds)."""
    return [Option("--batches", "batches per repeat; their median counts", full[0], quick[0], int),
            Option("--batch-ms", "milliseconds of a batch", full[1], quick[1], float, "T")]


def fresh_option():
    return Option("--fresh", "what is sent has just been written, and what arrives is read", type=bool)


def batch_words(args):
    return ["-b", args.batches, "-t", args.batch_ms, *(["-f"] if getattr(args, "fresh", False) else [])]


# ---- Declarations ----

@dataclasses.dataclass
class Ratio:
    """A column of ratios of two others. smallest: denominators below it count as it."""
    numerator: str
    denominator: str
    heading: str = ""
    smallest: float = None

    def __post_init__(self):
        self.heading = self.heading or f"{self.numerator}/{self.denominator}"

    def samples(self, columns, x):
        """The ratio of each repeat at x, or None."""
        pair = [columns[name].at(x) if name in columns else None for name in (self.numerator, self.denominator)]
        if not all(pair):
            return None
        return ratios(pair[0], [max(value, self.smallest) for value in pair[1]] if self.smallest else pair[1])

    def at(self, columns, x):
        """The spread at x, or None."""
        samples = self.samples(columns, x)
        return samples and Spread.of(samples)

    def text(self, columns, x):
        return ratio_text(self.at(columns, x))


@dataclasses.dataclass
class Table:
    """One printed table for each group of series whose names match the pattern. columns: names of series, (name,
    heading) or Ratio; None: all series that match. The title may have {mpi}, {version} and the fields of the
    pattern."""
    title: str
    pattern: str
    columns: list = None
    x: str = "size"
    x_text: object = size_text  # a function or {x: text}
    scale: float = 1e6          # of the samples, or a function (samples, x) that gives the text of a cell
    is_shown: object = None     # (fields) -> whether the group gets a table

    def cell(self, column, columns, x):
        if isinstance(column, Ratio):
            return column.text(columns, x)
        samples = columns[column[0]].at(x)
        return self.scale(samples, x) if callable(self.scale) else spread_text(samples, self.scale)

    def print(self, run):
        for fields, columns in run.result.groups(self.pattern):
            if self.is_shown and not self.is_shown(fields):
                continue
            shown = [column if isinstance(column, (Ratio, tuple)) else (column, column)
                     for column in self.columns or columns]
            shown = [column for column in shown if isinstance(column, Ratio) or column[0] in columns]
            names = [column[0] for column in shown if not isinstance(column, Ratio)]
            if not names:
                continue
            shown = [column for column in shown if not isinstance(column, Ratio)
                     or {column.numerator, column.denominator} <= columns.keys()]
            x_text = self.x_text if callable(self.x_text) else self.x_text.__getitem__
            ratio_note = "; ratios within each repeat" if any(isinstance(column, Ratio) for column in shown) else ""
            print("\n" + self.title.format(**run.result.fields(fields)) + ": median (quartiles)" + ratio_note)
            table([self.x, *[column.heading if isinstance(column, Ratio) else column[1] for column in shown]],
                  [[x_text(x), *[self.cell(column, columns, x) for column in shown]]
                   for x in sorted({x for name in names for x in columns[name].x})])


@dataclasses.dataclass
class Target:
    """A bound for a ratio or a median, held for each group of series and each x. bound: a number, {x: number}, or a
    function (x, fields) that gives a number or None: no bound there."""
    text: str  # may name {x}, {size} and the fields of the pattern
    pattern: str
    value: object  # Ratio, or the name of a column, whose median counts
    bound: object
    at_least: bool = False
    scale: float = 1.0
    x_text: object = str

    def check(self, run, targets):
        for fields, columns in run.result.groups(self.pattern):
            name = self.value.numerator if isinstance(self.value, Ratio) else self.value
            for x in columns[name].x if name in columns else []:
                bound = self.bound(x, fields) if callable(self.bound) else \
                    self.bound.get(x) if isinstance(self.bound, dict) else self.bound
                if bound is None:
                    continue
                spread = self.value.at(columns, x) if isinstance(self.value, Ratio) else Spread.of(columns[name].at(x))
                x_text = self.x_text if callable(self.x_text) else self.x_text.__getitem__
                targets.add(self.text.format(x=x_text(x), **run.result.fields(fields)),
                            spread and spread.median * self.scale, bound, self.at_least)


class Targets:
    """Targets beside the measured values."""

    def __init__(self):
        self.rows, self.missed = [], 0

    def add(self, name, found, bound, at_least=False):
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


BYTES, COUNTS, NAMES = "bytes", "counts", "names"


@dataclasses.dataclass(frozen=True)
class X:
    """The x of a figure: counts; bytes, written as 4 KiB; names, to which x is the index."""
    label: str
    kind: str = COUNTS
    names: tuple = ()


@dataclasses.dataclass(frozen=True)
class Layout:
    """How series become figures, in the plot and in the report: which parts of their names, from 0, distinguish the
    curves of one figure (all other parts name the figure), and what x is."""
    curves: tuple = (-1,)
    x: X = X("x")
    others: dict = dataclasses.field(default_factory=dict)  # by a part of the name: another X
    peers: tuple = (("processes", "tasks"),)  # (peer, compared): parts of names whose series are compared
    headline: float = 0                       # the x that the report's summary compares at; 0: the largest
    is_matrix: bool = False                   # each curve is a row of a matrix of x by x: shown as a heat map

    def x_of(self, parts):
        return next((self.others[part] for part in parts if part in self.others), self.x)


@dataclasses.dataclass
class Benchmark:
    """One question. measure(run) adds the series to run.result."""
    name: str               # of the files with its results
    question: object        # text, or a function of the arguments
    figure: str             # of the paper, and what it claims
    claim: str
    measure: object
    options: list = dataclasses.field(default_factory=list)
    repeats: tuple = (9, 3)   # without and with --quick
    tables: list = dataclasses.field(default_factory=list)   # Table, or functions of the run that print
    targets: list = dataclasses.field(default_factory=list)  # Target, or functions of the run and the Targets
    layout: Layout = Layout()
    document: str = PAPER
    check: object = None      # (args, error) -> completes the arguments, and calls error(text) for bad ones
    suffix: object = None     # (args) -> appended to the name
    choice: str = ""          # the value of --question, if a program has several; by default the name after a hyphen

    def __post_init__(self):
        self.choice = self.choice or self.name.partition("-")[2]

    def run(self, args):
        """Measures, writes, prints and plots. The exit status."""
        with Workplace() as place:
            run = Run(self, args, place)
            place.deadline = args.time_limit and time.monotonic() + args.time_limit
            try:
                self.measure(run)
            except Ended:
                pass
            except Failure as failure:
                if not args.time_limit or not run.result.series:
                    raise
                run.result.note(f"FAILED: {failure}")
            if args.compile:
                return 1 if run.result.failed() else 0
            if run.interleaver.is_cut:
                run.result.note(f"the limit of {duration(args.time_limit)} has passed: some figures have fewer "
                                "repeats, others are missing")
            if not run.result.series:
                raise Failure("; ".join(["nothing was measured", *run.result.notes]))
            return self.finish(run)

    def finish(self, run):
        args, result = run.args, run.result
        path = result.write(self.name + (self.suffix(args) if self.suffix else ""), args.results)
        if args.json:
            print(json.dumps(result.as_dict(), indent=1))
        else:
            result.print_head()
            for shown in self.tables:
                shown.print(run) if isinstance(shown, Table) else shown(run)
            for note in result.notes:
                print(f"note: {note}")
        targets = Targets()
        for target in self.targets if args.targets else []:
            target.check(run, targets) if isinstance(target, Target) else target(run, targets)
        targets.print(sys.stderr if args.json else sys.stdout)
        written = [str(path)]
        if not args.no_plot:
            try:
                import onespace_figures
                written += onespace_figures.save(result.as_dict(), self.layout, path.with_suffix(""))
            except ImportError:
                progress("no plot: python3-matplotlib is not installed")
        progress(f"wrote {', '.join(written)}")
        if result.failed():
            return 1
        return 3 if targets.missed else 0


class Run:
    """One run of a benchmark: its arguments, directory and result."""

    def __init__(self, benchmark, args, place):
        self.args, self.place, self.interleaver = args, place, Interleaver(place, args.compile)
        question = benchmark.question(args) if callable(benchmark.question) else benchmark.question
        self.result = Result(question, benchmark.figure, benchmark.claim, benchmark.document)
        self.cache_line = None

    def interleave(self, variants, repeats=None, announce=progress, cache_line=True):
        """{variant: {key: [value per repeat]}} of {variant: function}, with the round trip of a cache line in each
        repeat."""
        if cache_line:
            self.cache_line = self.cache_line or CacheLine(self.place, self.result)
            variants = {**variants, "cache line": self.cache_line}
        samples = self.interleaver.run(variants, repeats or self.args.repeats, announce)
        samples.pop("cache line", None)
        return samples

    def interleave_with_memcpy(self, variants, cpus, words):
        """The samples of the variants, and {bytes: [value per repeat]} of memcpy by two threads at once, which also
        measures the round trip of a cache line. cpus: () -> the threads' CPUs. words: the limit's options and sizes."""
        limit = self.place.compile("p2p/limit.c", late=["-pthread"])
        samples = self.interleave({**variants, "memcpy": lambda: medians(self.place.run(
            [limit, "-c", "{},{}".format(*cpus()), *words]))}, cache_line=False)
        limits = samples.pop("memcpy")
        self.result.machine["cache_line_round_trip_s"].extend(limits.pop(("cas", 0)))
        return samples, limits

    def each_mpi(self, measure, rounds=0):
        """Calls measure(mpi) for each MPI library of --mpi; if one of several fails, the others go on: with "all" it
        counts as skipped. Each gets an equal share of the time limit. rounds: the calls of interleave() for each, if
        known."""
        import onespace_mpi
        mpis, end = onespace_mpi.choose(self.args.mpi, self.result.note), self.place.deadline
        if rounds:
            self.interleaver.expect(rounds * len(mpis))
        for i, mpi in enumerate(mpis):
            if end:
                now = time.monotonic()
                self.place.deadline = now + (end - now) / (len(mpis) - i)
            try:
                progress(f"{mpi.name}: {mpi.version}")
                self.result.versions[mpi.name] = mpi.version
                measure(mpi)
            except Ended:
                pass
            except Failure as failure:
                if len(mpis) == 1:
                    raise
                self.result.note(f"{'skipped' if self.args.mpi == 'all' else 'FAILED'} {mpi.name}: {failure}")


# ---- The command line ----

def add_arguments(parser):
    parser.add_argument("--quick", action="store_true", help="fewer points and repeats, for a first look")
    parser.add_argument("--repeats", type=int, metavar="N", help="runs of each variant, interleaved")
    parser.add_argument("--json", action="store_true", help="print the results as JSON, not as a table")
    parser.add_argument("--targets", action="store_true",
                        help="compare the results with the project's targets; exit status 3 if one is missed")
    parser.add_argument("--no-plot", action="store_true", help="make no plot")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS",
                        help="begin no repeat after this time; keep what has been measured, also after a failure")
    parser.add_argument("--compile", action="store_true",
                        help="only compile the programs, into the directory ONESPACE_BENCH_PROGRAMS")
    parser.add_argument("--results", metavar="DIRECTORY", type=directory_name,
                        help="directory of the JSON and the plot (default: ONESPACE_BENCH_RESULTS, else "
                             "bench/results, in an installation ~/.cache/onespace/bench)")


def resolve(benchmark, args, error):
    """Completes the arguments with the defaults of the benchmark, and checks them."""
    if args.compile and not os.environ.get("ONESPACE_BENCH_PROGRAMS"):
        error("--compile: ONESPACE_BENCH_PROGRAMS must name the directory for the programs")
    args.repeats = args.repeats or benchmark.repeats[args.quick]
    for option in benchmark.options:
        option.resolve(args)
    if benchmark.check:
        benchmark.check(args, error)
    return args


def main(*benchmarks):
    """Runs the one that --question names, by default the first. The docstring of the program is its --help."""
    def run():
        parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__,
                                         formatter_class=argparse.RawDescriptionHelpFormatter)
        add_arguments(parser)
        by_choice = {benchmark.choice: benchmark for benchmark in benchmarks}
        if len(benchmarks) > 1:
            parser.add_argument("--question", choices=by_choice, default=benchmarks[0].choice,
                                help=f"(default: {benchmarks[0].choice})")
        flags = set()
        for option in (option for benchmark in benchmarks for option in benchmark.options):
            if option.flag not in flags:
                flags.add(option.flag)
                option.add_to(parser)
        args = parser.parse_args()
        benchmark = by_choice[args.question] if len(benchmarks) > 1 else benchmarks[0]
        return benchmark.run(resolve(benchmark, args, parser.error))
    exit_with(run)


def exit_with(function):
    """Exits with its status. A Failure becomes a message, not a stack trace; SIGTERM also terminates the commands that
    were started."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        sys.exit(function())
    except Failure as failure:
        print(f"{pathlib.Path(sys.argv[0]).parent.name}: {failure}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
