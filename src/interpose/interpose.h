/* src/interpose/interpose.h: a task's own view of what the kernel keeps once per address space.
 *
 * The system call instructions of a task's ld.so, libc and program that the table names (calls.h)
 * become jumps to trampolines, which call interpose_dispatch. So each task has its own program
 * break, all of its memory lies in its own range, and copies between members need no system call.
 *
 * Freestanding: it runs on tasks' threads, also before their libc is ready, and in signal handlers;
 * it never allocates and takes no lock that another task could hold.
 *
 * In a forked child (no mark) the memory calls still work, on the child's own copy of the slot. In
 * a vforked child (mark, but another pid) nothing is recorded: the records are its parent's. */
#ifndef ONESPACE_INTERPOSE_INTERPOSE_H
#define ONESPACE_INTERPOSE_INTERPOSE_H

#include "base/raw.h"
#include "space/registry.h"

struct arch_patched_syscall;
struct arch_trampoline_data;

/* Called by trampolines in place of the system call at a patch site: its result or -errno. */
long interpose_dispatch(const struct arch_patched_syscall *call, const long arguments[6]);
/* The same by number, for the agent's syscall(). Calls that are not in the table go to the kernel.
 */
long interpose_call(struct space_slot *self, long nr, const long arguments[6]);
/* The same as if the task were not guarded. */
long interpose_plain_call(struct space_slot *self, long nr, const long arguments[6]);

/* Prepares a claimed slot's state. */
void interpose_init_slot(struct space *space, struct space_slot *slot);
/* The same, and maps its data page and trampolines: 0 or -errno. */
long interpose_map_trampolines(struct space *space, struct space_slot *slot);
/* Fills the data page of a task. By the root only: the page points to the caller's library. */
void interpose_init_data(struct arch_trampoline_data *data, struct space_slot *slot);

/* The real path of the program of a task. */
const char *interpose_program(const struct space_slot *self);

/* The task's auxiliary vector: its size in bytes with the entry that ends it, or 0 if it cannot be
 * read. */
size_t interpose_auxv(const struct space_slot *self, const void **vector);

/* Of /proc/self/maps, smaps, smaps_rollup and numa_maps, which `from` is, what the task alone has:
 * a descriptor of a file in memory, or negative: `from` is to be used. */
long interpose_own_maps(const struct space_slot *self, long from, const char *file);

/* Where the arguments of a call on a file begin with its path: the second of those with a
 * directory.
 */
static inline const long *interpose_path(long nr, const long a[6])
{
#ifdef __NR_open
    if (nr == __NR_open || nr == __NR_readlink)
        return a;
#endif
    (void)nr;
    return a + 1;
}

/* Longest path prefix examined: /proc/thread-self/cmdline and the like are shorter. */
enum { PATH_PREFIX_MAX = 40 };

/* FILE, in `text`, of a path that the kernel has just read and that is /proc/self/FILE,
 * /proc/thread-self/FILE, /proc/PID/FILE of the calling process or /task/TID/FILE below these, or
 * NULL. */
const char *interpose_own_file(const char *path, char text[PATH_PREFIX_MAX]);

/* Whether the caller is the task itself: not a forked or vforked child of it. */
static inline int interpose_is_task(const struct space_slot *self)
{
    return process_in_space() &&
           raw(__NR_getpid) == atomic_load_explicit(&self->pid, memory_order_relaxed);
}

#endif
