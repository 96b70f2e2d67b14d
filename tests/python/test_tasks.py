"""Programs as tasks of a Python program, and Python scripts as tasks."""
import subprocess

import pytest

from jobs import RUN
from launchers import MPIS


def test_return_code_is_the_scripts(play):
    play(root="""
        assert start("task", 0).wait(180) == 0
        assert start("task", 7).wait(180) == 7
        """, task="sys.exit(int(sys.argv[2]))")


def test_signal_is_a_negative_return_code(play):
    play(root="""
        task = onespace.spawn(["sleep", "600"])
        assert task.poll() is None and task.returncode is None
        task.kill()
        assert task.wait(180) == -signal.SIGKILL
        task.send_signal(signal.SIGTERM)
        """)


def test_task_that_has_ended_has_its_process_id(play):
    """The task ends before spawn asks for the id."""
    play(root="""
        from onespace import _core
        pid_of = _core.pid
        def pid_after_the_end(id):
            while pid_of(id) > 0:
                time.sleep(0.001)
            return pid_of(id)
        _core.pid = pid_after_the_end
        with open("pid", "w") as file:
            task = onespace.spawn(["sh", "-c", "echo $$; exit 3"], stdout=file)
        assert task.pid == int(open("pid").read()) and task.wait() == 3, task.pid
        """)


def test_waited_task_reports_its_cpu_time(play):
    play(root="""
        task = start("task")
        task.wait(180)
        assert task.user_s >= 0 and task.system_s >= 0
        assert task.user_s + task.system_s > 0.05, (task.user_s, task.system_s)
        """, task="""
        until = time.process_time() + 0.1
        while time.process_time() < until:
            pass
        """)


def test_wait_ends_in_time(play):
    play(root="""
        task = onespace.spawn(["sleep", "600"])
        with raises(TimeoutError, "still runs"):
            task.wait(0.2)
        task.kill()
        assert task.wait(180) == -9
        """)


def test_wait_is_ended_by_a_signal(play):
    """A signal interrupts a wait in C and runs the Python handler."""
    play(root="""
        import threading
        task = onespace.spawn(["sleep", "600"])
        def handler(number, frame):
            raise KeyboardInterrupt
        signal.signal(signal.SIGUSR1, handler)
        with raises(KeyboardInterrupt):
            threading.Timer(0.2, signal.raise_signal, [signal.SIGUSR1]).start()
            task.wait()
        task.kill()
        task.wait()
        """)


def test_status_is_kept_when_a_handler_raises_as_the_task_ends(play):
    """As Ctrl-C at a terminal, which also ends the task."""
    play(root="""
        def handler(number, frame):
            raise KeyboardInterrupt
        signal.signal(signal.SIGUSR1, handler)
        read, write = os.pipe()
        for status in range(1, 21):
            task = onespace.spawn(["sh", "-c", f"read line; kill -USR1 {os.getpid()}; exit {status}"], stdin=read)
            with raises(KeyboardInterrupt):
                os.write(write, b"go\\n")
                task.wait()
                time.sleep(180)
            assert task.wait(180) == status
        """)


def test_block_that_fails_kills_its_task(play):
    play(root="""
        with raises(ZeroDivisionError):
            with onespace.spawn(["sleep", "600"]) as task:
                1 / 0
        assert task.returncode == -9
        """)


def test_environment_and_directory_and_output_are_those_given(play, tmp_path):
    (tmp_path / "directory").mkdir()
    play(root="""
        with open("out", "wb") as out:
            environment = {**os.environ, "WORD": "given"}
            task = onespace.spawn(["sh", "-c", "pwd; echo $WORD; echo error >&2"], env=environment, cwd="directory",
                                  stdout=out, stderr=out)
            assert task.wait(180) == 0
        lines = open("out").read().split()
        assert lines == [os.path.realpath("directory"), "given", "error"], lines
        """)


