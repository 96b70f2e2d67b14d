/* onespace.h: run ordinary programs as tasks of one address space.
 *
 * A space is one address space with a root (the process that called onespace_init) and tasks
 * (programs that run in it). A task keeps what a process has: its own globals, heap, libc, file
 * descriptors, signal handlers, PID and exit status. Every address of one task is valid in all
 * others, so a pointer is enough to share data.
 *
 * Conventions. Functions return 0 or a value >= 0 on success and -errno on failure; out-parameters
 * are untouched on failure. All of them are thread-safe. None may be called from a signal handler
 * unless it says so. A child made by fork() is no member of the space: every function that needs
 * membership returns -EPERM there. Timeouts are in milliseconds; negative means without limit, 0
 * means do not wait. Available since 0.1.0 unless a declaration says otherwise. */
#ifndef ONESPACE_H
#define ONESPACE_H

#include <stddef.h>
#include <stdint.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

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

/* Makes the calling process the root of a new space, or attaches the calling task to the space it
 * runs in. Idempotent. The root's identity (user, groups, capabilities, namespaces, cgroup) as it
 * is at this call is what its tasks get: change it before.
 * From here on (or from the first export, import or look-up) the caller's libc treats locks as one
 * with threads does, so that mutexes hold between members; one thread is made and ended for that.
 * Returns the caller's id: 0 for the root, > 0 for a task. -ENOMEM: the address region or memory is
 * not to be had. -EPERM: the caller is a forked child of a member. -ENOSYS: the kernel refuses.
 * -ENOTSUP: the caller runs under valgrind, which cannot follow processes that share memory.
 * -EAGAIN: there is no thread to be had; the call may be repeated (export, import and look-up too,
 * when they come first). */
ONESPACE_API ONESPACE_CHECK int onespace_init(void);

/* Ends the space. Root only; tasks need not call anything. -EBUSY while tasks live, -EPERM in a
 * task or before onespace_init. What tasks exported is gone afterwards. */
ONESPACE_API ONESPACE_CHECK int onespace_fini(void);

/* The caller's id, or -EPERM outside a space. Callable from signal handlers. */
ONESPACE_API int onespace_self(void);

/* The caller's number among, and the count of, the tasks that were started together (see
 * struct onespace_spawn_attr); -EPERM outside a space, -ENOENT when the caller has no number. */
ONESPACE_API int onespace_number(void);
ONESPACE_API int onespace_ntasks(void);

/* The id of the task with that number among those that were started together. -ESRCH: it has not
 * been started yet. -EOWNERDEAD: it has ended or executed another program. -EINVAL: there is no
 * such number. -EPERM outside a space. */
ONESPACE_API int onespace_task(int number);

/* ---- Starting and ending tasks ---- */

struct onespace_fd_map { /* the task's descriptor `target` becomes a copy of the caller's `source`
                          */
    int source, target;
};

/* onespace_spawn_attr.flags */
#define ONESPACE_SPAWN_DETACHED  1u /* nobody waits: the status is discarded */
#define ONESPACE_SPAWN_CLOSE_FDS 2u /* close every descriptor that is not in fds */
#define ONESPACE_SPAWN_GROUP     4u /* a process group of its own */
#define ONESPACE_SPAWN_HEAP_LIBC 8u /* leave the allocator's settings alone */
#define ONESPACE_SPAWN_NO_INTERPOSE                                                                   \
    16u /* do not patch the task's libc: slower, memory not given back */
#define ONESPACE_SPAWN_TOGETHER                                                                    \
    32u /* enter the program when all of ntasks have loaded their libraries */
#define ONESPACE_SPAWN_SESSION                                                                     \
    64u /* a session of its own, and so a process group: the kernel's automatic                    \
           grouping shares processors out by session */
#define ONESPACE_SPAWN_THREAD 128u /* thread mode: a thread of the caller's process, see below */

/* Thread mode. A task with ONESPACE_SPAWN_THREAD is a thread of the process of the member that
 * spawns it: it shares PID, descriptors, working directory, umask, limits and signal handlers with
 * it, and has its own program, globals, heap, libc and thread-local storage. Return from main,
 * exit, _exit and pthread_exit of its last thread end that task only; its remaining threads end
 * with it. A signal that kills, abort and a crash take the whole process; execve is refused
 * (EPERM). All signals but those of faults are blocked from the start unless signal_mask says
 * otherwise, since the process's handlers belong to other programs. Needs a program of glibc; Go
 * programs and Java machines are refused (-ENOTSUP), since they take the process's signal handlers
 * for their own. Of the attributes that speak of what is shared (fds, directory, umask, limits,
 * ignored_signals, CLOSE_FDS, GROUP, SESSION, UNSTEERED) none may be set (-EINVAL).
 * (Process-in-Process: the pthread mode of section 5.) */

