/* mpi_collectives_rank_death [NAME]...: rank 1 of three exits; each operation of the others that
 * needs it ends, with an error where they lack data from it. NAME: these cases only. */
#include <unistd.h>

#include "mpi/collectives/guests/collective.h"

enum { LARGE = 4 << 20 };

static const struct {
    const char *name;
    enum operation operation;
    int root, count;
} deaths[] = {{"Barrier", BARRIER, 0, 0},
              {"Bcast of rank 0", BCAST, 0, LARGE}, /* rank 1 would have read rank 0's memory */
              {"Bcast of rank 1", BCAST, 1, LARGE},
              {"Alltoallv", ALLTOALLV, 0, LARGE},
              {"Allreduce", ALLREDUCE, 0, LARGE},
              {"Scatter", SCATTER, 1, 4096}};

static int is_chosen(const char *name, char **names)
{
    int found = !*names;
    for (; *names; names++)
        found |= strcmp(*names, name) == 0;
    return found;
}

int main(int argc, char **argv)
{
    struct collective calls[COUNT_OF(deaths)];
    int counts[RANKS_MAX], displs[RANKS_MAX];
    mpi_begin(&argc, &argv);
    char *in = calloc(2, LARGE), *out = calloc(2, LARGE);
    for (int i = 0; i < ranks; i++) {
        counts[i] = LARGE / ranks;
        displs[i] = i * counts[i];
    }
    for (unsigned i = 0; i < COUNT_OF(deaths); i++) {
        calls[i] = collective_of(deaths[i].operation, deaths[i].count, MPI_BYTE, in, out);
        calls[i].root = deaths[i].root;
        calls[i].op = MPI_BXOR;
        calls[i].sendcounts = calls[i].recvcounts = counts;
        calls[i].sdispls = calls[i].rdispls = displs;
        MPI_Comm_dup(world, &calls[i].comm);
        MPI_Comm_set_errhandler(calls[i].comm, MPI_ERRORS_RETURN);
        collective_call(&calls[i]);
    }
    if (rank == 1)
        _exit(0); /* Hydra ends all ranks where one ends by a signal */
    for (unsigned i = 0; i < COUNT_OF(deaths); i++)
        if (is_chosen(deaths[i].name, argv + 1))
            printf("rank %d, %s: %s error\n", rank, deaths[i].name,
                   collective_call(&calls[i]) == MPI_SUCCESS ? "no" : "an");
    fflush(stdout);
    _exit(0);
}
