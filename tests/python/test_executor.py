"""onespace.Executor: the interface of concurrent.futures, and its failures."""
import os
import signal

import pytest

from jobs import RUN

FUNCTIONS = """
def add(a, b=0):
    return a + b
def sleep(seconds):
    time.sleep(seconds)
    return seconds
def fail(text):
    raise ValueError(text)
def die(how):
    os.kill(os.getpid(), how) if how > 0 else os._exit(-how)
def process(_=None):
    return os.getpid()
def both():
    '''Returns when both workers of a pool are in a call.'''
    open(f"worker-{onespace.worker_number()}", "w").close()
    until(lambda: os.path.exists("worker-0") and os.path.exists("worker-1"))
def wait_for(path):
    until(lambda: os.path.exists(path))
    return path
"""


def test_calls_are_made_in_workers(program):
    program(FUNCTIONS, """
        with onespace.Executor(2) as pool:
            assert pool.submit(add, 1, b=2).result(180) == 3
            assert pool.submit(process).result() != os.getpid()
            assert list(pool.map(add, range(20), range(20))) == list(range(0, 40, 2))
            assert list(pool.map(add, range(20), chunksize=3)) == list(range(20))
            with raises(ValueError, "chunksize"):
                pool.map(add, [1], chunksize=0)
        """)


@pytest.mark.parametrize("before", [[], RUN, [*RUN, "--space", "test"]], ids=["root", "task", "joined"])
def test_program_may_be_root_or_task(program, before):
    program(FUNCTIONS, """
        with onespace.Executor(2) as pool:
            a = np.arange(100000)
            assert pool.submit(add, a, 1).result(180)[7] == 8
        """, before=before)


def test_thousands_of_small_calls(program):
    program(FUNCTIONS, """
        with onespace.Executor(3) as pool:
            futures = [pool.submit(add, i, 1) for i in range(5000)]
            assert [future.result() for future in futures] == list(range(1, 5001))
            assert sum(future.result() for future in concurrent.futures.as_completed(
                pool.submit(add, i) for i in range(2000))) == 1999000
        """)


def test_several_threads_submit_and_wait(program):
    program(FUNCTIONS, """
        def use(first, found):
            found += [pool.submit(add, i).result(180) for i in range(first, first + 300)]
        with onespace.Executor(2) as pool:
            lists = [[] for _ in range(5)]
            threads = [threading.Thread(target=use, args=(1000 * i, found)) for i, found in enumerate(lists)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for i, found in enumerate(lists):
                assert found == list(range(1000 * i, 1000 * i + 300))
        """)


def test_long_calls_run_concurrently(program):
    """No call waits for one that a busy worker makes."""
    program(FUNCTIONS, """
        with onespace.Executor(3) as pool:
            first, second = pool.submit(wait_for, "a"), pool.submit(wait_for, "b")
            open("b", "w").close()
            assert second.result(180) == "b"
            for i in range(200):
                assert pool.submit(add, i).result(180) == i
            assert not first.done()
            open("a", "w").close()
            assert first.result(180) == "a"
        """)


def test_initializer_runs_in_each_worker(program):
    program(FUNCTIONS + """
found = []
def begin(*words):
    found.append(words)
def begun(_):
    return both(), os.getpid(), found
""", """
        values = np.arange(10000)
        with onespace.Executor(2, initializer=begin, initargs=("word", values)) as pool:
            results = list(pool.map(begun, range(2)))
            assert len({pid for _, pid, _ in results}) == 2
            for _, _, words in results:
                assert len(words) == 1 and words[0][0] == "word" and address(words[0][1]) == address(values)
        del words, results
        """)


