/* src/interpose/calls.h: the one table of interposed system calls.
 *
 * A new call is a row here and a handler; docs/internals/interposed-calls.md is generated from the
 * rows by scripts/interposed-calls. */
#ifndef ONESPACE_INTERPOSE_CALLS_H
#define ONESPACE_INTERPOSE_CALLS_H

#include "space/registry.h"

/* Where the instructions of a call are looked for and become patch sites. */
enum {
    IN_LDSO = 1,    /* a dynamic linker that is no libc: glibc's ld.so */
    IN_LIBC = 2,    /* glibc's libc and libpthread; musl, which is dynamic linker and libc */
    IN_PROGRAM = 4, /* the program itself; UCX's libucm */
    IN_ALL = IN_LDSO | IN_LIBC | IN_PROGRAM,
    IN_LDSO_OF_THREAD = 8, /* ld.so of a task in thread mode */
};

/* Runs in place of the call `nr` of the task `self`: its result or -errno. */
typedef long interposed_handler(struct space_slot *self, long nr, const long arguments[6]);

/* CALL(name, where, handler, handler in ld.so, what happens instead). A handler NULL: the system
 * call itself; in ld.so NULL: the handler. The agent's syscall() calls the handler for each row. */
/* clang-format off */
#define INTERPOSED_CALLS(CALL) \
    CALL(mmap, IN_ALL, interpose_mmap, ldso_mmap, \
         "without an address: shared memory that another task has mapped alike at that task's address, all else in the " \
         "task's range; what does not fit goes where the kernel puts it and is remembered. In ld.so: fewer, larger mappings for libraries, `ld.so.cache` shared") \
    CALL(munmap, IN_ALL, interpose_munmap, ldso_munmap, "the place is free for the task's next mapping; what other tasks use too stays mapped") \
    CALL(mremap, IN_ALL, interpose_mremap, NULL, "moves within the task's range, and out of what other tasks use too") \
    CALL(mprotect, IN_ALL, interpose_mprotect, ldso_mprotect, \
         "of the heap: noted, so that it ends when the break is lowered. In ld.so: relocated data stays writable") \
    CALL(pkey_mprotect, IN_LIBC | IN_PROGRAM, interpose_mprotect, NULL, "as `mprotect`") \
    CALL(madvise, IN_LIBC | IN_PROGRAM, interpose_madvise, NULL, \
         "MADV_DONTFORK and MADV_DOFORK: counted by task, since the kernel has one mark for all") \
    CALL(mseal, IN_ALL, interpose_mseal, NULL, \
         "noted, and the task's own changes are refused (EPERM); nothing is sealed for the kernel, which could not unmap it") \
    CALL(brk, IN_ALL, interpose_brk, NULL, "a program break of the task's own") \
    CALL(shmat, IN_ALL, interpose_shmat, NULL, \
         "what another task has attached alike: that task's address; else placed in the task's range") \
    CALL(shmdt, IN_ALL, interpose_shmdt, NULL, \
         "of a segment that other tasks use at that address: not detached. An attachment outside the range is forgotten") \
    CALL(shmctl, IN_LIBC | IN_PROGRAM, interpose_shmctl, NULL, \
         "IPC_STAT: tasks that share an attachment are counted one by one") \
    CALL(rt_sigaction, IN_ALL, interpose_sigaction, NULL, \
         "of SIGSEGV and SIGBUS: recorded; the kernel keeps our handler, which calls the program's, unless they are ignored") \
    CALL(readlinkat, IN_ALL, interpose_readlink, NULL, "as `readlink`") \
    CALL(execve, IN_ALL, interpose_execve, NULL, "announced, since the task leaves the space") \
    CALL(execveat, IN_ALL, interpose_execve, NULL, "as `execve`") \
    CALL(process_vm_readv, IN_LIBC, interpose_copy, NULL, "a copy in user space when the target is a member") \
    CALL(process_vm_writev, IN_LIBC, interpose_copy, NULL, "as `process_vm_readv`") \
    CALL(openat, IN_ALL, interpose_open, ldso_openat, \
         "as `open`. In ld.so of `libxpmem.so.0`: the one beside the agent") \
    CALL(prctl, IN_LIBC | IN_PROGRAM, interpose_prctl, NULL, \
         "PR_SET_MDWE, which would act on all tasks, is refused; before a filter is set, what the program break may " \
         "need is mapped, as the filter may forbid `mmap`; PR_GET_AUXV gives the task's auxiliary vector") \
    CALL(seccomp, IN_LIBC | IN_PROGRAM, interpose_seccomp, NULL, "as `prctl`, for filters") \
    CALL(io_setup, IN_LIBC | IN_PROGRAM, interpose_io_setup, NULL, \
         "noted, since a context is the memory's: it is destroyed when the task has ended") \
    CALL(io_destroy, IN_LIBC | IN_PROGRAM, interpose_io_destroy, NULL, "the note goes first") \
    CALL(exit_group, IN_LDSO_OF_THREAD, interpose_exit_group, NULL, \
         "in thread mode: ends the task, not the process") \
    INTERPOSED_CALLS_WITHOUT_AT(CALL)
/* Newer CPUs' kernels have on files none but those with a directory. */
#ifdef __NR_open
#define INTERPOSED_CALLS_WITHOUT_AT(CALL) \
    CALL(readlink, IN_ALL, interpose_readlink, NULL, "of `/proc/self/exe`: the task's program, not the root's") \
    CALL(open, IN_LIBC | IN_PROGRAM, interpose_open, NULL, \
         "of `/proc/self/exe`, `cmdline`, `environ`, `auxv`, `maps`, `smaps`, `smaps_rollup`, `numa_maps` to read: the task's, not the root's or all")
#else
#define INTERPOSED_CALLS_WITHOUT_AT(CALL)
#endif
/* clang-format on */

interposed_handler interpose_mmap, interpose_munmap, interpose_mremap, interpose_brk;
interposed_handler interpose_shmat, interpose_shmdt, interpose_shmctl, interpose_sigaction,
    interpose_readlink;
interposed_handler interpose_open, interpose_execve, interpose_copy, interpose_exit_group;
interposed_handler interpose_io_setup, interpose_io_destroy;
interposed_handler interpose_prctl, interpose_seccomp, interpose_mprotect, interpose_madvise,
    interpose_mseal;
interposed_handler ldso_mmap, ldso_munmap, ldso_mprotect, ldso_openat;

/* Where the call's instructions become patch sites; 0: it is not interposed. */
unsigned interposed_where(long nr);

#endif
