/* mpi_collectives_same_address: ranks send from and receive at one address what does not overlap:
 * absolute addresses at MPI_BOTTOM, and two parts of one array. With the argument "own": what is
 * the same, a rank's own block, which MPI forbids and libraries may accept. */
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

static void exchange_own_block(enum operation operation, int round)
{
    const int root = round % ranks, is_root = rank == root;
    struct collective call = collective_of(operation, 1, MPI_LONG, &in[rank], in);
    call.root = root;
    for (int i = 0; i < ranks; i++)
        in[i] = operation == SCATTER && is_root ? 100 * round + i : -1;
    if (operation == SCATTER) {
        call.sendbuf = in;
        call.recvbuf = &in[rank];
    } else {
        in[rank] = 100 * round + rank;
    }
    OK(collective_call(&call));
    for (int i = 0; i < ranks; i++)
        if (i == rank || operation == ALLGATHER || is_root)
            CHECK(in[i] == 100 * round + i);
}

int main(int argc, char **argv)
{
    int sendcounts[RANKS_MAX], recvcounts[RANKS_MAX], zeros[RANKS_MAX] = {0};
    int sdispls[RANKS_MAX], rdispls[RANKS_MAX];
    MPI_Datatype sendtypes[RANKS_MAX], recvtypes[RANKS_MAX];
    mpi_begin(&argc, &argv);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    if (argc > 1 && strcmp(argv[1], "own") == 0) {
        for (int round = 0; round < ROUNDS; round++) {
            exchange_own_block(GATHER, round);
            exchange_own_block(SCATTER, round);
            exchange_own_block(ALLGATHER, round);
        }
        return mpi_end();
    }
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
