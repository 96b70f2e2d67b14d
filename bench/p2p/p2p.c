/* bench/p2p/p2p.c: the cost of an exchange between two ranks; a plain MPI program.
 *
 * usage: p2p [-o OPERATION[,OPERATION]] [-b BATCHES] [-t MILLISECONDS] [-f] SIZE...
 *
 * Prints one line "OPERATION SIZE SECONDS" per batch: the time of one MPI_Sendrecv, or half the
 * round trip of a ping-pong, as a mean over the batch.
 *
 * The result depends largely on the state of the caches. Without -f the send buffers stay
 * unchanged, as in the usual MPI benchmarks. With -f a sender sends what it has just received, so
 * every byte has just been written, as in a program that computes what it sends.
 *
 * Each batch starts with new data; afterwards the received data is compared byte by byte. */
#include <mpi.h>

#include "../lib/bench.h"

enum { RANKS = 2, CPU_LIST_MAX = 256, WARM_UP = 4 };

struct buffers {
    unsigned char *send, *receive;
};

struct operation {
    const char *name;
    void (*exchange)(struct buffers *, int size, int rank, long count);
    double messages; /* consecutive ones per iteration, by which the time is divided */
};

static struct bench_options options = BENCH_OPTIONS_INIT("sendrecv,pingpong");

static void swap(struct buffers *buffers)
{
    unsigned char *sent = buffers->send;
    buffers->send = buffers->receive;
    buffers->receive = sent;
}

