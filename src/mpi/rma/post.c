/* src/mpi/rma/post.c: MPI_Win_post, start, complete, wait and test.
 *
 * posted[target][origin] counts the exposure epochs that target has opened for origin; origin's
 * start waits until there is one more than it has used. completed counts, at the target, the access
 * epochs that origins have ended; the target's wait needs one more from each rank of its group.
 * Counts suffice because an origin cannot complete again before the target has posted again. */
#include <stdlib.h>

#include "mpi/group/progress.h"
#include "mpi/rma/direct.h"

/* Opens an epoch with the group's ranks, translated to the window's. */
static int begin(struct window *window, struct window_epoch *epoch, MPI_Group group)
{
    int count, result = real()->Group_size(group, &count);
    if (result != MPI_SUCCESS || epoch->ranks)
        return result != MPI_SUCCESS ? result : MPI_ERR_RMA_SYNC;
    int *ranks = malloc(((size_t)count * 2 + 1) * sizeof(int));
    if (!ranks)
        return MPI_ERR_NO_MEM;
    for (int i = 0; i < count; i++)
        ranks[count + i] = i;
    result = real()->Group_translate_ranks(group, count, ranks + count, window->mpi_group, ranks);
    for (int i = 0; result == MPI_SUCCESS && i < count; i++)
        if (ranks[i] < 0) /* MPI_UNDEFINED: not one of the window's */
            result = MPI_ERR_GROUP;
    if (result != MPI_SUCCESS) {
        free(ranks);
        return result;
    }
    *epoch = (struct window_epoch){ranks, count};
    return result;
}

static void end(struct window_epoch *epoch)
{
    free(epoch->ranks);
    *epoch = (struct window_epoch){NULL, 0};
}

int direct_post(struct window *window, MPI_Group group)
{
    int result = begin(window, &window->exposure, group);
    for (int i = 0; result == MPI_SUCCESS && i < window->exposure.count; i++)
        atomic_fetch_add_explicit(
            direct_posted(window->direct, window->group->rank, window->exposure.ranks[i]), 1,
            memory_order_release);
    return result;
}

int direct_start(struct window *window, MPI_Group group)
{
    int result = begin(window, &window->access, group);
    struct wait wait = direct_wait(window);
    for (int i = 0; result == MPI_SUCCESS && i < window->access.count; i++) {
        int target = window->access.ranks[i];
        _Atomic uint32_t *posted = direct_posted(window->direct, target, window->group->rank);
        while (result == MPI_SUCCESS &&
               atomic_load_explicit(posted, memory_order_acquire) == window->starts[target])
            result = wait_round(&wait);
        window->starts[target]++;
        atomic_store_explicit(&window->started[target], 1, memory_order_relaxed);
    }
    if (window->access.ranks && result == MPI_SUCCESS)
        direct_open(window, WINDOW_EPOCH_START);
    return result == MPI_SUCCESS ? direct_poll(window) : result;
}

int direct_complete(struct window *window)
{
    if (!window->access.ranks)
        return MPI_ERR_RMA_SYNC;
    for (int i = 0; i < window->access.count; i++) {
        int target = window->access.ranks[i];
        atomic_store_explicit(&window->started[target], 0, memory_order_relaxed);
        atomic_fetch_add_explicit(&window->direct->rank[target].completed, 1, memory_order_release);
    }
    if (atomic_load_explicit(&window->epochs, memory_order_relaxed) & WINDOW_EPOCH_START)
        direct_close(window, WINDOW_EPOCH_START);
    end(&window->access);
    return MPI_SUCCESS;
}

static int is_complete(const struct window *window)
{
    uint32_t completed = atomic_load_explicit(&window->direct->rank[window->group->rank].completed,
                                              memory_order_acquire);
    return completed - window->completes == (uint32_t)window->exposure.count;
}

int direct_test(struct window *window, int *flag)
{
    if (!window->exposure.ranks)
        return MPI_ERR_RMA_SYNC;
    *flag = is_complete(window);
    if (*flag) {
        window->completes += (uint32_t)window->exposure.count;
        end(&window->exposure);
        return direct_poll(window);
    }
    return progress_make(); /* for a program that loops over MPI_Win_test */
}

int direct_await(struct window *window)
{
    struct wait wait = direct_wait(window);
    int done = 0, result = direct_test(window, &done);
    while (result == MPI_SUCCESS && !done) {
        result = wait_round(&wait);
        if (result == MPI_SUCCESS && is_complete(window))
            result = direct_test(window, &done);
    }
    return result;
}
