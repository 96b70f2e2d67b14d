"""bench/applications/poisson.py: conjugate gradients for Poisson's equation on a square, with mpi4py and NumPy. Ranks
have rows of the grid; neighbours exchange a row in each iteration, and one gathers the solution. `poisson.ini`
holds the points along an edge, and how many iterations."""
import pathlib

import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
points, iterations = map(int, pathlib.Path("poisson.ini").read_text(encoding="ascii").split())
first, last = points * world.rank // world.size, points * (world.rank + 1) // world.size
above = world.rank - 1 if world.rank else MPI.PROC_NULL
below = world.rank + 1 if world.rank + 1 < world.size else MPI.PROC_NULL


def laplace(inner):
    """Zero outside the square."""
    outer = numpy.zeros((last - first + 2, points + 2))
    outer[1:-1, 1:-1] = inner
    world.Sendrecv(outer[1], above, recvbuf=outer[-1], source=below)
    world.Sendrecv(outer[-2], below, recvbuf=outer[0], source=above)
    return 4 * inner - outer[:-2, 1:-1] - outer[2:, 1:-1] - outer[1:-1, :-2] - outer[1:-1, 2:]


def dot(one, other):
    # Products of two-dimensional arrays may be split among BLAS's threads, and then rounded otherwise in each run.
    return world.allreduce(float(numpy.sum(one * other)))


rows, columns = numpy.mgrid[first:last, 0:points]
residual = numpy.sin(0.05 * rows) + numpy.cos(0.03 * columns)
solution, direction = numpy.zeros_like(residual), residual.copy()
before = dot(residual, residual)
for _ in range(iterations):
    image = laplace(direction)
    step = before / dot(direction, image)
    solution += step * direction
    residual -= step * image
    now = dot(residual, residual)
    direction = residual + now / before * direction
    before = now

parts = [points * (rank + 1) // world.size - points * rank // world.size for rank in range(world.size)]
whole = numpy.empty((points, points)) if world.rank == 0 else None
world.Gatherv(numpy.ascontiguousarray(solution), (whole, [rows * points for rows in parts]))
objects = world.allgather({"rank": world.rank, "largest": float(solution.max())})  # by pickle
if world.rank == 0:
    print(f"residual {before:.15e}\nnorm {numpy.sqrt(numpy.sum(whole * whole)):.15e}")
    print(f"largest {max(part['largest'] for part in objects):.15e}")
