/* src/pip/task.c: the start of tasks, and PIP_STOP_ON_START; their end: exit, abort, signals, and
 * the root's waits. */
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "onespace.h"
#include "base/futex.h"
#include "state.h"

/* ---- PIP_STOP_ON_START=[SCRIPT][@PIPID] ----
 *
 * A new task stops before its program, so that a debugger can be attached. The script, if one is
 * named, gets the task's PID. */

/* Starts the script when the task has stopped. The shell exits at once, so the script is not a
 * child of the task, which does not expect one. $1 PID, $2 the script, $3 PiP id, $4 program. */
static const char await_stop_and_run[] =
    "(while ! grep -q '^State:[[:space:]]*T' /proc/$1/status; do "
    "sleep 0.02; done; exec \"$2\" \"$1\" \"$3\" \"$4\") &";

static void run_script(char *script, int pipid, const char *program)
{
    char pid[16], number[16];
    snprintf(pid, sizeof(pid), "%d", getpid());
    snprintf(number, sizeof(number), "%d", pipid);
    char *argv[] = {"sh",
                    "-c",
                    (char *)(uintptr_t)await_stop_and_run,
                    "sh",
                    pid,
                    script,
                    number,
                    (char *)(uintptr_t)program,
                    NULL};
    pid_t child;
    if (posix_spawn(&child, "/bin/sh", NULL, NULL, argv, environ) == 0)
        waitpid(child, NULL, 0);
}

static void stop_on_start(const char *setting, int pipid, const char *program)
{
    char script[4096];
    if (!setting)
        return;
    size_t length = strcspn(setting, "@");
    const char *target = setting[length] ? setting + length + 1 : "";
    char *end;
    long number = strtol(target, &end, 10);
    if ((*target && number >= 0 && number != pipid) || length >= sizeof(script))
        return;
    memcpy(script, setting, length);
    script[length] = 0;
    if (length && access(script, X_OK) != 0) {
        pip_warn_mesg("%s=%s: %s cannot be executed: %s", PIP_ENV_STOP_ON_START, setting, script,
                      strerror(errno));
        return;
    }
    pip_info_mesg("task %d (PID %d) stops; kill -CONT %d continues it", pipid, getpid(), getpid());
    if (length)
        run_script(script, pipid, program);
    kill(getpid(), SIGSTOP);
}

/* ---- CPUs and stack of a new task ---- */

static cpu_set_t usable_cpus;

/* Determines all CPUs that the kernel allows, not only those of the current affinity: the kernel
 * reduces a full set to them. */
void spawn_find_usable_cpus(void)
{
    cpu_set_t mine, all;
    memset(&all, 0xff, sizeof(all));
    if (sched_getaffinity(0, sizeof(mine), &mine) != 0)
        return;
    usable_cpus = mine;
    if (sched_setaffinity(0, sizeof(all), &all) == 0) {
        sched_getaffinity(0, sizeof(usable_cpus), &usable_cpus);
        sched_setaffinity(0, sizeof(mine), &mine);
    }
}

static int choose_cpu(uint32_t coreno, cpu_set_t *cpus)
{
    uint32_t flags = coreno & PIP_CPUCORE_FLAG_MASK, number = coreno & PIP_CPUCORE_CORENO_MASK;
    if ((flags & ~PIP_CPUCORE_ABS) || number >= PIP_CPUCORE_CORENO_MAX)
        return EINVAL;
    CPU_ZERO(cpus);
    if (flags) {
        if (number >= CPU_SETSIZE)
            return EINVAL;
        CPU_SET(number, cpus);
        return 0;
    }
    int count = CPU_COUNT(&usable_cpus);
    number = count ? number % (uint32_t)count : 0;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &usable_cpus) && number-- == 0) {
            CPU_SET(i, cpus);
            break;
        }
    return 0;
}

/* Parses a number of bytes with an optional suffix T, G, M, K or B; 0: invalid. */
static size_t parse_size(const char *text)
{
    static const char units[] = "BKMGT";
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end >= 'a' ? *end - 'a' + 'A' : *end) : units;
    if (end == text || *text == '-' || errno || !unit || (*end && end[1]))
        return 0;
    unsigned shift = 10 * (unsigned)(unit - units);
    return value > (SIZE_MAX >> shift) ? SIZE_MAX : (size_t)value << shift;
}

