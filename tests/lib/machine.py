"""tests/lib/machine.py: runs commands in a virtual machine (QEMU's own CPU, by translation: it needs no KVM).

The machine has a Debian kernel, two CPUs, and an initramfs with the files that the commands need, at the paths that
they have here. It has no disk and no network but the loopback, and ends when the commands have. There are two kinds:

X86_64   its CPU has protection keys; kernels of scripts/fetch-kernels; of this machine's files those that are named,
         what they link to and the libraries that they need
SECURITY likewise; kernel and files of `scripts/fetch-nodes security`, and of this machine's the build
AARCH64  kernel and files of scripts/fetch-arm64: all of Debian's packages there, and of this machine's the build"""
import dataclasses
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERNELS = ROOT / ".kernels"
INIT = ROOT / "tests/lib/machine_init.c"
# Programs that shell scripts use, and files that dynamic linkers always load.
ALWAYS = ["/bin/sh", "/bin/cat", "/bin/ls", "/bin/echo", "/bin/grep", "/bin/sleep", "/bin/uname", "/usr/bin/env",
          "/bin/true", "/etc/ld.so.cache", "/lib/x86_64-linux-gnu/libgcc_s.so.1"]
# Directories of Debian's packages that no program there reads.
LEFT_OUT = ("/usr/include", "/usr/share/doc", "/usr/share/man", "/usr/share/locale", "/usr/share/perl", "/usr/lib/gcc",
            "/usr/share/zoneinfo", "/var", "/boot", "/lib/modules", "/dev", "/proc", "/sys", "/tmp", "/run",
            "/usr/share/icu", "/usr/lib/aarch64-linux-gnu/perl", "/usr/lib/aarch64-linux-gnu/gconv", "/usr/share/perl5")
MARK = "@@machine@@"


class Unavailable(Exception):
    """There is no such machine here: what is missing, and how to get it."""


@dataclasses.dataclass(frozen=True)
class Kind:
    qemu: str
    options: tuple
    console: str
    compiler: str
    setup: str      # installs the emulator and the compiler
    fetch: str      # the kernel
    root: str = ""  # the directory that holds the machine's own files; empty: they are this machine's


X86_64 = Kind("qemu-system-x86_64", ("-cpu", "max"), "ttyS0", "gcc", "scripts/setup machine", "scripts/fetch-kernels")
SECURITY = dataclasses.replace(X86_64, fetch="scripts/fetch-nodes security", root=str(ROOT / ".nodes/security"))
# This CPU has the atomic instructions of Armv8.1, and pages of 16 KiB.
AARCH64 = Kind("qemu-system-aarch64", ("-machine", "virt,gic-version=3", "-cpu", "cortex-a76"), "ttyAMA0",
               "aarch64-linux-gnu-gcc", "scripts/setup arm64", "scripts/fetch-arm64",
               os.environ.get("ONESPACE_SYSROOT") or str(ROOT / ".arm64/bookworm"))


def kernels(kind=X86_64):
    """The kernels that are here, by Debian release; those with pages of 16 and 64 KiB by these: 16k, 64k."""
    if kind is AARCH64:
        root = pathlib.Path(kind.root)
        return {path.parent.parent.name: path for directory in (root, root.parent / "16k", root.parent / "64k")
                for path in directory.glob("boot/vmlinuz-*")}
    if kind is SECURITY:
        return {path.name: path for path in pathlib.Path(kind.root).glob("boot/vmlinuz-*")}
    return {path.parent.name: path for path in sorted(KERNELS.glob("*/vmlinuz"))}


def check(kernel=None, kind=X86_64):
    for program in (kind.qemu, kind.compiler):
        if not shutil.which(program):
            raise Unavailable(f"no {program}: {kind.setup}")
    if not (kernel or kernels(kind)):
        raise Unavailable(f"no kernel for the virtual machine: {kind.fetch}")


class Archive:
    """An initramfs: a cpio archive of the format newc. Paths are absolute; each is added once, with its directories."""

    def __init__(self, file, with_libraries=True):
        self.file, self.number, self.seen, self.with_libraries = file, 0, set(), with_libraries

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
            if data[:4] == b"\x7fELF" and self.with_libraries:
                for library in libraries_of(path):
                    self.add(library)

    def add_tree(self, root, path="/", left_out=()):
        """All that is in the directory `root`, as the machine's own."""
        with os.scandir(root + path) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                name = os.path.join(path, entry.name)
                if name in self.seen or name.startswith(left_out) or name.endswith(".a"):
                    continue
                self.seen.add(name)
                if entry.is_symlink():
                    self.entry(name, stat.S_IFLNK | 0o777, os.readlink(entry.path).encode())
                elif entry.is_dir():
                    self.entry(name, stat.S_IFDIR | 0o755)
                    self.add_tree(root, name, left_out)
                elif entry.is_file():
                    mode = stat.S_IMODE(entry.stat().st_mode)
                    self.entry(name, stat.S_IFREG | mode, pathlib.Path(entry.path).read_bytes())

    def end(self):
        self.entry("TRAILER!!!", 0)


