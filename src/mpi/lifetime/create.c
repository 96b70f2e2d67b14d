/* src/mpi/lifetime/create.c: make windows.
 *
 * Ranks agree wherever one of them may fail, so that the call fails on all or on none:
 *
 *   wish     which provider, what size             gather
 *   memory   the provider's allocate               (its own gathers)
 *   handle   in one address space: made alone      gather
 *            else: agree, then MPI_Win_create      gather
 */
#include "mpi/lifetime/create.h"

#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "mpi/rma/direct.h"
#include "mpi/group/hold.h"
#include "mpi/rma/intra_node.h"
#include "mpi/group/progress.h"
#include "mpi/group/shared.h"
#include "onespace.h"
#include "space/registry.h"

static int32_t choose_provider(const struct window_request *request, int32_t *error)
{
    *error = MPI_SUCCESS;
    for (int i = 0; providers[i]; i++) {
        int is_ours = 0;
        *error = providers[i]->accepts(request, &is_ours);
        if (is_ours || *error != MPI_SUCCESS)
            return i;
    }
    return -1;
}

static struct window *new_window(const struct window_request *request)
{
    struct window *window = calloc(1, sizeof(*window));
    struct party *party = request->meeting->party;
    if (!window)
        return NULL;
    (void)progress_hold(); /* without it waiting works, but lets MPI do nothing meanwhile */
    window->handle = MPI_WIN_NULL;
    window->group = MPI_GROUP_NULL;
    window->self = MPI_COMM_SELF;
    window->handler = MPI_ERRHANDLER_NULL;
    /* Relaxed: the meeting's own use keeps it above 0. */
    atomic_fetch_add_explicit(&party->users, 1, memory_order_relaxed);
    window->party = party;
    window->size = request->size;
    window->size_attribute = (MPI_Aint)request->size;
    window->disp_unit = (int)request->disp_unit;
    window->flavor = request->is_shared ? MPI_WIN_FLAVOR_SHARED : MPI_WIN_FLAVOR_ALLOCATE;
    window->model = MPI_WIN_UNIFIED;
    window->locked = calloc((size_t)party->ranks, 1);
    window->starts = calloc((size_t)party->ranks, sizeof(uint32_t));
    return window;
}

static void free_window(struct window *window)
{
    if (!window)
        return;
    if (window->group != MPI_GROUP_NULL)
        real()->Group_free(&window->group);
    if (window->owns_self)
        real()->Comm_free(&window->self);
    if (window->direct_mapped)
        munmap(window->direct, window->direct_mapped);
    else if (window->direct && window->party->rank == 0)
        shared_retire(window->direct);
    else if (window->direct) {
        shared_leave(window->direct);
        hold_give(window->party->members[0]);
    }
    near_free(window->near);
    progress_release();
    party_release(window->party);
    free(window->access.ranks);
    free(window->exposure.ranks);
    free(window->bases);
    free(window->use);
    free(window->locked);
    free(window->starts);
    free(window);
}

static int check(const struct window_request *request, const struct window *window)
{
    if (!window || !window->locked || !window->starts)
        return MPI_ERR_NO_MEM;
    if (request->disp_unit > 0 && (MPI_Aint)request->size >= 0)
        return MPI_SUCCESS;
    layer_message(window->party->rank,
                  "%s: a size of %lld bytes and a displacement unit of %lld: the size must not be "
                  "negative, and the unit must be positive",
                  request->call, (long long)request->size, (long long)request->disp_unit);
    return (MPI_Aint)request->size < 0 ? MPI_ERR_SIZE : MPI_ERR_DISP;
}

static struct window_wish make_wish(const struct window_request *request,
                                    const struct window *window)
{
    const struct party *party = request->meeting->party;
    struct window_wish wish = {.size = request->size};
    wish.provider = choose_provider(request, &wish.error);
    if (wish.provider < 0 || wish.error != MPI_SUCCESS)
        return wish;
    wish.error = check(request, window);
    if (party->is_one_space && party->rank == 0 && wish.error == MPI_SUCCESS &&
        !(wish.direct = direct_new(party->ranks)))
        wish.error = MPI_ERR_NO_MEM;
    return wish;
}

