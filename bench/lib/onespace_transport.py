"""bench/lib/onespace_transport.py: the transport of an MPI's messages, from its own log."""
import os
import re
import subprocess

from onespace_bench import Failure

# The variables that make it log, and the lines it writes then.
TALK = {"UCX_LOG_LEVEL": "info", "OMPI_MCA_btl_base_verbose": "10", "I_MPI_DEBUG": "5", "FI_LOG_LEVEL": "info",
        "OMPI_MCA_pml_base_verbose": "10"}
LINES = [re.compile(r"ep_cfg\[\d+\]: tag\(([^)]*)\)"),            # UCX before 1.14
         re.compile(r"cfg#\d+.* tag\(([^)]*)\)"),                   # and since
         re.compile(r"bml: Using (\w+) btl for send"),              # Open MPI
         re.compile(r"libfabric provider: (\S+)"),                  # Intel MPI
         re.compile(r"Opened fabric: (\S+)")]                       # libfabric
NETWORK = re.compile(r"tcp|sockets|net|verbs|ud|rc")


def transports(text):
    """The paths between different ranks named in a log, each once, in order."""
    found = []
    for line in text.splitlines():
        for pattern in LINES:
            match = pattern.search(line)
            path = match and match.groups() and match[1]
            if path and not path.startswith("self") and path not in found:
                found.append(path)
    return found


def through_network(paths):
    return [path for path in paths if NETWORK.search(path)]


def observe(title, command, env, nodes=None):
    """Runs a job that exchanges messages, and returns the paths that its MPI names. With `nodes` (onespace_nodes) one
    of them must be the network, and bytes must have gone through it."""
    before = nodes.received() if nodes else 0
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          stdin=subprocess.DEVNULL, env={**os.environ, **env, **TALK}) as process:
        try:
            text = process.communicate(timeout=20)[0]
        except subprocess.TimeoutExpired:
            if nodes:
                nodes.clear()  # it may hang at exit; the log is all that is needed
            process.kill()
            text = process.communicate()[0]
    paths = transports(text)
    if nodes and not through_network(paths):
        raise Failure(f"{title}: the MPI's log names no network path between the nodes:\n{text[-1500:]}")
    if nodes and nodes.received() == before:
        raise Failure(f"{title}: no bytes went through the network")
    return paths
