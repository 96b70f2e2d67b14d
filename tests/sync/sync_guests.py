"""tests/sync/sync_guests.py: builds the guests of onespace/sync, each for a space and for every MPI."""
import pathlib

from jobs import ONESPACE, ROOT

CXX = ("-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}", f"-I{ROOT / 'tests'}")
TIME = 60


def space_guest(guests, source):
    library = ONESPACE.rsplit("/bin/", 1)[0] + "/lib"
    return guests.build(source, ("g++", *CXX, f"-L{library}", f"-Wl,-rpath,{library}"), ("-lonespace",),
                        f"{pathlib.Path(source).stem}-space")


def mpi_guest(guests, mpi, source):
    return guests.build(source, mpi.compiler, (*CXX, "-DFROM_MPI", "-lstdc++", "-lm"),
                        f"{pathlib.Path(source).stem}-{mpi.name}")
