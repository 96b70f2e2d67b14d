#!/usr/bin/python3
"""bench/lib/onespace_diagnose.py: `onespace report --diagnose` writes one text file for a bug report: the machine, what
onespace doctor finds, settings, spaces with their tasks and memory, the last messages in the system's logs, and on
request a run of the command that fails. Of the environment it holds only variables of MPI libraries, launchers and
onespace, without the values of those that look secret."""
import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import uuid

import onespace_bench as ob

SECONDS = 60         # for each command
GRACE_SECONDS = 5    # after each signal that ends one
LINES = 200          # of a command's output that are kept, the last ones
BACKTRACE_LINES = 5000
TAIL_BYTES = 1 << 20  # of the output from which they are taken
TASKS_SHOWN = 5      # of a space, with its root, whose threads are listed when a command hangs
MARK = "ONESPACE_DIAGNOSE"  # in the environment of what the command starts
SETTINGS = re.compile(
    r"(ONESPACE|OMPI|OPAL|ORTE|PRTE|PMIX|PMI|MPICH|MPIR|MPIO|I_MPI|HYDRA|HYDI|MV2|UCX|UCC|FI|PSM[23]?|IBV|MLX5|GASNET"
    r"|SHMEM|OMP|GOMP|KMP|HWLOC|CUDA|NCCL|ROCR|HIP|MALLOC|GLIBC|LD|LC|SLURM|PBS|LSB|OAR|PE)_"
    r"|(PATH|LANG|TMPDIR|NSLOTS|SLURMD_NODENAME)$")
SECRET = re.compile(r"TOKEN|SECRET|PASS|PWD|KEY|CRED|AUTH|COOKIE|JWT|PRIVATE", re.IGNORECASE)
SECRET_MIN = 6  # characters: shorter values, such as "yes", occur everywhere
LEFT_OUT = "(left out)"


# ---- Text that may be sent ----

def is_secret(name, value):
    return bool(SECRET.search(name)) and not os.path.isdir(value)


def secrets(environment):
    """The values to leave out of all text, as programs print them, and their lines, longest first."""
    values = {os.fsencode(value).decode(errors="replace").strip()
              for name, value in environment.items() if is_secret(name, value)}
    parts = values | {line.strip() for value in values for line in value.splitlines()}
    return sorted((part for part in parts if len(part) >= SECRET_MIN), key=len, reverse=True)


HIDDEN = secrets(os.environ)


def clean(text):
    """Without secrets, and without control characters: other programs have printed it, and it is read in a terminal."""
    for secret in HIDDEN:
        text = text.replace(secret, LEFT_OUT)
    return re.sub(r"[^\n\t\x20-\x7e\u00a0-\ud7ff\ue000-\U0010ffff]", "?", text)


def quoted(argv):
    return shlex.join(map(clean, argv))


def last(text, lines=LINES):
    found = clean(text).splitlines()
    left = len(found) - lines
    return "\n".join(([f"({left} lines before these)"] if left > 0 else []) + found[-lines:])


def read(path):
    try:
        return pathlib.Path(path).read_text(errors="replace").strip()
    except OSError as error:
        return f"({error.strerror})"


# ---- Commands ----

