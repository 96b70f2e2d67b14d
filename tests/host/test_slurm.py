"""tests/host/test_slurm.py: srun as launcher, with a Slurm of one node that the tests bring up themselves."""
import os
import shutil
import signal
import socket
import subprocess
import time

import pytest

from jobs import RUN, processes_with
from launchers import MPIS

NEEDS = ("slurmctld", "slurmd", "srun", "sinfo", "scancel")
# One node has all CPUs of the machine.
pytestmark = [pytest.mark.alone,
              pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to start Slurm's daemons"),
              pytest.mark.skipif(not all(map(shutil.which, NEEDS)),
                                 reason="Slurm is not installed (packages slurmctld and slurmd)")]

CONFIG = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.pid
SlurmctldPort={port}
SlurmdPort={other_port}
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd.log
SelectType=select/cons_tres
SwitchType=switch/none
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""


def free_ports():
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1]


def end(daemons, config, env):
    """Stops the daemons, and whatever of a failed test Slurm still runs: a step outlives slurmd."""
    subprocess.run(["scancel", "--user=root"], env=env, capture_output=True, timeout=20)
    for daemon in daemons:
        daemon.terminate()
    for daemon in daemons:
        try:
            daemon.wait(20)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
    until = time.monotonic() + 30
    while left := [process for process in processes_with("SLURM_CONF", config) if process.state != "Z"]:
        if time.monotonic() > until:
            for process in left:
                os.kill(process.pid, signal.SIGKILL)
            pytest.fail(f"left behind: {left}")
        time.sleep(0.1)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    directory = tmp_path_factory.mktemp("slurm")
    for name in ("state", "spool"):
        (directory / name).mkdir()
    port, other_port = free_ports()
    config = directory / "slurm.conf"
    config.write_text(CONFIG.format(host=socket.gethostname().split(".")[0], directory=directory, port=port,
                                    other_port=other_port, cpus=os.cpu_count()))
    env = {**os.environ, "SLURM_CONF": str(config)}
    daemons = [subprocess.Popen([name, "-D", "-f", str(config)], env=env, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
               for name in ("slurmctld", "slurmd")]
    try:
        wait_until_idle(env, directory)
        yield {"SLURM_CONF": str(config)}
    finally:
        end(daemons, config, env)


def wait_until_idle(env, directory):
    """Or skips, and says what the daemons have said last."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        state = subprocess.run(["sinfo", "-h", "-o", "%T"], env=env, capture_output=True, text=True, timeout=20)
        if state.stdout.strip() == "idle":
            return
        time.sleep(0.2)
    logs = [directory / f"{name}.log" for name in ("slurmctld", "slurmd")]
    last = [line for log in logs if log.exists() for line in log.read_text().splitlines()[-2:]]
    pytest.skip(f"Slurm does not come up here: {state.stdout.strip()} {state.stderr.strip()} {' | '.join(last)}")


@pytest.fixture(params=["mpich pmi2", "openmpi pmix"])
def srun(request, slurm):
    """An MPI library with the way in which srun speaks to it; the command and its environment."""
    name, way = request.param.split()
    mpi = MPIS[name].needed()
    command = ["srun", "--quiet", "--oversubscribe", "--overcommit", "--kill-on-bad-exit=1", f"--mpi={way}"]
    return mpi, command, slurm


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_share_an_address_space(job, guests, srun, ranks):
    mpi, command, env = srun
    result = job.run([*command, "-n", ranks, *RUN, guests.mpi(mpi, "mpi_pointer")], env=env, timeout=40)
    assert result.code == 0 and result.lines == [f"rank {i}: 0 wrong" for i in range(ranks)], str(result)


def test_task_numbers_are_the_local_ranks(job, srun):
    _, command, env = srun
    result = job.run([*command, "-n", "2", *RUN, "/bin/sh", "-c", "echo $ONESPACE_TASK_ID of $ONESPACE_NTASKS"],
                     env=env, timeout=40)
    assert result.code == 0 and result.lines == ["0 of 2", "1 of 2"], str(result)


@pytest.mark.parametrize("way", ["return", "exit", "crash", "mpi_abort"])
def test_rank_ends_as_a_process(job, guests, srun, way):
    mpi, command, env = srun
    codes = [job.run([*command, "-n", "2", *prefix, guests.mpi(mpi, "mpi_end"), way], env=env, timeout=60).code
             for prefix in ([], RUN)]
    assert codes[0] == codes[1]


def test_termination_reaches_the_ranks(job, guests, srun):
    mpi, command, env = srun
    codes = []
    for prefix in ([], RUN):
        running = job.start([*command, "-n", "2", *prefix, guests.mpi(mpi, "mpi_end"), "sleep"], env=env,
                            timeout=60)
        running.wait_for("ready", 2)
        running.signal(signal.SIGTERM)
        codes.append(running.finish().code)
    assert codes[0] == codes[1]
