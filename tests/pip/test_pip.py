"""tests/pip/test_pip.py: the commands and the environment of Process-in-Process."""
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

from jobs import ONESPACE, ROOT

BUILD = pathlib.Path(os.environ.get("ONESPACE_BUILD", ROOT / "build"))
BIN = pathlib.Path(ONESPACE).parent

GUEST = r"""
#include <pip/pip.h>
#include <stdlib.h>
#include <unistd.h>
#include <signal.h>
int begin(void *argument) { (void)argument; printf("begun\n"); return 4; }
int main(int argc, char **argv)
{
    int id = -1, ntasks = 1;
    if (pip_init(&id, &ntasks, NULL, 0) != 0)
        return 99;
    if (argc > 1 && strcmp(argv[1], "spawn") == 0) {
        int status = 0, error = pip_spawn(argv[2], argv + 2, NULL, PIP_CPUCORE_ASIS, NULL, NULL, NULL, NULL);
        if (error)
            return error;
        pip_wait_any(NULL, &status);
        return status >> 8 | (status & 127);
    }
    if (argc > 1 && strcmp(argv[1], "abort") == 0)
        return pip_spawn(argv[2], argv + 2, NULL, PIP_CPUCORE_ASIS, NULL, NULL, NULL, NULL) || (pip_abort(), 0);
    printf("task %d of %d\n", id, ntasks);
    fflush(stdout);
    if (argc > 1 && strcmp(argv[1], "crash") == 0)
        raise(SIGSEGV);
    if (argc > 1 && strcmp(argv[1], "wait") == 0)
        sleep(600);
    return argc > 1 ? atoi(argv[1]) : 0;
}
"""


@pytest.fixture(scope="module")
def guest(tmp_path_factory):
    """Compiled by pipcc, as its users do."""
    directory = tmp_path_factory.mktemp("pip")
    (directory / "guest.c").write_text(GUEST)
    subprocess.run([BIN / "pipcc", "-Wall", "-Werror", "guest.c", "-o", "guest"], cwd=directory, check=True,
                   timeout=180)
    return str(directory / "guest")


def libpip(*options):
    return subprocess.run([BUILD / "lib/libpip.so", *options], capture_output=True, text=True, timeout=180, check=False)


def test_library_is_a_program_that_says_what_is_installed():
    """What configure of Process-in-Process's packages asks."""
    assert os.access(BUILD / "lib/libpip.so", os.X_OK)
    result = libpip("--version")
    assert (result.returncode, result.stdout, result.stderr) == (0, "2.4.1\n", "")
    assert libpip("--prefix").stdout == f"{BUILD.resolve()}\n"
    everything = libpip()
    assert everything.returncode == 0 and len(everything.stdout.splitlines()) == 10, everything
    for option in ("name", "license", "os", "cc", "glibc", "ldlinux", "commit", "debug"):
        one = libpip(f"--{option}")
        assert one.returncode == 0 and len(one.stdout.splitlines()) == 1, one
        assert one.stdout.strip() in everything.stdout
    for option in ("--usage", "--help", "--nonsense"):
        result = libpip(option)
        assert result.returncode == 1 and "usage: libpip.so" in result.stdout, result


@pytest.mark.parametrize("options, code, words", [
    (["-pie", "-fPIE"], 0, "is position independent"), (["-no-pie", "-fno-pie"], 1, "is not position independent")])
def test_unpie_leaves_programs_as_they_are(tmp_path, options, code, words):
    (tmp_path / "main.c").write_text("int main(void) { return 0; }")
    program = tmp_path / "program"
    subprocess.run(["cc", *options, tmp_path / "main.c", "-o", program], check=True, timeout=180)
    before = program.read_bytes()
    assert subprocess.run([BIN / "pip-unpie", program], check=False).returncode == 0
    checked = subprocess.run([BIN / "pip-unpie", "-c", program], capture_output=True, text=True, check=False)
    assert checked.returncode == code and words in checked.stderr, checked
    assert program.read_bytes() == before


