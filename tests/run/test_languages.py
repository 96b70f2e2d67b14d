"""Programs of many languages as tasks, several at once, print and return what they do as processes."""
import glob
import os
import subprocess

import pytest

from jobs import ONESPACE, RUN

COUNT = 3


def compare(job, argv, count=COUNT, **env):
    """The program as a process, then as that many tasks at once."""
    plain = job.run(argv, env=env)
    tasks = job.run([*RUN, "-n", count, *argv], env=env)
    assert plain.out, str(plain)
    assert tasks.lines == sorted(plain.lines * count) and tasks.code == plain.code, f"{plain}\n{tasks}"
    return plain


def test_shell(job):
    compare(job, ["/bin/sh", "-c", "echo /usr/bin | xargs ls | sort | tail -n 3 | tr a-z A-Z; exit 4"])


def test_bash(job, tool):
    compare(job, [tool("bash"), "-c", "a=(1 2 3); (sleep 0.1; exit 3) & wait $!; echo ${#a[@]} $? <(:) >/dev/null;"
                  " echo ${#a[@]}; exit 5"])


def test_coreutils_pipeline(job):
    compare(job, ["/bin/sh", "-c", "seq 100000 | shuf --random-source=/etc/passwd 2>/dev/null | sort -n | md5sum"])


@pytest.fixture
def java_classes(guests, tool):
    tool("javac", "default-jdk-headless")
    return os.path.dirname(guests("Threads.class"))


JAVA_FLAGS = ["-Xmx64m", "-Xss512k"]


def test_java_through_its_symbolic_link(job, java_classes, tool):
    java = tool("java")
    assert os.path.islink(java) or os.path.realpath(java) != java, "not what this test is for"
    compare(job, [java, *JAVA_FLAGS, "-cp", java_classes, "Threads", "a", "b"], count=2)


def test_java_joined(job, java_classes, tool):
    argv = [tool("java"), *JAVA_FLAGS, "-cp", java_classes, "Threads", "a", "b", "c"]
    job.run([*RUN, "--space", "java", *argv]).expect(3, shows="null deep a,b,c")


def test_rust(job, guests, tool):
    tool("rustc", "rustc")
    program = guests("threads-rust")
    plain = compare(job, [program, "a"])
    assert plain.code == 1 and "true child" in plain.out


@pytest.fixture
def go(guests, tool):
    """Gives the path of the program made from tests/run/guests/languages/NAME.go."""
    def build(name):
        tool("go", "golang-go")
        return guests(f"{name}-go")
    return build


def test_go(job, go):
    program = go("threads")
    plain = compare(job, [program, "a", "b"], count=2)
    assert plain.code == 2 and plain.out == "160000 true child\n"


def test_go_names_the_roots_program_and_can_execute_another(job, go, run):
    """What docs/programs.md says: Go makes its system calls itself, so they are not interposed."""
    program = go("where")
    result = job.run([*run, program]).expect()
    assert result.out.splitlines() == [f"executable {os.path.realpath(ONESPACE)} <nil>", f"called {program}",
                                       "executed"], str(result)


def test_cplusplus(job, guests):
    program = guests("threads-cplusplus")
    plain = compare(job, [program, "a"])
    assert plain.code == 1 and plain.out.startswith("401 ")


def test_clang_openmp(job, guests, tool):
    tool("clang++", "clang")
    compare(job, [guests("threads-clang")])


def test_fortran_internal_procedure(job, guests, tool):
    tool("gfortran", "gfortran")
    program = guests("internal-fortran")
    headers = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True).stdout
    assert "RWE" in headers, "this program's stack need not be executable: not what the test is for"
    plain = compare(job, [program])
    assert plain.code == 0 and plain.out == "total 500500\n"


def test_musl(job, guests, tool):
    tool("musl-gcc", "musl-tools")
    compare(job, [guests("patterns-musl"), "1"])


def test_static_pie(job, guests):
    compare(job, [guests("patterns-static"), "1"])


def test_perl(job, tool):
    """$^X names the interpreter, so that a script can start another."""
    script = ('print "$^X\\n"; print qx($^X -e "print 6 * 7"), "\\n"; '
              '%h = map { $_ => $_ ** 2 } 1 .. 9999; exit keys(%h) % 256')
    plain = compare(job, [tool("perl"), "-e", script])
    assert plain.out.endswith("42\n")


# CPython

SCRIPT = os.path.join(os.path.dirname(__file__), "guests/languages/threads.py")


def is_position_independent(path):
    with open(path, "rb") as file:
        return file.read(18)[16] == 3


@pytest.fixture(scope="module", params=["library", "program"])
def python(request):
    """The distribution's Python, which mostly runs from its library, and a CPython that was built position
    independent, where there is one."""
    if request.param == "library":
        if not glob.glob("/usr/lib/*/libpython3.*.so.1.0"):
            pytest.skip("no libpython3.*.so.1.0 (package libpython3.11)")
        return "/usr/bin/python3"
    places = os.environ.get("PATH", "").split(":")
    names = [os.path.join(place, "python3") for place in places]
    names += sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")))
    for name in names:
        path = os.path.realpath(name)
        with open(path, "rb") if os.path.exists(path) else open("/dev/null", "rb") as file:
            if file.read(4) == b"\x7fELF" and is_position_independent(path):
                return path
    pytest.skip("no CPython here is position independent")


def test_python(job, python):
    plain = compare(job, [python, SCRIPT, "a"], count=2)
    assert plain.code == 1 and "child 4" in plain.out


def test_python_with_numpy(job, python):
    if job.run([python, "-c", "import numpy"]).code != 0:
        pytest.skip(f"{python} has no numpy")
    plain = compare(job, [python, SCRIPT, "numpy"], count=2, OMP_NUM_THREADS="2", OPENBLAS_NUM_THREADS="2")
    assert "numpy " in plain.out


def test_different_languages_in_one_space(job, guests, python, tool, java_classes):
    programs = [[guests("threads-cplusplus")],
                [python, SCRIPT], [tool("perl"), "-e", "print 6 * 7, qq(\\n)"],
                [tool("java"), *JAVA_FLAGS, "-cp", java_classes, "Threads"], ["/bin/echo", "word"]]
    expected = "".join(job.run(program).out for program in programs)
    argv = [*RUN]
    for i, program in enumerate(programs):
        argv += ([":"] if i else []) + program
    job.run(argv).expect(lines=sorted(expected.split("\n")[:-1]))