def test_closed_descriptors_do_not_reach_the_task(play):
    play(root="""
        read, write = os.pipe()
        os.set_inheritable(write, True)
        task = onespace.spawn(["sh", "-c", f"echo lost >&{write}"], close_fds=True, stderr=os.open("/dev/null", 1))
        assert task.wait(180) != 0
        assert onespace.spawn(["sh", "-c", f"echo kept >&{write}"], close_fds=True, pass_fds=[write]).wait(180) == 0
        os.close(write)
        assert os.read(read, 100) == b"kept\\n"
        """)


def test_broken_pipe_ends_a_task(play):
    """Python ignores SIGPIPE; programs do not expect that."""
    play(root="""
        read, write = os.pipe()
        os.close(read)
        assert onespace.spawn(["sh", "-c", "while echo word; do :; done"], stdout=write).wait(180) == -signal.SIGPIPE
        """)


def test_cpus_are_those_given(play):
    play(root="""
        with raises(ValueError, "no CPU -1"):
            onespace.spawn(["true"], cpus=[-1])
        allowed = sorted(os.sched_getaffinity(0))[:1]
        assert start("task", allowed, cpus=allowed).wait(180) == 0
        """, task="assert str(sorted(os.sched_getaffinity(0))) == sys.argv[2]")


def test_barrier_waits_for_all_numbered_tasks(play):
    play(root="""
        tasks = [start("task", number=i, ntasks=3) for i in range(3)]
        assert [task.wait(180) for task in tasks] == [0, 0, 0]
        """, task="""
        values = np.zeros(1)
        export = onespace.export("values", values)
        assert onespace.ntasks() == 3
        onespace.barrier(180)
        peers = [onespace.task_of_number(i) for i in range(3) if i != onespace.number()]
        others = [onespace.import_array(peer, "values") for peer in peers]
        onespace.barrier(180)
        values[0] = onespace.number() + 1
        onespace.barrier(180)
        assert sum(other[0] for other in others) + values[0] == 6
        onespace.barrier(180)
        """)


def test_spawner_of_a_task(play):
    play(root="""
        with raises(LookupError, "root"):
            onespace.spawner()
        assert start("task").wait(180) == 0
        """, task="""
        assert onespace.spawner() == onespace.ROOT
        assert start("child", onespace.init()).wait(180) == 0
        """, child="assert onespace.spawner() == int(sys.argv[2])")


def test_barrier_without_a_number_is_an_error(play):
    play(root="""
        with raises(LookupError, "onespace run -n"):
            onespace.barrier(1)
        with raises(LookupError, "onespace run -n"):
            onespace.number()
        """)


def test_barrier_ends_with_an_error_when_a_task_dies(play):
    play(root="""
        tasks = [start("task", number=i, ntasks=2) for i in range(2)]
        assert [task.wait(180) for task in tasks] == [3, 0]
        """, task="""
        if onespace.number() == 0:
            os._exit(3)
        with raises(onespace.OwnerEnded, "ended"):
            onespace.barrier(180)
        """)


def test_scripts_of_onespace_run_are_one_group(job, play, interpreter):
    script = play.write({"root": """
        onespace.barrier(180)
        print(f"{onespace.number()} of {onespace.ntasks()}\\n", end="")  # whole, even without a buffer
        """})
    result = job.run([*RUN, "-n", "3", interpreter, script], env=play.env)
    assert result.lines == ["0 of 3", "1 of 3", "2 of 3"], str(result)


