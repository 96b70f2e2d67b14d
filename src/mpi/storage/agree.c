/* src/mpi/storage/agree.c: agreement of all ranks of a window in which a dead rank cannot seem to
 * have taken part.
 *
 * MPI promises nothing once a rank has died. MPICH 4.0 over UCX's TCP then completes an allreduce
 * with success and with whatever was in memory, and a commit would seem complete. So every word
 * carries its rank and the number of the call, which no earlier word had, and all words are
 * checked.
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

struct storage_word *storage_words_new(int ranks)
{
    return calloc((size_t)ranks + 1, sizeof(struct storage_word));
}

int storage_least_begin(struct storage_window *storage, int64_t mine)
{
    struct storage_word *words = storage->words, *own = words + storage->ranks;
    if (!words)
        return -EIO;
    memset(words, 0, (size_t)storage->ranks * sizeof(*words));
    *own = (struct storage_word){own->call + 1, storage->group->rank, mine};
    return real()->Iallgather(own, sizeof(*own), MPI_BYTE, words, sizeof(*words), MPI_BYTE,
                              storage->comm, &storage->pending) == MPI_SUCCESS
               ? 0
               : -EIO;
}

static int await_all(struct storage_window *storage)
{
    struct wait wait = WAIT_INIT(storage->group);
    int is_done = 0, result = MPI_SUCCESS;
    wait.is_for_io = 1;
    for (;;) {
        result = real()->Test(&storage->pending, &is_done, MPI_STATUS_IGNORE);
        if (result != MPI_SUCCESS || is_done)
            return result;
        if ((result = wait_round(&wait)) != MPI_SUCCESS)
            return result;
    }
}

int storage_least_end(struct storage_window *storage, int64_t *least)
{
    const struct storage_word *words = storage->words, *own = words + storage->ranks;
    if (await_all(storage) != MPI_SUCCESS) {
        storage->words = NULL; /* MPI may still write into them: they stay */
        return -EIO;
    }
    *least = own->value;
    for (int i = 0; i < storage->ranks; i++) {
        if (words[i].call != own->call || words[i].rank != i)
            return -EIO;
        *least = words[i].value < *least ? words[i].value : *least;
    }
    return 0;
}

int storage_least(struct storage_window *storage, int64_t mine, int64_t *least)
{
    int result = storage_least_begin(storage, mine);
    return result == 0 ? storage_least_end(storage, least) : result;
}
