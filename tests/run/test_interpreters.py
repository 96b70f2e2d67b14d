"""Interpreters of Python that are not PIE run from their library, virtual environments included."""
import glob
import json
import os
import re
import shutil
import subprocess

import pytest

from jobs import ONESPACE

SAY = ("import json, sys; "
       "print(json.dumps([sys.executable, sys.prefix, sys.base_prefix, sys.path, sys.argv, sys.version]))")


def is_fixed(path):
    with open(path, "rb") as file:
        return file.read(18)[16] == 2


@pytest.fixture(scope="session")
def python():
    """The distribution's Python, where it is non-PIE and its library is here."""
    path = os.path.realpath("/usr/bin/python3")
    if not os.path.exists(path) or not is_fixed(path):
        pytest.skip("the distribution's python3 is position independent, or there is none")
    if not glob.glob(f"/usr/lib/*/lib{os.path.basename(path)}.so.1.0"):
        pytest.skip(f"no lib{os.path.basename(path)}.so.1.0 (package lib{os.path.basename(path)})")
    return path


@pytest.fixture(scope="session")
def environment(python, tmp_path_factory):
    directory = tmp_path_factory.mktemp("with blank") / "venv"
    subprocess.run([python, "-m", "venv", "--without-pip", str(directory)], check=True, timeout=180)
    return directory


@pytest.fixture
def copied(python, tmp_path):
    """A Python of an installation that has no library."""
    (tmp_path / "bin").mkdir()
    path = tmp_path / "bin" / os.path.basename(python)
    shutil.copy(python, path)
    return path


def compare(job, run, program, *arguments, **options):
    plain = job.run([program, *arguments], **options)
    result = job.run([*run, program, *arguments], **options)
    assert plain.code == result.code == 0, f"{plain}\n{result}"
    assert json.loads(result.out) == json.loads(plain.out)


def test_python_knows_what_it_knows_as_a_process(job, run, python):
    compare(job, run, "/usr/bin/python3", "-c", SAY, "a", "b c")


def test_python_is_found_in_path(job, run, python):
    compare(job, run, "python3", "-c", SAY, env={"PATH": "/usr/bin:/bin"})


@pytest.mark.parametrize("name", ["python", "python3"])
def test_virtual_environment(job, run, environment, name):
    compare(job, run, environment / "bin" / name, "-c", SAY)


@pytest.mark.parametrize("name", ["python", "python3"])
def test_virtual_environment_of_copies(job, run, python, tmp_path, name):
    subprocess.run([python, "-m", "venv", "--without-pip", "--copies", str(tmp_path / "venv")], check=True, timeout=180)
    compare(job, run, tmp_path / "venv/bin" / name, "-c", SAY)


def test_virtual_environment_by_relative_path(job, run, environment):
    compare(job, run, "venv/bin/python", "-c", SAY, cwd=environment.parent)


def test_script_that_names_its_python(job, run, environment, tmp_path):
    link = tmp_path / "env"  # a #! line has no quotes
    link.symlink_to(environment)
    script = tmp_path / "script.py"
    script.write_text(f"#!{link}/bin/python\n{SAY}\n")
    script.chmod(0o755)
    compare(job, run, script, "argument")


def test_standard_input_is_the_script(job, run, python):
    job.run([*run, python, "-"], stdin="print(6 * 7)\n").expect(out="42\n")


def test_exit_status_is_the_scripts(job, run, python):
    job.run([*run, python, "-c", "raise SystemExit(7)"]).expect(7)


def test_what_it_starts_is_the_same_python(job, run, environment):
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import sys; print(sys.prefix)'], check=True)"
    job.run([*run, environment / "bin/python", "-c", code]).expect(out=f"{environment}\n")


def test_own_program_is_the_python_that_was_named(job, run, python):
    job.run([*run, python, "-c", "import os; print(os.readlink('/proc/self/exe'))"]).expect(out=f"{python}\n")


def test_verbose_names_the_library(job, run, python):
    result = job.run([*run, "--verbose", "python3", "-c", ""], env={"PATH": "/usr/bin"})
    assert re.search(rf"{python} is non-PIE: .* from /\S+/lib{os.path.basename(python)}\.so\.1\.0",
                     result.err), str(result)


def test_check_names_the_library(job, python):
    verdict, = json.loads(job.run([ONESPACE, "check", "--json", "/usr/bin/python3"]).out)
    assert verdict["can_be_task"] and verdict["path"] == python, verdict
    assert any("libpython" in note for note in verdict["notes"]), verdict


def test_python_without_its_library_is_refused(job, run, copied):
    result = job.run([*run, copied, "-c", "print('ran')"])
    library = f"lib{copied.name}.so.1.0"
    assert result.code == 126 and not result.out and library in result.err and "Install" in result.err, str(result)


def test_library_that_is_damaged_is_named(job, run, copied):
    (copied.parent.parent / "lib").mkdir()
    library = copied.parent.parent / "lib" / f"lib{copied.name}.so.1.0"
    library.write_bytes(b"\x7fELF and no more")
    job.run([*run, copied, "-c", "print('ran')"]).expect(126, out="", says=str(library))
