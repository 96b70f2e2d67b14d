/* Collective operations of several sizes on the world and on halves of it, every result checked. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

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
