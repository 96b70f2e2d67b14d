/* src/mpi/storage/agree.c: agreement of the ranks of a window, or of some of them, in which a dead
 * rank cannot seem to have taken part, and for which no rank waits for ever.
 *
 * MPI promises nothing once a rank has died. MPICH 4.0 over UCX's TCP then completes an allreduce
 * with success and with whatever was in memory, and a commit would seem complete. So every word
 * carries its rank and the number of the call, which no earlier word had, and all words are
 * checked. And MPI's blocking calls wait for a rank that has left by _exit, so that each wait here
 * is a loop that looks whether all ranks are alive.
 *
 * Begin and end are separate calls because ranks may free their windows in different orders. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/group/wait.h"
#include "mpi/storage/window.h"

struct storage_word {
    uint64_t call; /* from 1 on */
    int64_t rank, value;
};

enum {
    SENT_MAX = 256 /* bytes of storage_send, behind the words */
};

int storage_ranks_begin(struct storage_ranks *ranks, const struct group *group, int rank, int count)
{
    *ranks = (struct storage_ranks){
        .comm = MPI_COMM_NULL,
        .group = group,
        .rank = rank,
        .count = count,
        .words = calloc(1, ((size_t)count + 1) * sizeof(struct storage_word) + SENT_MAX),
        .pending = MPI_REQUEST_NULL,
    };
    return ranks->words ? 0 : -ENOMEM;
}

void storage_ranks_end(struct storage_ranks *ranks)
{
    if (ranks->group && ranks->comm != MPI_COMM_NULL)
        real()->Comm_free(&ranks->comm);
    free(ranks->words);
    ranks->words = NULL;
}

int storage_least_begin(struct storage_ranks *ranks, int64_t mine)
{
    struct storage_word *words = ranks->words, *own = words + ranks->count;
    if (!words)
        return -EIO;
    memset(words, 0, (size_t)ranks->count * sizeof(*words));
    *own = (struct storage_word){own->call + 1, ranks->rank, mine};
    return real()->Iallgather(own, sizeof(*own), MPI_BYTE, words, sizeof(*words), MPI_BYTE,
                              ranks->comm, &ranks->pending) == MPI_SUCCESS
               ? 0
               : -EIO;
}

/* 0 or -EIO; then MPI may still write into the words: they stay. */
static int await_all(struct storage_ranks *ranks)
{
    struct wait wait = WAIT_INIT(ranks->group);
    int is_done = 0, result = MPI_SUCCESS;
    wait.is_for_io = 1;
    do
        result = real()->Test(&ranks->pending, &is_done, MPI_STATUS_IGNORE);
    while (result == MPI_SUCCESS && !is_done && (result = wait_round(&wait)) == MPI_SUCCESS);
    if (result == MPI_SUCCESS)
        return 0;
    ranks->words = NULL;
    return -EIO;
}

int storage_least_end(struct storage_ranks *ranks, int64_t *least)
{
    const struct storage_word *words = ranks->words, *own = words + ranks->count;
    if (await_all(ranks) < 0)
        return -EIO;
    *least = own->value;
    for (int i = 0; i < ranks->count; i++) {
        if (words[i].call != own->call || words[i].rank != i)
            return -EIO;
        *least = words[i].value < *least ? words[i].value : *least;
    }
    return 0;
}

int storage_send(struct storage_ranks *ranks, void *data, size_t size)
{
    struct storage_word *words = ranks->words;
    if (!words || size > SENT_MAX)
        return -EIO;
    /* Not the caller's memory, into which MPI might still write when this rank has given up. */
    void *sent = words + ranks->count + 1;
    memcpy(sent, data, size);
    if (real()->Ibcast(sent, (int)size, MPI_BYTE, 0, ranks->comm, &ranks->pending) != MPI_SUCCESS)
        return -EIO;
    if (await_all(ranks) < 0)
        return -EIO;
    memcpy(data, sent, size);
    return 0;
}

int storage_least(struct storage_ranks *ranks, int64_t mine, int64_t *least)
{
    int result = storage_least_begin(ranks, mine);
    return result == 0 ? storage_least_end(ranks, least) : result;
}
