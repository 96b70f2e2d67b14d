/* cmd/ps/unmapping.c: memory of an ended task whose unmapping takes long, and what it waits for.
 *
 * The reaper's thread that unmaps (space/member.h) waits where munmap does: usually for the
 * reader of a userfaultfd that watches the memory, or for a device's driver. */
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/proc.h"
#include "cmd/lib/output.h"
#include "cmd/ps/show.h"

#define UNMAPPER_NAME "onespace-unmap"

enum { LONG_SECONDS = 1 };

static void read_word(const char *path, char *word, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, word, size - 1);
    if (fd >= 0)
        close(fd);
    word[length > 0 ? length : 0] = 0;
    word[strcspn(word, "\n")] = 0;
}

struct thread_search {
    int process;
    char place[64]; /* the kernel function that the thread sleeps in; empty: not known */
};

static void note_thread(void *context, int thread, int directory)
{
    struct thread_search *search = context;
    char path[96], name[32];
    (void)directory;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", search->process, thread);
    read_word(path, name, sizeof(name));
    if (strcmp(name, UNMAPPER_NAME) != 0)
        return;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/wchan", search->process, thread);
    read_word(path, search->place, sizeof(search->place));
    if (strcmp(search->place, "0") == 0) /* not allowed to know, or it runs */
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
    if (!space->unmapping || space->unmapping_seconds < LONG_SECONDS)
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
    if (!space->unmapping || space->unmapping_seconds < LONG_SECONDS) {
        json_null(json, "unmapping");
        return;
    }
    find_place(space, &search);
    json_open(json, "unmapping", '{');
    if (space->unmapping > 0)
        json_integer(json, "task", space->unmapping);
    else
        json_null(json, "task");
    json_seconds(json, "time", space->unmapping_seconds);
    json_text(json, "waits_in", search.place[0] ? search.place : NULL);
    json_open(json, "watchers", '[');
    for (unsigned i = 0; i < space->task_count; i++)
        if (space->tasks[i].pid > 0 && has_userfaultfd(space->tasks[i].pid))
            json_integer(json, NULL, space->tasks[i].id);
    json_close(json, ']');
    json_close(json, '}');
}
