"""tests/fuzz/test_corpus.py: make_corpus.sh makes every seed of the directories that it empties."""
import shutil
import subprocess

from jobs import ROOT

SEEDS = "tests/fuzz/corpus"


def seeds(directory):
    """The contents of each seed, by its path."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_seeds_are_those_of_the_script(tmp_path):
    """Also the requests, whose layout changes with the host's protocol: a seed of another layout tests little. The ELF
    files depend on the compiler."""
    fuzz = tmp_path / "tests/fuzz"
    fuzz.mkdir(parents=True)
    script = shutil.copy(ROOT / "tests/fuzz/make_corpus.sh", fuzz)
    for name in ("src", "include"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / SEEDS, tmp_path / SEEDS)
    subprocess.run(["sh", script], check=True, capture_output=True, timeout=300)
    before, after = seeds(ROOT / SEEDS), seeds(tmp_path / SEEDS)
    assert before.keys() == after.keys(), before.keys() ^ after.keys()
    differing = {path for path in before if before[path] != after[path] and not path.startswith("elf_read_fuzz/")}
    assert not differing, f"run tests/fuzz/make_corpus.sh, and commit {differing}"
