"""NumPy arrays that tasks share: all layouts and types, lifetimes, and rejected arrays."""
import pytest

ARRAYS = """
def arrays():
    '''By name: arrays of all layouts and types, the same each time.'''
    made = {}
    base = np.arange(120.0).reshape(4, 5, 6)
    made.update({"c": base.copy(), "fortran": np.asfortranarray(base),
                 "reversed": base[::-1, :, ::-1].copy()[::-1, ::2], "transposed": base.T,
                 "steps": base[1:, ::2, ::-3], "broadcast": np.broadcast_to(np.arange(3), (4, 3)),
                 "scalar": np.array(3.5), "empty": np.zeros((3, 0, 2), "i2"), "single": np.ones((1, 1, 1)),
                 "axes": np.zeros((1,) * 32)})
    for type in "? i1 u1 i2 u2 i4 u4 i8 u8 f2 f4 f8 g c8 c16 G >i2 >u4 >f8 >c16".split():
        made[type] = np.arange(7).astype(type)
    made["dates"] = np.array(["2020-02-29", "NaT"], "M8[s]")
    made["spans"] = np.array([1, -5], ">m8[us]")
    made["bytes"] = np.array([b"one", b"three"])
    made["text"] = np.array(["eins", "dr\\u00fcben \\U0001f600"])
    made["void"] = np.array([b"abc"], "V5")
    fields = np.zeros(3, [("x", "<f4"), ("name", "U3"), ("cell", ">i8", (2, 2)), ("in", [("a", "i1"), ("b", "f8")])])
    fields["x"], fields["name"], fields["cell"][1], fields["in"]["b"] = 1.5, ["a", "bc", "def"], 9, [1, 2, 3]
    made["fields"], made["field"] = fields, fields["in"]["b"]
    aligned = np.zeros(2, np.dtype([("a", "i1"), ("b", "f8")], align=True))
    aligned["b"] = [1, 2]
    made["aligned"] = aligned
    made["record"] = aligned.view(np.recarray)
    return made
"""


def test_arrays_of_every_layout_and_type_are_imported(play):
    play.common = ARRAYS
    play(root="""
        exported = [onespace.export(name, value) for name, value in arrays().items()]
        assert start("task").wait(180) == 0
        assert all(not export.users for export in exported)
        """, task="""
        for name, expected in arrays().items():
            imported = onespace.import_array(onespace.ROOT, name, timeout=0)
            assert imported.dtype == expected.dtype and imported.shape == expected.shape, (name, imported)
            assert imported.strides == expected.strides and imported.flags.writeable == expected.flags.writeable, name
            padded = expected.dtype.kind in "fc" and expected.dtype.char in "gG"  # with padding bytes
            assert np.array_equal(imported, expected) if padded else imported.tobytes() == expected.tobytes(), name
            del imported
        """)


def test_memory_is_the_owners_in_both_directions(play):
    play(root="""
        a = np.zeros((3, 4), order="F")
        with onespace.export("a", a[::2, ::-1]):
            task = start("task")
            imported = onespace.import_array(task, "b", timeout=180)
            imported[:] = 5
            assert task.wait(180) == 0
        assert a[0, 3] == 1 and a[2, 0] == 2 and a.sum() == 3, a
        """, task="""
        b = np.zeros(2)
        a = onespace.import_array(onespace.ROOT, "a")
        a[0, 0], a[1, 3] = 1, 2
        with onespace.export("b", b):
            while b[1] != 5:
                time.sleep(0.001)
        """)


@pytest.mark.parametrize("data", [
    "bytearray(b'abcdef')", "array.array('d', [1, 2, 3])", "(ctypes.c_int32 * 4)(1, 2, 3)", "Dlpack()", "Interface()",
    "memoryview(bytearray(24)).cast('i', [2, 3])", "__import__('mmap').mmap(-1, 4096)"])
def test_objects_with_buffers_can_be_exported(play, data):
    play(root=f"""
        class Dlpack:
            def __init__(self):
                self.array = np.arange(6.0)
            def __dlpack__(self, **options):
                return self.array.__dlpack__(**options)
            def __dlpack_device__(self):
                return self.array.__dlpack_device__()
        class Interface:
            def __init__(self):
                self.array = np.arange(6, dtype="i2")
                self.__array_interface__ = self.array.__array_interface__
        data = {data}
        with onespace.export("data", data) as export:
            assert start("task").wait(180) == 0
            assert export.array.reshape(-1)[1] == 99
            shown = np.from_dlpack(data) if isinstance(data, Dlpack) else np.asarray(data)
            assert isinstance(data, __import__("mmap").mmap) or shown.reshape(-1)[1] == 99, shown
        """, task="onespace.import_array(onespace.ROOT, 'data').reshape(-1)[1] = 99")


