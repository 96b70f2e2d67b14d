/* cmd/ps/memory.c: the memory of a space: by task, whether it is short, whether unmapping takes
 * long. */
#include "cmd/ps/ps.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "base/proc.h"
#include "cmd/lib/files.h"
#include "cmd/lib/output.h"
#include "launch/capacity.h"
#include "space/registry.h"
#include "space/shared_mappings.h"

/* ---- Memory by task ----
 *
 * The range of a slot tells the task, and the part of the range tells the use (src/space/layout.h).
 * Memory in no task's range is the root's, except mappings that a task made there because it asked
 * for the address.
 *
 * Only smaps shows private pages on every kernel. Reading the page tables by pagemap takes three
 * quarters of the time and does not show swapped shared memory. */

static uint64_t *part_of_range(struct ps_memory *memory, uintptr_t start)
{
    uintptr_t offset = (start - LAYOUT_REGION) % LAYOUT_RANGE;
    return offset >= LAYOUT_STACK      ? &memory->stack
           : offset >= LAYOUT_BREAK    ? &memory->heap
           : offset >= LAYOUT_MAPPINGS ? &memory->mappings
                                       : &memory->files;
}

static uint64_t *part_of_root(struct ps_memory *memory, const struct map_region *region,
                              int outside)
{
    const char *name = region->name ? region->name : "";
    return strcmp(name, "[heap]") == 0    ? &memory->heap
           : strcmp(name, "[stack]") == 0 ? &memory->stack
           : outside && name[0] == '/'    ? &memory->files
                                          : &memory->mappings;
}

int ps_uses_shared(const struct ps_space *space, const struct ps_task *task, uintptr_t address)
{
    return space->shared &&
           shared_mapping_is_used_by(&space->shared[shared_window_index(address)], task->slot);
}

struct ps_task *ps_out_of_range_owner(const struct ps_space *space, uintptr_t address)
{
    for (unsigned i = 0; shared_windows_contain(address) && i < space->task_count; i++)
        if (ps_uses_shared(space, &space->tasks[i], address))
            return &space->tasks[i];
    for (unsigned i = 0; i < space->task_count; i++)
        for (unsigned f = 0; f < space->tasks[i].out_of_range_count; f++)
            if (interval_is_certain(space->tasks[i].out_of_range[f]) &&
                address >= interval_start(space->tasks[i].out_of_range[f]) &&
                address < interval_end(space->tasks[i].out_of_range[f]))
                return &space->tasks[i];
    return NULL;
}

/* Adds the mapping to its owner's memory; that of the space itself counts as the root's. */
static void count_region(struct ps_task *root, const struct map_region *region)
{
    struct ps_task *owner = region->owner == MAP_TASK ? region->task : root;
    unsigned slot = layout_slot_of(region->start);
    if (!owner)
        return;
    struct ps_memory *memory = &owner->memory;
    *(slot > 0 && slot < LAYOUT_SLOTS ? part_of_range(memory, region->start)
      : region->owner == MAP_TASK     ? &memory->mappings
                                  : part_of_root(memory, region, slot != 0)) += region->resident;
    memory->resident += region->resident;
    memory->private += region->private;
    memory->proportional += region->proportional;
    memory->swapped += region->swapped;
}

void ps_memory(struct ps_space *space)
{
    struct ps_task *root = NULL;
    struct map map;
    if (map_read(space, &map) != 0)
        return;
    map_set_owners(&map);
    for (unsigned i = 0; i < space->task_count; i++) {
        space->tasks[i].memory.known = map.counted;
        root = space->tasks[i].slot == 0 ? &space->tasks[i] : root;
    }
    for (size_t i = 0; i < map.count; i++)
        count_region(root, &map.regions[i]);
    map_free(&map);
}

/* ---- Whether memory is short, and which task uses most ----
 *
 * The kernel charges what a task touches to the control group of the process that owns the memory,
 * the root, whichever group the task is in. */

enum { SHORTAGE_PERCENT = 90 };

struct shortage {
    char place[PATH_MAX]; /* empty: none */
    uint64_t used, limit;
    const struct ps_task *most; /* NULL: not known */
};

static void record_if_short(struct shortage *shortage, const char *place, uint64_t used,
                            uint64_t limit)
{
    if ((double)used * 100 < (double)limit * SHORTAGE_PERCENT)
        return;
    if (shortage->place[0] &&
        (double)used / (double)limit <= (double)shortage->used / (double)shortage->limit)
        return;
    snprintf(shortage->place, sizeof(shortage->place), "%s", place);
    shortage->used = used;
    shortage->limit = limit;
}

static void record_group_if_short(const char *directory, void *context)
{
    uint64_t limit, used;
    if (cgroup_memory(directory, &used, &limit) == 0 && limit > 0)
        record_if_short(context, directory, used, limit);
}

static void find_shortage(const struct ps_space *space, struct shortage *shortage)
{
    uint64_t total = machine_memory("MemTotal"), available = machine_memory("MemAvailable");
    *shortage = (struct shortage){0};
    if (space->root_pid > 0)
        cgroup_each(space->root_pid, "memory", record_group_if_short, shortage);
    if (total > available)
        record_if_short(shortage, "this machine", total - available, total);
    for (unsigned i = 0; i < space->task_count; i++) {
        const struct ps_task *task = &space->tasks[i];
        if (task->memory.known && (!shortage->most || show_used(task) > show_used(shortage->most)))
            shortage->most = task;
    }
}

