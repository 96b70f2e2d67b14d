/* bench/messagerate/messagerate.c: how many messages per second pairs of partners exchange.
 *
 * usage, as an MPI job: messagerate ranks|threads PAIRS BYTES MILLISECONDS
 *
 * ranks: 2 x PAIRS ranks, rank i sends to rank PAIRS + i. threads: two ranks with PAIRS threads
 * each (MPI_THREAD_MULTIPLE), thread i of rank 0 sends to thread i of rank 1, on a communicator of
 * their own. A sender sends WINDOW messages, waits for one in return, and so on for the given time.
 * Each partner is bound to a CPU of its own if there are enough. Rank 0 prints
 * "rate PAIRS SECONDS", the time per message over all pairs; a damaged message is reported on
 * standard error. */
#include <mpi.h>
#include <pthread.h>

#include "../lib/bench.h"

enum { WINDOW = 64, WARM_UP = 16, PAIRS_MAX = 256 };

/* First byte of the first message of a window; the others carry their index. */
enum { GO_ON = 0xa0, LAST = 0xa1 };

static int pairs, bytes, own_rank;
static double seconds;
static int cpu_count, cpus[2 * PAIRS_MAX]; /* of the job */

struct partner {
    MPI_Comm comm;
    int peer, pair, sends;
    double rate; /* messages per second of a sender */
};

static void send_window(const struct partner *self, unsigned char *buffer, int mark)
{
    MPI_Request requests[WINDOW];
    MPI_Status statuses[WINDOW];
    unsigned char answer;
    for (int i = 0; i < WINDOW; i++) {
        unsigned char *message = buffer + (size_t)i * (size_t)bytes;
        message[0] = (unsigned char)(i ? i : mark);
        MPI_Isend(message, bytes, MPI_BYTE, self->peer, self->pair, self->comm, &requests[i]);
    }
    MPI_Waitall(WINDOW, requests, statuses);
    MPI_Recv(&answer, 1, MPI_BYTE, self->peer, self->pair, self->comm, MPI_STATUS_IGNORE);
}

/* The mark sent by the sender. */
static int receive_window(const struct partner *self, unsigned char *buffer)
{
    MPI_Request requests[WINDOW];
    MPI_Status statuses[WINDOW];
    memset(buffer, 0xff, (size_t)WINDOW * (size_t)bytes);
    for (int i = 0; i < WINDOW; i++)
        MPI_Irecv(buffer + (size_t)i * (size_t)bytes, bytes, MPI_BYTE, self->peer, self->pair,
                  self->comm, &requests[i]);
    MPI_Waitall(WINDOW, requests, statuses);
    for (int i = 1; i < WINDOW; i++)
        if (buffer[(size_t)i * (size_t)bytes] != i)
            bench_fail("a message was damaged or out of order", NULL);
    MPI_Send(buffer, 1, MPI_BYTE, self->peer, self->pair, self->comm);
    return buffer[0];
}

static void *exchange(void *argument)
{
    struct partner *self = argument;
    unsigned char *buffer = bench_allocate(WINDOW * (size_t)bytes);
    if (2 * pairs <= cpu_count)
        bench_bind(cpus[2 * self->pair + self->sends]);
    if (self->sends) {
        for (int i = 0; i < WARM_UP; i++)
            send_window(self, buffer, GO_ON);
        long windows = 0;
        double start = MPI_Wtime(), now = start;
        for (int last = 0; !last; windows++, now = MPI_Wtime()) {
            last = now - start >= seconds;
            send_window(self, buffer, last ? LAST : GO_ON);
        }
        self->rate = (double)windows * WINDOW / (now - start);
    } else {
        while (receive_window(self, buffer) == GO_ON)
            ;
    }
    free(buffer);
    return NULL;
}

static double run_ranks(void)
{
    int sends = own_rank < pairs;
    struct partner self = {MPI_COMM_WORLD, sends ? own_rank + pairs : own_rank - pairs,
                           own_rank % pairs, sends, 0};
    MPI_Barrier(MPI_COMM_WORLD);
    exchange(&self);
    double sum = 0;
    MPI_Reduce(&self.rate, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    return sum;
}

static double run_threads(void)
{
    static struct partner partners[PAIRS_MAX];
    pthread_t threads[PAIRS_MAX];
    double sum = 0;
    for (int i = 0; i < pairs; i++) {
        partners[i] = (struct partner){MPI_COMM_NULL, !own_rank, i, own_rank == 0, 0};
        MPI_Comm_dup(MPI_COMM_WORLD, &partners[i].comm);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < pairs; i++)
        if (pthread_create(&threads[i], NULL, exchange, &partners[i]) != 0)
            bench_fail("cannot make a thread", NULL);
    for (int i = 0; i < pairs; i++) {
        pthread_join(threads[i], NULL);
        MPI_Comm_free(&partners[i].comm);
        sum += partners[i].rate;
    }
    return sum;
}

int main(int argc, char **argv)
{
    int threaded = argc == 5 && strcmp(argv[1], "threads") == 0, provided, ranks;
    MPI_Init_thread(&argc, &argv, threaded ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &own_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    pairs = argc == 5 ? atoi(argv[2]) : 0;
    bytes = argc == 5 ? atoi(argv[3]) : 0;
    seconds = argc == 5 ? atof(argv[4]) / 1000 : 0;
    if ((!threaded && (argc != 5 || strcmp(argv[1], "ranks") != 0)) || pairs < 1 ||
        pairs > PAIRS_MAX || bytes < 1 || seconds <= 0)
        bench_fail("usage: messagerate ranks|threads PAIRS BYTES MILLISECONDS", NULL);
    if (ranks != (threaded ? 2 : 2 * pairs))
        bench_fail("ranks wants two ranks for each pair, threads wants two ranks", NULL);
    if (threaded && provided < MPI_THREAD_MULTIPLE)
        bench_fail("this MPI has no MPI_THREAD_MULTIPLE", NULL);
    cpu_count = bench_cpu_count();
    for (int i = 0; i < 2 * pairs; i++) /* before a thread is bound */
        cpus[i] = bench_cpu(i);
    double rate = threaded ? run_threads() : run_ranks();
    if (own_rank == 0) {
        bench_print("rate", pairs, 1 / rate);
        fflush(stdout); /* before MPI_Finalize, where some jobs hang: see onespace_nodes.py */
    }
    MPI_Finalize();
    return 0;
}