@pytest.mark.parametrize("file, code", [("/etc/passwd", 1), ("/absent", 2), ("/etc", 2)])
def test_unpie_refuses_what_is_no_program(file, code):
    result = subprocess.run([BIN / "pip-unpie", file], capture_output=True, text=True, check=False)
    assert result.returncode == code and f"pip-unpie: {file}: " in result.stderr, result


UTILITIES = r"""
#define _GNU_SOURCE
#include <pip/pip_util.h>
#include <pip/pip_clone.h>
#include <pip/xpmem.h>
#include <fcntl.h>
int main(int argc, char **argv)
{
    int flags = pip_clone_flags(CLONE_FS | CLONE_THREAD | 3);
    if (flags != (CLONE_VM | CLONE_SETTLS | CLONE_PTRACE | CLONE_SYSVSEM | SIGCHLD))
        return 1;
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pip_print_fd(stdout, file);
    pip_print_fds(stdout);
    pip_print_loaded_solibs(stdout);
    pip_check_addr("here", argv);
    pip_check_addr(0, 0);
    pip_print_maps();
    pip_print_dsos();
    (void)argc;
    return 0;
}
"""


def test_utilities_show_the_process(tmp_path):
    (tmp_path / "main.c").write_text(UTILITIES)
    subprocess.run([BIN / "pipcc", "-Wall", "-Werror", "main.c", "-o", "main"], cwd=tmp_path, check=True, timeout=180)
    result = subprocess.run([tmp_path / "main"], capture_output=True, text=True, timeout=180, check=False)
    assert result.returncode == 0, result
    assert result.stdout.count("-> /dev/null [COE]") == 2 and "libpip.so" in result.stdout, result
    assert re.search(r"^here 0x[0-9a-f]+: [0-9a-f]+-[0-9a-f]+ rw-p .*\[stack\]$", result.stderr, re.MULTILINE), result
    assert "(nil): not mapped" in result.stderr and "libpip.so" in result.stderr, result


def test_pkg_config_says_how_to_compile_a_root(job, tmp_path, tool):
    """With the build tree's directories in place of the installed ones."""
    package = re.sub(r"(?m)^libdir=.*$", f"libdir={BUILD / 'lib'}", (BUILD / "pip.pc").read_text())
    package = re.sub(r"(?m)^includedir=.*$", f"includedir={ROOT / 'include'}", package)
    (tmp_path / "pip.pc").write_text(package)
    (tmp_path / "root.c").write_text(GUEST)
    ask = job.run([tool("pkg-config"), "--cflags", "--libs", "pip"], env={"PKG_CONFIG_PATH": str(tmp_path)}).expect()
    job.run(["cc", "root.c", "-o", "root", *ask.out.split()], cwd=tmp_path).expect()
    done = job.run([tmp_path / "root"], env={"LD_LIBRARY_PATH": str(BUILD / "lib")})
    assert done.code == 0 and done.out.endswith(" of 1\n"), done


@pytest.mark.parametrize("mode", ["process", "pthread"])
def test_abort_of_the_root_ends_all_by_sigabrt(job, guest, mode):
    done = job.run([guest, "abort", guest, "wait"], env={"PIP_MODE": mode, "LD_LIBRARY_PATH": str(BUILD / "lib")})
    assert done.code == 128 + signal.SIGABRT, done


def test_pip_exec_numbers_the_tasks(job, guest):
    done = job.run([BIN / "pip-exec", "-n", "2", guest, ":", "-n", "1", guest, "3"])
    assert done.lines == ["task 0 of 3", "task 1 of 3", "task 2 of 3"], done
    assert done.code == 3, done


def test_pip_exec_starts_at_a_function(job, guest):
    done = job.run([BIN / "pip-exec", "-n", "2", "-f", "begin", guest])
    assert (done.code, done.lines) == (4, ["begun", "begun"]), done


def test_pip_exec_binds_to_cpus(job):
    done = job.run([BIN / "pip-exec", "-c", "0", "nproc"])
    assert (done.code, done.out) == (0, "1\n"), done


@pytest.mark.parametrize("words, code", [
    ([], 2), (["-n"], 2), (["-n", "0", "true"], 2), (["-n", "x", "true"], 2), (["-n", "301", "true"], 2),
    (["-n", "200", "true", ":", "-n", "200", "true"], 2), ([":", "true"], 2), (["-q", "true"], 2),
    (["no-such-program"], 127), (["/etc/passwd"], 126), (["-f", "no_function", "true"], 126), (["--help"], 0)])
