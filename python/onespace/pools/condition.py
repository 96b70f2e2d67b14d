"""A condition variable whose lock a signal's handler that raises cannot leave in the wrong state."""
from __future__ import annotations

import threading


class Condition(threading.Condition):
    """threading.Condition acquires and releases its lock in methods written in Python. A handler that raises in there
    leaves the lock acquired, and all who need it waiting, or makes `with` release it twice."""

    # `with` calls the lock's own, in which no handler runs.
    __enter__ = property(lambda self: self._lock.__enter__)  # type: ignore[assignment]
    __exit__ = property(lambda self: self._lock.__exit__)  # type: ignore[assignment]

    def wait(self, timeout: float | None = None) -> bool:
        """As threading.Condition.wait. Precondition: the lock is held, once."""
        waiter = threading.Lock()
        waiter.acquire()
        self._waiters.append(waiter)
        notified = False
        try:
            self._lock.release()
            notified = waiter.acquire(True, -1 if timeout is None else max(0, min(timeout, threading.TIMEOUT_MAX)))
            return notified
        finally:
            if not self._is_owned():
                self._lock.acquire()
            if not notified and waiter in self._waiters:
                self._waiters.remove(waiter)
