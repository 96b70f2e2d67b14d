/* src/mpi/rma/direct.c: what the ranks of a window in one address space share. */
#include "mpi/rma/count.h"
#include "mpi/rma/intra_node.h"
#include "mpi/group/progress.h"
#include "mpi/group/shared.h"

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
    return window->direct ? window->direct : window->near->shared;
}

void direct_join(struct window *window)
{
    struct direct_rank *mine = &shared_of(window)->rank[window->party->rank];
    mine->base = window->base;
    mine->size = window->size;
    mine->disp_unit = window->disp_unit;
}

int direct_fence(struct window *window)
{
    struct barrier *barrier = &window->direct->barrier;
    struct wait wait = direct_wait(window);
    return barrier_await(barrier, barrier_arrive(barrier, window->party->ranks), &wait);
}

/* Stores are seen by others in any case; this keeps the order that the program asks for. A program
 * that loops around a flush until another rank has done something lets MPI work from time to time,
 * because that rank may be in a send to this one. */
int direct_flush(struct window *window)
{
    atomic_thread_fence(memory_order_seq_cst);
    /* Not one step: a flush that another thread's overwrites is not missed, and it would cost as
     * much as the fence. */
    uint32_t flushes = atomic_load_explicit(&window->flushes, memory_order_relaxed) + 1;
    atomic_store_explicit(&window->flushes, flushes, memory_order_relaxed);
    return flushes % 64 == 0 ? progress_make() : MPI_SUCCESS;
}

char *direct_target(struct window *window, int rank, MPI_Aint displacement, int *error)
{
    *error = rank < 0 || rank >= window->party->ranks ? MPI_ERR_RANK : MPI_SUCCESS;
    if (*error != MPI_SUCCESS)
        return NULL;
    const struct direct_rank *part = &shared_of(window)->rank[rank];
    return (window->bases ? window->bases[rank] : part->base) + displacement * part->disp_unit;
}

const struct basic *direct_count_type(struct window_use *use, MPI_Datatype type)
{
    const struct basic *basic = types_basic(type);
    if (basic)
        atomic_store_explicit(&use->last_type, basic, memory_order_release);
    return basic;
}