void shortage_print(FILE *out, unsigned width, const struct ps_space *space)
{
    struct shortage shortage;
    char used[OUTPUT_SHORT], limit[OUTPUT_SHORT], text[PATH_MAX + 256];
    find_shortage(space, &shortage);
    if (!shortage.place[0])
        return;
    int length =
        snprintf(text, sizeof(text), "memory is short: %s has %s of %s in use", shortage.place,
                 output_bytes(used, shortage.used), output_bytes(limit, shortage.limit));
    if (shortage.most && length < (int)sizeof(text))
        snprintf(text + length, sizeof(text) - (size_t)length,
                 "; of this space id %d (pid %d) uses most, %s; when it is full the kernel ends "
                 "the whole space",
                 shortage.most->id, shortage.most->pid,
                 output_bytes(used, show_used(shortage.most)));
    output_wrapped(out, width, 0, 2, output_clean(text));
    fputc('\n', out);
}

void shortage_json(struct output_json *json, const struct ps_space *space)
{
    struct shortage shortage;
    find_shortage(space, &shortage);
    if (!shortage.place[0]) {
        json_null(json, "shortage");
        return;
    }
    json_open(json, "shortage", '{');
    json_text(json, "place", shortage.place);
    json_integer(json, "used", (int64_t)shortage.used);
    json_integer(json, "limit", (int64_t)shortage.limit);
    json_integer_from(json, "task", 0, shortage.most ? shortage.most->id : -1);
    json_close(json, '}');
}

/* ---- Memory of an ended task whose unmapping takes long ----
 *
 * The reaper's thread that unmaps (space/member.h) waits in munmap: usually for the reader of a
 * userfaultfd that watches the memory, or for a device's driver. */

#define UNMAPPER_NAME "onespace-unmap"

enum { REPORT_FROM_SECONDS = 1 };

struct thread_search {
    int process;
    char place[64]; /* the kernel function that the thread sleeps in; empty: not known */
};

static void note_thread(void *context, int thread, int directory)
{
    struct thread_search *search = context;
    char file[64], name[32];
    (void)directory;
    snprintf(file, sizeof(file), "task/%d/comm", thread);
    (void)file_read_process(search->process, file, name, sizeof(name));
    if (strcmp(name, UNMAPPER_NAME) != 0)
        return;
    snprintf(file, sizeof(file), "task/%d/wchan", thread);
    (void)file_read_process(search->process, file, search->place, sizeof(search->place));
    if (strcmp(search->place, "0") == 0) /* access denied, or the thread runs */
        search->place[0] = 0;
}

struct descriptor_search {
    int process, found;
};

static void note_descriptor(void *context, int fd, int directory)
{
    struct descriptor_search *search = context;
    char path[64], target[64];
    (void)directory;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", search->process, fd);
    ssize_t length = readlink(path, target, sizeof(target) - 1);
    target[length > 0 ? length : 0] = 0;
    search->found |= strcmp(target, "anon_inode:[userfaultfd]") == 0;
}

static int has_userfaultfd(int pid)
{
    struct descriptor_search search = {.process = pid};
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    (void)proc_each_number(path, note_descriptor, &search);
    return search.found;
}

static void find_place(const struct ps_space *space, struct thread_search *search)
{
    char path[32];
    *search = (struct thread_search){.process = space->reaper_pid};
    snprintf(path, sizeof(path), "/proc/%d/task", search->process);
    if (search->process > 0)
        (void)proc_each_number(path, note_thread, search);
}

void unmapping_print(FILE *out, unsigned width, const struct ps_space *space)
{
    char text[PATH_MAX], seconds[OUTPUT_SHORT];
    struct thread_search search;
    if (!space->unmapping || space->unmapping_seconds < REPORT_FROM_SECONDS)
        return;
    find_place(space, &search);
    char owner[32] = "a channel";
    if (space->unmapping > 0)
        snprintf(owner, sizeof(owner), "id %d", space->unmapping);
    int length = snprintf(text, sizeof(text), "memory of %s has been unmapped for %s", owner,
                          output_seconds(seconds, space->unmapping_seconds));
    if (search.place[0])
        length +=
            snprintf(text + length, sizeof(text) - (size_t)length, ", waiting in %s", search.place);
    for (unsigned i = 0; i < space->task_count && length < (int)sizeof(text) / 2; i++) {
        const struct ps_task *task = &space->tasks[i];
        if (task->pid > 0 && has_userfaultfd(task->pid))
            length += snprintf(text + length, sizeof(text) - (size_t)length,
                               "; id %d (pid %d) has a userfaultfd: it must read from it, or end",
                               task->id, task->pid);
    }
    output_wrapped(out, width, 0, 2, output_clean(text));
    fputc('\n', out);
}

void unmapping_json(struct output_json *json, const struct ps_space *space)
{
    struct thread_search search;
    if (!space->unmapping || space->unmapping_seconds < REPORT_FROM_SECONDS) {
        json_null(json, "unmapping");
        return;
    }
    find_place(space, &search);
    json_open(json, "unmapping", '{');
    json_integer_from(json, "task", 1, space->unmapping);
    json_seconds(json, "time", space->unmapping_seconds);
    json_text(json, "waits_in", search.place[0] ? search.place : NULL);
    json_open(json, "watchers", '[');
    for (unsigned i = 0; i < space->task_count; i++)
        if (space->tasks[i].pid > 0 && has_userfaultfd(space->tasks[i].pid))
            json_integer(json, NULL, space->tasks[i].id);
    json_close(json, ']');
    json_close(json, '}');
}
