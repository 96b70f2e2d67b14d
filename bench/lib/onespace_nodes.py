"""bench/lib/onespace_nodes.py: several "nodes" on one machine, for what goes through a network.

Each has network, IPC, PID, UTS and mount namespaces of its own, and so its own addresses, shared memory, /dev/shm
and process numbers: an MPI finds nothing that its ranks on two of them could share. (With mere host names UCX, for
one, still uses shared memory.) Pairs of veth devices join them by a bridge in a further network namespace, in which
the launcher runs. Processors and memory are shared, of course, and the network is the kernel's: what is measured is
how the methods compare, not what a cluster reaches."""
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile
import time

from onespace_bench import Failure

ADDRESS = "10.77.0.{}"
LAUNCHER = ADDRESS.format(254)
KINDS = ["net", "ipc", "uts", "mount", "pid"]


class Nodes:
    """Context manager. Needs to be root, or in a user namespace (`unshare --user --map-root-user`)."""

    def __init__(self, count):
        self.count, self.processes = count, []
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="onespace-nodes-"))
        self.addresses = [ADDRESS.format(i + 1) for i in range(count)]

    def __enter__(self):
        try:
            for tool, package in (("ip", "iproute2"), ("nsenter", "util-linux"), ("unshare", "util-linux")):
                if not shutil.which(tool):
                    raise Failure(f"{tool} is not installed (Debian: {package})")
            self.hosts_file().write_text("127.0.0.1 localhost\n" + "".join(
                f"{address} node{i}\n" for i, address in enumerate(self.addresses)) + f"{LAUNCHER} launcher\n")
            self.switch = self.start(["net", "uts", "mount"], "hostname launcher; " + self.setup("switch"))
            self.within("ip link set lo up; ip link add name bridge0 type bridge; "
                        f"ip addr add {LAUNCHER}/24 dev bridge0; ip link set bridge0 up")
            for i, address in enumerate(self.addresses):
                node = self.start(KINDS, f"hostname node{i}; " + self.setup(f"node{i}"))
                (self.folder / address).write_text(str(node))
                self.within(f"ip link add port{i} type veth peer name eth0 netns {node}; "
                            f"ip link set port{i} master bridge0 up")
                self.command(["nsenter", f"--net=/proc/{node}/ns/net", "sh", "-ec",
                              f"ip link set lo up; ip addr add {address}/24 dev eth0; ip link set eth0 up"])
            self.agent = self.folder / "enter"
            self.agent.write_text(AGENT.format(folder=shlex.quote(str(self.folder))))
            self.agent.chmod(0o755)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.processes:  # the first process of a PID namespace: all others end with it
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def hosts_file(self):
        return self.folder / "hosts"

    def setup(self, name):
        run = self.folder / f"run-{name}"
        run.mkdir(mode=0o700)
        return (f"mount --bind {self.hosts_file()} /etc/hosts; mount -t tmpfs -o mode=1777 tmpfs /dev/shm; "
                f"mount -t tmpfs -o mode=0700 tmpfs {run}; ")

    def start(self, kinds, script):
        """A process that keeps the namespaces: its PID. The script ends before this returns."""
        ready = self.folder / f"ready-{len(self.processes)}"
        words = ["unshare", *[f"--{kind}" for kind in kinds]]
        if "pid" in kinds:
            words += ["--fork", "--kill-child", "--mount-proc"]
        # Holding its standard input: when this program ends, however it does, so does `cat`, and all that is inside.
        process = subprocess.Popen([*words, "sh", "-ec", f"{script} : >{ready}; exec cat >/dev/null"],
                                   stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.processes.append(process)
        until = time.monotonic() + 10
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > until:
                said = process.stderr.read() if process.poll() is not None else "it hangs"
                raise Failure(f"cannot make namespaces ({said.strip()}): be root, or try "
                              "`unshare --user --map-root-user` before the command")
            time.sleep(0.01)
        if "pid" not in kinds:
            return process.pid
        return int(pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])

    def command(self, words):
        done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
        if done.returncode:
            raise Failure(f"{shlex.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def within(self, script):
        return self.command([*self.enter_switch(), "sh", "-ec", script])

    def enter_switch(self):
        return ["nsenter", "--target", str(self.switch), "--net", "--uts", "--mount"]

    def received(self):
        """Bytes that have gone through the network so far."""
        text = self.within("cat /proc/net/dev")
        return sum(int(line.split(":")[1].split()[0]) for line in text.splitlines() if "port" in line)

    def launch(self, mpi, ranks, program):
        """The launcher's command line: the first nodes get the first ranks, as many each."""
        each = ranks // self.count
        if mpi.kind == "openmpi":
            hosts = ",".join(f"{address}:{each}" for address in self.addresses)
            words = [mpi.launcher, *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "--host", hosts,
                     "--map-by", "slot", "--bind-to", "none", "--oversubscribe", *self.openmpi_options(mpi)]
        else:
            hosts = ",".join(f"{address}:{each}" for address in self.addresses)
            words = [mpi.launcher, "-hosts", hosts, "-launcher", "ssh", "-launcher-exec", str(self.agent),
                     "-localhost", LAUNCHER]
        return [*self.enter_switch(), *words, "-n", str(ranks), *program]

    def openmpi_options(self, mpi):
        plm = "plm_ssh_agent" if "Open MPI 5" in mpi.version else "plm_rsh_agent"
        return ["--prtemca" if plm == "plm_ssh_agent" else "--mca", plm, str(self.agent)]


# What launchers call instead of ssh: enter [OPTION...] ADDRESS WORD...
AGENT = """#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
address=$1
shift
folder={folder}
number=$((${{address##*.}} - 1))
exec nsenter --target "$(cat "$folder/$address")" --net --ipc --uts --mount --pid \\
    env XDG_RUNTIME_DIR="$folder/run-node$number" sh -c "$*"
"""
