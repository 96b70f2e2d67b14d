/* pip/pip.h: the interface of Process-in-Process, on top of onespace.
 *
 * Programs that are written for Process-in-Process 2.4 compile with this header and link with
 * -lpip, unchanged and with any compiler. Types, values and error numbers are those of
 * https://github.com/procinproc/PiP (branch pip-2, version 2.4.1); docs/pip.md lists the
 * differences. (A. Hori et al., "Process-in-Process: Techniques for Practical Address-Space
 * Sharing", HPDC'18; section 3.4 has the first form of this interface.)
 *
 * Words. The PiP root is the process that called pip_init first; PiP tasks are the programs that
 * it spawned, numbered by PiP ids from 0 to one less than the number given to pip_init. Both are
 * members of one space (onespace.h), and can access all of one another's memory.
 *
 * Conventions. Functions return 0 or a positive error number; out-parameters may be NULL and are
 * untouched on failure. A task need not call pip_init. Functions that need the library return EPERM
 * when it is not initialised: before pip_init in the root, after pip_fin, in a forked child, and in
 * a program that no PiP root spawned. Functions that take a PiP id accept PIP_PIPID_MYSELF (the
 * caller) and PIP_PIPID_ROOT, and return EINVAL for PIP_PIPID_ANY and PIP_PIPID_NULL, ERANGE for a
 * number that is not a task's. All of them may be called by any thread; none by a signal handler.
 * Since onespace 0.1.0. */
#ifndef PIP_PIP_H
#define PIP_PIP_H

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h> /* sigset_t, which <signal.h> has not under -std=c11 */
#include <sys/types.h>

#define PIP_OPTS_NONE 0x0
/* For pip_task_spawn, of onespace alone: `after` is called in any case, also after a signal. */
#define PIP_HOOK_ANY_END 0x1000000U

/* Execution modes, for pip_init and pip_get_mode. Process mode: a task has descriptors, signal
 * handlers and a PID of its own; both process modes are the same here. Thread mode: it shares them
 * with the root, and a crash ends all; see ONESPACE_SPAWN_THREAD in onespace.h. */
#define PIP_MODE_PTHREAD          0x1000U
#define PIP_MODE_PROCESS_PRELOAD  0x0100U
#define PIP_MODE_PROCESS_PIPCLONE 0x0400U
#define PIP_MODE_PROCESS_GOT_OBS  0x8000U /* obsolete */
#define PIP_MODE_MASK             0xFF00U
#define PIP_MODE_PROCESS          (PIP_MODE_PROCESS_PRELOAD | PIP_MODE_PROCESS_PIPCLONE)
#define PIP_VALID_OPTS                                                                             \
    (PIP_MODE_PTHREAD | PIP_MODE_PROCESS_PRELOAD | PIP_MODE_PROCESS_GOT_OBS |                      \
     PIP_MODE_PROCESS_PIPCLONE)

/* Environment: the execution mode if pip_init gets none, and its values. */
#define PIP_ENV_MODE                  "PIP_MODE"
#define PIP_ENV_MODE_THREAD           "thread"
#define PIP_ENV_MODE_PTHREAD          "pthread"
#define PIP_ENV_MODE_PROCESS          "process"
#define PIP_ENV_MODE_PROCESS_PRELOAD  "process:preload"
#define PIP_ENV_MODE_PROCESS_PIPCLONE "process:pipclone"
#define PIP_ENV_MODE_PROCESS_GOT      "process:got"
/* Environment: docs/pip.md explains each. */
#define PIP_ENV_STOP_ON_START "PIP_STOP_ON_START"
#define PIP_ENV_GDB_PATH      "PIP_GDB_PATH"
#define PIP_ENV_GDB_COMMAND   "PIP_GDB_COMMAND"
#define PIP_ENV_GDB_SIGNALS   "PIP_GDB_SIGNALS"
#define PIP_ENV_SHOW_MAPS     "PIP_SHOW_MAPS"
#define PIP_ENV_SHOW_PIPS     "PIP_SHOW_PIPS"
#define PIP_ENV_QUIET         "PIP_QUIET"
#define PIP_ENV_STACKSZ       "PIP_STACKSIZE"

#define PIP_STACK_SIZE     (16 * 1024 * 1024LU)
#define PIP_STACK_SIZE_MIN (4 * 1024 * 1024LU)
#define PIP_STACK_SIZE_MAX (1014 * 1024 * 1024 * 1024LU)

