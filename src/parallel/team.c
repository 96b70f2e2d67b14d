/* src/parallel/team.c: handles and blocks, teams of running tasks (onespace_parallel_join), and the
 * memory that a team shares by name.
 *
 * The first member that asks for a name maps the memory in its own range, which the others hold. A
 * lock protects the table of names. A member that dies with the lock needs no recovery, because the
 * team is broken then. */
#include "parallel/team.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "onespace.h"
#include "space/member.h"

enum { POLL_NS = 200000 }; /* between two checks that a member has started or left */

static size_t block_bytes(int count)
{
    return sizeof(struct team_block) + (size_t)count * sizeof(struct team_member);
}

static struct shared_header header(void)
{
    return shared_header_of(TEAM_MAGIC, sizeof(struct team_block));
}

/* The mmap flag for memory that all members write to: MAP_SHARED in a guarded task. */
static int team_map_flags(void)
{
    const struct space_slot *self = space_self();
    return self && self->guard_key ? MAP_SHARED : MAP_PRIVATE;
}

/* In pages of its own: zero, and aligned for struct team_member. */
static struct team_block *new_block(int count)
{
    void *memory = mmap(NULL, block_bytes(count), PROT_READ | PROT_WRITE,
                        team_map_flags() | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    struct team_block *block = memory;
    block->header = header();
    block->count = (uint32_t)count;
    block->first = -1;
    return block;
}

struct onespace_parallel *team_new(int count, int number, struct team_block *block)
{
    struct onespace_parallel *team =
        calloc(1, sizeof(*team) + (size_t)count * sizeof(team->held[0]));
    if (!team)
        return NULL;
    team->count = count;
    team->number = number;
    team->owner_id = onespace_self();
    team->block = block ? block : new_block(count);
    if (!block && team->block)
        team->block_bytes = block_bytes(count);
    if (team->block)
        return team;
    free(team);
    return NULL;
}

void team_free(struct onespace_parallel *team)
{
    if (team->block_bytes)
        munmap(team->block, team->block_bytes);
    free(team);
}

int team_check_block(const struct team_block *block)
{
    struct shared_header own = header();
    if (shared_header_matches(&block->header, &own))
        return 0;
    shared_header_report("team", &block->header, "member 0", &own, "this program's libonespace");
    return -EINVAL;
}

int team_enter(struct onespace_parallel *team)
{
    struct team_block *block = team->block;
    int result = onespace_export(block->export_name, block, block_bytes(team->count));
    if (result == 0)
        atomic_store_explicit(&block->members[team->number].id, onespace_self() + 1,
                              memory_order_release);
    else
        team_break(block, team->number); /* the others must not wait for it */
    return result;
}

/* Holds the memory of all members: pointers that a member has passed must stay valid even if it is
 * killed. Member 0's memory is already held. */
static int hold_all(struct onespace_parallel *team)
{
    struct team_block *block = team->block;
    for (int i = 1; i < team->count; i++) {
        void *ignored;
        int id = atomic_load_explicit(&block->members[i].id, memory_order_acquire) - 1;
        if (i == team->number)
            continue;
        if (onespace_import(id, block->export_name, &ignored, NULL, 0) < 0) {
            /* Set `lost` before the caller returns: it must not enter a barrier that the dead
             * member has arrived at. */
            team_break(block, i);
            return -EOWNERDEAD;
        }
        team->held[i] = id;
    }
    return 0;
}

int team_synchronize(struct onespace_parallel *team)
{
    int result = team_barrier(team);
    if (result == 0)
        result = hold_all(team);
    if (result == 0)
        result = team_barrier(team);
    if (result == 0)
        team_set_oversubscribed(team);
    return result;
}

static void unmap_own_instances(struct onespace_parallel *team)
{
    for (int i = 0; i < ONESPACE_PARALLEL_SHARED_MAX; i++) {
        struct team_instance *instance = &team->block->instances[i];
        void *address = (void *)atomic_load_explicit(&instance->address, memory_order_acquire);
        if (address && instance->owner == team->number)
            munmap(address, instance->size);
    }
}

/* Waits until no other member uses the block. */
static void await_others_left(struct onespace_parallel *team)
{
    const struct timespec pause = {0, POLL_NS};
    for (int i = 1; i < team->count;) {
        int32_t id = atomic_load_explicit(&team->block->members[i].id, memory_order_acquire);
        if (id == TEAM_LEFT || member_has_ended(id - 1))
            i++;
        else
            nanosleep(&pause, NULL);
    }
}

/* In a broken team it cannot be determined when the others stop using the block: block and
 * instances stay until their owner ends. */
void team_leave(struct onespace_parallel *team)
{
    struct team_block *block = team->block;
    int owner = team->owner_id, is_alone = team->is_spawned && team->number == 0;
    int is_broken = !is_alone && atomic_load(&block->lost);
    if (!is_broken || team->number > 0) /* else a member that joins now must find that it is */
        (void)!onespace_unexport(block->export_name);
    if (!is_broken)
        unmap_own_instances(team);
    for (int i = 1; i < team->count; i++)
        if (team->held[i])
            (void)!onespace_release(team->held[i]);
    if (team->number > 0) {
        atomic_store_explicit(&block->members[team->number].id, TEAM_LEFT, memory_order_release);
        team_free(team);
        (void)!onespace_release(owner);
        return;
    }
    if (is_broken)
        team->block_bytes = 0;
    else if (!is_alone)
        await_others_left(team);
    team_free(team);
}

int team_check_barrier(const struct onespace_parallel *team)
{
    if (!space_mine())
        return -EPERM;
    if (atomic_load(&team->block->lost))
        return -EOWNERDEAD;
    return team->is_spawned && !team->is_inside ? -EDEADLK : 0;
}

/* Waits until the task with that number is started. Returns its id. */
static int await_task(int number)
{
    const struct timespec pause = {0, POLL_NS};
    int id;
    while ((id = onespace_task(number)) == -ESRCH)
        nanosleep(&pause, NULL);
    return id;
}

static struct onespace_parallel *join_as_first(const char *name, int first, int count)
{
    struct onespace_parallel *team = team_new(count, 0, NULL);
    if (!team)
        return NULL;
    team->block->first = first;
    strcpy(team->block->export_name, name);
    return team;
}

/* The block lies in the memory of the team's first task. */
static int join_first(struct onespace_parallel **team, const char *name, int first, int count)
{
    void *block;
    int owner = await_task(first);
    int result = owner < 0 ? owner : onespace_import(owner, name, &block, NULL, -1);
    if (result < 0)
        return result == -ESRCH ? -EOWNERDEAD : result; /* it has ended since await_task */
    int is_block = team_check_block(block) == 0;
    result = !is_block || ((struct team_block *)block)->count != (uint32_t)count ? -EINVAL : 0;
    if (result == 0) {
        *team = team_new(count, onespace_number() - first, block);
        result = *team ? 0 : -ENOMEM;
    }
    if (result < 0 && is_block)
        team_break(block, onespace_number() - first);
    if (result == 0)
        (*team)->owner_id = owner;
    else
        (void)!onespace_release(owner);
    return result;
}

int onespace_parallel_join(struct onespace_parallel **team, int count)
{
    static _Atomic unsigned joins; /* equal in all tasks, because joining is collective */
    int number = onespace_number(), ntasks = onespace_ntasks();
    if (number < 0 || count < 0)
        return number < 0 ? number : -EINVAL;
    if (count == 0 || count > ntasks)
        count = ntasks;
    int first = number - number % count;
    if (count > ntasks - first)
        count = ntasks - first;
    char name[TEAM_EXPORT_NAME];
    snprintf(name, sizeof(name), TEAM_NAME ".joined.%u", atomic_fetch_add(&joins, 1));
    struct onespace_parallel *joined = NULL;
    int result = 0;
    if (number == first)
        result = (joined = join_as_first(name, first, count)) ? 0 : -ENOMEM;
    else
        result = join_first(&joined, name, first, count);
    if (result < 0)
        return result;
    result = team_enter(joined);
    if (result == 0)
        result = team_synchronize(joined);
    if (result == 0)
        *team = joined;
    else
        team_leave(joined);
    return result;
}

int onespace_parallel_fini(struct onespace_parallel *team)
{
    if (!space_mine())
        return -EPERM;
    if (team->is_inside)
        return -EDEADLK;
    int is_lost = 0, created_space = team->created_space;
    if (team->is_spawned)
        team_end_workers(team);
    else
        is_lost = team_barrier(team) < 0; /* then no member uses the others' memory */
    is_lost |= atomic_load(&team->block->lost) != 0;
    team_leave(team);
    if (created_space)
        (void)!onespace_fini(); /* fails if the program has other tasks; it ends the space itself
                                   then */
    return is_lost ? -EOWNERDEAD : 0;
}

int onespace_parallel_number(const struct onespace_parallel *team)
{
    return team->number;
}

int onespace_parallel_count(const struct onespace_parallel *team)
{
    return team->count;
}

int onespace_parallel_lost(const struct onespace_parallel *team)
{
    return (int)atomic_load(&team->block->lost) - 1;
}

/* ---- Shared memory by name ---- */

static int lock_instances(struct onespace_parallel *team)
{
    const struct timespec pause = {0, 20000};
    uint32_t unlocked = 0, number = (uint32_t)team->number + 1;
    while (!atomic_compare_exchange_strong_explicit(&team->block->lock, &unlocked, number,
                                                    memory_order_acquire, memory_order_relaxed)) {
        unlocked = 0;
        if (team_check_lost(team) < 0)
            return -EOWNERDEAD;
        nanosleep(&pause, NULL);
    }
    return 0;
}

static void unlock_instances(struct onespace_parallel *team)
{
    atomic_store_explicit(&team->block->lock, 0, memory_order_release);
}

/* Returns the instance of that name, or the first free one, or NULL. */
static struct team_instance *find_instance(struct team_block *block, const char *name)
{
    for (int i = 0; i < ONESPACE_PARALLEL_SHARED_MAX; i++) {
        struct team_instance *instance = &block->instances[i];
        if (!atomic_load_explicit(&instance->address, memory_order_acquire) ||
            strcmp(instance->name, name) == 0)
            return instance;
    }
    return NULL;
}

static int create_instance(struct onespace_parallel *team, struct team_instance *instance,
                           const char *name, size_t size)
{
    void *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, team_map_flags() | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -ENOMEM;
    strcpy(instance->name, name);
    instance->size = size;
    instance->owner = team->number;
    atomic_store_explicit(&instance->address, (uintptr_t)memory, memory_order_release);
    return 0;
}

int onespace_parallel_shared(struct onespace_parallel *team, const char *name, size_t size,
                             void **address)
{
    int result = team_check_barrier(team);
    if (result < 0 && result != -EDEADLK)
        return result;
    if (!name || !*name || size == 0 || !address)
        return -EINVAL;
    if (strlen(name) > ONESPACE_PARALLEL_NAME_MAX)
        return -ENAMETOOLONG;
    result = lock_instances(team);
    if (result < 0)
        return result;
    struct team_instance *instance = find_instance(team->block, name);
    if (!instance)
        result = -ENOSPC;
    else if (!atomic_load_explicit(&instance->address, memory_order_relaxed))
        result = create_instance(team, instance, name, size);
    else
        result = instance->size == size ? 0 : -EEXIST;
    unlock_instances(team);
    if (result == 0)
        *address = (void *)atomic_load_explicit(&instance->address, memory_order_relaxed);
    return result;
}
