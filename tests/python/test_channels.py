"""Channels in Python: steps of a producer as an iteration of its consumers."""


def test_steps_are_an_iteration(play):
    play(root="""
        field = np.zeros((3, 4))
        task = start("task")
        with onespace.Producer("flow", consumers=1) as channel:
            for number in range(1, 51):
                with channel.step(number, timeout=180) as step:
                    field[:] = number
                    step["field"] = field
                    step.put("column", field[:, 1], units="m s-1")
                    step.attribute("time", number / 4)
                    step.attribute("cycle", number)
                    step.attribute("phase", "melting")
        assert task.wait(180) == 0
        """, task="""
        with onespace.Consumer("flow", every=True, timeout=180) as channel:
            seen = []
            for step in channel:
                assert step["field"].shape == (3, 4) and (step["field"] == step.number).all()
                assert step["column"].strides == (32,) and step["column"][2] == step.number
                assert not step["field"].flags.writeable
                assert step.attributes() == {"time": step.number / 4, "cycle": step.number, "phase": "melting"}
                assert step.names() == ["field", "column"] and step.ranks == 1 and step.passed == 0
                info = step.info("column")
                assert info["units"] == "m s-1" and info["shape"] == (3,) and info["dtype"] == "f8", info
                assert info["global_shape"] is None
                seen.append(step.number)
            assert seen == list(range(1, 51)), seen
        """)


def test_arrays_are_not_copied(play):
    play(root="""
        a = np.arange(1 << 20, dtype="f4")
        task = start("task", a.ctypes.data)
        with onespace.Producer("flow", consumers=1) as channel, channel.step(1, timeout=180) as step:
            step["a"] = a
        assert task.wait(180) == 0
        """, task="""
        with onespace.Consumer("flow", timeout=180) as channel:
            for step in channel:
                assert step["a"].ctypes.data == int(sys.argv[2]) and step["a"][-1] == (1 << 20) - 1
        """)


def test_all_types_of_numbers_are_published(play):
    play(root="""
        types = "i1 i2 i4 i8 u1 u2 u4 u8 f4 f8".split()
        task = start("task", *types)
        with onespace.Producer("flow", consumers=1) as channel, channel.step(1, timeout=180) as step:
            for type in types:
                step[type] = np.arange(5).astype(type)  # kept alive by the channel
            step["bytes"] = bytearray(b"abc")
        assert task.wait(180) == 0
        """, task="""
        with onespace.Consumer("flow", timeout=180) as channel:
            for step in channel:
                for type in sys.argv[2:]:
                    assert step[type].dtype == type and step[type].tolist() == [0, 1, 2, 3, 4], type
                assert step["bytes"].tobytes() == b"abc"
        """)


def test_array_that_is_kept_stays_readable(play):
    """After the end of the channel and of the producer: the array holds the memory."""
    play(root="""
        task = start("task")
        with onespace.Consumer("flow", timeout=180) as channel:
            for step in channel:
                kept = step["a"]
        assert task.wait(180) == 0
        assert kept.sum() == 2 << 20
        """, task="""
        a = np.full(1 << 20, 2.0)
        with onespace.Producer("flow", consumers=1) as channel, channel.step(1, timeout=180) as step:
            step["a"] = a
        os._exit(0)
        """)


def test_skipped_step_is_false(play):
    play(root="""
        task = start("task")
        a = np.zeros(3)
        with onespace.Producer("flow", policy="skip", consumers=1) as channel:
            with channel.step(1, timeout=180) as step:
                assert step
                step["a"] = a
            onespace.import_array(task, "holding", timeout=180)
            with channel.step(2, timeout=180) as step:
                assert not step
            onespace.import_array(task, "go", timeout=180)[0] = 1
        assert task.wait(180) == 0
        """, task="""
        go = np.zeros(1)
        with onespace.Consumer("flow", timeout=180) as channel:
            with channel.take(180) as step:
                keep = [onespace.export(name, value) for name, value in (("go", go), ("holding", np.zeros(1)))]
                while not go[0]:
                    time.sleep(0.001)
                assert step.number == 1
            with raises(EOFError, "'flow'", "closed"):
                channel.take(180)
        """)


def test_copies_let_the_producer_go_on(play):
    play(root="""
        task = start("task")
        a = np.zeros(100)
        with onespace.Producer("flow", policy="copy", consumers=1) as channel:
            for number in range(1, 4):
                a[:] = number
                with channel.step(number, timeout=180) as step:
                    step["a"] = a
            a[:] = 99
        assert task.wait(180) == 0
        """, task="""
        with onespace.Consumer("flow", every=True, timeout=180) as channel:
            assert [step["a"].sum() / 100 for step in channel] == [1, 2, 3]
        """)


def test_box_is_gathered_from_all_ranks(play):
    play(root="""
        tasks = [start("task", rank) for rank in range(2)]
        with onespace.Consumer("flow", timeout=180) as channel:
            for step in channel:
                assert step.ranks == 2 and step.get("u", rank=1)[0, 0] == 8
                assert step.info("u", 1)["offset"] == (2, 0) and step.info("u", 1)["global_shape"] == (4, 4)
                assert step.read("u", (1, 1), (2, 3)).tolist() == [[5, 6, 7], [9, 10, 11]]
                with raises(ValueError, "2 dimensions"):
                    step.read("u", (1,), (2,))
                with raises(ValueError, "no rank 2"):
                    step.get("u", 2)
        assert [task.wait(180) for task in tasks] == [0, 0]
        """, task="""
        rank = int(sys.argv[2])
        u = np.arange(16.0).reshape(4, 4)[2 * rank:2 * rank + 2].copy()
        with onespace.Producer("flow", rank=rank, ranks=2, consumers=1) as channel:
            with channel.step(1, timeout=180) as step:
                step.put("u", u, global_shape=(4, 4), offset=(2 * rank, 0))
        """)