#define ONESPACE_SPAWN_HOLD                                                                        \
    256u /* the spawner holds the task's memory from the start: onespace_release(id).              \
            What it exported can be imported that long, also after its end */
#define ONESPACE_SPAWN_NO_MPI_LAYER 512u /* leave MPI's windows to the MPI library */

/* How a task starts. Fill with ONESPACE_SPAWN_ATTR_INIT, then change what differs. Everything not
 * set is inherited from the caller as by fork and exec: descriptors without FD_CLOEXEC, working
 * directory, umask, limits, nice value, CPU affinity, memory policy, signal mask. The caller owns
 * all that is pointed to; it is not used after onespace_spawn returns. */
struct onespace_spawn_attr {
    size_t size;        /* sizeof(struct onespace_spawn_attr): set by the initialiser */
    unsigned flags;     /* ONESPACE_SPAWN_* */
    int directory;      /* descriptor of the working directory, or -1 */
    int umask;          /* file mode creation mask, or -1 */
    int nice;           /* nice value, or INT32_MIN */
    int number, ntasks; /* the task's number among those started together and their count, or -1.
                           A space holds one such group at a time: the next begins, when all of
                           this one have ended, with a number it has had or another count */
    const struct onespace_fd_map *fds;
    size_t fd_count;
    size_t stack_size;           /* bytes of the main thread's stack, 0: the soft RLIMIT_STACK */
    const cpu_set_t *cpus;       /* CPU affinity, or NULL */
    size_t cpus_size;            /* bytes of *cpus */
    const struct rlimit *limits; /* RLIM_NLIMITS entries, or NULL */
    const char *path;            /* search path in place of the caller's PATH, or NULL */
    const sigset_t *signal_mask; /* blocked signals, or NULL */
    const sigset_t *ignored_signals; /* the signals that are ignored, or NULL */
    char *message;       /* gets one line, what is wrong and how to mend it, when the call fails */
    size_t message_size; /* bytes of message */
    /* A function of the program, as int start(void *), that runs in place of main with
     * start_argument; what it returns is the exit status. It is found by name in the program's
     * symbol tables. Not for statically linked programs. (Process-in-Process:
     * pip_spawn_from_func.) */
    const char *start;
    void *start_argument;
    /* A function of the caller's that runs as the new task, right before it enters its program and
     * before close-on-exec descriptors are closed: what fork and exec would leave room for. The
     * calling thread waits meanwhile and lends it its thread-local storage, as with vfork; the
     * function may call what it likes but must return. It has the task's PID, descriptors and
     * signal handlers, and the caller's memory. Other than 0, an error number, makes
     * onespace_spawn fail with it. (Process-in-Process: the `before` hook.) */
    int (*before)(void *before_argument);
    void *before_argument;
    void *data; /* the task gets it from onespace_spawner */
};
#define ONESPACE_SPAWN_ATTR_INIT                                                                   \
    {                                                                                              \
        sizeof(struct onespace_spawn_attr), 0, -1, -1, (-2147483647 - 1), -1, -1, 0, 0, 0, 0, 0,   \
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                                        \
    }

/* Runs a program as a new task, as posix_spawnp would run it as a process: `file` is searched along
 * PATH unless it has a slash, #! lines are followed, argv and envp are NULL-terminated (envp NULL:
 * the caller's environment). The program must be position independent. Callable by any member.
 * Returns the task's id (> 0) once the program has been entered. -ENOENT, -EACCES, -ENOEXEC,
 * -ELIBBAD, -EPERM, -ELOOP as the program's file has it; -ENOSYS when it has no such start
 * function; what `before` returned; -EAGAIN when the table of tasks is full or
 * the kernel has no process to give; -ENOMEM; -EINVAL for a bad attribute. Nothing is left behind
 * by a failure. (Process-in-Process: pip_spawn; section 4 of the HPDC'18 paper.) */
ONESPACE_API ONESPACE_CHECK int onespace_spawn(const char *file, char *const argv[],
                                               char *const envp[],
                                               const struct onespace_spawn_attr *attr);

/* The id of the member that spawned the caller, and in *data (which may be NULL) the pointer that
 * it passed on. -EPERM outside a space; -ENOENT in the root. */