def test_workers_are_numbered_named_and_bound(program):
    program(FUNCTIONS + """
def about(_):
    both()
    return (onespace.worker_number(), open("/proc/self/comm").read().strip(), threading.current_thread().name,
            multiprocessing.current_process().name, sorted(os.sched_getaffinity(0)))
""", """
        assert onespace.worker_number() is None
        cpus = sorted(os.sched_getaffinity(0))
        with onespace.Executor(2, bind=True) as pool:
            found = {number: rest for number, *rest in pool.map(about, range(2))}
        assert sorted(found) == [0, 1], found
        for number, (comm, thread, process, bound) in found.items():
            assert comm == thread == process == f"onespace-{number}", found
            assert bound == [cpus[number % len(cpus)]], found
        with onespace.Executor(1, bind=[cpus]) as pool:
            assert pool.submit(about, 0).result()[4] == cpus
        with raises(ValueError, "bind is empty"):
            onespace.Executor(1, bind=[])
        """)


def test_environment_is_added(program):
    program(FUNCTIONS + """
def variable(name):
    return os.environ.get(name)
""", """
        with onespace.Executor(1, env={"WORD": "given"}) as pool:
            assert list(pool.map(variable, ["WORD", "PATH"])) == ["given", os.environ["PATH"]]
        """)


def test_exception_has_its_remote_traceback(program):
    program(FUNCTIONS + """
class Odd(Exception):
    def __init__(self, a, b):
        super().__init__(a)
class Local(Exception):
    def __init__(self):
        super().__init__("local")
        self.lock = threading.Lock()
def odd():
    raise Odd(1, 2)
def local():
    raise Local
def leave():
    sys.exit(3)
""", """
        import traceback
        with onespace.Executor(1) as pool:
            error = pool.submit(fail, "reason").exception(180)
            assert type(error) is ValueError and error.args == ("reason",)
            text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
            assert 'in fail' in text and 'raise ValueError(text)' in text and "RemoteTraceback" in text, text
            with raises(ValueError, "reason"):
                list(pool.map(fail, ["reason"]))
            for function, name in ((odd, "Odd"), (local, "Local")):  # cannot be unpickled; cannot be pickled
                with raises(RuntimeError, "cannot be pickled", name):
                    pool.submit(function).result(180)
            with raises(SystemExit, "3"):
                pool.submit(leave).result(180)
            assert pool.submit(add, 1).result(180) == 1
        """)


def test_exceptions_of_any_class_fail_their_call_only(program):
    program("""
        import dataclasses
        @dataclasses.dataclass(frozen=True)
        class Frozen(Exception):
            reason: int
        class Silent(Exception):
            def __str__(self):
                raise ValueError("no text")
        def frozen():
            raise Frozen(7)
        def silent():
            raise Silent
        """, """
        with onespace.Executor(1) as executor:
            with raises(RuntimeError, "Frozen"):  # cannot be unpickled
                executor.submit(frozen).result()
            assert type(executor.submit(silent).exception()) is Silent
            assert executor.submit(abs, -1).result() == 1
        """)


def test_pickling_error_fails_its_call_only(program):
    program(FUNCTIONS + """
def lock():
    return threading.Lock()
class Broken:
    def __reduce__(self):
        return fail, ("on arrival",)
def broken():
    return Broken()
""", """
        with onespace.Executor(1) as pool:
            for call in ((lambda: 1,), (add, threading.Lock())):
                with raises(pickle.PicklingError, "cannot be sent to a worker", "cloudpickle.CloudPickler"):
                    pool.submit(*call).result(180)
            with raises(pickle.PicklingError, "the result of this call, a lock, cannot be sent back"):
                pool.submit(lock).result(180)
            with raises(pickle.UnpicklingError, "cannot be loaded in worker 0", "on arrival"):
                pool.submit(add, Broken()).result(180)
            with raises(pickle.UnpicklingError, "result of a call in worker 0", "on arrival"):
                pool.submit(broken).result(180)
            assert pool.submit(add, 1).result(180) == 1
        """)


