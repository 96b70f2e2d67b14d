/* src/interpose/exec.c: the task as a program: its /proc/self/exe, and executing another one. */
#include "interpose/interpose.h"

#include <errno.h>

#include "arch/constants.h"
#include "arch/copy.h"
#include "base/delay.h"
#include "base/futex.h"
#include "base/text.h"
#include "interpose/calls.h"
#include "interpose/pointers.h"
#include "space/child.h"

const char *interpose_program(const struct space_slot *self)
{
    return ((const struct child *)self->child_record)->program;
}

/* Copies a text of the program's that the kernel has not read: `most` - 1 bytes, or what there is
 * up to the end of its page if the text ends there. 0, or -1 if it cannot be read. */
static int fetch(char *text, const char *from, size_t most)
{
    size_t size = ARCH_PAGE - (uintptr_t)from % ARCH_PAGE;
    size = size < most - 1 ? size : most - 1;
    if (interpose_copy_from_user(text, from, size) != 0)
        return -1;
    text[size] = text[most - 1] = 0;
    if (text_length(text) < size || size == most - 1)
        return 0;
    return interpose_copy_from_user(text + size, from + size, most - 1 - size);
}

/* The same of a path that the kernel has just read, without a system call: up to its end, or to
 * where it turns out not to begin with /proc/. */
static int fetch_known(char text[PATH_PREFIX_MAX], const char *path)
{
    for (unsigned at = 0; at < PATH_PREFIX_MAX; at++) {
        if (arch_guarded_copy(text + at, path + at, 1) != 0)
            return -1;
        if (text[at] == 0 || (at < 6 && text[at] != "/proc/"[at])) {
            text[at] = 0;
            return 0;
        }
    }
    text[PATH_PREFIX_MAX - 1] = 0;
    return 0;
}

/* FILE of a path that is /proc/self/FILE, /proc/thread-self/FILE or /proc/PID/FILE of this process,
 * or of one of its threads below /task/TID, or NULL. */
static const char *own_file(const char *path)
{
    const char *rest = text_skip_prefix(path, "/proc/");
    if (!rest)
        return NULL;
    uint64_t pid;
    const char *after = text_read_number(rest, &pid);
    if (after != rest && pid != (uint64_t)raw(__NR_getpid))
        return NULL;
    if (after == rest && !(after = text_skip_prefix(rest, "self")) &&
        !(after = text_skip_prefix(rest, "thread-self")))
        return NULL;
    const char *thread = text_skip_prefix(after, "/task/");
    if (thread && (after = text_read_number(thread, &pid)) == thread)
        return NULL;
    return *after == '/' ? after + 1 : NULL;
}

const char *interpose_own_file(const char *path, char text[PATH_PREFIX_MAX])
{
    return path && fetch_known(text, path) == 0 ? own_file(text) : NULL;
}

/* Whether execve is asked for this process's executable, which for the kernel is the root's. */
static int executes_itself(const char *path)
{
    char text[PATH_PREFIX_MAX];
    const char *file = path && fetch(text, path, sizeof(text)) == 0 ? own_file(text) : NULL;
    return file && text_equal(file, "exe");
}

long interpose_readlink(struct space_slot *self, long nr, const long a[6])
{
    const long *link = interpose_path(nr, a); /* path, buffer, size */
    long result = raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
    char text[PATH_PREFIX_MAX];
    const char *file = result < 0 ? NULL : interpose_own_file((const char *)link[0], text);
    if (!file || !text_equal(file, "exe"))
        return result;
    const char *program = interpose_program(self);
    size_t length = text_length(program), size = (size_t)(int)link[2];
    length = length < size ? length : size;
    return interpose_copy_to_user((char *)link[1], program, length) == 0 ? (long)length : -EFAULT;
}

/* Notes that the task leaves, and for which program, unless another has left before: whether it
 * did. A path that cannot be read is left to execve. */
static int note_departure(struct space *space, const struct space_slot *self, const char *path)
{
    struct space_departure *departure = &space->departure;
    uint32_t expected = FILE_EMPTY;
    if (!atomic_compare_exchange_strong(&departure->state, &expected, FILE_FILLING))
        return 0;
    if (fetch(departure->path, path, SPACE_PROGRAM_MAX) != 0)
        departure->path[0] = 0;
    departure->id = atomic_load(&self->id);
    atomic_store_explicit(&departure->state, FILE_READY, memory_order_release);
    return 1;
}

long interpose_execve(struct space_slot *self, long nr, const long a[6])
{
    long b[6] = {a[0], a[1], a[2], a[3], a[4], a[5]};
    long *path = nr == __NR_execve ? &b[0] : &b[1];
    struct space *space = space_registry();
    int leaves = interpose_is_task(self); /* not a forked or vforked child */
    if (leaves && space_is_thread(self))
        return -EPERM; /* it would end all other threads of the process */
    if (executes_itself((const char *)*path))
        *path = (long)interpose_program(self);
    int noted = leaves && note_departure(space, self, (const char *)*path);
    if (leaves) {
        /* Counted: another thread's execve may fail while this one succeeds. Release, pairs with
         * the reaper's acquire load of `departures`: it sees `leaving`, too. */
        atomic_fetch_add_explicit(&self->leaving, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&space->departures, 1, memory_order_release);
        futex_bump(&space->events);
    }
    DELAY("exec.enter");
    long result = raw_syscall6(nr, b[0], b[1], b[2], b[3], b[4], b[5]);
    if (noted)
        atomic_store_explicit(&space->departure.state, FILE_EMPTY, memory_order_release);
    if (leaves)
        atomic_fetch_sub_explicit(&self->leaving, 1, memory_order_release);
    return result;
}
