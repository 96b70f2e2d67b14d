"""tests/docs/test_examples.py: every example compiles with the command in its first comment and works as described."""
import contextlib
import operator
import os
import re
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ONESPACE_BUILD", ROOT / "build"))
EXAMPLES = sorted([*(ROOT / "examples").glob("*.c"), *(ROOT / "examples").glob("*.cpp")])
COMMAND = BUILD / "bin" / "onespace"


def environment():
    """As if onespace were installed: pkg-config and the dynamic linker find the build tree."""
    found = dict(os.environ)
    found["PKG_CONFIG_PATH"] = str(BUILD / "pkgconfig-for-examples")
    found["LD_LIBRARY_PATH"] = str(BUILD / "lib")
    found["PATH"] = f"{BUILD / 'bin'}:{found['PATH']}"
    return found


def write_pkg_config():
    """The package file of the build, with the build tree's directories in place of the installed ones."""
    text = (BUILD / "onespace.pc").read_text()
    text = re.sub(r"(?m)^libdir=.*$", f"libdir={BUILD / 'lib'}", text)
    text = re.sub(r"(?m)^includedir=.*$", f"includedir={ROOT / 'include'}", text)
    directory = BUILD / "pkgconfig-for-examples"
    directory.mkdir(exist_ok=True)
    whole = directory / f"onespace.pc.{os.getpid()}"  # other workers may be reading the previous file
    whole.write_text(text)
    whole.replace(directory / "onespace.pc")


def compile_command(source):
    """The line of the first comment that begins with a compiler."""
    for line in source.read_text().splitlines():
        match = re.match(r" \*\s+((?:cc|c\+\+|mpicc|mpicxx) .*)$", line)
        if match:
            return match[1]
    return None


def run(arguments, directory, **options):
    return subprocess.run(arguments, cwd=directory, env=environment(), capture_output=True, text=True,
                          timeout=300, check=False, **options)


def build(name, directory, compiler=None):
    write_pkg_config()
    source, = (ROOT / "examples").glob(f"{name}.c*")
    shutil.copy(source, directory)
    command = compile_command(source)
    if compiler:
        command = re.sub("^mpi(cc|cxx)", compiler, command)
    result = run(["sh", "-c", command + " -Wall -Wextra -Werror"], directory)
    assert result.returncode == 0, result.stderr
    return directory / name


