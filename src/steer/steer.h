/* src/steer/steer.h: a task's own view of what the kernel keeps once per address space.
 *
 * The system call instructions of a task's ld.so and libc that place memory (mmap, munmap, mremap,
 * brk, shmat), set signal handlers, execute programs, ask for /proc/self/exe or copy between
 * processes are jumps to steer_dispatch. So each task has its own program break, all of its memory
 * lies in its own range, and copies between members need no kernel. Freestanding: it runs on tasks'
 * threads, also before their libc is ready, and in signal handlers; it never allocates and takes
 * no lock that another task could hold.
 *
 * In a forked child (no mark) the memory calls still work, on the child's own copy of the slot. In
 * a vfork child (mark, but another pid) nothing that belongs to the parent process is recorded. */
#ifndef ONESPACE_STEER_H
#define ONESPACE_STEER_H

#include <sys/stat.h>

#include "arch.h"
#include "space/registry.h"
#include "raw_syscall.h"

/* In place of the system call of a site: its result or -errno. Called by the stubs. */
long steer_dispatch(const struct arch_site *site, const long arguments[6]);
/* The same by number, for the agent's syscall(). Numbers that are not steered go to the kernel. */
long steer_call(struct space_slot *self, long nr, const long arguments[6]);

/* First part of the handler for SIGSEGV and SIGBUS: 0 when the fault was one of our copies and has
 * been dealt with, or when the default action was put back; else the program's own handler. */
uintptr_t steer_fault(int signal, void *information, void *context, void *slot);

/* Prepares a claimed slot's steering state. */
void steer_begin(struct space *space, struct space_slot *slot);
/* The same, and maps its data page and stubs: 0 or -errno. */
long steer_prepare(struct space *space, struct space_slot *slot);
/* Puts our handlers for SIGSEGV and SIGBUS in place; by the newborn itself. */
void steer_install_handlers(struct space_slot *self);
/* Tells the kernel to call our handler for `signal` in the way that the program wants its own. */
long steer_install_handler(struct space_slot *self, int signal);

/* Which sites of a file are taken. */
enum steer_kind {
    STEER_LOADER, /* a dynamic linker that is no libc: its mprotect and cpuid too */
    STEER_LIBC,   /* sites inside functions */
    STEER_CODE,   /* a program's: may be in the middle of anything, so no copies */
};
/* Turns the sites in [code, code+size), the mapping of file `fd` at `offset`, into jumps. The
 * mapping is readable and executable, and no other thread runs in it yet. */
void steer_patch_mapping(struct space_slot *self, uintptr_t code, size_t size, int fd, long offset,
                         enum steer_kind kind);
/* The same for code that is writable yet. */
void steer_patch_writable(struct space_slot *self, uintptr_t code, size_t size, int fd, long offset,
                          enum steer_kind kind);
/* The same for what ld.so has just mapped, if it is a file worth patching: a libc or the program.
 */
void steer_patch_loaded(struct space_slot *self, uintptr_t code, size_t size, int fd, long offset);

/* When the file was last written, in ns. */
static inline uint64_t steer_changed_ns(const struct stat *status)
{
    return (uint64_t)status->st_mtim.tv_sec * 1000000000u + (uint64_t)status->st_mtim.tv_nsec;
}

/* place.c: placing, growing and giving back memory. */
long steer_mmap(struct space_slot *self, const long arguments[6]);
long steer_munmap(struct space_slot *self, uintptr_t address, size_t size);
long steer_mremap(struct space_slot *self, const long arguments[6]);
long steer_shmdt(struct space_slot *self, uintptr_t address);
long steer_shmat(struct space_slot *self, const long arguments[6]);
long steer_brk(struct space_slot *self, uintptr_t wanted);

/* foreign.c: mappings outside the range. The lock is for what the task's threads change; signals
 * are blocked while it is held, and the old mask is handed back to steer_unlock. */
uint64_t steer_lock(struct space_steer *steer);
void steer_unlock(struct space_steer *steer, uint64_t signals);
/* mmap whose result may lie outside the range, and is remembered then. */
long steer_foreign_mmap(struct space_slot *self, const long arguments[6]);
void steer_foreign_add(struct space_slot *self, uintptr_t start, size_t size);
void steer_foreign_remove(struct space_slot *self, uintptr_t start, size_t size);
/* The entry that starts there goes whole. */
void steer_foreign_forget(struct space_slot *self, uintptr_t start);

/* The real path of the program of a task. */
const char *steer_program(const struct space_slot *self);
long steer_sigaction(struct space_slot *self, const long arguments[6]);
long steer_readlink(struct space_slot *self, long nr, const long arguments[6]);
long steer_execve(struct space_slot *self, long nr, const long arguments[6]);
/* nr is __NR_process_vm_readv or _writev. */
long steer_copy(struct space_slot *self, long nr, const long arguments[6]);

/* Whether the caller is the task itself: not a child of it, by fork or by vfork. */
static inline int steer_is_task(const struct space_slot *self)
{
    return space_marked() &&
           raw(__NR_getpid) == atomic_load_explicit(&self->pid, memory_order_relaxed);
}

#endif
