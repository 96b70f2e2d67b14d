/* src/parallel/team.c: handles and blocks; teams of tasks that are running already. */
#include "parallel/team.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "onespace.h"
#include "space/member.h"

enum { POLL_NS = 200000 }; /* between two tests whether a member has started or left */

static size_t block_bytes(int count)
{
    return sizeof(struct team_block) + (size_t)count * sizeof(struct team_member);
}

static struct shared_header header(void)
{
    return shared_header_of(TEAM_MAGIC, sizeof(struct team_block));
}

int team_sharing(void)
{
    const struct space_slot *self = space_self();
    return self && self->guard_key ? MAP_SHARED : MAP_PRIVATE;
}

/* In pages of its own: zero, and aligned for struct team_member. */
static struct team_block *new_block(int count)
{
    void *memory = mmap(NULL, block_bytes(count), PROT_READ | PROT_WRITE,
                        team_sharing() | MAP_ANONYMOUS, -1, 0);
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
    return result;
}

/* Holds the memory of all members: pointers that a member has passed must stay valid, even if it is
 * killed. Member 0's memory is held from the beginning. */
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
            uint32_t nobody = 0;
            atomic_compare_exchange_strong(&block->lost, &nobody, (uint32_t)i + 1);
            return team_look(team);
        }
        team->held[i] = id;
    }
    return 0;
}

int team_meet(struct onespace_parallel *team)
{
    int result = team_barrier(team);
    if (result == 0)
        result = hold_all(team);
    if (result == 0)
        result = team_barrier(team);
    if (result == 0)
        team_find_oversubscribed(team);
    return result;
}

static void leave_instances(struct onespace_parallel *team)
{
    for (int i = 0; i < ONESPACE_PARALLEL_SHARED_MAX; i++) {
        struct team_instance *instance = &team->block->instances[i];
        void *address = (void *)atomic_load_explicit(&instance->address, memory_order_acquire);
        if (address && instance->owner == team->number)
            munmap(address, instance->size);
    }
}

/* Waits until no other member uses the block any more. */
static void await_leavers(struct onespace_parallel *team)
{
    const struct timespec pause = {0, POLL_NS};
    for (int i = 1; i < team->count;) {
        int32_t id = atomic_load_explicit(&team->block->members[i].id, memory_order_acquire);
        if (id == TEAM_LEFT || team_has_ended(id - 1))
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
    int owner = team->owner_id, is_alone = team->is_made && team->number == 0;
    int is_broken = !is_alone && atomic_load(&block->lost);
    (void)!onespace_unexport(block->export_name);
    if (!is_broken)
        leave_instances(team);
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
        await_leavers(team);
    team_free(team);
}

int team_may_meet(const struct onespace_parallel *team)
{
    if (!space_mine())
        return -EPERM;
    if (atomic_load(&team->block->lost))
        return -EOWNERDEAD;
    return team->is_made && !team->is_inside ? -EDEADLK : 0;
}

/* The id of the task with that number; waits until it is started. */
static int await_task(int number)
{
    const struct timespec pause = {0, POLL_NS};
    int id;
    while ((id = onespace_task(number)) == -ESRCH)
        nanosleep(&pause, NULL);
    return id;
}

static struct onespace_parallel *lead(const char *name, int first, int count)
{
    struct onespace_parallel *team = team_new(count, 0, NULL);
    if (!team)
        return NULL;
    team->block->first = first;
    strcpy(team->block->export_name, name);
    return team;
}

/* The block is in the memory of the first of the team. */
static int follow(struct onespace_parallel **team, const char *name, int first, int count)
{
    void *block;
    int owner = await_task(first);
    int result = owner < 0 ? owner : onespace_import(owner, name, &block, NULL, -1);
    if (result < 0)
        return result == -ESRCH ? -EOWNERDEAD : result; /* it has ended since await_task */
    result = team_check_block(block);
    if (result == 0 && ((struct team_block *)block)->count != (uint32_t)count)
        result = -EINVAL;
    if (result == 0) {
        *team = team_new(count, onespace_number() - first, block);
        result = *team ? 0 : -ENOMEM;
    }
    if (result == 0)
        (*team)->owner_id = owner;
    else
        (void)!onespace_release(owner);
    return result;
}

int onespace_parallel_join(struct onespace_parallel **team, int count)
{
    static _Atomic unsigned joins; /* the same in all, since joining is collective */
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
    struct onespace_parallel *mine = NULL;
    int result = 0;
    if (number == first)
        result = (mine = lead(name, first, count)) ? 0 : -ENOMEM;
    else
        result = follow(&mine, name, first, count);
    if (result < 0)
        return result;
    result = team_enter(mine);
    if (result == 0)
        result = team_meet(mine);
    if (result == 0)
        *team = mine;
    else
        team_leave(mine);
    return result;
}

int onespace_parallel_fini(struct onespace_parallel *team)
{
    if (!space_mine())
        return -EPERM;
    if (team->is_inside)
        return -EDEADLK;
    int is_lost = 0, made_root = team->made_root;
    if (team->is_made)
        team_end_made(team);
    else
        is_lost = team_barrier(team) < 0; /* after it no member uses the others' memory */
    is_lost |= atomic_load(&team->block->lost) != 0;
    team_leave(team);
    if (made_root)
        (void)!onespace_fini(); /* -EBUSY: the program has other tasks, and ends the space itself */
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