def test_read_only_is_kept(play):
    play(root="""
        fixed = np.arange(4)
        fixed.flags.writeable = False
        keep = [onespace.export("asked", np.arange(4), read_only=True), onespace.export("fixed", fixed),
                onespace.export("constant", b"abcd"), onespace.export("free", np.arange(4))]
        assert start("task").wait(180) == 0
        """, task="""
        for name in ("asked", "fixed", "constant"):
            array = onespace.import_array(onespace.ROOT, name)
            with raises(ValueError, "read-only"):
                array[0] = 1
        array = onespace.import_array(onespace.ROOT, "free", read_only=True)
        with raises(ValueError, "read-only"):
            array[0] = 1
        onespace.import_array(onespace.ROOT, "free")[0] = 1
        """)


def test_view_serves_the_protocols(play):
    play(root="""
        a = np.arange(6.0).reshape(2, 3)
        with onespace.export("a", a):
            assert start("task").wait(180) == 0
        assert a[1, 2] == 9
        """, task="""
        with onespace.attach(onespace.ROOT, "a") as view:
            assert view.owner == onespace.ROOT and view.name == "a" and not view.ended and "'a'" in repr(view)
            for same in (view.array, np.asarray(view), np.from_dlpack(view), np.asarray(memoryview(view.array))):
                same[1, 2] += 1
                del same
            assert view.array[1, 2] == 9
            assert np.array(view, dtype="f4").dtype == np.float32 and np.asarray(view)[1, 2] == 9
        """)


def test_closed_view_gives_the_hold_back(play):
    play(root="""
        a = np.zeros(100)
        export = onespace.export("a", a)
        task = start("task")
        assert task.wait(180) == 0
        export.wait_unused(0)
        """, task="""
        view = onespace.attach(onespace.ROOT, "a")
        part = view.array[3:5]
        with raises(BufferError, "'a'", "still in use"):
            view.close()
        assert part[0] == 0 and view.array[0] == 0
        del part
        view.close()
        with raises(ValueError, "closed"):
            view.array
        """)


def test_array_outlives_its_owner_while_viewed(play):
    play(root="""
        task = start("task")
        view = onespace.attach(task, "a", timeout=180)
        array = view.array
        onespace.import_array(task, "go", timeout=180)[0] = 1
        assert task.wait(180) == 0
        assert view.ended
        with raises(onespace.OwnerEnded, "'a'", f"task {task.id}", ".remains"):
            view.array
        with raises(onespace.OwnerEnded, "'a'"):
            np.asarray(view)
        assert view.remains is array and array.sum() == 499999500000.0
        with raises(onespace.OwnerEnded, "'a'", f"task {task.id}"):
            onespace.import_array(task, "a", timeout=180)
        """, task="""
        keep = onespace.export("a", np.arange(1e6))
        go = np.zeros(1)
        onespace.export("go", go)
        while not go[0]:
            time.sleep(0.001)
        """)


def test_array_of_a_held_task_can_be_imported_after_its_end(play):
    play(root="""
        task = start("task", hold=True)
        assert task.wait(180) == 0
        with onespace.attach(task, "a") as view:
            assert view.ended and view.remains.sum() == 45
        """, task="onespace.export('a', np.arange(10.0))")


def test_owner_that_dies_ends_the_wait_for_a_name(play):
    play(root="""
        task = start("task")
        with raises(onespace.OwnerEnded, "'a'", f"task {task.id}"):
            onespace.import_array(task, "a", timeout=180)
        task.wait()
        """, task="time.sleep(0.3); os.kill(os.getpid(), signal.SIGKILL)")


def test_task_that_executes_another_program_uses_and_owns_nothing(play):
    play(root="""
        export = onespace.export("field", np.zeros(1000))
        task = start("task")
        view = onespace.attach(task, "mine", timeout=180)
        assert export.users == [task.id] and not view.ended
        onespace.export("go", np.zeros(1))
        export.wait_unused(timeout=180)
        assert export.users == [] and view.ended
        with raises(onespace.OwnerEnded, "'mine'"):
            view.array
        os.kill(task.pid, signal.SIGKILL)
        assert task.wait(180) == -signal.SIGKILL
        """, task="""
        field = onespace.import_array(onespace.ROOT, "field", timeout=180)
        onespace.export("mine", np.ones(10))
        onespace.import_array(onespace.ROOT, "go", timeout=180)
        os.execv("/bin/sleep", ["sleep", "300"])
        """)