def test_import_error_in_a_worker_fails_its_call_only(program):
    program(FUNCTIONS, """
        def late():
            pass
        import types
        module = types.ModuleType("made_up")
        exec("def function(): pass", module.__dict__)
        sys.modules["made_up"] = module
        with onespace.Executor(1) as pool:
            with raises(pickle.UnpicklingError, "'late'", "top level of a module", "cloudpickle"):
                pool.submit(late).result(180)
            with raises(pickle.UnpicklingError, "made_up", "top level of a module"):
                pool.submit(module.function).result(180)
            assert pool.submit(add, 1).result(180) == 1
        """)


def test_waits_end_in_time(program):
    program(FUNCTIONS, """
        with onespace.Executor(1) as pool:
            future = pool.submit(wait_for, "a")
            for timeout in (0, 0.1):
                with raises(concurrent.futures.TimeoutError):
                    future.result(timeout)
                with raises(concurrent.futures.TimeoutError):
                    future.exception(timeout)
            with raises(concurrent.futures.TimeoutError):
                next(pool.map(wait_for, ["a"], timeout=0.1))
            open("a", "w").close()
            assert future.result(180) == "a"
        """)


def test_timeout_is_kept_while_other_results_arrive(program):
    """Here they never cease: a result is always said to have arrived."""
    program(FUNCTIONS, """
        pool = onespace.Executor(1)
        future = pool.submit(wait_for, "a")
        group, dispatcher = pool._group, pool._group.dispatcher
        class Busy:
            def poll_results(self):
                return True
            def __getattr__(self, name):
                return getattr(dispatcher, name)
        group.dispatcher = Busy()
        with raises(concurrent.futures.TimeoutError):
            future.result(0.1)
        open("a", "w").close()
        assert future.result(180) == "a"
        pool.shutdown()
        """)


def test_callbacks_run_after_one_was_interrupted(program):
    """As Ctrl-C interrupts one, in a thread that polls for the result. Each runs once, and no thread waits for ever."""
    program(FUNCTIONS, """
        class Interrupted(BaseException):
            pass
        def interrupted(_):
            found.append("interrupted")
            raise Interrupted
        with onespace.Executor(1) as pool:
            assert pool.submit(add, 1).result(180) == 1
            found, group = [], pool._group
            with group._message_lock:
                future = pool.submit(add, 1)
                future.add_done_callback(interrupted)
                future.add_done_callback(lambda _: found.append("ran"))
                try:
                    until(lambda: group.handle_messages() or future.done())
                except Interrupted:
                    assert found == ["interrupted"]
            until(lambda: not group._posted)
            assert found == ["interrupted", "ran"], found
        """)


def test_waiting_calls_can_be_cancelled(program):
    program(FUNCTIONS, """
        with onespace.Executor(1) as pool:
            futures = [pool.submit(wait_for, "a") for _ in range(10)]
            assert futures[0].running() and not futures[0].cancel()
            assert futures[9].cancel() and futures[9].cancelled()
            with raises(concurrent.futures.CancelledError):
                futures[9].result(180)
            pool.shutdown(wait=False, cancel_futures=True)
            assert futures[8].cancelled()
            open("a", "w").close()
            done, _ = concurrent.futures.wait(futures, timeout=180)
            assert len(done) == 10 and sum(future.cancelled() for future in futures) == 8
        """)


def test_call_that_cannot_be_posted_fails_alone(program):
    """Its memory cannot be described any more when it is posted."""
    program(FUNCTIONS, """
        from onespace.pools import messages
        with onespace.Executor(1) as pool:
            assert pool.submit(add, 1).result(180) == 1
            dumps = messages.dumps
            messages.dumps = lambda *_: (b"", [object()])
            future = pool.submit(add, 1)
            messages.dumps = dumps
            with raises(TypeError, "bytes-like"):
                future.result(180)
            assert pool.submit(add, 2).result(180) == 2
        """)


