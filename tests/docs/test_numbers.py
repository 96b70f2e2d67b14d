"""tests/docs/test_numbers.py: numbers in the documentation that repeat a constant of the code have its value. In
docs/internals and CONTRIBUTING every other number is listed as a fact of something else."""
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INTERNALS = ROOT / "docs/internals"
KIB, MIB, GIB, TIB, MS, SECOND = 1 << 10, 1 << 20, 1 << 30, 1 << 40, 10**6, 10**9
LAYOUT, ENGINE, INTERVALS = "src/space/layout.h", "include/onespace/sync/engine.hpp", "src/space/intervals.h"
TRAMPOLINE, SITES = "src/arch/x86_64/trampoline.h", "src/space/interposition.h"
AGENT, REJECT, BRANCHES = ("src/agent/agent.c", "src/arch/x86_64/code/reject_unsafe.c",
                           "src/arch/aarch64/code/instructions.h")
WAIT, CONTRIBUTING = "include/onespace/sync/wait.hpp", "../../CONTRIBUTING.md"
SLOTS = "include/onespace/sync/slots.hpp"

# The page and its text, in which {} is the number; the file, the constant, and the unit of the number in units of the
# constant. A constant without a name is the group of a regular expression.
CONSTANTS = [
    ("README.md", "lies from {} TiB", LAYOUT, "LAYOUT_REGION", TIB),
    ("README.md", "to {} TiB, far", LAYOUT, "LAYOUT_REGION + LAYOUT_SLOTS * LAYOUT_RANGE", TIB),
    ("README.md", "{} slots of", LAYOUT, "LAYOUT_SLOTS", 1),
    ("README.md", "slots of {} GiB", LAYOUT, "LAYOUT_RANGE", GIB),
    ("README.md", "| {} KiB | trampolines", LAYOUT, "LAYOUT_TRAMPOLINES", KIB),
    ("README.md", "| {} MiB | the bitmap", LAYOUT, "LAYOUT_AREA_MAP", MIB),
    ("README.md", "| {} MiB | the handlers", LAYOUT, "LAYOUT_GUARD", MIB),
    ("README.md", "| {} MiB | `ld.so`", LAYOUT, "LAYOUT_FILES", MIB),
    ("README.md", "| {} GiB | all other", LAYOUT, "LAYOUT_MAPPINGS", GIB),
    ("README.md", "| {} GiB | the program break", LAYOUT, "LAYOUT_BREAK", GIB),
    ("README.md", "| {} GiB | the main stack", LAYOUT, "LAYOUT_STACK", GIB),
    ("aarch64.md", "reach of {} MiB", BRANCHES, "BRANCH_REACH", MIB),
    ("aarch64.md", "up to {} instructions before", "src/arch/aarch64/code/patch.c", "LOOK_BACK", 1),
    ("aarch64.md", "within {} MiB of the code", BRANCHES, "BRANCH_REACH", MIB),
    ("aarch64.md", "more than {} MiB go", BRANCHES, "BRANCH_REACH / 8", MIB),
    ("aarch64.md", "is {} bytes, the cache line", WAIT, r"line_size = (\d+); // the A64FX", 1),
    ("aarch64.md", "on x86-64 it is {}.", WAIT, r"#else\s.*line_size = (\d+)", 1),
    ("aarch64.md", "tasks ends at {} TiB", LAYOUT, "LAYOUT_REGION + LAYOUT_SLOTS * LAYOUT_RANGE", TIB),
    ("calls.md", "table of {} donors", "src/remote_call/remote_call.h", "CALL_DONORS", 1),
    ("calls.md", "signal {} (`CALL_SIGNAL`)", "src/remote_call/remote_call.h", "CALL_SIGNAL", 1),
    ("calls.md", "Signal {} also", "src/remote_call/remote_call.h", "CALL_SIGNAL", 1),
    ("calls.md", "at most {} times", "src/remote_call/reaper_hook.c", "POLLS_MAX", 1),
    ("collectives.md", "scatter_block` of up to {} KiB", "src/mpi/collectives/nodes.c", "DATA_MAX_BYTES", KIB),
    ("collectives.md", "at most {} ranks", ENGINE, r"of\.size\(\) <= (\d+) \? algorithm::flat", 1),
    ("collectives.md", "{} bytes for `doubling`", SLOTS, r"medium_room = (\d+)", 1),
    ("collectives.md", "{} for `flat`", SLOTS, r"long_room = (\d+)", 1),
    ("collectives.md", "sends up to {} bytes up a tree", SLOTS, r"long_room = (\d+)", 1),
    ("collectives.md", "pairs with gaps, up to {} KiB", "src/mpi/collectives/typed_buf.h", "PACKED_MAX_BYTES", KIB),
    ("collectives.md", "of the program, up to {} KiB", "src/mpi/collectives/typed_buf.h", "PACKED_MAX_BYTES", KIB),
    ("guard.md", "the last of {} tasks", SITES, "SPACE_GUARD_KEYS", 1),
    ("interposition.md", "than {} ms ago", "src/base/file_identity.h", "FILE_TICK_NS", MS),
    ("interposition.md", "({} s if time stamps", "src/base/file_identity.h", "FILE_COARSE_NS", SECOND),
    ("interposition.md", "{} trampolines per task", TRAMPOLINE, "ARCH_PATCHED_SYSCALLS_MAX", 1),
    ("interposition.md", "{} patch sites per file", SITES, "SPACE_FILE_PATCH_SITES", 1),
    ("interposition.md", "{} files.", SITES, "SPACE_FILES", 1),
    ("interposition.md", "{} entries in the slot", INTERVALS, "INTERVALS_IN_SLOT", 1),
    ("interposition.md", "and {} more", INTERVALS, "INTERVALS_OVERFLOW", 1),
    ("interposition.md", "steps of {} MiB", "src/interpose/memory/brk.c", "BREAK_STEP", MIB),
    ("interposition.md", "data of up to {} KiB", "src/interpose/ldso.c", "POPULATE_DATA", KIB),
    ("libraries.md", "none has arrived for {} seconds", "src/launch/host.c", "OTHER_RANKS_MS", 1000),
    ("libraries.md", "requests descriptors from two shims at a time", "src/launch/host.c", "ASKED_AT_ONCE", 1),
    ("libraries.md", "for two seconds", "src/launch/host_launch.c", "GRACE_MS", 1000),
    ("life-of-a-task.md", "{} MiB of guard", LAYOUT, "LAYOUT_STACK_GUARD", MIB),
    ("life-of-a-task.md", "waits up to {} seconds for the rest", "src/space/member_group.c", "LOAD_TIMEOUT_MS", 1000),
    ("life-of-a-task.md", "reads every millisecond", "src/reaper/reaper.c", "EXEC_POLL_NS", MS),
    ("life-of-a-task.md", "waits at most {} ms", "src/space/holds.c", "UNMAP_WAIT_NS", MS),
    ("life-of-a-task.md", "at most {} intervals", INTERVALS, "INTERVALS_MAX", 1),
    ("life-of-a-task.md", "signal {} (`THREAD_MODE_SIGNAL`)", "src/interpose/interpose.h", "THREAD_MODE_SIGNAL", 1),
    ("life-of-a-task.md", "{} incomplete ones", "src/reaper/thread_tasks.c", "MAX_INCOMPLETE_SCANS", 1),
    ("life-of-a-task.md", "checks every millisecond", "src/reaper/thread_tasks.c", "EXIT_POLL_NS", MS),
    ("life-of-a-task.md", "otherwise ten times a second", "src/reaper/thread_tasks.c", "SECOND / IDLE_POLL_NS", 1),
    ("mpi-layer.md", "records of up to {} bytes", "src/mpi/group/group.h", "AGREEMENT_RECORD_MAX", 1),
    ("patch-sites.md", "up to eight bytes of moves", "src/arch/x86_64/code/patch.h", "ARCH_PATCH_SITE_BYTES - 7", 1),
    ("patch-sites.md", "any {} successive bytes", "src/arch/x86_64/code/decode.h", "ARCH_INSTRUCTION_BYTES", 1),
    ("patch-sites.md", "from all {} at once", "src/arch/x86_64/code/decode.h", "ARCH_INSTRUCTION_BYTES", 1),
    ("patch-sites.md", "After {} bytes of decoding", REJECT, "RUN_UP", 1),
    ("registry.md", "exits with {};", "src/launch/shim.c", r"shared_header_report\([^;]*;\s*return -(\d+);", 1),
    *[("../pictures/layout.svg", ">{} GiB<", LAYOUT, f"LAYOUT_{name}", GIB)
      for name in ("MAPPINGS", "BREAK", "STACK", "RANGE")],
    *[(page, "{} TiB", LAYOUT, constant, TIB) for page in ("../pictures/layout.svg", "../debugging.md")
      for constant in ("LAYOUT_REGION", "LAYOUT_REGION + LAYOUT_SLOTS * LAYOUT_RANGE")],
    ("../pictures/layout.svg", "{} ranges of", LAYOUT, "LAYOUT_SLOTS", 1),
    ("../memory.md", "at {} GiB of its range", LAYOUT, "LAYOUT_BREAK", GIB),
    ("../memory.md", "with {} GiB of room", LAYOUT, "LAYOUT_STACK - LAYOUT_BREAK", GIB),
    ("../../README.md", "reserves {} GiB of address space", LAYOUT, "LAYOUT_RANGE", GIB),
    ("../memory.md", "| `M_TOP_PAD` | {} MiB |", AGENT, "HEAP_PAD", MIB),
    ("../memory.md", "| `M_TRIM_THRESHOLD` | {} MiB |", AGENT, "HEAP_TRIM", MIB),
    ("../memory.md", "| `M_MMAP_THRESHOLD` | {} MiB |", AGENT, "HEAP_MMAP", MIB),
    (CONTRIBUTING, "has {} trampolines", TRAMPOLINE, "ARCH_PATCHED_SYSCALLS_MAX", 1),
    (CONTRIBUTING, "keeps {} patch sites", SITES, "SPACE_FILE_PATCH_SITES", 1),
]
WORDS = {"two": 2, "eight": 8, "ten": 10, "millisecond": 1}

