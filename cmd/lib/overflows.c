/* cmd/lib/overflows.c: see overflows.h. */
#include "cmd/lib/overflows.h"

#include <stddef.h>

static const struct {
    const char *key;
    size_t field;
    const char *consequence; /* of %u of them */
} kinds[] = {
    {"patch_sites", offsetof(struct space_overflows, patch_sites),
     "%u patch sites are not interposed, because a file or a task has more than its table holds: "
     "memory mapped by them is not returned before the space ends"},
    {"files", offsetof(struct space_overflows, files),
     "%u times a file was searched for system calls again, because the table of files is full: "
     "tasks of these files start more slowly"},
    {"cpuids", offsetof(struct space_overflows, cpuids),
     "%u cpuid instructions were not answered from the table, which is full: "
     "tasks start more slowly"},
    {"mappings", offsetof(struct space_overflows, mappings),
     "%u mappings outside the range of their task were not remembered, because its table is full: "
     "they stay when it ends"},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static uint32_t count_of(const struct space_overflows *overflows, unsigned kind)
{
    const char *field = (const char *)overflows + kinds[kind].field;
    return atomic_load_explicit((const _Atomic uint32_t *)field, memory_order_relaxed);
}

unsigned overflows_print(FILE *out, unsigned width, const char *prefix,
                         const struct space_overflows *overflows)
{
    unsigned lines = 0;
    for (unsigned kind = 0; kind < KINDS; kind++) {
        char text[512];
        uint32_t count = count_of(overflows, kind);
        if (count == 0)
            continue;
        int used = snprintf(text, sizeof(text), "%s", prefix);
        /* The format is one of the above. */
        snprintf(text + used, sizeof(text) - (size_t)used, kinds[kind].consequence, count);
        output_wrapped(out, width, 0, 2, text);
        putc('\n', out);
        lines++;
    }
    return lines;
}

void overflows_print_forgotten(FILE *out, const char *prefix, int id, int pid, unsigned count)
{
    if (count)
        fprintf(out, "%sof these, %u mapping%s by id %d (pid %d)\n", prefix, count,
                count == 1 ? " was made" : "s were made", id, pid);
}

void overflows_json(struct output_json *json, const struct space_overflows *overflows)
{
    json_open(json, "overflows", '{');
    for (unsigned kind = 0; kind < KINDS; kind++)
        json_integer(json, kinds[kind].key, count_of(overflows, kind));
    json_close(json, '}');
}