@pytest.mark.parametrize("call,error,words", [
    ('onespace.spawn(["no-such-program"])', "FileNotFoundError", ["no-such-program", "PATH"]),
    ('onespace.spawn(["/etc/passwd"])', "PermissionError", ["/etc/passwd", "chmod"]),
    ('onespace.spawn(["./fixed"])', "OSError", ["position independent", "-fPIE"]),
    ('onespace.spawn([])', "ValueError", ["args is empty"]),
    ('onespace.spawn(["true"], number=1)', "ValueError", ["belong together"]),
    ('onespace.spawn(["true"], number=2, ntasks=2)', "ValueError", ["not below"]),
    ('onespace.spawn(["true"], cwd="nowhere")', "FileNotFoundError", ["nowhere"]),
    ('onespace.spawn_python("missing.py")', "FileNotFoundError", ["missing.py", "give its path"]),
    ('onespace.spawn_python("script.py", cwd="/tmp")', "FileNotFoundError", ["script.py", "working directory"]),
    ('onespace.spawn_python(".")', "IsADirectoryError", ["__main__.py"]),
    ('onespace.task_of_number(5)', "LookupError", ["number 5"]),
])
def test_invalid_call_is_rejected(play, tmp_path, call, error, words):
    (tmp_path / "script.py").write_text("")
    if "fixed" in call:
        subprocess.run(["cc", "-no-pie", "-xc", "-", "-o", "fixed"], input=b"int main(void) { return 0; }",
                       cwd=tmp_path, check=True, timeout=180)
    play(root=f"""
        with raises({error}, *{words!r}):
            {call}
        """)


def test_text_with_a_null_byte_is_rejected(play):
    """A C string ends at the null byte, so two names could become one."""
    play(root="""
        for call in (lambda: onespace.spawn(["echo", "a\\0b"]), lambda: onespace.spawn(["echo\\0", "a"]),
                     lambda: onespace.spawn(["env"], env={"A": "1\\0B"}),
                     lambda: onespace.spawn(["env"], env={"A\\0B": "1"}),
                     lambda: onespace.spawn(["pwd"], cwd="/tmp\\0/x"), lambda: onespace.call(0, "getpid\\0"),
                     lambda: onespace.export("n\\0one", np.ones(3)),
                     lambda: onespace.import_array(0, "n\\0", timeout=1),
                     lambda: onespace.Producer("n\\0"), lambda: onespace.Consumer("n\\0", timeout=1)):
            with raises(ValueError, "embedded null byte"):
                call()
        with onespace.Producer("channel", policy="copy") as out, onespace.Consumer("channel", timeout=180) as taken:
            with out.step(1) as step:
                for call in (lambda: step.attribute("t", "ab\\0cd"), lambda: step.attribute("t\\0", 1),
                             lambda: step.put("x\\0y", np.ones(2)), lambda: step.put("x", np.ones(2), units="m\\0")):
                    with raises(ValueError, "embedded null byte"):
                        call()
                step["x"] = np.ones(2)
            with taken.take(timeout=180) as step:
                assert step.names() == ["x"] and step.attributes() == {}
                for call in (lambda: step["x\\0y"], lambda: step.info("x\\0"), lambda: step.read("x\\0", [0], [1])):
                    with raises(ValueError, "embedded null byte"):
                        call()
        """)


def test_words_and_variables_need_not_be_text(play):
    """As subprocess: bytes, and what os.fsdecode makes of bytes that are no UTF-8."""
    play(root="""
        name = os.fsdecode(b"caf\\xe9")
        assert onespace.spawn(["sh", "-c", 'test "$1" = "$2" && test "$A" = "$B"', "sh", name, b"caf\\xe9"],
                              env={**os.environ, "A": name, b"B": b"caf\\xe9", name: "1"}).wait() == 0
        assert onespace.spawn(b"true").args == ("true",)
        with raises(FileNotFoundError, "caf"):
            onespace.spawn([name])
        """)


def test_status_may_be_asked_for_by_two_threads(play):
    play(root="""
        import threading
        for i in range(200):
            task = onespace.spawn(["sh", "-c", "exit 3"])
            codes = []
            threads = [threading.Thread(target=lambda: codes.append(task.wait())) for _ in range(3)]
            for thread in threads:
                thread.start()
            while (code := task.poll()) is None:
                pass
            for thread in threads:
                thread.join()
            assert codes == [3, 3, 3] and code == 3, codes
        """)


