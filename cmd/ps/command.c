/* cmd/ps/command.c: onespace ps: lists spaces and their tasks, as a table or as JSON. */
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "cmd/lib/commands.h"
#include "cmd/lib/options.h"
#include "cmd/lib/output.h"
#include "cmd/lib/overflows.h"
#include "cmd/ps/channels.h"
#include "cmd/ps/ps.h"

static const char usage[] =
    "usage: onespace ps [--json] [SPACE | PID]\n"
    "\n"
    "Lists the spaces whose processes you may look at, and their tasks; with an argument only the "
    "space\n"
    "of that name, or the one that this process belongs to. The first line of a space is its root, "
    "id 0.\n"
    "\n"
    "      --json   an array of spaces, for programs\n"
    "  -h, --help\n"
    "\n"
    "  NUM     ONESPACE_TASK_ID of the task\n"
    "  STATE   starting, running, executed (runs another program now, outside the space) or "
    "ended,\n"
    "          with the exit status or the signal, until its status is collected\n"
    "  MEMORY  resident memory of the task; a page that two tasks share counts for both\n"
    "  HEAP    the part of it that is the task's program break\n"
    "  COPIED  what process_vm_readv and process_vm_writev copied between tasks in user space\n"
    "\n"
    "Lines follow for each channel (onespace/insitu.h): what its producer has published, and of "
    "each\n"
    "consumer how many complete steps it has not taken, and how many it holds.\n"
    "\n"
    "A line follows for each table of the space that was full when it was needed.\n"
    "\n"
    "Exit status: 0; 1 when the space that was asked for is not there; 2 wrong usage.\n";

/* ---- For people ---- */

static const char *const headers[] = {"ID",  "PID",    "NUM",  "STATE",  "TIME",
                                      "CPU", "MEMORY", "HEAP", "COPIED", "PROGRAM"};
enum { COLUMNS = sizeof(headers) / sizeof(headers[0]), STATE_COLUMN = 3 };

