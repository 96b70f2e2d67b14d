"""tests/run/test_faulty_kernels.py: before the first task onespace run looks whether the kernel is one that processes
that share memory may stall or crash. The kernels are made up: tests/cmd/guests/interpose.c."""
import pytest

from jobs import RUN
from observe import interposed

STALLS, CRASHES, GOOD = "6.19.8", "7.0.9", "6.18.33"


@pytest.fixture
def kernel(guests):
    return lambda release, **variables: interposed(guests, FAKE_RELEASE=release, **variables)


def test_kernel_that_may_stall_is_refused(job, run, kernel):
    result = job.run([*run, "echo", "ran"], env=kernel(STALLS)).expect(1, out="")
    for text in ("Linux 6.19.8 can stall the whole machine", "CVE-2026-43417, CVE-2026-43418",
                 "ONESPACE_FAULTY_KERNEL=1"):
        assert text in result.err, result
    assert not job.hosts()


def test_user_may_insist(job, run, kernel):
    result = job.run([*run, "echo", "ran"], env=kernel(STALLS, ONESPACE_FAULTY_KERNEL=1))
    assert (result.code, result.out, result.err) == (0, "ran\n", ""), result


@pytest.mark.parametrize("value", ["0", "", "yes"])
def test_another_value_is_not_insisting(job, kernel, value):
    assert job.run([*RUN, "true"], env=kernel(STALLS, ONESPACE_FAULTY_KERNEL=value)).code == 1


@pytest.mark.parametrize("release, variables, code, messages", [
    (STALLS, {}, 1, 1), (STALLS, {"ONESPACE_FAULTY_KERNEL": 1}, 0, 0), (CRASHES, {}, 0, 0)])
def test_root_of_the_c_api_is_refused_alike(job, guests, kernel, release, variables, code, messages):
    result = job.run([guests("observed_root"), "1"], env=kernel(release, **variables))
    assert result.code == code and ("ready" in result.out) == (code == 0), result
    assert result.err.count("onespace: Linux 6.19.8 can stall the whole machine") == messages, result
    assert result.err.count("\n") == messages, result


def test_kernel_that_may_crash_is_reported_once_and_runs(job, run, kernel):
    result = job.run([*run, "echo", "ran"], env=kernel(CRASHES))
    assert (result.code, result.out) == (0, "ran\n"), result
    assert result.err.count("Linux 7.0.9 can crash the machine") == 1, result
    assert "CVE-2026-52973, CVE-2026-63799" in result.err, result


def test_kernel_without_such_faults_is_not_reported(job, run, kernel):
    result = job.run([*run, "echo", "ran"], env=kernel(GOOD))
    assert (result.code, result.out, result.err) == (0, "ran\n", ""), result


@pytest.mark.parametrize("release, code, message", [(STALLS, 1, "can stall"), (CRASHES, 0, "can crash")])
def test_one_rank_of_a_job_tells(job, distributions_mpi, kernel, release, code, message):
    variables = {**kernel(release), "OMPI_MCA_orte_abort_on_non_zero_status": "0"}  # or the first may end the other
    front = [f"{name}={value}" for name, value in variables.items()]
    result = job.run(distributions_mpi.command(2, ["env", *front, *RUN, "sh", "-c", "echo ran"]))
    assert (result.code != 0) == (code != 0), result
    assert result.out.count("ran") == (0 if code else 2), result
    assert (result.out + result.err).count(f"Linux {release} {message}") == 1, result
