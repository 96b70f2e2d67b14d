"""tests/lib/cluster.py: two virtual machines, node0 and node1, with an RDMA network between them (Soft-RoCE).

Both run a release of Debian with its generic kernel (scripts/fetch-nodes): their root is its directory, which they only
read; what they write stays in their memory. This checkout is mounted at the same path as here. /shared is one directory
on both: node0 exports it by NFS. The network is a socket of QEMU's; another, to which only this machine has access,
carries the commands by SSH."""
import dataclasses
import lzma
import os
import pathlib
import re
import shlex
import shutil
import socket
import stat
import subprocess
import tempfile
import time

from machine import ROOT, X86_64, Archive, Unavailable, build_init

NODES = ROOT / ".nodes"
COUNT = 2
ADDRESS = "10.0.0.{}"
MODULES_FOR_ROOT = ["virtio_pci", "9pnet_virtio", "9p", "overlay"]
BOOT_S = 300
FINALIZE_S = 15
# Debian's kernels have no soft iWARP (siw).
DEVICE = "rxe0"


def releases():
    """The releases of Debian that scripts/fetch-nodes has fetched."""
    return sorted(path.parent.name for path in NODES.glob("*/.complete") if path.parent.name != "security")


def check(release):
    for program, part in (("qemu-system-x86_64", "machine"), ("ssh", "networks"), ("ssh-keygen", "networks")):
        if not shutil.which(program):
            raise Unavailable(f"no {program}: scripts/setup {part}")
    if release not in releases():
        raise Unavailable(f"no Debian {release} for virtual machines: scripts/fetch-nodes {release}, as root")
    if os.geteuid() != 0:
        raise Unavailable("needs root: the machines' files belong to several users")


@dataclasses.dataclass
class Result:
    status: int
    text: str  # standard output and error

    def expect(self, status=0):
        assert self.status == status, str(self)
        return self

    def reports(self):
        """The last lines of a guest's ranks (tests/mpi/guests/mpi_check.h)."""
        return sorted(line for line in self.text.splitlines() if re.match(r"rank \d+: \d+ wrong", line))

    def __str__(self):
        return f"exit status {self.status}\n{self.text}"


