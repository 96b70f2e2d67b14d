"""A task starts with what its shim had: environment, arguments, descriptors, directory, masks, limits."""
import os
import resource
import signal
import subprocess

import pytest

from jobs import RUN


def sh(script):
    return ["/bin/sh", "-c", script]


def test_environment_of_128_kilobytes(job, run):
    big = {f"BIG_{i}": f"{i:04}" * 2500 for i in range(13)}  # 130,000 bytes; one string is at most 128 KiB
    result = job.run([*run, "env"], env=big).expect()
    got = dict(line.split("=", 1) for line in result.out.splitlines() if line.startswith("BIG_"))
    assert got == big


def test_environment_is_the_shims(job, run):
    """Not the host's, which another shim started with its own."""
    first = job.start([*run, *sh("echo up; exec sleep 1")], env={"MARK": "first"})
    first.wait_for("up")
    job.run([*run, *sh("echo $MARK")], env={"MARK": "second"}).expect(out="second\n")
    assert first.finish().code == 0


def test_thousand_arguments(job, run, guests):
    words = [f"{i} with blank" for i in range(998)] + ["", "\n"]
    result = job.run([*run, guests("arguments"), *words]).expect()
    assert [text.split("=", 1)[1] for text in result.out.split("argv[")[2:]] == [w + "\n" for w in words]


def test_300_descriptors(job, run, tmp_path):
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit[0] < 512:
        pytest.skip(f"the limit for open files is {limit[0]}")
    files = []
    try:
        for i in range(300):
            (tmp_path / str(i)).write_text(f"{i}\n")
            files.append(os.open(tmp_path / str(i), os.O_RDONLY))
        script = "".join(f"IFS= read -r x <&{fd} && echo {fd} $x\n" for fd in files if fd < 10)
        script += f"for fd in /proc/self/fd/*; do :; done; cat {' '.join(f'/dev/fd/{fd}' for fd in files if fd >= 10)}"
        result = job.run([*run, *sh(script)], pass_fds=files)
    finally:
        for fd in files:
            os.close(fd)
    assert result.code == 0, str(result)
    got = {line.split()[-1] for line in result.out.splitlines()}
    assert got == {str(i) for i in range(300)}


def test_descriptor_right_below_the_hard_limit(job, tmp_path):
    """No number above it is free. The host of its space has that limit, too."""
    highest = 99
    (tmp_path / "file").write_text("content\n")
    file = os.open(tmp_path / "file", os.O_RDONLY)
    os.dup2(file, highest)
    os.close(file)

    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, highest + 1))

    try:
        for run in (RUN, [*RUN, "--space", "high"]):
            os.lseek(highest, 0, os.SEEK_SET)
            job.run([*run, "cat", f"/dev/fd/{highest}"], pass_fds=[highest], preexec_fn=limit).expect(out="content\n")
    finally:
        os.close(highest)


@pytest.mark.parametrize("stack,size", [(256, 10), (256, 90000), (256, 120000), (128, 90000), (96, 10)])
def test_small_stack_holds_arguments(job, run, stack, size):
    """The kernel grants them 128 KiB of any stack. What they leave has to suffice the command's own ld.so."""
    def limit():
        resource.setrlimit(resource.RLIMIT_STACK, (stack * 1024, stack * 1024))

    argv = ["/bin/sh", "-c", "echo ${#1}", "x", "a" * size]
    try:
        plain = job.run(argv, preexec_fn=limit)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"a process cannot have them either: {error}")
    if plain.code != 0:
        pytest.skip(f"a process cannot have them either: {plain}")
    job.run([*run, *argv], preexec_fn=limit).expect(out=f"{size}\n")


@pytest.mark.parametrize("blocks", [0, 1, 5000])
def test_small_limit_on_file_sizes(job, run, blocks):
    """It counts for files in memory, too."""
    job.run(sh(f"ulimit -f {blocks}; exec {' '.join(run)} /bin/sh -c 'ulimit -f'")).expect(out=f"{blocks}\n")


