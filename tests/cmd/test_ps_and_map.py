"""onespace ps and onespace map alike: they look at spaces from outside."""
import pytest

from jobs import ONESPACE, RUN
from observe import in_terminal

LOOKS = 10


@pytest.fixture(params=["ps", "map"])
def command(request):
    return [ONESPACE, request.param]


@pytest.fixture
def churn(job, tmp_path):
    """Repeats a command until the test ends; each time it must succeed."""
    (tmp_path / "go-on").touch()
    running = []

    def start(command):
        script = f"while [ -e {tmp_path}/go-on ]; do {command} || exit 1; done"
        running.append(job.start(["sh", "-c", script]))
    yield start
    (tmp_path / "go-on").unlink()
    for command in running:
        command.finish().expect()


def test_unknown_space_is_an_error(job, command):
    job.run([*command, "no-such-space"]).expect(1, out="", says="no-such-space")
    assert job.run([*command, "--json", "no-such-space"]).expect(1, says="no-such-space").out.split() == ["[]"]


@pytest.mark.parametrize("options", [["--json"], ["--all"], []])
def test_registry_of_garbage_does_no_harm(job, started, guests, command, options):
    false = started("garbage", command=[guests("false_registry")])
    job.run([*command, *options]).expect(err="")
    assert false.process.poll() is None


def test_table_fits_the_terminal(job, started, observed, command):
    run = started(observed)
    lines = in_terminal([*command, str(run.pid)], 80, job.env)
    assert max(map(len, lines[1:])) <= 80, lines


def test_spaces_that_come_and_go_do_no_harm(job, command, churn):
    churn(f"{ONESPACE} run -n 4 true")
    for _ in range(LOOKS):
        result = job.run([*command, "--json"])
        assert result.code == 0 or "has ended meanwhile" in result.err, str(result)


def test_tasks_that_come_and_go_do_no_harm(job, started, command, churn, observed):
    """The space stays: every look must succeed."""
    started(observed, command=[*RUN, "--space", "churn"])
    churn(f"{ONESPACE} run --space churn true")
    host, = job.hosts()
    for _ in range(LOOKS):
        job.run([*command, "--json", str(host.pid)]).expect()
