/* src/mpi/collectives/communicator.c: see communicator.h. */
#include "mpi/collectives/communicator.h"

#include <link.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/group/group.h"
#include "mpi/lifetime/lifetime.h"
#include "mpi/pmpi/pmpi.h"
#include "mpi/pmpi/message.h"

struct handle_table communicator_table = HANDLE_TABLE_INIT;
struct handle_entry *_Atomic communicator_last;

static int await(void *context, const uint64_t *word, uint64_t value)
{
    const struct communicator *communicator = context;
    struct wait wait = WAIT_INIT(communicator->group);
    int result = MPI_SUCCESS;
    while (result == MPI_SUCCESS && __atomic_load_n(word, __ATOMIC_ACQUIRE) < value)
        result = wait_round(&wait);
    return result;
}

int communicator_tell_different(int rank, int other)
{
    layer_message(
        rank,
        "rank %d is in another collective operation than rank %d, or gave another size or "
        "root: calls, counts, types and roots must match on all ranks",
        other, rank);
    return MPI_ERR_TRUNCATE;
}

static int disagrees(void *context, int rank)
{
    const struct communicator *communicator = context;
    return communicator_tell_different(communicator->group->rank, rank);
}

int communicator_tell_failed(int rank, int failed)
{
    layer_message(rank,
                  "this rank's collective operation has no result, because rank %d could not take "
                  "part: see the error there",
                  failed);
    return MPI_ERR_OTHER;
}

static int peer_failed(void *context, int rank)
{
    const struct communicator *communicator = context;
    return communicator_tell_failed(communicator->group->rank, rank);
}

/* The others' memory is read in place, so it must stay while this rank may read it. */
static int hold_members(const struct group *group)
{
    for (int i = 0; i < group->ranks; i++)
        if (i != group->rank && hold_acquire(group->members[i]) != 0) {
            while (i-- > 0)
                if (i != group->rank)
                    hold_release(group->members[i]);
            return MPI_ERR_OTHER;
        }
    return MPI_SUCCESS;
}

static void release_members(const struct group *group)
{
    for (int i = 0; i < group->ranks; i++)
        if (i != group->rank)
            hold_release(group->members[i]);
}

/* The algorithms that the user forces, for tests: ENGINE_AUTOMATIC if none. */
static enum engine_algorithm forced_algorithm(int rank)
{
    static const char *const names[] = {[ENGINE_AUTOMATIC] = "automatic",
                                        [ENGINE_FLAT] = "flat",
                                        [ENGINE_DOUBLING] = "doubling",
                                        [ENGINE_TREE] = "tree",
                                        [ENGINE_LARGE] = "large"};
    const char *wanted = getenv("ONESPACE_COLLECTIVES_ALGORITHM");
    if (!wanted || !*wanted)
        return ENGINE_AUTOMATIC;
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(wanted, names[i]) == 0)
            return (enum engine_algorithm)i;
    layer_message(rank,
                  "ONESPACE_COLLECTIVES_ALGORITHM is %s: use automatic, flat, doubling, tree or "
                  "large",
                  wanted);
    return ENGINE_AUTOMATIC;
}

/* What rank 0 decides for all. */
struct offered {
    void *memory; /* of the engines of all ranks; NULL: it has none */
    enum engine_algorithm algorithm;
};

static int share_memory(struct communicator *communicator, struct agreement *agreement,
                        enum engine_algorithm *algorithm)
{
    const struct group *group = communicator->group;
    const void *all;
    struct offered mine = {NULL, ENGINE_AUTOMATIC};
    if (group->rank == 0) {
        size_t each = engine_memory(group->ranks, group->is_oversubscribed);
        mine.memory = shared_block_alloc((size_t)group->ranks * each, group->ranks - 1);
        mine.algorithm = forced_algorithm(group->rank);
    }
    int result = agreement_allgather(agreement, &mine, sizeof(mine), &all);
    const struct offered *offered = all;
    communicator->memory = result == MPI_SUCCESS ? offered->memory : NULL;
    *algorithm = result == MPI_SUCCESS ? offered->algorithm : ENGINE_AUTOMATIC;
    if (result != MPI_SUCCESS)
        shared_block_free(mine.memory);
    return result;
}

/* Gives back what one rank got when another did not, or when the communicator ends. */
static void give_up(struct communicator *communicator, int holds)
{
    struct group *group = communicator->group;
    engine_free(communicator->engine);
    communicator->engine = NULL;
    if (holds)
        release_members(group);
    if (group->rank == 0)
        shared_block_retire(communicator->memory);
    else
        shared_block_leave(communicator->memory);
    communicator->memory = NULL;
    group_unref(group);
}

/* What is loaded, as found last. */
struct loaded {
    unsigned long long known; /* objects that had been loaded at the last look */
    unsigned long long adds;  /* that have been loaded by now */
    int has_gpu;
};

static int look_at_object(struct dl_phdr_info *object, size_t size, void *context)
{
    static const char *const libraries[] = {"/libcuda.so.1", "/libamdhip64.so.5",
                                            "/libamdhip64.so.6", "/libamdhip64.so.7",
                                            "/libze_loader.so.1"};
    struct loaded *loaded = context;
    (void)size;
    loaded->adds = object->dlpi_adds;
    if (loaded->adds == loaded->known)
        return 1;
    for (unsigned i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        size_t name = strlen(object->dlpi_name), ending = strlen(libraries[i]);
        if (name >= ending && strcmp(object->dlpi_name + name - ending, libraries[i]) == 0)
            loaded->has_gpu = 1;
    }
    return 0;
}

