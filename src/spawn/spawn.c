/* src/spawn/spawn.c: onespace_spawn, from the program's name to a task that runs it.
 *
 * Before the kernel task exists, the caller claims a slot, maps the program or its dynamic linker
 * (images.c) and the stack (stack.c), and fills the record from which the child sets itself up.
 * undo() reverts all of it. Then the caller, or the reaper for the root and for tasks that are
 * threads of the root's process, clones (child.c), and the caller waits until the child enters its
 * program or reports why it cannot; or not, if nothing can fail any more and the reaper reports the
 * start. A child that fails ends, and the reaper reclaims what it had. */
#include "onespace.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arch/remote_call.h"
#include "arch/keys.h"
#include "base/file_identity.h"
#include "base/page.h"
#include "base/raw.h"
#include "interpose/guard/guard.h"
#include "interpose/memory/memory.h"
#include "policy/policy.h"
#include "space/locks.h"
#include "space/member.h"
#include "spawn/spawn.h"
#include "spawn/internal.h"

extern char **environ;

#define ALL_FLAGS                                                                                  \
    (ONESPACE_SPAWN_DETACHED | ONESPACE_SPAWN_CLOSE_FDS | ONESPACE_SPAWN_GROUP |                   \
     ONESPACE_SPAWN_HEAP_TUNED | ONESPACE_SPAWN_NO_INTERPOSE | ONESPACE_SPAWN_TOGETHER |           \
     ONESPACE_SPAWN_SESSION | ONESPACE_SPAWN_HOLD | ONESPACE_SPAWN_THREAD |                        \
     ONESPACE_SPAWN_NO_MPI_LAYER | ONESPACE_SPAWN_OWN_MAPPINGS | ONESPACE_SPAWN_COLLECTIVES |      \
     ONESPACE_SPAWN_COLLECTIVES_AT_ONCE | ONESPACE_SPAWN_CALLS | ONESPACE_SPAWN_GUARD |            \
     ONESPACE_SPAWN_GUARD_REPORT | ONESPACE_SPAWN_PROGRESS)

/* Flags that exclude guard mode. A program that is not interposed maps memory without its key, a
 * thread has its process's handlers, and a call needs the rights of two members. */
#define UNGUARDED_FLAGS (ONESPACE_SPAWN_NO_INTERPOSE | ONESPACE_SPAWN_THREAD | ONESPACE_SPAWN_CALLS)

/* Writes the message, if the caller wants one, and returns `error`. */
static int fail(const struct onespace_spawn_attr *attr, int error, const char *file,
                const char *what, const char *fix)
{
    if (attr->message && attr->message_size)
        snprintf(attr->message, attr->message_size, "%s: %s%s%s", file, what,
                 fix && *fix ? ": " : "", fix ? fix : "");
    return error;
}

/* Rejects attributes that a thread shares with its process. */
static int check_thread_attr(const struct onespace_spawn_attr *attr)
{
    unsigned impossible = ONESPACE_SPAWN_CLOSE_FDS | ONESPACE_SPAWN_GROUP | ONESPACE_SPAWN_SESSION |
                          ONESPACE_SPAWN_NO_INTERPOSE | ONESPACE_SPAWN_CALLS;
    return (attr->flags & impossible) || attr->fd_count || attr->directory >= 0 ||
                   attr->umask >= 0 || attr->limits || attr->ignored_signals
               ? -EINVAL
               : 0;
}

