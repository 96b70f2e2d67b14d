/* bench/p2p/ring.c: what the least implementation of point-to-point messages between two tasks
 * would take. Two bound threads exchange messages as MPI_Sendrecv does; source, tag and context are
 * compared, but there are no requests, no wildcards and no unexpected messages.
 *
 * ring [TIMES]
 *
 * "WAY BYTES MICROSECONDS" for each size: the median of 7 runs of an exchange. copied: through a
 * ring of cells, as MPI libraries do with short messages. direct: the receiver reads the sender's
 * buffer, and the sender waits for it. */
#include <pthread.h>
#include <stdatomic.h>

#include "../lib/bench.h"

enum { CELLS = 64, BYTES_MAX = 4096, RUNS = 7, WARM_UP = 1000, TAG = 5 };
enum { COPIED, DIRECT, WAYS };

/* turn: 2 n: message n may be written (release by the receiver); 2 n + 1: it is there (release by
 * the sender). Each waits for the other's with acquire. */
struct cell {
    _Alignas(64) _Atomic uint64_t turn;
    int source, tag, context;
    uint32_t size;
    const char *where;
    char data[BYTES_MAX];
};

static struct cell rings[2][CELLS];
static _Atomic uint64_t
    taken[2][16]; /* messages of thread i that its peer has read; release, acquire */
static int size, way, times = 200000;
static double elapsed;

static void await(_Atomic uint64_t *word, uint64_t value)
{
    while (atomic_load_explicit(word, memory_order_acquire) != value)
        bench_relax();
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
    char *out = aligned_alloc(64, BYTES_MAX), *in = aligned_alloc(64, BYTES_MAX);
    double start = 0;
    if (!out || !in)
        abort();
    bench_bind(me);
    memset(out, me, BYTES_MAX);
    for (uint64_t i = 0; i < (uint64_t)times + WARM_UP; i++) {
        if (i == WARM_UP)
            start = seconds_now();
        send(me, out, i);
        receive(me, in, i);
        if (way == DIRECT)
            await(&taken[me][0], i + 1);
    }
    if (me == 0)
        elapsed = seconds_now() - start;
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

int main(int argc, char **argv)
{
    static const int sizes[] = {8, 64, 256, 1024, BYTES_MAX};
    if (argc > 1 && (times = atoi(argv[1])) < 1)
        return 2;
    for (way = 0; way < WAYS; way++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            double samples[RUNS];
            size = sizes[i];
            for (int j = 0; j < RUNS; j++)
                samples[j] = run();
            printf("%s %d %.3f\n", way == COPIED ? "copied" : "direct", size,
                   bench_median(samples, RUNS) * 1e6);
        }
    return 0;
}
