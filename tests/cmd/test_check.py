"""onespace check: the verdict, its reason and fix, and the notes."""
import os
import pathlib
import shutil
import stat
import subprocess

import pytest

from jobs import RUN
from observe import CHECK, as_json, in_terminal


@pytest.fixture
def check(job):
    """The verdict on one program."""
    def one(program, **options):
        result = job.run([*CHECK, "--json", program], **options)
        verdict, = as_json(result)
        assert result.code == (0 if verdict["can_be_task"] else 1), result
        assert verdict["program"] == str(program)
        return verdict
    return one


@pytest.fixture
def script(tmp_path):
    def write(text, name="script", mode=0o755):
        path = tmp_path / name
        path.write_text(text)
        path.chmod(mode)
        return str(path)
    return write


def interpreter_of(program):
    text = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True).stdout
    return text.split("Requesting program interpreter: ")[1].split("]")[0]


def test_position_independent_program_can(check, guests):
    program = guests("program")
    verdict = check(program)
    assert verdict == {"program": program, "can_be_task": True, "path": os.path.realpath(program),
                       "libc": "glibc", "interpreter": os.path.realpath(interpreter_of(program)),
                       "reason": None, "fix": None, "notes": []}


def test_program_is_searched_along_path(check):
    assert check("ls")["path"] == os.path.realpath(shutil.which("ls"))


@pytest.mark.parametrize("program,executes", [("env", True), ("nice", True), ("cat", False), ("sh", False)])
def test_start_program_differs_from_others(check, program, executes):
    assert any("executes another program" in note for note in check(program)["notes"]) == executes


def test_static_program_can(check, guests):
    verdict = check(guests("program-static"))
    assert verdict["can_be_task"] and verdict["libc"] == "static" and verdict["interpreter"] is None


@pytest.mark.parametrize("program, unknown", [("calls-apart", ""), ("calls-shared", "munmap")])
def test_call_that_cannot_be_patched_is_noted(check, guests, program, unknown):
    notes = [note for note in check(guests(program))["notes"] if "does not recognise the system calls of" in note]
    assert len(notes) == bool(unknown) and all(note.endswith(f" of {unknown}") for note in notes), notes


def test_musl_program_can(check, guests, tool):
    tool("musl-gcc", "musl-tools")
    verdict = check(guests("program-musl"))
    assert verdict["can_be_task"] and verdict["libc"] == "musl", verdict


def test_fixed_program_cannot(check, guests):
    verdict = check(guests("program-fixed"))
    assert not verdict["can_be_task"] and "position independent" in verdict["reason"]
    assert "-fPIE -pie" in verdict["fix"] and verdict["path"] is None


def test_fixed_go_program_gets_gos_fix(check, guests):
    verdict = check(guests("program-go"))
    assert not verdict["can_be_task"] and "go build -buildmode=pie" in verdict["fix"], verdict


def test_fixed_python_gets_a_fix_of_its_own(check, guests, tmp_path):
    python = tmp_path / "python3.99"
    shutil.copy(guests("program-fixed"), python)
    (tmp_path / "python3").symlink_to(python)
    verdict = check("python3", env={"PATH": str(tmp_path)})
    assert not verdict["can_be_task"] and "libpython3.99.so.1.0" in verdict["reason"], verdict
    assert "Install that library" in verdict["fix"], verdict


def test_privileged_program_cannot(check, guests, tmp_path):
    program = tmp_path / "privileged"
    shutil.copy(guests("program"), program)
    program.chmod(0o4755)
    if not program.stat().st_mode & stat.S_ISUID:
        pytest.skip("this file system has no setuid bit")
    verdict = check(str(program))
    assert not verdict["can_be_task"] and "setuid" in verdict["reason"]


@pytest.mark.parametrize("name,reason", [("no-such-program", "PATH"), ("./no-such-program", "not exist"),
                                         ("/", "directory"), ("", "empty name")])
def test_what_is_no_program_cannot(check, name, reason):
    verdict = check(name)
    assert not verdict["can_be_task"] and reason in verdict["reason"] and verdict["fix"], verdict


def test_script_names_the_program_that_runs(check, script):
    path = script("#!/bin/sh -e\nexit 0\n")
    verdict = check(path)
    shell = os.path.realpath("/bin/sh")
    assert verdict["path"] == shell
    assert any(path in note and "script" in note and shell in note for note in verdict["notes"])
    assert any("ordinary processes" in note for note in verdict["notes"]), verdict


