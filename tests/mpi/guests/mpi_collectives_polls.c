/* mpi_collectives_polls: rank 0 sends messages and enters a collective operation that all ranks
 * leave after it. One poll of another rank then finds each message, as it does after the library's
 * own operation. Argument: messages of each round. Prints how many polls found nothing. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 50, BEFORE = 40 };

static int rank, ranks, messages;

/* ---- The operations that no rank leaves before rank 0 has entered them ---- */

static void barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}
static void bcast(void)
{
    int value = 0;
    MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
}
static void allreduce(void)
{
    int mine = 1, sum;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}
static void scan(void)
{
    int mine = 1, sum;
    MPI_Scan(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}
static void allgather(void)
{
    int *all = calloc((size_t)ranks, sizeof(*all));
    MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
    free(all);
}
static void alltoall(void)
{
    int *give = calloc((size_t)ranks, sizeof(*give)), *get = calloc((size_t)ranks, sizeof(*get));
    MPI_Alltoall(give, 1, MPI_INT, get, 1, MPI_INT, MPI_COMM_WORLD);
    free(give);
    free(get);
}
static void scatter(void)
{
    int *all = calloc((size_t)ranks, sizeof(*all)), mine;
    MPI_Scatter(all, 1, MPI_INT, &mine, 1, MPI_INT, 0, MPI_COMM_WORLD);
    free(all);
}

static const struct {
    const char *name;
    void (*call)(void);
} operations[] = {{"Barrier", barrier}, {"Bcast", bcast},         {"Allreduce", allreduce},
                  {"Scan", scan},       {"Allgather", allgather}, {"Alltoall", alltoall},
                  {"Scatter", scatter}};

/* ---- The polls ---- */

static void receive(int tag)
{
    int got;
    MPI_Recv(&got, 1, MPI_INT, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static int probe(int tag)
{
    int flag, misses = 0;
    for (int i = 0; i < messages; i++) {
        MPI_Iprobe(0, tag, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        misses += !flag;
        receive(tag);
    }
    return misses;
}

static int probe_and_take(int tag)
{
    int flag, got, misses = 0;
    MPI_Message message;
    for (int i = 0; i < messages; i++) {
        MPI_Improbe(0, tag, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE);
        misses += !flag;
        if (flag)
            MPI_Mrecv(&got, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
        else
            receive(tag);
    }
    return misses;
}

/* "Receives all that has come", the end of a sparse exchange. */
static int probe_until_none(int tag)
{
    int flag = 1, got = 0;
    while (flag) {
        MPI_Iprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        if (flag)
            receive(tag);
        got += flag;
    }
    for (int i = got; i < messages; i++)
        receive(tag);
    return messages - got;
}

static const struct {
    const char *name;
    int (*poll)(int tag);
} polls[] = {{"MPI_Iprobe", probe}, {"MPI_Improbe", probe_and_take}, {"a loop", probe_until_none}};

static int try(int operation, int poll)
{
    int misses = 0, tag = poll;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        for (int to = 1; rank == 0 && to < ranks; to++)
            for (int i = 0; i < messages; i++)
                MPI_Send(&i, 1, MPI_INT, to, tag, MPI_COMM_WORLD);
        operations[operation].call();
        misses += rank ? polls[poll].poll(tag) : 0;
    }
    return misses;
}

int main(int argc, char **argv)
{
    int wrong = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    messages = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < BEFORE; i++)
        MPI_Barrier(MPI_COMM_WORLD);
    for (unsigned i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
        for (unsigned k = 0; k < sizeof(polls) / sizeof(polls[0]); k++) {
            int misses = try((int)i, (int)k);
            wrong += misses;
            if (misses)
                printf("rank %d: after MPI_%s %s misses %d of %d\n", rank, operations[i].name,
                       polls[k].name, misses, ROUNDS * messages);
        }
    printf("rank %d: %d wrong\n", rank, wrong);
    MPI_Finalize();
    return 0;
}