static const char *provider_name(int32_t index)
{
    return index < 0 ? "the MPI library's" : providers[index]->name;
}

/* The first error of all ranks. That ranks want different things is one too. */
static int agree_on_wishes(const struct window_request *request, const struct window_wish *all)
{
    const struct party *party = request->meeting->party;
    for (int i = 0; i < party->ranks; i++)
        if (all[i].error != MPI_SUCCESS)
            return all[i].error;
    for (int i = 1; i < party->ranks; i++)
        if (all[i].provider != all[0].provider) {
            if (party->rank == 0)
                layer_message(0,
                              "%s: rank %d asks for another kind of window (%s) than rank 0 (%s): "
                              "give all ranks the same hints",
                              request->call, i, provider_name(all[i].provider),
                              provider_name(all[0].provider));
            return MPI_ERR_INFO;
        }
    return MPI_SUCCESS;
}

/* The same outcome for all: the first error, or success. */
static int agree(struct meeting *meeting, int error)
{
    int32_t mine = error;
    const void *all;
    int result = meeting_gather(meeting, &mine, sizeof(mine), &all);
    for (int i = 0; result == MPI_SUCCESS && i < meeting->party->ranks; i++)
        result = ((const int32_t *)all)[i];
    return result;
}

/* A communicator of this rank alone: in programs that use sessions there is no MPI_COMM_SELF. */
static int find_self(struct window *window, const struct window_request *request)
{
    int has_world = 0;
    int result = real()->Initialized(&has_world);
    if (result != MPI_SUCCESS || has_world)
        return result;
    MPI_Group self;
    result = real()->Group_incl(window->group, 1, &window->party->rank, &self);
    if (result != MPI_SUCCESS)
        return result;
    result = real()->Comm_create_group(request->comm, self, 0, &window->self);
    window->owns_self = result == MPI_SUCCESS;
    real()->Group_free(&self);
    return result;
}

/* Whatever costs least: Intel MPI takes 30 us for a shared window of one rank, a tenth of that for
 * a dynamic one, and Open MPI 4 refuses a dynamic one of one rank. */
static int make_empty_window(MPI_Info info, MPI_Comm self, MPI_Win *handle)
{
#ifdef OPEN_MPI
    void *nothing;
    return real()->Win_allocate_shared(0, 1, info, self, &nothing, handle);
#else
    return real()->Win_create_dynamic(info, self, handle);
#endif
}

/* What copying needs of MPI, where this process does it: no other rank takes part. */
static int find_own(struct window *window, const struct window_request *request)
{
    int result = real()->Comm_group(request->comm, &window->group);
    return result == MPI_SUCCESS ? find_self(window, request) : result;
}

/* The handle is a window of this rank alone and without memory: no other rank is needed for it. */
static int make_own_handle(struct window *window, const struct window_request *request)
{
    int result = make_empty_window(request->info, window->self, &window->handle);
    return result == MPI_SUCCESS ? window_add(window) : result;
}

static int make_handle(struct window *window, const struct window_request *request, int memory)
{
    int result = memory;
    if ((window->direct || window->near) && result == MPI_SUCCESS)
        result = find_own(window, request);
    if (window->direct && result == MPI_SUCCESS)
        result = make_own_handle(window, request);
    result = agree(request->meeting, result);
    if (window->direct || result != MPI_SUCCESS)
        return result;
    result = real()->Win_create(window->base, (MPI_Aint)window->size, window->disp_unit,
                                request->info, request->comm, &window->handle);
    return result == MPI_SUCCESS ? window_add(window) : result;
}

