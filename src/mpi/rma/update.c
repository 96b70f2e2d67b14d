/* src/mpi/rma/update.c: see update.h.
 *
 * The cache lines that are a multiple of DIRECT_STRIPES lines apart form a stripe, whose word says
 * who updates them. An update of few stripes acquires their words in ascending order. An update of
 * many acquires the one word for all, then waits until it has seen each stripe free. A rank that
 * has acquired stripes checks the word for all and backs off if it is owned. Each side writes
 * before it reads, sequentially consistent, so at least one sees the other (Dekker).
 * tests/models/updates.pml checks it. */
#include "mpi/rma/update.h"

enum { MANY = 8 }; /* stripes: acquiring more words than these costs more than reading all */

/* Parts that overlap in a file share the words of rank 0: there a byte has the same offset in its
 * page in all mappings of all processes. */
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

uint32_t direct_add_lines(uint32_t lines, const char *address, size_t size)
{
    lines |= direct_lines(address, size);
    return __builtin_popcount(lines) > MANY ? DIRECT_ALL_LINES : lines;
}

/* Acquire: pairs with release() of the previous owner. */
static int acquire(struct window *window, struct direct_updating *updating)
{
    struct wait wait = direct_wait(window);
    for (;;) {
        uint32_t nobody = 0, self = (uint32_t)window->group->rank + 1;
        if (atomic_load_explicit(&updating->by, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong_explicit(&updating->by, &nobody, self,
                                                    memory_order_seq_cst, memory_order_relaxed))
            return MPI_SUCCESS;
        int result = wait_round(&wait);
        if (result != MPI_SUCCESS)
            return result;
    }
}

static void release(struct direct_updating *updating)
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

static int acquire_all(struct window *window, struct direct_rank *words)
{
    int result = acquire(window, &words->all);
    if (result != MPI_SUCCESS)
        return result;
    for (int i = 0; i < DIRECT_STRIPES && result == MPI_SUCCESS; i++)
        result = await_free(window, &words->stripes[i]);
    if (result != MPI_SUCCESS)
        release(&words->all);
    return result;
}

static void release_few(struct direct_rank *words, uint32_t lines)
{
    for (; lines; lines &= lines - 1)
        release(&words->stripes[__builtin_ctz(lines)]);
}

static int acquire_few(struct window *window, struct direct_rank *words, uint32_t lines)
{
    for (uint32_t left = lines; left; left &= left - 1) {
        int result = acquire(window, &words->stripes[__builtin_ctz(left)]);
        if (result != MPI_SUCCESS) {
            release_few(words, lines & ((left & -left) - 1));
            return result;
        }
    }
    return MPI_SUCCESS;
}

int direct_acquire(struct window *window, int rank, uint32_t lines)
{
    struct direct_rank *words = words_of(window, rank);
    if (lines == DIRECT_ALL_LINES)
        return acquire_all(window, words);
    for (;;) {
        int result = acquire_few(window, words, lines);
        if (result != MPI_SUCCESS || is_free(&words->all))
            return result;
        release_few(words, lines);
        if ((result = await_free(window, &words->all)) != MPI_SUCCESS)
            return result;
    }
}

void direct_release(struct window *window, int rank, uint32_t lines)
{
    struct direct_rank *words = words_of(window, rank);
    if (lines == DIRECT_ALL_LINES)
        release(&words->all);
    else
        release_few(words, lines);
}