/* Returns the size of the main stack that the environment sets; 0: the resource limit. */
static size_t stack_bytes(void)
{
    static const char *const names[] = {PIP_ENV_STACKSZ, "KMP_STACKSIZE", "GOMP_STACKSIZE",
                                        "OMP_STACKSIZE"};
    const size_t max = (size_t)1 << 30; /* a task has 2 GiB of addresses for it */
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *text = getenv(names[i]);
        size_t size = text && *text ? parse_size(text) : 0;
        if (text && *text && size == 0 && i == 0)
            pip_warn_mesg("%s=%s: not a size such as 16M", names[i], text);
        if (size)
            return size < PIP_STACK_SIZE_MIN ? PIP_STACK_SIZE_MIN : size > max ? max : size;
    }
    return 0;
}

/* ---- Starting the task ---- */

struct start {
    const char *program, *stop;
    int pipid, mode;
    pip_spawn_hook_t hook;
};

/* Runs in the new task, before its program. */
static int before_program(void *argument)
{
    const struct start *start = argument;
    const char *slash = strrchr(start->program, '/');
    char name[24];
    snprintf(name, sizeof(name), "%d%c%.13s", start->pipid % 10, mode_sign(start->mode),
             slash ? slash + 1 : start->program);
    prctl(PR_SET_NAME, name);
    if (start->mode != PIP_MODE_PTHREAD) /* the signal would also stop the root */
        stop_on_start(start->stop, start->pipid, start->program);
    return start->hook.before ? start->hook.before(start->hook.hookarg) : 0;
}

static int open_program(const char *program)
{
    char path[PATH_MAX];
    const char *directory = getenv("PATH");
    int fd = strchr(program, '/') ? open(program, O_RDONLY | O_CLOEXEC) : -1;
    while (fd < 0 && !strchr(program, '/') && directory && *directory) {
        size_t length = strcspn(directory, ":");
        snprintf(path, sizeof(path), "%.*s/%s", (int)length, length ? directory : ".", program);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        directory += length + (directory[length] == ':');
    }
    return fd;
}

