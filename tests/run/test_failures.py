"""A task that ends badly ends as a process would, and the others go on working."""
import os
import signal
import time

import pytest

from jobs import RUN

WAYS = ["crash", "abort", "kill", "overflow", "exec", "constructor", "constructor-crash", "double-free", "jump",
        "bus", "quick-exit", "underscore-exit", "thread-crash", "thread-exit", "thread-exec", "main-thread-ends",
        "exit-with-threads", "atexit-crash"]


@pytest.mark.parametrize("way", WAYS)
def test_ends_as_a_process(job, run, guests, way):
    program = [guests("ending"), way]
    plain, task = job.run(program), job.run([*run, *program])
    assert task.code == plain.code != 0, f"{plain}\n{task}"


def test_the_others_go_on(job, guests):
    program, patterns = guests("ending"), guests("patterns")
    good = [job.start([*RUN, "--space", "mixed", patterns, "4"]) for _ in range(3)]
    for way in WAYS:
        assert job.run([*RUN, "--space", "mixed", program, way]).code != 0
    for command in good:
        command.finish().expect(out="intact\n")


def test_core_dumps_do_no_harm(job, guests, tmp_path):
    """With cores allowed the dump of one task must not take the others down."""
    program, patterns = guests("ending"), guests("patterns")
    argv = ["/bin/sh", "-c", f'ulimit -c 4096 2>/dev/null; exec {" ".join(RUN)} -n 2 {patterns} 2 : {program} abort']
    result = job.run(argv, cwd=tmp_path)
    assert result.code == 134 and result.out.count("intact") == 2, str(result)


def test_task_that_executes_another_program_is_waited_for(job, run):
    job.run([*run, "/bin/sh", "-c", "exec /bin/sh -c 'sleep 0.3; echo executed; exit 6'"]).expect(6, out="executed\n")


def test_task_executes_itself_by_its_link(job, run, guests):
    """Programs restart themselves through /proc/self/exe."""
    job.run([*run, guests("restart")]).expect(out="restarted as restart\n")


def test_killed_task_with_a_ring(job, guests, tool):
    """io_uring keeps requests in flight for a task that is killed; the space must not suffer."""
    ring = guests("ring")
    if job.run([ring, "1"]).code == 77:
        pytest.skip("io_uring is not permitted here")
    patterns = guests("patterns")
    good = [job.start([*RUN, "--space", "ring", patterns, "3"]) for _ in range(2)]
    for _ in range(3):
        command = job.start([*RUN, "--space", "ring", ring, "100000000"])
        command.wait_for("started")
        pid = int(command.so_far().out.split()[1])
        os.kill(pid, signal.SIGKILL)
        assert command.finish().code == 137
    # The kernel gives locked memory, of which a user may have little, back some time after a ring's end.
    for _ in range(60):
        result = job.run([*RUN, "--space", "ring", ring, "1000"])
        if result.code == 0:
            break
        time.sleep(0.5)
    assert result.code == 0, str(result)
    for command in good:
        assert command.finish().out == "intact\n"


def test_setresuid_in_one_task(job, guests):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    result = job.run([*RUN, guests("setresuid"), ":", "-n", "2", guests("patterns"), "2"])
    assert result.code == 0 and result.lines == ["intact", "intact", "user 65534"], str(result)


def test_task_that_changed_its_user_dies_with_its_root_or_shim(job, run, guests):
    """The kernel forgets the parent's death signal at setresuid."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    command = job.start([*run, guests("setresuid"), "sleep"])
    command.wait_for("user 65534")
    command.signal(signal.SIGKILL)
    assert command.finish().code == 137


def test_killed_reaper_takes_all_tasks_along(job, run, guests):
    """Those too that have given up the parent's death signal, by which the kernel kills the others."""
    command = job.start([*run, guests("survivor")])
    command.wait_for("ready")
    reaper, = job.named("onespace-reaper")
    job.may_leave_socket = True
    os.kill(reaper.pid, signal.SIGKILL)
    assert command.finish().code != 0
