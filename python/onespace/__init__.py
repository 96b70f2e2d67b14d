"""onespace: programs as tasks of one address space, and arrays shared without a copy.

    import numpy, onespace
    field = numpy.zeros((1000, 1000))
    with onespace.export("field", field), onespace.spawn_python("analysis.py") as task:
        task.wait()

and in analysis.py

    field = onespace.import_array(onespace.spawner(), "field")

See docs/python.md."""
from . import _core
from ._errors import OwnerEnded
from .arrays import Export, View, attach, export, exports, import_array
from .channels import Consumer, Output, Producer, Step
from .tasks import ROOT, Task, barrier, init, ntasks, number, spawn, spawn_python, spawner, task_of_number

__version__: str = _core.version()
__all__ = ["Consumer", "Export", "Output", "OwnerEnded", "Producer", "ROOT", "Step", "Task", "View", "attach",
           "barrier",
           "export", "exports", "import_array", "init", "ntasks", "number", "spawn", "spawn_python", "spawner",
           "task_of_number"]
