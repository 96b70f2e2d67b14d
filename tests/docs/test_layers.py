"""tests/docs/test_layers.py: docs/internals/layers.md, the CMake targets and the #include lines agree on which headers
a layer may include."""
import importlib.machinery
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/internals/layers.md"
LAYER = re.compile(r"(?ms)^(onespace|command)_layer\(([\w/]+)(\s[^)]*)?\)")
LINK = re.compile(r"(?ms)^target_link_libraries\((\S+) ([^)]*)\)")
# What is compiled without onespace_layer: directory or file of src, and its target.
TARGETS = {"agent": "onespace-agent", "hooks.c": "core-hooks", "pip": "pip"}


def load_script(name):
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(ROOT / "scripts" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


check_layers = load_script("check-layers")


def cmake_text():
    files = [ROOT / "cmd/CMakeLists.txt", *sorted((ROOT / "src").rglob("CMakeLists.txt"))]
    return "\n".join(re.sub(r"(?m)^\s*#.*", "", file.read_text()) for file in files)


def declared_layers():
    """layer -> (EXPORTS, USES), as the CMake files declare them."""
    found = {"public": (set(), set())}
    for kind, name, words in LAYER.findall(cmake_text()):
        part, lists = "", {"EXPORTS": set(), "USES": set()}
        for word in words.split():
            if re.fullmatch("DIRECTORY|SOURCES|FREESTANDING|EXPORTS|USES", word):
                part = word
            elif part in lists:
                lists[part].add(word)
        found["cmd/" + name if kind == "command" else name] = (lists["EXPORTS"], lists["USES"])
    by_target = {"headers-" + name.replace("/", "-"): name for name in found} | {"onespace": "public"}
    links = {target: words.split() for target, words in LINK.findall(cmake_text())}
    for name, target in TARGETS.items():
        found[name] = (set(), {by_target[word] for word in links[target] if word in by_target})
    return found


DECLARED = declared_layers()


def seen_through(names):
    """These layers and all that they export."""
    found, pending = set(), list(names)
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += DECLARED[name][0]
    return found


def files_of(layer):
    if (ROOT / "src" / layer).is_file():
        return [ROOT / "src" / layer]
    known = check_layers.layers()
    return list(check_layers.files_of(layer, known[layer], known))


def included_layers(layer):
    """(layers that headers include, layers that sources include), without the layer itself."""
    known, found = check_layers.layers(), (set(), set())
    for file in files_of(layer):
        for include in re.findall(r'^\s*#\s*include "([^"]+)"', file.read_text(), re.M):
            target = "public" if (ROOT / "include" / include).exists() else check_layers.layer_of(include, known)
            if target and target != layer:
                found[file.suffix != ".h"].add(target)
    return found


def rows():
    """layer -> (exports, uses), from the tables of the page."""
    found = {}
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        names = re.findall(r"`src/([\w/.]+)`", cells[0])
        if len(cells) == 4 and names:
            lists = tuple(set() if cell == "none" else set(cell.split(", ")) for cell in cells[2:])
            found |= {"arch" if name.startswith("arch/") else name: lists for name in names}
    return found


def test_page_lists_what_cmake_declares():
    declared = {name: lists for name, lists in DECLARED.items() if name != "public" and not name.startswith("cmd/")}
    assert len(declared) > 25 and rows() == declared | {"spank": (set(), set())}


@pytest.mark.parametrize("layer", sorted(DECLARED.keys() - {"public"}))
def test_includes_are_those_that_are_declared(layer):
    exports, uses = DECLARED[layer]
    by_headers, by_sources = included_layers(layer)
    for_headers = uses if layer in TARGETS else exports
    assert by_headers <= seen_through(for_headers), "headers include layers that EXPORTS does not name"
    assert by_sources <= seen_through(exports | uses), "sources include layers that EXPORTS and USES do not name"
    included = by_headers | by_sources
    unused = {name for name in (exports | uses) - included if included <= seen_through((exports | uses) - {name})}
    assert not unused, "no file includes these layers"
