/* mpi_window_polls [NAME]: rank 0 sends a message and synchronises a window with the other ranks,
 * which leave the synchronisation after that. One poll then finds the message, as it does after the
 * library's own synchronisation. Prints how many polls found nothing. */
#include "mpi/guests/polls.h"

enum { ROUNDS = 50, BARRIERS_BEFORE = 40 };

static MPI_Win window, other;
static long *base;
static MPI_Group origin, targets; /* rank 0; the others */

/* ---- Synchronisation: rank 0 sends in it, and the others leave it later ---- */

static void fence(int tag)
{
    send_all(tag);
    MPI_Win_fence(0, window);
}

static void start(int tag)
{
    if (rank) {
        MPI_Win_start(origin, 0, window);
        return;
    }
    send_all(tag);
    MPI_Win_post(targets, 0, window);
}

static void end_start(void)
{
    if (rank)
        MPI_Win_complete(window);
    else
        MPI_Win_wait(window);
}

static void wait(int tag)
{
    if (rank) {
        MPI_Win_post(origin, 0, window);
        MPI_Win_wait(window);
        return;
    }
    MPI_Win_start(targets, 0, window);
    send_all(tag);
    MPI_Win_complete(window);
}

static void test(int tag)
{
    int flag = 0;
    if (rank == 0) {
        wait(tag);
        return;
    }
    MPI_Win_post(origin, 0, window);
    while (!flag)
        MPI_Win_test(window, &flag);
}

/* The others get their locks after rank 0 has sent. */
static void send_under_lock(int tag)
{
    if (rank == 0)
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Barrier(world);
    send_all(tag);
    if (rank == 0)
        MPI_Win_unlock(0, window);
}

static void read_and_flush(void)
{
    long seen;
    MPI_Get(&seen, 1, MPI_LONG, 0, 0, 1, MPI_LONG, window);
    MPI_Win_flush(0, window);
}

static void lock(int tag)
{
    send_under_lock(tag);
    if (rank) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        read_and_flush();
    }
}

static void end_lock(void)
{
    if (rank)
        MPI_Win_unlock(0, window);
}

static void lock_all(int tag)
{
    send_under_lock(tag);
    if (rank) {
        MPI_Win_lock_all(0, window);
        read_and_flush();
    }
}

static void end_lock_all(void)
{
    if (rank)
        MPI_Win_unlock_all(window);
}

static void unlock(int tag)
{
    long value = 1;
    if (rank == 0) {
        lock(tag);
        return;
    }
    MPI_Barrier(world);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Put(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, window);
    MPI_Win_unlock(0, window);
}

/* A target polls a word of its own part. */
static void flush(int tag)
{
    static long round;
    long seen = 0;
    round++;
    MPI_Win_lock_all(0, window);
    send_all(tag);
    for (int to = 1; rank == 0 && to < ranks; to++) {
        MPI_Accumulate(&round, 1, MPI_LONG, to, 1, 1, MPI_LONG, MPI_REPLACE, window);
        MPI_Win_flush(to, window);
    }
    while (rank && seen != round) {
        MPI_Fetch_and_op(NULL, &seen, MPI_LONG, rank, 1, MPI_NO_OP, window);
        MPI_Win_flush(rank, window);
    }
}

static void end_flush(void)
{
    MPI_Win_unlock_all(window);
}

static void free_window(int tag)
{
    long *part;
    MPI_Win_allocate(8, 1, MPI_INFO_NULL, world, &part, &other);
    send_all(tag);
    MPI_Win_free(&other);
}

static void free_other(void)
{
    MPI_Win_free(&other);
}

static void allocate(int tag)
{
    long *part;
    send_all(tag);
    MPI_Win_allocate(8, 1, MPI_INFO_NULL, world, &part, &other);
}

static const struct {
    const char *name;
    void (*synchronise)(int tag);
    void (*end)(void);
} kinds[] = {{"fence", fence, NULL},      {"start", start, end_start},
             {"wait", wait, NULL},        {"test", test, NULL},
             {"lock", lock, end_lock},    {"lock_all", lock_all, end_lock_all},
             {"unlock", unlock, NULL},    {"flush", flush, end_flush},
             {"free", free_window, NULL}, {"allocate", allocate, free_other}};

static int run(int which)
{
    int misses = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int tag = round % 2;
        MPI_Barrier(world);
        kinds[which].synchronise(tag);
        if (rank)
            misses += (tag ? probe : matched_probe)(tag);
        if (kinds[which].end)
            kinds[which].end();
    }
    return misses;
}

int main(int argc, char **argv)
{
    int zero = 0;
    MPI_Group all;
    mpi_begin(&argc, &argv);
    MPI_Comm_group(world, &all);
    MPI_Group_incl(all, 1, &zero, &origin);
    MPI_Group_excl(all, 1, &zero, &targets);
    OK(MPI_Win_allocate(80, 8, MPI_INFO_NULL, world, &base, &window));
    memset(base, 0, 80);
    for (int i = 0; i < BARRIERS_BEFORE; i++)
        MPI_Barrier(world);
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        int misses = argc < 2 || strcmp(argv[1], kinds[i].name) == 0 ? run((int)i) : 0;
        if (misses)
            printf("rank %d: after %s %d of %d polls found nothing\n", rank, kinds[i].name, misses,
                   ROUNDS);
        wrong += misses;
    }
    OK(MPI_Win_free(&window));
    MPI_Group_free(&all);
    MPI_Group_free(&origin);
    MPI_Group_free(&targets);
    (void)mpi_end();
    return 0;
}
