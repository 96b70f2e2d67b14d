/* Collective operations of several sizes on the world and on halves of it, every result checked. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int wrong;

static void allreduce(MPI_Comm comm, int rank, int ranks, int count)
{
    double *in = malloc(count * 8), *out = malloc(count * 8);
    for (int i = 0; i < count; i++)
        in[i] = rank + 1 + i % 5;
    MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, comm);
    for (int i = 0; i < count; i++) {
        int sum = ranks * (ranks + 1) / 2 + ranks * (i % 5);
        wrong += out[i] != sum;
    }
    MPI_Allreduce(MPI_IN_PLACE, in, count, MPI_DOUBLE, MPI_MAX, comm);
    for (int i = 0; i < count; i++)
        wrong += in[i] != ranks + i % 5;
    free(in);
    free(out);
}

static void check_sums(const double *sums, int count, int operands)
{
    for (int i = 0; operands && i < count; i++) {
        int sum = operands * (operands + 1) / 2 + operands * (i % 5);
        wrong += sums[i] != sum;
    }
}

/* What only some ranks get, or each in another way. */
static void reduce_and_scan(MPI_Comm comm, int rank, int ranks, int count)
{
    double *in = malloc(count * 8), *out = malloc(count * 8);
    for (int i = 0; i < count; i++)
        in[i] = rank + 1 + i % 5;
    for (int root = 0; root < ranks; root++) {
        MPI_Reduce(in, out, count, MPI_DOUBLE, MPI_SUM, root, comm);
        check_sums(out, count, rank == root ? ranks : 0);
    }
    MPI_Scan(in, out, count, MPI_DOUBLE, MPI_SUM, comm);
    check_sums(out, count, rank + 1);
    MPI_Exscan(in, out, count, MPI_DOUBLE, MPI_SUM, comm);
    check_sums(out, count, rank);
    memcpy(out, in, count * 8);
    MPI_Scan(MPI_IN_PLACE, out, count, MPI_DOUBLE, MPI_SUM, comm);
    check_sums(out, count, rank + 1);
    memcpy(out, in, count * 8);
    MPI_Exscan(MPI_IN_PLACE, out, count, MPI_DOUBLE, MPI_SUM, comm);
    check_sums(out, count, rank);
    if (rank == 0) /* MPICH 4.0.2 crashes where another root than rank 0 reduces in place. */
        MPI_Reduce(MPI_IN_PLACE, in, count, MPI_DOUBLE, MPI_SUM, 0, comm);
    else
        MPI_Reduce(in, NULL, count, MPI_DOUBLE, MPI_SUM, 0, comm);
    check_sums(in, count, rank == 0 ? ranks : 0);
    free(in);
    free(out);
}

static void alltoall(MPI_Comm comm, int rank, int ranks, int count)
{
    int *in = malloc(ranks * count * 4), *out = malloc(ranks * count * 4);
    for (int i = 0; i < ranks * count; i++)
        in[i] = rank * 1000 + i / count * 100 + i % 7;
    MPI_Alltoall(in, count, MPI_INT, out, count, MPI_INT, comm);
    for (int i = 0; i < ranks * count; i++)
        wrong += out[i] != i / count * 1000 + rank * 100 + (rank * count + i % count) % 7;
    free(in);
    free(out);
}

static void gather_and_broadcast(MPI_Comm comm, int rank, int ranks, int count)
{
    int *part = malloc(count * 4), *all = malloc(ranks * count * 4);
    for (int root = 0; root < ranks; root++) {
        for (int i = 0; i < count; i++)
            part[i] = rank * count + i + root;
        MPI_Gather(part, count, MPI_INT, all, count, MPI_INT, root, comm);
        if (rank == root)
            for (int i = 0; i < ranks * count; i++)
                wrong += all[i] != i + root;
        MPI_Bcast(all, ranks * count, MPI_INT, root, comm);
        for (int i = 0; i < ranks * count; i++)
            wrong += all[i] != i + root;
        MPI_Scatter(all, count, MPI_INT, part, count, MPI_INT, root, comm);
        for (int i = 0; i < count; i++)
            wrong += part[i] != rank * count + i + root;
    }
    MPI_Allgather(part, count, MPI_INT, all, count, MPI_INT, comm);
    for (int i = 0; i < ranks * count; i++)
        wrong += all[i] != i + ranks - 1;
    free(part);
    free(all);
}

static void all_on(MPI_Comm comm)
{
    int rank, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    for (int count = 1; count <= 40000; count *= 20) {
        allreduce(comm, rank, ranks, count);
        alltoall(comm, rank, ranks, count);
        gather_and_broadcast(comm, rank, ranks, count / 2 + 1);
        MPI_Barrier(comm);
    }
    reduce_and_scan(comm, rank, ranks, 1);
    reduce_and_scan(comm, rank, ranks, 40000);
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Comm half, node;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    all_on(MPI_COMM_WORLD);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    all_on(half);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    all_on(node);
    MPI_Comm_free(&half);
    MPI_Comm_free(&node);
    printf("rank %d: %d wrong\n", rank, wrong);
    MPI_Finalize();
    return wrong != 0;
}