class Command:
    """A running command in a process group of its own, and the end of its output. A signal that ends this program
    ends it, too, and waits while one is being started."""
    running, is_starting, interrupted_by = [], False, None

    def __init__(self, argv, env=None):
        self.tail, self.timed_out = bytearray(), False
        Command.is_starting = True
        try:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                            stderr=subprocess.STDOUT, env=env, start_new_session=True)
            Command.running.append(self)
        finally:
            Command.is_starting = False
        if Command.interrupted_by:
            sys.exit(128 + Command.interrupted_by)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        while data := os.read(self.process.stdout.fileno(), 1 << 16):
            self.tail += data
            del self.tail[:-TAIL_BYTES]

    def wait(self, seconds):
        """Whether it has ended."""
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.timed_out = True
        return not self.timed_out

    @staticmethod
    def interrupt(number, _):
        Command.interrupted_by = number
        if not Command.is_starting:
            sys.exit(128 + number)

    def end(self, first=signal.SIGTERM):
        """All of its group: first as a terminal or a launcher does it, then by force."""
        for number in dict.fromkeys((first, signal.SIGTERM, signal.SIGKILL)):
            try:
                os.killpg(self.process.pid, number)
                self.process.wait(timeout=GRACE_SECONDS)
            except (subprocess.TimeoutExpired, ProcessLookupError, PermissionError):  # the last: another user's
                continue
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=GRACE_SECONDS)
        if self in Command.running:
            Command.running.remove(self)

    def text(self):
        """Does not wait for what processes that it left behind may still print."""
        self.reader.join(timeout=1)
        return bytes(self.tail).decode(errors="replace")

    def status(self):
        code = self.process.returncode
        return f"exit status {code}" if code >= 0 else f"ended by {signal.Signals(-code).name}"


def run(*argv, seconds=SECONDS, lines=LINES):
    """The last lines that a command prints, and how it ended if not with 0."""
    try:
        command = Command(argv)
    except OSError as error:
        return f"{argv[0]}: {error.strerror}"
    try:
        command.wait(seconds)
    finally:
        command.end()
    problem = f"\n(no end in {seconds} s)" if command.timed_out else \
        f"\n({command.status()})" if command.process.returncode else ""
    return last(command.text(), lines) + problem