static int check_attr(const struct onespace_spawn_attr *given, struct onespace_spawn_attr *attr)
{
    static const struct onespace_spawn_attr defaults = ONESPACE_SPAWN_ATTR_INIT;
    *attr = defaults;
    if (given && given->size != sizeof(*given))
        return -EINVAL;
    if (given)
        *attr = *given;
    if ((attr->flags & ~ALL_FLAGS) || attr->fd_count > CHILD_FDS_MAX ||
        (attr->fd_count && !attr->fds) || attr->number < -1 ||
        (attr->number >= 0 && attr->number >= attr->ntasks) || attr->ntasks > ONESPACE_TASKS_MAX ||
        attr->stack_size > LAYOUT_RANGE - LAYOUT_STACK - 2 * LAYOUT_STACK_GUARD)
        return -EINVAL;
    for (size_t i = 0; i < attr->fd_count; i++)
        if (attr->fds[i].source < 0 || attr->fds[i].target < 0)
            return -EINVAL;
    if ((attr->flags & ONESPACE_SPAWN_PROGRESS) &&
        (attr->flags & (ONESPACE_SPAWN_THREAD | ONESPACE_SPAWN_NO_MPI_LAYER)))
        return -EINVAL;
    if ((attr->flags & ONESPACE_SPAWN_GUARD_REPORT) && !(attr->flags & ONESPACE_SPAWN_GUARD))
        return -EINVAL;
    if ((attr->flags & ONESPACE_SPAWN_GUARD) && (attr->flags & UNGUARDED_FLAGS))
        return -EINVAL;
    return attr->flags & ONESPACE_SPAWN_THREAD ? check_thread_attr(attr) : 0;
}

/* Only the agent can make a task serve calls. */
static int check_calls(const struct spawn *spawn, struct elf_problem *problem)
{
    if (!(spawn->attr.flags & ONESPACE_SPAWN_CALLS) ||
        (spawn->program.interpreter_path[0] && agent_path()))
        return 0;
    strcpy(problem->reason, "cannot serve calls");
    strcpy(problem->fix,
           "link it dynamically, and make sure that libonespace-agent.so is installed");
    return -ENOTSUP;
}

/* Finds the function that is to run in place of main, before there is anything to undo. */
static int find_start(struct spawn *spawn, struct elf_problem *problem)
{
    const char *name = spawn->attr.start;
    Elf64_Sym symbol = {0};
    if (!name)
        return check_calls(spawn, problem);
    int fd = open(spawn->program.path, O_RDONLY | O_CLOEXEC);
    int result = fd < 0 ? -errno : elf_symbol(fd, name, &symbol);
    if (fd >= 0)
        close(fd);
    if (result == 0 && ELF64_ST_TYPE(symbol.st_info) != STT_FUNC)
        result = -ENOSYS;
    spawn->start = symbol.st_value;
    snprintf(problem->reason, sizeof(problem->reason), "has no function %.200s", name);
    strcpy(problem->fix, "name a function of the program itself, and do not strip it or link it "
                         "with -rdynamic");
    if (result == 0 && (!spawn->program.interpreter_path[0] || !agent_path())) {
        result = -ENOSYS;
        strcpy(problem->reason, "cannot start at a function");
        strcpy(problem->fix,
               "link it dynamically, and make sure that libonespace-agent.so is installed");
    }
    if (result == 0)
        result = check_calls(spawn, problem);
    return result == -ENOENT ? -ENOSYS : result;
}

/* A guarded task's children are guarded as it is; the machine's policy may demand it of all. The
 * root allocates the keys for its first such task, and may write to all of them from then on, on
 * the threads that spawn them. 0 or -errno. */
