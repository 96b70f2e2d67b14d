"""tests/run/test_older_libcs.py: programs whose dynamic linker is older than this machine's, or too old."""
import subprocess

import pytest

from jobs import ROOT, RUN

# Needs nothing that an old libc lacks: no startup code of this machine's.
SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__asm__(".globl _start\n_start: mov %rsp, %rdi\nand $-16, %rsp\ncall begin\nhlt");

void begin(long *stack)
{
    char **argv = (char **)(stack + 1);
    void *memory = malloc(1 << 20);
    printf("%s %s in %d%s\n", argv[0], argv[1], getpid() > 0, memory ? "" : " without memory");
    exit(7);
}
"""
LINKER = "ld-linux-x86-64.so.2"


@pytest.fixture(params=["bionic", "bullseye", "bookworm", "trixie"])
def libc(request):
    place = ROOT / f".libcs/{request.param}-libc6"
    found = [path.parent for path in place.rglob("libc.so.6") if "x86_64-linux-gnu" in path.parts]
    if not found:
        pytest.skip(f"no {place} (scripts/fetch-libcs)")
    return found[0]


def build(directory, linker, path):
    source = path.with_suffix(".c")
    source.write_text(SOURCE)
    subprocess.run(["cc", "-O1", "-fPIE", "-pie", "-nostartfiles", source, "-o", path,
                    f"-Wl,--dynamic-linker={linker}", f"-Wl,-rpath,{directory}"], check=True, timeout=180)
    return path


@pytest.mark.parametrize("options", [[], ["--no-interpose"], ["--thread-mode"]])
def test_program_of_another_libc_is_a_task(job, libc, tmp_path, options):
    """Of glibc 2.31 too, whose ld.so takes no --argv0."""
    path = build(libc, libc / LINKER, tmp_path / "program")
    other = tmp_path / "other-name"
    other.symlink_to(path)
    job.run([*RUN, *options, "-n", "2", "--", other, "argument"]).expect(7, out=f"{other} argument in 1\n" * 2)


def test_linker_without_options_loads_the_agent(job, libc, tmp_path):
    """As that of glibc 2.29 and older, which knows neither --argv0 nor --preload: entered as the kernel enters it."""
    linker = tmp_path / "ld-linux-old.so"
    linker.write_bytes((libc / LINKER).read_bytes().replace(b"--preload", b"--preloaX"))
    linker.chmod(0o755)
    path = build(libc, linker, tmp_path / "program")
    result = job.run([*RUN, "--stats", "-n", "2", path, "argument"]).expect(7, out=f"{path} argument in 1\n" * 2)
    assert "all 2 tasks together" in result.err, str(result)  # which the agent counts


def test_origin_is_the_directory_of_the_program(job, libc, tmp_path):
    """In the search path of a program, and of what it opens, although /proc/self/exe is the root's."""
    linker, library = tmp_path / "ld-linux-old.so", tmp_path / "lib/libanswer.so"
    linker.write_bytes((libc / LINKER).read_bytes().replace(b"--preload", b"--preloaX"))
    linker.chmod(0o755)
    library.parent.mkdir()
    (tmp_path / "answer.c").write_text("int answer(void) { return 42; }\n")
    (tmp_path / "asks.c").write_text(SOURCE.replace("exit(7)", "exit(answer())").replace(
        "void begin", "int answer(void);\nvoid begin"))
    subprocess.run(["cc", "-shared", "-fPIC", "-nostdlib", tmp_path / "answer.c", "-o", library], check=True)
    for tag in ("--disable-new-dtags", "--enable-new-dtags"):
        subprocess.run(["cc", "-O1", "-fPIE", "-pie", "-nostartfiles", tmp_path / "asks.c", library, "-o",
                        tmp_path / "asks", f"-Wl,--dynamic-linker={linker}", f"-Wl,-rpath,$ORIGIN/lib:{libc}",
                        f"-Wl,{tag}"], check=True, timeout=180)
        for options in [[], ["--no-interpose"]]:
            job.run([*RUN, *options, tmp_path / "asks", "argument"], cwd="/").expect(42)
