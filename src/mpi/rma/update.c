/* src/mpi/rma/update.c: see update.h.
 *
 * Of all lines of 64 bytes whose addresses differ by whole pages, a stripe, one word says who
 * updates them. Who needs few takes these words, in one order for everybody. Who needs many takes
 * one word for all, and then only looks at the stripes until each was seen free; who has taken
 * stripes looks at that word and gives way. One of the two sees the other: both write first and
 * look then, sequentially consistent (Dekker). tests/models/updates.pml checks it. */
#include "mpi/rma/update.h"

enum { MANY = 8 }; /* stripes: more words than these cost more to take than to look at */

/* Parts that lie on the same bytes of a file have the words of one: there the addresses of a byte,
 * in all mappings and all processes, are at the same place in their pages. */
static struct direct_rank *words_of(struct window *window, int rank)
{
    return &window->direct->rank[window->overlaps ? 0 : rank];
}

uint32_t direct_lines(const char *address, size_t size)
{
    uintptr_t first = (uintptr_t)address / DIRECT_LINE;
    uintptr_t last = ((uintptr_t)address + (size ? size - 1 : 0)) / DIRECT_LINE;
    uint32_t lines = 0;
    if (last - first >= MANY)
        return DIRECT_ALL_LINES;
    for (uintptr_t line = first; line <= last; line++)
        lines |= 1u << (line % DIRECT_STRIPES);
    return lines;
}

/* Pairs with the release by which the one before gave it back. */
static int take(struct window *window, struct direct_updating *updating)
{
    struct wait wait = direct_wait(window);
    for (;;) {
        uint32_t nobody = 0, self = (uint32_t)window->party->rank + 1;
        if (atomic_load_explicit(&updating->by, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong_explicit(&updating->by, &nobody, self,
                                                    memory_order_seq_cst, memory_order_relaxed))
            return MPI_SUCCESS;
        int result = wait_round(&wait);
        if (result != MPI_SUCCESS)
            return result;
    }
}

static void give(struct direct_updating *updating)
{
    atomic_store_explicit(&updating->by, 0, memory_order_release);
}

static int is_free(struct direct_updating *updating)
{
    return atomic_load_explicit(&updating->by, memory_order_seq_cst) == 0;
}

static int await_free(struct window *window, struct direct_updating *updating)
{
    struct wait wait = direct_wait(window);
    int result = MPI_SUCCESS;
    while (result == MPI_SUCCESS && !is_free(updating))
        result = wait_round(&wait);
    return result;
}

static int take_all(struct window *window, struct direct_rank *words)
{
    int result = take(window, &words->all);
    if (result != MPI_SUCCESS)
        return result;
    for (int i = 0; i < DIRECT_STRIPES && result == MPI_SUCCESS; i++)
        result = await_free(window, &words->stripes[i]);
    if (result != MPI_SUCCESS)
        give(&words->all);
    return result;
}

static void give_few(struct direct_rank *words, uint32_t lines)
{
    for (; lines; lines &= lines - 1)
        give(&words->stripes[__builtin_ctz(lines)]);
}

static int take_few(struct window *window, struct direct_rank *words, uint32_t lines)
{
    for (uint32_t left = lines; left; left &= left - 1) {
        int result = take(window, &words->stripes[__builtin_ctz(left)]);
        if (result != MPI_SUCCESS) {
            give_few(words, lines & ((left & -left) - 1));
            return result;
        }
    }
    return MPI_SUCCESS;
}

int direct_take(struct window *window, int rank, uint32_t lines)
{
    struct direct_rank *words = words_of(window, rank);
    if (lines == DIRECT_ALL_LINES)
        return take_all(window, words);
    for (;;) {
        int result = take_few(window, words, lines);
        if (result != MPI_SUCCESS || is_free(&words->all))
            return result;
        give_few(words, lines);
        if ((result = await_free(window, &words->all)) != MPI_SUCCESS)
            return result;
    }
}

void direct_give(struct window *window, int rank, uint32_t lines)
{
    struct direct_rank *words = words_of(window, rank);
    if (lines == DIRECT_ALL_LINES)
        give(&words->all);
    else
        give_few(words, lines);
}
