"""The memory of arguments and results of pools: no copies, and no use after free."""
import pytest

FUNCTIONS = """
MIB = 1 << 20
kept = []
def same(*things):
    return things if len(things) > 1 else things[0]
def about(array):
    return address(array), array.flags.writeable
def ones(count):
    return np.ones(count)
def own(count):
    '''The same array each time, and its address here.'''
    if not kept:
        kept.append(np.ones(count))
    return kept[0], address(kept[0])
def set_first(array, value):
    array[0] = value
def first(array):
    return array[0]
def keep(array):
    kept.append(array)
def drop():
    kept.clear()
def die():
    os.kill(os.getpid(), 9)
def both(_):
    '''Returns when both workers of a pool are in a call.'''
    open(f"worker-{onespace.worker_number()}", "w").close()
    until(lambda: os.path.exists("worker-0") and os.path.exists("worker-1"))
def contents(array):
    return array.tolist()
"""


def test_arguments_and_results_stay_where_they_are(program):
    program(FUNCTIONS, """
        with onespace.Executor(2) as pool:
            a = np.arange(1 << 18)
            assert pool.submit(about, a).result(180) == (address(a), False)
            result, where = pool.submit(own, 1 << 18).result()
            assert address(result) == where and not result.flags.writeable and result.sum() == 1 << 18
        """)


@pytest.mark.parametrize("view", ["a", "a[::2]", "a[5:-5, 3]", "a.T", "a[::-1, ::-3]", "np.asfortranarray(a)",
                                  "a.astype('>i4')", "a.view('V8')", "np.memmap('file', 'i8', 'w+', shape=(700, 700))",
                                  "a.astype('M8[s]')", "np.zeros((600, 0, 600))", "np.broadcast_to(a[0], (50, 700))"])
def test_arrays_of_all_layouts_arrive(program, view):
    program(FUNCTIONS, f"""
        a = np.arange(490000).reshape(700, 700)
        a = {view}
        with onespace.Executor(1) as pool:
            there, writeable = pool.submit(about, a).result(180)
            assert a.size == 0 or there == address(a) and not writeable
            b = pool.submit(same, a).result()
            assert b.dtype == a.dtype and b.shape == a.shape and b.tobytes() == a.tobytes()
        """)


def test_small_arrays_are_read_only(program):
    program(FUNCTIONS, """
        with onespace.Executor(1) as pool:
            for size in (0, 1, 100, 511, 512, 513):
                a = np.arange(size)
                assert not pool.submit(about, a).result(180)[1]
                b = pool.submit(same, a).result()
                assert not b.flags.writeable and np.array_equal(a, b)
        """)


@pytest.mark.long
@pytest.mark.parametrize("array", ["things.reshape(30, 40)", "things.reshape(30, 40)[::2, ::-1]",
                                   "things.reshape(30, 40).T", "np.array(None, object)", "np.empty((3, 0), object)",
                                   "np.array([(1, 'one'), (2, ['two'])], [('n', 'i4'), ('what', object)])",
                                   "np.array([np.arange(1 << 16), things], object)"])
def test_arrays_of_objects_arrive_as_copies(program, array):
    """As argument and as result, also after the end of the worker."""
    program(FUNCTIONS, f"""
        things = np.array([{{"key": [1, 2]}}, None, "text", 3.5, (4,), b"bytes"] * 200, object)
        a = {array}
        with onespace.Executor(1) as pool:
            assert repr(pool.submit(contents, a).result(180)) == repr(a.tolist())
            b = pool.submit(same, a).result()
            assert pool.submit(die).exception(180)
        assert b.dtype == a.dtype and b.shape == a.shape and repr(b.tolist()) == repr(a.tolist())
        """)


