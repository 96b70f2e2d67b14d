/* src/mpi/group/wait.c: see wait.h. */
#include "mpi/group/wait.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "arch.h"
#include "mpi/group/progress.h"
#include "mpi/real/message.h"
#include "onespace.h"

enum {
    SPINS_SHARED = 256,   /* a peer may be about to answer */
    SPINS_ALONE = 16384,  /* around a millisecond */
    SLEEP_NS = 20000,     /* the kernel adds as much again, or twice as much */
    PROGRESS_FROM = 1024, /* spins: most waits are over by then */
    PROGRESS_EVERY = 32,  /* spins; MPI's look at its queues costs about as much as these */
    /* Between looks whether all ranks are alive, which read a file for each: from the first pause
     * on, each is twice as long as the one before, up to the last. */
    FIRST_PAUSE_MS = 10,
    LAST_PAUSE_MS = 320,
};

/* A process that ended but was not waited for still has its pid. */
static int has_ended(int pid)
{
    char path[32], text[512] = "";
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return errno == ENOENT;
    size_t length = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[length] = 0;
    char *name_end = strrchr(text, ')');
    return length == 0 ||
           (name_end && (strncmp(name_end, ") Z", 3) == 0 || strncmp(name_end, ") X", 3) == 0));
}

static int is_dead(const struct party *party, int rank)
{
    if (party->is_one_space)
        return onespace_pid(party->members[rank]) == -ESRCH;
    return party->pids[rank] && has_ended(party->pids[rank]);
}

static int look_for_the_dead(const struct party *party)
{
    for (int rank = 0; party->ranks > 1 && rank < party->ranks; rank++)
        if (rank != party->rank && is_dead(party, rank)) {
            layer_message(party->rank,
                          "rank %d of the window's communicator has ended (%s %d): what waits "
                          "for it cannot go on",
                          rank, party->is_one_space ? "task" : "process",
                          party->is_one_space ? party->members[rank] : party->pids[rank]);
            return MPI_ERR_OTHER;
        }
    return MPI_SUCCESS;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* By the clock: a round may take a time slice of every other process. */
static int look_now_and_then(struct wait *wait)
{
    const uint64_t ms = 1000000;
    uint64_t now = now_ns();
    if (now < wait->look_at)
        return MPI_SUCCESS;
    int is_first = wait->look_at == 0;
    wait->pause = is_first                           ? FIRST_PAUSE_MS * ms
                  : wait->pause < LAST_PAUSE_MS * ms ? 2 * wait->pause
                                                     : wait->pause;
    wait->look_at = now + wait->pause;
    return is_first ? MPI_SUCCESS : look_for_the_dead(wait->party);
}

uint32_t wait_spins(int ranks)
{
    return ranks <= sysconf(_SC_NPROCESSORS_ONLN) ? SPINS_ALONE : SPINS_SHARED;
}

static void give_way(const struct wait *wait)
{
    if (wait->is_for_io)
        nanosleep(&(struct timespec){0, SLEEP_NS}, NULL);
    else
        sched_yield();
}

int wait_round(struct wait *wait)
{
    uint32_t round = ++wait->rounds, spins = wait->is_for_io ? SPINS_SHARED : wait->party->spins;
    if (round < spins && (round < PROGRESS_FROM || round % PROGRESS_EVERY)) {
        arch_pause();
        return MPI_SUCCESS;
    }
    /* Another rank may be in a send to this one, and come only when that is done. */
    int result = progress_make();
    if (result != MPI_SUCCESS || round < spins)
        return result;
    give_way(wait);
    return look_now_and_then(wait);
}
