"""Profiling tools still see the calls that the MPI layer serves."""
import collections
import re
import subprocess

import pytest

from guests import INCLUDE
from jobs import ROOT, RUN
from launchers import none_wrong

TIME = 180


@pytest.fixture
def profiler(guests, stock_mpi):
    """A library that wraps an MPI function."""
    return guests.build("mpi_tool.c", stock_mpi.compiler, ("-shared", "-fPIC"), f"libtool-{stock_mpi.name}.so")


@pytest.mark.parametrize("how", ["linked", "preloaded"])
def test_tool_sees_windows(job, guests, stock_mpi, profiler, how):
    if how == "linked":
        flags = ("-O1", INCLUDE, f"-I{ROOT / 'tests'}", profiler)
        words = [*RUN, guests.build("mpi_windows.c", stock_mpi.compiler, flags, f"{stock_mpi.name}-with-tool")]
    else:
        words = ["env", f"LD_PRELOAD={profiler}", *RUN, guests.mpi(stock_mpi, "mpi_windows")]
    result = job.run(stock_mpi.command(2, [*words, "one_allocation"]), env=stock_mpi.env)
    assert result.lines == none_wrong(2) and result.err.count("tool: a window") == 2, str(result)


def traced(check_guest, mpi, directory, prefix):
    """What EZTrace has recorded: how many calls of each function, messages and ends of operations of each rank."""
    check_guest(mpi, 2, "mpi_traced", prefix=["eztrace", "-o", directory, "-t", mpi.name, *prefix])
    trace, = directory.glob("*/*.otf2")
    text = subprocess.run(["otf2-print", trace], capture_output=True, text=True, timeout=TIME, check=True).stdout
    events = re.findall(r'^(ENTER|MPI_\w+) +(\d+) +\d+ +(?:Region: "(\w+)"|(?:Operation: (\w+))?)', text, re.M)
    return collections.Counter(events)


def test_real_tool_counts_the_same_calls(check_guest, distributions_mpi, tmp_path, tool):
    """EZTrace is preloaded, also into the shims, and finds the library's functions by dlsym(RTLD_NEXT)."""
    tool("eztrace", "eztrace")
    tool("otf2-print", "otf2-tools")
    process, task = (traced(check_guest, distributions_mpi, tmp_path / name, prefix)
                     for name, prefix in (("process", []), ("task", RUN)))
    assert process == task and sum(process.values()) > 300, f"processes {process}, tasks {task}"