static int prepare_guard(struct spawn *spawn)
{
    unsigned both = ONESPACE_SPAWN_GUARD | ONESPACE_SPAWN_GUARD_REPORT;
    int is_required = spawn->space->require_guard != 0;
    if (spawn->self->guard_key)
        spawn->attr.flags |= spawn->self->flags & both;
    if (is_required)
        spawn->attr.flags = (spawn->attr.flags & ~both) | ONESPACE_SPAWN_GUARD;
    if (!(spawn->attr.flags & ONESPACE_SPAWN_GUARD))
        return 0;
    if (spawn->attr.flags & UNGUARDED_FLAGS) /* check_attr has seen what the caller itself asked */
        return fail(&spawn->attr, -EINVAL, spawn->program.path,
                    is_required ? "must be guarded: require_guard in " POLICY_FILE
                                : "would be guarded, since the task that spawns it is",
                    "leave ONESPACE_SPAWN_NO_INTERPOSE, _THREAD and _CALLS out");
    if (spawn->self != &spawn->space->slots[0])
        return atomic_load(&spawn->space->guard.count) ? 0 : -ENOTSUP;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the first such task is made once */
    pthread_mutex_lock(&lock);
    long result = ARCH_HAS_KEYS ? guard_alloc_keys(spawn->space) : -ENOTSUP;
    pthread_mutex_unlock(&lock);
    if (result == 0)
        guard_open(&spawn->space->guard);
    if (result < 0)
        return fail(&spawn->attr, (int)result, spawn->program.path,
                    is_required ? "cannot be guarded, as require_guard in " POLICY_FILE " demands"
                                : "cannot be guarded",
                    result == -ENOTSUP  ? "this CPU has no protection keys"
                    : result == -ENOSYS ? "the kernel does not use the CPU's protection keys"
                                        : "this program has all protection keys");
    return 0;
}

/* ---- The slot, its memory and the child record ---- */

void slot_store_program(struct space_slot *slot, const char *path)
{
    size_t length = strlen(path);
    const char *from = length < SPACE_PROGRAM_MAX ? path : path + length - (SPACE_PROGRAM_MAX - 1);
    memcpy(slot->program, from, strlen(from) + 1);
}

/* Whether the reaper may report success right after clone: nothing that the child does before its
 * program can fail, or must be complete when onespace_spawn returns. */
static int cannot_fail(const struct spawn *spawn)
{
    const struct onespace_spawn_attr *attr = &spawn->attr;
    return spawn->by_reaper && !attr->fd_count && attr->directory < 0 && !attr->cpus &&
           !attr->before && !spawn->child->limit_mask &&
           !(attr->flags & (ONESPACE_SPAWN_GROUP | ONESPACE_SPAWN_SESSION));
}

