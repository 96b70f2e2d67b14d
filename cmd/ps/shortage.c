/* cmd/ps/shortage.c: whether memory is short where a space runs, and which of its tasks uses most.
 *
 * The kernel charges what a task touches to the control group of the process that owns the memory:
 * the root, whichever group the task is in. */
#include <limits.h>
#include <string.h>

#include "cmd/lib/output.h"
#include "cmd/ps/show.h"
#include "host/room/cgroup.h"

enum { SHORT_PERCENT = 90 };

struct shortage {
    char place[PATH_MAX]; /* empty: none */
    uint64_t used, limit;
    const struct ps_task *most; /* NULL: not known */
};

static void consider(struct shortage *shortage, const char *place, uint64_t used, uint64_t limit)
{
    if ((double)used * 100 < (double)limit * SHORT_PERCENT)
        return;
    if (shortage->place[0] &&
        (double)used / (double)limit <= (double)shortage->used / (double)shortage->limit)
        return;
    snprintf(shortage->place, sizeof(shortage->place), "%s", place);
    shortage->used = used;
    shortage->limit = limit;
}

static void consider_group(const char *directory, void *context)
{
    uint64_t limit, used;
    if (cgroup_memory(directory, &used, &limit) == 0 && limit > 0)
        consider(context, directory, used, limit);
}

static void find_shortage(const struct ps_space *space, struct shortage *shortage)
{
    uint64_t total = cgroup_machine("MemTotal"), available = cgroup_machine("MemAvailable");
    *shortage = (struct shortage){0};
    if (space->root_pid > 0)
        cgroup_each(space->root_pid, "memory", consider_group, shortage);
    if (total > available)
        consider(shortage, "this machine", total - available, total);
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
    if (shortage.most)
        json_integer(json, "task", shortage.most->id);
    else
        json_null(json, "task");
    json_close(json, '}');
}
