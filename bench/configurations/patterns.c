/* bench/configurations/patterns.c: the patterns of the paper's Figures 2 to 4, as a plain MPI
 * program.
 *
 * usage: patterns PATTERN BATCHES MILLISECONDS SIZE...
 *
 *   exchange     each rank sends to both neighbours in a ring and receives from both
 *                (IMB-MPI1 Exchange)
 *   all_put_all  each rank puts into a window of every other (IMB-RMA All_put_all)
 *   window       a window is created and freed (IMB-EXT Window)
 *
 * Prints "PATTERN SIZE SECONDS" per batch, the time of one iteration on the slowest rank, and at
 * the end "messages COUNT", the sends or puts of all ranks. Received data is verified byte by
 * byte. */
#include <mpi.h>

#include "../lib/bench.h"

enum { WARM_UP = 3 };

struct job {
    int rank, ranks, size;
    unsigned char *send, *receive; /* receive: one part per rank */
    MPI_Win window;
    long messages;
};

/* The byte that rank `author` sends throughout batch `batch`. */
static int pattern(int author, int batch)
{
    return (author * 37 + batch * 11 + 1) & 0xff;
}

static void exchange(struct job *job)
{
    int left = (job->rank + job->ranks - 1) % job->ranks, right = (job->rank + 1) % job->ranks;
    unsigned char *from_left = job->receive, *from_right = job->receive + job->size;
    MPI_Request requests[4];
    MPI_Irecv(from_left, job->size, MPI_BYTE, left, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(from_right, job->size, MPI_BYTE, right, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(job->send, job->size, MPI_BYTE, right, 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(job->send, job->size, MPI_BYTE, left, 2, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    job->messages += 2;
}

static int exchange_is_right(const struct job *job, int batch)
{
    int left = (job->rank + job->ranks - 1) % job->ranks, right = (job->rank + 1) % job->ranks;
    for (int i = 0; i < job->size; i++)
        if (job->receive[i] != pattern(left, batch) ||
            job->receive[job->size + i] != pattern(right, batch))
            return 0;
    return 1;
}

static void all_put_all(struct job *job)
{
    for (int i = 1; i < job->ranks; i++)
        MPI_Put(job->send, job->size, MPI_BYTE, (job->rank + i) % job->ranks,
                (MPI_Aint)job->rank * job->size, job->size, MPI_BYTE, job->window);
    MPI_Win_flush_all(job->window);
    job->messages += job->ranks - 1;
}

static int puts_are_right(const struct job *job, int batch)
{
    MPI_Win_sync(job->window);
    for (int author = 0; author < job->ranks; author++)
        for (int i = 0; i < job->size && author != job->rank; i++)
            if (job->receive[(size_t)author * (size_t)job->size + (size_t)i] !=
                pattern(author, batch))
                return 0;
    return 1;
}

static void open_window(struct job *job)
{
    MPI_Win_create(job->receive, (MPI_Aint)job->size * job->ranks, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                   &job->window);
}

static void make_window(struct job *job)
{
    open_window(job);
    MPI_Win_free(&job->window);
}

static int receives_nothing(const struct job *job, int batch)
{
    (void)job, (void)batch;
    return 1;
}

static const struct operation {
    const char *name;
    void (*run)(struct job *);
    int (*is_right)(const struct job *, int batch);
    int in_window;
} operations[] = {
    {"exchange", exchange, exchange_is_right, 0},
    {"all_put_all", all_put_all, puts_are_right, 1},
    {"window", make_window, receives_nothing, 0},
};
enum { OPERATIONS = sizeof(operations) / sizeof(operations[0]) };

static double run_batch(const struct operation *operation, struct job *job, long count)
{
    for (int i = 0; i < WARM_UP; i++)
        operation->run(job);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (long i = 0; i < count; i++)
        operation->run(job);
    return bench_slowest((MPI_Wtime() - start) / (double)count);
}

/* True if every rank received the right data. Collective. */
static int measure(const struct operation *operation, struct job *job, int batches, double seconds)
{
    int right = 1, all_right;
    if (operation->in_window) {
        open_window(job);
        MPI_Win_lock_all(MPI_MODE_NOCHECK, job->window);
    }
    long count = bench_calls(run_batch(operation, job, 4), seconds, 2, 100000); /* of all ranks */
    for (int batch = 1; batch <= batches; batch++) {
        memset(job->send, pattern(job->rank, batch), (size_t)job->size);
        double found = run_batch(operation, job, count);
        MPI_Barrier(MPI_COMM_WORLD); /* the last puts have arrived */
        right &= operation->is_right(job, batch);
        MPI_Barrier(MPI_COMM_WORLD); /* before the next batch overwrites the buffers */
        if (job->rank == 0)
            bench_print(operation->name, job->size, found);
    }
    if (operation->in_window) {
        MPI_Win_unlock_all(job->window);
        MPI_Win_free(&job->window);
    }
    MPI_Allreduce(&right, &all_right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!all_right && job->rank == 0)
        fprintf(stderr, "patterns: %s of %d bytes: wrong data arrived\n", operation->name,
                job->size);
    return all_right;
}

int main(int argc, char **argv)
{
    struct job job = {0};
    const struct operation *operation = NULL;
    int right = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
    for (int i = 0; argc > 4 && i < OPERATIONS; i++)
        if (strcmp(argv[1], operations[i].name) == 0)
            operation = &operations[i];
    if (!operation || job.ranks < 2) {
        fprintf(stderr, "usage, on two ranks or more: patterns exchange|all_put_all|window BATCHES "
                        "MILLISECONDS SIZE...\n");
        MPI_Finalize();
        return 2;
    }
    for (int i = 4; i < argc && right; i++) {
        job.size = atoi(argv[i]);
        job.send = bench_allocate_pages((size_t)job.size);
        job.receive = bench_allocate_pages((size_t)job.size * (size_t)job.ranks);
        right = measure(operation, &job, atoi(argv[2]), atof(argv[3]) / 1000);
        free(job.send);
        free(job.receive);
    }
    long all;
    MPI_Reduce(&job.messages, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (job.rank == 0)
        printf("messages %ld\n", all);
    MPI_Finalize();
    return right ? 0 : 1;
}
