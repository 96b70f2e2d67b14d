"""onespace.Pool: the interface of multiprocessing.Pool."""
import pytest

FUNCTIONS = """
def add(a, b=0):
    return a + b
def square(a):
    return a * a
def fail(text):
    raise ValueError(text)
def process(_):
    return os.getpid()
def wait_for(path):
    until(lambda: os.path.exists(path))
    return path
"""


@pytest.mark.parametrize("kind", ["multiprocessing.Pool", "onespace.Pool"])
def test_methods_are_those_of_multiprocessing(program, kind):
    """Both classes print the same lines."""
    program(FUNCTIONS, f"""
        values = list(range(20))
        with {kind}(2) as pool:
            assert pool.apply(add, (1,), {{"b": 2}}) == 3
            assert pool.apply_async(add, (1, 2)).get(180) == 3
            assert pool.map(square, values) == [i * i for i in values]
            assert pool.map(square, iter(values), chunksize=7) == [i * i for i in values]
            assert pool.map(square, []) == [] and pool.map_async(square, []).get(180) == []
            assert pool.starmap(add, zip(values, values)) == [2 * i for i in values]
            assert pool.starmap_async(add, [[1], [2, 3]], 1).get(180) == [1, 5]
            for chunksize in (1, 3, 50):
                assert list(pool.imap(square, iter(values), chunksize)) == [i * i for i in values]
                assert sorted(pool.imap_unordered(square, values, chunksize)) == [i * i for i in values]
            assert list(pool.imap(square, [])) == []
            got, errors = [], []
            def after(found):
                def call(value):
                    time.sleep(0.05)
                    found.append(value)
                return call
            pool.apply_async(add, (1,), callback=after(got)).get(180)  # which waits for the callback
            assert got == [1]
            pool.map_async(square, [2], callback=after(got)).wait(180)
            failed = pool.apply_async(fail, ("reason",), callback=after(got), error_callback=after(errors))
            while not failed.ready():
                time.sleep(0.001)
            assert sorted(got, key=str) == [1, [4]] and str(errors[0]) == "reason", (got, errors)
            assert failed.ready() and not failed.successful()
            with raises(ValueError, "reason"):
                failed.get()
            with raises(ValueError, "reason"):
                pool.map(fail, ["reason"] * 3)
            iterator = pool.imap(fail, ["reason"])
            with raises(ValueError, "reason"):
                next(iterator)
        """)


def test_waits_end_in_time(program):
    program(FUNCTIONS, """
        with onespace.Pool(1) as pool:
            result, iterator = pool.apply_async(wait_for, ("a",)), pool.imap(wait_for, ["a"])
            for wait in (result.get, iterator.next, pool.imap_unordered(wait_for, ["a"]).next):
                try:
                    wait(0.1)
                    assert False
                except multiprocessing.TimeoutError as error:
                    assert isinstance(error, TimeoutError)
            with raises(ValueError, "not ready"):
                result.successful()
            result.wait(0.1)
            open("a", "w").close()
            assert result.get(180) == iterator.next(180) == "a"
        """)


def test_close_lets_calls_end(program):
    program(FUNCTIONS, """
        pool = onespace.Pool(2)
        results, iterator = pool.map_async(square, range(1000), 1), pool.imap(square, range(1000))
        with raises(ValueError, "still running"):
            pool.join()
        pool.close()
        with raises(ValueError, "not running"):
            pool.apply_async(square, (1,))
        with raises(ValueError, "not running"):
            pool.imap(square, [1])
        pool.join()
        assert results.ready() and results.get() == list(iterator) == [i * i for i in range(1000)]
        """)


def test_terminate_ends_calls(program):
    program(FUNCTIONS, """
        pool = onespace.Pool(2)
        result = pool.map_async(wait_for, ["never"] * 20, 1)
        pool.terminate()
        pool.join()
        with raises(BrokenProcessPool, "terminated"):
            result.get(180)
        """)