def test_call_is_posted_when_the_queue_is_free_again(program):
    """Without another event: a worker that takes a call is preempted for some time."""
    program(FUNCTIONS, """
        with onespace.Executor(2) as pool:
            assert pool.submit(add, 1).result(180) == 1
            dispatcher = pool._group.dispatcher
            class Full:
                attempts = 0
                def post(self, *arguments):
                    self.attempts += 1
                    return self.attempts > 5 and dispatcher.post(*arguments)
                def __getattr__(self, name):
                    return getattr(dispatcher, name)
            pool._group.dispatcher = Full()
            assert pool.submit(add, 2).result(180) == 2
            pool._group.dispatcher = dispatcher
        """)


def test_calls_fail_after_one_callback_was_interrupted(program):
    """As Ctrl-C interrupts kill(): the other calls fail in the receiving thread."""
    program(FUNCTIONS, """
        class Interrupted(BaseException):
            pass
        def interrupt(_):
            raise Interrupted
        pool = onespace.Executor(1)
        futures = [pool.submit(wait_for, "never") for _ in range(9)]
        futures[0].add_done_callback(interrupt)
        with raises(Interrupted):
            pool.kill()
        for future in futures:
            assert type(future.exception(180)) is BrokenProcessPool
        pool.shutdown()
        """)


def test_executor_may_be_collected_while_a_lock_is_held(program):
    """The garbage collector may run in any place, as in a thread whose lock the holder of the other lock awaits."""
    program(FUNCTIONS, """
        pool = onespace.Executor(1)
        assert pool.submit(add, 1).result(180) == 1
        group, held, collected = pool._group, threading.Event(), threading.Event()
        def hold():
            with group._state_lock:
                held.set()
                assert collected.wait(180)
        holder = threading.Thread(target=hold)
        holder.start()
        held.wait()
        del pool
        collected.set()
        holder.join()
        group.join()
        """)


def test_callback_may_submit(program):
    program(FUNCTIONS, """
        with onespace.Executor(1) as pool:
            found, ready = [], threading.Event()
            def again(future):
                found.append(future.result())
                pool.submit(add, found[-1], 1).add_done_callback(again) if len(found) < 50 else ready.set()
            pool.submit(add, 0).add_done_callback(again)
            assert ready.wait(180) and found == list(range(50))
        """)


@pytest.mark.parametrize("end", ["shutdown", "kill"])
def test_callback_may_end_the_pool(program, end):
    """Here the receiving thread waits until another thread has handled the result and run the callback."""
    program(FUNCTIONS, f"""
        pool, ended = onespace.Executor(1), []
        assert pool.submit(add, 1).result(180) == 1
        future = pool.submit(add, 1)
        with pool._group._message_lock:
            future.add_done_callback(lambda _: ended.append(pool.{end}()))
            while not ended:
                pool._group.handle_messages()
        pool.shutdown()
        assert ended == [None] and not pool._group._workers
        """)


def test_callback_of_a_broken_pool_may_end_it(program):
    program(FUNCTIONS, """
        pool, ended = onespace.Executor(1), threading.Event()
        future = pool.submit(wait_for, "go")
        future.add_done_callback(lambda _: (pool.shutdown(), pool.kill(), ended.set()))
        until(pool._group.processes)
        os.kill(pool._group.processes()[0], 9)
        assert ended.wait(180)
        pool.shutdown()
        """)


def test_no_calls_after_shutdown(program):
    program(FUNCTIONS, """
        pool = onespace.Executor(1)
        future = pool.submit(sleep, 0.2)
        pool.shutdown(wait=False)
        with raises(RuntimeError, "after shutdown"):
            pool.submit(add, 1)
        assert future.result(180) == 0.2
        pool.shutdown()
        unused = onespace.Executor(1)
        unused.shutdown()
        """)


@pytest.mark.parametrize("end", ["", "del pool", "sys.exit(0)"])
def test_calls_are_made_to_the_end_of_the_program(program, end):
    result = program(FUNCTIONS + """
def say(word):
    time.sleep(0.1)
    print(word, flush=True)
""", f"""
        pool = onespace.Executor(1)
        for word in "one two three four".split():
            pool.submit(say, word)
        {end}
        """)
    assert result.out.split() == ["one", "two", "three", "four"]