static void state_cell(struct output_table *table, const struct ps_task *task)
{
    if (!task->ended)
        output_cell(table, "%s", task->state);
    else if (WIFSIGNALED(task->status) && sigabbrev_np(WTERMSIG(task->status)))
        output_cell(table, "ended: SIG%s", sigabbrev_np(WTERMSIG(task->status)));
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

void ps_print_title(const struct ps_space *space, unsigned width)
{
    char created[32] = "";
    time_t when = (time_t)space->created;
    struct tm parts;
    const struct passwd *user = getpwuid(space->user);
    unsigned alive = 0;
    for (unsigned i = 0; i < space->task_count; i++)
        alive += space->tasks[i].id != 0 && !space->tasks[i].ended;
    if (space->created >= 0 && localtime_r(&when, &parts))
        strftime(created, sizeof(created), ", since %Y-%m-%d %H:%M:%S", &parts);
    char name[sizeof(space->name)];
    strcpy(name, space->name);
    printf("space %s%sof pid %d, user ", output_clean(name), name[0] ? " " : "", space->root_pid);
    if (user)
        printf("%s", user->pw_name);
    else
        printf("%u", (unsigned)space->user);
    printf(", %u task%s%s\n", alive, alive == 1 ? "" : "s", created);
    if (space->problem[0]) {
        output_wrapped(stdout, width, 0, 2, space->problem);
        putchar('\n');
    }
}

static void print_space(const struct ps_space *space, unsigned width)
{
    struct output_table table = {
        .headers = headers, .columns = COLUMNS, .right_aligned = ~(1u << STATE_COLUMN)};
    ps_print_title(space, width);
    for (unsigned i = 0; i < space->task_count; i++) {
        const struct ps_task *task = &space->tasks[i];
        integer_cell(&table, task->id, 0);
        integer_cell(&table, task->pid, 1);
        integer_cell(&table, task->number, 0);
        state_cell(&table, task);
        seconds_cell(&table, task->seconds);
        seconds_cell(&table, task->cpu_seconds);
        bytes_cell(&table, task->memory.known, task->memory.resident);
        bytes_cell(&table, task->memory.known, task->memory.heap);
        bytes_cell(&table, 1, task->copied_bytes);
        output_cell(&table, "%s", task->program);
    }
    output_table(&table, stdout, width);
    channels_print(stdout, space->channels, space->channel_count);
    overflows_print(stdout, width, "", &space->overflows);
    for (unsigned i = 0; i < space->task_count; i++)
        overflows_print_forgotten(stdout, "  ", space->tasks[i].id, space->tasks[i].pid,
                                  space->tasks[i].out_of_range_lost);
}

/* ---- For programs ---- */

static void integer_or_null(struct output_json *json, const char *key, int value, int least)
{
    if (value < least)
        json_null(json, key);
    else
        json_integer(json, key, value);
}

static void seconds_or_null(struct output_json *json, const char *key, double value)
{
    if (value < 0)
        json_null(json, key);
    else
        json_seconds(json, key, value);
}

static void write_memory(struct output_json *json, const struct ps_memory *memory)
{
    if (!memory->known) {
        json_null(json, "memory");
        return;
    }
    json_open(json, "memory", '{');
    json_integer(json, "resident", (int64_t)memory->resident);
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
    integer_or_null(json, "id", task->id, 0);
    integer_or_null(json, "pid", task->pid, 1);
    integer_or_null(json, "number", task->number, 0);
    json_text(json, "state", task->state);
    integer_or_null(json, "exit_status", exited ? WEXITSTATUS(task->status) : -1, 0);
    integer_or_null(json, "signal", killed ? WTERMSIG(task->status) : -1, 0);
    json_text(json, "program", task->program);
    seconds_or_null(json, "time", task->seconds);
    seconds_or_null(json, "cpu_seconds", task->cpu_seconds);
    write_memory(json, &task->memory);
    json_integer(json, "copies", (int64_t)task->copies);
    json_integer(json, "copied_bytes", (int64_t)task->copied_bytes);
    json_integer(json, "forgotten_mappings", task->out_of_range_lost);
    json_close(json, '}');
}

static void write_space(struct output_json *json, const struct ps_space *space)
{
    json_open(json, NULL, '{');
    integer_or_null(json, "root_pid", space->root_pid, 1);
    integer_or_null(json, "reaper_pid", space->reaper_pid, 1);
    json_text(json, "name", space->name);
    json_integer(json, "uid", space->user);
    seconds_or_null(json, "created", space->created);
    json_text(json, "problem", space->problem[0] ? space->problem : NULL);
    overflows_json(json, &space->overflows);
    channels_json(json, space->channels, space->channel_count);
    json_open(json, "tasks", '[');
    for (unsigned i = 0; i < space->task_count; i++)
        write_task(json, &space->tasks[i]);
    json_close(json, ']');
    json_close(json, '}');
}

/* ---- */

struct report {
    struct output_json *json; /* or NULL */
    unsigned width;
};

static void report_space(struct ps_space *space, void *context)
{
    const struct report *report = context;
    if (space->source_pid)
        ps_memory(space);
    if (report->json)
        write_space(report->json, space);
    else
        print_space(space, report->width);
}

int command_ps(int argc, char **argv)
{
    enum { OPT_JSON = 256 };
    static const struct option options[] = {{"json", no_argument, NULL, OPT_JSON},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct output_json json = {.out = stdout};
    struct report report = {.width = output_width(stdout)};
    argv[0] = "onespace ps";
    for (int option; (option = options_next(argc, argv, "h", options)) != -1;) {
        if (option == 'h') {
            fputs(usage, stdout);
            return 0;
        }
        if (option != OPT_JSON) {
            fprintf(stderr, "Try `onespace ps --help`.\n");
            return 2;
        }
        report.json = &json;
    }
    if (argc - optind > 1) {
        fprintf(stderr, "onespace ps: one space or process at most. Try `onespace ps --help`.\n");
        return 2;
    }
    const char *wanted = argv[optind];
    if (report.json)
        json_open(&json, NULL, '[');
    int count = ps_each(wanted, report_space, &report);
    if (report.json)
        json_close(&json, ']');
    if (count < 0 || (count == 0 && wanted)) {
        ps_explain("onespace ps", wanted, count);
        return 1;
    }
    if (count == 0 && !report.json)
        printf("no spaces\n");
    return 0;
}
