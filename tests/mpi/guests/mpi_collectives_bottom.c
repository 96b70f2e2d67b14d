/* mpi_collectives_bottom.c: ranks give and get at one address what does not overlap: absolute
 * addresses at MPI_BOTTOM, and two parts of one array. */
#include <stdlib.h>

#include "mpi_check.h"

enum { ROUNDS = 80, RANKS_MAX = 16 };

static long all[2 * RANKS_MAX], *give = all, *get = all + RANKS_MAX;
static int ones[RANKS_MAX], also_ones[RANKS_MAX], nowhere[RANKS_MAX];
static int first[RANKS_MAX], second[RANKS_MAX];
static MPI_Datatype give_types[RANKS_MAX], get_types[RANKS_MAX];

static MPI_Datatype at(const long *address)
{
    MPI_Aint place;
    MPI_Datatype type;
    MPI_Get_address(address, &place);
    MPI_Type_create_hindexed(1, (int[]){1}, &place, MPI_LONG, &type);
    MPI_Type_commit(&type);
    return type;
}

static void begin(int round)
{
    for (int i = 0; i < ranks; i++) {
        give[i] = 100 * round + 10 * rank + i;
        get[i] = -1;
    }
}

static void check_all(int round)
{
    for (int i = 0; i < ranks; i++)
        CHECK(get[i] == 100 * round + 10 * i + rank && give[i] == 100 * round + 10 * rank + i);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < ranks; i++) {
        ones[i] = also_ones[i] = 1;
        first[i] = i;
        second[i] = RANKS_MAX + i;
        give_types[i] = at(&give[i]);
        get_types[i] = at(&get[i]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        begin(round);
        OK(MPI_Alltoallw(MPI_BOTTOM, ones, nowhere, give_types, MPI_BOTTOM, ones, nowhere,
                         get_types, MPI_COMM_WORLD));
        check_all(round);
        begin(round);
        OK(MPI_Alltoallv(all, ones, first, MPI_LONG, all, also_ones, second, MPI_LONG,
                         MPI_COMM_WORLD));
        check_all(round);
    }
    for (int i = 0; i < ranks; i++) {
        MPI_Type_free(&give_types[i]);
        MPI_Type_free(&get_types[i]);
    }
    printf("rank %d: %d wrong\n", rank, wrong);
    MPI_Finalize();
    return wrong != 0;
}
