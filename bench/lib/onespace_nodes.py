"""bench/lib/onespace_nodes.py: several "nodes" on one machine, for inter-node communication.

Each has its own network, IPC, PID, UTS and mount namespaces, and thus its own addresses, shared memory, /dev/shm and
process ids: an MPI finds nothing that ranks on two of them could share. (Different host names alone do not suffice:
UCX, for one, still uses shared memory.) Pairs of veth devices join them to a bridge in another network namespace, in
which the launcher runs. Each node has its own subset of the CPUs if there are enough, so that ranks that spin on one
node do not delay those of another, as on separate machines. Memory is shared, of course, and the network is the
kernel's: the measurements compare methods, they do not predict a cluster."""
import contextlib
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile
import time

from onespace_bench import Failure, cpus

ADDRESS = "10.77.0.{}"
LAUNCHER = ADDRESS.format(254)
GRACE_S = 3  # for a job whose output is complete
KINDS = ["net", "ipc", "uts", "mount", "pid"]


class Nodes:
    """Context manager. Needs root, or a user namespace (`unshare --user --map-root-user`)."""

    def __init__(self, count):
        self.count, self.processes = count, []
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="onespace-nodes-"))
        self.addresses = [ADDRESS.format(i + 1) for i in range(count)]

    def __enter__(self):
        try:
            for tool, package in (("ip", "iproute2"), ("nsenter", "util-linux"), ("unshare", "util-linux"),
                                  ("taskset", "util-linux")):
                if not shutil.which(tool):
                    raise Failure(f"{tool} is not installed (Debian: {package})")
            self.hosts_file().write_text("127.0.0.1 localhost\n" + "".join(
                f"{address} node{i}\n" for i, address in enumerate(self.addresses)) + f"{LAUNCHER} launcher\n")
            # The last to end: removes the directory even if this program was killed.
            self.switch = self.start(["net", "uts", "mount"], "hostname launcher; " + self.setup("switch"),
                                     last=f"umount -l {self.directory}/run-switch; rm -rf {self.directory}")
            self.run_on_switch("ip link set lo up; ip link add name bridge0 type bridge; "
                        f"ip addr add {LAUNCHER}/24 dev bridge0; ip link set bridge0 up")
            for i, address in enumerate(self.addresses):
                node = self.start(KINDS, f"hostname node{i}; " + self.setup(f"node{i}"))
                self.write_script(address, ENTER.format(share=self.cpus_of(i), node=node))
                self.run_on_switch(f"ip link add port{i} type veth peer name eth0 netns {node}; "
                            f"ip link set port{i} master bridge0 up")
                self.command(["nsenter", f"--net=/proc/{node}/ns/net", "sh", "-ec",
                              f"ip link set lo up; ip addr add {address}/24 dev eth0; ip link set eth0 up"])
            self.agent = self.write_script("enter", AGENT.format(directory=shlex.quote(str(self.directory))))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):  # init of its PID namespace: all others end with it
            process.stdin.close()
            process.kill()
            process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def cpus_of(self, number):
        """The CPUs of a node, as taskset takes them."""
        all_of_them = cpus()
        own = all_of_them[number * len(all_of_them) // self.count:(number + 1) * len(all_of_them) // self.count]
        return ",".join(map(str, own or all_of_them))

    def write_script(self, name, text):
        (self.directory / name).write_text(text)
        (self.directory / name).chmod(0o755)
        return self.directory / name

    def hosts_file(self):
        return self.directory / "hosts"

    def setup(self, name):
        run = self.directory / f"run-{name}"
        run.mkdir(mode=0o700)
        return (f"mount --bind {self.hosts_file()} /etc/hosts; mount -t tmpfs -o mode=1777 tmpfs /dev/shm; "
                f"mount -t tmpfs -o mode=0700 tmpfs {run}; ")

    def start(self, kinds, script, last=""):
        """Starts a process that keeps the namespaces alive; returns its PID after the script has ended."""
        ready = self.directory / f"ready-{len(self.processes)}"
        words = ["unshare", *[f"--{kind}" for kind in kinds]]
        if "pid" in kinds:
            words += ["--fork", "--kill-child", "--mount-proc"]
        # This program holds `cat`'s standard input: however this program ends, `cat` ends too, and all that is inside.
        stay = f"cat >/dev/null; {last}" if last else "exec cat >/dev/null"
        process = subprocess.Popen([*words, "sh", "-ec", f"{script} : >{ready}; {stay}"],
                                   stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.processes.append(process)
        until = time.monotonic() + 60
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
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise Failure(f"{shlex.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def run_on_switch(self, script):
        return self.command([*self.enter_switch(), "sh", "-ec", script])

    def enter_switch(self):
        return ["nsenter", "--target", str(self.switch), "--net", "--uts", "--mount"]

    def pair_command(self, first, second):
        """A command that runs `second` on node 1 and `first`, with node 1's address appended, on node 0."""
        at = [shlex.join(self.enter_node(i)) for i in range(2)]
        first = [*first, self.addresses[1]]
        return ["sh", "-c", f"{at[1]} {shlex.join(second)} & {at[0]} {shlex.join(first)}; status=$?; "
                "[ $status = 0 ] || kill $!; wait; exit $status"]

    def enter_node(self, number):
        return [str(self.directory / self.addresses[number])]

    def received(self):
        """Bytes received through the network so far."""
        text = self.run_on_switch("cat /proc/net/dev")
        return sum(int(line.split(":")[1].split()[0]) for line in text.splitlines() if "port" in line)

    def run(self, place, command, is_complete, env=None, timeout=120):
        """Standard output of a job; it is complete when is_complete(text) is true. A job that does not exit then is
        killed: MPICH with UCX 1.13 over TCP sometimes hangs in MPI_Finalize, where waiting ranks no longer make
        progress for others."""
        out, err = place.path / "nodes-out", place.path / "nodes-err"
        with open(out, "wb") as out_file, open(err, "wb") as err_file, \
                subprocess.Popen([str(word) for word in command], stdout=out_file, stderr=err_file,
                                 stdin=subprocess.DEVNULL, start_new_session=True,
                                 env={**os.environ, **(env or {})}) as process:
            until, complete_until = time.monotonic() + timeout, None
            while process.poll() is None:
                now = time.monotonic()
                if complete_until is None and is_complete(out.read_text()):
                    complete_until = now + GRACE_S
                if now > min(until, complete_until or until):
                    self.kill_jobs()
                    process.kill()
                time.sleep(0.02)
        if process.returncode != 0 and complete_until is None:
            raise Failure(f"{shlex.join(map(str, command))}\nended with {process.returncode} or did not end in "
                          f"{timeout} s:\n{(out.read_text() + err.read_text()).strip()[-2000:]}")
        return out.read_text()

    def kill_jobs(self):
        """Kills everything that runs on the nodes."""
        for i in range(self.count):
            subprocess.run([*self.enter_node(i), "sh", "-c", "kill -9 -1"], capture_output=True, timeout=30,
                           check=False)

    def launch(self, mpi, ranks, program):
        """The launcher's command line: equally many ranks per node, in blocks."""
        each = ranks // self.count
        # Launchers pass their environment on; shims of two nodes would find each other in a common directory.
        program = ["sh", "-c", f'export XDG_RUNTIME_DIR={shlex.quote(str(self.directory))}/run-'
                   '$(cat /proc/sys/kernel/hostname); exec "$@"', "sh", *program]
        hosts = ",".join(f"{address}:{each}" for address in self.addresses)
        if mpi.kind == "openmpi":
            words = [mpi.launcher, *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "--host", hosts,
                     "--map-by", "slot", "--bind-to", "none", "--oversubscribe", *self.openmpi_options(mpi)]
        else:
            words = [mpi.launcher, "-hosts", hosts, "-launcher", "ssh", "-launcher-exec", str(self.agent),
                     "-localhost", LAUNCHER]
        # Launchers pass their environment on; each node has a private socket directory, removed with the node.
        return [*self.enter_switch(), "env", "-u", "XDG_RUNTIME_DIR", *words, "-n", str(ranks), *program]

    def openmpi_options(self, mpi):
        plm = "plm_ssh_agent" if "Open MPI 5" in mpi.version else "plm_rsh_agent"
        return ["--prtemca" if plm == "plm_ssh_agent" else "--mca", plm, str(self.agent)]


def several_or_none(count):
    """Context manager: of Nodes; or, for one node, of None."""
    return Nodes(count) if count > 1 else contextlib.nullcontext()


# Runs a command on a node: DIRECTORY/ADDRESS WORD...
ENTER = """#!/bin/sh
exec taskset -c {share} nsenter --target {node} --net --ipc --uts --mount --pid "$@"
"""

# Launchers call this instead of ssh: enter [OPTION...] ADDRESS WORD...
AGENT = """#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
address=$1
shift
directory={directory}
number=$((${{address##*.}} - 1))
exec "$directory/$address" env XDG_RUNTIME_DIR="$directory/run-node$number" sh -c "$*"
"""