def test_arrays_are_writable_by_request(program):
    program(FUNCTIONS, """
        a = np.zeros(1 << 16)
        with onespace.Executor(1, writable=True) as pool:
            pool.submit(set_first, a, 7).result(180)
            assert a[0] == 7
            result, _ = pool.submit(own, 1 << 16).result()
            result[0] = 5
            assert pool.submit(own, 0).result()[0][0] == 5
            a.flags.writeable = False
            with raises(ValueError, "read-only"):
                pool.submit(set_first, a, 8).result()
            del result
        with onespace.Executor(1, writable="results") as pool:
            with raises(ValueError, "read-only"):
                pool.submit(set_first, np.zeros(1 << 16), 7).result(180)
            pool.submit(ones, 1 << 16).result()[0] = 3
        with onespace.Executor(1, copy_below=1 << 19) as pool:
            b = np.zeros(1 << 12)
            pool.submit(set_first, b, 7).result(180)
            assert b[0] == 0
            with raises(ValueError, "read-only"):
                pool.submit(set_first, np.zeros(1 << 16), 7).result(180)
        """)


def test_no_memory_is_added(program):
    """One array in and out of each call: neither the address space nor its page tables grow."""
    program(FUNCTIONS, """
        def tables():
            with open("/proc/self/status") as status:
                return int(next(line for line in status if line.startswith("VmPTE")).split()[1]) << 10
        with onespace.Executor(1) as pool:
            a = np.ones(256 * MIB, np.uint8)
            pool.submit(same, a).result(180)
            before = resident() + tables()
            views = [pool.submit(same, a).result() for _ in range(40)]
            # The page tables of one array have 512 KiB, those of all 20 MiB.
            assert resident() + tables() - before < 8 * MIB, resident() + tables() - before
            assert all(address(view) == address(a) for view in views)
        """)


def test_arguments_are_freed_when_nothing_uses_them(program):
    program(FUNCTIONS, """
        with onespace.Executor(2) as pool:
            list(pool.map(both, range(2)))  # the memory of one that starts later would count below
            before = resident()
            for _ in range(20):
                pool.submit(first, np.ones(64 * MIB, np.uint8)).result()
            until(lambda: resident() - before < 32 * MIB)
            pool.submit(keep, np.ones(64 * MIB, np.uint8)).result()
            assert resident() - before > 48 * MIB
            for _ in range(20):  # whichever worker has it
                pool.submit(drop).result()
            until(lambda: all(future.result() is None for future in [pool.submit(drop) for _ in range(4)]) and
                  resident() - before < 32 * MIB)
        """)


def test_results_are_freed_when_their_last_view_is_gone(program):
    """Also if the worker is idle."""
    program(FUNCTIONS, """
        with onespace.Executor(1) as pool:
            pool.submit(ones, 10).result(180)
            before = resident()
            result = pool.submit(ones, 8 * MIB).result()
            part = result[5:10][::2]
            del result
            time.sleep(0.2)
            assert resident() - before > 48 * MIB and part.sum() == 3
            del part
            until(lambda: resident() - before < 16 * MIB)
            for _ in range(50):
                pool.submit(ones, 8 * MIB).result()
            until(lambda: resident() - before < 160 * MIB)
        """)


@pytest.mark.parametrize("end", ["pool.shutdown()", "os.kill(pool._group.processes()[0], 9)",
                                 "pool.submit(die).exception(180)", "pool.kill()", "del pool"])
def test_results_outlive_their_worker(program, end):
    program(FUNCTIONS, f"""
        pool = onespace.Executor(1)
        results = [pool.submit(ones, 1 << 20).result(180) for _ in range(3)]
        processes = pool._group.processes()
        views = [result[1::2] for result in results]
        before = resident()
        {end}
        until(lambda: not any(os.path.exists(f"/proc/{{pid}}") for pid in processes))
        time.sleep(0.1)
        assert [result.sum() for result in results] == [1 << 20] * 3
        del results
        assert [view.sum() for view in views] == [1 << 19] * 3
        del views
        until(lambda: before - resident() > 20 * MIB)  # the last view releases the worker's memory
        """)


def test_result_that_is_an_argument_outlives_the_worker(program):
    """The result lies in our memory, not in the worker's."""
    program(FUNCTIONS, """
        pool = onespace.Executor(1, initializer=keep, initargs=(np.full(1 << 20, 3.0),))
        a = np.arange(1 << 20)
        b = pool.submit(same, a[:1 << 19]).result(180)
        assert address(b) == address(a)
        c = pool.submit(own, 0).result()[0]
        del a
        assert pool.submit(die).exception(180)
        pool.shutdown()
        fill = [np.zeros(1 << 20, np.int64) for _ in range(4)]  # would take the place of freed ones
        assert np.array_equal(b, np.arange(1 << 19)) and (c == 3).all()
        """)


