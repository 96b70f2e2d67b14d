"""tests/docs/test_words.py: scripts/check-words finds what CONTRIBUTING's list replaces, and nothing else."""
import importlib.machinery
import importlib.util
import re
from pathlib import Path, PurePath

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load():
    loader = importlib.machinery.SourceFileLoader("check_words", str(ROOT / "scripts/check-words"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_words", loader))
    loader.exec_module(module)
    return module


WORDS = load()


def found(text, path="src/spawn/spawn.c"):
    return [what for _, what, _ in WORDS.find(PurePath(path), text)]


@pytest.mark.parametrize("text", [
    "how to mend it", "mended", "steered", "UNSTEERED", "/* a site of a call */", "\"%u sites\"",
    "the page of stubs", "the keeper reaps", "a newborn", "birth_record", "probe_set_crowded", "--turns",
    "by turns", "short turns", "the meeting", "the party", "a wish", "door", "near_lock", "LAYOUT_NEAR",
    "is_near(x)", "foreign mappings", "folder", "processors", "Pythons", "past the cache", "past_cache", "aims",
    "linked for fixed addresses", "/* linked for\n * fixed addresses */", "/* goes past\n * the cache */",
])
def test_words_of_the_list_are_found(text):
    assert len(found(text)) == 1, found(text)


@pytest.mark.parametrize("text", [
    "a patch site", "patch_sites_find", "SPACE_FILE_PATCH_SITES", "/* a patch\n * site */", "amend",
    "recommended", "opposite", "call sites", "site-packages", "nearest", "EXPECT_NEAR(a, b, 1)", "in turn",
    "turns the patch site into a jump", "third party", "preprocessor", "coprocessor", "CPython", "claim",
    "stubborn", "doorstep", "indoors", "holders", "linked with", "MPI_Get_processor_name",
    "struct arch_patch_site *site = next; site->nr = sites[1].nr;", "mistake_", "holds_take(x)",
])
def test_other_words_are_not(text):
    assert not found(text)


def test_take_is_looked_for_in_the_mpi_layer_alone():
    assert found("take_window(win)", "src/mpi/wrap/window.c")
    assert not found("area_take(1); take_home();", "src/agent/free.c")


def test_names_of_files_are_looked_at():
    assert found("", "src/mpi/near.c") and not found("", "src/interpose/patch/patch_sites.c")


def test_the_list_in_contributing_is_the_programs():
    section = WORDS.LIST.search((ROOT / "CONTRIBUTING.md").read_text())[0]
    rows = re.findall(r"(?m)^\| (.*?) \| .* \|$", section)[1:]
    assert len(rows) >= 20
    for row in rows:
        words = re.sub(r"\(.*?\)|`|…", "", row).split(",")
        for word in words:
            path = "src/mpi/wrap/window.c" if "take_" in word else "docs/api.md"
            text = word.strip() if word.strip() != "turns" else "short turns"
            assert found(text + ("x" if text.endswith("_") else ""), path), f"{word} is not found"


def test_every_exception_has_its_word_and_a_reason():
    names = {word.name for word in WORDS.WORDS}
    assert all(name in names and why for name, _, _, why in WORDS.EXCEPTIONS)