#define PIP_MAGIC_NUM    (-747)
#define PIP_PIPID_ROOT   (PIP_MAGIC_NUM - 1)
#define PIP_PIPID_MYSELF (PIP_MAGIC_NUM - 2)
#define PIP_PIPID_ANY    (PIP_MAGIC_NUM - 3)
#define PIP_PIPID_NULL   (PIP_MAGIC_NUM - 4)
#define PIP_PIPID_SELF   PIP_PIPID_MYSELF

#define PIP_NTASKS_MAX 300

/* Where a task runs: the n-th CPU that the root may use (modulo their number), PIP_CPUCORE_ABS | n
 * for the CPU that the kernel numbers n, or PIP_CPUCORE_ASIS. */
#define PIP_CPUCORE_FLAG_SHIFT  24
#define PIP_CPUCORE_FLAG_MASK   (0xFFU << PIP_CPUCORE_FLAG_SHIFT)
#define PIP_CPUCORE_CORENO_MAX  (1U << 20)
#define PIP_CPUCORE_ASIS        (0x1U << PIP_CPUCORE_FLAG_SHIFT)
#define PIP_CPUCORE_ABS         (0x2U << PIP_CPUCORE_FLAG_SHIFT)
#define PIP_CPUCORE_CORENO_MASK ((0x1U << PIP_CPUCORE_FLAG_SHIFT) - 1)

#define PIP_YIELD_DEFAULT 0x0U
#define PIP_YIELD_USER    0x1U
#define PIP_YIELD_SYSTEM  0x2U

#define PIP_HAVE_LDPIP /* programs start at functions that only their symbol table names */

#ifndef INLINE
#define INLINE inline static
#endif

/* What to run. Filled by pip_spawn_from_main or pip_spawn_from_func. */
typedef struct {
    char *prog;
    char **argv;
    char **envv;
    char *funcname;
    void *arg;
    void *aux;
    void *reserved[2];
} pip_spawn_program_t;

typedef int (*pip_spawnhook_t)(void *);

/* Functions that the root calls before and after. Filled by pip_spawn_hook. */
typedef struct {
    pip_spawnhook_t before;
    pip_spawnhook_t after;
    void *hookarg;
    void *reserved[5];
} pip_spawn_hook_t;

typedef uintptr_t pip_id_t;

/* Zeroed memory is not a barrier: pip_barrier_init makes one. */
typedef struct pip_barrier {
    int count_init;
    volatile uint32_t count;
    volatile int gsense;
    sem_t semaphore[2]; /* unused; keeps the layout */
} pip_barrier_t;

/* Zeroed memory is an unlocked mutex. */
typedef struct pip_mutex {
    volatile uint32_t word;
    uint32_t owner;
    uint32_t reserved[6];
} pip_mutex_t;

