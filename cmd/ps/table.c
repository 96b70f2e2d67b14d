/* cmd/ps/table.c: spaces and their tasks for people: a line for each task, or for each group of
 * tasks. */
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "cmd/lib/output.h"
#include "cmd/lib/overflows.h"
#include "cmd/ps/channels.h"
#include "cmd/ps/ps.h"
#include "cmd/ps/show.h"

enum { GROUPS_MOST = 12, TASKS_MOST = 8 }; /* lines of a summary */

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

static void bytes_cell(struct output_table *table, int known, uint64_t bytes)
{
    char text[OUTPUT_SHORT];
    output_cell(table, "%s", known ? output_bytes(text, bytes) : "-");
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
    bytes_cell(table, task->memory.known, task->memory.resident);
    bytes_cell(table, task->memory.known, task->memory.private);
    bytes_cell(table, task->memory.known, task->memory.heap);
    bytes_cell(table, 1, task->copied_bytes);
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
    bytes_cell(table, group->memory.known, group->memory.resident);
    bytes_cell(table, group->memory.known, group->memory.private);
    bytes_cell(table, 1, group->copied_bytes);
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
    for (; at < count && at < GROUPS_MOST; at++) {
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
    count = count < TASKS_MOST ? count : TASKS_MOST;
    fprintf(out, "the %u with the most %s:\n", count,
            order == SHOW_BY_MEMORY ? "memory" : "CPU time");
    print_tasks(out, width, space->tasks + from, count);
}

static void print_summary(FILE *out, unsigned width, const struct ps_space *space,
                          enum show_order order)
{
    unsigned count;
    struct show_group *groups = show_groups(space, order, &count);
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
    int is_summary = !all && space->task_count > SHOW_MANY;
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