def test_result_may_go_to_another_worker_and_another_pool(program):
    program(FUNCTIONS, """
        first, second = onespace.Executor(1), onespace.Executor(1)
        a = first.submit(ones, 1 << 20).result(180)
        first.shutdown()
        assert second.submit(about, a).result(180) == (address(a), False)
        b = second.submit(same, a).result()
        assert address(b) == address(a)
        del a
        assert second.submit(die).exception(180)
        second.shutdown()
        assert b.sum() == 1 << 20
        """)


def test_result_of_a_pool_inside_a_worker_outlives_both(program):
    program(FUNCTIONS + """
inner = []
def nested(count):
    inner.append(onespace.Executor(1))
    return inner[-1].submit(ones, count).result()
""", """
        for end in (lambda pool: pool.submit(die).exception(180), lambda pool: None):
            pool = onespace.Executor(1)
            a = pool.submit(nested, 1 << 20).result(180)
            end(pool)
            pool.shutdown()
            time.sleep(0.3)
            assert a.sum() == 1 << 20
            del a
        """)


def test_views_may_outlive_everything(program):
    """Arrays in globals at the end of the interpreter."""
    program(FUNCTIONS, """
        pool = onespace.Executor(2)
        a = pool.submit(ones, 1 << 20).result(180)
        b = [pool.submit(ones, 1 << 10).result() for _ in range(1000)]
        c = pool.submit(ones, 1 << 20)
        sys.modules["made_up"] = c
        """)


def test_many_results_at_once(program):
    program(FUNCTIONS, """
        with onespace.Executor(2) as pool:
            results = list(pool.map(ones, range(1000, 3000)))
            assert [len(result) for result in results] == list(range(1000, 3000))
            assert all(result.all() for result in results)
            import random
            random.shuffle(results)
            while results:
                del results[-7:]
        """)


def test_large_pickles_are_passed(program):
    """Text and lists, which are copied, of any size."""
    program(FUNCTIONS, """
        with onespace.Executor(1) as pool:
            for thing in (b"x" * (100 * MIB), "y" * (10 * MIB), list(range(MIB))):
                assert pool.submit(same, thing).result(180) == thing
        """)


def test_exceptions_keep_no_worker_memory(program):
    program(FUNCTIONS + """
def fail(array):
    raise ValueError(array)
""", """
        with onespace.Executor(1) as pool:
            a = np.ones(1 << 20)
            error = pool.submit(fail, a).exception(180)
            assert error.args[0].sum() == 1 << 20
        assert error.args[0].sum() == 1 << 20
        """)


def test_pandas_and_arrow_columns_arrive_in_place(play, pools_interpreter, program, needs_modules):
    needs_modules(pools_interpreter, "pandas", "pyarrow")
    play.interpreter = pools_interpreter
    program(FUNCTIONS + """
def column(frame):
    return address(frame["x"].to_numpy()), frame["x"].to_numpy().flags.writeable
def buffers(table):
    return [buffer.address for column in table.columns for chunk in column.chunks for buffer in chunk.buffers()
            if buffer is not None]
def frame(count):
    import pandas
    return pandas.DataFrame({"x": np.ones(count), "n": np.arange(count)})
def table(count):
    import pyarrow
    return pyarrow.table({"x": np.ones(count), "text": ["word"] * count})
""", """
        import pandas, pyarrow
        with onespace.Executor(1) as pool:
            sent = frame(100000)
            assert pool.submit(column, sent).result(180) == (address(sent["x"].to_numpy()), False)
            sent = table(100000)
            assert pool.submit(buffers, sent).result(180) == buffers(sent)
            received, columns = pool.submit(frame, 100000).result(), pool.submit(table, 100000).result()
            assert buffers(pool.submit(same, columns).result()) == buffers(columns)
        assert received.groupby("x")["n"].sum().tolist() == [100000 * 99999 // 2]
        assert columns.column("text")[99999].as_py() == "word" and columns.to_pandas()["x"].sum() == 100000
        """)
