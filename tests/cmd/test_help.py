"""tests/cmd/test_help.py: the help of all commands, what is said of misspelt ones, and what shells complete."""
import re
import shlex
import subprocess

import pytest

from jobs import BUILD, ONESPACE, RUN

COMMANDS = re.findall(r"(?m)^  (\w+) ", subprocess.run([ONESPACE, "--help"], capture_output=True, text=True).stdout)


def help_of(command):
    return subprocess.run([ONESPACE, command, "--help"], capture_output=True, text=True, check=True).stdout


def options_of(command):
    """Of the rows that explain options: their names, as they are typed."""
    rows = re.findall(r"(?m)^ {2,6}(-.*)$", help_of(command))
    return {name for row in rows for name in re.findall(r"(?:^|, )(--?[\w-]+)", re.split("  ", row)[0])}


def test_commands_are_listed():
    assert {"run", "mpiexec", "ps", "doctor", "completion"} <= set(COMMANDS)


@pytest.mark.parametrize("words", [[], *([command] for command in COMMANDS)], ids=lambda words: words and words[0])
def test_help_fits_80_columns(words):
    text = subprocess.run([ONESPACE, *words, "--help"], capture_output=True, text=True, check=True).stdout
    assert text.startswith("usage: onespace ") and len(text.splitlines()) > 5
    assert not [line for line in text.splitlines() if len(line) > 80 or line != line.rstrip()]


