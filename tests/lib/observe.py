"""tests/lib/observe.py: what the tests of ps, check and doctor share: JSON, terminals, filters, and
commands that see another machine than this (guests/interpose.c)."""
import ctypes
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios

import pytest

from jobs import ONESPACE, ROOT

PTRACE_SEIZE, PTRACE_DETACH = 0x4206, 17


def as_json(result):
    """The command's output, which must be JSON and nothing else."""
    assert result.err == "", result
    try:
        return json.loads(result.out)
    except json.JSONDecodeError as error:
        raise AssertionError(f"no JSON: {error}\n{result}") from error


def in_terminal(argv, columns, env):
    """The lines that the command prints to a terminal of that width."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave)
    os.close(slave)
    text = b""
    try:
        while data := os.read(master, 65536):
            text += data
    except OSError:  # the last holder of the other end has gone
        pass
    os.close(master)
    process.wait(180)
    return text.decode().replace("\r\n", "\n").split("\n")


def interposed(guests, **variables):
    """An environment in which `guests/interpose.c` is preloaded."""
    return {"LD_PRELOAD": guests("interpose.so"), **{name: str(value) for name, value in variables.items()}}


def tasks_of(space):
    """Those of a space that `onespace ps --json` has printed, without its root."""
    return [task for task in space["tasks"] if task["id"] != 0]


def may_trace():
    with subprocess.Popen(["sleep", "600"]) as child:
        may = ctypes.CDLL(None).ptrace(PTRACE_SEIZE, child.pid, 0, 0) == 0
        child.kill()
    return may


def line_of(name):
    """The line of a guest of tests/cmd that carries the remark `line: NAME`, as debuggers print it."""
    place, = [f"{source.name}:{number}" for source in (ROOT / "tests/cmd/guests").glob("*.c")
              for number, line in enumerate(source.read_text().split("\n"), 1) if f"/* line: {name} */" in line]
    return place


def need_core_files():
    """Skips the test where the kernel writes cores to another place than the working directory."""
    with open("/proc/sys/kernel/core_pattern", encoding="ascii") as file:
        pattern = file.read().strip()
    if not re.fullmatch(r"core(\.%p)?", pattern):
        pytest.skip(f"core files go elsewhere here: kernel.core_pattern is {pattern}")


def forbid(*calls, error):
    """A preexec function after which these system calls (numbers of x86-64) return the error."""
    load, jump_equal, give = 0x20, 0x15, 0x06
    program = [struct.pack("HBBI", load, 0, 0, 0)]  # the number, at offset 0
    for left, number in zip(range(len(calls) - 1, -1, -1), calls):
        program.append(struct.pack("HBBI", jump_equal, left + 1, 0, number))
    program.append(struct.pack("HBBI", give, 0, 0, 0x7fff0000))  # SECCOMP_RET_ALLOW
    program.append(struct.pack("HBBI", give, 0, 0, 0x00050000 | error))  # SECCOMP_RET_ERRNO
    code = ctypes.create_string_buffer(b"".join(program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)

    def apply():
        assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
        assert libc.prctl(22, 2, header, 0, 0) == 0, ctypes.get_errno()  # PR_SET_SECCOMP, FILTER
    apply.keep = code
    return apply


MEMFD_CREATE, CLONE3, USERFAULTFD, FALLOCATE = 319, 435, 323, 285
PROCESS_VM_READV, PROCESS_VM_WRITEV, PRCTL, WAIT4, RT_SIGACTION = 310, 311, 157, 61, 13
PS = [ONESPACE, "ps"]
CHECK = [ONESPACE, "check"]
DOCTOR = [ONESPACE, "doctor"]
