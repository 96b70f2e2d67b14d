"""mpi_windows.py: shared windows from Python, which opens its MPI library late."""
import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, ranks = world.rank, world.size
window = MPI.Win.Allocate_shared(64, 8, comm=world)
wrong = 0
for other in range(ranks):
    address = window.Shared_query(other)[0].address
    wrong += len(set(world.allgather(address))) != 1
mine = memoryview(window.tomemory()).cast("q")
wrong += list(mine) != [0] * 8
mine[0] = rank * 100
window.Fence()
theirs = memoryview(window.Shared_query((rank + 1) % ranks)[0]).cast("q")
wrong += theirs[0] != (rank + 1) % ranks * 100
window.Fence()
one, old = bytearray((1).to_bytes(8, "little")), bytearray(8)
window.Lock_all()
window.Fetch_and_op([one, MPI.INT64_T], [old, MPI.INT64_T], 0, 1, MPI.SUM)
window.Unlock_all()
window.Fence()
count = memoryview(window.Shared_query(0)[0]).cast("q")[1]
wrong += count != ranks or not 0 <= int.from_bytes(old, "little") < ranks
wrong += window.flavor != MPI.WIN_FLAVOR_SHARED or window.Get_group().size != ranks
window.Free()
sys.stdout.write(f"rank {rank}: {wrong} wrong\n")  # at once: print writes the end of the line apart
