/* src/mpi/rma/window.c: finds the window of a handle, and the part of a rank. */
#include "mpi/rma/rma.h"

#include <stdio.h>

/* ---- The table of windows ---- */

static struct handle_table handles = HANDLE_TABLE_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of the list */
static struct window *first, **last = &first;

static uintptr_t key_of(MPI_Win handle)
{
    return (uintptr_t)handle;
}

struct window *window_find(MPI_Win handle)
{
    return handle_table_find(&handles, key_of(handle));
}

int window_add(struct window *window)
{
    int result = handle_table_add(&handles, key_of(window->handle), window);
    if (result != MPI_SUCCESS)
        return result;
    pthread_mutex_lock(&mutex);
    window->next = NULL;
    *last = window;
    last = &window->next;
    pthread_mutex_unlock(&mutex);
    return result;
}

void window_remove(struct window *window)
{
    handle_table_remove(&handles, key_of(window->handle));
    pthread_mutex_lock(&mutex);
    struct window **at = &first;
    while (*at && *at != window)
        at = &(*at)->next;
    if (*at) {
        *at = window->next;
        if (last == &window->next)
            last = at;
    }
    pthread_mutex_unlock(&mutex);
}

/* Without the mutex: only MPI_Finalize walks the list, when no other thread may call MPI. */
int windows_each(int (*function)(struct window *window))
{
    int outcome = MPI_SUCCESS;
    for (struct window *window = first, *next; window; window = next) {
        next = window->next;
        int result = function(window);
        if (outcome == MPI_SUCCESS)
            outcome = result;
    }
    return outcome;
}

/* ---- Parts ---- */

size_t rma_shared_size(int ranks)
{
    size_t count = (size_t)ranks;
    return sizeof(struct rma_shared) + count * sizeof(struct rma_part) +
           count * count * sizeof(uint32_t);
}

struct rma_shared *rma_shared_alloc(int ranks)
{
    struct rma_shared *shared = shared_block_alloc(rma_shared_size(ranks), ranks - 1);
    if (shared)
        shared->ranks = ranks;
    return shared;
}

static struct rma_shared *shared_of(const struct window *window)
{
    return window->rma_shared ? window->rma_shared : window->intra_node->shared;
}

/* Open MPI 5 does not check epochs within a node, Open MPI 4 not those of shared windows. */
static int library_checks_epochs(const struct window *window)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length, major = 0;
    if (!pmpi_is_open_mpi())
        return 1;
    return pmpi()->Get_library_version(version, &length) == MPI_SUCCESS &&
           sscanf(version, "Open MPI v%d", &major) == 1 && major < 5 &&
           window->flavor != MPI_WIN_FLAVOR_SHARED;
}

void rma_publish_part(struct window *window)
{
    struct rma_part *part = &shared_of(window)->rank[window->group->rank];
    part->base = window->base;
    part->size = window->size;
    part->disp_unit = window->disp_unit;
    gpu_detect();
    /* MPI knows the epochs of a window that spans nodes. */
    if (!window->rma_shared || !library_checks_epochs(window))
        atomic_store_explicit(&window->epochs, WINDOW_EPOCH_UNCHECKED, memory_order_relaxed);
}

const struct rma_part *rma_part_of(const struct window *window, int rank)
{
    return &shared_of(window)->rank[rank];
}

char *rma_part_base(const struct window *window, int rank)
{
    return window->bases ? window->bases[rank] : rma_part_of(window, rank)->base;
}

/* For a rank that holds no lock and has no fence epoch. */
static int check_start(const struct window *window, int rank, uint32_t epochs)
{
    return (epochs & WINDOW_EPOCH_START) &&
                   atomic_load_explicit(&window->started[rank], memory_order_relaxed)
               ? MPI_SUCCESS
               : MPI_ERR_RMA_SYNC;
}

char *rma_target_address(struct window *window, int target_rank, MPI_Aint target_disp,
                         int64_t lower, int64_t upper, int *error)
{
    if (target_rank < 0 || target_rank >= window->group->ranks) {
        *error = MPI_ERR_RANK;
        return NULL;
    }
    uint32_t epochs = atomic_load_explicit(&window->epochs, memory_order_relaxed);
    const struct rma_part *part = rma_part_of(window, target_rank);
    int64_t offset, size = (int64_t)part->size;
    *error = epochs & ~WINDOW_EPOCH_START ? MPI_SUCCESS : check_start(window, target_rank, epochs);
    if (target_disp < 0 && *error == MPI_SUCCESS)
        *error = MPI_ERR_DISP;
    if (upper == lower) /* no data */
        offset = 0;
    else if ((__builtin_mul_overflow(target_disp, (int64_t)part->disp_unit, &offset) ||
              offset > size || upper > size - offset || lower < -offset) &&
             *error == MPI_SUCCESS)
        *error = MPI_ERR_RMA_RANGE;
    return *error == MPI_SUCCESS ? rma_part_base(window, target_rank) + offset : NULL;
}

const struct predefined_type *rma_usage_find_type(struct rma_usage *usage, MPI_Datatype type)
{
    const struct predefined_type *predefined = predefined_type_known(type);
    if (predefined)
        atomic_store_explicit(&usage->last_type, predefined, memory_order_release);
    return predefined;
}
