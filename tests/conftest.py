"""tests/conftest.py: the fixtures that all Python tests share; tests/lib is where they import the rest from."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import zlib

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "lib"))
from guests import Guests
from jobs import BUILD, RUN, job  # noqa: F401 (a fixture)
from launchers import MPIS

LONG = os.environ.get("ONESPACE_LONG") == "1"


def pytest_configure(config):
    config.addinivalue_line("markers", "alone: needs the machine for itself, so that scripts/run-tests runs it last")
    config.addinivalue_line("markers", "long: takes long for what it shows, so that it runs with ONESPACE_LONG=1 only")
    config.addinivalue_line("markers", "xdist_group(name): run one after another, by one of the parallel workers")
    os.environ.pop("PYTHONUNBUFFERED", None)  # print would write a line and its end apart, and ranks mix theirs
    start_with_default_signals()


def pytest_collection_modifyitems(config, items):
    if LONG or any("[" in argument for argument in config.args):  # all, or one test by its full name
        return
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason="takes long: ONESPACE_LONG=1"))
    seed = os.environ.get("ONESPACE_COMBINATIONS") or commit()
    reason = f"the other half of the combinations: ONESPACE_LONG=1 runs all (ONESPACE_COMBINATIONS={seed} chose these)"
    for item in left_out(items, seed):
        item.add_marker(pytest.mark.skip(reason=reason))


def commit():
    """The commit's hash, from which follows which combinations of parameters run; scripts/run-tests prints it."""
    head = subprocess.run(["git", "-C", str(pathlib.Path(__file__).parent), "rev-parse", "--short=12", "HEAD"],
                          capture_output=True, text=True, check=False)
    return head.stdout.strip() or "none"


def left_out(items, seed):
    """Of tests with two parameters or more a short run takes half of the combinations, as on a chessboard: each value
    of each parameter comes with half of the others'. The seed and the test's name choose the half, so another commit
    runs the other half of about every second test."""
    tests = {}
    for item in items:
        if hasattr(item, "callspec"):
            tests.setdefault((item.path, item.originalname), []).append(item)
    left = set()
    for (_, name), combinations in tests.items():
        columns = [numbered([[item.callspec.params[one] for one in names] for item in combinations])
                   for names in parameters(combinations[0])]
        if sum(max(column) > 0 for column in columns) > 1:
            half = zlib.crc32(f"{seed} {name}".encode())
            left |= {item for item, *which in zip(combinations, *columns) if (sum(which) + half) % 2}
    return left


def parameters(item):
    """The names of a test's parameters; those that one list sets together are one parameter."""
    lists = [mark.args[0] for mark in item.iter_markers("parametrize")]
    together = [[name.strip() for name in names.split(",")] if isinstance(names, str) else names for names in lists]
    set_there = {name for names in together for name in names}
    return together + [[name] for name in item.callspec.params if name not in set_there]


def numbered(values):
    """Of each value which of the different ones it is."""
    seen = []
    for value in values:
        if value not in seen:
            seen.append(value)
    return [seen.index(value) for value in values]


def start_with_default_signals():
    """nohup, shells' background jobs and perf start a program with some signals ignored, and so would be whatever a
    test starts; Python itself ignores two, and does not pass that on to what it starts. With -v a worker of xdist may
    run this in another thread, which cannot change them."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=["by_hand", "joined"])
def run(request):
    """The two ways to run one task: this process as root, and a shim with a host."""
    return RUN if request.param == "by_hand" else [*RUN, "--space", "test"]


@pytest.fixture(scope="session")
def guests():
    """What is compiled for the tests goes to a directory that other users may enter, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="onespace-guests-") as directory:
        os.chmod(directory, 0o755)
        yield Guests(pathlib.Path(directory))


@pytest.fixture
def started(job):
    """Starts `onespace run` (or another command) and waits until it has said "ready" `count` times."""
    def start(*argv, count=1, command=None, **options):
        command = job.start([*(command or RUN), *argv], stdin=subprocess.PIPE, **options)
        command.wait_for("ready", count)
        running.append(command)
        return command
    running = []
    yield start
    for command in running:
        command.process.stdin.close()
        command.finish()


@pytest.fixture
def observed(guests):
    return guests("observed")


@pytest.fixture(params=list(MPIS), scope="session")
def mpi(request):
    return MPIS[request.param].needed()


@pytest.fixture(params=list(MPIS) if LONG else [name for name in MPIS if not MPIS[name].wheel], scope="session")
def stock_mpi(request):
    """The distribution's libraries; with ONESPACE_LONG=1 in the environment those of the wheels too."""
    return MPIS[request.param].needed()


@pytest.fixture(params=[name for name in MPIS if MPIS[name].is_distributions], scope="session")
def distributions_mpi(request):
    return MPIS[request.param].needed()


@pytest.fixture(params=[name for name in MPIS if MPIS[name].wheel], scope="session")
def wheels_mpi(request):
    return MPIS[request.param].needed()


@pytest.fixture(params=[name for name in MPIS if MPIS[name].hydra], scope="session")
def hydra_mpi(request):
    return MPIS[request.param].needed()


@pytest.fixture
def mpi_named():
    """Gives one of the MPI libraries, or skips the test, visibly."""
    return lambda name: MPIS[name].needed()


@pytest.fixture(scope="session")
def interpreter():
    """The Python that the package onespace was built for, or skips the test, visibly."""
    cache = BUILD / "CMakeCache.txt"
    found = re.search(r"(?m)^ONESPACE_PYTHON:\w+=(.+)$", cache.read_text()) if cache.exists() else None
    if not found or not list((BUILD / "python" / "onespace").glob("_core.*.so")):
        pytest.skip("the Python package is not built (scripts/setup test, then make build-tests)")
    return found[1]


@pytest.fixture
def somebody():
    """A preexec function after which a command runs as an ordinary user, or skips the test, visibly."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody else")

    def become():
        os.setgid(65534)
        os.setuid(65534)
    return become


@pytest.fixture
def tool():
    """Gives the path of a program, or skips the test, visibly."""
    def find(name, package=None):
        path = shutil.which(name)
        if not path:
            pytest.skip(f"{name} is not installed" + (f" (package {package})" if package else ""))
        return path
    return find
