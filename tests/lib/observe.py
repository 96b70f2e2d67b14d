"""tests/lib/observe.py: what the tests of ps, check and doctor share: JSON, terminals, filters, and
commands that see another machine than this (guests/interpose.c)."""
import ctypes
import fcntl
import json
import os
import pty
import struct
import subprocess
import termios

from jobs import ONESPACE


def as_json(result):
    """The command's output, which must be JSON and nothing else."""
    assert result.err == "", result
    return json.loads(result.out)


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
    process.wait(30)
    return text.decode().replace("\r\n", "\n").split("\n")


def interposed(guests, **variables):
    """An environment in which `guests/interpose.c` is preloaded."""
    return {"LD_PRELOAD": guests("interpose.so"), **{name: str(value) for name, value in variables.items()}}


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
