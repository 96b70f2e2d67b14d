"""tests/kernels/test_clocks.py: the clock of the machine is set, ahead and back, while tasks run, wait, commit and
start: nothing hangs or ends early. In a virtual machine, as tests/kernels/test_kernels.py."""
import pathlib
import re

from guests import PROGRAMS
from jobs import ONESPACE
from test_kernels import HYDRA, UCX

JUMPS = pathlib.Path(__file__).parent / "clock-jumps"
ETIMEDOUT = 110


def test_clock_that_jumps_neither_stops_nor_shortens_a_wait(run_there):
    waits = f"{JUMPS} {ONESPACE} run -n 2 {PROGRAMS}/patience 2500"
    joined = f"{JUMPS} mpiexec.mpich -n 2 {ONESPACE} run {PROGRAMS}/patience 1500"
    results = run_there([waits, joined], [JUMPS, PROGRAMS / "patience", *HYDRA, "/bin/date"])
    for status, text in results:
        assert status == 0 and text.split("\n") == [
            f"import -{ETIMEDOUT}", f"barrier -{ETIMEDOUT}", f"insitu -{ETIMEDOUT}", "poll 0", "sleep 0"], text


def test_clock_that_jumps_harms_no_job(run_there):
    """Messages, versions of a window, which list in the order in which they were made, and programs that are replaced
    while the clock is back."""
    versions, exchange = PROGRAMS / "mpich/mpi_versions", PROGRAMS / "mpich/mpi_exchange"
    job = f"{JUMPS} mpiexec.mpich -n 2 {ONESPACE} run"
    commits = f"mkdir -p /tmp/w && {job} {versions} /tmp/w/data shared 20 && {job} {versions} /tmp/w/data shared 5"
    # What is known of a file is kept by its time of change. Another file with the same size and times is told apart.
    replace = ("cd /tmp; cp /bin/true yes; cp /bin/false no; truncate -s 100000 yes no; touch -d @1000000000 yes no; "
               f"{ONESPACE} run --space keeps sleep 200 & sleep 5; "
               "for i in 1 2 3 4 5 6; do for name in yes no; do cp -p $name which; date -s '1 hour ago' >/dev/null; "
               f"{ONESPACE} run --space keeps ./which; echo $name $?; sleep 0.2; done; done; kill $!")
    results = run_there([f"{job} {exchange}", commits, f"{ONESPACE} windows /tmp/w/data", replace],
                        [JUMPS, versions, exchange, *UCX, *HYDRA, "/bin/date", "/bin/cp", "/bin/mkdir", "/bin/touch",
                         "/bin/true", "/bin/false", "/usr/bin/truncate"])
    assert results[0][0] == 0 and results[0][1].count(": 0 wrong") == 2, results[0]
    assert results[1][0] == 0 and "found 20, made 25" in results[1][1] and "wrong" not in results[1][1], results[1]
    assert re.findall(r"^ *(\d+) complete", results[2][1], re.M) == ["25", "24"], results[2]
    assert results[3][1].split("\n") == ["yes 0", "no 1"] * 6, results[3]