def test_worker_is_replaced_after_its_calls(program):
    program(FUNCTIONS, """
        with onespace.Executor(2, max_tasks_per_child=3) as pool:
            pids = [future.result(180) for future in [pool.submit(process) for _ in range(20)]]
            assert len(set(pids)) >= 6 and all(pids.count(pid) <= 3 for pid in pids), pids
        """)


@pytest.mark.parametrize("how,message", [("signal.SIGKILL", "was killed by SIGKILL"), ("-7", "ended with 7"),
                                      ("signal.SIGSEGV", "was killed by SIGSEGV")])
def test_worker_that_ends_breaks_the_pool(program, how, message):
    program(FUNCTIONS, f"""
        with onespace.Executor(2) as pool:
            futures = [pool.submit(sleep, 600) for _ in range(4)]
            broken = pool.submit(die, {how})
            lost = onespace.Executor(2)
            other = lost.submit(die, {how})
            with raises(BrokenProcessPool, {message!r}, "lost"):
                other.result(180)
            with raises(BrokenProcessPool, {message!r}):
                lost.submit(add, 1)
            lost.shutdown()
            until(lambda: pool._group.processes())
            os.kill(pool._group.processes()[0], 9)
            for future in (*futures, broken):
                assert type(future.exception(180)) is BrokenProcessPool
        """)


def test_worker_that_executes_another_program_breaks_the_pool(program):
    program(FUNCTIONS + """
def execute():
    os.execvp("sleep", ["sleep", "600"])
""", """
        with onespace.Executor(1) as pool:
            with raises(BrokenProcessPool, "worker 0"):
                pool.submit(execute).result(180)
        """)


def test_worker_that_left_a_child_behind_is_noticed(program):
    """The child has the worker's descriptors."""
    program(FUNCTIONS + """
def fork():
    child = os.fork()
    if child == 0:
        time.sleep(600)
    with open("child", "w") as file:
        file.write(str(child))
    os._exit(4)
""", """
        with onespace.Executor(1) as pool:
            with raises(BrokenProcessPool, "ended with 4"):
                pool.submit(fork).result(180)
        os.kill(int(open("child").read()), 9)
        """)


@pytest.mark.parametrize("initializer,message", [("fail", "ValueError: reason"),
                                                 ("sys.exit", "the initializer called")])
def test_initializer_that_fails_breaks_the_pool(program, initializer, message):
    program(FUNCTIONS, f"""
        with onespace.Executor(1, initializer={initializer}, initargs=("reason",)) as pool:
            error = pool.submit(add, 1).exception(180)
            assert type(error) is BrokenProcessPool and "could not start" in str(error), error
            assert {message!r} in str(error) and {message!r} in str(error.__cause__), error
        """)


def test_pool_without_a_guard_is_an_error(program):
    """The worker imports the program, which starts a pool."""
    program(FUNCTIONS, """
        with onespace.Executor(1) as pool:
            with raises(BrokenProcessPool, "could not start", "if __name__ == '__main__'"):
                pool.submit(add, 1).result(180)
        """, is_guarded=False)


def test_invalid_options_are_rejected(program):
    program(FUNCTIONS, """
        for options, kind, word in [({"max_workers": 0}, ValueError, "max_workers"),
                                    ({"max_workers": 2**30 + 1}, ValueError, "at most 2047 tasks"),
                                    ({"initializer": 1}, TypeError, "initializer"),
                                    ({"max_tasks_per_child": 0}, ValueError, "1 or more"),
                                    ({"max_tasks_per_child": "a"}, TypeError, "integer"),
                                    ({"writable": "some"}, ValueError, "arguments")]:
            with raises(kind, word):
                onespace.Executor(**options)
        """)