# Numbers of kernels, C libraries, CPUs and other projects, and of examples.
FACTS = {
    "README.md": ["none (0)"],
    "aarch64.md": ["are 0, and", "4, 16 or 64 KiB", "with 64 KiB all", "4 KiB and 16 KiB", "Debian 13",
                   "kernel with 64 KiB", "at least 47 bits", "has 48.", "39 or 42", "64-bit words"],
    "calls.md": ["bit 1,", "32 and 33 of glibc"],
    "collectives.md": ["of 8 bytes", "as 8 bytes do"],
    "layers.md": ["Open MPI 5 and 6"],
    "libraries.md": ["about 2k"],
    "patch-sites.md": ["musl 1.2.5", "shadow stacks (6.6)", '"0 instructions'],
    "source-map.md": ["8-byte", "Open MPI 5 and 6"],
    "reading.md": ["first 20 minutes", "next 20 minutes", "next 10 minutes", "last 10 minutes"],
    CONTRIBUTING: ["glibc 2.31", "C11; C++20", "within 72 characters", "clang-format 14", "at most 750 lines",
                   "20 to 60 lines", "return 0 or", "is 0)", "at most 25.", "-1 when", "-1: fall"],
}
# Sections that give results of experiments, and what is generated: title -> page; "": the whole page.
RESULTS = [("executing.md", ""), ("interposed-calls.md", ""), ("guard.md", "## Behaviour of the kernel"),
           ("guard.md", "## The virtual machine"), ("aarch64.md", "## What was run"),
           ("patch-sites.md", "## Found and missed")]