static uint64_t fault_signals(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    uint64_t set = 0;
    for (unsigned i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        set |= signal_bit(signals[i]);
    return set;
}

static void fill_child(struct spawn *spawn, uintptr_t entry, uint64_t signal_mask)
{
    struct child *child = spawn->child;
    const struct onespace_spawn_attr *attr = &spawn->attr;
    const char *name = strrchr(spawn->file, '/'); /* as execve: from the path that was given */
    child->space = spawn->space;
    child->slot = spawn->slot;
    child->entry = entry;
    child->signal_mask = attr->signal_mask                     ? signal_set_bits(attr->signal_mask)
                         : attr->flags & ONESPACE_SPAWN_THREAD ? ~fault_signals()
                                                               : signal_mask;
    child->reaper_pid = atomic_load(&spawn->space->reaper_pid);
    child->flags = attr->flags;
    child->directory = attr->directory;
    child->umask = attr->umask;
    child->is_static = !spawn->program.interpreter_path[0];
    child->fd_count = (uint32_t)attr->fd_count;
    child->fds = (struct child_fd *)spawn->slot->stack_low;
    for (size_t i = 0; i < attr->fd_count; i++)
        child->fds[i] = (struct child_fd){attr->fds[i].source, attr->fds[i].target};
    snprintf(child->name, sizeof(child->name), "%.15s", name ? name + 1 : spawn->file);
    strcpy(child->program, elf_program_name(&spawn->program));
    child_inherit(child, attr, spawn->by_reaper);
    child->before = attr->before;
    child->before_argument = attr->before_argument;
    child->thread_pointer = arch_thread_pointer();
    child->start = spawn->start;
    child->start_argument = attr->start_argument;
    child->data = attr->data;
    child->reaper_announces = cannot_fail(spawn);
}

static void protect_image(const struct space_slot *slot, const struct elf_info *info,
                          uintptr_t bias)
{
    for (unsigned i = 0; i < info->segment_count; i++) {
        const struct elf_segment *segment = &info->segments[i];
        uintptr_t start = page_floor(bias + segment->vaddr);
        if (segment->prot & PROT_WRITE)
            guard_set_key(slot, start, bias + segment->vaddr + segment->memsz - start,
                          PROT_READ | PROT_WRITE);
    }
}

/* Gives the child's protection key to what only its program may write to. The task itself gives it
 * to what it maps later. */
static void protect_child(const struct spawn *spawn, const struct images *images)
{
    const struct space_slot *slot = spawn->slot;
    if (images->loader.size)
        protect_image(slot, &spawn->program.interpreter_info, images->loader.bias);
    if (images->program.size)
        protect_image(slot, &spawn->program.info, images->program.bias);
    if (images->extension_size)
        guard_set_key(slot, images->phdr, images->extension_size, PROT_READ | PROT_WRITE);
    guard_set_key(slot, slot->stack_low, slot->stack_high - slot->stack_low, images->stack_prot);
    guard_set_record_keys(slot);
}

/* Maps and fills the memory that the child needs before its program runs. */
static int map_memory(struct spawn *spawn, struct images *images)
{
    struct space_slot *slot = spawn->slot;
    int result = ARCH_HAS_KEYS && (slot->flags & ONESPACE_SPAWN_GUARD)
                     ? (int)guard_init_slot(spawn->space, slot)
                     : 0;
    if (result == 0)
        result = images_map(spawn, images);
    spawn->child = (struct child *)slot->child_record;
    if (result == 0 && !(slot->flags & ONESPACE_SPAWN_NO_INTERPOSE))
        result = (int)area_init(slot);
    return result == 0 ? stack_build(spawn, images) : result;
}

/* Fills the claimed slot, its memory and spawn->child. The caller has blocked all signals;
 * signal_mask is the mask from before. Returns 0 or -errno; undo() then reverts what was done. */
static int prepare_child(struct spawn *spawn, uint64_t signal_mask)
{
    struct images images = {0};
    struct space_slot *slot = spawn->slot;
    atomic_store(&slot->memory, MEMORY_PRESENT);
    if (spawn->attr.flags & ONESPACE_SPAWN_HOLD)
        (void)hold_take(spawn->space, slot, spawn->self);
    if (!spawn->program.interpreter_path[0] ||
        !agent_path()) { /* there is no agent that would store it */
        atomic_store(&slot->loaded, 1);
        atomic_store(&slot->called_exit, 1);
    }
    slot->flags = spawn->attr.flags;
    slot->number = spawn->attr.number;
    slot->ntasks = spawn->attr.ntasks;
    slot_store_program(slot, elf_program_name(&spawn->program));
    /* Not by a task: each of its own calls takes the throttle, and would wait for this one. */
    int is_root = spawn->self == &spawn->space->slots[0];
    uint32_t throttle = is_root ? map_throttle_begin(spawn->space) : 0;
    int result = map_memory(spawn, &images);
    map_throttle_end(spawn->space, throttle);
    if (result == 0)
        fill_child(spawn, images.entry, signal_mask);
    if (ARCH_HAS_KEYS && result == 0 && slot->guard_key)
        protect_child(spawn, &images);
    return result;
}

/* ---- Starting the task ---- */

static void undo(struct spawn *spawn)
{
    group_leave(spawn->space, spawn->slot);
    if (spawn->attr.flags & ONESPACE_SPAWN_HOLD)
        (void)hold_release(spawn->space, spawn->slot, spawn->self);
    uintptr_t range = layout_range(slot_index(spawn->space, spawn->slot));
    int is_unmapped = memory_unmap(range, LAYOUT_RANGE) == 0;
    atomic_store(&spawn->slot->memory, is_unmapped ? MEMORY_NONE : MEMORY_STUCK);
    if (is_unmapped)
        slot_free(spawn->space, spawn->slot);
    else
        atomic_store(&spawn->slot->state, SLOT_ABORTING);
}

static const char *stage_name(int stage)
{
    static const char *const names[] = {"",
                                        "cannot make a kernel task",
                                        "cannot set its descriptors",
                                        "cannot enter its working directory",
                                        "cannot set its limits",
                                        "cannot set its CPU affinity",
                                        "cannot make a process group",
                                        "was refused by the spawner's function"};
    return names[stage > 0 && stage <= CHILD_BEFORE ? stage : 0];
}

/* Whether the child has started and ended, and the slot is another task's. Only the caller frees
 * the slot of one that could not start. */
static int was_reused(const struct spawn *spawn)
{
    return atomic_load(&spawn->slot->id) != spawn->id;
}

/* Waits until the start of the child is reported: its id, or -errno. */
static int await_child(struct spawn *spawn)
{
    struct space_slot *slot = spawn->slot;
    int32_t child;
    /* Acquire: if the result is another task's, so is the id that is read next. */
    while ((child = atomic_load_explicit(&slot->child_result, memory_order_acquire)) == 0 &&
           !was_reused(spawn))
        if (reaper_await(spawn->space, spawn->self, &slot->child_result, 0, UINT64_MAX) < 0)
            return -EOWNERDEAD;
    if (child == 1 || was_reused(spawn))
        return spawn->id;
    int stage = atomic_load(&slot->child_stage);
    if (slot_state(slot) == SLOT_CLAIMED) { /* clone failed */
        undo(spawn);
    } else {
        /* The child exits, the reaper reaps it, and we collect its status. */
        if (spawn->attr.flags & ONESPACE_SPAWN_HOLD)
            (void)hold_release(spawn->space, slot, spawn->self);
        uint32_t seen;
        do
            seen = atomic_load(&spawn->space->ends);
        while (slot_state(slot) != SLOT_ENDED &&
               reaper_await(spawn->space, spawn->self, &spawn->space->ends, seen, UINT64_MAX) == 0);
        atomic_store(&slot->state, SLOT_COLLECTED);
        slot_free_if_done(slot);
    }
    char what[128];
    snprintf(what, sizeof(what), "%s (%s)",
             child == -ECHILD ? "was killed while it started" : stage_name(stage),
             strerror(-child));
    return fail(&spawn->attr, child == -ECHILD ? -EAGAIN : child, spawn->program.path, what, "");
}

static int start(struct spawn *spawn)
{
    if (spawn->attr.number >= 0)
        group_join(spawn->space, spawn->slot);
    if (spawn->by_reaper) {
        reaper_request_clone(spawn->space, spawn->slot);
        return await_child(spawn);
    }
    uint32_t rights = guard_open(&spawn->space->guard); /* to the child's stack */
    long pid = spawn->space->operations.child_clone(spawn->child, 1);
    guard_close(&spawn->space->guard, rights);
    if (pid > 0)
        return await_child(spawn);
    undo(spawn);
    return fail(&spawn->attr, (int)pid, spawn->program.path, "cannot make a kernel task",
                strerror((int)-pid));
}

/* The SHA-256 of the program that is about to start; empty if the policy asks for none. It is kept
 * for the next task, which is usually the same program. */
static void find_digest(const struct spawn *spawn, char digest[AUDIT_DIGEST_BYTES])
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct file_identity known;
    static char known_digest[AUDIT_DIGEST_BYTES];
    const char *path = elf_program_name(&spawn->program);
    struct stat status;
    digest[0] = 0;
    if (!spawn->space->log || !spawn->space->log_digest || stat(path, &status) != 0)
        return;
    struct file_identity identity = file_identity_of(&status);
    pthread_mutex_lock(&lock);
    if (!identity.is_settled || memcmp(&identity, &known, sizeof(known)) != 0) {
        memset(&known, 0, sizeof(known));
        if (audit_digest(path, known_digest) == 0)
            known = identity;
    }
    memcpy(digest, known_digest, AUDIT_DIGEST_BYTES);
    pthread_mutex_unlock(&lock);
}

