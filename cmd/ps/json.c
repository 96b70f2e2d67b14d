/* cmd/ps/json.c: spaces and their tasks for programs. */
#include <sys/wait.h>

#include "cmd/lib/output.h"
#include "cmd/lib/overflows.h"
#include "cmd/ps/channels.h"
#include "cmd/ps/ps.h"
#include "cmd/ps/show.h"

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

void show_json(struct output_json *json, const struct ps_space *space)
{
    json_open(json, NULL, '{');
    integer_or_null(json, "root_pid", space->root_pid, 1);
    integer_or_null(json, "reaper_pid", space->reaper_pid, 1);
    json_text(json, "name", space->name);
    json_integer(json, "uid", space->key.user);
    seconds_or_null(json, "created", space->created);
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
