/* cmd/ps/table.c: spaces and their tasks, as tables for people and as JSON for programs: a line for
 * each task, or for each group of tasks. */
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "cmd/lib/output.h"
#include "cmd/lib/overflows.h"
#include "cmd/ps/ps.h"

/* ---- Order ---- */

uint64_t show_used(const struct ps_task *task)
{
    return task->memory.private + task->memory.swapped;
}

static int descending(double left, double right)
{
    return left < right ? 1 : left > right ? -1 : 0;
}

/* The root is the row that all tables begin with. */
static int compare_roots(const struct ps_task *a, const struct ps_task *b)
{
    return (b->id == 0) - (a->id == 0);
}

static int compare_tasks(const void *left, const void *right)
{
    const struct ps_task *a = left, *b = right;
    int result = compare_roots(a, b);
    if (result == 0)
        result = descending(a->weight, b->weight);
    if (result == 0)
        result = descending((double)a->memory.resident, (double)b->memory.resident);
    return result ? result : (a->slot > b->slot) - (a->slot < b->slot);
}

void show_sort(struct ps_space *space, enum show_order order)
{
    for (unsigned i = 0; i < space->task_count; i++) {
        struct ps_task *task = &space->tasks[i];
        task->weight = order == SHOW_BY_MEMORY ? (double)show_used(task) : task->cpu_seconds;
    }
    if (order != SHOW_BY_ID && space->task_count)
        qsort(space->tasks, space->task_count, sizeof(*space->tasks), compare_tasks);
}

/* ---- Groups ---- */

/* Tasks with one program and one state. */
struct show_group {
    const struct ps_task *first;   /* of the group */
    const struct ps_task *largest; /* the one with the most memory; NULL: not known */
    unsigned count;
    double weight;               /* by which groups are sorted */
    double seconds, cpu_seconds; /* the longest; the sum; -1: not known */
    struct ps_memory memory;     /* sums */
    uint64_t copied_bytes;
};

static int belongs(const struct show_group *group, const struct ps_task *task)
{
    const struct ps_task *first = group->first;
    return (first->id == 0) == (task->id == 0) && strcmp(first->state, task->state) == 0 &&
           first->ended == task->ended && (!task->ended || first->status == task->status) &&
           strcmp(first->program, task->program) == 0;
}

static void add_memory(struct ps_memory *to, const struct ps_memory *memory)
{
    to->known |= memory->known;
    to->resident += memory->resident;
    to->private += memory->private;
    to->proportional += memory->proportional;
    to->swapped += memory->swapped;
    to->heap += memory->heap;
}

static void add_task(struct show_group *group, const struct ps_task *task)
{
    group->count++;
    group->seconds = task->seconds > group->seconds ? task->seconds : group->seconds;
    if (task->cpu_seconds >= 0)
        group->cpu_seconds = task->cpu_seconds + (group->cpu_seconds > 0 ? group->cpu_seconds : 0);
    group->copied_bytes += task->copied_bytes;
    add_memory(&group->memory, &task->memory);
    if (task->memory.known && (!group->largest || show_used(task) > show_used(group->largest)))
        group->largest = task;
}

static int compare_groups(const void *left, const void *right)
{
    const struct show_group *a = left, *b = right;
    int result = compare_roots(a->first, b->first);
    if (result == 0)
        result = descending(a->weight, b->weight);
    return result ? result : (a->first->slot > b->first->slot) - (a->first->slot < b->first->slot);
}

