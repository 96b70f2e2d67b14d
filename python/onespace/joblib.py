"""A backend of joblib: importing this module registers it.

    import joblib
    import onespace.joblib
    with joblib.parallel_config(backend="onespace", n_jobs=4):
        scores = cross_val_score(model, x, y)

Workers read arrays of at least max_nbytes (1 MiB, as in joblib's own backends) in place and read-only; smaller arrays
are copied. Results of any size are writable and are not copied."""
from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

from joblib import cpu_count
from joblib.disk import memstr_to_bytes
from joblib.parallel import (
    AutoBatchingMixin,
    FallbackToBackend,
    ParallelBackendBase,
    SequentialBackend,
    register_parallel_backend,
)

try:
    from cloudpickle import CloudPickler
except ImportError:  # joblib before 1.6 has a copy
    from joblib.externals.cloudpickle import CloudPickler

from .pools.executor import Executor

_lock = threading.Lock()
_cached: tuple[Any, Executor] | None = None  # (options, executor), whose workers wait for the next call


def _executor(count: int, env: dict[str, str], options: dict[str, Any]) -> Executor:
    """The executor of the last call, if its options are the same; otherwise a new one."""
    global _cached
    key = (count, env, options)
    with _lock:
        if _cached is not None and _cached[0] == key and _cached[1].is_usable:
            return _cached[1]
        # The last one ends its workers when no call uses it any more.
        _cached = (key, Executor(count, env=env, pickler=CloudPickler, import_main=False, writable="results",
                                 **options))
        return _cached[1]


class OnespaceBackend(AutoBatchingMixin, ParallelBackendBase):
    """Makes calls in workers that are tasks of this space. Options: max_nbytes, and bind as in onespace.Executor."""

    supports_retrieve_callback = True
    supports_inner_max_num_threads = True

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self._workers: Executor | None = None
        self._options: dict[str, Any] = {}

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """The number of workers: n_jobs, or counted from the CPUs if that is negative."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None:
            return 1
        return n_jobs if n_jobs > 0 else max(cpu_count() + 1 + n_jobs, 1)

    def configure(self, n_jobs: int = 1, parallel=None, prefer=None, require=None, max_nbytes="1M", bind=False,
                  **others) -> int:
        """Start the workers, or reuse those of the last call. joblib's options for memory-mapped files of arrays
        (mmap_mode and others) have no effect, because there are no files."""
        n_jobs = self.effective_n_jobs(n_jobs)
        if n_jobs == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        max_nbytes = self.backend_kwargs.get("max_nbytes", max_nbytes)
        if isinstance(max_nbytes, str):
            max_nbytes = memstr_to_bytes(max_nbytes)
        bind = self.backend_kwargs.get("bind", bind)
        self._options = {"max_nbytes": max_nbytes, "bind": bind}
        options = {"copy_below": 1 << 62 if max_nbytes is None else max_nbytes, "bind": bind}
        self._workers = _executor(n_jobs, self._prepare_worker_env(n_jobs=n_jobs), options)
        self.parallel = parallel
        return n_jobs

    def submit(self, func, callback=None):
        """Return a future of func(); an error of the workers is its exception. joblib also submits in callbacks, which
        cannot raise."""
        workers = self._workers
        try:
            if workers is None:
                raise RuntimeError("the call has ended")
            future = workers.submit(func)
        except RuntimeError as error:
            future = Future()
            future.set_exception(error)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out):
        """Return the result of a future that is done."""
        return out.result()

    def terminate(self) -> None:
        """End a call. The workers stay for the next one."""
        self._workers = None
        self.reset_batch_stats()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Kill the workers."""
        workers, self._workers = self._workers, None
        if workers is not None:
            workers.kill()
        if ensure_ready:
            self.configure(n_jobs=self.parallel.n_jobs, parallel=self.parallel, **self._options)


register_parallel_backend("onespace", OnespaceBackend)
