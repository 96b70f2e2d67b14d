/* src/mpi/lifetime/create.c: creates windows. */
#include "mpi/lifetime/lifetime.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/pmpi/message.h"
#include "mpi/rma/rma.h"
#include "mpi/storage/storage_window.h"

static const struct window_provider *const providers[] = {
    &provider_storage, /* accepts windows with alloc_type=storage */
    &provider_space,   /* last: accepts every window of ranks that share an address space */
    NULL,
};

/* ---- The handle ---- */

/* A communicator of this rank alone: programs that use sessions have no MPI_COMM_SELF. */
static int find_self(struct window *window, const struct window_request *request)
{
    MPI_Group self;
    if (pmpi_has_world())
        return MPI_SUCCESS;
    int result = pmpi()->Group_incl(window->mpi_group, 1, &window->group->rank, &self);
    if (result != MPI_SUCCESS)
        return result;
    result = pmpi()->Comm_create_group(request->comm, self, 0, &window->self);
    window->owns_self = result == MPI_SUCCESS;
    pmpi()->Group_free(&self);
    return result;
}

/* The cheapest window type of each library: Intel MPI takes 30 us for a shared window of one rank,
 * a tenth of that for a dynamic one; Open MPI 4 refuses a dynamic one of one rank. */
int handle_create_empty(MPI_Info info, MPI_Comm self, MPI_Win *handle)
{
#ifdef OPEN_MPI
    void *nothing;
    return pmpi()->Win_allocate_shared(0, 1, info, self, &nothing, handle);
#else
    return pmpi()->Win_create_dynamic(info, self, handle);
#endif
}

/* Finds the window's group and a communicator of this rank. Not collective. */
static int find_own_group(struct window *window, const struct window_request *request)
{
    int result = pmpi()->Comm_group(request->comm, &window->mpi_group);
    return result == MPI_SUCCESS ? find_self(window, request) : result;
}

/* Local. */
static int handle_create(struct window *window, const struct window_request *request)
{
    int result = handle_create_empty(request->info, window->self, &window->handle);
    return result == MPI_SUCCESS ? window_add(window) : result;
}

/* ---- Creation ---- */

/* Ranks agree wherever one of them may fail, so that the call fails on all or on none:
 *
 *   proposal  provider, size                              allgather
 *   memory    the provider's allocate                     its own allgathers
 *   handle    in one space: each rank creates its own     allgather
 *             otherwise: agree, then MPI_Win_create       allgather */

static int32_t choose_provider(const struct window_request *request, uint64_t *memory,
                               int32_t *error)
{
    *error = MPI_SUCCESS;
    for (int i = 0; providers[i]; i++) {
        int is_ours = 0;
        *error = providers[i]->accepts(request, memory, &is_ours);
        if (is_ours || *error != MPI_SUCCESS)
            return i;
    }
    return -1;
}

static struct window *new_window(const struct window_request *request)
{
    struct window *window = calloc(1, sizeof(*window));
    struct group *group = request->agreement->group;
    if (!window)
        return NULL;
    (void)progress_enable(); /* if it fails, MPI makes no progress during waits */
    window->handle = MPI_WIN_NULL;
    window->mpi_group = MPI_GROUP_NULL;
    window->self = MPI_COMM_SELF;
    window->handler = MPI_ERRHANDLER_NULL;
    /* Relaxed: the agreement's own reference keeps it above 0. */
    group_ref(group);
    window->group = group;
    window->size = request->size;
    window->size_attribute = (MPI_Aint)request->size;
    window->disp_unit = (int)request->disp_unit;
    window->flavor = request->is_shared ? MPI_WIN_FLAVOR_SHARED : MPI_WIN_FLAVOR_ALLOCATE;
    window->model = MPI_WIN_UNIFIED;
    window->locked = calloc((size_t)group->ranks, 1);
    window->starts = calloc((size_t)group->ranks, sizeof(uint32_t));
    window->started = calloc((size_t)group->ranks, sizeof(*window->started));
    return window;
}

static int check_request(const struct window_request *request, const struct window *window)
{
    if (!window || !window->locked || !window->starts || !window->started)
        return MPI_ERR_NO_MEM;
    if (request->disp_unit > 0 && request->disp_unit <= INT_MAX && (MPI_Aint)request->size >= 0)
        return MPI_SUCCESS;
    return (MPI_Aint)request->size < 0 ? MPI_ERR_SIZE : MPI_ERR_DISP;
}

static void print_invalid_request(const struct window_request *request)
{
    layer_message(request->agreement->group->rank,
                  "%s: a size of %lld bytes and a displacement unit of %lld: the size must not be "
                  "negative, and the unit must be positive and at most 2147483647",
                  request->call, (long long)request->size, (long long)request->disp_unit);
}

static struct window_proposal make_proposal(const struct window_request *request,
                                            const struct window *window)
{
    const struct group *group = request->agreement->group;
    struct window_proposal proposal = {.size = request->size, .memory = request->size};
    proposal.provider = choose_provider(request, &proposal.memory, &proposal.error);
    if (proposal.error != MPI_SUCCESS)
        return proposal;
    proposal.unfit = check_request(request, window);
    /* In one space every rank has a provider, so rank 0 allocates this whichever provider is
     * chosen. */
    if (group->is_one_space && group->rank == 0 && proposal.provider >= 0 &&
        proposal.unfit == MPI_SUCCESS && !(proposal.rma_shared = rma_shared_alloc(group->ranks)))
        proposal.error = MPI_ERR_NO_MEM;
    return proposal;
}

/* The first provider of the table that accepts any rank's request; -1: none, so MPI serves the
 * window. The same on all ranks. */
