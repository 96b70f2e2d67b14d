/* onespace.h: run ordinary programs as tasks of one address space.
 *
 * A space is one address space with a root (the process that called onespace_init) and tasks
 * (programs that run in it). A task keeps what a process has: its own globals, heap, libc, file
 * descriptors, signal handlers, PID and exit status. Every address of one task is valid in all
 * others, so a pointer is enough to share data.
 *
 * A member is the root or a task, until it ends or executes another program. Every member has an
 * id, which is not used again before a million other tasks have had the same slot.
 *
 * Conventions. Functions return 0 or a value >= 0 on success and -errno on failure;
 * out-parameters are untouched on failure. All functions are thread-safe and may be called by any
 * member unless they say otherwise; none may be called from a signal handler unless it says so.
 * Outside a space, which includes a child made by fork(), they return -EPERM. Strings and
 * structures that the caller passes remain its own and are not used after the call returns.
 * Timeouts are in milliseconds: a negative one never expires, with 0 the call does not wait.
 * Available since 0.1.0 unless a declaration says otherwise. */
#ifndef ONESPACE_H
#define ONESPACE_H

#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/select.h> /* sigset_t, which <signal.h> lacks under -std=c11 */

#define ONESPACE_VERSION_MAJOR 0
#define ONESPACE_VERSION_MINOR 1
#define ONESPACE_VERSION_PATCH 0

#if defined(__GNUC__)
#define ONESPACE_API   __attribute__((visibility("default")))
#define ONESPACE_CHECK __attribute__((warn_unused_result))
#else
#define ONESPACE_API
#define ONESPACE_CHECK
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define ONESPACE_ROOT      0    /* the root's id */
#define ONESPACE_ANY       (-1) /* any task, where a function says so */
#define ONESPACE_TASKS_MAX 2047 /* tasks alive at once in one space */
#define ONESPACE_NAME_MAX  95   /* bytes of an export's name, without the terminating zero */

/* ---- Membership ---- */

/* Makes the calling process the root of a new space, or attaches the calling task to the space that
 * it runs in. Idempotent. Tasks get the root's identity (user, groups, capabilities, namespaces,
 * cgroup) as it is at this call: change it before.
 *
 * As long as a program has no threads its libc may omit atomic instructions from locks. This call,
 * or the first export, import or look-up, makes and ends one thread, so that the caller's libc uses
 * them from then on and mutexes work between members.
 *
 * Returns the caller's id: 0 for the root, > 0 for a task. -ENOMEM: the address region is occupied,
 * or there is no memory. -EPERM: the caller is a forked child of a member. -ENOENT: there is no
 * /proc. -ENOSYS: the kernel refuses. -EACCES: the machine's policy does (onespace-policy(5)), as a
 * message on standard error says; or the caller may not have memory that is writable and executable
 * (PR_SET_MDWE). -ENOTSUP: the caller runs under valgrind, which cannot follow processes that share
 * memory; or the kernel may stall the whole machine while tasks run, as a message on standard error
 * says (ONESPACE_FAULTY_KERNEL=1 overrides). -EAGAIN: no thread can be made; the call may be
 * repeated (export, import and look-up, if they come first, return the same). */
ONESPACE_API ONESPACE_CHECK int onespace_init(void);

/* Ends the space and unmaps all memory of ended tasks. Root only; tasks need not call anything. If
 * another thread than the main thread calls it, the main thread must not lock or unlock a robust
 * mutex (pthread_mutexattr_setrobust) meanwhile. 0.
 * -EBUSY while tasks live (if the reaper was killed, it kills them), -EPERM in a task or before
 * onespace_init. */
ONESPACE_API ONESPACE_CHECK int onespace_fini(void);

/* The caller's id. May be called from signal handlers. */
ONESPACE_API int onespace_self(void);

/* The caller's number, from 0, among the tasks that were started together (`number` of
 * struct onespace_spawn_attr), and their count. -ENOENT: the caller has no number. */
