"""tests/launch/test_containers.py: one container for all ranks of a node, and one for each rank: what works, what is
refused, and with which message. docs/containers.md has the same tables. podman, ch-run (Charliecloud), bwrap run
here without an image: on a directory in which those of this machine are mounted."""
import os
import pathlib
import re
import shutil
import tempfile

import pytest

from jobs import ONESPACE, ROOT, RUN
from launchers import MPIS

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount")

BUILD = pathlib.Path(ONESPACE).resolve().parents[1]
RANKS = ["rank 0: 0 wrong", "rank 1: 0 wrong"]
ALLOWED = {"ONESPACE_MAY_DIFFER": "namespaces,root,cgroup,keyring"}


@pytest.fixture(autouse=True)
def place():
    """Before, and so removed after, the job: to remove a mount point unmounts it, also for a host that is about to end.
    Podman wants short names."""
    directory = tempfile.mkdtemp(prefix="oc", dir="/tmp")
    os.chmod(directory, 0o755)
    yield pathlib.Path(directory)
    shutil.rmtree(directory)


@pytest.fixture
def root(place):
    """The root directory of containers."""
    directory = place / "root"
    for name in ("usr", "etc", "proc", "sys", "dev", "tmp", "run", "var", "root"):
        (directory / name).mkdir(parents=True)
    for name in ("passwd", "group", "hosts", "resolv.conf"):
        (directory / "etc" / name).touch()
    (directory / "tmp").chmod(0o1777)
    for link in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        if os.path.islink(f"/{link}"):
            (directory / link).symlink_to(os.readlink(f"/{link}"))
    return directory


def mounts():
    """What a container needs of this machine, besides /usr and /etc."""
    return sorted({str(path) for path in (ROOT.resolve(), BUILD)})


@pytest.fixture
def podman(job, tool, root, place):
    """Gives the command line of a container with Podman's own seccomp filter and capabilities, or skips."""
    tool("podman", "podman")
    tool("crun", "crun")
    def line(*options, at=root):
        volumes = [word for path in ("/usr", "/etc", *mounts()) for word in ("-v", f"{path}:{path}:ro")]
        # Podman's limits are higher than those of this machine may be. crun refuses two versions of control groups at
        # once, which some machines have.
        script = 'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"'
        return ["unshare", "--mount", "sh", "-c", script, "sh",
                "podman", "--root", place / "store", "--runroot", place / "run", "--tmpdir", place / "tmp",
                "--storage-driver=vfs", "--cgroup-manager=cgroupfs", "--events-backend=none", "run", "--rm", "--quiet",
                "--ulimit=nofile=4096:4096", "--ulimit=nproc=30000:30000", "--network=host", *volumes, *options,
                "--rootfs", at]

    plain = job.run([*line(), "true"])
    if plain.code != 0:
        pytest.skip(f"podman does not run here: {plain.err.strip()[-300:]}")
    return line


@pytest.fixture
def charliecloud(job, tool, root):
    tool("ch-run", "charliecloud-runtime")
    binds = [word for path in ("/usr", "/etc", "/tmp", *mounts()) for word in ("-b", f"{path}:{path}")]
    for path in mounts():
        (root / path[1:]).mkdir(parents=True, exist_ok=True)

    def line(*options):
        return ["env", "USER=root", "ch-run", *binds, *options, str(root), "--"]
    plain = job.run([*line(), "true"])
    if plain.code != 0:
        pytest.skip(f"ch-run does not run here: {plain.err.strip()[-300:]}")
    return line


@pytest.fixture
def bubblewrap(job, tool):
    tool("bwrap", "bubblewrap")

    def line(*options):
        return ["bwrap", "--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc", *options]
    plain = job.run([*line(), "true"])
    if plain.code != 0:
        pytest.skip(f"bwrap does not run here: {plain.err.strip()[-300:]}")
    return line


@pytest.fixture
def pointer(guests):
    """The command line of two ranks, with words before the launcher and before each rank, of an MPI's program."""
    def line(name, *, launcher=(), rank=(), run=RUN):
        mpi = MPIS[name].needed()
        return [*launcher, *mpi.command(2, [*rank, *run, guests.mpi(mpi, "mpi_pointer")])]
    return line


# ---- One container for all ranks ----

CONTAINERS = {
    "as it is": [],
    "without capabilities": ["--cap-drop=all", "--security-opt=no-new-privileges", "--user=1000:1000"],
    "with a read-only root": ["--read-only"],
    "in a user namespace": ["--uidmap=0:100000:65536", "--gidmap=0:100000:65536"],
}


@pytest.mark.parametrize("how", CONTAINERS)
def test_container_of_all_ranks_is_a_node(job, podman, pointer, how):
    job.run(pointer("mpich", launcher=podman(*CONTAINERS[how]))).expect(lines=RANKS)


