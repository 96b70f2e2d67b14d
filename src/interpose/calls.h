/* src/interpose/calls.h: the table of interposed system calls.
 *
 * A new call is a row here and a handler. The table decides where the call's instructions are
 * patched, which handler replaces the call, and how the call is made (throttled, counted, with a
 * task's protection key). scripts/interposed-calls writes docs/internals/interposed-calls.md from
 * it. */
#ifndef ONESPACE_INTERPOSE_CALLS_H
#define ONESPACE_INTERPOSE_CALLS_H

#include "space/registry.h"

/* Where the instructions of a call are patched. */
enum {
    IN_NONE = 0,    /* reached only through the agent's syscall() */
    IN_LDSO = 1,    /* a dynamic linker that is not a libc: glibc's ld.so */
    IN_LIBC = 2,    /* glibc's libc and libpthread; musl, which is dynamic linker and libc */
    IN_PROGRAM = 4, /* the program itself; UCX's libucm */
    IN_ALL = IN_LDSO | IN_LIBC | IN_PROGRAM,
    IN_LDSO_OF_THREAD = 8, /* ld.so of a task in thread mode */
};

/* The effect of a call on the memory map. */
enum map_effect {
    NO_EFFECT,
    CHANGES_PAGES, /* the contents of mappings: refused for sealed memory */
    CHANGES_MAP, /* mappings: also throttled, since all tasks share the kernel's lock on the map */
};

/* Replaces the call `nr` of the task `self`: returns its result or -errno. */
typedef long interposed_handler(struct space_slot *self, long nr, const long arguments[6]);
/* The same in a guarded task. It makes the call by interpose_run_call. */
typedef long guarded_handler(struct space_slot *self, int is_loader, long nr,
                             const long arguments[6]);

/* CALL(name, where, effect, handler, ldso_handler, guarded_handler, description)
 *
 *   name             of the system call: __NR_name
 *   where            IN_…: where the call's instructions are patched
 *   effect           enum map_effect
 *   handler          NULL: the system call itself
 *   ldso_handler     replaces `handler` in ld.so; NULL: `handler`
 *   guarded_handler  replaces both in a guarded task; NULL: they remain
 *   description      what happens instead of the system call */