ONESPACE_API int onespace_number(void);
ONESPACE_API int onespace_ntasks(void);

/* The id of the task with that number among those that were started together. -ESRCH: it has not
 * been started yet. -EOWNERDEAD: it has ended or executed another program. -EINVAL: there is no
 * such number. */
ONESPACE_API int onespace_task(int number);

/* ---- Starting and ending tasks ---- */

/* The task's descriptor `target` is a copy of the caller's `source`. */
struct onespace_fd_map {
    int source, target;
};

/* Flags of struct onespace_spawn_attr:
 *
 * DETACHED      no member waits for the task: its status is discarded
 * CLOSE_FDS     close every descriptor that is not in fds
 * GROUP         a process group of its own
 * SESSION       a session of its own, and so a process group; the kernel's autogroup scheduling
 *               divides CPU time among sessions
 * HEAP_TUNED    let glibc's malloc keep freed memory: fewer page faults, more memory
 * NO_INTERPOSE  no system call interposition: do not patch the task's libc; slower, and the task's
 *               memory is not released when it ends
 * NO_MPI_LAYER  do not load onespace's MPI layer: MPI's windows remain the MPI library's
 * OWN_MAPPINGS  each shared mapping of the task has an address of its own, even if other tasks have
 *               mapped the same memory
 * COLLECTIVES   run blocking collective operations of MPI by loads and stores, in communicators in
 *               one space that use them often; with COLLECTIVES_AT_ONCE from their first call on
 * TOGETHER      enter the program when all ntasks have loaded their libraries
 * HOLD          the spawner holds the task's memory from the start, until onespace_release(id):
 *               what the task has exported can be imported until then, even after its end
 * CALLS         the task serves calls from other members (onespace/call.h) from before its main,
 *               without calling anything itself. Not for statically linked programs or thread mode
 * GUARD         guarded tasks cannot write to one another's memory by mistake: such a write ends
 *               the writer with SIGSEGV and a message; with GUARD_REPORT it continues.
 *               All may write to memory that is mapped with MAP_SHARED. Needs a CPU with
 *               protection keys (-ENOTSUP). Not with THREAD, NO_INTERPOSE or CALLS. Tasks of a
 *               guarded task are guarded, too
 * PROGRESS      MPI ranks that wait make progress for those that compute. Each rank gets one more
 *               thread, and the program must have MPI_THREAD_MULTIPLE. Not with THREAD or
 *               NO_MPI_LAYER
 * THREAD        thread mode, see below */
#define ONESPACE_SPAWN_DETACHED            1u
#define ONESPACE_SPAWN_CLOSE_FDS           2u
#define ONESPACE_SPAWN_GROUP               4u
#define ONESPACE_SPAWN_HEAP_TUNED          8u
#define ONESPACE_SPAWN_NO_INTERPOSE        16u
#define ONESPACE_SPAWN_TOGETHER            32u
#define ONESPACE_SPAWN_SESSION             64u
#define ONESPACE_SPAWN_THREAD              128u
#define ONESPACE_SPAWN_HOLD                256u
#define ONESPACE_SPAWN_NO_MPI_LAYER        512u
#define ONESPACE_SPAWN_OWN_MAPPINGS        1024u
#define ONESPACE_SPAWN_COLLECTIVES         2048u
#define ONESPACE_SPAWN_COLLECTIVES_AT_ONCE 4096u
#define ONESPACE_SPAWN_CALLS               8192u
#define ONESPACE_SPAWN_GUARD               16384u
#define ONESPACE_SPAWN_GUARD_REPORT        32768u
#define ONESPACE_SPAWN_PROGRESS            65536u

