"""tests/run/conftest.py: what the tests of `onespace run` share. The guests are compiled once per
session, when the first test needs them."""
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import tempfile

import pytest

from jobs import RUN, job  # noqa: F401 (a fixture)
from launchers import MPIS

LONG = os.environ.get("ONESPACE_LONG") == "1"
GUESTS = pathlib.Path(__file__).parent / "guests"


def pytest_configure():
    """nohup and shells' background jobs start a program with these ignored, and so would be whatever a test starts."""
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=["by_hand", "joined"])
def run(request):
    """The two ways to run one task: this process as root, and a shim with a host."""
    return RUN if request.param == "by_hand" else [*RUN, "--space", "test"]


class Guests:
    def __init__(self, folder):
        self.folder = folder
        self.built = {}

    def build(self, source, compiler=("cc",), flags=(), name=None):
        """The path of the program made from tests/run/guests/SOURCE."""
        path = self.folder / (name or pathlib.Path(source).stem)
        if path not in self.built:
            self.built[path] = self._compile([*compiler, *flags], GUESTS / source, path)
        failed = self.built[path]
        if failed:
            pytest.fail(failed, pytrace=False)
        return str(path)

    def _compile(self, command, source, path):
        late = [word for word in command if word.startswith("-l") or ".so" in word]
        early = [word for word in command if word not in late]
        done = subprocess.run([*early, "-o", str(path), str(source), *late], capture_output=True,
                              text=True, timeout=180)
        return "" if done.returncode == 0 else f"{shlex.join(done.args)}:\n{done.stderr}"

    def c(self, source, *flags, name=None):
        return self.build(source, ("cc", "-O1", "-g", "-Wall", "-pthread"), flags, name)

    def mpi(self, mpi, source):
        return self.build(source, mpi.compiler, ("-O1", "-g"), f"{mpi.name}-{pathlib.Path(source).stem}")


@pytest.fixture(scope="session")
def guests():
    """In a folder of their own: other users run them too, and pytest closes its folders to others."""
    with tempfile.TemporaryDirectory(prefix="onespace-guests-") as folder:
        os.chmod(folder, 0o755)
        yield Guests(pathlib.Path(folder))


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
    return guests.c("observed.c")


@pytest.fixture(params=list(MPIS), scope="session")
def mpi(request):
    return MPIS[request.param].needed()


@pytest.fixture(params=list(MPIS) if LONG else [name for name in MPIS if not MPIS[name].wheel], scope="session")
def stock_mpi(request):
    """The distribution's libraries; with ONESPACE_LONG=1 in the environment those of the wheels too."""
    return MPIS[request.param].needed()


@pytest.fixture
def mpi_named():
    """Gives one of the MPI libraries, or skips the test, visibly."""
    return lambda name: MPIS[name].needed()


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
