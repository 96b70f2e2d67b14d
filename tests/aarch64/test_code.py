"""What the compilers make for aarch64 of accesses whose order matters there and not on x86-64, read as machine code:
emulation keeps the order of both. Needs the cross compiler and, for the libraries, their build; no machine."""
import re
import shutil
import subprocess

import pytest

from jobs import ROOT

BUILD = ROOT / "build-aarch64"
pytestmark = pytest.mark.xdist_group("aarch64 code")  # one worker compiles it for all
COMPILER, OBJDUMP = "aarch64-linux-gnu-g++", "aarch64-linux-gnu-objdump"

# One function for each access of the synchronisation headers.
SOURCE = """
#include <onespace/sync.hpp>
using namespace onespace::sync;
extern "C" {
void signal_adaptive(flag &what, std::uint64_t value) { team::signal<adaptive>(what, value); }
void signal_futex(flag &what, std::uint64_t value) { team::signal<futex>(what, value); }
std::uint64_t await_adaptive(const team &of, flag &what) { return of.await<adaptive>(what, 1, 0); }
std::uint64_t arrive(flag &what) { return team::arrive<adaptive>(what); }
void sleep_futex(flag &what) { detail::sleep_while(what, 1); }
}
"""


@pytest.fixture
def disassemble():
    """The instructions of a function of a file, as mnemonics with operands."""
    for tool in (COMPILER, OBJDUMP):
        if not shutil.which(tool):
            pytest.skip(f"no {tool}: scripts/setup arm64")

    def read(file, function):
        text = subprocess.run([OBJDUMP, "-d", "--no-show-raw-insn", f"--disassemble={function}", file],
                              capture_output=True, text=True, check=True).stdout
        found = [" ".join(words[1:]) for words in (line.split("\t") for line in text.splitlines())
                 if re.fullmatch(r"\s+[0-9a-f]+:", words[0])]
        assert found, text
        return found
    return read


@pytest.fixture(scope="module")
def sync_object(tmp_path_factory):
    if not shutil.which(COMPILER):
        pytest.skip(f"no {COMPILER}: scripts/setup arm64")
    directory = tmp_path_factory.mktemp("order")
    (directory / "order.cpp").write_text(SOURCE)
    # LSE: one instruction for each access, whose name has its order.
    subprocess.run([COMPILER, "-std=c++20", "-O2", "-march=armv8.2-a", f"-I{ROOT / 'include'}", "-c", "order.cpp"],
                   cwd=directory, check=True)
    return directory / "order.o"


def accesses(instructions):
    """The atomic ones, in order."""
    return [line.split()[0] for line in instructions
            if re.match(r"(ldap?r|ldaxr|stlx?r|dmb|swp\w*|cas\w*|ldadd\w*|stadd\w*)\b", line)]


@pytest.mark.parametrize("function, expected", [
    ("signal_adaptive", ["stlr"]),
    ("await_adaptive", ["ldar"]),
    ("arrive", ["ldaddal"]),
    # At least one of the two sides sees the other: no acquire weaker than ldar, which waits for stlr and ldaddal.
    ("signal_futex", ["stlr", "ldar"]),
    ("sleep_futex", ["ldaddal", "ldar"]),
])
def test_flags_are_accessed_in_order(disassemble, sync_object, function, expected):
    found = accesses(disassemble(sync_object, function))
    assert found[:len(expected)] == expected, found


def test_broken_header_is_found_without_a_build(tmp_path):
    """scripts/check-aarch64, in a copy of what it reads."""
    if not shutil.which("aarch64-linux-gnu-gcc"):
        pytest.skip("no aarch64-linux-gnu-gcc: scripts/setup test")
    for name in ("src", "include", "cmake"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "scripts").mkdir()
    script = shutil.copy(ROOT / "scripts/check-aarch64", tmp_path / "scripts")
    command = [script, "src/elf/read.c", "src/arch/aarch64/page.c"]
    whole = subprocess.run(command, capture_output=True, text=True)
    assert whole.returncode == 0 and "2 files compile" in whole.stdout, whole.stderr
    header = tmp_path / "src/arch/aarch64/constants.h"
    header.write_text(header.read_text().replace("#define ARCH_PAGE ", "#define ARCH_PAGES "))
    broken = subprocess.run(command, capture_output=True, text=True)
    assert broken.returncode == 1 and "src/elf/read.c" in broken.stderr and "ARCH_PAGE" in broken.stderr, broken


def test_jumps_to_mpi_acquire_their_target(disassemble):
    library = BUILD / "lib/libonespace-agent.so"
    if not library.exists():
        pytest.skip("no build for aarch64: cmake --preset aarch64 && cmake --build build-aarch64")
    jump = disassemble(library, "MPI_Win_allocate")
    load = next(line for line in jump if line.startswith("ld"))
    assert load.startswith("ldar "), jump