/* clang-format off */
#define INTERPOSED_CALLS(CALL) \
    CALL(mmap, IN_ALL, CHANGES_MAP, interpose_mmap, ldso_mmap, guard_mmap, \
         "without an address: an address in the task's range, or, if another task has the same shared mapping, that task's " \
         "address. A mapping that does not fit goes where the kernel puts it, and is recorded. In `ld.so`: fewer, larger " \
         "mappings for libraries; `ld.so.cache` is shared") \
    CALL(munmap, IN_ALL, CHANGES_MAP, interpose_munmap, ldso_munmap, NULL, \
         "the addresses are free for the task's next mapping. A mapping that other tasks use, too, stays") \
    CALL(mremap, IN_ALL, CHANGES_MAP, interpose_mremap, NULL, NULL, \
         "moves within the task's range. A mapping that other tasks use, too, becomes one of the task's own") \
    CALL(mprotect, IN_ALL, CHANGES_MAP, interpose_mprotect, ldso_mprotect, NULL, \
         "on the heap: recorded, so that it is undone when the break is lowered. In `ld.so`: relocated data stays writable") \
    CALL(pkey_mprotect, IN_LIBC | IN_PROGRAM, CHANGES_MAP, interpose_mprotect, NULL, NULL, "as `mprotect`") \
    CALL(madvise, IN_LIBC | IN_PROGRAM, CHANGES_PAGES, interpose_madvise, NULL, NULL, \
         "MADV_DONTFORK and MADV_DOFORK: recorded per task, because the kernel has one mark for all tasks") \
    CALL(mseal, IN_ALL, NO_EFFECT, interpose_mseal, NULL, NULL, \
         "recorded; later changes by the task fail with EPERM. The kernel seals nothing, because it could not unmap it later") \
    CALL(brk, IN_ALL, CHANGES_MAP, interpose_brk, NULL, guard_brk, "a program break for each task") \
    CALL(shmat, IN_ALL, CHANGES_MAP, interpose_shmat, NULL, NULL, \
         "without an address: an address in the task's range, or, if another task has the same attachment, that task's address") \
    CALL(shmdt, IN_ALL, CHANGES_MAP, interpose_shmdt, NULL, NULL, \
         "a segment that other tasks use at that address stays attached. The record of an attachment outside the range is removed") \
    CALL(shmctl, IN_LIBC | IN_PROGRAM, NO_EFFECT, interpose_shmctl, NULL, NULL, \
         "IPC_STAT: the number of attachments includes each task that shares one") \
    CALL(io_setup, IN_LIBC | IN_PROGRAM, NO_EFFECT, interpose_io_setup, NULL, NULL, \
         "recorded, because the context belongs to the address space; destroyed when the task has ended") \
    CALL(io_destroy, IN_LIBC | IN_PROGRAM, NO_EFFECT, interpose_io_destroy, NULL, NULL, "the record is removed first") \
    CALL(io_uring_register, IN_NONE, NO_EFFECT, interpose_io_uring_register, NULL, NULL, \
         "fixed buffers in other tasks' memory are recorded, so that the task hears when that is unmapped") \
    CALL(rt_sigaction, IN_ALL, NO_EFFECT, interpose_sigaction, NULL, guard_sigaction, \
         "SIGSEGV and SIGBUS: recorded; the kernel keeps onespace's handler, which calls the program's, unless the signal is ignored") \
    CALL(rseq, IN_NONE, NO_EFFECT, NULL, NULL, guard_rseq, "in a guarded task: ENOSYS") \
    CALL(readlinkat, IN_ALL, NO_EFFECT, interpose_readlink, NULL, NULL, "as `readlink`") \
    CALL(execve, IN_ALL, NO_EFFECT, interpose_execve, NULL, NULL, "announced, because the task leaves the space") \
    CALL(execveat, IN_ALL, NO_EFFECT, interpose_execve, NULL, NULL, "as `execve`") \
    CALL(process_vm_readv, IN_LIBC, NO_EFFECT, interpose_process_vm, NULL, NULL, \
         "a copy in user space if the target is a member") \
    CALL(process_vm_writev, IN_LIBC, NO_EFFECT, interpose_process_vm, NULL, guard_process_vm_writev, \
         "as `process_vm_readv`") \
    CALL(openat, IN_ALL, NO_EFFECT, interpose_open, ldso_openat, NULL, \
         "as `open`. In `ld.so`: `libxpmem.so.0` is the one beside the agent") \
    CALL(unlinkat, IN_LIBC | IN_PROGRAM, NO_EFFECT, interpose_path, NULL, NULL, \
         "below `/dev/shm`, where the space keeps these files: asks the server of their names") \
    CALL(linkat, IN_LIBC | IN_PROGRAM, NO_EFFECT, interpose_path, NULL, NULL, "as `unlinkat`") \
    CALL(renameat, IN_LIBC | IN_PROGRAM, NO_EFFECT, interpose_path, NULL, NULL, "as `unlinkat`") \
    CALL(renameat2, IN_LIBC | IN_PROGRAM, NO_EFFECT, interpose_path, NULL, NULL, "as `unlinkat`") \
    CALL(newfstatat, IN_LIBC | IN_PROGRAM, NO_EFFECT, interpose_path, NULL, NULL, "as `unlinkat`") \
    CALL(statx, IN_LIBC | IN_PROGRAM, NO_EFFECT, interpose_path, NULL, NULL, "as `unlinkat`") \
    CALL(faccessat, IN_LIBC | IN_PROGRAM, NO_EFFECT, interpose_path, NULL, NULL, "as `unlinkat`") \
    CALL(faccessat2, IN_LIBC | IN_PROGRAM, NO_EFFECT, interpose_path, NULL, NULL, "as `unlinkat`") \
    CALL(statfs, IN_LIBC | IN_PROGRAM, NO_EFFECT, interpose_path, NULL, NULL, \
         "as `unlinkat`; there it says how much memory is available") \
    CALL(prctl, IN_LIBC | IN_PROGRAM, NO_EFFECT, interpose_prctl, NULL, guard_prctl, \
         "PR_SET_MDWE, which would act on all tasks, fails with EINVAL. PR_SET_SECCOMP: first maps all memory of the program " \
         "break, because the filter may forbid `mmap`. PR_GET_AUXV returns the task's auxiliary vector") \
    CALL(seccomp, IN_LIBC | IN_PROGRAM, NO_EFFECT, interpose_seccomp, NULL, guard_seccomp, "as `prctl` with PR_SET_SECCOMP") \
    CALL(exit_group, IN_LDSO_OF_THREAD, NO_EFFECT, interpose_exit_group, NULL, NULL, \
         "in thread mode: ends the task, not the process") \
    INTERPOSED_CALLS_WITHOUT_AT(CALL)
