/* mpi_collectives_same_address: ranks send from and receive at one address what does not overlap:
 * absolute addresses at MPI_BOTTOM, and two parts of one array. */
#include "mpi/collectives/guests/collective.h"

enum { ROUNDS = 80 };

static long all[2 * RANKS_MAX], *out = all, *in = all + RANKS_MAX;

static MPI_Datatype type_at(const long *address)
{
    MPI_Aint place;
    MPI_Datatype type;
    MPI_Get_address(address, &place);
    MPI_Type_create_hindexed(1, (int[]){1}, &place, MPI_LONG, &type);
    MPI_Type_commit(&type);
    return type;
}

static void exchange(const struct collective *call, int round)
{
    for (int i = 0; i < ranks; i++) {
        out[i] = 100 * round + 10 * rank + i;
        in[i] = -1;
    }
    OK(collective_call(call));
    for (int i = 0; i < ranks; i++)
        CHECK(in[i] == 100 * round + 10 * i + rank && out[i] == 100 * round + 10 * rank + i);
}

int main(int argc, char **argv)
{
    int sendcounts[RANKS_MAX], recvcounts[RANKS_MAX], zeros[RANKS_MAX] = {0};
    int sdispls[RANKS_MAX], rdispls[RANKS_MAX];
    MPI_Datatype sendtypes[RANKS_MAX], recvtypes[RANKS_MAX];
    mpi_begin(&argc, &argv);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    for (int i = 0; i < ranks; i++) {
        sendcounts[i] = recvcounts[i] = 1;
        sdispls[i] = i;
        rdispls[i] = RANKS_MAX + i;
        sendtypes[i] = type_at(&out[i]);
        recvtypes[i] = type_at(&in[i]);
    }
    struct collective absolute = collective_of(ALLTOALLW, 1, MPI_LONG, MPI_BOTTOM, MPI_BOTTOM);
    absolute.sendcounts = absolute.recvcounts = sendcounts;
    absolute.sdispls = absolute.rdispls = zeros;
    absolute.sendtypes = sendtypes;
    absolute.recvtypes = recvtypes;
    struct collective parts = collective_of(ALLTOALLV, 1, MPI_LONG, all, all);
    parts.sendcounts = sendcounts;
    parts.recvcounts = recvcounts;
    parts.sdispls = sdispls;
    parts.rdispls = rdispls;
    for (int round = 0; round < ROUNDS; round++) {
        exchange(&absolute, round);
        exchange(&parts, round);
    }
    for (int i = 0; i < ranks; i++) {
        MPI_Type_free(&sendtypes[i]);
        MPI_Type_free(&recvtypes[i]);
    }
    return mpi_end();
}
