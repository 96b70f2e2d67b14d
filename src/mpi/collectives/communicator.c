/* src/mpi/collectives/communicator.c: which communicators the layer serves, and their engines; see
 * coll_call.h. */
#include <link.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/collectives/coll_call.h"
#include "mpi/collectives/nodes.h"

#include "mpi/group/group.h"
#include "mpi/lifetime/lifetime.h"
#include "mpi/pmpi/pmpi.h"
#include "mpi/pmpi/message.h"

struct handle_table communicator_table = HANDLE_TABLE_INIT;
struct handle_entry *_Atomic communicator_last;

/* ---- Callbacks of the engine ---- */

/* A rank may end, or leave by exit, when it has returned from the call in which others still are.
 */
static int is_in_call(const void *context, int rank)
{
    const struct communicator *communicator = context;
    return !engine_has_finished(communicator->engine, rank);
}

static int await(void *context, const uint64_t *word, uint64_t value)
{
    const struct communicator *communicator = context;
    struct wait wait = WAIT_INIT(communicator->group);
    wait.needs = is_in_call;
    wait.context = communicator;
    int result = MPI_SUCCESS;
    while (result == MPI_SUCCESS && __atomic_load_n(word, __ATOMIC_ACQUIRE) < value)
        result = wait_round(&wait);
    return result;
}

int report_mismatch(int rank, int peer)
{
    layer_message(rank,
                  "collective mismatch with rank %d: it is in another operation, or passed another "
                  "size or root: calls, counts, types and roots must match on all ranks",
                  peer);
    return MPI_ERR_TRUNCATE;
}

static int mismatch(void *context, int rank)
{
    const struct communicator *communicator = context;
    return report_mismatch(communicator->group->rank, rank);
}

int report_failed_peer(int rank, int peer)
{
    layer_message(rank,
                  "this rank's collective operation has no result, because rank %d could not take "
                  "part: see the error there",
                  peer);
    return MPI_ERR_OTHER;
}

static int peer_failed(void *context, int rank)
{
    const struct communicator *communicator = context;
    return report_failed_peer(communicator->group->rank, rank);
}

/* ---- Set-up and teardown ---- */

/* Keeps the memory of the other ranks mapped, which this one reads in place. */
static int hold_members(const struct group *group)
{
    for (int i = 0; i < group->ranks; i++)
        if (i != group->rank && task_hold_acquire(group->members[i]) != 0) {
            while (i-- > 0)
                if (i != group->rank)
                    task_hold_release(group->members[i]);
            return MPI_ERR_OTHER;
        }
    return MPI_SUCCESS;
}

static void release_members(const struct group *group)
{
    for (int i = 0; i < group->ranks; i++)
        if (i != group->rank)
            task_hold_release(group->members[i]);
}

/* The algorithm that the environment forces. */
static enum engine_algorithm forced_algorithm(int rank)
{
    static const char *const names[] = {[ENGINE_AUTOMATIC] = "automatic",
                                        [ENGINE_FLAT] = "flat",
                                        [ENGINE_DOUBLING] = "doubling",
                                        [ENGINE_TREE] = "tree",
                                        [ENGINE_LARGE] = "large"};
    const char *name = getenv("ONESPACE_COLLECTIVES_ALGORITHM");
    if (!name || !*name)
        return ENGINE_AUTOMATIC;
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return (enum engine_algorithm)i;
    layer_message(rank,
                  "ONESPACE_COLLECTIVES_ALGORITHM is %s: use automatic, flat, doubling, tree or "
                  "large",
                  name);
    return ENGINE_AUTOMATIC;
}

/* Rank 0's decisions for all ranks. */
struct engine_setup {
    void *memory; /* of all ranks' engines and nonblocking operations; NULL: out of memory */
    enum engine_algorithm algorithm;
};