static int32_t provider_of_all(const struct window_proposal *all, int ranks)
{
    int32_t first = -1;
    for (int i = 0; i < ranks; i++)
        if (all[i].provider >= 0 && (first < 0 || all[i].provider < first))
            first = all[i].provider;
    return first;
}

/* The first error of all ranks. */
static int agree_on_proposals(const struct window_request *request, int is_served)
{
    const struct window_proposal *all = request->proposals;
    const struct group *group = request->agreement->group;
    int32_t unfit = all[group->rank].unfit;
    if (is_served && (unfit == MPI_ERR_SIZE || unfit == MPI_ERR_DISP))
        print_invalid_request(request);
    for (int i = 0; i < group->ranks; i++) {
        int32_t error = all[i].error;
        if (error == MPI_SUCCESS && is_served)
            error = all[i].unfit;
        if (error != MPI_SUCCESS)
            return error;
    }
    return MPI_SUCCESS;
}

/* Returns the first error of all ranks, or success. */
static int agree_on_result(struct agreement *agreement, int error)
{
    int32_t record = error;
    const void *all;
    int result = agreement_allgather(agreement, &record, sizeof(record), &all);
    for (int i = 0; result == MPI_SUCCESS && i < agreement->group->ranks; i++)
        result = ((const int32_t *)all)[i];
    return result;
}

static int make_handle(struct window *window, const struct window_request *request, int memory)
{
    int result = memory;
    if ((window->rma_shared || window->intra_node) && result == MPI_SUCCESS)
        result = find_own_group(window, request);
    if (window->rma_shared && result == MPI_SUCCESS)
        result = handle_create(window, request);
    result = agree_on_result(request->agreement, result);
    if (window->rma_shared || result != MPI_SUCCESS)
        return result;
    result = pmpi()->Win_create(window->base, (MPI_Aint)window->size, window->disp_unit,
                                request->info, request->comm, &window->handle);
    return result == MPI_SUCCESS ? window_add(window) : result;
}

/* Precondition: all ranks name the same provider. */
static int build(struct window *window, const struct window_request *request,
                 const struct window_provider *provider)
{
    const struct group *group = window->group;
    window->rma_shared = request->proposals[0].rma_shared;
    if (window->rma_shared && group->rank != 0)
        (void)task_hold_acquire(group->members[0]); /* nested in the agreement's hold */
    window->provider = provider;
    int memory = window->provider->allocate(window, request);
    if ((window->rma_shared || window->intra_node) && memory == MPI_SUCCESS)
        rma_publish_part(window);
    int result = make_handle(window, request, memory);
    if (result != MPI_SUCCESS && window->handle != MPI_WIN_NULL) {
        window_remove(window);
        pmpi()->Win_free(&window->handle);
    }
    if (result != MPI_SUCCESS && memory == MPI_SUCCESS)
        (void)window->provider->free(window);
    return result;
}

/* A program that asks for storage loses data if it does not notice. */
static void print_storage_ignored(const char *call, MPI_Comm comm, MPI_Info info)
{
    char type[MPI_MAX_INFO_VAL];
    int has_type = 0, rank = 0;
    if (info == MPI_INFO_NULL ||
        pmpi()->Info_get(info, (char *)"alloc_type", MPI_MAX_INFO_VAL - 1, type, &has_type) !=
            MPI_SUCCESS ||
        !has_type || strcmp(type, "storage") != 0)
        return;
    pmpi()->Comm_rank(comm, &rank);
    layer_message(rank,
                  "%s: alloc_type=storage is ignored, the window is in memory: some ranks of the "
                  "communicator are processes, of another job, or have --mpi-layer off; run all "
                  "with onespace run, or set ONESPACE_MPI_LAYER=all if all have the layer",
                  call);
}

/* NULL: ranks without the layer would not take part in the agreement. */
static struct agreement *find_agreement(const char *call, MPI_Comm comm, MPI_Info info, int *result)
{
    if (task_mpi_layer_is_off())
        return NULL;
    if (!agreement_is_possible(comm)) {
        print_storage_ignored(call, comm, info);
        return NULL;
    }
    finalize_hook_install();
    return agreement_get(comm, result);
}

int window_create(const char *call, size_t size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm,
                  int is_shared, void *base, MPI_Win *handle, int *is_ours)
{
    int result = MPI_SUCCESS;
    struct agreement *agreement = find_agreement(call, comm, info, &result);
    struct window_request request = {call, size, disp_unit, info, comm, is_shared, agreement, NULL};
    *is_ours = result != MPI_SUCCESS;
    if (!agreement)
        return result;
    struct window *window = new_window(&request);
    struct window_proposal proposal = make_proposal(&request, window);
    const void *all;
    result = agreement_allgather(agreement, &proposal, sizeof(proposal), &all);
    request.proposals = all;
    int has_gathered = result == MPI_SUCCESS;
    int32_t provider = -1;
    if (result == MPI_SUCCESS) {
        provider = provider_of_all(request.proposals, agreement->group->ranks);
        result = agree_on_proposals(&request, provider >= 0);
    }
    *is_ours = result != MPI_SUCCESS || provider >= 0;
    if (result == MPI_SUCCESS && *is_ours)
        result = build(window, &request, providers[provider]);
    else if (proposal.rma_shared) /* others may use it unless all know that it failed */
        (has_gathered ? shared_block_free : shared_block_retire)(proposal.rma_shared);
    if (result == MPI_SUCCESS && *is_ours) {
        *(void **)base = window->base;
        *handle = window->handle;
        return window->rma_shared ? window_progress(window) : result;
    }
    window_discard(window);
    if (result != MPI_SUCCESS)
        pmpi()->Comm_call_errhandler(comm, result);
    return result;
}
