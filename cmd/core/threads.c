/* cmd/core/threads.c: stops the threads of one task and reads their registers.
 *
 * PTRACE_SEIZE and PTRACE_INTERRUPT send no signal: the task's parent sees nothing, and a blocking
 * system call continues afterwards, like after SIGSTOP and SIGCONT. If this command is killed, the
 * kernel lets the threads continue.
 *
 * In thread mode several tasks are threads of one process. A thread's task is the one in whose
 * range its thread pointer lies; the other threads continue at once. */
#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "base/proc.h"
#include "cmd/core/core.h"
#include "cmd/lib/array.h"
#include "onespace.h"

enum { STOP_TIMEOUT_MS = 5000 };

/* Waits until the thread has stopped. Returns the signal that stopped it, 0 for the interruption,
 * or -errno. */
static int wait_for_stop(int thread)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    int status;
    for (int waited = 0; waited < STOP_TIMEOUT_MS; waited++) {
        int result = waitpid(thread, &status, __WALL | WNOHANG);
        if (result < 0 || (result > 0 && !WIFSTOPPED(status)))
            return -ESRCH;
        if (result > 0)
            return status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
        nanosleep(&pause, NULL);
    }
    return -ETIMEDOUT;
}

static int read_set(int thread, int type, void *to, size_t capacity, size_t *size)
{
    struct iovec place = {to, capacity};
    if (ptrace(PTRACE_GETREGSET, thread, (void *)(intptr_t)type, &place) != 0)
        return -errno;
    *size = place.iov_len;
    return 0;
}

static int read_registers(struct core_thread *thread)
{
    size_t size;
    int result =
        read_set(thread->id, NT_PRSTATUS, &thread->registers, sizeof(thread->registers), &size);
    if (result == 0)
        result = read_set(thread->id, NT_PRFPREG, &thread->float_registers,
                          sizeof(thread->float_registers), &size);
    if (result != 0)
        return result;
    thread->extended = malloc(CORE_EXTENDED_MAX);
    if (!thread->extended)
        return -ENOMEM;
    if (read_set(thread->id, ARCH_MORE_REGISTERS, thread->extended, CORE_EXTENDED_MAX,
                 &thread->extended_size) != 0)
        thread->extended_size = 0;
    return 0;
}

static int detach(const struct core_thread *thread)
{
    return ptrace(PTRACE_DETACH, thread->id, NULL, (void *)(intptr_t)thread->signal) == 0 ? 0
                                                                                          : -errno;
}

/* The range that the thread runs in; 0 is the root. */
static unsigned slot_of(const struct core_thread *thread)
{
    unsigned slot = layout_slot_of(arch_own_address_of(&thread->registers));
    return slot == LAYOUT_SLOTS ? 0 : slot;
}

static struct core_thread *append(struct core_threads *threads)
{
    struct core_thread *more =
        array_grow(threads->all, &threads->capacity, threads->count + 1, sizeof(*more));
    if (!more)
        return NULL;
    threads->all = more;
    more[threads->count] = (struct core_thread){0};
    return &more[threads->count];
}

/* 1: stopped; 0: not the task's, or it has ended; -errno. */
static int stop_thread(const struct ps_task *task, int id, struct core_threads *threads)
{
    struct core_thread *thread = append(threads);
    if (!thread)
        return -ENOMEM;
    if (ptrace(PTRACE_SEIZE, id, NULL, NULL) != 0) {
        int error = errno; /* EPERM: a main thread that has ended before the others is a zombie */
        return error == ESRCH || (error == EPERM && proc_has_ended(id)) ? 0 : -error;
    }
    ptrace(PTRACE_INTERRUPT, id, NULL, NULL);
    thread->id = id;
    int result = wait_for_stop(id);
    if (result >= 0) {
        thread->signal = result;
        result = read_registers(thread);
    }
    int shares_process = task->id == 0 || (task->flags & ONESPACE_SPAWN_THREAD);
    if (result == 0 && shares_process && slot_of(thread) != task->slot)
        detach(thread);
    else if (result == 0) {
        threads->count++;
        return 1;
    }
    free(thread->extended);
    return result == -ESRCH ? 0 : result;
}

static int is_known(const struct core_threads *threads, const int *others, unsigned count, int id)
{
    for (unsigned i = 0; i < threads->count; i++)
        if (threads->all[i].id == id)
            return 1;
    for (unsigned i = 0; i < count; i++)
        if (others[i] == id)
            return 1;
    return 0;
}

/* Stops the threads that are not known yet. Returns their number, or -errno. `others`: threads that
 * were examined and not stopped. */
static int stop_new(const struct ps_task *task, struct core_threads *threads, int **others,
                    unsigned *count, int *stuck)
{
    char path[64];
    int found = 0, result = 0;
    snprintf(path, sizeof(path), "/proc/%d/task", task->pid);
    DIR *directory = opendir(path);
    if (!directory)
        return -ESRCH;
    for (struct dirent *entry; result >= 0 && (entry = readdir(directory));) {
        int id = atoi(entry->d_name);
        if (!isdigit((unsigned char)entry->d_name[0]) || is_known(threads, *others, *count, id))
            continue;
        found++;
        *stuck = id;
        result = stop_thread(task, id, threads);
        int *more = result == 0 ? realloc(*others, (*count + 1) * sizeof(**others)) : *others;
        if (!more && result == 0)
            result = -ENOMEM;
        else if (result == 0) {
            *others = more;
            more[(*count)++] = id;
        }
    }
    closedir(directory);
    return result < 0 ? result : found;
}

/* A thread that is not stopped yet may start another one, so repeat until a pass finds none. */
int core_stop(const struct ps_task *task, struct core_threads *threads, int *stuck)
{
    unsigned count = 0;
    int *others = NULL, result;
    *threads = (struct core_threads){0};
    do
        result = stop_new(task, threads, &others, &count, stuck);
    while (result > 0);
    free(others);
    for (unsigned i = 1; i < threads->count; i++)
        if (threads->all[i].id == task->pid) {
            struct core_thread first = threads->all[i];
            threads->all[i] = threads->all[0];
            threads->all[0] = first;
        }
    if (result == 0 && threads->count == 0)
        result = -ESRCH;
    if (result < 0)
        core_release(threads);
    return result;
}

int core_release(struct core_threads *threads)
{
    int result = 0;
    for (unsigned i = 0; i < threads->count; i++) {
        if (detach(&threads->all[i]) != 0)
            result = -ESRCH;
        free(threads->all[i].extended);
    }
    free(threads->all);
    *threads = (struct core_threads){0};
    return result;
}
