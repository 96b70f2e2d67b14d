/* mpi_collectives: collective operations of several sizes on all ranks, on halves of them and on a
 * node, every result checked. */
#include "mpi/collectives/guests/collective.h"

static MPI_Comm comm;
static int own, size; /* rank and size in it */

static void reduce(enum operation operation, MPI_Op op, int root, int count, int in_place)
{
    double *in = malloc((size_t)count * 8), *out = malloc((size_t)count * 8);
    int has_result = operation != REDUCE || own == root;
    struct collective call =
        collective_of(operation, count, MPI_DOUBLE, in_place && has_result ? MPI_IN_PLACE : in,
                      in_place && !has_result ? NULL : out);
    call.comm = comm;
    call.op = op;
    call.root = root;
    for (int i = 0; i < count; i++)
        in[i] = out[i] = own + 1 + i % 5;
    collective_call(&call);
    int operands = share_of(&call, own, size, 0).operands;
    for (int i = 0; operands && i < count; i++)
        wrong += out[i] != (op == MPI_MAX ? size + i % 5
                                          : operands * (operands + 1) / 2 + operands * (i % 5));
    free(in);
    free(out);
}

static void reduce_and_scan(int count)
{
    for (int root = 0; root < size; root++)
        reduce(REDUCE, MPI_SUM, root, count, 0);
    reduce(REDUCE, MPI_SUM, 0, count, 1); /* MPICH 4.0.2 crashes where the root is another rank */
    for (int in_place = 0; in_place < 2; in_place++) {
        reduce(SCAN, MPI_SUM, 0, count, in_place);
        reduce(EXSCAN, MPI_SUM, 0, count, in_place);
    }
}

static void alltoall(int count)
{
    int *in = malloc((size_t)size * count * 4), *out = malloc((size_t)size * count * 4);
    for (int i = 0; i < size * count; i++)
        in[i] = own * 1000 + i / count * 100 + i % 7;
    MPI_Alltoall(in, count, MPI_INT, out, count, MPI_INT, comm);
    for (int i = 0; i < size * count; i++)
        wrong += out[i] != i / count * 1000 + own * 100 + (own * count + i % count) % 7;
    free(in);
    free(out);
}

/* Each rank sends to the next one alone. MPICH does not look at the types of the empty blocks. */
static void alltoall_of_few_types(void)
{
    int next = (own + 1) % size, previous = (own + size - 1) % size, in = 5000 + own, out = -1;
    int *counts = calloc(3 * (size_t)size, sizeof(int)), *displs = counts + 2 * size;
    MPI_Datatype *types = malloc(2 * (size_t)size * sizeof(*types));
    for (int i = 0; i < 2 * size; i++)
        types[i] = MPI_INT;
#ifndef OPEN_MPI
    for (int i = 0; i < size; i++) {
        types[i] = i == next ? MPI_INT : MPI_DATATYPE_NULL;
        types[size + i] = i == previous ? MPI_INT : MPI_DATATYPE_NULL;
    }
#endif
    counts[next] = counts[size + previous] = 1;
    MPI_Alltoallw(&in, counts, displs, types, &out, counts + size, displs, types + size, comm);
    wrong += out != 5000 + previous;
    free(counts);
    free(types);
}

static void expect(const int *numbers, int count, int first)
{
    for (int i = 0; i < count; i++)
        wrong += numbers[i] != first + i;
}

static void gather_and_broadcast(int count)
{
    int *part = malloc((size_t)count * 4), *all = malloc((size_t)size * count * 4);
    for (int root = 0; root < size; root++) {
        for (int i = 0; i < count; i++)
            part[i] = own * count + i + root;
        MPI_Gather(part, count, MPI_INT, all, count, MPI_INT, root, comm);
        if (own == root)
            expect(all, size * count, root);
        MPI_Bcast(all, size * count, MPI_INT, root, comm);
        expect(all, size * count, root);
        MPI_Scatter(all, count, MPI_INT, part, count, MPI_INT, root, comm);
        expect(part, count, own * count + root);
    }
    MPI_Allgather(part, count, MPI_INT, all, count, MPI_INT, comm);
    expect(all, size * count, size - 1);
    free(part);
    free(all);
}

static void all_on(MPI_Comm ranks_of)
{
    comm = ranks_of;
    MPI_Comm_rank(comm, &own);
    MPI_Comm_size(comm, &size);
    for (int count = 1; count <= 40000; count *= 20) {
        reduce(ALLREDUCE, MPI_SUM, 0, count, 0);
        reduce(ALLREDUCE, MPI_MAX, 0, count, 1);
        alltoall(count);
        gather_and_broadcast(count / 2 + 1);
        alltoall_of_few_types();
        MPI_Barrier(comm);
    }
    reduce_and_scan(1);
    reduce_and_scan(40000);
}

int main(int argc, char **argv)
{
    MPI_Comm half, node;
    mpi_begin(&argc, &argv);
    all_on(world);
    MPI_Comm_split(world, rank % 2, -rank, &half);
    all_on(half);
    MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    all_on(node);
    MPI_Comm_free(&half);
    MPI_Comm_free(&node);
    return mpi_end();
}
