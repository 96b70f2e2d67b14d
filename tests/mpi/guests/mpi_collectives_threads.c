/* mpi_collectives_threads ROUNDS [SEED]: threads that call collective operations at the same time,
 * each on a communicator of its own, every result checked; one more thread makes, uses and frees
 * communicators meanwhile. Exit status 1: something was wrong. */
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 3, MOST_RANKS = 16, LARGE = 3000 };

static _Atomic int wrong;
static int rounds;

/* A thread's. */
struct work {
    MPI_Comm comm;
    int number, rank, ranks;
    unsigned random; /* the same sequence on all ranks */
    int64_t *give, *get;
};

struct call {
    const struct work *work;
    MPI_Comm comm;
    int round, count, root;
};

static void expect(const struct call *call, int is_right, const char *what)
{
    if (!is_right && wrong++ < 5)
        printf("thread %d, round %d, %d items: %s is wrong\n", call->work->number, call->round,
               call->count, what);
}

static int64_t value(const struct call *call, int rank, int i)
{
    return rank * 1000003 + call->work->number * 7919 + i * 13 + call->round;
}

static int64_t sum(const struct call *call, int ranks, int i)
{
    int64_t all = 0;
    for (int rank = 0; rank < ranks; rank++)
        all += value(call, rank, i);
    return all;
}

static int are_sums(const struct call *call, int ranks, int first)
{
    for (int i = 0; i < call->count; i++)
        if (call->work->get[i] != sum(call, ranks, first + i))
            return 0;
    return 1;
}

/* `count` items of each of all ranks, the first of which is its item `first`. */
static int are_from_all(const struct call *call, int first)
{
    for (int i = 0; i < call->count * call->work->ranks; i++)
        if (call->work->get[i] != value(call, i / call->count, first + i % call->count))
            return 0;
    return 1;
}

static void one(const struct call *call, int what, MPI_Op own)
{
    const struct work *work = call->work;
    int n = call->count;
    for (int i = 0; i < n * work->ranks; i++)
        work->give[i] = value(call, work->rank, i);
    switch (what) {
    case 0:
        MPI_Allreduce(work->give, work->get, n, MPI_INT64_T, MPI_SUM, call->comm);
        return expect(call, are_sums(call, work->ranks, 0), "Allreduce");
    case 1:
        MPI_Allreduce(work->give, work->get, n, MPI_INT64_T, own, call->comm);
        return expect(call, are_sums(call, work->ranks, 0), "Allreduce by a function");
    case 2:
        MPI_Scan(work->give, work->get, n, MPI_INT64_T, MPI_SUM, call->comm);
        return expect(call, are_sums(call, work->rank + 1, 0), "Scan");
    case 3:
        MPI_Reduce_scatter_block(work->give, work->get, n, MPI_INT64_T, MPI_SUM, call->comm);
        return expect(call, are_sums(call, work->ranks, work->rank * n), "Reduce_scatter_block");
    case 4:
        MPI_Allgather(work->give, n, MPI_INT64_T, work->get, n, MPI_INT64_T, call->comm);
        return expect(call, are_from_all(call, 0), "Allgather");
    case 5:
        MPI_Alltoall(work->give, n, MPI_INT64_T, work->get, n, MPI_INT64_T, call->comm);
        return expect(call, are_from_all(call, work->rank * n), "Alltoall");
    case 6:
        MPI_Reduce(work->give, work->get, n, MPI_INT64_T, MPI_SUM, call->root, call->comm);
        return expect(call, work->rank != call->root || are_sums(call, work->ranks, 0), "Reduce");
    case 7:
        MPI_Gather(work->give, n, MPI_INT64_T, work->get, n, MPI_INT64_T, call->root, call->comm);
        return expect(call, work->rank != call->root || are_from_all(call, 0), "Gather");
    case 8:
        memcpy(work->get, work->give, (size_t)n * sizeof(*work->get));
        MPI_Bcast(work->get, n, MPI_INT64_T, call->root, call->comm);
        for (int i = 0; i < n; i++)
            if (work->get[i] != value(call, call->root, i))
                return expect(call, 0, "Bcast");
        return;
    default:
        MPI_Barrier(call->comm);
    }
}

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    const int64_t *from = in;
    int64_t *to = inout;
    (void)type;
    for (int i = 0; i < *count; i++)
        to[i] += from[i];
}

static void use(struct work *work, MPI_Comm comm, int round, MPI_Op own)
{
    int what = rand_r(&work->random) % 10, size = rand_r(&work->random) % 4;
    struct call call = {.work = work, .comm = comm, .round = round};
    call.count = 1 + rand_r(&work->random) % (size == 0 ? LARGE : size == 1 ? 300 : 12);
    call.root = rand_r(&work->random) % work->ranks;
    one(&call, what, own);
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

/* The communicator that is made may get the handle of the last one. */
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
    int provided, seed = argc > 2 ? atoi(argv[2]) : 1;
    struct work works[THREADS + 1];
    pthread_t threads[THREADS + 1];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    rounds = argc > 1 ? atoi(argv[1]) : 100;
    if (provided < MPI_THREAD_MULTIPLE) {
        printf("no threads\n");
        MPI_Finalize();
        return 0;
    }
    for (int i = 0; i <= THREADS; i++) {
        struct work *work = &works[i];
        work->number = i;
        work->random = (unsigned)(seed * (THREADS + 1) + i);
        MPI_Comm_dup(MPI_COMM_WORLD, &work->comm);
        MPI_Comm_rank(work->comm, &work->rank);
        MPI_Comm_size(work->comm, &work->ranks);
        work->give = malloc(sizeof(*work->give) * LARGE * (size_t)work->ranks);
        work->get = malloc(sizeof(*work->get) * LARGE * (size_t)work->ranks);
    }
    for (int i = 0; i <= THREADS; i++)
        pthread_create(&threads[i], NULL, i < THREADS ? work_on_one : make_and_free, &works[i]);
    for (int i = 0; i <= THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("rank %d: %d wrong\n", works[0].rank, wrong);
    for (int i = 0; i <= THREADS; i++) {
        MPI_Comm_free(&works[i].comm);
        free(works[i].give);
        free(works[i].get);
    }
    MPI_Finalize();
    return wrong != 0;
}
