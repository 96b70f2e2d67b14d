/* bench/p2p/ring.c: what the least implementation of point-to-point messages between two tasks
 * would take. Two bound threads exchange messages as MPI_Sendrecv does; source, tag and context are
 * compared, but there are no requests, no wildcards and no unexpected messages.
 *
 * ring [TIMES]
 *
 * "WAY BYTES MICROSECONDS" for each size: the median of 7 runs of an exchange. copied: through a
 * ring of cells, as MPI libraries do with short messages. direct: the receiver reads the sender's
 * buffer, and the sender waits for it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CELLS = 64, MOST = 4096, RUNS = 7, WARM_UP = 1000, TAG = 5 };
enum { COPIED, DIRECT, WAYS };

/* turn: 2 n: message n may be written (release by the receiver); 2 n + 1: it is there (release by
 * the sender). Each waits for the other's with acquire. */
struct cell {
    _Alignas(64) _Atomic uint64_t turn;
    int source, tag, context;
    uint32_t size;
    const char *where;
    char data[MOST];
};

static struct cell rings[2][CELLS];
static _Atomic uint64_t
    taken[2][16]; /* messages of thread i that its peer has read; release, acquire */
static int size, way, times = 200000;
static double elapsed;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void await(_Atomic uint64_t *word, uint64_t value)
{
    while (atomic_load_explicit(word, memory_order_acquire) != value)
        __builtin_ia32_pause();
}

static void send(int me, const char *buffer, uint64_t number)
{
    struct cell *cell = &rings[1 - me][number % CELLS];
    await(&cell->turn, 2 * number);
    cell->source = me;
    cell->tag = TAG;
    cell->context = 0;
    cell->size = (uint32_t)size;
    cell->where = buffer;
    if (way == COPIED)
        memcpy(cell->data, buffer, (size_t)size);
    atomic_store_explicit(&cell->turn, 2 * number + 1, memory_order_release);
}

static void receive(int me, char *buffer, uint64_t number)
{
    struct cell *cell = &rings[me][number % CELLS];
    await(&cell->turn, 2 * number + 1);
    if (cell->source != 1 - me || cell->tag != TAG || cell->context != 0)
        abort();
    memcpy(buffer, way == COPIED ? cell->data : cell->where, cell->size);
    if (way == DIRECT)
        atomic_store_explicit(&taken[1 - me][0], number + 1, memory_order_release);
    atomic_store_explicit(&cell->turn, 2 * (number + CELLS), memory_order_release);
}

static void *exchange(void *argument)
{
    int me = (int)(intptr_t)argument;
    char *out = aligned_alloc(64, MOST), *in = aligned_alloc(64, MOST);
    double start = 0;
    cpu_set_t cpu;
    if (!out || !in)
        abort();
    CPU_ZERO(&cpu);
    CPU_SET(me, &cpu);
    pthread_setaffinity_np(pthread_self(), sizeof(cpu), &cpu);
    memset(out, me, MOST);
    for (uint64_t i = 0; i < (uint64_t)times + WARM_UP; i++) {
        if (i == WARM_UP)
            start = now();
        send(me, out, i);
        receive(me, in, i);
        if (way == DIRECT)
            await(&taken[me][0], i + 1);
    }
    if (me == 0)
        elapsed = now() - start;
    free(out);
    free(in);
    return NULL;
}

static double run(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        for (unsigned j = 0; j < CELLS; j++)
            atomic_store(&rings[i][j].turn, 2 * j);
        atomic_store(&taken[i][0], 0);
    }
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, exchange, (void *)(intptr_t)i) != 0)
            abort();
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return elapsed / times;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    static const int sizes[] = {8, 64, 256, 1024, MOST};
    if (argc > 1 && (times = atoi(argv[1])) < 1)
        return 2;
    for (way = 0; way < WAYS; way++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            double samples[RUNS];
            size = sizes[i];
            for (int j = 0; j < RUNS; j++)
                samples[j] = run();
            qsort(samples, RUNS, sizeof(samples[0]), compare);
            printf("%s %d %.3f\n", way == COPIED ? "copied" : "direct", size,
                   samples[RUNS / 2] * 1e6);
        }
    return 0;
}