/* The groups, the root's first; NULL: out of memory. The caller frees them. */
static struct show_group *find_groups(const struct ps_space *space, enum show_order order,
                                      unsigned *count)
{
    struct show_group *groups = calloc(space->task_count + 1, sizeof(*groups));
    *count = 0;
    for (unsigned i = 0; groups && i < space->task_count; i++) {
        const struct ps_task *task = &space->tasks[i];
        unsigned at = 0;
        while (at < *count && !belongs(&groups[at], task))
            at++;
        if (at == *count)
            groups[(*count)++] =
                (struct show_group){.first = task, .seconds = -1, .cpu_seconds = -1};
        add_task(&groups[at], task);
    }
    for (unsigned i = 0; i < *count; i++)
        groups[i].weight = order == SHOW_BY_MEMORY
                               ? (double)(groups[i].memory.private + groups[i].memory.swapped)
                           : order == SHOW_BY_TIME ? groups[i].cpu_seconds
                                                   : groups[i].count;
    if (groups)
        qsort(groups, *count, sizeof(*groups), compare_groups);
    return groups;
}

/* ---- Tables ---- */

/* More members are summed up, unless all are asked for; lines of a summary. */
enum { TASKS_MAX = 20, GROUP_ROWS_MAX = 12, TASK_ROWS_MAX = 8 };

/* Without SIG, or NULL: as sigabbrev_np, which glibc has since 2.32. */
static const char *signal_name(int signal)
{
    static const char *const names[] = {
        [SIGHUP] = "HUP",   [SIGINT] = "INT",   [SIGQUIT] = "QUIT",     [SIGILL] = "ILL",
        [SIGTRAP] = "TRAP", [SIGABRT] = "ABRT", [SIGBUS] = "BUS",       [SIGFPE] = "FPE",
        [SIGKILL] = "KILL", [SIGUSR1] = "USR1", [SIGSEGV] = "SEGV",     [SIGUSR2] = "USR2",
        [SIGPIPE] = "PIPE", [SIGALRM] = "ALRM", [SIGTERM] = "TERM",     [SIGSTKFLT] = "STKFLT",
        [SIGXCPU] = "XCPU", [SIGXFSZ] = "XFSZ", [SIGVTALRM] = "VTALRM", [SIGPROF] = "PROF",
        [SIGPOLL] = "POLL", [SIGPWR] = "PWR",   [SIGSYS] = "SYS",
    };
    return signal >= 0 && signal < (int)(sizeof(names) / sizeof(names[0])) ? names[signal] : NULL;
}

static void state_cell(struct output_table *table, const struct ps_task *task)
{
    if (!task->ended)
        output_cell(table, "%s", task->state);
    else if (WIFSIGNALED(task->status) && signal_name(WTERMSIG(task->status)))
        output_cell(table, "ended: SIG%s", signal_name(WTERMSIG(task->status)));
    else if (WIFSIGNALED(task->status))
        output_cell(table, "ended: signal %d", WTERMSIG(task->status));
    else
        output_cell(table, "ended: %d", WEXITSTATUS(task->status));
}

static void integer_cell(struct output_table *table, int value, int least)
{
    if (value < least)
        output_cell(table, "-");
    else
        output_cell(table, "%d", value);
}

static void seconds_cell(struct output_table *table, double seconds)
{
    char text[OUTPUT_SHORT];
    output_cell(table, "%s", seconds < 0 ? "-" : output_seconds(text, seconds));
}

void ps_print_title(FILE *out, const struct ps_space *space, unsigned width)
{
    char created[32] = "";
    time_t when = (time_t)space->created;
    struct tm parts;
    const struct passwd *user = getpwuid(space->key.user);
    unsigned alive = 0;
    for (unsigned i = 0; i < space->task_count; i++)
        alive += space->tasks[i].id != 0 && !space->tasks[i].ended;
    if (space->created >= 0 && localtime_r(&when, &parts))
        strftime(created, sizeof(created), ", since %Y-%m-%d %H:%M:%S", &parts);
    char name[sizeof(space->name)];
    strcpy(name, space->name);
    fprintf(out, "space %s%sof pid %d, user ", output_clean(name), name[0] ? " " : "",
            space->root_pid);
    if (user)
        fprintf(out, "%s", user->pw_name);
    else
        fprintf(out, "%u", (unsigned)space->key.user);
    fprintf(out, ", %u task%s%s\n", alive, alive == 1 ? "" : "s", created);
    if (space->problem[0]) {
        output_wrapped(out, width, 0, 2, space->problem);
        fputc('\n', out);
    }
}