def test_executor_inside_a_worker(program):
    program(FUNCTIONS + """
def nested(count):
    with onespace.Executor(2) as pool:
        return sum(pool.map(add, range(count), range(count)))
def deeper(level):
    if level == 0:
        return os.getpid()
    with onespace.Executor(1) as pool:
        return pool.submit(deeper, level - 1).result()
""", """
        with onespace.Executor(2) as pool:
            assert list(pool.map(nested, [10, 20])) == [90, 380]
            assert pool.submit(deeper, 3).result(180) > 0
        """)


def test_worker_may_answer_before_its_start_has_returned(program):
    """The start of a worker ends when its first message has arrived, which another thread wants to handle."""
    program(FUNCTIONS, """
        from onespace.pools import worker_group
        class SlowStart(worker_group.Worker):
            def __init__(self, number, dispatcher, *others):
                super().__init__(number, dispatcher, *others)
                until(dispatcher.poll_results)
                answered.set()
                time.sleep(0.2)
        worker_group.Worker, answered = SlowStart, threading.Event()
        with onespace.Executor(1) as pool:
            future = pool.submit(add, 1)
            answered.wait()
            assert future.result(180) == 1
        """)


def test_worker_that_closes_its_descriptors_is_no_failure_of_the_parent(program):
    """Its end is expected then. The parent waits a second for it, in which it sends the result of its call."""
    program(FUNCTIONS + """
def close_all():
    os.closerange(3, 1000)
    time.sleep(0.2)
    return 7
""", """
        with onespace.Executor(1) as pool:
            try:
                assert pool.submit(close_all).result(180) == 7
            except BrokenProcessPool as error:  # on a busy machine the second is too short
                assert "was killed by SIGKILL" in str(error), error
        """)


def test_interrupt_while_workers_start_leaves_them(program):
    """As Ctrl-C, which the terminal also sends to workers whose interpreter has no handler yet."""
    program(FUNCTIONS, """
        signal.signal(signal.SIGINT, lambda *_: None)
        from onespace.pools import worker_group
        class Interrupted(worker_group.Worker):
            def __init__(self, *arguments):
                super().__init__(*arguments)
                os.kill(self.task.pid, signal.SIGINT)
        worker_group.Worker = Interrupted
        with onespace.Executor(2) as pool:
            assert list(pool.map(add, range(20))) == list(range(20))
        """)


def test_workers_of_a_killed_worker_end(program):
    program(FUNCTIONS + """
inner = None
def begin():
    global inner
    inner = onespace.Executor(1)
    return inner.submit(process).result(), inner.submit(sleep, 600) and os.getpid()
""", """
        pool = onespace.Executor(1)
        child, worker = pool.submit(begin).result(180)
        handle = os.pidfd_open(child)
        os.kill(worker, 9)
        import select
        assert select.select([handle], [], [], 180)[0]
        pool.shutdown()
        """)


def test_forked_child_cannot_use_the_pool(program):
    program(FUNCTIONS, """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of a fork with threads
        pool = onespace.Executor(1)
        assert pool.submit(add, 1).result(180) == 1
        child = os.fork()
        if child == 0:
            with raises(RuntimeError, "forked process", "onespace.spawn"):
                pool.submit(add, 1)
            pool.shutdown()
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert pool.submit(add, 2).result(180) == 2
        """)


