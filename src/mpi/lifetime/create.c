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

#include "mpi/group/hold.h"
#include "mpi/group/progress.h"
#include "mpi/group/shared.h"
#include "mpi/group/space.h"
#include "mpi/lifetime/finalize.h"
#include "mpi/lifetime/free.h"
#include "mpi/lifetime/handle.h"
#include "mpi/lifetime/providers.h"
#include "mpi/real/message.h"
#include "mpi/rma/direct.h"

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

static int make_handle(struct window *window, const struct window_request *request, int memory)
{
    int result = memory;
    if ((window->direct || window->near) && result == MPI_SUCCESS)
        result = handle_find_own(window, request);
    if (window->direct && result == MPI_SUCCESS)
        result = handle_make(window, request);
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

static struct meeting *find_meeting(MPI_Comm comm, int *result)
{
    if (space_has_no_layer())
        return NULL;
    finalize_watch();
    return meeting_of(comm, result);
}

int create_window(const char *call, size_t size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm,
                  int is_shared, void *base, MPI_Win *handle, int *is_ours)
{
    int result = MPI_SUCCESS;
    struct meeting *meeting = find_meeting(comm, &result);
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
    window_discard(window);
    if (result != MPI_SUCCESS)
        real()->Comm_call_errhandler(comm, result);
    return result;
}