static void sendrecv(struct buffers *buffers, int size, int rank, long count)
{
    for (long i = 0; i < count; i++) {
        MPI_Sendrecv(buffers->send, size, MPI_BYTE, !rank, 0, buffers->receive, size, MPI_BYTE,
                     !rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (options.fresh)
            swap(buffers);
    }
}

static void pingpong(struct buffers *buffers, int size, int rank, long count)
{
    for (long i = 0; i < count; i++) {
        if (rank == 0)
            MPI_Send(buffers->send, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(buffers->receive, size, MPI_BYTE, !rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(options.fresh ? buffers->receive : buffers->send, size, MPI_BYTE, 0, 0,
                     MPI_COMM_WORLD);
        if (options.fresh && rank == 0)
            swap(buffers);
    }
}

static const struct operation operations[] = {
    {"sendrecv", sendrecv, 1},
    {"pingpong", pingpong, 2},
};
enum { OPERATIONS = sizeof(operations) / sizeof(operations[0]) };

/* Byte `at` of the data that rank `author` starts batch `batch` with. */
static unsigned char pattern(int author, int batch, size_t at)
{
    uint32_t word =
        (uint32_t)(at / 4) * 2654435761u + (uint32_t)(batch * RANKS + author + 1) * 40503u;
    return (unsigned char)(word >> (8 * (at % 4)));
}

static void prepare(const struct buffers *buffers, int size, int rank, int batch)
{
    for (size_t i = 0; i < (size_t)size; i++) {
        buffers->send[i] = pattern(rank, batch, i);
        buffers->receive[i] = (unsigned char)~buffers->send[i];
    }
}

/* With -f each exchange swaps the messages: after an even number they are back at their author. */
static int is_right(const struct operation *operation, const struct buffers *buffers, int size,
                    int rank, int batch, long count)
{
    const unsigned char *got = buffers->receive;
    int author = !rank;
    if (options.fresh && operation->exchange == sendrecv) {
        got = buffers->send; /* the last exchange swapped them */
        author = count % 2 ? !rank : rank;
    } else if (options.fresh) {
        got = rank == 0 ? buffers->send : buffers->receive;
        author = 0;
    }
    for (size_t i = 0; i < (size_t)size; i++) {
        if (got[i] == pattern(author, batch, i))
            continue;
        fprintf(stderr, "p2p: %s of %d bytes: rank %d got a wrong byte at %zu\n", operation->name,
                size, rank, i);
        return 0;
    }
    return 1;
}

static double run_batch(const struct operation *operation, struct buffers *buffers, int size,
                        int rank, long count)
{
    operation->exchange(buffers, size, rank, WARM_UP);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    operation->exchange(buffers, size, rank, count);
    return (MPI_Wtime() - start) / (double)count / operation->messages;
}

/* The number of exchanges per batch. Decided by rank 0, since both must use the same. Odd, so that
 * with -f the last message is the other rank's. */
static long calibrate(const struct operation *operation, struct buffers *buffers, int size,
                      int rank)
{
    long count = 8;
    for (int attempt = 0; attempt < 2; attempt++) { /* the second has a reliable estimate */
        double seconds = run_batch(operation, buffers, size, rank, count) * operation->messages;
        double target = attempt == 0 ? options.batch_seconds / 20 : options.batch_seconds;
        count = bench_calls(seconds, target, 4, 1000000) | 1;
        MPI_Bcast(&count, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    }
    return count;
}

/* True if both ranks received the right data. */
static int measure(const struct operation *operation, struct buffers buffers, int size, int rank)
{
    int right = 1, all_right;
    prepare(&buffers, size, rank, 0);
    long count = calibrate(operation, &buffers, size, rank);
    for (int batch = 1; batch <= options.batches; batch++) {
        prepare(&buffers, size, rank, batch);
        double seconds = run_batch(operation, &buffers, size, rank, count);
        right &= is_right(operation, &buffers, size, rank, batch, WARM_UP + count);
        if (rank == 0)
            bench_print(operation->name, size, seconds);
    }
    if (rank == 0)
        fflush(stdout);
    /* Both ranks exit normally: launchers drop output when a rank aborts. */
    MPI_Allreduce(&right, &all_right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all_right;
}

/* Reports the ranks' CPUs, on which the times depend. */
static void print_binding(int rank)
{
    char mine[CPU_LIST_MAX] = "", all[RANKS][CPU_LIST_MAX];
    cpu_set_t cpus;
    size_t used = 0;
    if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0)
        for (int cpu = 0; cpu < CPU_SETSIZE && used < sizeof(mine) - 8; cpu++)
            if (CPU_ISSET(cpu, &cpus))
                used += (size_t)snprintf(mine + used, sizeof(mine) - used, "%s%d", used ? "," : "",
                                         cpu);
    MPI_Gather(mine, CPU_LIST_MAX, MPI_CHAR, all, CPU_LIST_MAX, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int i = 0; i < RANKS && rank == 0; i++)
        printf("rank %d cpus %s\n", i, all[i]);
}

static int fail(const char *text, const char *what)
{
    fprintf(stderr, "p2p: %s%s\n", text, what);
    MPI_Finalize();
    return 2;
}

int main(int argc, char **argv)
{
    int rank, ranks, largest = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != RANKS)
        return fail("this is not a job of two ranks: do mpicc and mpiexec belong to the same MPI?",
                    "");

    for (int option; (option = getopt(argc, argv, BENCH_OPTIONS)) != -1;) {
        if (!bench_option(&options, option, optarg))
            return fail("usage: p2p [-o OPERATION] [-b BATCHES] [-t MILLISECONDS] [-f] SIZE...",
                        "");
    }
    for (int i = optind; i < argc; i++) {
        if (atoi(argv[i]) < 1)
            return fail("not a size in bytes: ", argv[i]);
        largest = atoi(argv[i]) > largest ? atoi(argv[i]) : largest;
    }

    print_binding(rank);
    struct buffers buffers = {bench_allocate_pages((size_t)largest),
                              bench_allocate_pages((size_t)largest)};
    int right = 1;
    for (int which = 0; which < OPERATIONS; which++)
        for (int i = optind;
             i < argc && right && bench_list_has(options.operations, operations[which].name); i++)
            right = measure(&operations[which], buffers, atoi(argv[i]), rank);
    free(buffers.send);
    free(buffers.receive);
    MPI_Finalize();
    return right ? 0 : 1;
}