#ifdef __cplusplus
extern "C" {
#endif

extern char **environ;

/* ---- Initialisation ---- */

/* In the root: makes the space for at most *ntasksp tasks (NULL: PIP_NTASKS_MAX); *root_expp, if
 * given, is the root's export. opts is 0 or an execution mode; the mode in the environment must
 * agree with it. *pipidp becomes PIP_PIPID_ROOT. In a task: returns its PiP id, the root's number
 * of tasks and, if there is one, the root's export. EINVAL: *ntasksp is not positive, or the mode
 * does not exist. EOVERFLOW: *ntasksp is above PIP_NTASKS_MAX. EBUSY: called by the root before.
 * EPERM: the mode is not possible. ENOMEM, ENOSYS: the machine does not allow a space (`onespace
 * doctor`). ELIBSCN: the root has another version of this library. (HPDC'18, figure 3.) */
int pip_init(int *pipidp, int *ntasksp, void **root_expp, int opts);

/* Ends the library's part in the caller. In the root, when all tasks have been waited for; EBUSY
 * otherwise. Unmaps memory of ended tasks. */
int pip_fin(void);

/* ---- Spawning ---- */

/* Fills *progp to run a program from main. prog NULL means argv[0]; envv NULL the caller's
 * environment. The caller keeps the memory behind all pointers until the spawn has returned. The
 * task's pip_get_aux returns aux. */
INLINE void pip_spawn_from_main(pip_spawn_program_t *progp, char *prog, char **argv, char **envv,
                                void *aux)
{
    memset(progp, 0, sizeof(*progp));
    progp->prog = prog != NULL ? prog : argv[0];
    progp->argv = argv;
    progp->envv = envv != NULL ? envv : environ;
    progp->aux = aux;
}

/* The same to run the program's function `int funcname(void *)` with arg in place of main. The
 * function is found in the program's symbol tables: it need not be exported unless the program is
 * stripped. Its result is the exit status. */
INLINE void pip_spawn_from_func(pip_spawn_program_t *progp, char *prog, char *funcname, void *arg,
                                char **envv, void *aux)
{
    memset(progp, 0, sizeof(*progp));
    progp->prog = prog;
    progp->funcname = funcname;
    progp->arg = arg;
    progp->envv = envv != NULL ? envv : environ;
    progp->aux = aux;
}

/* Fills *hook. before(hookarg) runs as the new task, in the root's memory, right before the
 * program; the spawning thread waits meanwhile (onespace_spawn: `before`). Its result, if not 0,
 * fails the spawn. after(hookarg) runs in the root, when the end of a task is waited for that ended
 * by exit or by a return from main; not after _exit or a signal, unless the task was spawned with
 * PIP_HOOK_ANY_END. Its result, if not 0, becomes the exit status of a task that ended with 0. */
INLINE void pip_spawn_hook(pip_spawn_hook_t *hook, pip_spawnhook_t before, pip_spawnhook_t after,
                           void *hookarg)
{
    memset(hook, 0, sizeof(*hook));
    hook->before = before;
    hook->after = after;
    hook->hookarg = hookarg;
}

/* Spawns a task, as the PiP id *pipidp or, with PIP_PIPID_ANY or NULL, the lowest that is free.
 * opts is 0 or PIP_HOOK_ANY_END. hookp may be NULL. Root only. EPERM: not the root. EINVAL: no
 * program, a bad PiP id, core number or opts. EBUSY: the PiP id is in use. EAGAIN: all PiP ids are
 * in use. ENOENT, EACCES: no such program, or not executable. ELIBEXEC: not position independent.
 * ELIBBAD: no program, or truncated. ENOEXEC: it cannot be a task, or has no such function. ENOMEM.
 * Also the result of `before`. A message says more (PIP_QUIET silences it). */
int pip_task_spawn(pip_spawn_program_t *progp, uint32_t coreno, uint32_t opts, int *pipidp,
                   pip_spawn_hook_t *hookp);

/* The older form. (HPDC'18, figure 3.) */
int pip_spawn(char *filename, char **argv, char **envv, int coreno, int *pipidp,
              pip_spawnhook_t before, pip_spawnhook_t after, void *hookarg);

/* ---- Sharing addresses ---- */

/* Publishes an address under a name, made as by printf; a NULL format is the name "". The name
 * lasts until another task gets the caller's PiP id. EBUSY: the caller has that name already.
 * ENAMETOOLONG: above 91 bytes. ENOMEM: the space has no room for more names (16,384 in all). */
int pip_named_export(void *exp, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns the export of a task under a name; waits until there is one, also for a task that is not
 * spawned yet. Exports can be imported after the task's end, and stay mapped, until another task
 * gets its PiP id; imported memory stays until the importer ends or imports from the next.
 * ECANCELED: the task has ended without that name, or executed another program. EDEADLK: the caller
 * waits for itself, or the root for a task that it has not spawned. ENAMETOOLONG. */
int pip_named_import(int pipid, void **expp, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same without waiting: EAGAIN when there is no such name yet. */
int pip_named_tryimport(int pipid, void **expp, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Deprecated: one address per member, without a name; pip_import returns NULL when there is none.
 * EINVAL: NULL. EBUSY: exported already. ESRCH: the task is not alive. */
int pip_export(void *exp);
int pip_import(int pipid, void **expp);

/* A pointer of the caller's own choice; a task's is at first the one given by the spawn. */
int pip_set_aux(void *aux);
int pip_get_aux(void **auxp);

/* The address of a global symbol of a task or of the root, by name. Waits for a task that is still
 * loading its libraries. Works for an ended task until its PiP id is reused. EINVAL: no name.
 * ENOENT: no such symbol, and *addrp is NULL. ESRCH: no task had that PiP id yet, or it has
 * executed another program. (HPDC'18, figure 3.) */
int pip_get_addr(int pipid, const char *name, void **addrp);

/* ---- Waiting for tasks; root only ---- */

/* Waits for a task's end; *status is as from waitpid. The PiP id is free afterwards. EPERM: not the
 * root. EDEADLK: the root itself. ECHILD: there is no such task, or it was waited for; for the
 * `try` forms also: it lives. */
int pip_wait(int pipid, int *status);
int pip_trywait(int pipid, int *status);
/* The same for any task. */
int pip_wait_any(int *pipid, int *status);
int pip_trywait_any(int *pipid, int *status);

/* ---- Questions ---- */

int pip_get_pipid(int *pipidp);
int pip_is_initialized(void); /* not 0: yes */
int pip_get_ntasks(int *ntasksp);
int pip_get_mode(int *modep);
const char *pip_get_mode_str(void); /* a constant; NULL when not initialised */
/* The PID of a task or of the root; in thread mode they have the same. ESRCH: not alive. */
int pip_get_system_id(int pipid, pip_id_t *idp);
int pip_isa_root(void);
int pip_isa_task(void);
int pip_is_threaded(int *flagp);
int pip_is_shared_fd(int *flagp);
double pip_gettime(void); /* the time of day in seconds */

/* ---- Ends and signals ---- */

/* Ends the caller as exit does. */
void pip_exit(int status) __attribute__((noreturn));
/* Kills all tasks (SIGKILL). Root only: EPERM. */
int pip_kill_all_child_tasks(void);
/* Ends the root by SIGABRT, and all tasks with it. */
void pip_abort(void) __attribute__((noreturn));
/* EINVAL: no such signal. ESRCH: the task is not alive. */
int pip_kill(int pipid, int signal);
/* As pthread_sigmask. */
int pip_sigmask(int how, const sigset_t *sigmask, sigset_t *oldmask);
/* Waits for a signal that the caller has blocked. EINVAL: no such signal. */
int pip_signal_wait(int signal);

/* ---- Synchronisation ---- */

int pip_yield(int flag);

/* A barrier for n threads of any members, in memory of the caller's choice. It does not know its
 * members: if one ends, the others wait forever (unlike onespace_barrier). EINVAL: n is not
 * positive, or NULL. pip_barrier_fin: EBUSY when a thread waits. (HPDC'18, figure 3.) */
int pip_barrier_init(pip_barrier_t *barrp, int n);
int pip_barrier_wait(pip_barrier_t *barrp);
int pip_barrier_fin(pip_barrier_t *barrp);

/* A mutex for all members' threads, as in version 3. EDEADLK: the caller's thread has it.
 * EOWNERDEAD: its owner ended; the caller has it now, and the protected data may be inconsistent.
 * pip_mutex_unlock: EPERM when the caller's thread does not own it. pip_mutex_fin: EBUSY when it is
 * locked. EINVAL: NULL. */
int pip_mutex_init(pip_mutex_t *mutex);
int pip_mutex_lock(pip_mutex_t *mutex);
int pip_mutex_unlock(pip_mutex_t *mutex);
int pip_mutex_fin(pip_mutex_t *mutex);

/* ---- What Process-in-Process declares without documenting it ---- */

/* As the functions without pip_, but pip_free accepts memory from another member's pip_malloc: that
 * member reuses it after its next call of one of these. */
void *pip_malloc(size_t size);
size_t pip_malloc_usable_size(void *memory);
void pip_free(void *memory);
void *pip_calloc(size_t count, size_t size);
void *pip_realloc(void *memory, size_t size);
int pip_posix_memalign(void **memory, size_t alignment, size_t size);

/* As the functions without pip_ (and _unsafe): each task has its own dynamic linker. */
void *pip_dlopen(const char *file, int flags);
void *pip_dlopen_unsafe(const char *file, int flags);
void *pip_dlmopen(long space, const char *file, int flags);
void *pip_dlsym(void *handle, const char *symbol);
void *pip_dlsym_unsafe(void *handle, const char *symbol);
int pip_dlclose(void *handle);
char *pip_dlerror(void);
int pip_dlinfo(void *handle, int request, void *info);

pid_t pip_gettid(void);
void pip_libc_lock(void); /* no-ops: each task has its own libc */
void pip_libc_unlock(void);
void pip_universal_lock(void); /* one mutex for the root and its tasks; not recursive */
void pip_universal_unlock(void);
void pip_debug_info(void); /* prints what PIP_SHOW_MAPS, PIP_SHOW_PIPS and PIP_GDB_PATH select */
/* Writes "[TID(who)]" of the caller; returns the bytes of `buffer` that are left. */
size_t pip_idstr(char *buffer, size_t size);

/* One line to standard error, or `file`; nothing when PIP_QUIET is set. */
void pip_info_fmesg(FILE *file, const char *format, ...) __attribute__((format(printf, 2, 3)));
void pip_info_mesg(const char *format, ...) __attribute__((format(printf, 1, 2)));
void pip_warn_mesg(const char *format, ...) __attribute__((format(printf, 1, 2)));
void pip_err_mesg(const char *format, ...) __attribute__((format(printf, 1, 2)));

#ifdef __cplusplus
}
#endif
#endif