@pytest.mark.parametrize("words", [["help"], ["ps", "--json"], ["check", "sh"]], ids=str)
def test_output_that_cannot_be_written_is_an_error(words):
    with open("/dev/full", "w") as full:
        result = subprocess.run([ONESPACE, *words], stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 1 and "No space left on device" in result.stderr, result


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_a_command_too(job, command):
    assert job.run([ONESPACE, "help", command]).out == help_of(command)


def test_help_of_nothing_lists_the_commands(job):
    assert job.run([ONESPACE, "help"]).out == job.run([ONESPACE, "--help"]).out


@pytest.mark.parametrize("given,meant", [
    ("rnu", "run"), ("mpiexce", "mpiexec"), ("dotcor", "doctor"), ("window", "windows"), ("comp", "completion"),
    ("mpirun", "mpiexec"), ("srun", "mpiexec"),
    ("xyzzy", None), ("r", None), ("p" * 300, None), ("", None)])
def test_command_that_was_meant_is_named(job, given, meant):
    for words in ([given], ["help", given]):
        result = job.run([ONESPACE, *words]).expect(2, says=f"onespace: no command '{given}'")
        assert re.findall(r"did you mean (\w+)\?", result.err) == ([meant] if meant else []), result


@pytest.mark.parametrize("words,meant", [
    (["run", "--hepa", "libc"], "--heap"), (["run", "--no-interposer"], "--no-interpose"),
    (["run", "--statistics"], None), (["ps", "--jsno"], "--json"), (["run", "-z"], None),
    (["run", "--thread_mode=1"], "--thread-mode"), (["map", "--x"], None)])
def test_option_that_was_meant_is_named(job, words, meant):
    result = job.run([ONESPACE, *words, "/bin/true"]).expect(2, out="")
    assert re.findall(r"did you mean (\S+)\?", result.err) == ([meant] if meant else []), result


WRONG = [
    *(("core", words, "") for words in ("", "1 2", "x", "-1", "--no-such-option 1", "--from core",
                                        "--from core -o x 1")),
    *(("doctor", words, "") for words in ("--no-such-option", "something")),
    *(("ps", words, "") for words in ("--no-such-option", "1 2")),
    ("ps", "--sort name", "--sort name: give memory or time"),
    *(("map", words, "") for words in ("--no-such-option", "1 2", "--json --svg x", "--svg")),
    *(("check", words, "") for words in ("", "--no-such-option ls")),
    *(("report", words, "") for words in ("word", "--absent", "--results")),
    *(("windows", words, "") for words in ("", "--nothing file"))]


@pytest.mark.parametrize("command,words,text", WRONG, ids=[f"{command} {words}" for command, words, _ in WRONG])
def test_wrong_usage_exits_with_2(job, command, words, text):
    job.run([ONESPACE, command, *words.split()]).expect(2, out="", says=["--help", text])


@pytest.mark.parametrize("options", [["-np", "3"], ["--np", "3"], ["-n", "3"], ["-n3"], ["-v", "-np", "3"]])
def test_count_is_spelt_as_launchers_do_too(job, options):
    job.run([*RUN, *options, "/bin/echo", "-np"]).expect(lines=["-np"] * 3)


# ---- Completion ----

def script(shell):
    return subprocess.run([ONESPACE, "completion", shell], capture_output=True, text=True, check=True).stdout


def in_bash(*words):
    """What bash offers for the last of the words."""
    text = f"{script('bash')}\nCOMP_WORDS=({shlex.join(words)})\nCOMP_CWORD={len(words) - 1}\n_onespace\n" \
        'printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "--norc", "-u", "-c", text], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "", done
    return set(done.stdout.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_bash_completes_every_option(command):
    options = options_of(command)
    assert "--help" in options and in_bash("onespace", command, "-") == options


def test_bash_completes_commands():
    assert in_bash("onespace", "") == in_bash("onespace", "help", "") == {*COMMANDS, "help"}
    assert in_bash("onespace", "do") == {"doctor"}


@pytest.mark.parametrize("words,offered", [
    (["run", "--heap", ""], {"libc", "tuned"}), (["run", "--heap", "t"], {"tuned"}),
    (["run", "--cpu-bind", "-"], set()), (["run", "--stack", "--h"], set()),
    (["run", "--stack", "1M", "--h"], {"--heap", "--help"}), (["run", "./app", "--h"], set()),
    (["mpiexec", "./app", "-"], set()), (["ps", "space", "--j"], {"--json"}),
    (["ps", "--sort", ""], {"memory", "time"}), (["nothing", "-"], set())])
def test_bash_completes_arguments_and_not_those_of_the_program(words, offered):
    assert in_bash("onespace", *words) == offered


def test_bash_completes_programs():
    assert "printenv" in in_bash("onespace", "run", "printe")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
@pytest.mark.parametrize("command", COMMANDS)
def test_other_shells_have_every_option(shell, command):
    text = script(shell)
    if shell == "zsh":
        part = re.search(rf"(?ms)^    {command}\)$(.*?);;$", text)[1]
        found = set(re.findall(r"'(--?[a-z][\w-]*?)(?:=-)?\[", part))
    else:
        rows = re.findall(rf"(?m)^complete -c onespace -n '__fish_seen_subcommand_from {command}'(.*?) -d", text)
        found = {dashes + name for row in rows
                 for dashes, kind in (("--", "l"), ("-", "s")) for name in re.findall(rf" -{kind} ([\w-]+)", row)}
    assert found == options_of(command)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_built_and_parses(tool, shell):
    built = BUILD / f"completions/onespace.{shell}"
    assert built.read_text() == script(shell)
    done = subprocess.run([tool(shell), "-n", built], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "", done


def test_fish_completes(tool):
    fish = tool("fish")
    text = script("fish") + "complete -C 'onespace run --he'\ncomplete -C 'onespace run --heap '\n"
    lines = subprocess.run([fish, "--no-config", "-c", text], capture_output=True, text=True).stdout.splitlines()
    assert {line.split("\t")[0] for line in lines} == {"--heap", "--help", "libc", "tuned"}


@pytest.mark.parametrize("words", [[], ["tcsh"], ["bash", "zsh"]])
def test_completion_needs_one_shell(job, words):
    job.run([ONESPACE, "completion", *words]).expect(2, out="", says="name a shell: bash, zsh or fish")