/* dlopen would search the file system for each library, which takes 20 us. */
static int has_gpu_loaded(void)
{
    /* At the last look, which found no library of a GPU. Any thread writes; an older value only
     * makes the next look longer. */
    static _Atomic unsigned long long known;
    struct loaded loaded = {.known = known};
    dl_iterate_phdr(look_at_object, &loaded);
    if (!loaded.has_gpu)
        known = loaded.adds;
    return loaded.has_gpu;
}

/* A program that has the library of a GPU loaded may give addresses that only the GPU can read.
 * `--collectives on` asserts that it does not. */
static int may_use_gpu(void)
{
    return task_collectives_mode() != COLLECTIVES_AT_ONCE && has_gpu_loaded();
}

/* An engine on all ranks, or on none. */
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
                                       .disagrees = disagrees,
                                       .peer_failed = peer_failed,
                                       .context = communicator};
    int32_t holds = hold_members(group) == MPI_SUCCESS;
    communicator->engine = engine_new(&ranks, communicator->memory);
    int32_t is_ready = holds && communicator->engine && !may_use_gpu(), all_ready = 1;
    const void *all;
    result = agreement_allgather(agreement, &is_ready, sizeof(is_ready), &all);
    for (int i = 0; result == MPI_SUCCESS && i < group->ranks; i++)
        all_ready &= ((const int32_t *)all)[i];
    if (result != MPI_SUCCESS || !all_ready)
        give_up(communicator, holds);
    return result;
}

/* Attribute callback: the communicator is freed. */
static int free_communicator(MPI_Comm comm, int key, void *value, void *extra)
{
    struct communicator *communicator = value;
    (void)key, (void)extra;
    handle_table_remove(&communicator_table, (uintptr_t)comm);
    if (communicator->engine)
        give_up(communicator, 1);
    nodes_free(communicator->nodes);
    free(communicator->rooms);
    free(communicator);
    return MPI_SUCCESS;
}

static int add(struct communicator *communicator)
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

/* Whether all ranks of the communicator are known to come to the same decision. With --collectives
 * on the user says so; auto asks the space, not the ranks: some may be processes. */
static int is_agreed(MPI_Comm comm)
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
            int place = MPI_UNDEFINED;
            pmpi()->Group_translate_ranks(members, 1, &i, world, &place);
            is_inside &= place != MPI_UNDEFINED; /* MPI_Comm_spawn makes others */
        }
        pmpi()->Group_free(&members);
    }
    pmpi()->Group_free(&world);
    return is_inside && size > 0;
}

struct rooms *communicator_rooms(struct communicator *communicator)
{
    if (!communicator->rooms)
        communicator->rooms = aligned_alloc(SCRATCH_LINE, sizeof(struct rooms));
    return communicator->rooms;
}

/* Without a locked instruction, which would wait until the others have this rank's flags: threads
 * that end operations at the same time, on communicators of their own, may count one of two. */
void communicator_count(const struct communicator *communicator)
{
    uint64_t before = atomic_load_explicit(communicator->counter, memory_order_relaxed);
    atomic_store_explicit(communicator->counter, before + 1, memory_order_relaxed);
}

/* Setting up a communicator takes about 5 us, an operation at least 0.2 us: so many of them take
 * eighty times as long. */
enum { OPERATIONS_BEFORE_SET_UP = 2048 };

static struct communicator *new_communicator(MPI_Comm comm, int *error)
{
    int has_world = 0;
    enum collectives_mode wanted = task_collectives_mode();
    if (comm == MPI_COMM_NULL || wanted == COLLECTIVES_NEVER ||
        pmpi()->Initialized(&has_world) != MPI_SUCCESS || !has_world)
        return NULL;
    finalize_hook_install();
    struct communicator *communicator = calloc(1, sizeof(*communicator));
    if (!communicator) {
        *error = MPI_ERR_NO_MEM;
        return NULL;
    }
    communicator->comm = comm;
    communicator->calls_to_come =
        wanted == COLLECTIVES_AT_ONCE || comm == MPI_COMM_WORLD ? 1 : OPERATIONS_BEFORE_SET_UP;
    communicator->counter = task_collectives_counter();
    *error = add(communicator);
    if (*error == MPI_SUCCESS)
        return communicator;
    free(communicator);
    return NULL;
}

/* All ranks make it, in the same call. */
static void set_up(struct communicator *communicator, int *error)
{
    MPI_Comm comm = communicator->comm;
    communicator->calls_to_come = 0;
    struct agreement *agreement = is_agreed(comm) ? agreement_get(comm, error) : NULL;
    if (agreement && agreement->table)
        *error = make_engine(communicator, agreement);
    else if (agreement)
        communicator->nodes = nodes_new(comm, agreement->group, error);
}

struct communicator *communicator_of(MPI_Comm comm, int is_reduction, int *error)
{
    struct communicator *communicator = handle_table_find(&communicator_table, (uintptr_t)comm);
    if (!communicator && !(communicator = new_communicator(comm, error)))
        return NULL;
    if (communicator->calls_to_come && (is_reduction || --communicator->calls_to_come == 0))
        set_up(communicator, error);
    return communicator->engine || communicator->nodes ? communicator : NULL;
}
