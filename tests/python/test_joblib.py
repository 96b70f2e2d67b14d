"""The joblib backend: parallel_config(backend="onespace")."""
import pytest


@pytest.fixture
def joblib_program(play, pools_interpreter, program):
    play.interpreter = pools_interpreter

    def run(main, functions="", **options):
        return program("import joblib\nimport onespace.joblib\nfrom joblib import Parallel, delayed\n" + functions,
                       main, **options)
    return run


def test_calls_are_made_in_workers(joblib_program):
    joblib_program("""
        with joblib.parallel_config(backend="onespace", n_jobs=2):
            assert Parallel()(delayed(lambda x: x * x)(i) for i in range(100)) == [i * i for i in range(100)]
            pids = set(Parallel(batch_size=1)(delayed(os.getpid)() for _ in range(20)))
            assert os.getpid() not in pids and 1 <= len(pids) <= 2
            pids |= set(Parallel()(delayed(os.getpid)() for _ in range(20)))
            assert pids <= set(onespace.joblib._cached[1]._group.processes())  # the same workers
            assert list(Parallel(return_as="generator")(delayed(abs)(-i) for i in range(9))) == list(range(9))
            assert sorted(Parallel(return_as="generator_unordered")(delayed(abs)(-i) for i in range(9))) == [*range(9)]
        assert Parallel(n_jobs=-1, backend="onespace")(delayed(abs)(-i) for i in range(9)) == list(range(9))
        assert Parallel(n_jobs=1, backend="onespace")([delayed(os.getpid)()]) == [os.getpid()]
        """)


def test_program_needs_no_guard(joblib_program):
    """As with joblib's own backend: functions of the main module are sent, it is not imported."""
    joblib_program("""
        def square(x):
            return x * x
        assert Parallel(n_jobs=2, backend="onespace")(delayed(square)(i) for i in range(9)) == [i * i for i in range(9)]
        """, is_guarded=False)


def test_large_arrays_stay_where_they_are(joblib_program):
    joblib_program("""
        def about(array):
            return address(array), array.flags.writeable
        def change(array):
            array[0] = 7
            return array
        large, small = np.arange(1 << 18), np.arange(100)
        with joblib.parallel_config(backend="onespace", n_jobs=2):
            assert Parallel()(delayed(about)(large) for _ in range(4)) == [(address(large), False)] * 4
            changed = Parallel()(delayed(change)(small) for _ in range(4))  # has a copy of its own
            assert all(array[0] == 7 for array in changed) and small[0] == 0
            results = Parallel()(delayed(np.ones)(1 << 18) for _ in range(3))
            results[0][0] = 5  # results may be changed
            with raises(ValueError, "read-only"):
                Parallel()(delayed(change)(large) for _ in range(4))
        with joblib.parallel_config(backend="onespace", n_jobs=2, max_nbytes="8K"):
            array = np.arange(1 << 11)
            assert Parallel()(delayed(about)(array) for _ in range(2)) == [(address(array), False)] * 2
        """)


def test_failures_leave_a_backend_that_works(joblib_program):
    joblib_program("""
        def fail(i):
            raise ValueError(f"reason {i}")
        with joblib.parallel_config(backend="onespace", n_jobs=2):
            with raises(ValueError, "reason"):
                Parallel()(delayed(fail)(i) for i in range(100))
            assert Parallel()(delayed(abs)(-i) for i in range(9)) == list(range(9))
            with raises(BrokenProcessPool, "SIGKILL"):
                Parallel()(delayed(os.kill)(os.getpid() if i < 0 else 0, 0) if i else delayed(eval)(
                    "__import__('os').kill(__import__('os').getpid(), 9)") for i in range(4))
            assert Parallel()(delayed(abs)(-i) for i in range(9)) == list(range(9))
            with raises(pickle.PicklingError, "lock"):
                Parallel()(delayed(type)(threading.Lock()) for i in range(4))
        with raises(ValueError, "n_jobs == 0"):
            Parallel(n_jobs=0, backend="onespace")([delayed(abs)(1)])
        """)


def test_submitting_to_broken_workers_raises_nothing(joblib_program):
    """Nobody would receive it in a callback of joblib's."""
    joblib_program("""
        backend, done = onespace.joblib.OnespaceBackend(), []
        backend.configure(n_jobs=2)
        with raises(BrokenProcessPool, "SIGKILL"):
            backend.submit(functools.partial(eval, "__import__('os').kill(__import__('os').getpid(), 9)")).result()
        future = backend.submit(functools.partial(abs, -1), done.append)
        assert done == [future] and isinstance(future.exception(), BrokenProcessPool)
        backend.terminate()
        with raises(RuntimeError, "has ended"):
            backend.submit(functools.partial(abs, -1)).result()
        """, functions="import functools\n")


def test_workers_after_an_abort_have_the_same_options(joblib_program):
    joblib_program("""
        import types
        backend = onespace.joblib.OnespaceBackend()
        backend.configure(n_jobs=2, parallel=types.SimpleNamespace(n_jobs=2), max_nbytes="8K", bind=[[0]])
        workers = backend._workers
        backend.abort_everything()
        group = backend._workers._group
        assert backend._workers is not workers
        assert group.setup.delivery.copy_below == 8192 and group._cpus == [[0]]
        """)


def test_calls_with_other_options_leave_a_running_one_its_workers(joblib_program):
    joblib_program("""
        running = Parallel(n_jobs=2, backend="onespace", return_as="generator")(delayed(abs)(-i) for i in range(100))
        assert next(running) == 0
        assert Parallel(n_jobs=3, backend="onespace")(delayed(abs)(-i) for i in range(9)) == list(range(9))
        assert list(running) == list(range(1, 100))
        """)


def test_nested_calls_use_threads(joblib_program):
    joblib_program("""
        def inner(i):
            return os.getpid()
        def outer(i):
            return {os.getpid(), *Parallel(n_jobs=2)(delayed(inner)(j) for j in range(4))}
        with joblib.parallel_config(backend="onespace", n_jobs=2):
            assert all(len(pids) == 1 for pids in Parallel()(delayed(outer)(i) for i in range(4)))
        """)


def test_libraries_get_their_share_of_threads(joblib_program):
    joblib_program("""
        import json
        def threads():
            return os.environ["OMP_NUM_THREADS"]
        with joblib.parallel_config(backend="onespace", n_jobs=2, inner_max_num_threads=3):
            assert Parallel()(delayed(threads)() for _ in range(2)) == ["3", "3"]
        """)


@pytest.mark.long
def test_scikit_learn_uses_it(joblib_program, play, needs_modules):
    needs_modules(play.interpreter, "sklearn")
    joblib_program("""
        from sklearn.datasets import make_classification
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import GridSearchCV, cross_val_score
        x, y = make_classification(8000, 20, random_state=1)  # above the size that is shared
        search = GridSearchCV(RandomForestClassifier(3, random_state=1), {"max_depth": [2, 6]}, cv=2)
        expected = search.fit(x, y).cv_results_["mean_test_score"]
        scores = cross_val_score(LogisticRegression(), x, y, cv=3)
        with joblib.parallel_config(backend="onespace", n_jobs=2):
            assert np.allclose(search.fit(x, y).cv_results_["mean_test_score"], expected)
            assert np.allclose(cross_val_score(LogisticRegression(), x, y, cv=3), scores)
        """, timeout=240)
