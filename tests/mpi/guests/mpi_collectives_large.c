/* mpi_collectives_large: MPI-4's collective operations with large counts, by small ones, each
 * checked. What does not count on a rank is nonsense there. Libraries of MPI-3 have none of these
 * functions: a task finds the layer's. Exit status 1: something was wrong; 77: there are no such
 * functions. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

#if MPI_VERSION < 4
typedef const void *in;
typedef MPI_Datatype ty;
#define WEAK __attribute__((weak))
WEAK int MPI_Allgather_c(in, MPI_Count, ty, void *, MPI_Count, ty, MPI_Comm);
WEAK int MPI_Allgatherv_c(in, MPI_Count, ty, void *, const MPI_Count[], const MPI_Aint[], ty,
                          MPI_Comm);
WEAK int MPI_Allreduce_c(in, void *, MPI_Count, ty, MPI_Op, MPI_Comm);
WEAK int MPI_Alltoall_c(in, MPI_Count, ty, void *, MPI_Count, ty, MPI_Comm);
WEAK int MPI_Alltoallv_c(in, const MPI_Count[], const MPI_Aint[], ty, void *, const MPI_Count[],
                         const MPI_Aint[], ty, MPI_Comm);
WEAK int MPI_Alltoallw_c(in, const MPI_Count[], const MPI_Aint[], const ty[], void *,
                         const MPI_Count[], const MPI_Aint[], const ty[], MPI_Comm);
WEAK int MPI_Bcast_c(void *, MPI_Count, ty, int, MPI_Comm);
WEAK int MPI_Exscan_c(in, void *, MPI_Count, ty, MPI_Op, MPI_Comm);
WEAK int MPI_Gather_c(in, MPI_Count, ty, void *, MPI_Count, ty, int, MPI_Comm);
WEAK int MPI_Gatherv_c(in, MPI_Count, ty, void *, const MPI_Count[], const MPI_Aint[], ty, int,
                       MPI_Comm);
WEAK int MPI_Reduce_c(in, void *, MPI_Count, ty, MPI_Op, int, MPI_Comm);
WEAK int MPI_Reduce_scatter_c(in, void *, const MPI_Count[], ty, MPI_Op, MPI_Comm);
WEAK int MPI_Reduce_scatter_block_c(in, void *, MPI_Count, ty, MPI_Op, MPI_Comm);
WEAK int MPI_Scan_c(in, void *, MPI_Count, ty, MPI_Op, MPI_Comm);
WEAK int MPI_Scatter_c(in, MPI_Count, ty, void *, MPI_Count, ty, int, MPI_Comm);
WEAK int MPI_Scatterv_c(in, const MPI_Count[], const MPI_Aint[], ty, void *, MPI_Count, ty, int,
                        MPI_Comm);
#endif

enum { MOST = 8, ROOT = 1, HUGE_COUNT = 40 };
#define NONSENSE_COUNT ((MPI_Count)1 << HUGE_COUNT)
#define COMM           MPI_COMM_WORLD

static int rank, ranks, wrong;
static void *volatile nonsense = (void *)1; /* nothing that the compiler could know to be wrong */
static int give[2 * MOST], get[2 * MOST];
static MPI_Count counts[MOST];
static MPI_Aint places[MOST], bytes[MOST];
static MPI_Datatype types[MOST];

/* Two ints for each rank: who gives them, and to whom. */
static void begin(void)
{
    for (int i = 0; i < 2 * ranks; i++) {
        give[i] = i % 2 ? i / 2 : rank;
        get[i] = -1;
    }
}

static void end(const char *what, int is_right)
{
    if (!is_right && ++wrong)
        printf("rank %d: %s is wrong\n", rank, what);
}

/* What each gave to rank `to`. */
static int came_from_all(int to)
{
    int right = 1;
    for (int i = 0; i < ranks; i++)
        right &= get[2 * i] == i && get[2 * i + 1] == to;
    return right;
}

static void try_to_one(void)
{
    int is_root = rank == ROOT;
    MPI_Count here = is_root ? 2 : NONSENSE_COUNT;
    begin();
    MPI_Gather_c(give, 2, MPI_INT, is_root ? get : nonsense, here, MPI_INT, ROOT, COMM);
    end("Gather", !is_root || came_from_all(0));
    begin();
    MPI_Gatherv_c(give, 2, MPI_INT, get, is_root ? counts : nonsense, is_root ? places : nonsense,
                  MPI_INT, ROOT, COMM);
    end("Gatherv", !is_root || came_from_all(0));
    begin();
    MPI_Reduce_c(give, get, 2, MPI_INT, MPI_SUM, ROOT, COMM);
    end("Reduce", !is_root || (get[0] == ranks * (ranks - 1) / 2 && get[1] == 0));
}

