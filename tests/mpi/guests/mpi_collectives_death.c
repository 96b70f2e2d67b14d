/* mpi_collectives_death: rank 1 of three ends; each operation of the others that needs it ends,
 * with an error where they lack something of it. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CASES = 6, MOST_RANKS = 8, LARGE = 4 << 20 };

static char *give, *get;
static int counts[MOST_RANKS], places[MOST_RANKS];

static int barrier(MPI_Comm comm)
{
    return MPI_Barrier(comm);
}

/* Rank 1 would have read this in rank 0's memory. */
static int from_another(MPI_Comm comm)
{
    return MPI_Bcast(give, LARGE, MPI_BYTE, 0, comm);
}

static int from_the_dead(MPI_Comm comm)
{
    return MPI_Bcast(give, LARGE, MPI_BYTE, 1, comm);
}

static int alltoallv(MPI_Comm comm)
{
    return MPI_Alltoallv(give, counts, places, MPI_BYTE, get, counts, places, MPI_BYTE, comm);
}

static int reduce(MPI_Comm comm)
{
    return MPI_Allreduce(give, get, LARGE, MPI_BYTE, MPI_BXOR, comm);
}

static int scatter(MPI_Comm comm)
{
    return MPI_Scatter(give, 4096, MPI_BYTE, get, 4096, MPI_BYTE, 1, comm);
}

static const struct {
    const char *name;
    int (*call)(MPI_Comm comm);
} cases[CASES] = {{"Barrier", barrier},
                  {"Bcast of rank 0", from_another},
                  {"Bcast of rank 1", from_the_dead},
                  {"Alltoallv", alltoallv},
                  {"Allreduce", reduce},
                  {"Scatter", scatter}};

int main(int argc, char **argv)
{
    MPI_Comm comms[CASES];
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    give = calloc(2, LARGE);
    get = calloc(2, LARGE);
    for (int i = 0; i < ranks; i++) {
        counts[i] = LARGE / ranks;
        places[i] = i * counts[i];
    }
    for (int i = 0; i < CASES; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        MPI_Comm_set_errhandler(comms[i], MPI_ERRORS_RETURN);
        cases[i].call(comms[i]);
    }
    if (rank == 1)
        _exit(0); /* Hydra ends all ranks where one ends by a signal */
    for (int i = 0; i < CASES; i++)
        printf("rank %d, %s: %s\n", rank, cases[i].name,
               cases[i].call(comms[i]) == MPI_SUCCESS ? "no error" : "an error");
    fflush(stdout);
    _exit(0);
}