/* Thread mode. A task with ONESPACE_SPAWN_THREAD is a thread of the process of the member that
 * spawns it: it shares PID, descriptors, working directory, umask, limits and signal handlers with
 * it, and has its own program, globals, heap, libc and thread-local storage. Return from main,
 * exit, _exit and pthread_exit of its last thread end that task only; its remaining threads end
 * with it. A fatal signal, abort and a crash end the whole process; execve fails (EPERM). All
 * signals except those of faults are blocked from the start unless signal_mask says otherwise,
 * because the process's handlers belong to other programs. Needs a program that uses glibc; Go
 * programs and Java virtual machines are refused (-ENOTSUP), because they assume that the process's
 * signal handlers are their own. The attributes of shared state (fds, directory, umask, limits,
 * ignored_signals, CLOSE_FDS, GROUP, SESSION, NO_INTERPOSE) must not be set (-EINVAL).
 * (Process-in-Process: the pthread mode of section 5.) */

/* How a task starts. Initialise with ONESPACE_SPAWN_ATTR_INIT, then change what differs. Everything
 * that is not set is inherited from the caller as by fork and exec: descriptors without FD_CLOEXEC,
 * working directory, umask, limits, nice value, CPU affinity, memory policy, signal mask. */
struct onespace_spawn_attr {
    size_t size;        /* sizeof(struct onespace_spawn_attr): set by the initialiser */
    unsigned flags;     /* ONESPACE_SPAWN_* */
    int directory;      /* descriptor of the working directory, or -1 */
    int umask;          /* file mode creation mask, or -1 */
    int nice;           /* nice value, or INT32_MIN */
    int number, ntasks; /* the task's number, from 0, among those started together and their count,
                           or -1. A space has one such group at a time. When all of its tasks have
                           ended, spawning a task with a number that the group has had, or with
                           another count, begins the next group */
    const struct onespace_fd_map *fds; /* in any order, 2,500 at most, or NULL */
    size_t fd_count;                   /* entries of fds */
    size_t stack_size;           /* bytes of the main thread's stack, 0: the soft RLIMIT_STACK */
    const cpu_set_t *cpus;       /* CPU affinity, or NULL */
    size_t cpus_size;            /* bytes of *cpus */
    const struct rlimit *limits; /* RLIM_NLIMITS entries, or NULL */
    const char *path;            /* search path in place of the caller's PATH, or NULL */
    const sigset_t *signal_mask; /* blocked signals, or NULL */
    const sigset_t *ignored_signals; /* the signals that are ignored, or NULL */
    char *message; /* buffer for one line, what is wrong and how to fix it, or NULL. Empty if the
                      call succeeds, or fails with nothing to add to its error */
    size_t message_size; /* bytes of message */
    /* Name of a function int start(void *) of the program, or NULL. It runs in place of main with
     * start_argument and returns the exit status. It is looked up in the program's symbol tables.
     * Not for statically linked programs. (Process-in-Process: pip_spawn_from_func.) */
    const char *start;
    void *start_argument;
    /* A function of the caller, or NULL. It runs as the new task, right before it enters its
     * program and before close-on-exec descriptors are closed: where a program would act between
     * fork and exec. As with vfork, it uses the thread-local storage of the calling thread, which
     * waits; it may call any function but must return. It has the task's PID, descriptors and
     * signal handlers, and the caller's memory. If it returns an error number, of either sign, and
     * not 0, onespace_spawn fails with that. (Process-in-Process: the `before` hook.) */
    int (*before)(void *before_argument);
    void *before_argument;
    void *data; /* any pointer: the task gets it from onespace_spawner */
};
#define ONESPACE_SPAWN_ATTR_INIT                                                                   \
    {                                                                                              \
        sizeof(struct onespace_spawn_attr), 0, -1, -1, (-2147483647 - 1), -1, -1, 0, 0, 0, 0, 0,   \
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                                        \
    }

