/* tests/fuzz/registry_fuzz.c: any bytes in the registry of a space that `onespace ps` shows, as a
 * table and as JSON.
 *
 * Beyond not crashing: what is printed has no control characters, the indices that other code uses
 * are in bounds, and a process that does not map the registry is not a task's. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/lib/output.h"
#include "cmd/ps/ps.h"
#include "false_memory.h"
#include "space/shared_mappings.h"
#include "space/registry.h"

#define SLOT(i)                                                                                    \
    {                                                                                              \
        LAYOUT_REGISTRY + offsetof(struct space, slots) + (i) * sizeof(struct space_slot),         \
            sizeof(struct space_slot)                                                              \
    }

static const struct false_part parts[] = {
    {LAYOUT_REGISTRY, offsetof(struct space, files)},
    SLOT(0),
    SLOT(1),
    SLOT(2),
    SLOT(3),
    SLOT(LAYOUT_SLOTS - 1),
    {LAYOUT_REGISTRY + offsetof(struct space, shared), 4096},
    {LAYOUT_INSITU, 4096},
    {LAYOUT_REGISTRY, offsetof(struct space, operations)},
};
enum { PARTS = sizeof(parts) / sizeof(parts[0]) };

static void check(const struct ps_space *space)
{
    require(memchr(space->name, 0, sizeof(space->name)) != NULL, "a name that ends");
    require(memchr(space->problem, 0, sizeof(space->problem)) != NULL, "a problem that ends");
    for (unsigned i = 0; i < space->task_count; i++) {
        const struct ps_task *task = &space->tasks[i];
        require(task->slot < LAYOUT_SLOTS && task->state, "a slot with a state");
        require(memchr(task->program, 0, sizeof(task->program)) != NULL, "a program that ends");
        require(task->pid == 0 || task->pid == getpid() || strcmp(task->state, "executed") == 0,
                "the pid of a member");
    }
    for (uintptr_t at = 1 << 12; at < (uintptr_t)1 << 47; at <<= 1)
        ps_out_of_range_owner(space, at);
    ps_out_of_range_owner(space, LAYOUT_REGION);
}

static void show(struct ps_space *space, enum show_order order, int as_json)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    struct output_json json = {.out = out};
    require(out != NULL, "memory");
    show_sort(space, order);
    if (as_json)
        show_json(&json, space);
    else
        show_table(out, 80, space, order, order == SHOW_BY_ID);
    fclose(out);
    require_no_control(text, size);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t mark = 1;
    struct ps_member member = false_memory_member();
    const struct ps_key key = {member.space, member.user, member.group};
    struct shared_header header = registry_header();
    struct ps_space space;
    if (size == 0)
        return 0;
    false_memory_clear(parts, PARTS);
    false_memory_write(LAYOUT_MARK, &mark, sizeof(mark));
    false_memory_write(LAYOUT_REGISTRY, &header, sizeof(header));
    false_parts_change(parts, PARTS, data + 1, size - 1, false_memory_write);
    if (data[0] & 1) /* hardly any input would keep it */
        false_memory_write(LAYOUT_REGISTRY, &header, sizeof(header));
    if (ps_read(&key, &member, 1, &space) != 0)
        return 0;
    check(&space);
    show(&space, (enum show_order)(data[0] >> 1 & 1 ? SHOW_BY_MEMORY : SHOW_BY_ID), 0);
    show(&space, SHOW_BY_TIME, 1);
    ps_free(&space);
    return 0;
}
