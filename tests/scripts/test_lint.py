"""tests/scripts/test_lint.py: scripts/lint finds assumed page sizes, and does not pass without a list of files."""
import shutil
import subprocess

import pytest

from jobs import ROOT


@pytest.fixture
def lint(tmp_path):
    """Runs the part `pages` of a copy on a source with this line."""
    def run(line, git=True):
        (tmp_path / "scripts").mkdir()
        (tmp_path / "src").mkdir()
        shutil.copy(ROOT / "scripts/lint", tmp_path / "scripts")
        (tmp_path / "src/file.c").write_text(f"{line}\n")
        if git:
            subprocess.run(["git", "init", "-q", tmp_path], check=True, timeout=300)
        return subprocess.run([tmp_path / "scripts/lint", "pages"], capture_output=True, text=True, timeout=300,
                              check=False)
    return run


@pytest.mark.parametrize("line", [
    "x = address & ~4095UL;", "x = address & 0xFFF;", "x = address & 0xfff;", "x = address >> 12;",
    "x = (size + 4095) / 4096;", "#define PAGE 4096", "enum { PAGE_SIZE = 1 << 12 };", "x = address % 0x1000;"])
def test_assumed_page_size_is_found(lint, line):
    done = lint(line)
    assert done.returncode == 1 and f"src/file.c:1:{line}" in done.stdout, done


@pytest.mark.parametrize("line", [
    "char text[4096];", "x = address & (ARCH_PAGE - 1);", "x = hash >> 12; /* no page size */"])
def test_other_numbers_are_no_page_sizes(lint, line):
    done = lint(line)
    assert done.returncode == 0, done


def test_directory_without_files_of_git_is_an_error(lint):
    done = lint("x = address >> 12;", git=False)
    assert done.returncode == 2 and "git lists no files here" in done.stderr, done