def test_iterables_may_be_endless_or_fail(program):
    program(FUNCTIONS, """
        import itertools
        def failing():
            yield from range(50)
            raise KeyError("failure")
        with onespace.Pool(2) as pool:
            assert list(itertools.islice(pool.imap(square, itertools.count()), 30)) == [i * i for i in range(30)]
            for method in (pool.imap, pool.imap_unordered):
                found = []
                with raises(KeyError, "failure"):
                    for value in method(square, failing()):
                        found.append(value)
                assert sorted(found) == [i * i for i in range(50)]
            for value in pool.imap(type, [lambda: 1] * 0 + [1]):
                assert value is int
            iterator = pool.imap(square, [threading.Lock() for _ in range(3000)])  # each fails at once
            for _ in range(3000):
                with raises(pickle.PicklingError, "lock"):
                    next(iterator)
        """)


def test_iterables_may_wait_for_results(program):
    """Of other calls, or of the same iterator, as those that limit their own number of items do."""
    program(FUNCTIONS, """
        import itertools
        with onespace.Pool(2) as pool:
            for method in (pool.imap, pool.imap_unordered):
                chained = method(square, (pool.apply(square, (i,)) for i in range(50)))
                assert sorted(chained) == [i ** 4 for i in range(50)]
                permits, found = threading.Semaphore(1), []
                def limited():
                    for i in range(50):
                        assert permits.acquire(timeout=180)
                        yield i
                for value in method(square, limited()):
                    found.append(value)
                    permits.release()
                assert found == [i * i for i in range(50)]
        """)


def test_items_are_taken_as_results_are_consumed(program):
    program(FUNCTIONS, """
        import itertools
        with onespace.Pool(2) as pool:
            for method in (pool.imap, pool.imap_unordered):
                items = itertools.count()
                iterator = method(square, items)
                for limit in (32, 42):
                    until(lambda: not pool._group._posted and not pool._group._queue and len(iterator._submitted) > 16)
                    time.sleep(0.1)
                    taken = items.__reduce__()[1][0]
                    assert taken <= limit, taken
                    for _ in range(10 if limit == 32 else 0):
                        next(iterator)
        """)


def test_terminate_ends_iterators(program):
    """Also one whose iterable waits for ever."""
    program(FUNCTIONS, """
        import itertools
        pool, never = onespace.Pool(2), threading.Event()
        abandoned, waiting = pool.imap(square, itertools.count()), pool.imap(square, iter(never.wait, 1))
        next(abandoned)
        pool.terminate()
        pool.join()
        with raises(BrokenProcessPool, "terminated"):
            list(abandoned)
        """)


def test_threads_share_an_iterator(program):
    program(FUNCTIONS, """
        with onespace.Pool(2) as pool:
            for method in (pool.imap, pool.imap_unordered):
                iterator, found = method(square, range(2000)), []
                threads = [threading.Thread(target=lambda: found.extend(iterator)) for _ in range(4)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                assert sorted(found) == [i * i for i in range(2000)], len(found)
        """)


def test_workers_are_replaced_after_their_calls(program):
    program(FUNCTIONS, """
        with onespace.Pool(2, maxtasksperchild=2) as pool:
            pids = pool.map(process, range(12), 1)
            assert len(set(pids)) >= 6 and all(pids.count(pid) <= 2 for pid in pids), pids
        """)


def test_initializer_and_wrong_options(program):
    program(FUNCTIONS + """
def begin(word):
    global given
    given = word
def word(_):
    return given
""", """
        with onespace.Pool(2, begin, ("word",)) as pool:
            assert set(pool.map(word, range(20), 1)) == {"word"}
        with raises(ValueError, "at least 1"):
            onespace.Pool(0)
        with raises(TypeError, "unknown"):
            onespace.Pool(1, unknown=1)
        """)


def test_killed_worker_is_an_error_not_a_hang(program):
    program(FUNCTIONS, """
        with onespace.Pool(2) as pool:
            result, iterator = pool.map_async(wait_for, ["never"] * 4, 1), pool.imap(wait_for, ["never"])
            until(lambda: len(pool._group.processes()) == 2)
            os.kill(pool._group.processes()[0], 9)
            with raises(BrokenProcessPool, "SIGKILL"):
                result.get(180)
            with raises(BrokenProcessPool, "SIGKILL"):
                next(iterator)
        """)