static int share_memory(struct communicator *communicator, struct agreement *agreement,
                        enum engine_algorithm *algorithm)
{
    const struct group *group = communicator->group;
    const void *all;
    struct engine_setup own = {NULL, ENGINE_AUTOMATIC};
    if (group->rank == 0) {
        size_t each = engine_memory(group->ranks, group->is_oversubscribed);
        own.memory = shared_block_alloc((size_t)group->ranks * (each + nonblocking_memory()),
                                        group->ranks - 1);
        own.algorithm = forced_algorithm(group->rank);
    }
    int result = agreement_allgather(agreement, &own, sizeof(own), &all);
    const struct engine_setup *setup = all;
    communicator->memory = result == MPI_SUCCESS ? setup->memory : NULL;
    *algorithm = result == MPI_SUCCESS ? setup->algorithm : ENGINE_AUTOMATIC;
    if (result != MPI_SUCCESS && own.memory)
        shared_block_retire(own.memory); /* others may have received it */
    return result;
}

/* Frees what this rank has when another lacks something, or when the communicator is freed. */
static void engine_teardown(struct communicator *communicator, int has_holds)
{
    struct group *group = communicator->group;
    engine_free(communicator->engine);
    communicator->engine = NULL;
    if (communicator->nonblocking)
        nonblocking_free(communicator->nonblocking);
    communicator->nonblocking = NULL;
    if (group->rank == 0)
        shared_block_retire(communicator->memory);
    else
        shared_block_leave(communicator->memory);
    communicator->memory = NULL;
    if (has_holds)
        release_members(group); /* the block is rank 0's, which may have ended */
    group_unref(group);
}

/* ---- GPUs ---- */

struct gpu_search {
    unsigned long long checked; /* dlpi_adds at the last search */
    unsigned long long adds;    /* dlpi_adds now */
    int has_gpu;
};

static int check_object(struct dl_phdr_info *object, size_t size, void *context)
{
    static const char *const libraries[] = {"/libcuda.so.1", "/libamdhip64.so.5",
                                            "/libamdhip64.so.6", "/libamdhip64.so.7",
                                            "/libze_loader.so.1"};
    struct gpu_search *search = context;
    (void)size;
    search->adds = object->dlpi_adds;
    if (search->adds == search->checked)
        return 1;
    for (unsigned i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        size_t name = strlen(object->dlpi_name), ending = strlen(libraries[i]);
        if (name >= ending && strcmp(object->dlpi_name + name - ending, libraries[i]) == 0)
            search->has_gpu = 1;
    }
    return 0;
}

/* Whether the program may pass addresses that only a GPU can read: it has a GPU's library loaded,
 * and `--collectives on` does not assert that it passes none. Not by dlopen, which searches the
 * file system for each library: 20 us. */
static int may_use_gpu(void)
{
    /* dlpi_adds at the last search, which found no library. Any thread writes; an older value only
     * makes the next search longer. */
    static _Atomic unsigned long long checked;
    struct gpu_search search = {.checked = checked};
    if (task_collectives_mode() == COLLECTIVES_AT_ONCE)
        return 0;
    dl_iterate_phdr(check_object, &search);
    if (!search.has_gpu)
        checked = search.adds;
    return search.has_gpu;
}

/* ---- Engines ---- */

/* In the shared memory behind the engines'. NULL: the library runs nonblocking operations. */
static struct nonblocking *new_nonblocking(const struct communicator *communicator)
{
    const struct group *group = communicator->group;
    size_t engines = (size_t)group->ranks * engine_memory(group->ranks, group->is_oversubscribed);
    return nonblocking_is_possible()
               ? nonblocking_new(group, (char *)communicator->memory + engines)
               : NULL;
}

/* Bits that each rank tells the others of its preparations. */
enum { READY = 1, READY_NONBLOCKING = 2 };