def test_pip_exec_says_what_is_wrong(job, words, code):
    done = job.run([BIN / "pip-exec", *words]).expect(code)
    assert done.err or code == 0, done


def test_pip_exec_reports_a_signal(job, guest):
    job.run([BIN / "pip-exec", guest, "crash"]).expect(128 + signal.SIGSEGV, says="task 0 was ended by signal 11")


def test_pips_lists_and_kills(job, guest):
    root = job.start([BIN / "pip-exec", "-n", "2", guest, "wait"])
    root.wait_for("task", 2)
    listed = job.run([BIN / "pips", "-t", "guest"])
    assert len(re.findall(r"(?m)^ *\d+ [01]L  guest$", listed.out)) >= 2, listed
    assert re.search(rf"(?m)^ *{root.pid} RL  pip-exec$", job.run([BIN / "pips", "-r"]).out)
    assert job.run([BIN / "pips", "no-such-name"]).code == 1
    assert job.run([BIN / "pips", "-s", "NOSUCH"]).code == 2
    tasks = [word for line in listed.out.splitlines()[1:] for word in line.split()[:1]
             if int(word) in [process.pid for process in job.processes()]]
    assert len(tasks) == 2, listed
    assert job.run([BIN / "pips", "-s", "SIGTERM", "-t", "-", *tasks]).code == 0
    assert root.finish().code == 128 + signal.SIGTERM


def test_pips_lists_all_of_a_large_space(job, guest):
    root = job.start([BIN / "pip-exec", "-n", "25", guest, "wait"])
    root.wait_for("task", 25)
    listed = job.run([BIN / "pips", "-t", "guest"])
    assert len(re.findall(r"(?m)^ *\d+ [0-9]L  guest$", listed.out)) >= 25, listed
    root.signal(signal.SIGTERM)
    root.finish()