ONESPACE_API int onespace_spawner(void **data);

struct onespace_status {
    int id;
    int pid;
    int status;       /* as waitpid gives it: WIFEXITED and so on apply */
    uint64_t user_us; /* processor time */
    uint64_t system_us;
    uint64_t copies, copied_bytes; /* process_vm_readv/writev between members, in user space */
    uint64_t kernel_copies;        /* those that went to the kernel: other targets, or faults */
    uint64_t attaches;             /* xpmem_attach */
};

/* Waits for the end of a task that the caller spawned, or of any such task (ONESPACE_ANY). A status
 * is given out once; that of a task whose spawner has ended is discarded. Returns the task's id.
 * -ECHILD: no such task, or its status was given out. -ETIMEDOUT. -EOWNERDEAD: the reaper of the
 * space was killed. status may be NULL. */
ONESPACE_API ONESPACE_CHECK int onespace_wait(int id, struct onespace_status *status,
                                              int timeout_ms);

/* Sends a signal to a task (0: only asks whether it lives). -ESRCH when it has ended; -EPERM. */
ONESPACE_API ONESPACE_CHECK int onespace_kill(int id, int signal);

/* The process id of a task or of the root; -ESRCH when it has ended. */
ONESPACE_API int onespace_pid(int id);

/* A futex word (shared by all members) that becomes non-zero when the task has ended; the caller
 * may poll it or wait on it with FUTEX_WAIT. Valid as long as the space; after the task's status
 * was collected its meaning ends. NULL when there is no such task. */
ONESPACE_API const uint32_t *onespace_watch(int id);

/* ---- Sharing ---- */

/* Publishes [address, address+size) under a name of at most ONESPACE_NAME_MAX bytes, unique per
 * task. -EEXIST, -ENAMETOOLONG, -EINVAL (empty name), -ENOSPC (16,384 names in the space). */
ONESPACE_API ONESPACE_CHECK int onespace_export(const char *name, void *address, size_t size);

/* Takes a name back. Holds that importers have stay valid. -ENOENT. */
ONESPACE_API ONESPACE_CHECK int onespace_unexport(const char *name);

/* Gives what task `id` exports under `name`; waits until it does. The import holds the owner's
 * memory, also beyond the owner's end, until onespace_release(id). size may be NULL. -ETIMEDOUT;
 * -EOWNERDEAD when the owner has ended or executed another program (-EDEADLK when it is the caller
 * itself that lacks the name); -ESRCH when there is no such task. */
ONESPACE_API ONESPACE_CHECK int onespace_import(int id, const char *name, void **address,
                                                size_t *size, int timeout_ms);

/* Holds the memory of task `id` without importing anything, until onespace_release(id): for those
 * who got addresses in other ways, which stay valid beyond the owner's end then. -ESRCH: there is
 * no such task; -EOWNERDEAD: its memory is gone; -EOVERFLOW: the caller has 65,535 holds on it. */
ONESPACE_API ONESPACE_CHECK int onespace_hold(int id);

/* Gives one hold on the memory of task `id` back. -EINVAL when the caller has none. */
ONESPACE_API ONESPACE_CHECK int onespace_release(int id);

/* Finds a symbol of a task's program or of its libraries, those opened later included, by reading
 * its ELF tables; symbols that only the file's .symtab names are found too. size may be NULL.
 * A task that is still loading its libraries is waited for, two seconds at most.
 * -ENOENT; -ENOTSUP for thread-local and indirect functions; -ESRCH: there is no such task, or it
 * has ended and nobody holds its memory. The address is valid as long as the task lives or its
 * memory is held (onespace_hold, or spawn with ONESPACE_SPAWN_HOLD). */
ONESPACE_API ONESPACE_CHECK int onespace_lookup(int id, const char *symbol, void **address,
                                                size_t *size);

/* The id of the task whose memory `address` is: its image, libraries, heap, stacks and mappings. 0
 * for the root's and -ENOENT for what is not mapped or not to be told. */
ONESPACE_API int onespace_owner(const void *address);

/* Waits until all tasks that were started together (onespace_ntasks of them) have called it.
 * -EOWNERDEAD when one of them has ended; -ETIMEDOUT takes the caller's arrival back; -ENOENT when
 * the caller has no number. Orders memory: what was written before is seen after. */
ONESPACE_API ONESPACE_CHECK int onespace_barrier(int timeout_ms);

/* "0.1.0" */
ONESPACE_API const char *onespace_version(void);

#ifdef __cplusplus
}
#endif
#endif