def test_forked_child_takes_no_lock_of_the_pool(program):
    """Other threads of the parent held the locks at the fork; the child has no thread that releases them."""
    program(FUNCTIONS + """
def hold(pool, held, done):
    with pool._group._message_lock, pool._group._state_lock, pool._iterators_changed:
        held.set()
        done.wait()

def in_child(check):
    child = os.fork()
    if child == 0:
        signal.alarm(180)  # ends a child that waits for ever
        check()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, check

def interrupt(pool):
    try:
        with onespace.Executor.__new__(onespace.Executor) as other:
            other._group = pool._group
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass

def need_parent(call):
    with raises(RuntimeError, "forked process"):
        call()
""", """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        pool = onespace.Pool(1)
        future = pool.submit(sleep, (600,))
        held, done = threading.Event(), threading.Event()
        holder = threading.Thread(target=hold, args=(pool, held, done))
        holder.start()
        held.wait()
        in_child(pool._group.cancel_queued)
        in_child(lambda: interrupt(pool))
        in_child(lambda: (pool.close(), pool.join()))
        in_child(lambda: (pool.terminate(), pool.join()))
        in_child(lambda: need_parent(lambda: pool._group.processes()))
        in_child(lambda: need_parent(lambda: future.result(5)))
        in_child(lambda: need_parent(lambda: pool.submit(add, (1,))))
        in_child(lambda: need_parent(lambda: pool.imap(add, [1])))
        done.set()
        holder.join()
        pool.terminate()
        """)


def test_workers_end_with_a_killed_program(program):
    command = program.start(FUNCTIONS, """
        pool = onespace.Executor(2)
        futures = [pool.submit(sleep, 600) for _ in range(4)]
        print("started", flush=True)
        futures[0].result()
        """)
    command.wait_for("started")
    command.process.kill()
    assert command.finish().code == 137  # the fixture verifies that no process is left


@pytest.mark.parametrize("before", [[], RUN], ids=["root", "task"])
def test_interrupt_ends_calls_and_program(program, before):
    """Ctrl-C in a terminal, which `onespace run` does not forward: a second one might come before "interrupted"."""
    command = program.start(FUNCTIONS + """
def busy(i):
    print("ready", flush=True)
    time.sleep(600)
""", """
        with onespace.Executor(2) as pool:
            try:
                futures = [pool.submit(busy, i) for i in range(8)]
                futures[0].result()
            except KeyboardInterrupt:
                print("interrupted", flush=True)
                raise
        """, before=before, terminal=True)
    command.wait_for("ready", 2)
    command.type(b"\x03")
    result = command.finish()
    assert result.code in (130, 1) and "interrupted" in result.out and "Error" not in result.err, str(result)


def test_interrupt_just_before_a_system_call_ends_it(program):
    """Python looks for signals before it makes the set, which takes long, and does not look again."""
    command = program.start(FUNCTIONS + """
import itertools
def wait_long(i):
    print("ready", flush=True)
    signal.sigtimedwait(itertools.repeat(signal.SIGUSR2, 10**8), 600)
""", """
        try:
            with onespace.Executor(2) as pool:
                pool.submit(wait_long, 0).result()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """)
    command.wait_for("ready")
    os.kill(command.process.pid, signal.SIGINT)
    result = command.finish()
    assert result.code == 0 and "interrupted" in result.out and not result.err, str(result)


def test_second_interrupt_kills_calls_that_ignore_the_first(program):
    """All have ended when the program goes on; before Python 3.13 an interrupted Thread.join forgets its thread."""
    command = program.start(FUNCTIONS + """
def stubborn(i):
    while True:
        try:
            os.write(1, b"ready\\n")  # here, since the interrupt may come as soon as it is seen
            time.sleep(600)
        except KeyboardInterrupt:
            os.write(1, b"ignored\\n")
""", """
        try:
            with onespace.Executor(2) as pool:
                futures = [pool.submit(stubborn, i) for i in range(2)]
                futures[0].result()
        except KeyboardInterrupt:
            print(len(pool._group._workers), "left", flush=True)
        """)
    command.wait_for("ready", 2)
    os.kill(command.process.pid, signal.SIGINT)
    command.wait_for("ignored", 2)
    os.kill(command.process.pid, signal.SIGINT)
    result = command.finish()
    assert result.code == 0 and "0 left" in result.out and not result.err, str(result)


