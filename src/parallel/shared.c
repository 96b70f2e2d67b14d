/* src/parallel/shared.c: instances that all members share, found by name.
 *
 * The first member that asks maps the memory, in its own range, which the others hold. The table is
 * changed under a lock. If a member dies with the lock it need not be recovered, since the team is
 * broken then. */
#include "parallel/team.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static int lock(struct onespace_parallel *team)
{
    const struct timespec pause = {0, 20000};
    uint32_t nobody = 0, mine = (uint32_t)team->number + 1;
    while (!atomic_compare_exchange_strong_explicit(&team->block->lock, &nobody, mine,
                                                    memory_order_acquire, memory_order_relaxed)) {
        nobody = 0;
        if (team_look(team) < 0)
            return -EOWNERDEAD;
        nanosleep(&pause, NULL);
    }
    return 0;
}

static void unlock(struct onespace_parallel *team)
{
    atomic_store_explicit(&team->block->lock, 0, memory_order_release);
}

/* The instance of that name, or the first free place, or NULL. */
static struct team_instance *find(struct team_block *block, const char *name)
{
    for (int i = 0; i < ONESPACE_PARALLEL_SHARED_MAX; i++) {
        struct team_instance *instance = &block->instances[i];
        if (!atomic_load_explicit(&instance->address, memory_order_acquire) ||
            strcmp(instance->name, name) == 0)
            return instance;
    }
    return NULL;
}

static int make(struct onespace_parallel *team, struct team_instance *instance, const char *name,
                size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, team_sharing() | MAP_ANONYMOUS, -1, 0);
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
    int result = team_may_meet(team);
    if (result < 0 && result != -EDEADLK)
        return result;
    if (!name || !*name || size == 0 || !address)
        return -EINVAL;
    if (strlen(name) > ONESPACE_PARALLEL_NAME_MAX)
        return -ENAMETOOLONG;
    result = lock(team);
    if (result < 0)
        return result;
    struct team_instance *instance = find(team->block, name);
    if (!instance)
        result = -ENOSPC;
    else if (!atomic_load_explicit(&instance->address, memory_order_relaxed))
        result = make(team, instance, name, size);
    else
        result = instance->size == size ? 0 : -EEXIST;
    unlock(team);
    if (result == 0)
        *address = (void *)atomic_load_explicit(&instance->address, memory_order_relaxed);
    return result;
}
