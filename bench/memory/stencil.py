"""bench/memory/stencil.py: an mpi4py program as many are: arrays, temporaries, exchanges, Python objects.

usage: stencil.py SIZE

At each point all ranks create $ONESPACE_POINTS/POINT.RANK and wait for $ONESPACE_POINTS/POINT.go."""
import os
import pathlib
import sys
import time

import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size
points = os.environ.get("ONESPACE_POINTS")


def point(name):
    if points:
        pathlib.Path(points, f"{name}.{rank}").touch()
        while not pathlib.Path(points, f"{name}.go").exists():
            time.sleep(0.01)


point("start")
size = int(sys.argv[1])
field = numpy.zeros((size + 2, size))
field[0] = 1
source = numpy.random.rand(size + 2, size)
point("arrays")
up, down = (rank - 1) % ranks, (rank + 1) % ranks
for _ in range(10):
    comm.Sendrecv(field[1], up, recvbuf=field[-1], source=down)
    comm.Sendrecv(field[-2], down, recvbuf=field[0], source=up)
    new = 0.25 * (field[:-2] + field[2:] + numpy.roll(field[1:-1], 1, 1) + numpy.roll(field[1:-1], -1, 1)) \
        + 1e-6 * source[1:-1]
    comm.allreduce(float(numpy.abs(new - field[1:-1]).max()), op=MPI.MAX)
    field[1:-1] = new
point("steps")
rows = comm.gather({"rank": rank, "rows": [list(map(float, row[:50])) for row in field[:200]]}, root=0)
total = comm.allreduce(field, op=MPI.SUM)
point("reduced")
del new, total, rows
point("freed")
