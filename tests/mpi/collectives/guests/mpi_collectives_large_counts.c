/* mpi_collectives_large_counts: MPI-4's collective operations with large counts, by small ones,
 * each checked. Arguments that are not significant on a rank are invalid there. Libraries of MPI-3
 * have none of these functions: a task finds the layer's. Exit status 1: something was wrong; 77:
 * there are no such functions. */
#include "mpi/guests/mpi_check.h"

#if MPI_VERSION < 4
typedef const void *buf;
typedef MPI_Datatype ty;
#define WEAK __attribute__((weak))
WEAK int MPI_Allgather_c(buf, MPI_Count, ty, void *, MPI_Count, ty, MPI_Comm);
WEAK int MPI_Allgatherv_c(buf, MPI_Count, ty, void *, const MPI_Count[], const MPI_Aint[], ty,
                          MPI_Comm);
WEAK int MPI_Allreduce_c(buf, void *, MPI_Count, ty, MPI_Op, MPI_Comm);
WEAK int MPI_Alltoall_c(buf, MPI_Count, ty, void *, MPI_Count, ty, MPI_Comm);
WEAK int MPI_Alltoallv_c(buf, const MPI_Count[], const MPI_Aint[], ty, void *, const MPI_Count[],
                         const MPI_Aint[], ty, MPI_Comm);
WEAK int MPI_Alltoallw_c(buf, const MPI_Count[], const MPI_Aint[], const ty[], void *,
                         const MPI_Count[], const MPI_Aint[], const ty[], MPI_Comm);
WEAK int MPI_Bcast_c(void *, MPI_Count, ty, int, MPI_Comm);
WEAK int MPI_Exscan_c(buf, void *, MPI_Count, ty, MPI_Op, MPI_Comm);
WEAK int MPI_Gather_c(buf, MPI_Count, ty, void *, MPI_Count, ty, int, MPI_Comm);
WEAK int MPI_Gatherv_c(buf, MPI_Count, ty, void *, const MPI_Count[], const MPI_Aint[], ty, int,
                       MPI_Comm);
WEAK int MPI_Reduce_c(buf, void *, MPI_Count, ty, MPI_Op, int, MPI_Comm);
WEAK int MPI_Reduce_scatter_c(buf, void *, const MPI_Count[], ty, MPI_Op, MPI_Comm);
WEAK int MPI_Reduce_scatter_block_c(buf, void *, MPI_Count, ty, MPI_Op, MPI_Comm);
WEAK int MPI_Scan_c(buf, void *, MPI_Count, ty, MPI_Op, MPI_Comm);
WEAK int MPI_Scatter_c(buf, MPI_Count, ty, void *, MPI_Count, ty, int, MPI_Comm);
WEAK int MPI_Scatterv_c(buf, const MPI_Count[], const MPI_Aint[], ty, void *, MPI_Count, ty, int,
                        MPI_Comm);
#endif

enum { RANKS_MAX = 8, ROOT = 1, INVALID_COUNT_BITS = 40 };
#define INVALID_COUNT ((MPI_Count)1 << INVALID_COUNT_BITS)

static void *volatile invalid = (void *)1; /* the compiler must not know it */
static int in[2 * RANKS_MAX], out[2 * RANKS_MAX];
static MPI_Count counts[RANKS_MAX];
static MPI_Aint displs[RANKS_MAX], bytes[RANKS_MAX];
static MPI_Datatype types[RANKS_MAX];

/* Two ints for each rank: sender and receiver. */
static void begin(void)
{
    for (int i = 0; i < 2 * ranks; i++) {
        in[i] = i % 2 ? i / 2 : rank;
        out[i] = -1;
    }
}

#define CALL(name, ...) (begin(), OK(MPI_##name##_c(__VA_ARGS__, world)))

/* The data from each rank to rank `to`. */
static int came_from_all(int to)
{
    int right = 1;
    for (int i = 0; i < ranks; i++)
        right &= out[2 * i] == i && out[2 * i + 1] == to;
    return right;
}

