/* mpi_collectives_threads ROUNDS [SEED]: threads that call collective operations at the same time,
 * each on a communicator of its own, every result checked; one more thread makes, uses and frees
 * communicators meanwhile. Exit status 1: something was wrong. */
#include <pthread.h>
#include <sched.h>

#include "mpi/collectives/guests/collective.h"

enum { THREADS = 3, LARGE = 3000 };

static int rounds;

/* One per thread. */
struct work {
    MPI_Comm comm;
    int number;
    unsigned random; /* the same sequence on all ranks */
    int64_t *in, *out;
};

static int64_t value(const struct work *work, int round, int from, int i)
{
    return from * 1000003 + work->number * 7919 + i * 13 + round;
}

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    const int64_t *from = in;
    int64_t *to = inout;
    (void)type;
    for (int i = 0; i < *count; i++)
        to[i] += from[i];
}

/* Item i that this rank's result must have. */
static int64_t expected_of(const struct work *work, const struct collective *c, int round, int i)
{
    const struct share share = share_of(c, rank, ranks, 0);
    int64_t sum = 0;
    if (c->operation == BCAST)
        return value(work, round, c->root, i);
    if (c->operation < ALLREDUCE) {
        int block = i / c->recvcount, at = i % c->recvcount;
        return value(work, round, block, at + (c->operation == ALLTOALL ? rank * c->recvcount : 0));
    }
    for (int from = 0; from < share.operands; from++)
        sum += value(work, round, from, share.first + i);
    return sum;
}

/* Items of this rank's result. */
static int result_count(const struct collective *c)
{
    const struct share share = share_of(c, rank, ranks, 0);
    switch (c->operation) {
    case BARRIER:
        return 0;
    case BCAST:
        return c->recvcount;
    case GATHER:
        return rank == c->root ? ranks * c->recvcount : 0;
    case ALLGATHER:
    case ALLTOALL:
        return ranks * c->recvcount;
    default:
        return share.operands ? share.own : 0;
    }
}

static void use(struct work *work, MPI_Comm comm, int round, MPI_Op own)
{
    static const enum operation operations[] = {ALLREDUCE, ALLREDUCE, SCAN,   REDUCE_SCATTER_BLOCK,
                                                ALLGATHER, ALLTOALL,  REDUCE, GATHER,
                                                BCAST,     BARRIER};
    unsigned what = (unsigned)rand_r(&work->random) % COUNT_OF(operations);
    int size = rand_r(&work->random) % 4;
    int count = 1 + rand_r(&work->random) % (size == 0 ? LARGE : size == 1 ? 300 : 12);
    struct collective call =
        collective_of(operations[what], count, MPI_INT64_T, work->in, work->out);
    const struct share share = share_of(&call, rank, ranks, 0);
    call.comm = comm;
    call.op = what == 1 ? own : MPI_SUM;
    call.root = rand_r(&work->random) % ranks;
    for (int i = 0; i < (count + 1) * ranks; i++)
        work->in[i] = work->out[i] = value(work, round, rank, i);
    if (call.operation >= ALLREDUCE)
        reduction_call(call, &share);
    else
        collective_call(&call);
    for (int i = 0, items = result_count(&call); i < items; i++)
        if (work->out[i] != expected_of(work, &call, round, i)) {
            if (wrong++ < 5)
                printf("thread %d, round %d, %d items: %s is wrong\n", work->number, round, count,
                       operation_names[call.operation]);
            return;
        }
}

static void *work_on_one(void *context)
{
    struct work *work = context;
    MPI_Op own;
    MPI_Op_create(add, 1, &own);
    for (int round = 0; round < rounds; round++)
        use(work, work->comm, round, own);
    MPI_Op_free(&own);
    return NULL;
}

/* A new communicator may get the handle of the last one. */
static void *make_and_free(void *context)
{
    struct work *work = context;
    for (int round = 0; round < rounds / 4; round++) {
        MPI_Comm made;
        MPI_Comm_dup(work->comm, &made);
        for (int i = 0; i < round % 3; i++)
            use(work, made, round, MPI_SUM);
        MPI_Comm_free(&made);
        sched_yield();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct work works[THREADS + 1];
    pthread_t threads[THREADS + 1];
    int provided = mpi_begin_threads(&argc, &argv, MPI_THREAD_MULTIPLE);
    int seed = argc > 2 ? atoi(argv[2]) : 1;
    rounds = argc > 1 ? atoi(argv[1]) : 100;
    if (provided < MPI_THREAD_MULTIPLE) {
        printf("no threads\n");
        MPI_Finalize();
        return 0;
    }
    for (int i = 0; i <= THREADS; i++) {
        size_t bytes = sizeof(int64_t) * (LARGE + 1) * (size_t)ranks;
        works[i] = (struct work){MPI_COMM_NULL, i, (unsigned)(seed * (THREADS + 1) + i),
                                 malloc(bytes), malloc(bytes)};
        MPI_Comm_dup(world, &works[i].comm);
    }
    for (int i = 0; i <= THREADS; i++)
        pthread_create(&threads[i], NULL, i < THREADS ? work_on_one : make_and_free, &works[i]);
    for (int i = 0; i <= THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i <= THREADS; i++) {
        MPI_Comm_free(&works[i].comm);
        free(works[i].in);
        free(works[i].out);
    }
    return mpi_end();
}
