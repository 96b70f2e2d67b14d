"""What cannot be a task is refused before it runs, with status 126, the reason and the fix."""
import os
import shutil
import subprocess

import pytest

from jobs import RUN


def refused(job, run, argv, *words, **options):
    result = job.run([*run, *argv], **options).expect(126, out="")
    for word in words:
        assert word in result.err.lower(), f"no {word!r} in\n{result}"
    return result


@pytest.mark.parametrize("kind", ["fixed", "static"])
def test_fixed_addresses(job, run, guests, kind):
    refused(job, run, [guests(f"arguments-{kind}")], "position independent", *["-fpie"] * (kind == "fixed"))


def test_one_of_several_programs(job, guests):
    """None of them is left running."""
    fixed = guests("arguments-fixed")
    job.run([*RUN, "-n", "2", "sleep", "600", ":", fixed]).expect(126, says="position independent")


def test_valgrind(job, run, tool):
    refused(job, run, [tool("valgrind"), "/bin/true"], "valgrind")


def test_run_under_valgrind_is_refused(job, tool):
    """valgrind around onespace cannot work either, and must say so; not hang."""
    result = job.run([tool("valgrind"), "-q", *RUN, "/bin/echo", "ran"])
    assert result.code == 1 and "valgrind cannot follow" in result.err and not result.out, str(result)


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_sanitizer_that_maps_fixed_shadows(job, run, guests, sanitizer):
    refused(job, run, [guests(f"arguments-{sanitizer}")], "sanitize")


def test_sanitizer_that_does_not(job, run, guests):
    job.run([*run, guests("arguments-undefined")]).expect(shows="argv[0]")


def test_setuid_program(job, run, guests, tmp_path):
    """Its rights would go to the whole space, or be lost without a word."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    path = tmp_path / "setuid"
    shutil.copy(guests("arguments"), path)
    os.chown(path, 65534, 65534)
    os.chmod(path, 0o4755)
    refused(job, run, [path], "setuid")


def test_file_capabilities(job, run, guests, tmp_path, tool):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    path = tmp_path / "capable"
    shutil.copy(guests("arguments"), path)
    setcap = shutil.which("setcap") or "/sbin/setcap"
    if not os.path.exists(setcap) or subprocess.run([setcap, "cap_net_raw+ep", path]).returncode != 0:
        pytest.skip("file capabilities cannot be set here (package libcap2-bin)")
    refused(job, run, [path], "capabilities")


def executable(path, content):
    path.write_bytes(content)
    path.chmod(0o755)
    return path


with open("/bin/true", "rb") as true:
    TRUE = true.read()


# An empty file: a shell would run it as a script, execve refuses it.
@pytest.mark.parametrize("name,content,word", [
    ("bits32", TRUE[:4] + b"\1" + TRUE[5:18] + b"\3" + TRUE[19:64] + bytes(4096), "bits32"),
    ("other", TRUE[:18] + (183).to_bytes(2, "little") + TRUE[20:], "aarch64"),
    ("short", TRUE[:100], "short"), ("empty", b"", "empty")], ids=lambda value: value if isinstance(value, str) else "")
def test_file_that_is_no_program(job, run, tmp_path, name, content, word):
    refused(job, run, [executable(tmp_path / name, content)], word)


def test_missing_interpreter(job, run, guests):
    path = guests("arguments-without-loader")
    result = job.run([*run, path])
    assert result.code in (126, 127) and "no-such-loader" in result.err, str(result)


def test_missing_interpreter_of_a_script(job, run, tmp_path):
    result = job.run([*run, executable(tmp_path / "script", b"#!/no/such/shell\n")])
    assert result.code in (126, 127) and "/no/such/shell" in result.err, str(result)


def test_script_for_a_program_that_cannot_be_a_task(job, run, guests, tmp_path):
    script = executable(tmp_path / "script", f"#!{guests('arguments-fixed')}\n".encode())
    refused(job, run, [script], "position independent")


def test_missing_library_is_reported_by_the_loader(job, run, guests):
    """ld.so's own message and status, as with a process."""
    program = guests("needs-lost")
    plain, task = job.run([program]), job.run([*run, program])
    assert task.code == plain.code == 127 and "libno-such.so.9" in task.err, f"{plain}\n{task}"