class Cluster:
    """Context manager."""

    def __init__(self, release, memory_mib=1536, cpus=2):
        check(release)
        self.root, self.memory_mib, self.cpus = NODES / release, memory_mib, cpus
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="onespace-cluster-"))
        self.machines, self.ports = {}, {}  # of each node

    def __enter__(self):
        try:
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.directory / "key"], check=True)
            self.write_initramfs()
            for node in range(COUNT):
                self.boot(node)
                while not (self.directory / "network").exists():  # a connection is tried once
                    assert self.machines[0].poll() is None, self.console(0).read_text()
                    time.sleep(0.05)
            for node in range(COUNT):
                self.await_node(node)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for node in self.machines:
            self.end(node)
        shutil.rmtree(self.directory, ignore_errors=True)

    # ---- Start ----

    def modules(self):
        """The files of the modules that the root needs, each after those that it depends on."""
        directory, = (self.root / "lib/modules").iterdir()
        dependencies = dict(line.split(":") for line in (directory / "modules.dep").read_text().splitlines())
        found = []
        for name in MODULES_FOR_ROOT:
            for path in dependencies:  # or it is part of the kernel
                if path.split("/")[-1].split(".")[0] == name:
                    found += [file for file in [*reversed(dependencies[path].split()), path] if file not in found]
        return [directory / path for path in found]

    def write_initramfs(self):
        with open(self.directory / "initramfs", "wb") as file:
            archive = Archive(file, with_libraries=False)
            for name in ("/dev", "/lower", "/upper", "/root"):
                archive.entry(name, stat.S_IFDIR | 0o755)
                archive.seen.add(name)
            archive.entry("/dev/console", stat.S_IFCHR | 0o600, major=5, minor=1)
            archive.file_of("/init", build_init(self.directory, X86_64))
            for i, path in enumerate(self.modules()):
                data = path.read_bytes()
                archive.file_of(f"/modules/{i:02}.ko", lzma.decompress(data) if path.suffix == ".xz" else data)
            archive.end()

    def boot(self, node):
        files = self.directory / f"files{node}"
        files.mkdir(exist_ok=True)
        for name in ("key", "key.pub"):
            shutil.copy(self.directory / name, files / name)
        (files / "commands").write_text(COMMANDS.format(
            node=node, address=ADDRESS.format(node + 1), checkout=shlex.quote(str(ROOT)),
            storage=EXPORT if node == 0 else MOUNT))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.ports[node] = free.getsockname()[1]
        server = "on" if node == 0 else "off"
        end = f"stream,id=network,server={server},addr.type=unix,addr.path={self.directory}/network"
        shares = [word for tag, path in (("root", self.root), ("files", files), ("checkout", ROOT)) for word in (
            "-fsdev", f"local,id={tag},path={path},security_model=none,readonly=on,multidevs=remap",
            "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}")]
        kernel, = (self.root / "boot").glob("vmlinuz-*")
        with open(self.console(node), "ab") as console:
            self.machines[node] = subprocess.Popen(
                ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", str(self.cpus),
                 "-m", str(self.memory_mib), "-kernel", kernel, "-initrd", self.directory / "initramfs",
                 "-append", "console=ttyS0 quiet loglevel=3 net.ifnames=0 no_timer_check panic=-1 mitigations=off",
                 "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio", *shares,
                 "-netdev", end, "-device", f"virtio-net-pci,netdev=network,mac=52:54:00:00:00:0{node},addr=10",
                 "-netdev", f"user,id=host,restrict=on,hostfwd=tcp:127.0.0.1:{self.ports[node]}-:22",
                 "-device", f"virtio-net-pci,netdev=host,mac=52:54:00:00:01:0{node},addr=11"],
                stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT, start_new_session=True)

    def end(self, node):
        """As by a power failure."""
        self.machines[node].kill()
        self.machines[node].wait()

    def console(self, node):
        return self.directory / f"console{node}"

    def await_node(self, node):
        """The node's SSH server is the last that starts."""
        until = time.monotonic() + BOOT_S
        while subprocess.run(self.command(node, "true"), capture_output=True, check=False).returncode:
            is_alive = self.machines[node].poll() is None
            assert is_alive and time.monotonic() < until, self.console(node).read_text(errors="replace")
            time.sleep(1)

    # ---- Commands ----

    def command(self, node, command):
        return ["ssh", "-q", "-i", str(self.directory / "key"), "-p", str(self.ports[node]), "-o", "ConnectTimeout=10",
                "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "root@127.0.0.1", command]

    def run(self, command, node=0, timeout=900):
        """Runs a shell command there."""
        done = subprocess.run(self.command(node, f"exec 2>&1; {command}"), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, timeout=timeout, check=False)
        return Result(done.returncode, done.stdout.decode(errors="replace"))

    def start(self, command, node=0):
        """Begins a shell command there, whose output can be read."""
        return subprocess.Popen(self.command(node, f"exec 2>&1; {command}"), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, text=True, errors="replace")

    def run_until_all_report(self, command, ranks):
        """Runs a job of a guest. It is killed some seconds after all ranks have printed their results: MPICH's
        MPI_Finalize may hang over TCP."""
        lines = []
        with self.start(f"timeout -k 20 900 {command}") as job:
            for line in job.stdout:
                lines.append(line)
                if sum(" wrong\n" in each for each in lines) == ranks:
                    break
            try:
                job.wait(FINALIZE_S)
            except subprocess.TimeoutExpired:
                self.run("pkill -KILL -f '^(mpiexec|mpirun)'; pkill -x ssh")
        return Result(job.returncode, "".join(lines))

    # ---- The network ----

    def disturb(self, netem):
        """Both nodes delay or lose what they send, as tc's netem is told; "": no more."""
        for node in range(COUNT):
            self.run("tc qdisc del dev eth0 root", node)
            if netem:
                self.run(f"tc qdisc add dev eth0 root netem {netem}", node).expect()

    def queue_pairs(self, node):
        """How many queue pairs the device has, besides that of its port."""
        lines = self.run("rdma resource show qp", node).expect().text.splitlines()
        return len([line for line in lines if DEVICE in line and "type GSI" not in line])

    def packets(self, node):
        """How many packets the device has sent."""
        counters = f"/sys/class/infiniband/{DEVICE}/ports/1/hw_counters/sent_pkts"
        return int(self.run(f"cat {counters}", node).expect().text)


COMMANDS = """
hostname node{node}
printf '127.0.0.1 localhost\\n10.0.0.1 node0\\n10.0.0.2 node1\\n' >/etc/hosts
modprobe -a virtio_net crc32_generic rdma_rxe ib_uverbs rdma_ucm ib_umad sch_netem
ip link set lo up
ip addr add {address}/24 dev eth0; ip link set eth0 up
ip addr add 10.0.2.15/24 dev eth1; ip link set eth1 up
rdma link add rxe0 type rxe netdev eth0
mkdir -p {checkout} /shared /root/.ssh
mount -t 9p -o ro,trans=virtio,version=9p2000.L,cache=loose,msize=1048576 checkout {checkout}
{storage}
cp /run/machine/key /root/.ssh/id_ed25519
cp /run/machine/key.pub /root/.ssh/authorized_keys
printf 'StrictHostKeyChecking no\\nUserKnownHostsFile /dev/null\\nLogLevel ERROR\\n' >/root/.ssh/config
chown -R root:root /root; chmod 700 /root /root/.ssh; chmod 600 /root/.ssh/*
useradd -m user
ulimit -l unlimited
mkdir -p /run/sshd
exec /usr/sbin/sshd -D -e -o PermitRootLogin=yes -o UseDNS=no -o UsePAM=no -o MaxStartups=100 -h /root/.ssh/id_ed25519
"""
# Version 4 needs no other service than mountd, which answers the kernel's questions.
EXPORT_OPTIONS = "rw,no_root_squash,no_subtree_check,fsid=0"
EXPORTED = "10.0.0.0/24:/shared"
LEASE_S = 30  # the locks of a node that has vanished are kept so long
EXPORT = f"""modprobe nfsd
mount -t tmpfs -o mode=1777 tmpfs /shared
mount -t nfsd nfsd /proc/fs/nfsd
mkdir -p /run/rpc_pipefs /var/lib/nfs/v4recovery
exportfs -o {EXPORT_OPTIONS} {EXPORTED}
rpc.mountd -N 3
rpc.nfsd -N 3 -L {LEASE_S} -G 10 4"""
MOUNT = """modprobe nfsv4
until mount -t nfs4 node0:/ /shared; do sleep 1; done"""


# ---- MPI libraries ----

# How each MPI library is told to use the RDMA network. UCX would take datagrams of Soft-RoCE for another port's.
UCX = {"UCX_TLS": "rc_verbs,ud_verbs,self,sm", "UCX_NET_DEVICES": f"{DEVICE}:1", "UCX_IB_GID_INDEX": "1",
       "UCX_UD_VERBS_ETH_DGID_CHECK": "n"}
# libfabric makes completion queues for so many ranks: for its default of 256 they would be too long for Soft-RoCE.
OFI = {"FI_PROVIDER": "verbs;ofi_rxm", "FI_UNIVERSE_SIZE": "16"}
UCX_TCP = {"UCX_TLS": "tcp,self,sm", "UCX_NET_DEVICES": "eth0"}
OFI_TCP = {"FI_PROVIDER": "tcp;ofi_rxm", "FI_TCP_IFACE": "eth0"}
ETH0 = ("--mca oob_tcp_if_include eth0",)


@dataclasses.dataclass(frozen=True)
class Network:
    """An MPI library with a network library."""
    name: str
    mpi: str
    env: dict
    options: tuple = ()

    def command(self, ranks_per_node, words, env=None, ranks=None, slots=None):
        """The launcher's command line, which runs on node0: so many ranks on each node, unless there are fewer. slots:
        of each node, for what the job spawns."""
        ranks, variables = ranks or COUNT * ranks_per_node, {**self.env, **(env or {})}
        slots = slots or (ranks_per_node, ranks_per_node)
        if self.mpi == "mpich":
            settings = [word for name, value in variables.items() for word in ("-genv", name, f"'{value}'")]
            launcher = ["mpiexec.mpich", "-hosts", "node0,node1", "-ppn", str(ranks_per_node), *settings]
        else:
            settings = [word for name, value in variables.items() for word in ("-x", f"'{name}={value}'")]
            launcher = ["mpirun.openmpi", "--allow-run-as-root", "--host",
                        f"node0:{slots[0]},node1:{slots[1]}", "--bind-to", "none", *settings]
        return " ".join([*launcher, *self.options, "-n", str(ranks), *(str(word) for word in words)])


NETWORKS = [
    Network("mpich-ucx", "mpich", UCX),
    Network("openmpi-ucx", "openmpi", UCX, (*ETH0, "--mca pml ucx --mca osc ucx,sm --mca btl ^openib")),
    Network("openmpi-ofi", "openmpi", OFI, (*ETH0, "--mca pml cm --mca mtl ofi --mca btl ^openib,ofi")),
]

TCP_NETWORKS = [
    Network("mpich-tcp", "mpich", UCX_TCP),
    Network("openmpi-tcp", "openmpi", {},
            (*ETH0, "--mca pml ob1 --mca btl tcp,self,vader --mca btl_tcp_if_include eth0")),
    Network("openmpi-ofi-tcp", "openmpi", OFI_TCP, NETWORKS[2].options),
]

# Kind of ranks, guest, its arguments.
PROGRAMS_OF_THE_PROJECT = [
    *((kind, "mpi_exchange", ()) for kind in ("processes", "tasks")),
    *((kind, guest, ("60", "4")) for kind in ("processes", "tasks", "tasks-all-collectives")
      for guest in ("mpi_collectives_random", "mpi_collectives_pairs"))]