def test_pip_check_tells_roots_and_tasks(job, guest, tmp_path):
    assert job.run([BIN / "pip-check", "-b", guest]).code == 0
    job.run([BIN / "pip-check", "-v", "-r", "/bin/true"]).expect(1, says="not linked with libpip.so")
    fixed = tmp_path / "fixed"
    (tmp_path / "fixed.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["cc", "-no-pie", "-fno-pie", "fixed.c", "-o", "fixed"], cwd=tmp_path, check=True, timeout=180)
    job.run([BIN / "pip-check", "-v", fixed]).expect(1, says="position independent")
    assert job.run([BIN / "pip-check", tmp_path / "nothing"]).code == 1


def test_pip_mode_sets_the_mode(job):
    for option, name in (("-P", "process:preload"), ("-C", "process:pipclone")):
        done = job.run([BIN / "pip-mode", option, BIN / "printpipmode"])
        assert (done.code, done.out) == (0, name + "\n"), done
    assert job.run([BIN / "pip-mode", "-C"]).out == "PIP_MODE=process:pipclone\n"
    assert job.run([BIN / "pip-mode", "-G"]).code == 1
    assert job.run([BIN / "pip-mode", "-x"]).code == 2


def test_pipcc_prints_flags_that_work(job, tmp_path):
    flags = job.run([BIN / "pipcc", "--cflags", "--lflags"]).out.split()
    (tmp_path / "guest.cc").write_text(GUEST)
    subprocess.run(["c++", "-fpermissive", "-w", "guest.cc", "-o", "guest", *flags], cwd=tmp_path, check=True,
                   timeout=180)
    assert job.run([tmp_path / "guest"]).code == 0
    assert job.run([BIN / "pipcc", "--where"]).out == f"{BIN / 'pipcc'}\n"
    assert job.run([BIN / "pipcc"]).code == 2
    assert job.run([BIN / "pipcc", "-static", "guest.cc"]).code == 2


def test_pipfc_compiles_fortran(job, tmp_path, tool):
    tool("gfortran", "gfortran")
    (tmp_path / "hello.f").write_text("      program hello\n      print *, 'hello'\n      end\n")
    assert job.run([BIN / "pipfc", tmp_path / "hello.f", "-o", tmp_path / "hello"]).code == 0
    assert job.run([BIN / "pip-exec", "-n", "2", tmp_path / "hello"]).lines == [" hello", " hello"]


def test_a_plain_compiler_does(job, tmp_path):
    (tmp_path / "guest.c").write_text(GUEST)
    subprocess.run(["cc", "guest.c", "-o", "guest", f"-I{ROOT / 'include'}", f"-L{BUILD / 'lib'}", "-lpip"],
                   cwd=tmp_path, check=True, timeout=180)
    env = {"LD_LIBRARY_PATH": str(BUILD / "lib")}
    done = job.run([tmp_path / "guest", "spawn", tmp_path / "guest", "5"], env=env)
    assert (done.code, done.lines) == (5, ["task 0 of 1"]), done


def stopped(job):
    return [process.pid for process in job.processes() if process.state == "T"]


@pytest.mark.parametrize("target", ["", "@0", "@-1"])
def test_stop_on_start_stops_the_task(job, guest, target):
    root = job.start([guest, "spawn", guest], env={"PIP_STOP_ON_START": target})
    until = time.monotonic() + 180
    while not stopped(job) and time.monotonic() < until:
        time.sleep(0.01)
    pids = stopped(job)
    assert len(pids) == 1 and pids[0] != root.pid
    os.kill(pids[0], signal.SIGCONT)
    done = root.finish()
    assert (done.code, done.lines) == (0, ["task 0 of 1"]), done
    assert f"kill -CONT {pids[0]} continues it" in done.err


def test_stop_on_start_leaves_other_tasks_alone(job, guest):
    assert job.run([guest, "spawn", guest], env={"PIP_STOP_ON_START": "@1"}).code == 0


def test_stop_on_start_calls_a_script(job, guest, tmp_path):
    script = tmp_path / "script"
    script.write_text('#!/bin/sh\necho "script $2 $3" >&2\nkill -CONT "$1"\n')
    script.chmod(0o755)
    done = job.run([guest, "spawn", guest], env={"PIP_STOP_ON_START": f"{script}@0"})
    assert (done.code, done.lines) == (0, ["task 0 of 1"]), done
    assert f"script 0 {guest}" in done.err
    done = job.run([guest, "spawn", guest], env={"PIP_STOP_ON_START": str(tmp_path / "none")})
    assert done.code == 0 and "cannot be executed" in done.err, done


def test_show_maps_shows_the_map_of_a_crash(job, guest):
    done = job.run([guest, "spawn", guest, "crash"], env={"PIP_SHOW_MAPS": "on"})
    assert done.code == signal.SIGSEGV and "onespace-space" in done.err and "[stack]" in done.err, done
    job.run([guest, "spawn", guest, "crash"]).expect(signal.SIGSEGV, err="")


def test_show_pips_calls_pips(job, guest):
    env = {"PIP_SHOW_PIPS": "on", "PATH": f"{BIN}:{os.environ['PATH']}"}
    done = job.run([guest, "spawn", guest, "crash"], env=env)
    assert done.code == signal.SIGSEGV and re.search(r"(?m)^ *\d+ 0L  guest$", done.err), done


def test_gdb_path_gets_a_backtrace(job, guest, tmp_path):
    fake = tmp_path / "debugger"
    fake.write_text('#!/bin/sh\necho "debugger $*"\n')
    fake.chmod(0o755)
    done = job.run([guest, "spawn", guest, "crash"], env={"PIP_GDB_PATH": str(fake), "PIP_GDB_SIGNALS": "ALL-HUP"})
    assert done.code == signal.SIGSEGV and re.search(r"debugger -q -batch -p \d+ -ex bt", done.err), done
    done = job.run([guest, "spawn", guest, "crash"], env={"PIP_GDB_PATH": str(fake), "PIP_GDB_SIGNALS": "HUP"})
    assert "debugger" not in done.err, done


def test_quiet_silences_messages(job, guest):
    assert "not found" in job.run([guest, "spawn", "no-such-program"]).err
    assert job.run([guest, "spawn", "no-such-program"], env={"PIP_QUIET": "1"}).err == ""