def test_variable_with_an_equals_sign_in_its_name_is_rejected(play):
    play(root="""
        with raises(ValueError, "illegal environment variable name", "'X=Y'"):
            onespace.spawn(["env"], env={"X=Y": "3"})
        assert onespace.spawn(["sh", "-c", 'test "$X" = "Y=3"'], env={**os.environ, "X": "Y=3"}).wait() == 0
        """)


def test_forked_child_is_no_member(play):
    play(root="""
        onespace.init()
        child = os.fork()
        if child == 0:
            with raises(PermissionError, "forked child", "onespace.spawn"):
                onespace.init()
            with raises(PermissionError, "forked child"):
                onespace.export("name", np.zeros(3))
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        """)


def test_tasks_end_with_the_root(play, job):
    command = play.start(root="""
        task = start("task")
        print("started", flush=True)
        time.sleep(600)
        """, task="time.sleep(600)")
    command.wait_for("started")
    command.process.kill()
    assert command.finish().code == 137  # the fixture verifies that no process is left


@pytest.mark.parametrize("threads", [1, 2])
def test_numpy_with_threads_in_several_tasks(play, threads):
    play(root=f"""
        environment = {{**os.environ, "OPENBLAS_NUM_THREADS": "{threads}"}}
        tasks = [start("task", env=environment) for _ in range(2)]
        assert [task.wait(180) for task in tasks] == [0, 0]
        """, task="""
        a = np.random.default_rng(1).random((300, 300))
        assert np.allclose(np.linalg.solve(a, a @ a), a)
        """)


@pytest.mark.long
def test_matplotlib_draws_in_several_tasks(play, interpreter, tmp_path, needs_modules):
    needs_modules(interpreter, "matplotlib")
    play(root="""
        field = np.add.outer(np.arange(50.), np.arange(50.))
        with onespace.export("field", field):
            tasks = [start("task", name) for name in ("first.png", "second.png")]
            assert [task.wait(180) for task in tasks] == [0, 0]
        """, task="""
        import matplotlib
        matplotlib.use("agg")
        import matplotlib.pyplot as plot
        plot.imshow(onespace.import_array(onespace.ROOT, "field"))
        plot.savefig(sys.argv[2])
        """)
    first, second = ((tmp_path / name).read_bytes() for name in ("first.png", "second.png"))
    assert first == second and first.startswith(b"\x89PNG") and len(first) > 3000


def test_mpi4py_ranks_share_arrays(job, play, interpreter, needs_modules):
    mpi = MPIS["openmpi"].needed()
    needs_modules(interpreter, "mpi4py")
    script = play.write({"root": """
        from mpi4py import MPI
        world = MPI.COMM_WORLD
        values = np.full(1000, float(world.rank))
        export = onespace.export("values", values)
        ids = world.allgather(onespace.init())
        other = onespace.import_array(ids[1 - world.rank], "values")
        world.Barrier()
        other += 10
        world.Barrier()
        lines = world.gather(f"rank {world.rank}: {values[0]:g} {values[-1]:g} {world.allreduce(values.sum()):g}")
        if world.rank == 0:
            print(*lines, sep="\\n")
        """})
    result = job.run(mpi.command(2, [*RUN, interpreter, script]),
                     env={**mpi.env, **play.env, "MPI4PY_MPIABI": "openmpi"})
    assert result.lines == ["rank 0: 10 10 21000", "rank 1: 11 11 21000"], str(result)


def test_daemon_thread_may_wait_while_the_program_exits(play):
    """The interpreter's exit lasts long enough here that the wait of the thread returns meanwhile."""
    play(root="""
        import threading
        class SlowExit:
            def __del__(self, sleep=time.sleep):
                sleep(0.5)
        last = SlowExit()
        waiting = onespace.spawn(["sleep", "600"])
        threading.Thread(target=waiting.wait, daemon=True).start()
        time.sleep(0.01)
        """)
