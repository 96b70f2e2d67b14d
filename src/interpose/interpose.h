/* src/interpose/interpose.h: a task's own view of what the kernel keeps once per address space.
 *
 * The system call instructions of a task's ld.so, libc and program that the table names (calls.h)
 * become jumps to trampolines, which call interpose_dispatch. So each task has its own program
 * break, all of its memory lies in its own range, and copies between members need no system call.
 *
 * Freestanding: it runs on tasks' threads, also before their libc is ready, and in signal handlers;
 * it never allocates and takes no lock that another task could hold.
 *
 * In a forked child (no mark) the memory calls still work, on the child's own copy of the slot. A
 * vforked child (mark, but another pid) is in its parent's memory: its mappings stay when it ends,
 * and are recorded for its parent. Its execve, signal actions and seccomp filters concern its own
 * process and are not. */
#ifndef ONESPACE_INTERPOSE_INTERPOSE_H
#define ONESPACE_INTERPOSE_INTERPOSE_H

#include <stddef.h>

#include "base/raw.h"
#include "space/registry.h"

struct arch_patched_syscall;
struct arch_trampoline_data;

/* ---- dispatch.c ---- */

/* Called by trampolines in place of the system call at a patch site: its result or -errno. */
long interpose_dispatch(const struct arch_patched_syscall *call, const long arguments[6]);
/* The same by number, for the agent's syscall(). A call that is not in the table goes to the
 * kernel. */
long interpose_call(struct space_slot *self, long nr, const long arguments[6]);
/* The same without what guard mode adds. `is_loader`: from a patch site in ld.so. */
long interpose_run_call(struct space_slot *self, int is_loader, long nr, const long arguments[6]);

/* Initialises the state of a claimed slot. */
void interpose_init_slot(struct space *space, struct space_slot *slot);
/* The same, and maps its data page and trampolines: 0 or -errno. */
long interpose_map_trampolines(struct space *space, struct space_slot *slot);
/* Fills the data page of a task. By the root only: the page points to the caller's library. */
void interpose_init_data(struct arch_trampoline_data *data, struct space_slot *slot);

/* ---- process.c ---- */

/* The real path of the program of a task. */
const char *interpose_program(const struct space_slot *self);

/* Whether the caller is the task itself: not a forked or vforked child of it. */
static inline int interpose_is_task(const struct space_slot *self)
{
    return process_in_space() &&
           raw(__NR_getpid) == atomic_load_explicit(&self->pid, memory_order_relaxed);
}

/* The signal that ends the remaining threads of a task in thread mode. glibc reserves it for setuid
 * in programs with threads and lets no program block or handle it; glibc's own uses are passed on
 * to its handler. */
enum { THREAD_MODE_SIGNAL = 33 };

/* By a task in thread mode, at its start and its end: installs the handler that ends remaining
 * threads, and forgets what its slot's libc has set. */
void thread_mode_install_handler(const struct space_slot *thread);
/* That handler, and the one behind it in the calling process. In the root's copy of the library. */
uintptr_t thread_mode_handler(void);
_Atomic uintptr_t *thread_mode_handler_behind(void);
/* What _exit does in thread mode: ends the task, not the process. In a forked child of the task,
 * ends the child. */
_Noreturn void thread_mode_exit(struct space_slot *self, int status);
/* If this rt_sigaction of a task's libc sets a handler for THREAD_MODE_SIGNAL, records it, sets
 * *result and returns 1; else 0. */
int thread_mode_set_handler(struct space_slot *self, const long arguments[6], long *result);

/* ---- proc_self.c ---- */

enum { PROC_PATH_PREFIX_MAX = 40 }; /* /proc/thread-self/cmdline and the like are shorter */

/* Returns FILE if `path` is /proc/self/FILE, /proc/thread-self/FILE, /proc/PID/FILE of the calling
 * process, or /task/TID/FILE below one of these; else NULL. */
const char *interpose_proc_self_file(const char *path);

/* The task's auxiliary vector: its size in bytes with the entry that ends it, or 0 if it cannot be
 * read. */
size_t interpose_auxv(const struct space_slot *self, const void **vector);

/* ---- shm.c ---- */

/* open of a path below /dev/shm, if the space keeps the file: sets *result and returns 1. Else 0.
 */
int interpose_shm_open(const char *path, int flags, unsigned mode, long *result);

/* ---- registrations.c ---- */

/* Record the memory that a call registers with a device: space_operations (space/registry.h). */
void interpose_record_verbs_call(struct space_slot *self, const void *argument);
void interpose_record_buffers(struct space_slot *self, const void *buffers, unsigned long count);

/* ---- signals.c ---- */

/* Installs our handlers for SIGSEGV and SIGBUS; by the child, before its program starts. */
void interpose_install_fault_handlers(struct space_slot *self);
/* Whether a fault of the calling thread in a guarded copy makes the copy return -1. Otherwise the
 * fault kills the process: the thread blocks one of the signals, or the program ignores it. */
int interpose_can_recover(struct space_slot *self);

/* The action that the kernel gets for a signal that the program handles: our handler, with the
 * program's mask, stack and flags, except those that the kernel must not act on. */
struct space_sigaction interpose_our_action(const struct space_slot *self,
                                            const struct space_sigaction *wanted);
/* Removes the flags that the kernel does not know from what the program has asked for. The kernel
 * has our handler for the signal. */
void interpose_drop_unknown_flags(struct space_sigaction *wanted, int signal);

/* arch_handlers.fault: 0 if the fault was in one of our copies, or if the default action was
 * restored; else the program's handler. */
uintptr_t interpose_fault(int signal, void *information, void *context, void *slot);

/* Read and write through pointers of the program, which may be bad: 0 or -EFAULT. The kernel
 * copies, so that a bad pointer is an error whatever the program does with SIGSEGV and SIGBUS: a
 * fault would kill where they are blocked or ignored. Only if a seccomp filter denies
 * process_vm_readv is the copy a guarded one (arch/copy.h). */
int interpose_copy_from_user(void *to, const void *from, size_t size);
int interpose_copy_to_user(void *to, const void *from, size_t size);

#endif