def test_closed_export_is_kept_while_viewed(play):
    """Freed arrays of that size are unmapped: the task would crash."""
    play(root="""
        a = np.ones(1 << 22)
        export = onespace.export("a", a)
        task = start("task")
        onespace.import_array(task, "ready", timeout=180)
        assert export.users == [task.id] and onespace.exports() == {"a": export}
        export.close()
        export.close()
        del a, export
        go = onespace.export("go", np.zeros(1))
        assert list(onespace.exports()) == ["go"]
        assert task.wait(180) == 0
        """, task="""
        a = onespace.import_array(onespace.ROOT, "a")
        onespace.export("ready", np.zeros(1))
        onespace.import_array(onespace.ROOT, "go", timeout=180)
        assert a.sum() == 1 << 22
        with raises(TimeoutError, "'a'"):
            onespace.import_array(onespace.ROOT, "a", timeout=0)
        """)


def test_export_in_use_names_its_users(play):
    play(root="""
        export = onespace.export("a", np.zeros(3))
        task = start("task")
        onespace.import_array(task, "ready", timeout=180)
        with raises(TimeoutError, "'a'", f"task {task.id}"):
            export.wait_unused(0.1)
        task.kill()
        export.wait_unused(180)  # views of dead tasks do not count
        task.wait()
        onespace.export("a", np.zeros(4)).close()
        """, task="""
        a = onespace.import_array(onespace.ROOT, "a")
        onespace.export("ready", np.zeros(1))
        time.sleep(600)
        """)


@pytest.mark.parametrize("data,error,words", [
    ("np.array([1, 'two', None], object)", "TypeError", ["Python objects", "astype"]),
    ("np.zeros(2, [('a', 'i4'), ('b', 'O')])", "TypeError", ["Python objects"]),
    ("[1, 2, 3]", "TypeError", ["list", "numpy.asarray"]),
    ("42", "TypeError", ["int", "numpy.asarray"]),
    ("np.float64(3)", "TypeError", ["float64", "numpy.asarray"]),
    ("np.ma.masked_array([1, 2], [0, 1])", "TypeError", ["mask"]),
    ("np.lib.stride_tricks.as_strided(np.zeros(4), (1000,), (8,))", "ValueError", ["lies about its shape (1000,)"]),
    ("np.lib.stride_tricks.as_strided(np.zeros(4), (2,), (-8,))", "ValueError", ["lies about its shape (2,)"]),
    ("Lie()", "ValueError", ["lies about its shape"]),
])
def test_unshareable_objects_are_rejected(play, data, error, words):
    play(root=f"""
        class Lie:
            __array_interface__ = {{"shape": (1 << 50,), "typestr": "<f8", "data": (id(np), False), "version": 3}}
        with raises({error}, "'name'", *{words!r}):
            onespace.export("name", {data})
        assert not onespace.exports()
        onespace.export("name", np.zeros(3)).close()
        """)


@pytest.mark.parametrize("name,error,words", [
    ("", "ValueError", ["not empty"]),
    ("n" * 90, "OSError", ["too long", "89"]),
    ("taken", "FileExistsError", ["'taken'", "already"]),
])
def test_invalid_name_is_rejected(play, name, error, words):
    play(root=f"""
        taken = onespace.export("taken", np.zeros(1))
        with raises({error}, *{words!r}):
            onespace.export({name!r}, np.zeros(1))
        onespace.export("n" * 89, np.zeros(1)).close()
        """)


def test_array_of_another_type_or_shape_is_rejected(play):
    play(root="""
        export = onespace.export("a", np.zeros((2, 3)))
        assert start("task").wait(180) == 0 and export.users == []
        """, task="""
        assert onespace.import_array(0, "a", dtype="f8", shape=(2, 3)).shape == (2, 3)
        with raises(TypeError, "'a'", "float64", "float32", "astype"):
            onespace.import_array(0, "a", dtype=np.float32)
        with raises(TypeError, "'a'", "float64"):
            onespace.import_array(0, "a", dtype=">f8")
        with raises(ValueError, "'a'", "(2, 3)", "(6,)"):
            onespace.import_array(0, "a", shape=(6,))
        with raises(TimeoutError, "'b'", "the root", "check the name"):
            onespace.import_array(0, "b", timeout=0.1)
        with raises(LookupError, "'own'", "itself"):
            onespace.import_array(onespace.init(), "own", timeout=0.1)
        with raises(onespace.OwnerEnded, "task 999"):
            onespace.import_array(999, "a", timeout=0.1)
        with raises(ValueError, "negative"):
            onespace.import_array(0, "a", timeout=-1)
        """)


def test_array_of_another_task_is_not_exported_again(play):
    """A hold on the exporting task would not hold the memory, which is another's."""
    play(root="""
        task = start("task")
        with raises(ValueError, "'b'", f"task {task.id}"):
            onespace.export("b", onespace.import_array(task, "a", timeout=180)[2:])
        task.kill()
        task.wait()
        """, task="""
        onespace.export("a", np.zeros(1000))
        time.sleep(600)
        """)