def test_death_of_the_producer_ends_the_iteration(play):
    play(root="""
        task = start("task")
        with onespace.Consumer("flow", timeout=180) as channel:
            with raises(onespace.OwnerEnded, "'flow'", "died"):
                for step in channel:
                    kept = step["a"]
                    task.kill()
            assert kept.sum() == 3
        task.wait()
        """, task="""
        with onespace.Producer("flow", consumers=1) as channel:
            with channel.step(1) as step:
                step["a"] = np.ones(3)
            time.sleep(600)
        """)


def test_death_of_a_consumer_frees_the_producer(play):
    play(root="""
        task = start("task")
        with onespace.Producer("flow", consumers=1) as channel:
            with channel.step(1, timeout=180) as step:
                step["a"] = np.ones(3)
            onespace.import_array(task, "holding", timeout=180)
            with raises(TimeoutError, "'flow'", "consumers still need"):
                channel.step(2, timeout=0.1)
            task.kill()
            with channel.step(2, timeout=180) as step:
                step["a"] = np.ones(3)
        task.wait()
        """, task="""
        with onespace.Consumer("flow", every=True, timeout=180) as channel:
            for step in channel:
                onespace.export("holding", np.zeros(1))
                time.sleep(600)
        """)


def test_errors_have_messages(play):
    play(root="""
        with raises(ValueError, "unknown policy 'often'"):
            onespace.Producer("flow", policy="often")
        with raises(TimeoutError, "'flow'", "check the name"):
            onespace.Consumer("flow", timeout=0.1)
        with raises(ValueError):
            onespace.Producer("")
        channel = onespace.Producer("flow")
        with raises(FileExistsError, "flow"):
            onespace.Producer("flow")
        with raises(LookupError, "no step was begun"):
            channel.put("a", np.zeros(3), "", None, None)
        consumer = onespace.Consumer("flow", timeout=180)
        step = channel.step(5)
        with raises(RuntimeError, "flow"):
            channel.step(6)
        for wrong in (np.zeros(2, "?"), np.zeros(2, ">f8"), np.zeros(2, "c8"), np.array(["text"]), np.zeros(2, "M8[s]"),
                      np.array([None]), [1, 2], 7):
            with raises(TypeError, "'a'"):
                step["a"] = wrong
        for wrong in (np.array(3.0), np.zeros((1,) * 5)):
            with raises(ValueError, "'a'", "dimensions"):
                step["a"] = wrong
        with raises(ValueError, "'a'", "overlap"):
            step["a"] = np.zeros(5)[::-1]
        with raises(ValueError, "'a'", "overlap"):
            step["a"] = np.broadcast_to(3.0, (1000, 2))
        with raises(ValueError, "'a'", "not mapped"):
            step["a"] = np.lib.stride_tricks.as_strided(np.zeros(1), (1 << 40,), (8,))
        with raises(ValueError, "global_shape", "2 entries"):
            step.put("a", np.zeros(3), global_shape=(2, 2))
        step["a"] = np.zeros(3)
        with raises(FileExistsError, "'a'"):
            step["a"] = np.zeros(3)
        with raises(TypeError):
            step.attribute("list", [1])
        with step:
            pass
        taken = consumer.take(180)
        with raises(LookupError, "no array 'b'", "'a'"):
            taken["b"]
        taken.release()
        with raises(ValueError, "not held"):
            taken["a"]
        with raises(ValueError):
            channel.step(5)
        with raises(TimeoutError, "no step was published"):
            consumer.take(0.05)
        consumer.close()
        consumer.close()
        with raises(ValueError, "closed"):
            consumer.take(0)
        channel.close()
        with raises(ValueError, "closed"):
            channel.step(7)
        """)


def test_block_that_fails_does_not_wait_for_consumers(play):
    play(root="""
        with raises(ZeroDivisionError):
            with onespace.Producer("flow") as channel, onespace.Consumer("flow", every=True, timeout=180) as consumer:
                consumer_of_all = onespace.Consumer("flow", every=True, timeout=180)
                with channel.step(1) as step:
                    step["a"] = np.zeros(3)
                1 / 0
        """)


def test_two_threads_may_read_their_first_arrays_at_once(play):
    """NumPy is imported then, which lets other threads run."""
    play(root='''
        import subprocess
        subprocess.run([sys.executable, "-c", """if True:
            import array, sys, threading
            import onespace
            assert "numpy" not in sys.modules
            data, gate = array.array("d", range(10)), threading.Barrier(2)
            producers = [onespace.Producer(f"c{i}", depth=2) for i in range(2)]
            consumers = [onespace.Consumer(f"c{i}", timeout=180) for i in range(2)]
            for producer in producers:
                with producer.step(1) as step:
                    step["x"] = data
            steps = [consumer.take(180) for consumer in consumers]
            seen = []
            def read(i):
                gate.wait()
                seen.append(steps[i]["x"][3])
            threads = [threading.Thread(target=read, args=[i]) for i in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert seen == [3.0, 3.0], seen
            """], check=True, timeout=180)
        ''')


def test_published_buffers_cannot_be_resized(play):
    play(root="""
        data = bytearray(1 << 20)
        with onespace.Producer("flow", depth=1) as channel:
            with channel.step(1) as step:
                step["x"] = data
            with raises(BufferError):
                data.clear()
            with channel.step(2) as step:  # no consumer has step 1
                step["y"] = bytearray(10)
            data.clear()
        """)
