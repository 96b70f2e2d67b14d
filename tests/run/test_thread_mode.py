"""tests/run/test_thread_mode.py: `onespace run --thread-mode`: tasks that are threads of one process."""
import pytest

from jobs import RUN

THREADS = [*RUN, "--thread-mode"]

# What tests/interpose runs as processes and as tasks.
SCENES = {
    "mappings": ["mremap", "ring", "huge", "gib"],
    "own_files": ["strings", "child", "auxv", "auxv-call", "exe"],
    "signals": ["remember", "address", "bus", "repair", "alternate-stack", "reset", "fault-in-handler", "ignored-fault",
                "blocked-fault", "abort", "thread-fault", "bad-pointers-of-child", "ignored-while-asleep",
                "vfork-resets"],
}
# docs/api.md has each: signals are blocked (nodefer, mask, children), or come to another thread (raised), execve is
# refused (bad-pointers), descriptors are the process's (errors).


@pytest.fixture
def guest(guests):
    return guests("thread_task")


def test_tasks_share_a_process_and_keep_their_globals(job, guest):
    result = job.run([*THREADS, "-n", "4", guest, "add"]).expect()
    words = [line.split() for line in result.lines]
    assert len({pid for pid, _, _ in words}) == 1, "one process"
    assert len({thread for _, thread, _ in words}) == 4, "a thread each"
    assert [value for _, _, value in words] == ["1"] * 4, "each has counted its own"


def test_exit_status_is_of_the_first_that_failed(job, guest):
    result = job.run([*THREADS, "-n", "2", guest, "add", ":", guest, "exit", "7"]).expect(7)
    assert len(result.lines) == 2, str(result)


def test_a_signal_ends_all(job, guest):
    command = job.start([*THREADS, "-n", "2", guest, "wait"])
    command.wait_for("waiting", 2)
    command.signal(15)
    assert command.finish().code == 143


def test_a_crash_ends_all(job, guest):
    assert job.run([*THREADS, guest, "wait", ":", guest, "crash"]).code == 139


def test_a_program_that_is_not_found_ends_the_others(job, guest):
    job.run([*THREADS, guest, "wait", ":", "no-such-program"]).expect(127, says="no-such-program")


@pytest.mark.parametrize("option, reason", [
    (["--space", "test"], "with --space: what joins a space is a process"),
    (["--no-interpose"], "with --no-interpose: system calls of their libc must be interposed"),
    (["--on-failure", "kill"], "with --on-failure kill: a signal that ends one of them ends all"),
])
def test_is_refused_with(job, option, reason):
    job.run([*THREADS, *option, "true"]).expect(2, says=reason)


def test_is_refused_under_a_launcher(job, stock_mpi):
    result = job.run(stock_mpi.command(2, [*THREADS, "true"]), env=stock_mpi.env)
    assert result.code != 0 and "with a launcher: its ranks are processes" in result.err, str(result)


@pytest.mark.long
@pytest.mark.parametrize("program, scene", [(program, scene) for program, scenes in SCENES.items() for scene in scenes])
def test_program_does_what_it_does_in_process_mode(job, guests, program, scene):
    words = [guests(program), scene, guests("state")]
    thread, process = job.run([*THREADS, *words]), job.run([*RUN, *words])
    assert (thread.code, thread.out) == (process.code, process.out), f"{thread}\n{process}"


def test_program_finds_its_own_files_and_mappings(job, guests):
    for words in ([guests("own_files"), "strings", "a word"], [guests("mappings"), "mremap"]):
        thread, process = job.run([*THREADS, *words]), job.run([*RUN, *words])
        assert (thread.code, thread.out) == (process.code, process.out), f"{thread}\n{process}"