static void try_from_one(void)
{
    int is_root = rank == ROOT;
    MPI_Count here = is_root ? 2 : NONSENSE_COUNT;
    begin();
    MPI_Scatter_c(is_root ? give : nonsense, here, MPI_INT, get, 2, MPI_INT, ROOT, COMM);
    end("Scatter", get[0] == ROOT && get[1] == rank);
    begin();
    MPI_Scatterv_c(give, is_root ? counts : nonsense, is_root ? places : nonsense, MPI_INT, get, 2,
                   MPI_INT, ROOT, COMM);
    end("Scatterv", get[0] == ROOT && get[1] == rank);
    begin();
    MPI_Bcast_c(give, 2, MPI_INT, ROOT, COMM);
    end("Bcast", give[0] == ROOT && give[1] == 0);
}

static void try_all(void)
{
    begin();
    MPI_Allgather_c(give, 2, MPI_INT, get, 2, MPI_INT, COMM);
    end("Allgather", came_from_all(0));
    begin();
    get[2 * rank] = rank;
    get[2 * rank + 1] = 0;
    MPI_Allgather_c(MPI_IN_PLACE, NONSENSE_COUNT, MPI_DATATYPE_NULL, get, 2, MPI_INT, COMM);
    end("Allgather in place", came_from_all(0));
    begin();
    MPI_Allgatherv_c(give, 2, MPI_INT, get, counts, places, MPI_INT, COMM);
    end("Allgatherv", came_from_all(0));
    begin();
    MPI_Alltoall_c(give, 2, MPI_INT, get, 2, MPI_INT, COMM);
    end("Alltoall", came_from_all(rank));
    begin();
    MPI_Alltoallv_c(give, counts, places, MPI_INT, get, counts, places, MPI_INT, COMM);
    end("Alltoallv", came_from_all(rank));
    begin();
    MPI_Alltoallv_c(MPI_IN_PLACE, nonsense, nonsense, MPI_DATATYPE_NULL, give, counts, places,
                    MPI_INT, COMM);
    for (int i = 0; i < 2 * ranks; i++)
        get[i] = give[i];
    end("Alltoallv in place", came_from_all(rank));
    begin();
    MPI_Alltoallw_c(give, counts, bytes, types, get, counts, bytes, types, COMM);
    end("Alltoallw", came_from_all(rank));
}

static void try_reductions(void)
{
    int before = rank * (rank - 1) / 2, all = ranks * (ranks - 1) / 2;
    begin();
    MPI_Allreduce_c(give, get, 2, MPI_INT, MPI_SUM, COMM);
    end("Allreduce", get[0] == all && get[1] == 0);
    begin();
    MPI_Scan_c(give, get, 2, MPI_INT, MPI_SUM, COMM);
    end("Scan", get[0] == before + rank && get[1] == 0);
    begin();
    MPI_Exscan_c(give, get, 2, MPI_INT, MPI_SUM, COMM);
    end("Exscan", rank == 0 || (get[0] == before && get[1] == 0));
    begin();
    MPI_Reduce_scatter_c(give, get, counts, MPI_INT, MPI_SUM, COMM);
    end("Reduce_scatter", get[0] == all && get[1] == ranks * rank);
    begin();
    MPI_Reduce_scatter_block_c(give, get, 2, MPI_INT, MPI_SUM, COMM);
    end("Reduce_scatter_block", get[0] == all && get[1] == ranks * rank);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(COMM, &rank);
    MPI_Comm_size(COMM, &ranks);
#if MPI_VERSION < 4
    if (!MPI_Bcast_c) {
        MPI_Finalize();
        return 77;
    }
#endif
    for (int i = 0; i < ranks; i++) {
        counts[i] = 2;
        places[i] = 2 * i;
        bytes[i] = 2 * i * (MPI_Aint)sizeof(int);
        types[i] = MPI_INT;
    }
    try_to_one();
    try_from_one();
    try_all();
    try_reductions();
    printf("rank %d: %d wrong\n", rank, wrong);
    MPI_Finalize();
    return wrong != 0;
}