static void with_root(void)
{
    int is_root = rank == ROOT;
    MPI_Count count = is_root ? 2 : INVALID_COUNT;
    MPI_Count *root_counts = is_root ? counts : invalid;
    MPI_Aint *root_displs = is_root ? displs : invalid;
    CALL(Gather, in, 2, MPI_INT, is_root ? out : invalid, count, MPI_INT, ROOT);
    CHECK(!is_root || came_from_all(0));
    CALL(Gatherv, in, 2, MPI_INT, out, root_counts, root_displs, MPI_INT, ROOT);
    CHECK(!is_root || came_from_all(0));
    CALL(Reduce, in, out, 2, MPI_INT, MPI_SUM, ROOT);
    CHECK(!is_root || (out[0] == ranks * (ranks - 1) / 2 && out[1] == 0));
    CALL(Scatter, is_root ? in : invalid, count, MPI_INT, out, 2, MPI_INT, ROOT);
    CHECK(out[0] == ROOT && out[1] == rank);
    CALL(Scatterv, in, root_counts, root_displs, MPI_INT, out, 2, MPI_INT, ROOT);
    CHECK(out[0] == ROOT && out[1] == rank);
    CALL(Bcast, in, 2, MPI_INT, ROOT);
    CHECK(in[0] == ROOT && in[1] == 0);
}

static void between_all(void)
{
    CALL(Allgather, in, 2, MPI_INT, out, 2, MPI_INT);
    CHECK(came_from_all(0));
    begin();
    out[2 * rank] = rank;
    out[2 * rank + 1] = 0;
    OK(MPI_Allgather_c(MPI_IN_PLACE, INVALID_COUNT, MPI_DATATYPE_NULL, out, 2, MPI_INT, world));
    CHECK(came_from_all(0));
    CALL(Allgatherv, in, 2, MPI_INT, out, counts, displs, MPI_INT);
    CHECK(came_from_all(0));
    CALL(Alltoall, in, 2, MPI_INT, out, 2, MPI_INT);
    CHECK(came_from_all(rank));
    CALL(Alltoallv, in, counts, displs, MPI_INT, out, counts, displs, MPI_INT);
    CHECK(came_from_all(rank));
    CALL(Alltoallv, MPI_IN_PLACE, invalid, invalid, MPI_DATATYPE_NULL, in, counts, displs, MPI_INT);
    memcpy(out, in, sizeof(out));
    CHECK(came_from_all(rank));
    CALL(Alltoallw, in, counts, bytes, types, out, counts, bytes, types);
    CHECK(came_from_all(rank));
}

static void reductions(void)
{
    int before = rank * (rank - 1) / 2, all = ranks * (ranks - 1) / 2;
    CALL(Allreduce, in, out, 2, MPI_INT, MPI_SUM);
    CHECK(out[0] == all && out[1] == 0);
    CALL(Scan, in, out, 2, MPI_INT, MPI_SUM);
    CHECK(out[0] == before + rank && out[1] == 0);
    CALL(Exscan, in, out, 2, MPI_INT, MPI_SUM);
    CHECK(rank == 0 || (out[0] == before && out[1] == 0));
    CALL(Reduce_scatter, in, out, counts, MPI_INT, MPI_SUM);
    CHECK(out[0] == all && out[1] == ranks * rank);
    CALL(Reduce_scatter_block, in, out, 2, MPI_INT, MPI_SUM);
    CHECK(out[0] == all && out[1] == ranks * rank);
}

int main(int argc, char **argv)
{
    mpi_begin(&argc, &argv);
#if MPI_VERSION < 4
    if (!MPI_Bcast_c) {
        MPI_Finalize();
        return 77;
    }
#endif
    for (int i = 0; i < ranks; i++) {
        counts[i] = 2;
        displs[i] = 2 * i;
        bytes[i] = 2 * i * (MPI_Aint)sizeof(int);
        types[i] = MPI_INT;
    }
    with_root();
    between_all();
    reductions();
    return mpi_end();
}
