/* src/parallel/region.c: regions, which member 0 lets the others run.
 *
 * A fork is a barrier that member 0 enters after writing the region; the join is another barrier.
 * Members have loaded the same files at different addresses, so a function is described by its file
 * and its offset in it. */
#include "parallel/team.h"

#include <errno.h>
#include <link.h>
#include <string.h>

#include "space/member.h"

struct search {
    uintptr_t address;
    struct team_function *function;
    unsigned seen;
};

static int holds(const struct dl_phdr_info *info, uintptr_t address)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && address - info->dlpi_addr - part->p_vaddr < part->p_memsz)
            return 1;
    }
    return 0;
}

/* The first object is the program, whatever its name. */
static int describe(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *search = data;
    int is_program = search->seen++ == 0;
    (void)size;
    if (!holds(info, search->address))
        return 0;
    search->function->object = is_program ? NULL : info->dlpi_name;
    search->function->offset = search->address - info->dlpi_addr;
    return 1;
}

static int find(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *search = data;
    int is_program = search->seen++ == 0;
    const char *wanted = search->function->object;
    (void)size;
    if (is_program ? wanted != NULL : !wanted || strcmp(info->dlpi_name, wanted) != 0)
        return 0;
    search->address = info->dlpi_addr + search->function->offset;
    return 1;
}

int team_describe(const void *address, struct team_function *function)
{
    struct search search = {(uintptr_t)address, function, 0};
    return dl_iterate_phdr(describe, &search) ? 0 : -ENOENT;
}

/* The caller's own copy of the function, or 0. */
static uintptr_t own_function(struct team_function *function)
{
    struct search search = {0, function, 0};
    return dl_iterate_phdr(find, &search) ? search.address : 0;
}

static int run_region(struct onespace_parallel *team, struct team_region region)
{
    int result = 0;
    uintptr_t function = own_function(&region.function);
    if (!function)
        return -ENOENT;
    team->is_inside = 1;
    if (region.order == ORDER_BODY) {
        result = ((onespace_parallel_body *)function)(team, region.argument);
    } else {
        region.loop.part = (onespace_parallel_part *)function;
        team_run_loop(team, &region.loop);
    }
    team->is_inside = 0;
    return result;
}

int team_fork(struct onespace_parallel *team, const struct team_region *region)
{
    struct team_block *block = team->block;
    block->region = *region;
    int result = team_barrier(team);
    if (result < 0 || region->order == ORDER_DISMISS)
        return result;
    block->members[0].result = run_region(team, *region);
    result = team_barrier(team);
    for (int i = 0; i < team->count && result == 0; i++)
        result = block->members[i].result;
    return result;
}

int team_serve(struct onespace_parallel *team)
{
    struct team_block *block = team->block;
    for (;;) {
        int result = team_barrier(team);
        if (result < 0 || block->region.order == ORDER_DISMISS)
            return result;
        block->members[team->number].result = run_region(team, block->region);
        result = team_barrier(team);
        if (result < 0)
            return result;
    }
}

/* 0 if the caller is member 0 and the others wait for a region, else -errno. */
static int may_fork(const struct onespace_parallel *team)
{
    int result = team_may_meet(team);
    if (result < 0 && result != -EDEADLK)
        return result;
    if (team->number != 0)
        return -EINVAL;
    return team->is_inside ? -EDEADLK : 0;
}

int onespace_parallel_run(struct onespace_parallel *team, onespace_parallel_body *body,
                          void *argument)
{
    struct team_region region = {.order = ORDER_BODY, .argument = argument};
    int result = body ? may_fork(team) : -EINVAL;
    if (result == 0)
        result = team_describe((const void *)(uintptr_t)body, &region.function);
    return result ? result : team_fork(team, &region);
}

int onespace_parallel_dismiss(struct onespace_parallel *team)
{
    struct team_region region = {.order = ORDER_DISMISS};
    int result = may_fork(team);
    if (result == 0 && team->is_made)
        result = -EINVAL;
    return result ? result : team_fork(team, &region);
}

int onespace_parallel_serve(struct onespace_parallel *team)
{
    int result = team_may_meet(team);
    if (result < 0)
        return result;
    const struct space_slot *leader = slot_find(space_mine(), team->owner_id);
    if (team->is_made || team->number == 0 || !leader ||
        strcmp(leader->program, space_self()->program) != 0)
        return -EINVAL;
    return team_serve(team);
}
