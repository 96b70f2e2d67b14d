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


def test_fixed_addresses(job, run, guests):
    refused(job, run, [guests("arguments-fixed")], "position independent", "-fpie")


def test_static_with_fixed_addresses(job, run, guests):
    refused(job, run, [guests("arguments-static")], "position independent")


def test_one_of_several_programs(job, guests):
    """None of them is left running."""
    fixed = guests("arguments-fixed")
    job.run([*RUN, "-n", "2", "sleep", "30", ":", fixed], timeout=10).expect(126, says="position independent")


def test_valgrind(job, run, tool):
    refused(job, run, [tool("valgrind"), "/bin/true"], "valgrind")


def test_run_under_valgrind_is_refused(job, tool):
    """valgrind around onespace cannot work either, and must say so; not hang."""
    result = job.run([tool("valgrind"), "-q", *RUN, "/bin/echo", "ran"], timeout=60)
    assert result.code == 1 and "valgrind cannot follow" in result.err and not result.out, str(result)


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_sanitizer_that_maps_fixed_shadows(job, run, guests, sanitizer):
    program = guests(f"arguments-{sanitizer}")
    refused(job, run, [program], "sanitize")


def test_sanitizer_that_does_not(job, run, guests):
    program = guests("arguments-undefined")
    job.run([*run, program]).expect(shows="argv[0]")


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


def test_32_bit_program(job, run, tmp_path):
    path = tmp_path / "bits32"
    header = bytearray(open("/bin/true", "rb").read(64))
    header[4], header[18] = 1, 3
    path.write_bytes(bytes(header) + bytes(4096))
    path.chmod(0o755)
    refused(job, run, [path], "bits32")


def test_other_architecture(job, run, tmp_path):
    path = tmp_path / "other"
    header = bytearray(open("/bin/true", "rb").read())
    header[18:20] = (183).to_bytes(2, "little")
    path.write_bytes(header)
    path.chmod(0o755)
    refused(job, run, [path], "aarch64")


def test_missing_interpreter(job, run, guests):
    path = guests("arguments-without-loader")
    result = job.run([*run, path])
    assert result.code in (126, 127) and "no-such-loader" in result.err, str(result)


def test_missing_interpreter_of_a_script(job, run, tmp_path):
    path = tmp_path / "script"
    path.write_text("#!/no/such/shell\n")
    path.chmod(0o755)
    result = job.run([*run, path])
    assert result.code in (126, 127) and "/no/such/shell" in result.err, str(result)


def test_script_for_a_program_that_cannot_be_a_task(job, run, guests, tmp_path):
    path = tmp_path / "script"
    path.write_text(f"#!{guests('arguments-fixed')}\n")
    path.chmod(0o755)
    refused(job, run, [path], "position independent")


def test_missing_library_is_told_by_the_loader(job, run, guests):
    """ld.so's own message and status, as with a process."""
    program = guests("needs-lost")
    plain, task = job.run([program]), job.run([*run, program])
    assert task.code == plain.code == 127 and "libno-such.so.9" in task.err, f"{plain}\n{task}"


def test_truncated_program(job, run, tmp_path):
    path = tmp_path / "short"
    path.write_bytes(open("/bin/true", "rb").read(100))
    path.chmod(0o755)
    refused(job, run, [path], "short")


def test_empty_file(job, run, tmp_path):
    """A shell would run it as an empty script; execve refuses."""
    path = tmp_path / "empty"
    path.write_text("")
    path.chmod(0o755)
    refused(job, run, [path], "empty")
