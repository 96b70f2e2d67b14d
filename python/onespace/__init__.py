"""onespace: programs as tasks of one address space, and arrays shared without a copy.

    import numpy, onespace
    field = numpy.zeros((1000, 1000))
    with onespace.export("field", field), onespace.spawn_python("analysis.py") as task:
        task.wait()

and in analysis.py

    field = onespace.import_array(onespace.spawner(), "field")

See docs/python.md."""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from . import _core
from .tasks import (
    ROOT,
    OwnerEnded,
    Task,
    barrier,
    call,
    init,
    ntasks,
    number,
    serve_calls,
    spawn,
    spawn_python,
    spawner,
    task_of_number,
)

if TYPE_CHECKING:
    from .arrays import Export, View, attach, export, exports, import_array
    from .channels import Consumer, Output, Producer, Step
    from .mesh import Mesh
    from .pools.executor import Executor
    from .pools.pool import Pool
    from .pools.worker_main import worker_number

__version__: str = _core.version()
__all__ = ["Consumer", "Executor", "Export", "Mesh", "Output", "OwnerEnded", "Pool", "Producer", "ROOT", "Step", "Task",
           "View", "attach", "barrier", "call", "export", "exports", "import_array", "init", "ntasks", "number",
           "serve_calls", "spawn", "spawn_python", "spawner", "task_of_number", "worker_number"]

# Imported at first use: loading NumPy takes longer than starting an interpreter, and workers of a pool, or programs
# that only spawn others, may not need it.
_LAZY_MODULES = {name: module for module, names in {
    "arrays": ("Export", "View", "attach", "export", "exports", "import_array"),
    "channels": ("Consumer", "Output", "Producer", "Step"),
    "mesh": ("Mesh",),
    "pools.executor": ("Executor",),
    "pools.pool": ("Pool",),
    "pools.worker_main": ("worker_number",)}.items() for name in names}


def __getattr__(name: str):
    if name in ("arrays", "channels", "mesh"):  # modules
        return importlib.import_module(f".{name}", __name__)
    if name not in _LAZY_MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_LAZY_MODULES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