/* ---- A line for each task ---- */

static void task_cells(struct output_table *table, const struct ps_task *task)
{
    integer_cell(table, task->id, 0);
    integer_cell(table, task->pid, 1);
    integer_cell(table, task->number, 0);
    state_cell(table, task);
    seconds_cell(table, task->seconds);
    seconds_cell(table, task->cpu_seconds);
    output_cell_bytes(table, task->memory.known, task->memory.resident);
    output_cell_bytes(table, task->memory.known, task->memory.private);
    output_cell_bytes(table, task->memory.known, task->memory.heap);
    output_cell_bytes(table, 1, task->copied_bytes);
    output_cell(table, "%s", task->program);
}

static void print_tasks(FILE *out, unsigned width, const struct ps_task *tasks, unsigned count)
{
    static const char *const headers[] = {"ID",     "PID",     "NUM",  "STATE",  "TIME",   "CPU",
                                          "MEMORY", "PRIVATE", "HEAP", "COPIED", "PROGRAM"};
    struct output_table table = {
        .headers = headers, .columns = 11, .right_aligned = ~(1u << 3)}; /* STATE */
    for (unsigned i = 0; i < count; i++)
        task_cells(&table, &tasks[i]);
    output_table(&table, out, width);
}

/* ---- A line for each group ---- */

static void group_cells(struct output_table *table, const struct show_group *group)
{
    char used[OUTPUT_SHORT];
    if (group->first->id == 0)
        output_cell(table, "root");
    else
        output_cell(table, "%u", group->count);
    state_cell(table, group->first);
    seconds_cell(table, group->seconds);
    seconds_cell(table, group->cpu_seconds);
    output_cell_bytes(table, group->memory.known, group->memory.resident);
    output_cell_bytes(table, group->memory.known, group->memory.private);
    output_cell_bytes(table, 1, group->copied_bytes);
    if (group->largest && group->count > 1 && group->largest->id > 0)
        output_cell(table, "%s (id %d)", output_bytes(used, show_used(group->largest)),
                    group->largest->id);
    else
        output_cell(table, "-");
    output_cell(table, "%s", group->first->program);
}

static unsigned print_groups(FILE *out, unsigned width, const struct show_group *groups,
                             unsigned count)
{
    static const char *const headers[] = {"TASKS",   "STATE",  "TIME",    "CPU",    "MEMORY",
                                          "PRIVATE", "COPIED", "LARGEST", "PROGRAM"};
    struct output_table table = {
        .headers = headers, .columns = 9, .right_aligned = ~(1u << 1)}; /* STATE */
    unsigned shown = 0, at = 0;
    for (; at < count && at < GROUP_ROWS_MAX; at++) {
        group_cells(&table, &groups[at]);
        shown += groups[at].count;
    }
    output_table(&table, out, width);
    return shown;
}

/* The first of them: the root's line is in the summary. */
static void print_first(FILE *out, unsigned width, const struct ps_space *space,
                        enum show_order order)
{
    unsigned from = space->task_count && space->tasks[0].id == 0;
    unsigned count = space->task_count - from;
    if (order == SHOW_BY_ID)
        return;
    count = count < TASK_ROWS_MAX ? count : TASK_ROWS_MAX;
    fprintf(out, "the %u with the most %s:\n", count,
            order == SHOW_BY_MEMORY ? "memory" : "CPU time");
    print_tasks(out, width, space->tasks + from, count);
}

