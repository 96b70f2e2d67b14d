"""C functions of other tasks, called from Python."""


def test_function_of_a_task_is_called(play):
    play(root="""
        task = onespace.spawn(["sleep", "600"], calls=True)
        text = ctypes.create_string_buffer(b"  4711 and more", 32)
        assert task.call("strtol", text, None, 10) == 4711
        assert task.call("strtol", b"777", None, 8) == 0o777
        assert task.call("getpid") == os.getpid()
        numbers = np.array([1.0, 2.0, 3.0])
        block = task.call("malloc", numbers.nbytes)
        assert task.call("memmem", numbers, numbers.nbytes, np.array([3.0]), 8) == numbers.ctypes.data + 16
        assert ctypes.memset(block, 1, 8) == block
        task.call("free", block)
        task.kill()
        """)


def test_function_of_a_program_without_onespace_is_called(play, guests):
    play(root=f"""
        reading, writing = os.pipe()
        task = onespace.spawn([{str(guests("called"))!r}], stdin=reading, close_fds=True, calls=True)
        assert [task.call("add_to_state", i) for i in (1, 2, -3)] == [8, 10, 7]
        task.kill()
        """)


def test_calls_that_fail_say_why(play):
    play(root="""
        task = onespace.spawn(["sleep", "600"], calls=True)
        with raises(LookupError, "has no function 'no_such_function'"):
            task.call("no_such_function")
        with raises(TypeError, "6 arguments at most"):
            task.call("atoi", *range(7))
        with raises(TypeError, "of type float", "give an integer"):
            task.call("atoi", 1.5)
        with raises(OverflowError, "64 bits"):
            task.call("labs", 1 << 70)
        assert task.call("labs", -5) == 5
        other = onespace.spawn(["sleep", "600"])
        with raises(OSError, "does not serve calls"):
            other.call("labs", -5)
        for owner in (task, other):
            owner.kill()
            owner.wait(180)
        with raises(ProcessLookupError, "cannot be looked up"):
            task.call("labs", -5)
        """)


def test_other_threads_run_during_a_call(play):
    play(root="""
        import threading
        task = onespace.spawn(["sleep", "600"], calls=True)
        reading, writing = os.pipe()
        byte, ended = ctypes.create_string_buffer(1), []
        thread = threading.Thread(target=lambda: ended.append(task.call("read", reading, byte, 1)))
        thread.start()
        for _ in range(1000):
            time.sleep(0)  # lets the thread go on into the call, which lasts until the write below
        assert thread.is_alive() and not ended, ended
        os.write(writing, b"x")
        thread.join()
        assert ended == [1] and byte.raw == b"x", (ended, byte.raw)
        task.kill()
        """)


def test_task_calls_a_program_that_serves(play):
    play(root="""
        onespace.serve_calls()
        assert start("task").wait(180) == 0
        """, task="""
        assert onespace.call(onespace.spawner(), "labs", -7) == 7
        assert onespace.call(onespace.spawner(), "getpid") == os.getpid()
        """)