def said_by(directory, name, *arguments):
    """Runs the example, which must succeed. Returns its output."""
    result = run([build(name, directory), *arguments], directory)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("source", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_short(source):
    assert len(source.read_text().splitlines()) <= (200 if source.stem == "conjugate_gradient" else 60)


@pytest.mark.parametrize("source", EXAMPLES, ids=lambda path: path.stem)
def test_example_head_has_one_compile_command(source):
    command = compile_command(source)
    assert command and f" -o {source.stem}" in command
    assert "pkg-config --cflags" in command or command.startswith("mpicc ")


def test_spawn_wait_reports_each_end(tmp_path):
    program = build("spawn_wait", tmp_path)
    result = run([program, "3", "sh", "-c", "exit 2"], tmp_path)
    assert result.returncode == 1
    assert len(re.findall(r"(?m)^task \d+ \(pid \d+\) exited with 2$", result.stdout)) == 3


def test_spawn_wait_says_what_is_wrong(tmp_path):
    program = build("spawn_wait", tmp_path)
    result = run([program, "1", "no-such-program"], tmp_path)
    assert result.returncode == 1
    assert "was not found in PATH" in result.stderr


def test_insitu_analyses_every_step(tmp_path):
    build("insitu", tmp_path)
    result = run(["./insitu"], tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [f"step {step}: mean {step}.5 K" for step in (25, 50, 75, 100)]


def test_call_analyses_in_the_callee(tmp_path):
    build("call", tmp_path)
    result = run(["./call"], tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [f"step {step}: mean {step}.5 K" for step in (25, 50, 75, 100)]


def test_linked_list_is_walked_in_another_task(tmp_path):
    said = said_by(tmp_path, "linked_list")
    assert said == "the sum of the other task's list is 500500\n"


def test_tree_is_searched_by_several_tasks(tmp_path):
    said = said_by(tmp_path, "tree")
    assert sorted(said.splitlines()) == [f"task number {i} found 2500 keys" for i in range(4)]


def test_containers_are_read_and_extended(tmp_path):
    said = said_by(tmp_path, "containers")
    assert said.splitlines() == ["Faust is of 1808", "Principia is of 1687", "now 3 books, one of 1859"]


def test_function_of_another_task_is_called(tmp_path):
    said = said_by(tmp_path, "function")
    assert said == "model(4): 8 here, 80 in the task\n"


def test_lookup_follows_a_variable(tmp_path):
    said = said_by(tmp_path, "lookup")
    assert re.search(r"task \d+ owns 8 bytes of steps_done, .*; ours is 0", said)


def test_barrier_keeps_tasks_in_step(tmp_path):
    said = said_by(tmp_path, "barrier", "4")
    assert "every cell is right" in said


def test_parallel_adds_up(tmp_path):
    said = said_by(tmp_path, "parallel", "3")
    assert said == "3 tasks filled 100 parts: the sum is 1.6449\n"


def test_pip_spawn_reads_variables_of_its_tasks(tmp_path):
    said = said_by(tmp_path, "pip_spawn", "3")
    assert said.splitlines() == [f"task {i} has {42 + i}, the root has 0" for i in range(3)]


def test_pip_exchange_adds_through_its_neighbours(tmp_path):
    said = said_by(tmp_path, "pip_exchange", "5")
    assert len(re.findall(r"(?m)^process \d+ becomes task \d$", said)) == 5
    assert said.endswith("the sum is 15\n")


@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_mpi_pointers_are_followed(tmp_path, mpi):
    compiler, launcher = f"mpicc.{mpi}", f"mpiexec.{mpi}"
    if not shutil.which(compiler) or not shutil.which(launcher):
        pytest.skip(f"{mpi} is not installed")
    program = build("mpi_pointers", tmp_path, compiler)
    options = ["--oversubscribe", "--allow-run-as-root"] if mpi == "openmpi" else []
    result = run([launcher, *options, "-n", "3", COMMAND, "run", program], tmp_path)
    assert result.returncode == 0, result.stderr
    lines = sorted(result.stdout.splitlines())
    assert lines == [f"rank {rank} read the array of rank {(rank + 2) % 3}: right" for rank in range(3)]


def test_mpi_pointers_need_the_space(tmp_path):
    """The same program fails as plain processes, so the test above shows an effect of the space."""
    if not shutil.which("mpicc.mpich") or not shutil.which("mpiexec.mpich"):
        pytest.skip("mpich is not installed")
    program = build("mpi_pointers", tmp_path, "mpicc.mpich")
    result = run(["mpiexec.mpich", "-n", "2", program], tmp_path)
    assert result.returncode != 0


@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_window_on_storage_counts_on(tmp_path, mpi):
    compiler, launcher = f"mpicc.{mpi}", f"mpiexec.{mpi}"
    if not shutil.which(compiler) or not shutil.which(launcher):
        pytest.skip(f"{mpi} is not installed")
    program = build("window_on_storage", tmp_path, compiler)
    options = ["--oversubscribe", "--allow-run-as-root"] if mpi == "openmpi" else []
    layer = BUILD / "lib" / f"libonespace-mpi-{mpi}.so"
    for round, front in enumerate([[COMMAND, "run"], ["env", f"LD_PRELOAD={layer}"]]):
        result = run([launcher, *options, "-n", "2", *front, program, tmp_path], tmp_path)
        assert result.returncode == 0, result.stderr
        step = 10 * (round + 1)
        assert sorted(result.stdout.splitlines()) == \
            [f"rank {rank}: step {step}, sum {step * (step + 1) // 2}" for rank in range(2)]


# ---- Programs that keep data in windows on storage ----

def program_of(page):
    """The C program on a page of the documentation."""
    program, = [block for block in re.findall(r"(?s)```c\n(.*?)```", (ROOT / page).read_text()) if "int main" in block]
    return program


class Keeping:
    """A program of two ranks that keeps a value for each rank in one file."""

    def __init__(self, mpi, source, directory):
        options = ["--oversubscribe", "--allow-run-as-root"] if mpi == "openmpi" else []
        self.launch = [f"mpiexec.{mpi}", *options, "-n", "2"]
        if not shutil.which(f"mpicc.{mpi}") or not shutil.which(self.launch[0]):
            pytest.skip(f"{mpi} is not installed")
        self.directory, self.file = directory, directory / "kept"
        self.name = "checkpoint" if source.endswith(".c") else "count"
        if source.endswith(".c"):
            self.program = build("checkpoint", directory, f"mpicc.{mpi}")
            return
        write_pkg_config()
        (directory / "count.c").write_text(program_of(source))
        command = f"mpicc.{mpi} count.c -o count -Wall -Wextra -Werror $(pkg-config --cflags onespace)"
        result = run(["sh", "-c", command], directory)
        assert result.returncode == 0, result.stderr
        self.program = directory / "count"

    def words(self, steps, front):
        return [*self.launch, *front, self.program, self.file, str(steps)]

    def state(self):
        """The value that each rank has kept; each changes while the job runs."""
        if self.name == "count":
            there = self.file.exists() and self.file.stat().st_size == 16
            return list(struct.unpack("qq", self.file.read_bytes())) if there else [0, 0]
        directory = Path(f"{self.file}.versions")
        slots = [directory / f"rank-{rank}.slot-{slot}" for rank in (0, 1) for slot in (0, 1)]
        return [slot.stat().st_mtime_ns if slot.exists() else 0 for slot in slots]

    def ranks(self):
        """The processes that have the file open. Descriptors and processes may disappear meanwhile."""
        found = set()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                for fd in os.listdir(f"/proc/{pid}/fd"):
                    with contextlib.suppress(OSError):
                        if os.readlink(f"/proc/{pid}/fd/{fd}") == str(self.file):
                            found.add(int(pid))
        return found

    def kill(self, front):
        """Kills all ranks when the job has kept something."""
        before = self.state()
        job = subprocess.Popen(self.words(1 << 40, front), cwd=self.directory, env=environment(),
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        limit = time.monotonic() + 180
        while any(map(operator.eq, self.state(), before)) and job.poll() is None and time.monotonic() < limit:
            time.sleep(0.01)
        ranks = self.ranks()
        for pid in ranks or [job.pid]:
            with contextlib.suppress(ProcessLookupError):  # the launcher ends the others
                os.kill(pid, signal.SIGKILL)
        assert job.wait(180) != 0 and len(ranks) >= 2, f"{before} {self.state()} {ranks}"


@pytest.mark.parametrize("source", ["docs/storage.md", "examples/checkpoint.c"])
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_each_rank_finds_its_own_data_after_a_kill(tmp_path, mpi, source):
    keeping = Keeping(mpi, source, tmp_path)
    front = [COMMAND, "run"]
    for _ in range(2):
        keeping.kill(front)
        expected = keeping.state() if keeping.name == "count" else None
        result = run(keeping.words(0, front), tmp_path)
        assert result.returncode == 0 and not result.stderr, result.stdout + result.stderr
        if expected:
            assert expected[1] % 2 == 0 and sorted(result.stdout.splitlines()) == \
                [f"rank {rank}: found {expected[rank]}" for rank in (0, 1)]
            continue
        found = sorted(re.findall(r"rank (\d): continues after step (\d+) with (\S+)", result.stdout))
        step = int(found[0][1])
        assert step >= 1 and [(int(a), int(b), float(c)) for a, b, c in found] == \
            [(rank, step, step * (rank + 1.0)) for rank in (0, 1)], result.stdout


@pytest.mark.parametrize("source", ["docs/storage.md", "examples/checkpoint.c"])
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
@pytest.mark.parametrize("front", [[], [COMMAND, "run", "--mpi-layer", "off"]])
def test_without_the_layer_a_program_says_that_it_keeps_nothing(tmp_path, mpi, source, front):
    keeping = Keeping(mpi, source, tmp_path)
    result = run(keeping.words(3, front), tmp_path)
    assert result.returncode != 0 and "Nothing would be saved: start this program with `onespace run`." in result.stderr
    assert not keeping.file.exists() and "egmentation" not in result.stderr, result.stderr


def test_checkpoints_page_has_the_example():
    example = (ROOT / "examples/checkpoint.c").read_text()
    assert program_of("docs/checkpoints.md") == example[example.index("#include"):]


# Compiled once for each library: by one of the parallel workers.
# One worker compiles it for all.
SOLVERS = [pytest.param(mpi, marks=[pytest.mark.xdist_group(f"solver-{mpi}"), pytest.mark.long])
           for mpi in ("mpich", "openmpi")]


@pytest.fixture(params=SOLVERS, scope="module")
def solver(request, tmp_path_factory):
    """Returns the command line that solves on N ranks, as processes, or as tasks with words before it."""
    mpi = request.param
    if not shutil.which(f"mpicxx.{mpi}") or not shutil.which(f"mpiexec.{mpi}"):
        pytest.skip(f"{mpi} is not installed")
    program = build("conjugate_gradient", tmp_path_factory.mktemp(mpi), f"mpicxx.{mpi}")
    options = ["--oversubscribe", "--allow-run-as-root"] if mpi == "openmpi" else []
    return lambda ranks, *before: [f"mpiexec.{mpi}", *options, "-n", str(ranks), *before, program, "8"]


def check_solution(result, ranks, how):
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.fullmatch(rf"512 points on {ranks} ranks \({how}\), \d+ iterations: agrees with the serial solution\n",
                        result.stdout)


def test_conjugate_gradient_of_processes(tmp_path, solver):
    check_solution(run(solver(4), tmp_path), 4, "buffers")


def test_conjugate_gradient_of_tasks(tmp_path, solver):
    check_solution(run(solver(3, COMMAND, "run"), tmp_path), 3, "(direct|buffers)")  # whichever is faster


@pytest.mark.parametrize("solver", SOLVERS[:1], indirect=True)
def test_conjugate_gradient_on_two_nodes(tmp_path, monkeypatch, solver):
    """MPICH can treat odd and even ranks as ranks of two nodes."""
    monkeypatch.setenv("MPIR_CVAR_ODD_EVEN_CLIQUES", "1")
    check_solution(run(solver(5), tmp_path), 5, "buffers")
