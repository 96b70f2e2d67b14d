"""tests/launch/test_dvm.py: jobs of PRRTE (Open MPI 5 and later) in a DVM, whose daemons serve many jobs."""
import os
import re
import shutil
import signal

import pytest

from jobs import RUN
from launchers import MPIS, ROOT_FLAG

AGENT = "PRTE_MCA_prte_odls_base_exec_agent"


@pytest.fixture
def prrte():
    mpi = MPIS["openmpi"].needed()
    if not shutil.which("prun"):
        pytest.skip("no prun: the distribution's Open MPI is older than 5 (scripts/in-debian trixie has one)")
    return mpi


class Dvm:
    def __init__(self, job, uri):
        self.job, self.uri = job, uri

    def command(self, ranks, *program):
        """PRRTE's prun and prterun give no rank its number on the node, Open MPI's mpirun does."""
        return ["mpirun.openmpi", *ROOT_FLAG, "--dvm", f"file:{self.uri}", "--map-by", "node:OVERSUBSCRIBE",
                "-n", str(ranks), *map(str, program)]

    def start(self, ranks, *program):
        return self.job.start(self.command(ranks, *program))

    def run(self, ranks, *program):
        return self.start(ranks, *program).finish()


@pytest.fixture
def dvm(job, prrte, tmp_path):
    """Starts a DVM, with these variables in its environment."""
    running = []

    def start(*options, **env):
        uri = tmp_path / f"uri{len(running)}"
        command = job.start(["prte", *ROOT_FLAG, "--report-uri", uri, *options], env=env)
        running.append(command)
        command.wait_for("DVM ready")
        return Dvm(job, uri)

    yield start
    for command in running:
        command.signal(signal.SIGTERM)
        command.finish()


def right(result, ranks):
    assert result.code == 0 and result.lines == [f"rank {i}: 0 wrong" for i in range(ranks)], str(result)


def spaces(*results):
    return [set(re.findall(r"onespace run: space (\S+)", result.err)) for result in results]


def test_dvm_runs_jobs_one_after_another(job, guests, prrte, dvm):
    machine, program = dvm(), guests.mpi(prrte, "mpi_pointer")
    for ranks in (2, 3):
        right(machine.run(ranks, *RUN, program), ranks)
    right(job.run(["prun", "--dvm-uri", f"file:{machine.uri}", *ROOT_FLAG, "-n", 2, *RUN, program]), 2)


def test_dvm_gives_jobs_at_the_same_time_a_space_each(guests, prrte, dvm):
    """They have one daemon."""
    machine, program = dvm(), guests.mpi(prrte, "mpi_hello")
    results = [command.finish() for command in [machine.start(2, *RUN, "--verbose", program) for _ in range(2)]]
    for result in results:
        assert result.code == 0 and len([line for line in result.lines if "of 2, sum 1" in line]) == 2, str(result)
        assert "another launcher" not in result.err, str(result)
    found = spaces(*results)
    assert len(found[0]) == len(found[1]) == 1 and found[0] != found[1], found


def test_dvm_with_a_fork_agent_makes_tasks_of_unchanged_jobs(guests, prrte, dvm):
    machine = dvm(**{AGENT: " ".join(RUN)})
    right(machine.run(3, guests.mpi(prrte, "mpi_pointer")), 3)


@pytest.mark.parametrize("way", ["return", "exit", "mpi_abort"])
def test_dvm_ends_a_job_as_of_processes(guests, prrte, dvm, way):
    machine, program = dvm(), guests.mpi(prrte, "mpi_end")
    codes = [machine.run(2, *prefix, program, way).code for prefix in ([], RUN)]
    assert codes[0] == codes[1] and (codes[0] == 0) == (way == "return"), codes


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give each node a name")
def test_dvm_of_two_nodes_has_a_space_on_each(dvm, tmp_path):
    """Two daemons on this machine are two nodes; a second job there has two spaces again."""
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nname=$1\nshift\n'
                   'exec unshare --uts sh -c "hostname $name; $*"\n')
    ssh.chmod(0o755)
    machine = dvm("--host", "one:2,two:2", "--prtemca", "plm_ssh_agent", str(ssh))
    # No messages between the nodes, for which Open MPI 5.0.7 finds no way on one machine, in processes either.
    results = [machine.run(4, *RUN, "--verbose", "sh", "-c", "echo $ONESPACE_TASK_ID of $ONESPACE_NTASKS")
               for _ in range(2)]
    for result in results:
        assert result.code == 0 and result.lines == ["0 of 2", "0 of 2", "1 of 2", "1 of 2"], str(result)
    found = spaces(*results)
    assert [len(names) for names in found] == [2, 2] and not found[0] & found[1], found