@pytest.mark.parametrize("what,words", [
    ("shape = 1 << 40", ["lies about its shape"]), ("stride = 1 << 62", ["lies about its shape"]),
    ("low = 4096", ["lies about its shape"]), ("magic = 1", ["not exported as an array"]),
    ("dimensions = 65", ["lies about its shape"]), ("dimensions = 0xffffffff", ["lies about its shape"]),
    ("type = 'nonsense('", ["lies about its type", "nonsense("]), ("type = \"'<f4'\"", ["lies about its type"]),
    ("type = \"'|O'\"", ["lies about its type"]), ("type = \"['\"", ["lies about its type"])])
def test_inconsistent_structure_is_rejected(play, what, words):
    play(root=f"""
        export = onespace.export("a", np.zeros(8))
        library = ctypes.CDLL("libonespace.so.0")
        address, size = ctypes.c_void_p(), ctypes.c_size_t()
        assert library.onespace_import(0, b"a@array", ctypes.byref(address), ctypes.byref(size), 0) == 0
        offsets = dict(magic=0, size=12, address=16, low=24, bytes=32, dimensions=52, shape=64, stride=64 + 512)
        field, value = {what!r}.split(" = ")
        if field == "type":
            text = ctypes.create_string_buffer(eval(value).encode())
            ctypes.memmove(address.value + size.value - 6, text, min(len(text), 6))
            if len(text) > 6:  # a longer text, at another address
                library.onespace_unexport(b"a@array")
                head = ctypes.string_at(address, size.value - 6)
                total = (len(head) + len(text)).to_bytes(4, "little")
                text = ctypes.create_string_buffer(head[:12] + total + head[16:] + text.raw)
                assert library.onespace_export(b"a@array", text, ctypes.c_size_t(len(text) - 1)) == 0
        else:
            kind = ctypes.c_uint32 if field == "dimensions" else ctypes.c_uint64
            number = int(value, 0) if "<<" not in value else eval(value)
            kind.from_address(address.value + offsets[field]).value = number
        assert start("task").wait(180) == 0
        """, task=f"""
        with raises(ValueError, "'a'", *{words!r}):
            onespace.import_array(onespace.ROOT, "a")
        """)


def test_import_of_a_large_array_takes_no_memory(play):
    play(root="""
        a = np.ones(1 << 26)  # 512 MiB
        with onespace.export("a", a):
            assert start("task").wait(180) == 0
        """, task="""
        def resident():
            return int(open("/proc/self/statm").read().split()[1]) * 4096
        onespace.import_array(onespace.ROOT, "a")
        before = resident()
        arrays = [onespace.import_array(onespace.ROOT, "a") for _ in range(10)]
        assert sum(array[-1] for array in arrays) == 10
        assert resident() - before < 8 << 20, resident() - before
        """)


def test_array_has_a_limit_of_views(play):
    play(root="""
        export = onespace.export("a", np.zeros(2))
        assert start("task").wait(180) == 0
        """, task="""
        views = [onespace.attach(onespace.ROOT, "a") for _ in range(1024)]
        with raises(OSError, "'a'", "close some"):
            onespace.attach(onespace.ROOT, "a")
        views.pop().close()
        onespace.attach(onespace.ROOT, "a")
        """)


def test_c_programs_read_and_write_the_same_structure(play, guests):
    play.env["GUEST"] = guests("array")
    result = play(root="""
        matrix = np.arange(6.0).reshape(2, 3)
        export = onespace.export("matrix", np.asfortranarray(matrix).copy("F")[:, ::-1])
        task = onespace.spawn([os.environ["GUEST"], "0"])
        cells = onespace.import_array(task, "cells", timeout=180)
        assert cells.shape == (3, 4) and cells.dtype == "<f8" and cells.sum() == 66
        assert (export.array == 2 * matrix[:, ::-1]).all()
        cells[2, 3] = 77
        del cells
        assert task.wait(180) == 0
        """)
    assert result.out == "2 2 3 f < '<f8' 8\nunused\n", str(result)


def test_freeing_an_array_may_close_another(play):
    """Its memory has a finalizer."""
    play(root="""
        class Memory(bytearray):
            def __del__(self):
                second.close()
                freed.append(True)
        freed, second = [], onespace.export("second", np.arange(9))
        first = onespace.export("first", np.frombuffer(Memory(64), np.uint8))
        view = onespace.attach(onespace.ROOT, "first")
        first.close()
        del first
        view.close()
        onespace.export("third", np.arange(9)).close()
        assert freed and not onespace.exports()
        """)
