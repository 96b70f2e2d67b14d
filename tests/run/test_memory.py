"""Tasks' memory stays apart: heaps, stacks and program breaks, with every allocator."""
import glob
import os

import pytest

from jobs import RUN, eventually

SECONDS = 60 if os.environ.get("ONESPACE_LONG") == "1" else 1


def test_64_tasks_allocate_and_free_at_random(job, guests):
    """A second; a minute with ONESPACE_LONG=1 in the environment."""
    job.run([*RUN, "-n", "64", guests("patterns"), SECONDS], timeout=4 * SECONDS + 60).expect(out="intact\n" * 64)


def test_tasks_come_and_go_beside_working_ones(job, guests):
    """The memory of ended tasks is taken back and given to new ones."""
    patterns = guests("patterns")
    long = [job.start([*RUN, "--space", "churn", patterns, "5"]) for _ in range(2)]
    for _ in range(3):
        short = [job.start([*RUN, "--space", "churn", patterns, "1"]) for _ in range(6)]
        for command in short:
            command.finish().expect(out="intact\n")
    for command in long:
        assert command.finish().out == "intact\n"


def test_first_calls_of_many_threads_find_the_allocator(job, guests):
    """The agent stands before free and realloc, and looks for the next ones when it is called first."""
    program = guests("first_realloc")
    for _ in range(15):
        job.run([*RUN, "-n", "4", program]).expect(out="0 failed\n" * 4)


@pytest.mark.parametrize("frames", [1, 6])
def test_recursion_with_large_frames(job, guests, frames):
    """Frames of 64 KiB, up to most of the 8 MiB stack, in several tasks whose stacks are neighbours."""
    result = job.run(["/bin/sh", "-c", f"ulimit -s 8192; exec {' '.join(RUN)} -n 8 {guests('recursion')} {frames}"])
    assert result.code == 0 and result.out == "0 wrong\n" * 8, str(result)


def test_overflow_by_large_frames_hits_no_other_task(job, guests):
    recursion, patterns = guests("recursion"), guests("patterns")
    result = job.run([*RUN, "-n", "3", patterns, "2", ":", "-n", "4", recursion, "100000"])
    assert result.code == 139 and result.out == "intact\n" * 3, str(result)


def test_program_with_its_own_break_allocator(job, guests):
    """sbrk by the program itself, beside libc's heap, up, down and up again."""
    job.run([*RUN, "-n", "4", guests("breaks")]).expect(out="intact\n" * 4)


def allocators():
    found = []
    for name in ("jemalloc.so.2", "tcmalloc.so.4", "tcmalloc_minimal.so.4", "mimalloc.so.2.0", "mimalloc.so.2"):
        found += [(name, path) for path in glob.glob(f"/usr/lib/*/lib{name}")]
    return found


@pytest.mark.parametrize("name", ["jemalloc.so.2", "tcmalloc.so.4", "tcmalloc_minimal.so.4", "mimalloc.so.2.0"])
def test_preloaded_allocator(job, run, guests, name):
    path = dict(allocators()).get(name)
    if not path:
        pytest.skip(f"lib{name} is not installed (scripts/setup test)")
    job.run([*run, guests("patterns"), "1"], env={"LD_PRELOAD": path}).expect(out="intact\n")


def test_each_allocator_in_one_space(job, guests):
    """Tasks with different allocators side by side, each preloaded by its own shim."""
    found = allocators()
    if not found:
        pytest.skip("no allocator is installed (scripts/setup test)")
    patterns = guests("patterns")
    commands = [job.start([*RUN, "--space", "allocators", patterns, "2"],
                          env={"LD_PRELOAD": path} if path else {}) for _, path in [*found, ("libc", "")]]
    for command in commands:
        command.finish().expect(out="intact\n")


def phases(result):
    assert result.code == 0, str(result)
    return [(name, int(kib)) for name, kib in (line.split() for line in result.lines)]


@pytest.mark.parametrize("tasks", [1, 3])
def test_heap_is_no_larger_than_that_of_a_process(job, guests, tasks):
    """After each phase of allocating and freeing. Of several tasks the space has one each; they meet nowhere, so only
    the largest figure of all counts."""
    returned = guests("returned")
    process = phases(job.run([returned]))
    assert max(kib for _, kib in process) > 50000, process
    found = phases(job.run([*RUN, "-n", str(tasks), returned]))
    if tasks == 1:
        assert [name for name, _ in found] == [name for name, _ in process]
        slack = [(name, kib, task) for (name, kib), (_, task) in zip(process, found) if task > kib * 1.05 + 512]
        assert not slack, f"phase, KiB of the process, of the task: {slack}"
    else:
        most = tasks * max(kib for _, kib in process)
        assert max(kib for _, kib in found) <= most * 1.05 + 512 * tasks, found


def test_tuned_heap_keeps_what_was_freed(job, guests):
    returned = guests("returned")
    process, task = (dict(phases(job.run(command))) for command in ([returned], [*RUN, "--heap=tuned", returned]))
    assert task["no-blocks"] > process["no-blocks"] + 30000, f"{process}, {task}"


def test_memory_of_ended_tasks_is_given_back(job, guests):
    """A host that has served many tasks holds no more memory than after the first few."""
    job_task = [*RUN, "--space", "back", guests("touch"), "64"]
    keep = job.start([*RUN, "--space", "back", "/bin/sh", "-c", "echo up; read x"], stdin=None,
                     terminal=True)
    keep.wait_for("up")
    host = job.hosts()[0].pid

    def held():
        with open(f"/proc/{host}/statm") as file:
            resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        with open(f"/proc/{host}/maps") as file:
            return resident, len(file.readlines())

    for _ in range(3):
        assert job.run(job_task).code == 0
    before = held()
    for _ in range(12):
        assert job.run(job_task).code == 0

    def is_given_back():  # perhaps a little after the last task's end
        resident, mappings = held()
        return resident - before[0] < 32 << 20 and mappings - before[1] < 20

    given_back = eventually(is_given_back)
    after = held()
    keep.type(b"\n")
    assert keep.finish().code == 0
    assert given_back, f"resident {before[0]} then {after[0]}, mappings {before[1]} then {after[1]}"
