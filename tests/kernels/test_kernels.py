"""tests/kernels/test_kernels.py: the same on other kernels, in a virtual machine (tests/lib/machine.py): those that
scripts/fetch-kernels has fetched, with ONESPACE_LONG=1. `make matrix` fetches them and makes a table."""
import os
import pathlib
import re
import subprocess

from guests import PROGRAMS
from jobs import BUILD, ONESPACE

ENDS = pathlib.Path(__file__).parent / "ends-alike"
USER = "setpriv --reuid 1000 --regid 1000 --clear-groups"
UCX = [name for name in ["/usr/lib/x86_64-linux-gnu/ucx"] if os.path.exists(name)]  # MPICH may be without
PLACES = BUILD / "tests/kernels/kernels_test"
HYDRA = ["/usr/bin/mpiexec.mpich", "/usr/bin/mpiexec.hydra", "/usr/bin/hydra_pmi_proxy"]


def test_tasks_end_as_processes_and_alone(run_there):
    """As root and as a user: before Linux 5.16 a crash would end all, and the space is undumpable."""
    command = f"{ENDS} {ONESPACE} {PROGRAMS}"
    for status, text in run_there([command, f"{USER} {command}"], [ENDS, PROGRAMS / "ending", PROGRAMS / "patterns"]):
        *ways, other = text.split("\n")
        assert status == 0 and len(ways) == 18, text
        for way in ways:
            name, process, task = way.split()
            assert process == task != "0", (name, text)
        assert other == "other 0 intact", text


def test_jobs_and_their_tools(run_there):
    program = PROGRAMS / "mpich/mpi_exchange"
    job = f"mpiexec.mpich -n 2 {ONESPACE} run --stats {program}"
    ps = f"{USER} {ONESPACE} run --space seen sleep 20 & sleep 5; {USER} {ONESPACE} ps seen; kill $!"
    modes = [f"{ONESPACE} run {option} -n 3 {PROGRAMS}/patterns 1" for option in ("--thread-mode", "--no-interpose")]
    results = run_there([job, f"{USER} {job}", ps, *modes, f"{ONESPACE} doctor"],
                        [program, *UCX, *HYDRA, PROGRAMS / "patterns"])
    for status, text in results[:2]:
        assert status == 0 and "rank 0: 0 wrong" in text and "rank 1: 0 wrong" in text, text
        assert "copies in user space: 0," not in text, text
    assert "sleep" in results[2][1] and "cannot be read" not in results[2][1], results[2]
    for status, text in results[3:5]:
        assert status == 0 and text == "intact\nintact\nintact", text
    assert "a task that crashed left the others alone" in " ".join(results[5][1].split()), results[5]


def test_places_of_the_kernel(run_there):
    """places_test.cpp, each test in a process of its own."""
    listed = subprocess.run([PLACES, "--gtest_list_tests"], capture_output=True, text=True, timeout=180)
    names = re.findall(r"^  (\w+)", listed.stdout, re.M)
    results = run_there([f"{PLACES} --gtest_filter=kernel_places.{name}" for name in names],
                        [PLACES, PROGRAMS / "kernel-places"])
    failed = [f"{name}: {text}" for name, (status, text) in zip(names, results) if status != 0]
    assert len(names) > 10 and not failed, "\n".join(failed)
    skipped = [name for name, (_, text) in zip(names, results) if "SKIPPED" in text]
    assert len(skipped) <= 4, skipped