/* The reaper may have logged the end of a short task by now, and the slot may be another task's. */
static void log_task_start(const struct spawn *spawn, int id, const char *digest)
{
    struct audit_task task = {id, atomic_load(&spawn->slot->pid),
                              elf_program_name(&spawn->program)};
    struct audit_field sha256 = {"SHA256", digest, 0};
    if (atomic_load(&spawn->slot->id) != id)
        task.pid = 0;
    member_log(spawn->space, "task-start", &task, digest[0] ? &sha256 : NULL);
}

static int spawn_resolved(struct spawn *spawn)
{
    atomic_store(&spawn->self->has_spawned, 1);
    spawn->by_reaper = !(spawn->attr.flags & ONESPACE_SPAWN_THREAD) &&
                       (int32_t)raw(__NR_getpid) == spawn->space->root_pid;
    spawn->slot = slot_claim(spawn->space, atomic_load(&spawn->self->id));
    if (!spawn->slot)
        return fail(&spawn->attr, -EAGAIN, spawn->program.path, "the space is full",
                    spawn->space->tasks_max ? "wait for tasks to end; max_tasks in " POLICY_FILE
                                              " allows no more"
                                            : "wait for tasks to end; one space holds 2047");
    spawn->id = atomic_load(&spawn->slot->id);
    uint64_t mask = signals_set_mask(SIGNAL_MASK_ALL);
    int result = prepare_child(spawn, mask);
    if (result < 0) {
        undo(spawn);
        result = fail(&spawn->attr, result, spawn->program.path, "cannot be mapped",
                      result == -ENOMEM
                          ? "out of memory or mappings: see vm.max_map_count in `onespace doctor`"
                          : strerror(-result));
    } else {
        char digest[AUDIT_DIGEST_BYTES];
        find_digest(spawn, digest);
        result = start(spawn);
        if (result > 0)
            log_task_start(spawn, result, digest);
    }
    signals_set_mask(mask);
    return result;
}