/* Returns the error for a file that cannot be a task: Process-in-Process has three. */
static int unsuitable_program_error(const char *program)
{
    Elf64_Ehdr header;
    int fd = open_program(program);
    ssize_t size = fd >= 0 ? read(fd, &header, sizeof(header)) : -1;
    if (fd >= 0)
        close(fd);
    if (size < SELFMAG || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return ELIBBAD;
    return size == sizeof(header) && header.e_type == ET_EXEC ? ELIBEXEC : ENOEXEC;
}

static int start_task(struct state *state, struct record *record, pip_spawn_program_t *program,
                      uint32_t coreno, pip_spawn_hook_t *hook)
{
    struct onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
    char message[1024] = "", *argv[] = {program->prog, NULL};
    struct start start = {
        program->prog, getenv(PIP_ENV_STOP_ON_START), record->pipid, state->mode, {0}};
    cpu_set_t cpus;
    if (hook)
        start.hook = *hook;
    attr.flags = ONESPACE_SPAWN_HOLD;
    if (state->mode == PIP_MODE_PTHREAD)
        attr.flags |= ONESPACE_SPAWN_THREAD;
    attr.stack_size = stack_bytes();
    if (coreno != PIP_CPUCORE_ASIS) {
        if (choose_cpu(coreno, &cpus))
            return EINVAL;
        attr.cpus = &cpus;
        attr.cpus_size = sizeof(cpus);
    }
    attr.message = message;
    attr.message_size = sizeof(message);
    attr.start = program->funcname;
    attr.start_argument = program->arg;
    attr.before = before_program;
    attr.before_argument = &start;
    attr.data = record;
    int id = onespace_spawn(program->prog, program->funcname ? argv : program->argv, program->envv,
                            &attr);
    if (id < 0) {
        pip_err_mesg("%s", message[0] ? message : strerror(-id));
        return id == -ENOEXEC  ? unsuitable_program_error(program->prog)
               : id == -ENOSYS ? ENOEXEC
                               : -id;
    }
    atomic_store(&record->id, id);
    return 0;
}

static int find_free_record(struct state *state, int pipid, struct record **found)
{
    int first = pipid == PIP_PIPID_ANY ? 0 : pipid;
    int last = pipid == PIP_PIPID_ANY ? state->ntasks - 1 : pipid;
    for (int i = first; i <= last; i++)
        if (atomic_load(&state->records[i].state) == RECORD_FREE) {
            *found = &state->records[i];
            return 0;
        }
    if (pipid == PIP_PIPID_ANY)
        pip_err_mesg("all %d PiP ids are in use: wait for tasks, or give pip_init more",
                     state->ntasks);
    return pipid == PIP_PIPID_ANY ? EAGAIN : EBUSY;
}

/* Clears the record of an earlier task with that PiP id. */
static void prepare_record(struct record *record, const pip_spawn_program_t *program, uint32_t opts,
                           const pip_spawn_hook_t *hook)
{
    if (record->held)
        (void)!onespace_release(record->held);
    record->held = 0;
    record->after = hook ? hook->after : NULL;
    record->hookarg = hook ? hook->hookarg : NULL;
    record->any_end = (opts & PIP_HOOK_ANY_END) != 0;
    atomic_store(&record->export, NULL);
    atomic_store(&record->returned, NULL);
    atomic_store(&record->aux, program->aux);
    atomic_store(&record->state, RECORD_STARTING);
}

static int spawn_locked(pip_spawn_program_t *program, uint32_t coreno, uint32_t opts, int *pipid,
                        pip_spawn_hook_t *hook)
{
    struct state *state = state_mine();
    struct record *record = NULL;
    int result = find_free_record(state, *pipid, &record);
    if (result)
        return result;
    prepare_record(record, program, opts, hook);
    result = start_task(state, record, program, coreno, hook);
    *pipid = record->pipid;
    /* Release: a reader that sees ALIVE sees the id. */
    atomic_store_explicit(&record->state, result ? RECORD_FREE : RECORD_ALIVE,
                          memory_order_release);
    futex_bump(&state->changes);
    return result;
}

int pip_task_spawn(pip_spawn_program_t *progp, uint32_t coreno, uint32_t opts, int *pipidp,
                   pip_spawn_hook_t *hookp)
{
    int pipid = pipidp ? *pipidp : PIP_PIPID_ANY;
    cpu_set_t unused;
    if (!progp)
        return EINVAL;
    if (!state_is_root())
        return EPERM;
    if (!progp->prog || (!progp->funcname && (!progp->argv || !progp->argv[0])) ||
        (opts & ~(PIP_VALID_OPTS | PIP_HOOK_ANY_END)) ||
        (pipid != PIP_PIPID_ANY && (pipid < 0 || pipid >= state_mine()->ntasks)) ||
        (coreno != PIP_CPUCORE_ASIS && choose_cpu(coreno, &unused)))
        return EINVAL;
    pthread_mutex_lock(&root_lock);
    int result = spawn_locked(progp, coreno, opts, &pipid, hookp);
    pthread_mutex_unlock(&root_lock);
    if (result == 0 && pipidp)
        *pipidp = pipid;
    return result;
}

int pip_spawn(char *filename, char **argv, char **envv, int coreno, int *pipidp,
              pip_spawnhook_t before, pip_spawnhook_t after, void *hookarg)
{
    pip_spawn_program_t program;
    pip_spawn_hook_t hook;
    if (!filename)
        return EINVAL;
    pip_spawn_from_main(&program, filename, argv, envv, NULL);
    pip_spawn_hook(&hook, before, after, hookarg);
    return pip_task_spawn(&program, (uint32_t)coreno, 0, pipidp, &hook);
}

/* ---- Waiting for tasks: root only ---- */

/* The status of tasks that died with the reaper. */
static const struct onespace_status killed = {.status = SIGKILL};

/* Frees the PiP id and runs the after hook. The task's memory stays until the PiP id is used again.
 * root_lock orders this after the store of the id by a thread that has just spawned the task. */
static int collect(struct state *state, int id, const struct onespace_status *end, int *pipidp,
                   int *statusp)
{
    int status = end->status;
    pthread_mutex_lock(&root_lock);
    struct record *record = state_record_of(state, id);
    if (record && atomic_load(&record->state) != RECORD_ALIVE)
        record = NULL;
    int runs_hook = record && (end->by_exit || record->any_end);
    pip_spawnhook_t after = runs_hook ? record->after : NULL;
    void *hookarg = record ? record->hookarg : NULL;
    int pipid = record ? record->pipid : 0;
    if (record) {
        record->held = id;
        atomic_store_explicit(&record->state, RECORD_FREE, memory_order_release);
        futex_bump(&state->changes);
    }
    pthread_mutex_unlock(&root_lock);
    if (!record)
        return ECHILD;
    int error = after ? after(hookarg) : 0;
    if (error) {
        pip_err_mesg("the after hook of task %d returned %d", pipid, error);
        if (status == 0)
            status = (error & 0xff) << 8;
    }
    if (pipidp)
        *pipidp = pipid;
    if (statusp)
        *statusp = status;
    return 0;
}

static int wait_task(int pipid, int *statusp, int timeout_ms)
{
    struct record *record;
    struct onespace_status status;
    int result = state_find(pipid, &record);
    if (result)
        return result;
    if (!state_is_root())
        return EPERM;
    struct state *state = state_mine();
    if (record == state_root(state))
        return EDEADLK;
    if (atomic_load_explicit(&record->state, memory_order_acquire) != RECORD_ALIVE)
        return ECHILD;
    int id = atomic_load(&record->id);
    result = onespace_wait(id, &status, timeout_ms);
    if (result == -EOWNERDEAD) /* the reaper was killed, and all tasks with it */
        return collect(state, id, &killed, NULL, statusp);
    return result < 0 ? ECHILD : collect(state, id, &status, NULL, statusp);
}

int pip_wait(int pipid, int *status)
{
    return wait_task(pipid, status, -1);
}

int pip_trywait(int pipid, int *status)
{
    return wait_task(pipid, status, 0);
}

static int find_alive(struct state *state)
{
    for (int i = 0; i < state->ntasks; i++)
        if (atomic_load(&state->records[i].state) == RECORD_ALIVE)
            return atomic_load(&state->records[i].id);
    return 0;
}

static int wait_any(int *pipidp, int *statusp, int timeout_ms)
{
    struct onespace_status status;
    if (!state_is_root())
        return EPERM;
    struct state *state = state_mine();
    for (;;) {
        int alive = find_alive(state);
        if (!alive)
            return ECHILD;
        int id = onespace_wait(ONESPACE_ANY, &status, timeout_ms);
        int result = id == -EOWNERDEAD ? collect(state, alive, &killed, pipidp, statusp)
                     : id < 0          ? ECHILD
                                       : collect(state, id, &status, pipidp, statusp);
        if (id < 0 || result == 0)
            return result;
        /* ECHILD: a task of the native interface; wait for the next. */
    }
}

int pip_wait_any(int *pipid, int *status)
{
    return wait_any(pipid, status, -1);
}

int pip_trywait_any(int *pipid, int *status)
{
    return wait_any(pipid, status, 0);
}

/* ---- Exit and signals ---- */

void pip_exit(int status)
{
    exit(status);
}

int pip_kill_all_child_tasks(void)
{
    if (!state_is_root())
        return EPERM;
    struct state *state = state_mine();
    for (int i = 0; i < state->ntasks; i++)
        if (atomic_load_explicit(&state->records[i].state, memory_order_acquire) == RECORD_ALIVE)
            (void)!onespace_kill(atomic_load(&state->records[i].id), SIGKILL);
    return 0;
}

/* The caller ends even if the root catches SIGABRT and continues. */
void pip_abort(void)
{
    enum { ROOT_TIMEOUT_S = 2 };
    if (state_is_root()) {
        if (state_mine()->mode != PIP_MODE_PTHREAD) /* SIGKILL would end all, before SIGABRT */
            (void)pip_kill_all_child_tasks();
    } else if (state_self()) {
        (void)pip_kill(PIP_PIPID_ROOT, SIGABRT);
        sleep(ROOT_TIMEOUT_S);
    }
    abort();
}

/* In thread mode a task that waits for the signal could take one that is sent to the process. */
static int kill_main_thread(int pid, int signal)
{
    return syscall(SYS_tgkill, pid, pid, signal) == 0 ? 0 : errno;
}

int pip_kill(int pipid, int signal)
{
    struct record *record;
    int result = state_find_alive(pipid, &record);
    if (result)
        return result;
    struct state *state = state_mine();
    if (state->mode == PIP_MODE_PTHREAD && record == state_root(state))
        return kill_main_thread(onespace_pid(state_id(record)), signal);
    return -onespace_kill(state_id(record), signal);
}

int pip_sigmask(int how, const sigset_t *sigmask, sigset_t *oldmask)
{
    return state_self() ? pthread_sigmask(how, sigmask, oldmask) : EPERM;
}

int pip_signal_wait(int signal)
{
    sigset_t set;
    int caught;
    if (!state_self())
        return EPERM;
    sigemptyset(&set);
    if (sigaddset(&set, signal) != 0)
        return EINVAL;
    return sigwait(&set, &caught);
}

pid_t pip_gettid(void)
{
    return (pid_t)syscall(SYS_gettid);
}
