"""tests/kernels/test_yama.py: kernel.yama.ptrace_scope 0 to 3, for an ordinary user: jobs copy in user space, and
`onespace ps` says what it may not read. In a virtual machine, as tests/kernels/test_kernels.py; docs/containers.md has
the table."""
import json

import pytest

from guests import PROGRAMS
from jobs import ONESPACE
from test_kernels import HYDRA, UCX, USER

SCOPE = "/proc/sys/kernel/yama/ptrace_scope"
EXCHANGE = PROGRAMS / "mpich/mpi_exchange"
# A process opens the memory of its sibling, which it may at 0 alone.
LOOKS = f"{USER} sh -c 'sleep 30 & sleep 1; (exec 3</proc/$!/mem) && echo allowed; kill $!'"
JOB = f"{USER} mpiexec.mpich -n 2 {ONESPACE} run --stats {EXCHANGE}"
SEEN = (f"{USER} {ONESPACE} run -n 2 sleep 300 & sleep 8; {USER} {ONESPACE} ps --json; echo @; "
        f"{ONESPACE} ps --json; echo @; {USER} {ONESPACE} ps; kill $!; wait")


def tried_at(scope):
    return [f"echo {scope} >{SCOPE} && cat {SCOPE}", LOOKS, JOB, SEEN]


def problem_of(text):
    """What `onespace ps --json` says that it does not know; the tasks are there in any case."""
    space, = json.loads(text)
    assert len([task for task in space["tasks"] if task["program"].endswith("sleep")]) == 2, text
    return space["problem"] or ""


def test_jobs_copy_in_user_space_and_ps_says_what_it_may_not(run_there):
    """3 comes last: it cannot be left."""
    known, *results = run_there([f"cat {SCOPE}", *(command for scope in range(4) for command in tried_at(scope))],
                                [EXCHANGE, *UCX, *HYDRA])
    if known[0] != 0:
        pytest.skip("this kernel has no Yama")
    for scope in range(4):
        (status, now), (_, looked), (ended, said), (_, seen) = results[4 * scope:4 * scope + 4]
        assert status == 0 and now == str(scope), now
        assert ("allowed" in looked) == (scope == 0), looked
        assert ended == 0 and "rank 0: 0 wrong" in said and "rank 1: 0 wrong" in said, said
        assert "copies in user space: 0," not in said and "through the kernel: 0;" in said, said
        user, root, table = seen.split("@\n")
        assert ("cannot be read (Operation not permitted)" in problem_of(user)) == (scope > 0), seen
        assert ("cannot be read" in problem_of(root)) == (scope == 3), seen
        assert ("to root too until the machine boots anew" in problem_of(user)) == (scope == 3), seen
        assert ("set kernel.yama.ptrace_scope to 0" in " ".join(table.split())) == (scope in (1, 2)), seen