VERSION = re.compile(r"\b(?:Linux|Before Linux|glibc|glibc before|Slurm|Slurm before|before Slurm) \d[\d.]*\d")
NUMBER = re.compile(r"(?<![\w.#,-])\d(?:[\d,.]*\d)?")


def evaluate(file, expression, depth=0):
    """The value of a C expression of constants of that file, of the layout or of the intervals."""
    assert depth < 9, expression
    text = re.sub(r"UINT64_C\((\w+)\)|\((?:u?int\d+_t|size_t)\)", r"\1", expression)
    text = re.sub(r"\b(0x[0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", text)
    units = {"SECOND": SECOND}
    for name in sorted(set(re.findall(r"\b[A-Z][A-Z0-9_]+\b", text)), key=len, reverse=True):
        value = units.get(name)
        for source in (file, LAYOUT) if value is None else ():
            code = re.sub(r"(?s)/\*.*?\*/|//[^\n]*", "", (ROOT / source).read_text())
            found = re.search(rf"#define +{name} +(?:\\\n)?(.+)|\b{name} = ([^,;}}\n]+)", code)
            if found:
                value = evaluate(source, (found[1] or found[2]).strip(), depth + 1)
                break
        assert value is not None, f"{file} has no constant {name}"
        text = re.sub(rf"\b{name}\b", str(value), text)
    assert re.fullmatch(r"[\s0-9a-fA-Fx()*/+<-]+", text), f"{file}: {expression}"
    return eval(text.replace("/", "//"))  # pylint: disable=eval-used