def test_script_without_a_line_runs_the_shell(check, script):
    assert check(script("exit 0\n"))["path"] == os.path.realpath("/bin/sh")


def test_script_of_env_runs_what_env_would_execute(check, script, tool):
    verdict = check(script(f"#!{tool('env')} sh\nexit 0\n"))
    assert verdict["path"] == os.path.realpath(tool("sh"))
    assert not any("leaves the space" in note for note in verdict["notes"]), verdict


def test_script_of_env_with_options_leaves_the_space(check, script, tool):
    env = tool("env")
    verdict = check(script(f"#!{env} -S sh\nexit 0\n"))
    assert verdict["path"] == os.path.realpath(env)
    assert any("leaves the space" in note for note in verdict["notes"]), verdict


def test_script_of_a_fixed_program_cannot(check, script, guests):
    fixed = guests("program-fixed")
    verdict = check(script(f"#!{fixed}\n"))
    assert not verdict["can_be_task"] and fixed in verdict["reason"], verdict


def test_program_has_no_notes_when_it_is_called_by_a_link(check, guests, tmp_path):
    (tmp_path / "link").symlink_to(guests("program"))
    assert check(str(tmp_path / "link"))["notes"] == []


def test_libc_without_patch_sites_is_reported(check, guests, tmp_path):
    """A copy of the libc whose one mmap looks different to the search: two bytes of it swapped."""
    interpreter = os.path.realpath(interpreter_of(guests("program")))
    libc = pathlib.Path(interpreter).parent / "libc.so.6"
    if not libc.exists():
        pytest.skip(f"no {libc}: this libc is laid out otherwise")
    mmap_call = b"\xb8\x09\0\0\0\x0f\x05"
    original = libc.read_bytes()
    assert mmap_call in original
    (tmp_path / "libc.so.6").write_bytes(original.replace(mmap_call, b"\xb8\x09\0\0\0\x05\x0f"))
    shutil.copy(interpreter, tmp_path / "ld-linux-copy.so.2")
    program = guests.build("program.c", ("cc", "-pie", "-fPIE"),
                           (f"-Wl,--dynamic-linker={tmp_path}/ld-linux-copy.so.2",), "program-copy")
    note, = check(program)["notes"]
    assert "given back" in note and note.endswith(" mmap") and str(tmp_path / "libc.so.6") in note


def test_verdict_is_that_of_run(job, check, guests, script):
    fixed = guests("program-fixed")
    programs = [guests("program"), fixed, script("#!/bin/sh\n"), "/",
                script(f"#!{fixed}\n", "second"), "no-such-program", "true",
                script("#!/bin/sh\n", "third", 0o644)]
    for program in programs:
        can = check(program)["can_be_task"]
        assert job.run([*RUN, program]).code == 0 if can else job.run([*RUN, program]).code in (126, 127)


def test_text_names_reason_and_fix(job, guests):
    fixed = guests("program-fixed")
    result = job.run([*CHECK, fixed, "true"])
    refused, accepted = result.out.splitlines()
    assert result.code == 1 and result.err == "", result
    assert refused.startswith(f"{fixed}: cannot be a task: is not position independent"), result
    assert "-fPIE -pie" in refused
    assert accepted.startswith("true: can be a task (") and os.path.realpath(shutil.which("true")) in accepted


def test_text_fits_the_terminal(job, guests):
    fixed = guests("program-fixed")
    lines = in_terminal([*CHECK, fixed], 60, job.env)
    assert len(lines) > 3
    # A path is not broken.
    assert all(len(line) <= 60 for line in lines if fixed not in line), lines


def test_hostile_interpreter_does_not_reach_the_terminal(job, tmp_path):
    script = tmp_path / "script"
    script.write_bytes(b"#!/no\x1b[31m\xc2\x9b1m/such\n")
    script.chmod(0o755)
    result = job.run([*CHECK, script])
    assert result.code == 1 and "/no?[31m?1m/such" in result.out.replace("\n    ", ""), str(result)


def test_hostile_name_does_not_reach_the_terminal(job, tmp_path):
    result = job.run([*CHECK, f"{tmp_path}/\x1b[31m\n"])
    assert result.code == 1 and "\x1b" not in result.out and result.out.count("\n") == 1, result
