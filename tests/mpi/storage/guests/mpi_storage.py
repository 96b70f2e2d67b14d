"""mpi_storage.py DIRECTORY: a window on storage from Python; prints "rank N: M wrong"."""
import os
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size
wrong = 0
path = os.path.join(sys.argv[1], f"python{rank}")
info = MPI.Info.Create()
info.Set("alloc_type", "storage")
info.Set("storage_alloc_filename", path)
window = MPI.Win.Allocate(10000, 1, info, comm)
memory = window.tomemory()
window.Fence()
window.Put([bytearray([65 + rank]), MPI.BYTE], (rank + 1) % ranks, 5000)
window.Fence()
wrong += memory[5000] != 65 + (rank - 1) % ranks
window.Sync()
with open(path, "rb") as file:
    wrong += file.read()[5000] != 65 + (rank - 1) % ranks
wrong += window.Get_info().Get("storage_alloc_filename") != path
del memory
window.Free()
info.Set("storage_alloc_factor", "seven")
comm.Set_errhandler(MPI.ERRORS_RETURN)
try:
    MPI.Win.Allocate(10000, 1, info, comm)
    wrong += 1
except MPI.Exception as error:
    wrong += error.Get_error_class() != MPI.ERR_INFO_VALUE
sys.stdout.write(f"rank {rank}: {wrong} wrong\n")  # in one piece
