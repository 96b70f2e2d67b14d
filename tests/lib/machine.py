"""tests/lib/machine.py: runs commands in a virtual machine whose CPU has protection keys (QEMU's own, by translation:
it needs no KVM, and the machine that it runs on needs no keys).

The machine has a Debian kernel (scripts/fetch-kernels), two CPUs, and an initramfs with the files that the commands
need, at the paths that they have here: each file named, what it links to and the libraries that it needs. It has no
disk and no network but the loopback, and ends when the commands have."""
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERNELS = ROOT / ".kernels"
QEMU = "qemu-system-x86_64"
INIT = ROOT / "tests/guard/init.c"
# What shell scripts use, and what dynamic linkers load without being asked.
ALWAYS = ["/bin/sh", "/bin/cat", "/bin/ls", "/bin/echo", "/bin/grep", "/bin/sleep", "/bin/uname", "/usr/bin/env",
          "/bin/true", "/etc/ld.so.cache", "/lib/x86_64-linux-gnu/libgcc_s.so.1"]
MARK = "@@machine@@"
BOOTS, OOPS = 3, "Kernel panic - not syncing"


class Unavailable(Exception):
    """There is no such machine here: what is missing, and how to get it."""


def kernels():
    """The kernels that are here, by Debian release."""
    return {path.parent.name: path for path in sorted(KERNELS.glob("*/vmlinuz"))}


def check(kernel=None):
    if not shutil.which(QEMU):
        raise Unavailable(f"no {QEMU}: scripts/setup machine")
    if not (kernel or kernels()):
        raise Unavailable("no kernel for the virtual machine: scripts/fetch-kernels")


class Archive:
    """An initramfs: a cpio archive of the format newc. Paths are absolute; each is added once, with its directories."""

    def __init__(self, file):
        self.file, self.number, self.seen = file, 0, set()

    def entry(self, path, mode, data=b"", major=0, minor=0):
        name = path.lstrip("/").encode() + b"\0"
        self.number += 1
        fields = [self.number, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(name), 0]
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
        self.file.write(head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4))

    def directory(self, path):
        path = os.path.normpath(path)
        if path == "/" or path in self.seen:
            return
        self.seen.add(path)
        self.directory(os.path.dirname(path))
        if os.path.islink(path):  # /bin and /lib are links to directories below /usr
            target = os.readlink(path)
            self.entry(path, stat.S_IFLNK | 0o777, target.encode())
            self.directory(os.path.join(os.path.dirname(path), target))
        else:
            self.entry(path, stat.S_IFDIR | 0o755)

    def file_of(self, path, data, mode=0o755):
        self.directory(os.path.dirname(path))
        self.entry(path, stat.S_IFREG | mode, data)

    def add(self, path):
        """A file or a directory with all below it, of the same path here; links, and what they lead to."""
        path = os.path.normpath(path)
        if path in self.seen or not os.path.lexists(path):
            return
        self.directory(os.path.dirname(path))
        if os.path.islink(path):
            self.seen.add(path)
            target = os.readlink(path)
            self.entry(path, stat.S_IFLNK | 0o777, target.encode())
            self.add(os.path.join(os.path.dirname(path), target))
        elif os.path.isdir(path):
            self.directory(path)
            for name in sorted(os.listdir(path)):
                self.add(os.path.join(path, name))
        elif os.path.isfile(path):
            self.seen.add(path)
            with open(path, "rb") as source:
                data = source.read()
            self.entry(path, stat.S_IFREG | stat.S_IMODE(os.stat(path).st_mode), data)
            if data[:4] == b"\x7fELF":
                for library in libraries_of(path):
                    self.add(library)

    def end(self):
        self.entry("TRAILER!!!", 0)


def libraries_of(path):
    """What the dynamic linker would load for the file, itself included."""
    listing = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
    words = [word for line in listing.splitlines() for word in line.split() if word.startswith("/")]
    return [word for word in words if os.path.exists(word)]


def build_init(directory):
    subprocess.run(["gcc", "-O1", "-static", "-o", f"{directory}/init", str(INIT)], check=True)
    return pathlib.Path(directory, "init").read_bytes()


def write_initramfs(path, directory, script, files):
    with open(path, "wb") as file:
        archive = Archive(file)
        for name in ("/proc", "/sys", "/dev", "/root", "/run"):
            archive.directory(name)
        archive.entry("/tmp", stat.S_IFDIR | 0o1777)
        archive.seen.add("/tmp")
        archive.entry("/dev/console", stat.S_IFCHR | 0o600, major=5, minor=1)
        archive.file_of("/init", build_init(directory))
        archive.file_of("/commands", script.encode())
        archive.file_of("/etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n", 0o644)
        archive.file_of("/etc/hosts", b"127.0.0.1 localhost machine\n", 0o644)
        for name in [*ALWAYS, *files]:
            archive.add(str(name))
        archive.end()


def script_of(commands):
    """Each command's output is followed by a line with its exit status."""
    lines = ["cd /tmp"]
    for command in commands:
        lines += [f"( {command}\n) 2>&1 </dev/null", f"status=$?; echo; echo '{MARK}' $status"]
    return "\n".join(lines) + "\n"


def boot(kernel, initramfs, timeout, memory_mib, cpus):
    """The console's text, from the start to the machine's end or the timeout."""
    process = subprocess.Popen(
        [QEMU, "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", str(cpus), "-m", str(memory_mib),
         "-kernel", str(kernel), "-initrd", initramfs,
         "-append", "console=ttyS0 quiet loglevel=1 oops=panic panic=-1",
         "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        text = process.communicate(timeout=timeout)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        text = process.communicate()[0] + b"\n(the virtual machine was ended: out of time)\n"
    return text.decode(errors="replace").replace("\r", "")


def run(commands, files=(), kernel=None, timeout=120, memory_mib=1536, cpus=2):
    """Runs shell commands one after another: a list of (exit status, output), and the console's text. A command that
    was not reached in time is missing in the list. Once in a while an emulated kernel stops by an oops, mostly while
    it boots: it is started again then."""
    check(kernel)
    kernel = kernel or next(iter(kernels().values()))
    with tempfile.TemporaryDirectory(prefix="onespace-machine-") as directory:
        initramfs = os.path.join(directory, "initramfs")
        write_initramfs(initramfs, directory, script_of(commands), files)
        for _ in range(BOOTS):
            text = boot(kernel, initramfs, timeout, memory_mib, cpus)
            if OOPS not in text:
                break
    return results_of(text), text


def results_of(text):
    """Of the console's text: what lies between the marks."""
    parts, results = text.split(MARK + " "), []
    for i, part in enumerate(parts[:-1]):
        output = part if i == 0 else part[part.index("\n") + 1:]
        results.append((int(parts[i + 1].split()[0]), output.rstrip("\n")))
    return results