/* All ranks are of one mind about the provider. */
static int build(struct window *window, const struct window_request *request)
{
    const struct party *party = window->party;
    window->direct = request->wishes[0].direct;
    if (window->direct && party->rank != 0)
        (void)hold_take(party->members[0]); /* one more: the meeting holds it already */
    window->provider = providers[request->wishes[0].provider];
    int memory = window->provider->allocate(window, request);
    if ((window->direct || window->near) && memory == MPI_SUCCESS)
        direct_join(window);
    int result = make_handle(window, request, memory);
    if (result != MPI_SUCCESS && window->handle != MPI_WIN_NULL) {
        window_remove(window);
        real()->Win_free(&window->handle);
    }
    if (result != MPI_SUCCESS && memory == MPI_SUCCESS)
        (void)window->provider->free(window);
    return result;
}

/* With --mpi-layer off the agent still loads this library for functions with large counts that the
 * MPI library lacks. */
int create_is_off(void)
{
    const struct space_slot *slot = (const struct space_slot *)getauxval(SPACE_AT_SLOT);
    return meeting_in_space() && slot && (slot->flags & ONESPACE_SPAWN_NO_MPI_LAYER);
}

int create_window(const char *call, size_t size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm,
                  int is_shared, void *base, MPI_Win *handle, int *is_ours)
{
    int result = MPI_SUCCESS;
    struct meeting *meeting = create_is_off() ? NULL : meeting_of(comm, &result);
    struct window_request request = {call, size, disp_unit, info, comm, is_shared, meeting, NULL};
    *is_ours = result != MPI_SUCCESS;
    if (!meeting)
        return result;
    struct window *window = new_window(&request);
    struct window_wish wish = make_wish(&request, window);
    const void *all;
    result = meeting_gather(meeting, &wish, sizeof(wish), &all);
    request.wishes = all;
    if (result == MPI_SUCCESS)
        result = agree_on_wishes(&request, request.wishes);
    *is_ours = result != MPI_SUCCESS || wish.provider >= 0;
    if (result == MPI_SUCCESS && *is_ours)
        result = build(window, &request);
    else if (wish.direct)
        shared_free(wish.direct);
    if (result == MPI_SUCCESS && *is_ours) {
        *(void **)base = window->base;
        *handle = window->handle;
        return result;
    }
    free_window(window);
    if (result != MPI_SUCCESS)
        real()->Comm_call_errhandler(comm, result);
    return result;
}

/* ---- MPI_Win_free ---- */

void window_leave(struct window *window)
{
    if (window->direct)
        window->ticket = barrier_arrive(&window->direct->barrier, window->party->ranks);
}

int window_await_others(struct window *window)
{
    struct wait wait = direct_wait(window);
    wait.is_for_io = window->provider->close != NULL; /* as far as it has any */
    return window->direct ? barrier_await(&window->direct->barrier, window->ticket, &wait)
                          : MPI_SUCCESS;
}

void window_close(struct window *window)
{
    MPI_Win handle = window->handle;
    window->closed = real()->Win_get_errhandler(handle, &window->handler);
    if (window->closed == MPI_SUCCESS)
        window->closed = real()->Win_free(&handle); /* with MPI's windows it waits for the others */
    if (window->provider->close)
        window->provider->close(window);
}

/* By a window that is made for it: an error handler cannot be called without one. */
static void call_handler(const struct window *window, int error)
{
    MPI_Win handle;
    if (make_empty_window(MPI_INFO_NULL, window->self, &handle) != MPI_SUCCESS)
        return;
    if (real()->Win_set_errhandler(handle, window->handler) == MPI_SUCCESS)
        real()->Win_call_errhandler(handle, error);
    real()->Win_free(&handle);
}

int window_destroy(struct window *window)
{
    int result = window->provider->free(window);
    if (result == MPI_SUCCESS)
        result = window->closed;
    if (window->handler != MPI_ERRHANDLER_NULL) {
        if (result != MPI_SUCCESS)
            call_handler(window, result);
        real()->Errhandler_free(&window->handler);
    }
    free_window(window);
    return result;
}