def test_no_other_descriptors(job, run):
    """What the host or the shim has open for itself is not the program's."""
    plain = job.run(["ls", "/proc/self/fd"])
    job.run([*run, "ls", "/proc/self/fd"]).expect(lines=plain.lines)


def test_descriptors_share_their_offset(job, run, tmp_path):
    (tmp_path / "lines").write_text("one\ntwo\nthree\n")
    with open(tmp_path / "lines", "rb", buffering=0) as file:
        assert file.read(4) == b"one\n"
        job.run([*run, *sh("read x; echo $x")], stdin=file).expect(out="two\n")


def test_working_directory(job, run, tmp_path):
    job.run([*run, "/bin/pwd"], cwd=tmp_path).expect(out=f"{tmp_path}\n")


def test_working_directory_that_was_deleted(job, run, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"cd {gone}; rmdir {gone}; exec {' '.join(run)} readlink /proc/self/cwd"
    job.run(sh(script)).expect(out=f"{gone} (deleted)\n")


def test_working_directory_is_each_tasks_own(job):
    result = job.run([*RUN, "-n", "3", *sh("mkdir -p /tmp; cd /proc/$$ && sleep 0.2; pwd; echo /proc/$$")]).expect()
    assert len(set(result.lines)) == 3 and len(result.lines) == 6, str(result)


@pytest.mark.parametrize("mask", ["022", "077", "000"])
def test_umask(job, run, mask):
    job.run(sh(f"umask {mask}; exec {' '.join(run)} /bin/sh -c umask")).expect(out=f"0{mask}\n")


@pytest.mark.parametrize("limit,value", [("-n", "123"), ("-c", "0"), ("-S -s", "4096"), ("-S -t", "1000"),
                                         ("-S -n", "77")])
def test_limits(job, run, limit, value):
    job.run(sh(f"ulimit {limit} {value}; exec {' '.join(run)} /bin/sh -c 'ulimit {limit}'")).expect(out=f"{value}\n")


def test_nice_value(job, run):
    before = int(job.run(["nice"]).out)
    result = job.run(["nice", "-n", "5", *run, "nice"])
    assert int(result.out) == min(19, before + 5), str(result)


def test_affinity(job, run, tool):
    cpu = max(os.sched_getaffinity(0))
    result = job.run([tool("taskset"), "-c", str(cpu), *run, *sh("taskset -pc $$")])
    assert result.out.split()[-1] == str(cpu), str(result)


def test_memory_policy(job, run, guests):
    """numactl and srun set one before the program starts."""
    policy = guests("memory_policy")
    job.run([policy, "set", *run, policy]).expect(out="bind to node 0\n")


def test_ignored_signals_stay_ignored(job, run):
    result = job.run(sh(f"trap '' HUP USR1; exec {' '.join(run)} /bin/sh -c 'kill -USR1 $$; kill -HUP $$; echo lived'"))
    assert result.code == 0 and result.out == "lived\n", str(result)


def test_signal_mask(job, run, guests):
    """A task starts with the mask that `onespace run` was started with."""
    mask = guests("signal_mask")
    for blocked in ("", "10"):
        job.run([mask, "block", *blocked.split(), "--", *run, mask]).expect(out=f"blocked: {blocked}\n")


def test_process_name_is_the_programs(job, run):
    job.run([*run, *sh("cat /proc/$$/comm")]).expect(out="sh\n")


def test_self_is_the_program(job, run):
    """/proc/self/exe, which relocatable programs find their files by."""
    job.run([*run, "readlink", "/proc/self/exe"]).expect(out=os.path.realpath("/usr/bin/readlink") + "\n")


def test_terminal_is_the_shims(job, run):
    """A task is in the terminal's foreground group and may read."""
    command = job.start([*run, *sh("test -t 0 && echo terminal; read x; echo got $x")], terminal=True)
    command.wait_for("terminal")
    command.type(b"word\n")
    command.finish().expect(shows="got word")


def test_default_signal_actions(job, run):
    """Python ignores SIGPIPE; what runs below must not inherit that from us."""
    assert signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN
    job.run([*run, *sh("kill -PIPE $$; echo lived")]).expect(141)