/* The kernels of newer CPUs have only the calls that take a directory. */
#ifdef __NR_open
#define INTERPOSED_CALLS_WITHOUT_AT(CALL) \
    CALL(readlink, IN_ALL, NO_EFFECT, interpose_readlink, NULL, NULL, \
         "`/proc/self/exe`: the task's program, not the root's") \
    CALL(open, IN_LIBC | IN_PROGRAM, NO_EFFECT, interpose_open, NULL, NULL, \
         "`exe`, `cmdline`, `environ`, `auxv`, `maps`, `smaps`, `smaps_rollup`, `numa_maps` in `/proc/self`, for reading: " \
         "the task's, not the root's or those of all tasks. Below `/dev/shm`, where the space keeps these files: a descriptor from " \
         "the server of their names") \
    CALL(unlink, IN_LIBC | IN_PROGRAM, NO_EFFECT, interpose_path, NULL, NULL, "as `unlinkat`") \
    CALL(link, IN_LIBC | IN_PROGRAM, NO_EFFECT, interpose_path, NULL, NULL, "as `unlinkat`") \
    CALL(rename, IN_LIBC | IN_PROGRAM, NO_EFFECT, interpose_path, NULL, NULL, "as `unlinkat`") \
    CALL(stat, IN_LIBC | IN_PROGRAM, NO_EFFECT, interpose_path, NULL, NULL, "as `unlinkat`") \
    CALL(lstat, IN_LIBC | IN_PROGRAM, NO_EFFECT, interpose_path, NULL, NULL, "as `unlinkat`") \
    CALL(access, IN_LIBC | IN_PROGRAM, NO_EFFECT, interpose_path, NULL, NULL, "as `unlinkat`")
#else
#define INTERPOSED_CALLS_WITHOUT_AT(CALL)
#endif
/* clang-format on */

interposed_handler interpose_io_uring_register, interpose_mmap, interpose_munmap, interpose_mremap,
    interpose_mprotect, interpose_madvise, interpose_mseal, interpose_brk, interpose_shmat,
    interpose_shmdt, interpose_shmctl, interpose_io_setup, interpose_io_destroy,
    interpose_sigaction, interpose_readlink, interpose_open, interpose_execve, interpose_process_vm,
    interpose_prctl, interpose_seccomp, interpose_exit_group, interpose_path;
interposed_handler ldso_mmap, ldso_munmap, ldso_mprotect, ldso_openat;
guarded_handler guard_mmap, guard_brk, guard_sigaction, guard_rseq, guard_process_vm_writev,
    guard_prctl, guard_seccomp;

/* Where the call's instructions are patched: IN_…; 0 if nowhere. */
unsigned interposed_where(long nr);

#endif
