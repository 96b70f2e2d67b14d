/* bench/messagerate/ring.c: the limit of a message rate: pairs of pinned threads and a ring of
 * slots.
 *
 * usage: ring PAIRS BYTES MILLISECONDS
 *
 * The minimum work of a message: its bytes are written to a slot and copied out of it, and the
 * cache lines move from one CPU to the other. Prints "rate PAIRS SECONDS", the time per message
 * over all pairs. */
#include <pthread.h>
#include <stdatomic.h>

#include "../lib/bench.h"

enum { SLOTS = 64, LINE = 64, PAIRS_MAX = 256, SPINS = 20000 };

struct pair {
    /* Written by the sender (release: the slot is filled), read by the receiver (acquire). */
    _Alignas(2 * LINE) _Atomic uint64_t sent;
    /* Written by the receiver (release: the slot has been read), read by the sender (acquire). */
    _Alignas(2 * LINE) _Atomic uint64_t received;
    _Alignas(2 * LINE) unsigned char *slots;
    pthread_t threads[2];
    int number;
    double rate;
};

static struct pair pairs[PAIRS_MAX];
static int pair_count, bytes;
static size_t slot_size;
static double seconds;
/* Set by the main thread when the time is over; orders nothing else. */
static _Atomic int over;

static void bind_thread(int number)
{
    if (2 * pair_count <= bench_cpu_count())
        bench_bind(bench_cpu(number));
}

/* Waits until the partner's count has reached `wanted`; 0 if the time is over first. */
static int await(_Atomic uint64_t *count, uint64_t wanted)
{
    for (int spins = 0; atomic_load_explicit(count, memory_order_acquire) < wanted; spins++) {
        if (atomic_load_explicit(&over, memory_order_relaxed))
            return 0;
        if (spins > SPINS)
            sched_yield();
    }
    return 1;
}

static void *send_all(void *argument)
{
    struct pair *pair = argument;
    unsigned char *message = calloc(1, slot_size);
    bind_thread(2 * pair->number);
    double start = seconds_now();
    uint64_t at = 0;
    for (; message && (at < SLOTS || await(&pair->received, at + 1 - SLOTS)); at++) {
        memcpy(pair->slots + at % SLOTS * slot_size, message, (size_t)bytes);
        atomic_store_explicit(&pair->sent, at + 1, memory_order_release);
    }
    pair->rate = (double)at / (seconds_now() - start);
    free(message);
    return NULL;
}

static void *receive_all(void *argument)
{
    struct pair *pair = argument;
    unsigned char *message = malloc(slot_size);
    bind_thread(2 * pair->number + 1);
    for (uint64_t at = 0; message && await(&pair->sent, at + 1); at++) {
        memcpy(message, pair->slots + at % SLOTS * slot_size, (size_t)bytes);
        *(volatile unsigned char *)message; /* keeps the copy */
        atomic_store_explicit(&pair->received, at + 1, memory_order_release);
    }
    free(message);
    return NULL;
}

static void start(int number)
{
    struct pair *pair = &pairs[number];
    pair->number = number;
    pair->slots = aligned_alloc(LINE, SLOTS * slot_size);
    if (!pair->slots || pthread_create(&pair->threads[0], NULL, send_all, pair) != 0 ||
        pthread_create(&pair->threads[1], NULL, receive_all, pair) != 0)
        bench_fail("cannot start a pair of threads", NULL);
}

int main(int argc, char **argv)
{
    pair_count = argc == 4 ? atoi(argv[1]) : 0;
    bytes = argc == 4 ? atoi(argv[2]) : 0;
    seconds = argc == 4 ? atof(argv[3]) / 1000 : 0;
    if (pair_count < 1 || pair_count > PAIRS_MAX || bytes < 1 || seconds <= 0) {
        fprintf(stderr, "usage: ring PAIRS BYTES MILLISECONDS\n");
        return 2;
    }
    slot_size = ((size_t)bytes + LINE - 1) / LINE * LINE;
    for (int i = 0; i < pair_count; i++)
        start(i);
    struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
    atomic_store_explicit(&over, 1, memory_order_relaxed);
    double sum = 0;
    for (int i = 0; i < pair_count; i++) {
        pthread_join(pairs[i].threads[0], NULL);
        pthread_join(pairs[i].threads[1], NULL);
        sum += pairs[i].rate;
        free(pairs[i].slots);
    }
    bench_print("rate", pair_count, 1 / sum);
    return 0;
}