def output_of(*argv):
    """What a command prints to standard output; None if it fails."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None


# ---- The sections ----

def machine():
    system = re.search(r'^PRETTY_NAME="?([^"\n]*)', read("/etc/os-release"), re.MULTILINE)
    found = ob.machine()
    yield "system", system[1] if system else "unknown"
    yield "kernel", f"{found['kernel']} {platform.version()}"
    yield "libc", " ".join(platform.libc_ver())
    yield "CPU", f"{found['cpu']}; {found['cpus']} of {os.cpu_count()} usable"
    yield "memory", f"{found['memory_bytes'] >> 20} MiB"
    yield "control group", read("/proc/self/cgroup")
    yield "NUMA nodes", read("/sys/devices/system/node/online")


def settings():
    for name, value in sorted(os.environ.items()):
        if SETTINGS.match(name):
            yield f"{name}={LEFT_OUT if is_secret(name, value) else value}"


def spaces(onespace):
    for command in (["ps", "--all"], ["map", "--tasks"]):
        yield f"$ onespace {shlex.join(command)}\n{run(onespace, *command)}"


def logs():
    argv = ["journalctl", "--no-pager", "-q", "-n", "50", "-t", "onespace"]
    yield f"$ {shlex.join(argv)}\n{last(output_of(*argv) or '(none)')}"
    kernel = re.compile(r"segfault|traps:|general protection|oom|Out of memory|onespace", re.IGNORECASE)
    found = [line for line in (output_of("dmesg") or "").splitlines() if kernel.search(line)]
    yield "$ dmesg\n" + ("\n".join(found[-20:]) or "(no faults and no lack of memory, or not readable)")


def programs(onespace, words):
    """What onespace check and ldd say of the files that a command line names."""
    for word in dict.fromkeys(words):
        path = shutil.which(word)
        if path and os.path.basename(path) != "onespace":
            yield f"$ onespace check {path}\n{run(onespace, 'check', path)}"
            libraries = output_of("ldd", path)
            if libraries:
                yield f"$ ldd {path}\n{libraries}"


# ---- The command that fails ----

def threads(pid):
    for directory in sorted(pathlib.Path(f"/proc/{pid}/task").glob("*"), key=lambda path: int(path.name)):
        state = re.search(r"^State:\s*(.*)", read(directory / "status"), re.MULTILINE)
        yield f"thread {directory.name} {read(directory / 'comm')}: {state[1] if state else 'ended'}, " \
              f"waits in {read(directory / 'wchan')}, system call {read(directory / 'syscall')}"


def has_mark(pid, mark):
    return f"{MARK}={mark}" in read(f"/proc/{pid}/environ").split("\0")


def hanging(onespace, mark):
    """Where the tasks of the command wait. gdb stops what it looks at, so other spaces are left alone."""
    yield from spaces(onespace)
    try:
        listed = json.loads(output_of(onespace, "ps", "--json") or "")
    except ValueError:
        yield "onespace ps --json cannot be read"
        return
    for space in listed:
        if not has_mark(space["root_pid"], mark):
            continue
        for task in space["tasks"][:TASKS_SHOWN]:
            yield f"process {task['pid']}, {task['program']}\n" + "\n".join(threads(task["pid"]))
        backtraces = ["-batch", "-ex", "thread apply all backtrace 32"]
        yield f"$ onespace gdb {space['root_pid']}\n" + run(onespace, "gdb", str(space["root_pid"]), "--", *backtraces,
                                                            lines=BACKTRACE_LINES)


def trial(onespace, argv, seconds):
    """Runs the command. One that has not ended after so many seconds is inspected, then terminated."""
    mark = uuid.uuid4().hex
    try:
        command = Command(argv, {**os.environ, MARK: mark})
    except OSError as error:
        yield f"$ {quoted(argv)}\n{argv[0]}: {error.strerror}"
        return
    found = []
    try:
        if not command.wait(seconds):
            found = list(hanging(onespace, mark))
    finally:
        command.end(signal.SIGINT)
    ended = f"no end in {seconds} s; it was terminated" if command.timed_out else command.status()
    yield f"$ {quoted(argv)}\n{last(command.text())}\n({ended})"
    yield from found


def sections(onespace, options):
    yield "onespace", [f"{run(onespace, '--version')}, {onespace}"]
    yield "machine", ["\n".join(f"{name}: {text}" for name, text in machine())]
    yield "onespace doctor", [run(onespace, "doctor", seconds=2 * SECONDS)]
    yield "settings", ["\n".join(settings())]
    yield "spaces", spaces(onespace)
    if options.command:
        yield "programs", programs(onespace, options.command)
        yield "command", trial(onespace, options.command, options.seconds)
    yield "logs", logs()


def create(path):
    try:
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", errors="replace")
    except FileExistsError:
        raise ob.Failure(f"{path} exists already: name another file with --output") from None
    except OSError as error:
        raise ob.Failure(f"{path}: {error.strerror}: name a file that can be written with --output") from None


def main():
    parser = argparse.ArgumentParser(prog="onespace report --diagnose", add_help=False, allow_abbrev=False)
    parser.add_argument("--diagnose", action="store_true")
    parser.add_argument("-o", "--output")
    parser.add_argument("--seconds", type=int, default=SECONDS)
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:at])
    options.command = words[at + 1:]
    now = datetime.datetime.now().astimezone()
    options.output = options.output or f"onespace-diagnosis-{now:%Y%m%d-%H%M%S}.txt"
    onespace = ob.onespace_command()
    os.environ.pop("ONESPACE_BIN", None)  # by which the command names itself to this program
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, Command.interrupt)
    with create(options.output) as file:
        file.write(f"Diagnosis by onespace report --diagnose, {now.isoformat(timespec='seconds')}\n")
        for title, texts in sections(onespace, options):
            print(f"{title} ...", file=sys.stderr)
            file.write(f"\n==== {title} ====\n")
            for text in texts:
                file.write(clean(text).strip() + "\n\n")
                file.flush()
    print(f"{options.output}: read it before you send it. It holds paths, names of hosts and command lines; of the "
          "environment only settings of MPI and onespace, without values that look secret.")


if __name__ == "__main__":
    try:
        main()
    except ob.Failure as failure:
        sys.exit(f"onespace report: {failure}")
    finally:
        for command in list(Command.running):
            command.end()
