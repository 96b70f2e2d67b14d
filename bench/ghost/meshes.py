"""bench/ghost/meshes.py: the unstructured cube of the paper's sections 4.6 and 6.4, partitioned, and each rank's
lists for a ghost update. Generated once and kept in ~/.cache/onespace/meshes.

Gmsh's HXT fills a cube of side 1 with tetrahedra; METIS partitions the graph of their edges, in one step or, for
several nodes, in two: into nodes first, then each node's part into ranks, so that few points cross the network.
The files of lists are little-endian int32:
  magic, ranks, then the position of each rank's words and of the end;
  a rank's words: own points, neighbours, for each neighbour: rank, sent, received, and the sent points;
  then the ids of all points.
Points are numbered as in the paper's figure 8: own points that are not sent, are sent to one rank (sorted by rank),
or to several; then the ghosts, by the rank that they come from, so that those of each neighbour are contiguous."""
import ctypes
import functools
import os
import pathlib

import numpy as np

import onespace_bench as ob

MAGIC = 0x74736867
HXT = 10  # Gmsh's Mesh.Algorithm3D


def cache_directory():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(cache) / "onespace/meshes"


def write(path, save):
    """Atomic: the file is complete or absent, even with two writers at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{os.getpid()}-{path.name}")
    try:
        with open(unfinished, "wb") as file:
            save(file)
        unfinished.rename(path)
    finally:
        unfinished.unlink(missing_ok=True)


# ---- The mesh ----

def make_graph(size):
    """The edges of the mesh: (xadj, adjncy) in METIS's format."""
    try:
        import gmsh
    except ImportError:
        raise ob.Failure("Gmsh's Python module is not installed (Debian: python3-gmsh; scripts/setup test)") from None
    gmsh.initialize()
    try:
        gmsh.option.setNumber("General.Terminal", 0)
        gmsh.option.setNumber("Mesh.Algorithm3D", HXT)
        gmsh.option.setNumber("Mesh.MeshSizeMin", float(size))
        gmsh.option.setNumber("Mesh.MeshSizeMax", float(size))
        gmsh.model.occ.addBox(0, 0, 0, 1, 1, 1)
        gmsh.model.occ.synchronize()
        gmsh.model.mesh.generate(3)
        _, corners = gmsh.model.mesh.getElementsByType(4)
    finally:
        gmsh.finalize()
    tags, corners = np.unique(corners, return_inverse=True)  # numbered without gaps
    corners = corners.reshape(-1, 4).astype(np.int64)
    count = len(tags)
    pairs = [(i, j) for i in range(4) for j in range(4) if i != j]
    keys = np.unique(np.concatenate([corners[:, i] * count + corners[:, j] for i, j in pairs]))
    start = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(keys // count, minlength=count), out=start[1:])
    return start, (keys % count).astype(np.int32)


def graph_path(size):
    return cache_directory() / f"cube-{size}.npz"


def graph_of(size):
    with np.load(graph_path(size)) as file:
        return file["start"], file["to"]


# ---- Partitions ----

def metis():
    try:
        return ctypes.CDLL("libmetis.so.5")
    except OSError:
        raise ob.Failure("libmetis.so.5 is not installed (Debian: libmetis5; scripts/setup test)") from None


def partition(start, to, parts):
    """The part of each point, by METIS_PartGraphKway with its defaults."""
    part = np.zeros(len(start) - 1, np.int32)
    if parts == 1:
        return part

    def word(value):
        return ctypes.byref(ctypes.c_int32(value))

    def array(values):
        return np.ascontiguousarray(values, np.int32).ctypes.data_as(ctypes.c_void_p)

    start, to = np.ascontiguousarray(start, np.int32), np.ascontiguousarray(to, np.int32)
    done = metis().METIS_PartGraphKway(word(len(part)), word(1), array(start), array(to), None, None, None, word(parts),
                                       None, None, None, word(0), array(part))
    if done != 1 or len(np.unique(part)) != parts:
        raise ob.Failure(f"METIS cannot partition {len(part)} points into {parts} parts (it returned {done})")
    return part


def subgraph(start, to, chosen):
    """The subgraph of the chosen points."""
    number = np.full(len(start) - 1, -1, np.int32)
    number[chosen] = np.arange(len(chosen), dtype=np.int32)
    origin = number[np.repeat(np.arange(len(start) - 1), np.diff(start))]
    end = number[to]
    kept = (origin >= 0) & (end >= 0)
    counts = np.bincount(origin[kept], minlength=len(chosen))
    return np.concatenate([[0], np.cumsum(counts)]), end[kept]


def partition_nodes(start, to, nodes, ranks):
    node = partition(start, to, nodes)
    owner = np.empty_like(node)
    for i in range(nodes):
        chosen = np.flatnonzero(node == i)
        owner[chosen] = i * (ranks // nodes) + partition(*subgraph(start, to, chosen), ranks // nodes)
    return owner


# ---- The lists ----

def lists_of(start, to, owner, ranks):
    """One array of words per rank."""
    origin = np.repeat(np.arange(len(owner), dtype=np.int64), np.diff(start))
    crossing = owner[origin] != owner[to]
    # (point, rank that has a ghost of it)
    sent = np.unique(origin[crossing] * ranks + owner[to[crossing]])
    point, reader = sent // ranks, (sent % ranks).astype(np.int32)
    readers = np.bincount(point, minlength=len(owner))
    only = np.full(len(owner), -1, np.int64)  # 0: not sent, rank + 1: sent to that rank, ranks + 1: to several
    only[:] = np.where(readers > 1, ranks + 1, 0)
    single = readers[point] == 1
    only[point[single]] = reader[single] + 1
    order = np.lexsort((np.arange(len(owner)), only, owner))  # all ranks' own points, in local order
    first = np.searchsorted(owner[order], np.arange(ranks + 1))
    position_of = np.empty(len(owner), np.int64)
    position_of[order] = np.arange(len(owner))  # in `order`; less the owner's first: local
    words = []
    for rank in range(ranks):
        outgoing, incoming = owner[point] == rank, reader == rank
        out_points, out_readers, in_points = point[outgoing], reader[outgoing], point[incoming]
        lists, ghosts = [], []
        for other in np.unique(out_readers):  # edges are symmetric: a rank that receives also sends
            outgoing_points = out_points[out_readers == other]
            incoming_points = in_points[owner[in_points] == other]
            outgoing_points = outgoing_points[np.argsort(position_of[outgoing_points])]
            incoming_points = incoming_points[np.argsort(position_of[incoming_points])]
            lists += [[other, len(outgoing_points), len(incoming_points)], position_of[outgoing_points] - first[rank]]
            ghosts.append(incoming_points)
        own = order[first[rank]:first[rank + 1]]
        words.append(np.concatenate([[len(own), len(ghosts)], *lists, own, *ghosts]).astype("<i4"))
    return words


def lists_path(size, ranks, nodes=1):
    return cache_directory() / f"cube-{size}-{ranks}" / ("lists" if nodes == 1 else f"lists-{nodes}-nodes")


def save_lists(words, file):
    position = np.cumsum([3 + len(words), *map(len, words)])
    file.write(np.concatenate([[MAGIC, len(words)], position]).astype("<i4").tobytes())
    for rank_words in words:
        file.write(rank_words.tobytes())


def prepare(sizes, partitions):
    """Makes the meshes and lists that do not exist yet; partitions: [(ranks, nodes)]."""
    wanted = [(size, ranks, nodes) for size in sizes for ranks, nodes in partitions
              if not lists_path(size, ranks, nodes).exists()]
    meshes = [size for size in dict.fromkeys(key[0] for key in wanted) if not graph_path(size).exists()]
    for size in meshes:
        ob.progress(f"mesh of size {size}")
        start, to = make_graph(size)
        write(graph_path(size), functools.partial(np.savez, start=start, to=to))
    for size, ranks, nodes in wanted:
        ob.progress(f"mesh of size {size}, parts for {ranks} ranks on {nodes} nodes")
        start, to = graph_of(size)
        owner = partition(start, to, ranks) if nodes == 1 else partition_nodes(start, to, nodes, ranks)
        words = lists_of(start, to, owner, ranks)
        write(lists_path(size, ranks, nodes), functools.partial(save_lists, words))
