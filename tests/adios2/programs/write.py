"""tests/adios2/programs/write.py: a writer by ADIOS2's Python package, which knows nothing of onespace."""
import sys

import numpy as np
from adios2 import Adios, Stream

steps = int(sys.argv[1])
io = Adios("adios2.xml").declare_io("writer")
io.define_attribute("units", "m s-1")
with Stream(io, "python", "w") as stream:
    for _ in stream.steps(steps):
        i = stream.current_step()
        stream.write("u", np.arange(12, dtype=np.float32).reshape(3, 4) + i, [3, 4], [0, 0], [3, 4])
        stream.write("step", i)
        stream.write("text", f"hello {i}")
        stream.write_attribute(f"seen {i}", i)