def libraries_of(path):
    """What the dynamic linker would load for the file, itself included."""
    listing = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
    words = [word for line in listing.splitlines() for word in line.split() if word.startswith("/")]
    return [word for word in words if os.path.exists(word)]


def build_init(directory, kind):
    subprocess.run([kind.compiler, "-O1", "-static", "-o", f"{directory}/init", str(INIT)], check=True)
    return pathlib.Path(directory, "init").read_bytes()


def write_initramfs(path, directory, script, files, kind):
    with open(path, "wb") as file:
        archive = Archive(file, with_libraries=not kind.root)
        if kind.root:
            archive.seen.update(("/init", "/commands", "/etc/passwd", "/etc/hosts"))
            archive.add_tree(kind.root, left_out=LEFT_OUT)
        for name in ("/proc", "/sys", "/dev", "/root", "/run"):
            archive.directory(name)
        archive.directory("/var")
        for name in ("/tmp", "/var/tmp"):
            archive.entry(name, stat.S_IFDIR | 0o1777)
            archive.seen.add(name)
        archive.entry("/dev/console", stat.S_IFCHR | 0o600, major=5, minor=1)
        archive.file_of("/init", build_init(directory, kind))
        archive.file_of("/commands", script.encode())
        archive.file_of("/etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n", 0o644)
        archive.file_of("/etc/hosts", b"127.0.0.1 localhost machine\n", 0o644)
        for name in files if kind.root else [*ALWAYS, *files]:
            archive.add(str(name))
        archive.end()


def script_of(commands):
    """Each command's output is followed by a line with its exit status."""
    lines = ["cd /tmp"]
    for command in commands:
        lines += [f"( {command}\n) 2>&1 </dev/null", f"status=$?; echo; echo '{MARK}' $status"]
    return "\n".join(lines) + "\n"


def boot(kernel, initramfs, timeout, memory_mib, cpus, kind, parameters):
    """The console's text, from the start to the machine's end or the timeout."""
    process = subprocess.Popen(
        [kind.qemu, "-accel", "tcg,thread=multi", *kind.options, "-smp", str(cpus), "-m", str(memory_mib),
         "-kernel", str(kernel), "-initrd", initramfs,
         "-append", f"console={kind.console} quiet loglevel=1 oops=panic panic=-1 {parameters}",
         "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        text = process.communicate(timeout=timeout)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        text = process.communicate()[0] + b"\n(the virtual machine was ended: out of time)\n"
    return text.decode(errors="replace").replace("\r", "")


def run(commands, files=(), kernel=None, timeout=120, memory_mib=1536, cpus=2, kind=X86_64, parameters=""):
    """Runs shell commands one after another: a list of (exit status, output), and the console's text. A command that
    was not reached, because time ran out or the kernel stopped by an oops, is missing in the list. `parameters`: of the
    kernel."""
    for name in files:
        if not os.path.exists(name):
            raise FileNotFoundError(f"{name}: is it built? The virtual machine was to have it")
    check(kernel, kind)
    kernel = kernel or next(iter(kernels(kind).values()))
    with tempfile.TemporaryDirectory(prefix="onespace-machine-") as directory:
        initramfs = os.path.join(directory, "initramfs")
        write_initramfs(initramfs, directory, script_of(commands), files, kind)
        text = boot(kernel, initramfs, timeout, memory_mib, cpus, kind, parameters)
    return results_of(text), text


def run_here(commands, timeout=120):
    """Runs shell commands one after another on this machine, as run does: a list of (exit status, output)."""
    done = subprocess.run(["/bin/sh", "-c", script_of(commands)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=timeout, check=False)
    return results_of(done.stdout.decode(errors="replace"))


def results_of(text):
    """Of the console's text: what lies between the marks."""
    parts, results = text.split(MARK + " "), []
    for i, part in enumerate(parts[:-1]):
        output = part if i == 0 else part[part.index("\n") + 1:]
        results.append((int(parts[i + 1].split()[0]), output.rstrip("\n")))
    return results