/* Runs a program as a new task, as posix_spawnp would run it as a process: `file` is searched along
 * PATH unless it has a slash, #! lines are followed, argv and envp are NULL-terminated (envp NULL:
 * the caller's environment). The program must be position independent. attr may be NULL: all
 * defaults.
 *
 * Returns the task's id (> 0) once the program has been entered. -ENOENT, -EACCES, -ENOEXEC,
 * -ELIBBAD, -EPERM, -ELOOP: the file cannot be run, as with execve; -ENOSYS: it has no such start
 * function; -EAGAIN: the space has ONESPACE_TASKS_MAX tasks, or no process can be made; -ENOMEM;
 * -E2BIG: arguments and environment are too long for the stack; -EINVAL: a bad attribute;
 * -EOWNERDEAD: the space's reaper has died; or what `before` returned. A failed call leaves nothing
 * behind. (Process-in-Process: pip_spawn; section 4 of the HPDC'18 paper.) */
ONESPACE_API ONESPACE_CHECK int onespace_spawn(const char *file, char *const argv[],
                                               char *const envp[],
                                               const struct onespace_spawn_attr *attr);

/* The id of the member that spawned the caller. *data gets the pointer that it passed in
 * struct onespace_spawn_attr; data may be NULL. -ENOENT in the root. */
ONESPACE_API int onespace_spawner(void **data);

/* How a task has ended. */
struct onespace_status {
    int id;
    int pid;
    int status;                    /* as from waitpid: for WIFEXITED and so on */
    int by_exit;                   /* its program called exit or returned from main: its handlers
                                      (atexit) ran. 0: it called _exit, executed another program, or
                                      was killed. A static program's _exit counts as exit. */
    uint64_t user_us, system_us;   /* CPU time in microseconds */
    uint64_t copies, copied_bytes; /* process_vm_readv/writev between members, in user space */
    uint64_t kernel_copies;        /* those made by the system call: other targets, or faults */
    uint64_t collectives;          /* MPI's collective operations done in the tasks' own memory */
    uint64_t attaches;             /* calls of xpmem_attach */
};

/* Waits for the end of a task that the caller spawned, or of any such task (ONESPACE_ANY), in the
 * order in which they ended, and fills *status, which may be NULL. A status can be collected once;
 * the status of a task whose spawner has ended is discarded. Returns the task's id. -ECHILD: no
 * such task, or its status was collected. -ETIMEDOUT. -EOWNERDEAD: the space's reaper process was
 * killed, so no further end is reported. */
ONESPACE_API ONESPACE_CHECK int onespace_wait(int id, struct onespace_status *status,
                                              int timeout_ms);

/* Sends a signal to a member, as kill(2); signal 0 only tests whether it lives. In thread mode the
 * signal goes to the task's main thread. 0. -ESRCH: it has ended. -EPERM, -EINVAL: as kill(2). */
ONESPACE_API ONESPACE_CHECK int onespace_kill(int id, int signal);

/* The process id of a member; in thread mode, of the process that the task is a thread of. -ESRCH:
 * it has ended. */
ONESPACE_API int onespace_pid(int id);

/* Whether there is such a member: 1, or 0 if it has ended or has executed another program, which
 * leaves the space although its process lives. -EPERM: the caller is not in a space. */
ONESPACE_API int onespace_is_member(int id);

/* A futex word that becomes non-zero when the task has ended: poll it, or sleep with FUTEX_WAIT,
 * with or without FUTEX_PRIVATE_FLAG. The pointer is valid as long as the space. Once the task's
 * status is collected, the word may be about another task. NULL: there is no such task, or the
 * caller is outside a space. */
ONESPACE_API const uint32_t *onespace_watch(int id);

/* ---- Sharing ---- */

/* Publishes the `size` bytes at `address` under a name of at most ONESPACE_NAME_MAX bytes, unique
 * among the caller's. The memory remains the caller's; its content is not accessed. 0. -EEXIST: the
 * caller exports that name already. -ENAMETOOLONG. -EINVAL: NULL or an empty name. -ENOSPC: the
 * space has 16,384 names. -EAGAIN: see onespace_init. */
ONESPACE_API ONESPACE_CHECK int onespace_export(const char *name, void *address, size_t size);

