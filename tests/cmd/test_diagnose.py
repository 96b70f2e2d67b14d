"""onespace report --diagnose: one file for a bug report, with all that a maintainer asks for and no secret."""
import os
import shutil
import signal
import stat

import pytest

from jobs import ONESPACE, RUN, eventually

DIAGNOSE = [ONESPACE, "report", "--diagnose"]


@pytest.fixture
def diagnose(job, tmp_path):
    """The text of the file, by the title of its sections, after `command` ran."""
    def make(*command, options=(), env=None):
        file = tmp_path / "diagnosis"
        words = ["--", *command] if command else []
        result = job.run([*DIAGNOSE, "-o", file, *options, *words], env=env).expect(0)
        assert result.out.startswith(f"{file}: read it before you send it."), result
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        first, *parts = file.read_text().split("\n==== ")
        assert first.startswith("Diagnosis by onespace report --diagnose, 2")
        return dict(part.split(" ====\n", 1) for part in parts)
    return make


def test_file_describes_machine_and_settings(diagnose):
    found = diagnose(env={"ONESPACE_TRIAL": "yes", "UNRELATED": "nobody asks"})
    assert list(found) == ["onespace", "machine", "onespace doctor", "settings", "spaces", "logs"]
    assert os.uname().release in found["machine"]
    assert "good     onespace" in found["onespace doctor"]
    assert "ONESPACE_TRIAL=yes\n" in found["settings"] and "UNRELATED" not in found["settings"]
    assert "$ onespace ps --all\n" in found["spaces"] and "ONESPACE_BIN" not in found["settings"]


def test_running_spaces_are_in_it(diagnose, started):
    space = f"seen-{os.getpid()}"
    started("--space", space, "/bin/sh", "-c", "echo ready; read line")
    assert space in diagnose()["spaces"]


def test_command_is_run(diagnose):
    found = diagnose(*RUN, "-n", "2", "/bin/sh", "-c", "seq 500; printf '\\033[1mbold\\n' >&2; exit 3")
    assert "(exit status 3)" in found["command"]
    assert "lines before these)" in found["command"] and "?[1mbold" in found["command"]
    assert "/bin/sh: can be a task" in found["programs"] and "libc.so.6" in found["programs"]


def test_secrets_are_left_out_wherever_they_are(diagnose):
    secrets = {"SLURM_JWT": "eyJhbGciOiJ", "ONESPACE_API_KEY": "it's 4711", "MY_PASSWORD": "correct horse ",
               "PRIVATE_PEM": "-----BEGIN-----\nMIIEvQIBADAN\n-----END-----\n"}
    script = "echo pass=$MY_PASSWORD; echo \"$PRIVATE_PEM\" | sed 's/^/[0] /'"
    found = diagnose("/bin/sh", "-c", script, secrets["ONESPACE_API_KEY"], env=secrets)
    text = "".join(found.values())
    assert all(secret not in text for secret in ("eyJhbGciOiJ", "4711", "correct horse", "MIIEvQIBADAN")), text
    assert "SLURM_JWT=(left out)" in found["settings"] and "pass=(left out)" in found["command"]


def test_directory_is_no_secret(diagnose, tmp_path):
    assert str(tmp_path) in diagnose("/bin/echo", tmp_path, env={"LAST_PWD": str(tmp_path)})["command"]


def test_command_that_hangs_is_inspected_and_terminated(diagnose, started, job):
    """Of many tasks, beside another space, which is left alone."""
    other = f"other-{os.getpid()}"
    started("--space", other, "/bin/sh", "-c", "echo ready; read line")
    found = diagnose(*RUN, "-n", "20", "/bin/sleep", "1000", options=["--seconds", "20"])["command"]
    assert "(no end in 20 s; it was terminated)" in found
    assert found.count("\nprocess ") == 5 and found.count("sleep: S (sleeping)") == 4, found
    assert other in found and found.count("$ onespace gdb ") == 1
    if shutil.which("gdb"):
        assert found.count("nanosleep") >= 20, found
    assert not job.named("sleep") and job.named("sh")


def test_interrupted_diagnosis_ends_the_command(job, tmp_path):
    script = f": >{tmp_path}/runs; exec sleep 1000"
    command = job.start([*DIAGNOSE, "-o", tmp_path / "file", "--", "/bin/sh", "-c", script])
    assert eventually((tmp_path / "runs").exists)
    command.process.terminate()
    assert command.finish().code == 128 + signal.SIGTERM
    assert eventually(lambda: not job.processes())


def test_command_that_cannot_be_started_is_named(diagnose):
    found = diagnose("/missing")
    assert found["command"] == "$ /missing\n/missing: No such file or directory\n\n" and "logs" in found


def test_file_is_not_overwritten(job, tmp_path):
    file = tmp_path / "precious"
    file.write_text("precious")
    result = job.run([*DIAGNOSE, "-o", file]).expect(1)
    assert result.err == f"onespace report: {file} exists already: name another file with --output\n"
    assert file.read_text() == "precious"
    missing = tmp_path / "missing" / "file"
    result = job.run([*DIAGNOSE, "-o", missing]).expect(1)
    assert result.err == (f"onespace report: {missing}: No such file or directory: name a file that can be written "
                          "with --output\n")


@pytest.mark.parametrize("words,problem", [
    (["--diagnose", "./x", "--", "./y"], "put -- before the command that is to be run"),
    (["--diagnose", "mpiexec"], "put -- before the command that is to be run"),
    (["--diagnose", "--results", "x"], "--results is for the page of results, not for --diagnose"),
    (["--seconds", "5"], "--seconds is for --diagnose"),
    (["--diagnose", "--seconds", "soon"], "--seconds: not a number of seconds from 1 to 999999"),
    (["--diagnose", "--seconds", "0"], "--seconds: not a number of seconds from 1 to 999999")])
def test_wrong_words(job, words, problem):
    result = job.run([ONESPACE, "report", *words]).expect(2)
    assert result.err == f"onespace report: {problem}. Try `onespace report --help`.\n"
