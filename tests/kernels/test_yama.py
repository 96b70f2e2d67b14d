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
OPENMPI_EXCHANGE = PROGRAMS / "openmpi/mpi_exchange"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
OPENMPI = ["/usr/bin/mpiexec.openmpi", "/usr/bin/orted", "/etc/openmpi", "/usr/share/openmpi",
           f"{LIBRARIES}/openmpi/lib/openmpi3", f"{LIBRARIES}/pmix2"]
# A process opens the memory of its sibling, which it may at 0 alone.
LOOKS = f"{USER} sh -c 'sleep 30 & sleep 1; (exec 3</proc/$!/mem) && echo allowed; kill $!'"
JOB = f"{USER} mpiexec.mpich -n 2 {ONESPACE} run --stats {EXCHANGE}"
# The machine has no ssh, which Open MPI looks for even if it starts nothing elsewhere.
MPIEXEC = f"{USER} env HOME=/tmp mpiexec.openmpi --mca plm_rsh_agent /bin/true --oversubscribe -n 2"
OPENMPI_JOB = f"{MPIEXEC} {ONESPACE} run --stats {OPENMPI_EXCHANGE}"
# Prints how often Open MPI of two processes was refused a copy, and the rest of the job's output.
OPENMPI_PROCESSES = f"{MPIEXEC} {OPENMPI_EXCHANGE} >said 2>&1; grep -c 'Read -1, expected' said; grep wrong said"
SEEN = (f"{USER} {ONESPACE} run -n 2 sleep 300 & sleep 8; {USER} {ONESPACE} ps --json; echo @; "
        f"{ONESPACE} ps --json; echo @; {USER} {ONESPACE} ps; kill $!; wait")


def tried_at(scope):
    return [f"echo {scope} >{SCOPE} && cat {SCOPE}", LOOKS, JOB, OPENMPI_JOB, OPENMPI_PROCESSES, SEEN]


def problem_of(text):
    """What `onespace ps --json` says that it does not know; the tasks are there in any case."""
    space, = json.loads(text)
    assert len([task for task in space["tasks"] if task["program"].endswith("sleep")]) == 2, text
    return space["problem"] or ""


def check_job(status, output, scope, copies):
    assert status == 0 and "rank 0: 0 wrong" in output and "rank 1: 0 wrong" in output, (scope, output)
    assert "through the kernel: 0;" in output and ("copies in user space: 0," not in output) == copies, (scope, output)


def test_jobs_copy_in_user_space_and_ps_says_what_it_may_not(run_there):
    """From 2 on UCX asks for no copies, which MPICH then goes without; Open MPI does, and processes are refused them. 3
    comes last: it cannot be left."""
    known, *results = run_there([f"cat {SCOPE}", *(command for scope in range(4) for command in tried_at(scope))],
                                [EXCHANGE, *UCX, *HYDRA, OPENMPI_EXCHANGE, *OPENMPI])
    if known[0] != 0:
        pytest.skip("this kernel has no Yama")
    for scope in range(4):
        (status, now), (_, looked), mpich, openmpi, (_, refused), (_, seen) = results[6 * scope:6 * scope + 6]
        assert status == 0 and now == str(scope), now
        assert ("allowed" in looked) == (scope == 0), looked
        check_job(*mpich, scope, scope < 2)
        check_job(*openmpi, scope, True)
        assert (int(refused.split()[0]) > 0) == (scope >= 2), refused
        user, root, table = seen.split("@\n")
        assert ("cannot be read (Permission denied)" in problem_of(user)) == (scope > 0), seen
        assert ("cannot be read" in problem_of(root)) == (scope == 3), seen
        assert ("even to root until the next reboot" in problem_of(user)) == (scope == 3), seen
        assert ("set kernel.yama.ptrace_scope to 0" in " ".join(table.split())) == (scope in (1, 2)), seen
