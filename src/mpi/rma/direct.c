/* src/mpi/rma/direct.c: what the ranks of a window share, and MPI_Win_fence and MPI_Win_flush. */
#include "mpi/group/progress.h"
#include "mpi/group/shared.h"
#include "mpi/rma/count.h"
#include "mpi/rma/intra_node.h"

size_t direct_size(int ranks)
{
    size_t count = (size_t)ranks;
    return sizeof(struct direct) + count * sizeof(struct direct_rank) +
           count * count * sizeof(uint32_t);
}

struct direct *direct_new(int ranks)
{
    struct direct *direct = shared_new(direct_size(ranks), ranks - 1);
    if (direct)
        direct->ranks = ranks;
    return direct;
}

static struct direct *shared_of(const struct window *window)
{
    return window->direct ? window->direct : window->intra_node->shared;
}

void direct_join(struct window *window)
{
    struct direct_rank *mine = &shared_of(window)->rank[window->group->rank];
    mine->base = window->base;
    mine->size = window->size;
    mine->disp_unit = window->disp_unit;
}

const struct direct_rank *direct_part(const struct window *window, int rank)
{
    return &shared_of(window)->rank[rank];
}

char *direct_base(const struct window *window, int rank)
{
    return window->bases ? window->bases[rank] : direct_part(window, rank)->base;
}

int direct_poll(struct window *window)
{
    atomic_store_explicit(&window->has_read, 0, memory_order_relaxed);
    return progress_poll();
}

int direct_fence(struct window *window)
{
    struct barrier *barrier = &window->direct->barrier;
    struct wait wait = direct_wait(window);
    int result = barrier_await(barrier, barrier_arrive(barrier, window->group->ranks), &wait);
    return result == MPI_SUCCESS ? direct_poll(window) : result;
}

/* Other ranks see stores in any case; this only orders them. A program may loop over a flush until
 * another rank has done something, and that rank may be sending to this one: so MPI makes progress
 * now and then. */
int direct_flush(struct window *window)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&window->has_read, memory_order_relaxed))
        return direct_poll(window);
    /* Load and store, not an atomic increment, which costs as much as the fence: a count lost to
     * another thread does no harm. */
    uint32_t flushes = atomic_load_explicit(&window->flushes, memory_order_relaxed) + 1;
    atomic_store_explicit(&window->flushes, flushes, memory_order_relaxed);
    return flushes % 64 == 0 ? progress_make() : MPI_SUCCESS;
}

char *direct_target(struct window *window, int rank, MPI_Aint displacement, int *error)
{
    *error = rank < 0 || rank >= window->group->ranks ? MPI_ERR_RANK : MPI_SUCCESS;
    if (*error != MPI_SUCCESS)
        return NULL;
    const struct direct_rank *part = &shared_of(window)->rank[rank];
    return (window->bases ? window->bases[rank] : part->base) + displacement * part->disp_unit;
}

const struct basic *direct_count_type(struct window_use *use, MPI_Datatype type)
{
    const struct basic *basic = types_known(type);
    if (basic)
        atomic_store_explicit(&use->last_type, basic, memory_order_release);
    return basic;
}
