"""tests/kernels/conftest.py: the virtual machine (tests/lib/machine.py) with each kernel that is here."""
import os

import pytest

import machine
from jobs import BUILD, ONESPACE

TOOLS = ["/usr/bin/setpriv", "/usr/bin/mktemp", "/bin/rm"]


def kernels():
    found = machine.kernels()
    return [pytest.param(found[name], id=name) for name in found] or [pytest.param(None, id="none")]


@pytest.fixture(params=kernels())
def run_there(request):
    """Runs commands there: a list of (exit status, output)."""
    if not os.environ.get("ONESPACE_LONG"):
        pytest.skip("a virtual machine without KVM takes minutes: ONESPACE_LONG=1")
    try:
        machine.check(request.param)
    except machine.Unavailable as missing:
        pytest.skip(str(missing))

    def run(commands, files):
        # Some distributions' kernels let processes look at descendants alone.
        yama = "if [ -e /proc/sys/kernel/yama ]; then echo 0 >/proc/sys/kernel/yama/ptrace_scope; fi"
        results, text = machine.run([yama, *commands], [ONESPACE, BUILD / "lib", *TOOLS, *files], request.param, 900)
        assert len(results) == len(commands) + 1, text
        return results[1:]
    return run