static int spawn_program(const char *file, char *const argv[], char *const envp[],
                         const struct onespace_spawn_attr *given)
{
    struct spawn spawn = {.space = space_mine(), .self = space_self()};
    struct elf_problem problem = {0};
    if (given && given->size == sizeof(*given) && given->message && given->message_size)
        given->message[0] = 0;
    if (!spawn.space)
        return -EPERM;
    if (!file || !argv || check_attr(given, &spawn.attr) < 0)
        return -EINVAL;
    spawn.file = file;
    spawn.envp = envp ? envp : environ;
    const char *path = spawn.attr.path ? spawn.attr.path : getenv("PATH");
    int directory = spawn.attr.directory >= 0 ? spawn.attr.directory : AT_FDCWD;
    int result = resolve_program(directory, file, argv, path, &spawn.program, &problem);
    if (result == 0 && (spawn.attr.flags & ONESPACE_SPAWN_THREAD) &&
        (result = elf_check_thread_mode(&spawn.program, &problem)) < 0)
        elf_program_free(&spawn.program);
    if (result < 0)
        return fail(&spawn.attr, result, file, problem.reason, problem.fix);
    result = prepare_guard(&spawn);
    if (result < 0) {
        elf_program_free(&spawn.program);
        return result;
    }
    result = find_start(&spawn, &problem);
    result = result < 0 ? fail(&spawn.attr, result, file, problem.reason, problem.fix)
                        : spawn_resolved(&spawn);
    elf_program_free(&spawn.program);
    return result;
}

/* Opens and reads files, at which a thread that is cancelled would end and leave locks and a slot
 * behind. As posix_spawn. */
int onespace_spawn(const char *file, char *const argv[], char *const envp[],
                   const struct onespace_spawn_attr *given)
{
    int cancel_state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    int result = spawn_program(file, argv, envp, given);
    pthread_setcancelstate(cancel_state, NULL);
    return result;
}
