/* src/parallel/region.c: regions and loops, which member 0 lets the others run.
 *
 * A fork is a barrier that member 0 enters after writing the region; the join is another barrier,
 * after which member 0 may write the next one. A dismissal is a region that does nothing.
 * Members have loaded the same files at different addresses, so a function is identified by its
 * file and its offset in it. */
#include "parallel/team.h"

#include <errno.h>
#include <link.h>
#include <string.h>

#include "space/member.h"

/* ---- Functions ---- */

struct search {
    uintptr_t address;
    struct team_function *function;
    unsigned objects; /* visited so far */
};

static int object_contains(const struct dl_phdr_info *info, uintptr_t address)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && address - info->dlpi_addr - part->p_vaddr < part->p_memsz)
            return 1;
    }
    return 0;
}

/* Callbacks of dl_iterate_phdr. The first object is the program, whatever its name. */
static int find_object(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *search = data;
    int is_program = search->objects++ == 0;
    (void)size;
    if (!object_contains(info, search->address))
        return 0;
    search->function->object = is_program ? NULL : info->dlpi_name;
    search->function->offset = search->address - info->dlpi_addr;
    return 1;
}

static int find_address(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *search = data;
    int is_program = search->objects++ == 0;
    const char *wanted = search->function->object;
    (void)size;
    if (is_program ? wanted != NULL : !wanted || strcmp(info->dlpi_name, wanted) != 0)
        return 0;
    search->address = info->dlpi_addr + search->function->offset;
    return 1;
}

/* Sets `function` from the address: 0 or -ENOENT. */
static int describe_function(const void *address, struct team_function *function)
{
    struct search search = {(uintptr_t)address, function, 0};
    return dl_iterate_phdr(find_object, &search) ? 0 : -ENOENT;
}

/* Returns the address of the caller's own copy of the function, or 0. */
static uintptr_t resolve_function(struct team_function *function)
{
    struct search search = {0, function, 0};
    return dl_iterate_phdr(find_address, &search) ? search.address : 0;
}

/* ---- The iterations of a loop ---- */

struct range {
    long begin;
    unsigned long length, chunk, chunks;
};

static void run_chunk(const struct team_loop *loop, const struct range *range, unsigned long index)
{
    unsigned long from = index * range->chunk;
    unsigned long length =
        range->length - from < range->chunk ? range->length - from : range->chunk;
    long begin = (long)((unsigned long)range->begin + from);
    loop->part(begin, (long)((unsigned long)begin + length), loop->argument);
}

/* The first `length % count` members get one more iteration than the others. */
static void run_block(const struct onespace_parallel *team, const struct team_loop *loop,
                      const struct range *range)
{
    unsigned long count = (unsigned long)team->count, number = (unsigned long)team->number;
    unsigned long each = range->length / count, more = range->length % count;
    unsigned long from = each * number + (number < more ? number : more);
    long begin = (long)((unsigned long)range->begin + from);
    unsigned long length = each + (number < more);
    if (length > 0)
        loop->part(begin, (long)((unsigned long)begin + length), loop->argument);
}

static void run_loop(struct onespace_parallel *team, const struct team_loop *loop)
{
    if (loop->end <= loop->begin)
        return;
    struct range range = {loop->begin, (unsigned long)loop->end - (unsigned long)loop->begin, 0, 0};
    if (loop->schedule == ONESPACE_PARALLEL_STATIC) {
        run_block(team, loop, &range);
        return;
    }
    int is_dynamic = loop->schedule > 0;
    range.chunk = is_dynamic ? (unsigned long)loop->schedule : -(unsigned long)loop->schedule;
    range.chunks = range.length / range.chunk + (range.length % range.chunk != 0);
    unsigned long index = (unsigned long)team->number;
    /* Relaxed: this only assigns chunks to members; barriers order the accesses to memory. */
    if (is_dynamic)
        while ((index = atomic_fetch_add_explicit(&team->block->next_chunk, 1,
                                                  memory_order_relaxed)) < range.chunks)
            run_chunk(loop, &range, index);
    else
        for (; index < range.chunks; index += (unsigned long)team->count)
            run_chunk(loop, &range, index);
}

/* ---- Regions ---- */

static int run_region(struct onespace_parallel *team, struct team_region region)
{
    int result = 0;
    if (region.order == ORDER_DISMISS)
        return 0;
    uintptr_t function = resolve_function(&region.function);
    if (!function)
        return -ENOENT;
    team->is_inside = 1;
    if (region.order == ORDER_BODY) {
        result = ((onespace_parallel_body *)function)(team, region.argument);
    } else {
        region.loop.part = (onespace_parallel_part *)function;
        run_loop(team, &region.loop);
    }
    team->is_inside = 0;
    return result;
}

int team_fork(struct onespace_parallel *team, const struct team_region *region)
{
    struct team_block *block = team->block;
    block->region = *region;
    int result = team_barrier(team);
    if (result < 0)
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
        if (result < 0)
            return result;
        int is_dismissed = block->region.order == ORDER_DISMISS;
        block->members[team->number].result = run_region(team, block->region);
        result = team_barrier(team);
        if (result < 0 || is_dismissed)
            return result;
    }
}

/* Returns 0 if the caller is member 0 and the others wait for a region, else -errno. */
static int check_can_fork(const struct onespace_parallel *team)
{
    int result = team_check_barrier(team);
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
    int result = body ? check_can_fork(team) : -EINVAL;
    if (result == 0)
        result = describe_function((const void *)(uintptr_t)body, &region.function);
    return result ? result : team_fork(team, &region);
}

int onespace_parallel_dismiss(struct onespace_parallel *team)
{
    struct team_region region = {.order = ORDER_DISMISS};
    int result = check_can_fork(team);
    if (result == 0 && team->is_spawned)
        result = -EINVAL;
    return result ? result : team_fork(team, &region);
}

int onespace_parallel_serve(struct onespace_parallel *team)
{
    int result = team_check_barrier(team);
    if (result < 0)
        return result;
    const struct space_slot *leader = slot_find(space_mine(), team->owner_id);
    if (team->is_spawned || team->number == 0 || !leader ||
        strcmp(leader->program, space_self()->program) != 0)
        return -EINVAL;
    return team_serve(team);
}

int onespace_parallel_for(struct onespace_parallel *team, long begin, long end, long schedule,
                          onespace_parallel_part *part, void *argument)
{
    if (!part)
        return -EINVAL;
    struct team_loop loop = {begin, end, schedule, part, argument};
    int result = team_check_barrier(team);
    if (result == -EDEADLK) {
        struct team_region region = {.order = ORDER_LOOP, .loop = loop};
        result = describe_function((const void *)(uintptr_t)part, &region.function);
        return result ? result : team_fork(team, &region);
    }
    if (result < 0)
        return result;
    run_loop(team, &loop);
    return team_barrier(team);
}
