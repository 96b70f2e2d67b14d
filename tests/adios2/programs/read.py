"""tests/adios2/programs/read.py: a reader that uses ADIOS2's Python package only."""
import numpy as np
from adios2 import Adios, Stream

io = Adios("adios2.xml").declare_io("reader")
with Stream(io, "python", "r") as stream:
    for _ in stream.steps():
        i = stream.current_step()
        whole = np.arange(12, dtype=np.float32).reshape(3, 4) + i
        assert np.array_equal(stream.read("u"), whole)
        assert np.array_equal(stream.read("u", [1, 1], [2, 3]), whole[1:, 1:])
        assert stream.read("step") == i and stream.read("text") == f"hello {i}"
        assert stream.read_attribute("units") == "m s-1" and stream.read_attribute(f"seen {i}") == i
        assert stream.available_variables()["u"]["Shape"] == "3, 4"
        assert float(stream.engine.blocks_info("u", i)[0]["Max"]) == 11 + i
        print("step", i)
print("the end")