/* Makes an engine on all ranks, or on none. */
static int make_engine(struct communicator *communicator, struct agreement *agreement)
{
    struct group *group = communicator->group = group_ref(agreement->group);
    enum engine_algorithm algorithm;
    int result = share_memory(communicator, agreement, &algorithm);
    if (result != MPI_SUCCESS || !communicator->memory) {
        group_unref(group);
        return result;
    }
    const struct engine_ranks ranks = {.rank = group->rank,
                                       .size = group->ranks,
                                       .algorithm = algorithm,
                                       .is_oversubscribed = group->is_oversubscribed,
                                       .is_guarded = task_is_guarded(),
                                       .await = await,
                                       .mismatch = mismatch,
                                       .peer_failed = peer_failed,
                                       .context = communicator};
    int32_t has_holds = hold_members(group) == MPI_SUCCESS;
    communicator->engine = engine_new(&ranks, communicator->memory);
    communicator->nonblocking = new_nonblocking(communicator);
    int32_t is_ready = has_holds && communicator->engine && !may_use_gpu() ? READY : 0;
    if (is_ready && communicator->nonblocking)
        is_ready |= READY_NONBLOCKING;
    int32_t all_ready = is_ready;
    const void *all;
    result = agreement_allgather(agreement, &is_ready, sizeof(is_ready), &all);
    for (int i = 0; result == MPI_SUCCESS && i < group->ranks; i++)
        all_ready &= ((const int32_t *)all)[i];
    if (result != MPI_SUCCESS || !(all_ready & READY)) {
        engine_teardown(communicator, has_holds);
    } else if (!(all_ready & READY_NONBLOCKING) && communicator->nonblocking) {
        nonblocking_free(communicator->nonblocking);
        communicator->nonblocking = NULL;
    }
    return result;
}

/* Communicators that the program has freed while another rank may still need this one's operands,
 * or while operations are incomplete, which MPI allows; and those that MPICH freed in a step. */
static struct communicator *freed;
static pthread_mutex_t freed_mutex = PTHREAD_MUTEX_INITIALIZER;

static void discard(struct communicator *communicator)
{
    if (communicator->engine)
        engine_teardown(communicator, 1);
    nodes_free(communicator->nodes);
    free(communicator->pack_bufs);
    free(communicator);
}

/* Takes the unused ones out of the list `freed`. */
static struct communicator *take_freed(void)
{
    struct communicator *unused = NULL;
    pthread_mutex_lock(&freed_mutex);
    for (struct communicator **at = &freed, *communicator; (communicator = *at);) {
        if (communicator->nonblocking && !nonblocking_is_unused(communicator->nonblocking)) {
            at = &communicator->next;
            continue;
        }
        *at = communicator->next;
        communicator->next = unused;
        unused = communicator;
    }
    pthread_mutex_unlock(&freed_mutex);
    return unused;
}

/* Not within a step of progress, in which MPICH may call free_communicator: that would wait for
 * itself. Not with the mutex: one over several nodes frees its own communicators, and leads here.
 */
static void discard_freed(void)
{
    if (progress_is_stepping())
        return;
    for (struct communicator *communicator = take_freed(), *next; communicator;
         communicator = next) {
        next = communicator->next;
        discard(communicator);
    }
}

static void discard_later(struct communicator *communicator)
{
    pthread_mutex_lock(&freed_mutex);
    communicator->next = freed;
    freed = communicator;
    pthread_mutex_unlock(&freed_mutex);
}

/* Attribute callback: the program frees the communicator. */
static int free_communicator(MPI_Comm comm, int key, void *value, void *extra)
{
    struct communicator *communicator = value;
    (void)key, (void)extra;
    handle_table_remove(&communicator_table, (uintptr_t)comm);
    discard_freed();
    if (progress_is_stepping() ||
        (communicator->nonblocking && !nonblocking_is_unused(communicator->nonblocking)))
        discard_later(communicator);
    else
        discard(communicator);
    return MPI_SUCCESS;
}

static int register_communicator(struct communicator *communicator)
{
    static _Atomic int keyval = MPI_KEYVAL_INVALID;
    int error = pmpi_create_keyval(&keyval, free_communicator);
    if (error == MPI_SUCCESS)
        error = handle_table_add(&communicator_table, (uintptr_t)communicator->comm, communicator);
    if (error != MPI_SUCCESS)
        return error;
    error = pmpi()->Comm_set_attr(communicator->comm, keyval, communicator);
    if (error != MPI_SUCCESS)
        handle_table_remove(&communicator_table, (uintptr_t)communicator->comm);
    return error;
}