static void print_summary(FILE *out, unsigned width, const struct ps_space *space,
                          enum show_order order)
{
    unsigned count;
    struct show_group *groups = find_groups(space, order, &count);
    if (!groups) {
        print_tasks(out, width, space->tasks, space->task_count);
        return;
    }
    unsigned shown = print_groups(out, width, groups, count);
    free(groups);
    if (shown < space->task_count)
        fprintf(out, "and %u more: `onespace ps --all` lists each task\n",
                space->task_count - shown);
    print_first(out, width, space, order);
}

/* ---- A space ---- */

static void print_forgotten(FILE *out, const struct ps_space *space)
{
    for (unsigned i = 0; i < space->task_count; i++)
        overflows_print_forgotten(out, "  ", space->tasks[i].id, space->tasks[i].pid,
                                  space->tasks[i].out_of_range_lost);
}

void show_table(FILE *out, unsigned width, const struct ps_space *space, enum show_order order,
                int all)
{
    int is_summary = !all && space->task_count > TASKS_MAX;
    ps_print_title(out, space, width);
    if (is_summary)
        print_summary(out, width, space, order);
    else
        print_tasks(out, width, space->tasks, space->task_count);
    shortage_print(out, width, space);
    unmapping_print(out, width, space);
    channels_print(out, space->channels, space->channel_count);
    overflows_print(out, width, "", &space->overflows);
    if (!is_summary)
        print_forgotten(out, space);
}

/* ---- JSON ---- */

static void write_memory(struct output_json *json, const struct ps_memory *memory)
{
    if (!memory->known) {
        json_null(json, "memory");
        return;
    }
    json_open(json, "memory", '{');
    json_integer(json, "resident", (int64_t)memory->resident);
    json_integer(json, "private", (int64_t)memory->private);
    json_integer(json, "proportional", (int64_t)memory->proportional);
    json_integer(json, "swapped", (int64_t)memory->swapped);
    json_integer(json, "files", (int64_t)memory->files);
    json_integer(json, "mappings", (int64_t)memory->mappings);
    json_integer(json, "heap", (int64_t)memory->heap);
    json_integer(json, "stack", (int64_t)memory->stack);
    json_close(json, '}');
}

static void write_task(struct output_json *json, const struct ps_task *task)
{
    int exited = task->ended && WIFEXITED(task->status);
    int killed = task->ended && WIFSIGNALED(task->status);
    json_open(json, NULL, '{');
    json_integer_from(json, "id", 0, task->id);
    json_integer_from(json, "pid", 1, task->pid);
    json_integer_from(json, "number", 0, task->number);
    json_text(json, "state", task->state);
    json_integer_from(json, "exit_status", 0, exited ? WEXITSTATUS(task->status) : -1);
    json_integer_from(json, "signal", 0, killed ? WTERMSIG(task->status) : -1);
    json_text(json, "program", task->program);
    json_seconds(json, "time", task->seconds);
    json_seconds(json, "cpu_seconds", task->cpu_seconds);
    write_memory(json, &task->memory);
    json_integer(json, "copies", (int64_t)task->copies);
    json_integer(json, "copied_bytes", (int64_t)task->copied_bytes);
    json_integer(json, "forgotten_mappings", task->out_of_range_lost);
    json_close(json, '}');
}

void show_json(struct output_json *json, const struct ps_space *space)
{
    json_open(json, NULL, '{');
    json_integer_from(json, "root_pid", 1, space->root_pid);
    json_integer_from(json, "reaper_pid", 1, space->reaper_pid);
    json_text(json, "name", space->name);
    json_integer(json, "uid", space->key.user);
    json_seconds(json, "created", space->created);
    json_text(json, "problem", space->problem[0] ? space->problem : NULL);
    shortage_json(json, space);
    unmapping_json(json, space);
    overflows_json(json, &space->overflows);
    channels_json(json, space->channels, space->channel_count);
    json_open(json, "tasks", '[');
    for (unsigned i = 0; i < space->task_count; i++)
        write_task(json, &space->tasks[i]);
    json_close(json, ']');
    json_close(json, '}');
}