def test_interrupts_at_any_time_lose_no_result(program):
    """A signal handler raises an exception anywhere in submit and result."""
    program(FUNCTIONS + """
class Interrupted(BaseException):
    pass
def interrupt(*_):
    raise Interrupted
""", """
        import random
        pool = onespace.Executor(2)
        assert pool.submit(add, 1).result(180) == 1
        signal.signal(signal.SIGALRM, interrupt)
        kept, interrupts = [], 0
        for i in range(400):
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 5e-4))
                for j in range(20):
                    kept.append((i * j, pool.submit(add, i * j)))
                kept[-1][1].result(180)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupted:
                interrupts += 1
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        assert interrupts > 20, interrupts
        for value, future in kept:
            assert future.result(180) == value
        pool.shutdown()
        """)


PROFILE = """
class Interrupted(BaseException):
    pass
places_left = 0
def profile(frame, event, _):
    # Python calls signal handlers at the beginning of a function, and after a call of one in C.
    global places_left
    file = frame.f_code.co_filename
    is_pools = "/onespace/pools/" in file or file.endswith(("/_base.py", "/threading.py"))
    places_left -= is_pools and event in ("call", "c_return")
    if places_left == 0:
        sys.setprofile(None)
        raise Interrupted
"""


def test_exception_at_each_place_in_submit_and_result(program):
    """As one of a signal handler: no other call is lost, and no lock stays acquired."""
    program(FUNCTIONS + PROFILE, """
        with onespace.Executor(1) as pool:
            assert pool.submit(sleep, 0).result(180) == 0
            locks = [pool._group._state_lock, pool._group._message_lock]
            for seconds in (0, 0.005):
                at, is_complete = 0, False
                while not is_complete:
                    at += 1
                    futures = [pool.submit(sleep, seconds)]
                    places_left = at
                    sys.setprofile(profile)
                    try:
                        futures.append(pool.submit(sleep, seconds))
                        futures[-1].result(180)
                        is_complete = True
                    except Interrupted:
                        pass
                    sys.setprofile(None)
                    assert not any(lock._is_owned() for lock in [*locks, *(each._condition for each in futures)]), at
                    assert [each.result(180) for each in futures] == [seconds] * len(futures)
                assert at > 50, at
        """, timeout=600)


def test_exception_at_each_place_in_a_pool(program):
    """The result is ready in all threads, and no lock stays acquired."""
    program(FUNCTIONS + PROFILE, """
        with onespace.Pool(1) as pool:
            assert pool.apply_async(sleep, (0,)).get(180) == 0
            at, is_complete = 0, False
            while not is_complete:
                at += 1
                result, got = None, []
                places_left = at
                sys.setprofile(profile)
                try:
                    result = pool.apply_async(sleep, (0.002,), callback=got.append)
                    result.get(180)
                    is_complete = True
                except Interrupted:
                    pass
                sys.setprofile(None)
                if result is None:
                    continue
                assert not result._condition._is_owned(), at
                other = threading.Thread(target=result.wait, args=(180,))
                other.start()
                other.join(180)
                assert not other.is_alive() and result.ready() and result.get(180) == 0.002, at
                assert got in ([0.002], []), got  # an exception may have ended the callback
            assert at > 50 and got, (at, got)
        """, timeout=600)


def test_asyncio_uses_it(program):
    program(FUNCTIONS, """
        import asyncio
        async def use(pool):
            loop = asyncio.get_running_loop()
            return await asyncio.gather(*(loop.run_in_executor(pool, add, i, 1) for i in range(20)))
        with onespace.Executor(2) as pool:
            assert asyncio.run(use(pool)) == list(range(1, 21))
        """)


def test_cloudpickle_sends_any_function(job, play, pools_interpreter, program):
    play.interpreter = pools_interpreter
    program(FUNCTIONS, """
        import cloudpickle
        with onespace.Executor(1, pickler=cloudpickle.CloudPickler) as pool:
            a = np.arange(10000)
            assert pool.submit(lambda b: (address(b), address(a)), a).result(180) == (address(a), address(a))
        """)
