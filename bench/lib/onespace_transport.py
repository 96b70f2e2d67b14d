"""bench/lib/onespace_transport.py: what an MPI sends its messages through, from its own log."""
import re

# What makes it talk, and what it says then.
TALK = {"UCX_LOG_LEVEL": "info", "OMPI_MCA_btl_base_verbose": "10", "I_MPI_DEBUG": "5", "FI_LOG_LEVEL": "info",
        "OMPI_MCA_pml_base_verbose": "10"}
LINES = [re.compile(r"ep_cfg\[\d+\]: tag\(([^)]*)\)"),            # UCX before 1.14
         re.compile(r"cfg#\d+.* tag\(([^)]*)\)"),                   # and since
         re.compile(r"bml: Using (\w+) btl for send"),              # Open MPI
         re.compile(r"libfabric provider: (\S+)"),                  # Intel MPI
         re.compile(r"Opened fabric: (\S+)")]                       # libfabric
NETWORK = re.compile(r"tcp|sockets|net|verbs|ud|rc")


def transports(text):
    """The paths between different ranks that a log names, each once, in order."""
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