def value_of(file, constant, unit):
    if "(" in constant:
        found = re.search(constant, (ROOT / file).read_text())
        assert found, f"{file} has nothing like {constant}"
        return int(found[1])
    value = evaluate(file, constant) / unit
    return int(value) if value == int(value) else value


def page_text(page):
    """The page with one line per paragraph."""
    text = (INTERNALS / page).read_text()
    return re.sub(r"(?<!\n)\n +(?![-*|]|\d+\. )|(?<=[^\n|])\n(?=[\w`*(])(?!\d+\. )", " ", text)


@pytest.mark.parametrize("page, phrase, file, constant, unit", CONSTANTS, ids=lambda value: str(value)[:40])
def test_number_is_that_of_the_code(page, phrase, file, constant, unit):
    value = value_of(file, constant, unit)
    words = [WORDS[word] for word in re.findall(r"\w+", phrase) if word in WORDS]
    assert "{}" in phrase or words[-1] == value, f"{file}: {constant} is {value}"
    expected = phrase.replace("{}", f"{value:,}")
    assert expected in page_text(page), f"{page} lacks '{expected}': {constant} of {file}"


@pytest.mark.parametrize("page", [CONTRIBUTING, *sorted(path.name for path in INTERNALS.glob("*.md"))])
def test_every_number_is_accounted_for(page):
    text = page_text(page)
    for name, title in RESULTS:
        if name == page:
            start = text.index(title)
            text = text[:start] + (text[start + 3:].partition("\n## ")[2] if title else "")
    known = [phrase.replace("{}", f"{value_of(file, constant, unit):,}")
             for other, phrase, file, constant, unit in CONSTANTS if other == page] + FACTS.get(page, [])
    for phrase in known:
        text = text.replace(phrase, re.sub(r"\d", "#", phrase))
    text = re.sub(r"(?s)```.*?```", "", text)
    text = re.sub(r"(?m)`[^`]*`|\]\([^)]*\)|^ *\d+\. |^    .*|\b(?:slot|rank|member|key) 0\b", "", text)
    text = VERSION.sub("", text)
    left = [text[max(0, match.start() - 30):match.end() + 20].replace("\n", " ") for match in NUMBER.finditer(text)]
    assert not left, "neither a constant of the code nor a listed fact:\n" + "\n".join(left)
