/* src/mpi/storage_agree.c: what all ranks of a window say, so that a rank that has died cannot seem
 * to have said it.
 *
 * MPI promises nothing once a rank has died. MPICH 4.0 over UCX's TCP then ends an allreduce with
 * success and with whatever was in memory, and a commit would seem to be complete. So every word
 * carries its rank and the number of the call, which none before it had, and all words are
 * looked at. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/storage_window.h"

struct storage_word {
    uint64_t call; /* from 1 on */
    int64_t rank, value;
};

struct storage_word *storage_words_new(int ranks)
{
    return calloc((size_t)ranks + 1, sizeof(struct storage_word));
}

int storage_least(struct storage_window *storage, int64_t mine, int64_t *least)
{
    struct storage_word *words = storage->words, *own = &words[storage->ranks];
    memset(words, 0, (size_t)storage->ranks * sizeof(*words));
    *own = (struct storage_word){own->call + 1, storage->rank, mine};
    if (real()->Allgather(own, sizeof(*own), MPI_BYTE, words, sizeof(*words), MPI_BYTE,
                          storage->comm) != MPI_SUCCESS)
        return -EIO;
    *least = mine;
    for (int i = 0; i < storage->ranks; i++) {
        if (words[i].call != own->call || words[i].rank != i)
            return -EIO;
        *least = words[i].value < *least ? words[i].value : *least;
    }
    return 0;
}
