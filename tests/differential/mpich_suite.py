"""tests/differential/mpich_suite.py: the lists of MPICH's test suite (test/mpi, configured): what each line of a
testlist runs, and whether its output is that of a test that passes, as its own script (runtests) has it."""
import dataclasses
import os
import pathlib
import re
import shlex
import subprocess

NO_ERRORS = re.compile(r"^\s*No [Ee]rrors\s*$")
EXPECTED = re.compile(r"^\s*(No [Ee]rrors|Test Passed)\s*$|FORTRAN STOP")
BUILD_S = 300
FATAL, NO_ERRORS_BUT_STATUS = ("TestStatus", "TestErrFatal"), "TestStatusNoErrors"


def make(directory, target):
    try:
        subprocess.run(["make", "-s", target], cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=BUILD_S, check=False)
    except subprocess.TimeoutExpired:
        pass  # then there is no program


@dataclasses.dataclass
class Entry:
    directory: pathlib.Path
    name: str  # program, ranks, and what else tells it from other lines
    program: str
    ranks: int
    arguments: list
    launcher: list  # more words for the launcher
    variables: dict
    result: str  # one of those above; "": output and status
    version: tuple  # of the MPI standard that it needs

    def executable(self):
        """The program, compiled where it is not there yet, or None. What libtool links is a script beside it."""
        path = self.directory / self.program
        if not os.access(path, os.X_OK):
            make(self.directory, self.program)
        linked = path.parent / ".libs" / path.name
        return linked if os.access(linked, os.X_OK) else path if os.access(path, os.X_OK) else None

    def judge(self, code, output):
        """The result of a run, in a word or two."""
        text = any(map(NO_ERRORS.match, output.splitlines()))
        if code is None:
            return "no end"
        if self.result in FATAL:
            return "ok" if code else "status 0"
        if self.result == NO_ERRORS_BUT_STATUS:
            return "ok" if code and text else "status 0" if not code else "does not say No Errors"
        if code:
            return f"status {code}"
        if not text:
            return "does not say No Errors"
        return "ok" if all(map(EXPECTED.search, output.splitlines())) else "says more than No Errors"


def version_of(text):
    return tuple(int(number) for number in text.split("."))


def entry_of(directory, line):
    """program [ranks [key=value...]]"""
    words = shlex.split(line)
    pairs = [word.split("=", 1) for word in words[2:] if "=" in word]
    valued = dict(pairs)
    listed = {key: [value for name, value in pairs if name == key] for key in ("arg", "env", "mpiexecarg")}
    distinguished = [word for word in words[2:] if word.split("=")[0] in listed]
    return Entry(directory, " ".join([*words[:2], *distinguished]), words[0], int(words[1]) if len(words) > 1 else 2,
                 listed["arg"], listed["mpiexecarg"], dict(value.split("=", 1) for value in listed["env"]),
                 valued.get("resultTest", ""), version_of(valued.get("mpiversion", "0")))


def source_of(top):
    """Where the lists are that configure has only read, if it was run in another directory."""
    makefile = top / "Makefile"
    found = re.search(r"^abs_top_srcdir = (.+)$", makefile.read_text(), re.M) if makefile.exists() else None
    return pathlib.Path(found[1]) if found else top


def entries(top, name):
    """The entries of the directory `name` below top, and of those that its list names, one after another."""
    directory = top / name
    file = directory / "testlist"
    if not file.exists():
        file = source_of(top) / name / "testlist"
    if not file.exists():
        raise SystemExit(f"suites: there is no {file}: name a configured test/mpi of MPICH, and directories in it")
    for line in file.read_text().splitlines():
        line = line.split("#")[0].strip()
        if line.startswith("!"):  # !DIRECTORY:TARGET is to be made first
            where, target = line[1:].split(":", 1)
            make(directory / where, target)
        elif line and (directory / line.split()[0]).is_dir():
            yield from entries(top, f"{name}/{line.split()[0]}")
        elif line:
            yield name, entry_of(directory, line)
