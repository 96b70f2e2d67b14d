"""Where a seccomp filter or a missing /proc takes from onespace what it needs, tasks run all the same, or a message
says what is missing."""
import errno
import shlex

import pytest

from jobs import RUN
from observe import PRCTL, PROCESS_VM_READV, PROCESS_VM_WRITEV, RT_SIGACTION, WAIT4, forbid


@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS, errno.ENOMEM])
def test_tasks_execute_where_copies_are_denied(job, error):
    """The reaper cannot read the memory of a task in execve, and must not take that for its departure."""
    deny = forbid(PROCESS_VM_READV, PROCESS_VM_WRITEV, error=error)
    for _ in range(3):
        job.run([*RUN, "-n", "4", "/usr/bin/env", "echo", "executed"], preexec_fn=deny).expect(out="executed\n" * 4)


@pytest.mark.parametrize("call", [PRCTL, WAIT4, RT_SIGACTION])
def test_calls_that_the_reaper_needs_are_missed_at_once(job, call):
    result = job.run([*RUN, "true"], preexec_fn=forbid(call, error=errno.EPERM))
    assert result.code == 1 and "cannot make a space: Operation not permitted" in result.err, str(result)


def test_ranks_of_a_host_without_a_space_are_refused_once(job):
    ranks = [job.start([*RUN, "--space", "none", "true"], preexec_fn=forbid(WAIT4, error=errno.EPERM),
                       env={"PMI_RANK": str(rank), "MPI_LOCALRANKID": str(rank), "MPI_LOCALNRANKS": "2"})
             for rank in range(2)]
    results = [rank.finish() for rank in ranks]
    assert all(result.code == 1 for result in results), list(map(str, results))
    assert sum(result.err.count("cannot make a space: Operation not permitted") for result in results) == 1, results


@pytest.mark.parametrize("options", [[], ["--space", "test"]])
def test_missing_proc_is_reported(job, options):
    if job.run(["unshare", "-rm", "true"]).code != 0:
        pytest.skip("needs unshare -rm")
    command = shlex.join([*RUN, *options, "true"])
    result = job.run(["unshare", "-rm", "sh", "-c", f"mount -t tmpfs none /proc && exec {command}"])
    assert result.code == 1 and "/proc cannot be read" in result.err, str(result)
