"""One topology for all ranks of a node: src/launch/topology.c."""
import os
import pathlib
import re
import resource
import signal
import subprocess

import pytest

from jobs import RUN, eventually

CPUSETS = pathlib.Path("/sys/fs/cgroup/cpuset")
SERVER = "onespace-topo"
BY_SERVER = "onespace"  # hwloc names the program, onespace or onespace-host
# Lines about hwloc's own work rather than the machine.
OWN = re.compile(r'(?m)^ *<info name="(hwlocVersion|ProcessName)".*\n|'
                 r'^ *<support name="discovery.cpukind_efficiency"/>\n| gp_index="\d+"')


def readers(result):
    assert result.code == 0, str(result)
    return re.findall(r"read by (onespace|\S+?)(?:-host)?\n", result.out)


def read(result):
    """By which process hwloc's topology was read, and the rest of the program's output."""
    assert result.code == 0 and not result.err, str(result)
    return readers(result), OWN.sub("", result.out.split("\n", 1)[1])


def ranks(program, count=2):
    """Only the first of the ranks prints its topology."""
    return ["mpiexec.mpich", "-n", "1", *RUN, *program, ":", "-n", str(count - 1), *RUN, "true"]


@pytest.fixture
def cpuset():
    """A cgroup with one CPU, as a prefix of commands."""
    path = CPUSETS / f"onespace-test-{os.getpid()}"
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"cannot make a control group: {error}")
    (path / "cpuset.mems").write_text((CPUSETS / "cpuset.mems").read_text())
    (path / "cpuset.cpus").write_text("0")
    yield ["sh", "-c", f'echo $$ >{path}/tasks; exec "$@"', "sh"]
    assert eventually(lambda: not (path / "tasks").read_text())
    path.rmdir()


@pytest.mark.parametrize("flags, all_types", [(0, 0), (0, 1), (1, 1)])
def test_same_as_a_process_reads(job, guests, flags, all_types):
    program = [guests("topology"), str(flags), str(all_types)]
    env = {"HWLOC_PLUGINS_BLACKLIST": ""}
    by, expected = read(job.run(program, env=env))
    assert by == ["topology"] and "<object type=\"PU\"" in expected
    assert read(job.run(ranks(program), env=env)) == ([BY_SERVER], expected)


def test_limits_and_bindings_are_the_ranks_own(job, guests, cpuset):
    program = [guests("topology"), "0", "0"]
    env = {"HWLOC_PLUGINS_BLACKLIST": ""}
    expected = read(job.run([*cpuset, *program], env=env))[1]
    assert expected.count('<object type="PU"') == 1 and expected.startswith("bound to 0x00000001\n"), expected
    assert read(job.run([*cpuset, *ranks(program)], env=env)) == ([BY_SERVER], expected)
    by, unlimited = read(job.run(["taskset", "-c", "0", *ranks(program)], env=env))
    assert by == [BY_SERVER] and unlimited.startswith("bound to 0x00000001\n"), unlimited


@pytest.mark.parametrize("host", [[], ["--space", "topology"]])
def test_tasks_without_a_launcher(job, guests, host):
    """One task alone reads it itself; how many come to a named space is not known."""
    program = [guests("topology"), "0", "0"]
    one = "topology" if not host else BY_SERVER
    assert readers(job.run([*RUN, *host, *program])) == [one]
    if not host:
        assert readers(job.run([*RUN, "-n", "3", *program])) == 3 * [BY_SERVER]
        assert readers(job.run([*RUN, "-n", "2", "sh", "-c", 'exec "$@"', "sh", *program])) == 2 * [BY_SERVER]


@pytest.mark.parametrize("variable", ["HWLOC_XMLFILE", "HWLOC_SYNTHETIC", "HWLOC_COMPONENTS", "HWLOC_THISSYSTEM"])
def test_choice_of_the_user_is_kept(job, variable):
    value = {"HWLOC_XMLFILE": "/tmp/saved.xml", "HWLOC_COMPONENTS": "linux"}.get(variable, "1")
    shown = job.run([*RUN, "-n", "2", "env"], env={variable: value})
    assert re.findall(r"(?m)^HWLOC_(?!PLUGINS).*", shown.out) == 2 * [f"{variable}={value}"], str(shown)


def test_server_is_killed(job, guests):
    """Then each rank reads the topology, and the job ends as ever."""
    program = f'echo up; read line; exec {guests("topology")} 0 0'
    command = job.start([*RUN, "-n", "1", "/bin/sh", "-c", program, ":", "true"], terminal=True)
    command.wait_for("up")
    server, = job.named(SERVER)
    os.kill(server.pid, signal.SIGKILL)
    assert eventually(lambda: not job.named(SERVER))
    command.type(b"\n")
    result = command.finish()
    assert readers(result) == ["topology"], str(result)


def make_plugin(directory, fault):
    """A plugin of hwloc that does this in the process that reads for the ranks."""
    (directory / "fault.c").write_text(f"""
        #include <signal.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/prctl.h>
        #include <unistd.h>
        __attribute__((constructor)) static void load(void)
        {{
            char name[16] = "";
            prctl(PR_GET_NAME, name);
            if (strcmp(name, "{SERVER}") == 0)
                {fault};
        }}""")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", directory / "hwloc_fault.so", directory / "fault.c"], check=True)


@pytest.mark.parametrize("fault", ["abort()", "exit(0)", pytest.param("for (;;);", marks=pytest.mark.long)])
def test_reading_fails(job, guests, fault, tmp_path):
    """A plugin of hwloc ends or stops the process that reads for the ranks. Another one reads without plugins."""
    make_plugin(tmp_path, fault)
    result = job.run([*RUN, "-n", "2", guests("topology"), "0", "0"], env={"HWLOC_PLUGINS_PATH": str(tmp_path)})
    assert readers(result) == 2 * [BY_SERVER], str(result)


def test_small_limit_on_file_sizes(job, guests):
    """The topology is read as without a limit, or by each rank; never is a part of it written."""
    def limit(hard):
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024 if hard else resource.RLIM_INFINITY))

    for hard, who in ((False, BY_SERVER), (True, "topology")):
        result = job.run([*RUN, "-n", "2", guests("topology"), "0", "0"], preexec_fn=lambda hard=hard: limit(hard))
        assert readers(result) == 2 * [who], str(result)


def test_ignored_end_of_children(job, guests):
    """As a shell leaves it after trap '' CHLD."""
    result = job.run([*RUN, "-n", "2", guests("topology"), "0", "0"],
                     preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert readers(result) == 2 * [BY_SERVER], str(result)


def test_server_is_killed_while_the_topology_is_read(job, guests, tmp_path):
    """The ranks that wait get it nevertheless; later ones read it themselves."""
    make_plugin(tmp_path, "kill(getppid(), SIGKILL)")
    result = job.run([*RUN, "-n", "2", guests("topology"), "0", "0"], env={"HWLOC_PLUGINS_PATH": str(tmp_path)})
    found = readers(result)
    assert len(found) == 2 and BY_SERVER in found, str(result)


def test_root_is_killed(job):
    command = job.start([*RUN, "-n", "2", "/bin/sh", "-c", "echo up; exec sleep 600"])
    command.wait_for("up")
    assert job.named(SERVER)
    command.signal(signal.SIGKILL)
    assert command.finish().code != 0
    assert eventually(lambda: not job.processes()), job.processes()