/* Whether all ranks are known to have the layer. The user says so by --collectives on; with auto
 * the whole job must be in this space, and the ranks in MPI_COMM_WORLD. Ranks are not polled:
 * processes, which have no layer, would never reply. */
static int all_ranks_have_layer(MPI_Comm comm)
{
    static _Atomic int is_whole = -1; /* all threads find the same */
    int ranks = 0, size = 0, is_inside = 1;
    MPI_Group world, members;
    if (task_collectives_mode() == COLLECTIVES_AT_ONCE)
        return 1;
    if (is_whole < 0)
        is_whole =
            pmpi()->Comm_size(MPI_COMM_WORLD, &ranks) == MPI_SUCCESS && job_is_in_space(ranks);
    if (!is_whole || pmpi()->Comm_group(MPI_COMM_WORLD, &world) != MPI_SUCCESS)
        return 0;
    if (pmpi()->Comm_group(comm, &members) == MPI_SUCCESS) {
        pmpi()->Group_size(members, &size);
        for (int i = 0; i < size; i++) {
            int world_rank = MPI_UNDEFINED;
            pmpi()->Group_translate_ranks(members, 1, &i, world, &world_rank);
            is_inside &= world_rank != MPI_UNDEFINED; /* else it was spawned */
        }
        pmpi()->Group_free(&members);
    }
    pmpi()->Group_free(&world);
    return is_inside && size > 0;
}

struct pack_bufs *communicator_pack_bufs(struct communicator *communicator)
{
    if (!communicator->pack_bufs)
        communicator->pack_bufs = aligned_alloc(OPERAND_ALIGN, sizeof(struct pack_bufs));
    return communicator->pack_bufs;
}

/* Setting up a communicator takes about 5 us and a call at least 0.2 us, so these calls have taken
 * eighty times as long as the set-up. */
enum { CALLS_BEFORE_SET_UP = 2048 };

static struct communicator *new_communicator(MPI_Comm comm, int *error)
{
    enum collectives_mode mode = task_collectives_mode();
    if (comm == MPI_COMM_NULL || mode == COLLECTIVES_NEVER || !pmpi_has_world())
        return NULL;
    finalize_hook_install();
    struct communicator *communicator = calloc(1, sizeof(*communicator));
    if (!communicator) {
        *error = MPI_ERR_NO_MEM;
        return NULL;
    }
    communicator->comm = comm;
    communicator->calls_until_decision =
        mode == COLLECTIVES_AT_ONCE || comm == MPI_COMM_WORLD ? 1 : CALLS_BEFORE_SET_UP;
    communicator->counter = task_collectives_counter();
    *error = register_communicator(communicator);
    if (*error == MPI_SUCCESS)
        return communicator;
    free(communicator);
    return NULL;
}

/* Collective. */
static void set_up(struct communicator *communicator, int *error)
{
    MPI_Comm comm = communicator->comm;
    communicator->calls_until_decision = 0;
    struct agreement *agreement = all_ranks_have_layer(comm) ? agreement_get(comm, error) : NULL;
    if (agreement && agreement->table)
        *error = make_engine(communicator, agreement);
    else if (agreement)
        communicator->nodes = nodes_new(comm, agreement->group, error);
}

struct communicator *communicator_get(MPI_Comm comm, int is_reduction, int *error)
{
    struct communicator *communicator = handle_table_find(&communicator_table, (uintptr_t)comm);
    if (!communicator && !(communicator = new_communicator(comm, error)))
        return NULL;
    if (communicator->calls_until_decision &&
        (is_reduction || --communicator->calls_until_decision == 0))
        set_up(communicator, error);
    return communicator->engine || communicator->nodes ? communicator : NULL;
}