def test_container_whose_filter_forbids_copies_by_the_kernel(job, podman, guests, tmp_path):
    """Those between tasks do not need it; an older Docker's filter is so."""
    profile = tmp_path / "filter.json"
    profile.write_text('{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["process_vm_readv", "ptrace", '
                       '"process_vm_writev"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}]}')
    mpi = MPIS["mpich"].needed()
    line = podman(f"--security-opt=seccomp={profile}")
    program = guests.mpi(mpi, "mpi_pointer")
    job.run([*line, *mpi.command(2, [*RUN, program])]).expect(lines=RANKS)


def test_container_that_can_write_nowhere_names_the_way_out(job, podman, pointer):
    line = podman("--read-only", "--read-only-tmpfs=false")
    result = job.run(pointer("mpich", launcher=line))
    output = "cannot make /tmp/onespace-0: Read-only file system: set XDG_RUNTIME_DIR to a local directory of yours"
    assert result.code != 0 and output in result.err, str(result)
    job.run([*line, *RUN, "-n", "2", "echo", "hi"]).expect(lines=["hi", "hi"])


@pytest.mark.parametrize("options", [["--shm-size=64k"], ["--shm-size=64k", "--read-only"]], ids=["", "read-only"])
@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_container_with_a_small_dev_shm(job, podman, pointer, name, options):
    """Tasks do not use it; processes of MPICH cannot do without."""
    line = podman(*options)
    job.run(pointer(name, launcher=line)).expect(lines=RANKS)
    if name == "mpich":
        assert job.run(pointer(name, launcher=line, run=[*RUN, "--shm", "system"])).code != 0


def test_container_without_proc_is_refused(job, bubblewrap):
    result = job.run([*bubblewrap("--tmpfs", "/proc"), *RUN, "-n", "2", "echo", "ran"])
    assert result.code == 1 and not result.out and "/proc cannot be read" in result.err, str(result)


@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_charliecloud_of_all_ranks_is_a_node(job, charliecloud, pointer, name):
    job.run(pointer(name, launcher=charliecloud())).expect(lines=RANKS)


# ---- A container for each rank ----

def refused(result, keys):
    """One message, which names all that differs."""
    found = re.findall(r"ONESPACE_MAY_DIFFER=(\S+) if the task may have the host's", result.err)
    assert result.code != 0 and found and set(found[0].split(",")) == set(keys), str(result)


def test_containers_of_ranks_are_refused(job, podman, pointer):
    job.may_leave_socket = True  # the host is killed with the container of the first rank
    line = podman("--pid=host", "--ipc=host", "--env-host", "-v", "/tmp:/tmp")
    refused(job.run(pointer("openmpi", rank=line)), ["namespaces", "cgroup", "keyring"])


def test_containers_of_ranks_share_a_space_where_that_is_allowed(job, podman, pointer):
    """The host is in the container of the first rank, and killed with it."""
    job.may_leave_socket = True
    line = podman("--pid=host", "--ipc=host", "--env-host", "-v", "/tmp:/tmp")
    job.run(pointer("openmpi", rank=line), env=ALLOWED).expect(lines=RANKS)


def test_containers_of_ranks_need_one_pid_namespace(job, bubblewrap, pointer):
    """PMIX_NAMESPACE is the same in both. Under Hydra nothing is: each would be alone."""
    job.may_leave_socket = True  # the host may be killed with its namespace
    result = job.run(pointer("openmpi", rank=bubblewrap("--unshare-pid")), env=ALLOWED)
    output = "cannot see this process (No such process): start both in one PID namespace"
    assert result.code != 0 and output in result.err, str(result)


@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_charliecloud_of_ranks_that_join_is_a_node(job, charliecloud, pointer, name):
    line = charliecloud("--join", "--join-ct=2", f"--join-tag={job.token}")
    job.run(pointer(name, rank=line)).expect(lines=RANKS)


def test_charliecloud_of_ranks_that_do_not_join_is_refused(job, charliecloud, pointer):
    refused(job.run(pointer("mpich", rank=charliecloud())), ["namespaces", "root", "keyring"])


def test_bubblewrap_of_ranks(job, bubblewrap, pointer):
    refused(job.run(pointer("mpich", rank=bubblewrap())), ["namespaces"])
    job.run(pointer("mpich", rank=bubblewrap()), env=ALLOWED).expect(lines=RANKS)


def test_table_of_the_documentation_names_what_is_tried_here():
    text = (ROOT / "docs/containers.md").read_text()
    allowed = ALLOWED["ONESPACE_MAY_DIFFER"]
    for word in ("--cap-drop=all", "--read-only", "--shm-size", "ch-run --join", "bwrap", allowed):
        assert word in text, word
