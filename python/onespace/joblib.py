"""A backend of joblib: importing this module registers it.

    import joblib
    import onespace.joblib
    with joblib.parallel_config(backend="onespace", n_jobs=4):
        scores = cross_val_score(model, x, y)

Arrays of max_nbytes and more (1 MiB, as joblib's own backends have it) are not copied to workers but read in place,
read-only; smaller ones are copied. Results stay where they were made, whatever their size, and are writable."""
from __future__ import annotations

import threading
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
_kept: tuple[Any, Executor] | None = None  # with what it was made for; workers wait there for the next call


def _executor(count: int, env: dict[str, str], options: dict[str, Any]) -> Executor:
    """The workers of the call before, if they are of the same kind."""
    global _kept
    kind = (count, env, options)
    with _lock:
        if _kept is not None and _kept[0] == kind and _kept[1].is_usable:
            return _kept[1]
        if _kept is not None:
            _kept[1].shutdown(wait=False)
        _kept = (kind, Executor(count, env=env, pickler=CloudPickler, import_main=False, writable="results", **options))
        return _kept[1]


class OnespaceBackend(AutoBatchingMixin, ParallelBackendBase):
    """Calls in workers that are tasks of this space. Options: max_nbytes, and bind as onespace.Executor has it."""

    supports_retrieve_callback = True
    supports_inner_max_num_threads = True

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self._workers: Executor | None = None

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """The number of workers: n_jobs, or counted from the CPUs if that is negative."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None:
            return 1
        return n_jobs if n_jobs > 0 else max(cpu_count() + 1 + n_jobs, 1)

    def configure(self, n_jobs: int = 1, parallel=None, prefer=None, require=None, max_nbytes="1M", bind=False,
                  **others) -> int:
        """Starts the workers, or uses those of the last call again. joblib's options about files for arrays
        (mmap_mode and the like) mean nothing here: there are none."""
        n_jobs = self.effective_n_jobs(n_jobs)
        if n_jobs == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        max_nbytes = self.backend_kwargs.get("max_nbytes", max_nbytes)
        if isinstance(max_nbytes, str):
            max_nbytes = memstr_to_bytes(max_nbytes)
        options = {"copy_below": 1 << 62 if max_nbytes is None else max_nbytes,
                   "bind": self.backend_kwargs.get("bind", bind)}
        self._workers = _executor(n_jobs, self._prepare_worker_env(n_jobs=n_jobs), options)
        self.parallel = parallel
        return n_jobs

    def submit(self, func, callback=None):
        """A future of func()."""
        future = self._workers.submit(func)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out):
        """The result of a future that is done."""
        return out.result()

    def terminate(self) -> None:
        """The end of a call. The workers stay for the next one."""
        self._workers = None
        self.reset_batch_stats()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Ends the workers, whatever they do."""
        workers, self._workers = self._workers, None
        if workers is not None:
            workers.kill()
        if ensure_ready:
            self.configure(n_jobs=self.parallel.n_jobs, parallel=self.parallel)


register_parallel_backend("onespace", OnespaceBackend)