/* Removes a name of the caller's. Holds that importers have remain valid. 0. -ENOENT: there is no
 * such name. -ENAMETOOLONG, -EINVAL: as onespace_export. */
ONESPACE_API ONESPACE_CHECK int onespace_unexport(const char *name);

/* Returns address and size of the memory that member `id` exports under `name`; waits until it
 * does. size may be NULL. The import holds the owner's memory, even beyond the owner's end, until
 * onespace_release(id). 0. -ETIMEDOUT. -EOWNERDEAD: the owner has ended or executed another
 * program, or the space's reaper process was killed. -EDEADLK: the caller would wait for a name of
 * its own. -ESRCH: there is no such member. -EOVERFLOW: as onespace_hold. -ENAMETOOLONG, -EINVAL:
 * as onespace_export. -EAGAIN: see onespace_init. */
ONESPACE_API ONESPACE_CHECK int onespace_import(int id, const char *name, void **address,
                                                size_t *size, int timeout_ms);

/* Holds the memory of member `id` without importing anything: addresses from other sources remain
 * valid beyond the owner's end, until onespace_release(id). 0. -ESRCH: there is no such member.
 * -EOWNERDEAD: its memory is unmapped. -EOVERFLOW: the caller has 65,535 holds on it. */
ONESPACE_API ONESPACE_CHECK int onespace_hold(int id);

/* Releases one hold of the caller on the memory of member `id`. When the owner has ended, its
 * memory is unmapped with the last hold. 0. -EINVAL: the caller has none. */
ONESPACE_API ONESPACE_CHECK int onespace_release(int id);

/* Tells all other members that have registered memory of [address, address + size) with a network
 * device that it is about to be unmapped or discarded, and waits until their libraries have heard.
 * munmap, mmap, mremap, madvise, brk and shmdt of a task's libc do so by themselves; a program
 * calls this before it unmaps memory by system calls of its own. May be called from signal
 * handlers. 0; -ETIMEDOUT: a member, perhaps stopped, has not heard within ten seconds; -EINVAL:
 * the size is 0, or the addresses are not a program's; -EPERM: the caller is in no space. */
ONESPACE_API ONESPACE_CHECK int onespace_unmapping(const void *address, size_t size);

/* Finds a symbol of a member's program or of its libraries, those opened later included, by reading
 * its ELF tables; symbols that only the file's .symtab has are found, too. size, in bytes, may be
 * NULL. If the task is still loading its libraries, waits for that for 20 seconds at most. The
 * address is valid as long as the task lives or its memory is held (onespace_hold, or spawn with
 * ONESPACE_SPAWN_HOLD). 0. -ENOENT: there is no such symbol. -ENOTSUP: it is thread-local or an
 * indirect function. -ESRCH: there is no such member, or it has ended and its memory is not held.
 * -ETIMEDOUT: it has not begun to load its libraries. -EINVAL: an empty name. -EAGAIN: see
 * onespace_init. */
ONESPACE_API ONESPACE_CHECK int onespace_lookup(int id, const char *symbol, void **address,
                                                size_t *size);

/* The id of the member to whose memory `address` belongs: image, libraries, heap, stacks and
 * mappings. 0: the root's, or an unknown owner's. -ENOENT: it is not mapped. */
ONESPACE_API int onespace_owner(const void *address);

/* Waits until all tasks that were started together (onespace_ntasks of them) have called it. Orders
 * memory: all see after the barrier what any of them wrote before it. 0. -EOWNERDEAD: one of them
 * has ended or executed another program. -ETIMEDOUT: the caller's arrival was withdrawn. -ENOENT:
 * the caller has no number. */
ONESPACE_API ONESPACE_CHECK int onespace_barrier(int timeout_ms);

/* The version of the library that is loaded, as "0.1.0". May be called anywhere. */
ONESPACE_API const char *onespace_version(void);

#ifdef __cplusplus
}
#endif
#endif
