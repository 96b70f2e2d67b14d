/* bench/p2p/limit.c: the physical limit of an exchange: two pinned threads and memcpy.
 *
 * usage: limit -c CPU,CPU [-o OPERATION[,OPERATION]] [-b BATCHES] [-t MILLISECONDS] [-f] SIZE...
 *
 * Prints the same lines as p2p, for the same operations: each thread copies directly from the
 * other's buffer, so the caches are in the same state as for an exchange with a single copy.
 * Without -f the source stays unchanged; with -f a thread copies from the buffer that the other has
 * just written. The first lines are "cas 0 SECONDS": the round trip of a cache line by
 * compare-and-swap. */
#include <pthread.h>
#include <stdatomic.h>

#include "../lib/bench.h"

enum { LINE = 64, SPINS = 20000, CAS_ROUNDS = 100000 };

struct side { /* written by one thread and read by the other; separate cache lines */
    _Alignas(2 * LINE) _Atomic long step; /* release: publishes the copies made before */
    _Alignas(2 * LINE) unsigned char *buffers[2];
    int cpu;
};

static struct side sides[2];
static _Alignas(2 * LINE) _Atomic int ball;
static struct bench_options options = BENCH_OPTIONS_INIT("sendrecv,pingpong");
static int size_count, sizes[64];
/* Written by thread 0 before it announces a step, read by thread 1 after that step: relaxed.
 * Atomic, because GCC 16 reads a plain one before the call that waits. */
static _Atomic long agreed_count;

/* Spins, which is what is measured; yields in case another program has the other CPU. */
static void relax(int *spins)
{
    if (++*spins > SPINS)
        sched_yield();
    bench_relax();
}

static void announce(int self, long step)
{
    atomic_store_explicit(&sides[self].step, step, memory_order_release);
}

static void await(int other, long step)
{
    int spins = 0;
    while (atomic_load_explicit(&sides[other].step, memory_order_acquire) < step)
        relax(&spins);
}

/* Both directions at once. One barrier per copy suffices: after it, both have read what may be
 * overwritten next. */
static void sendrecv(int self, int size, long *step, long count)
{
    for (long i = 0; i < count; i++) {
        int source = options.fresh && i % 2;
        memcpy(sides[self].buffers[!source], sides[!self].buffers[source], (size_t)size);
        announce(self, ++*step);
        await(!self, *step);
    }
}

/* The threads alternate: thread 1 copies in even steps, thread 0 in odd ones. With -f thread 0
 * passes on what it received last, as rank 0 of p2p does, so its two buffers alternate. */
static void pingpong(int self, int size, long *step, long count)
{
    for (long i = 0; i < 2 * count; i++) {
        int source = options.fresh && i / 2 % 2; /* which of its buffers thread 0 sends from */
        ++*step;
        if (self == i % 2)
            await(!self, *step);
        else if (self == 1)
            memcpy(sides[1].buffers[!options.fresh], sides[0].buffers[source], (size_t)size);
        else
            memcpy(sides[0].buffers[!source], sides[1].buffers[0], (size_t)size);
        announce(self, *step);
    }
}

static const struct operation {
    const char *name;
    void (*exchange)(int self, int size, long *step, long count);
    double messages;
} operations[] = {{"sendrecv", sendrecv, 1}, {"pingpong", pingpong, 2}};

static void wait_for_both(int self, long *step)
{
    announce(self, ++*step);
    await(!self, *step);
}

static double run_batch(const struct operation *operation, int self, int size, long *step,
                        long count)
{
    operation->exchange(self, size, step, 4);
    wait_for_both(self, step);
    double start = seconds_now();
    operation->exchange(self, size, step, count);
    return (seconds_now() - start) / (double)count / operation->messages;
}

static void measure(const struct operation *operation, int self, int size, long *step)
{
    double seconds = run_batch(operation, self, size, step, 20) * operation->messages;
    if (self == 0) {
        long count = bench_calls(seconds, options.batch_seconds, 4, 1000000);
        atomic_store_explicit(&agreed_count, count, memory_order_relaxed);
    }
    wait_for_both(self, step);
    long count = atomic_load_explicit(&agreed_count, memory_order_relaxed);
    for (int batch = 0; batch < options.batches; batch++) {
        seconds = run_batch(operation, self, size, step, count);
        if (self == 0)
            bench_print(operation->name, size, seconds);
    }
    wait_for_both(self, step); /* both have read before the next agreement */
}

static void cas_round_trip(int self, long *step)
{
    for (int batch = 0; batch < options.batches; batch++) {
        wait_for_both(self, step);
        double start = seconds_now();
        for (int i = 0; i < CAS_ROUNDS; i++) {
            int spins = 0;
            for (int expected = self; !atomic_compare_exchange_weak(&ball, &expected, !self);
                 expected = self)
                relax(&spins);
        }
        if (self == 0)
            bench_print("cas", 0, (seconds_now() - start) / CAS_ROUNDS);
        wait_for_both(self, step);
    }
}

static void *run(void *argument)
{
    int self = argument == &sides[1];
    long step = 0;
    bench_bind(sides[self].cpu);
    int largest = 1;
    for (int i = 0; i < size_count; i++)
        largest = sizes[i] > largest ? sizes[i] : largest;
    for (int i = 0; i < 2; i++) { /* first touch: allocates them in this CPU's memory */
        sides[self].buffers[i] = bench_allocate_pages((size_t)largest);
        memset(sides[self].buffers[i], self + 1, (size_t)largest);
    }
    wait_for_both(self, &step);
    cas_round_trip(self, &step);
    for (size_t which = 0; which < sizeof(operations) / sizeof(operations[0]); which++)
        for (int i = 0;
             i < size_count && bench_list_has(options.operations, operations[which].name); i++)
            measure(&operations[which], self, sizes[i], &step);
    return NULL;
}

int main(int argc, char **argv)
{
    sides[1].cpu = -1;
    for (int option; (option = getopt(argc, argv, "c:" BENCH_OPTIONS)) != -1;) {
        if (option == 'c' && sscanf(optarg, "%d,%d", &sides[0].cpu, &sides[1].cpu) != 2)
            return fprintf(stderr, "limit: -c %s: not two CPUs such as 0,1\n", optarg), 2;
        else if (option != 'c' && !bench_option(&options, option, optarg))
            return 2;
    }
    if (sides[1].cpu < 0)
        return fprintf(stderr, "limit: -c CPU,CPU is missing\n"), 2;
    for (; optind < argc && size_count < 64; optind++, size_count++)
        if ((sizes[size_count] = atoi(argv[optind])) < 1)
            return fprintf(stderr, "limit: not a size in bytes: %s\n", argv[optind]), 2;

    pthread_t other;
    if (pthread_create(&other, NULL, run, &sides[1]) != 0)
        return fprintf(stderr, "limit: cannot make a thread\n"), 1;
    run(&sides[0]);
    pthread_join(other, NULL);
    return 0;
}
