/* src/task/spawn.c: onespace_spawn, from the program's name to a task that runs it.
 *
 * Everything that can fail is done by the caller before the kernel task exists; undo() is the one
 * way back. Then the caller (a task) or the reaper (for the root) clones, and the caller waits
 * until the newborn has entered the program or said why not. */
#include "onespace.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/page.h"
#include "elf/elf.h"
#include "registry/child.h"
#include "registry/space.h"
#include "space/group.h"
#include "space/holds.h"
#include "space/self.h"
#include "space/slots.h"
#include "task/agent_path.h"
#include "task/child.h"
#include "task/inherit.h"
#include "task/loader_image.h"
#include "task/reaper.h"
#include "task/resolve.h"
#include "task/stack.h"

extern char **environ;

#define ALL_FLAGS                                                                                  \
    (ONESPACE_SPAWN_DETACHED | ONESPACE_SPAWN_CLOSE_FDS | ONESPACE_SPAWN_GROUP |                   \
     ONESPACE_SPAWN_HEAP_LIBC | ONESPACE_SPAWN_NO_INTERPOSE | ONESPACE_SPAWN_TOGETHER |            \
     ONESPACE_SPAWN_SESSION | ONESPACE_SPAWN_HOLD | ONESPACE_SPAWN_THREAD |                        \
     ONESPACE_SPAWN_NO_MPI_LAYER)

#define SIGNAL_BIT(number) (UINT64_C(1) << ((number)-1))
#define FAULT_SIGNALS                                                                              \
    (SIGNAL_BIT(SIGSEGV) | SIGNAL_BIT(SIGBUS) | SIGNAL_BIT(SIGFPE) | SIGNAL_BIT(SIGILL) |          \
     SIGNAL_BIT(SIGTRAP) | SIGNAL_BIT(SIGSYS) | SIGNAL_BIT(SIGABRT))

struct spawn {
    struct space *space;
    struct space_slot *self, *slot;
    struct onespace_spawn_attr attr;
    struct elf_program program;
    const char *file;
    char *const *argv, *const *envp;
    struct child *child;
    uint64_t start; /* of attr.start in the program, without bias */
};

/* Writes the message, if the caller wants one, and passes the error on. */
static int say(const struct onespace_spawn_attr *attr, int error, const char *file,
               const char *what, const char *fix)
{
    if (attr->message && attr->message_size)
        snprintf(attr->message, attr->message_size, "%s: %s%s%s", file, what,
                 fix && *fix ? ": " : "", fix ? fix : "");
    return error;
}

/* What a thread shares with its process cannot be had otherwise. */
static int check_thread_attr(const struct onespace_spawn_attr *attr)
{
    unsigned impossible = ONESPACE_SPAWN_CLOSE_FDS | ONESPACE_SPAWN_GROUP | ONESPACE_SPAWN_SESSION |
                          ONESPACE_SPAWN_NO_INTERPOSE;
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
    return attr->flags & ONESPACE_SPAWN_THREAD ? check_thread_attr(attr) : 0;
}

/* ld.so --argv0 NAME --preload AGENT PROGRAM ARGUMENTS…, so that ld.so loads the program as its own
 * and $ORIGIN is the program's folder. Freed by the caller. */
static char **interpreter_argv(const struct spawn *spawn)
{
    char *const *argv = spawn->program.argv;
    size_t count = 0, at = 0;
    while (argv[count])
        count++;
    char **vector = calloc(count + 8, sizeof(*vector));
    if (!vector)
        return NULL;
    vector[at++] = (char *)spawn->program.interpreter_path;
    vector[at++] = "--argv0";
    vector[at++] = count ? argv[0] : (char *)"";
    const char *agent = agent_path();
    if (agent) {
        vector[at++] = "--preload";
        vector[at++] = (char *)agent;
    }
    vector[at++] = (char *)spawn->program.path;
    for (size_t i = 1; i < count; i++)
        vector[at++] = argv[i];
    return vector;
}

static int map_program(struct spawn *spawn, struct elf_mapping *mapping)
{
    int is_dynamic = spawn->program.interpreter_path[0] != 0;
    const char *path = is_dynamic ? spawn->program.interpreter_path : spawn->program.path;
    const struct elf_info *info =
        is_dynamic ? &spawn->program.interpreter_info : &spawn->program.info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    uintptr_t place = atomic_load(&spawn->slot->interpose.files_next);
    place = (place + info->align - 1) & -(uintptr_t)info->align;
    int result = elf_map(fd, info, place, mapping);
    for (unsigned i = 0; result == 0 && i < info->segment_count; i++) {
        const struct elf_segment *segment = &info->segments[i];
        if (!(segment->prot & PROT_EXEC) || (spawn->attr.flags & ONESPACE_SPAWN_NO_INTERPOSE))
            continue;
        uint64_t skew = segment->vaddr % ARCH_PAGE;
        interpose_patch_mapping(spawn->slot, mapping->bias + segment->vaddr - skew,
                                segment->filesz + skew, fd, (long)(segment->offset - skew),
                                is_dynamic ? loader_kind(path) : CODE_PROGRAM);
    }
    close(fd);
    if (result == 0) {
        atomic_store(&spawn->slot->interpose.files_next, mapping->base + mapping->size);
        spawn->slot->interpreter_bias = mapping->bias;
        spawn->slot->interpreter_dynamic = mapping->bias + info->dynamic_vaddr;
    }
    return result;
}

/* What will be the task's soft limit for stacks, in bytes. */
static size_t stack_limit_of(const struct spawn *spawn)
{
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    if (spawn->attr.limits)
        limit = spawn->attr.limits[RLIMIT_STACK];
    else
        (void)getrlimit(RLIMIT_STACK, &limit);
    return limit.rlim_cur;
}

static size_t stack_size_of(const struct spawn *spawn, size_t limit)
{
    enum { LEAST = 128 * 1024, DEFAULT = 8 << 20 };
    size_t size = spawn->attr.stack_size,
           most = LAYOUT_RANGE - LAYOUT_STACK - 2 * LAYOUT_STACK_GUARD;
    if (size == 0)
        size = limit == RLIM_INFINITY ? DEFAULT : limit;
    size = size < LEAST ? LEAST : size > most ? most : size;
    return (size + ARCH_PAGE - 1) & -(size_t)ARCH_PAGE;
}

static int build_stack(struct spawn *spawn, const struct elf_mapping *mapping)
{
    int is_dynamic = spawn->program.interpreter_path[0] != 0;
    char **argv = is_dynamic ? interpreter_argv(spawn) : spawn->program.argv;
    if (!argv)
        return -ENOMEM;
    size_t limit = stack_limit_of(spawn);
    struct stack_request request = {
        .space = spawn->space,
        .slot = spawn->slot,
        .size = stack_size_of(spawn, limit),
        .limit = limit,
        .mapping = mapping,
        .info = is_dynamic ? &spawn->program.interpreter_info : &spawn->program.info,
        .program = spawn->program.path,
        .argv = argv,
        .envp = spawn->envp,
    };
    int result = stack_make(&request, &spawn->child->stack_pointer);
    if (is_dynamic)
        free(argv);
    return result;
}

/* What `ps` shows of a long path is its end. */
static void store_program(struct space_slot *slot, const char *path)
{
    size_t length = strlen(path);
    const char *from = length < SPACE_PROGRAM_MAX ? path : path + length - (SPACE_PROGRAM_MAX - 1);
    memcpy(slot->program, from, strlen(from) + 1);
}

/* Whether nothing that the newborn does before its program can fail, or has to be done by the time
 * when onespace_spawn returns. */
static int makes_sure(const struct spawn *spawn)
{
    const struct onespace_spawn_attr *attr = &spawn->attr;
    return spawn->self == &spawn->space->slots[0] && !attr->fd_count && attr->directory < 0 &&
           !attr->cpus && !attr->before && !spawn->child->limit_mask &&
           !(attr->flags & (ONESPACE_SPAWN_GROUP | ONESPACE_SPAWN_SESSION | ONESPACE_SPAWN_THREAD));
}

static void fill_child(struct spawn *spawn, uintptr_t entry, uint64_t signal_mask)
{
    struct child *child = spawn->child;
    const struct onespace_spawn_attr *attr = &spawn->attr;
    const char *name = strrchr(spawn->file, '/'); /* as execve: of the path that was given */
    child->space = spawn->space;
    child->slot = spawn->slot;
    child->entry = entry;
    child->signal_mask = attr->signal_mask ? inherit_signals_of(attr->signal_mask)
                         : attr->flags & ONESPACE_SPAWN_THREAD ? ~FAULT_SIGNALS
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
    /* A task's child inherits from it through clone; the root's comes from the reaper. */
    inherit_fill(child, attr, spawn->self);
    child->before = attr->before;
    child->before_argument = attr->before_argument;
    child->thread_pointer = (uintptr_t)__builtin_thread_pointer();
    child->start = spawn->start;
    child->start_argument = attr->start_argument;
    child->data = attr->data;
    child->reaper_announces = makes_sure(spawn);
}

/* Finds the function that shall run in place of main, before there is anything to undo. */
static int find_start(struct spawn *spawn, struct elf_problem *problem)
{
    const char *name = spawn->attr.start;
    uint64_t size;
    unsigned type;
    if (!name)
        return 0;
    int fd = open(spawn->program.path, O_RDONLY | O_CLOEXEC);
    int result = fd < 0 ? -errno : elf_symbol(fd, name, &spawn->start, &size, &type);
    if (fd >= 0)
        close(fd);
    if (result == 0 && type != STT_FUNC)
        result = -ENOSYS;
    snprintf(problem->reason, sizeof(problem->reason), "has no function %.200s", name);
    strcpy(problem->fix, "name a function of the program itself, and do not strip it or link it "
                         "with -rdynamic");
    if (result == 0 && (!spawn->program.interpreter_path[0] || !agent_path())) {
        result = -ENOSYS;
        strcpy(problem->reason, "cannot start at a function");
        strcpy(problem->fix, "link it dynamically, and see that libonespace-agent.so is installed");
    }
    return result == -ENOENT ? -ENOSYS : result;
}

static void undo(struct spawn *spawn, int joined)
{
    if (joined && spawn->attr.number >= 0)
        group_leave(spawn->space);
    if (spawn->attr.flags & ONESPACE_SPAWN_HOLD)
        (void)holds_give(spawn->space, spawn->slot, spawn->self);
    munmap((void *)layout_range(space_slot_index(spawn->space, spawn->slot)), LAYOUT_RANGE);
    atomic_store(&spawn->slot->memory, MEMORY_NONE);
    space_free_slot(spawn->space, spawn->slot);
}

/* Stubs, child record, and the program or its dynamic linker. */
static int map_all(struct spawn *spawn, struct elf_mapping *mapping)
{
    struct space_slot *slot = spawn->slot;
    const struct elf_info *info = &spawn->program.interpreter_info;
    if (spawn->program.interpreter_path[0] && spawn->self == &spawn->space->slots[0] &&
        !(spawn->attr.flags & ONESPACE_SPAWN_NO_INTERPOSE) &&
        loader_image_map(spawn->space, slot, &spawn->program, mapping) == 0) {
        slot->interpreter_bias = mapping->bias;
        slot->interpreter_dynamic = mapping->bias + info->dynamic_vaddr;
        return 0;
    }
    int result = (int)spawn->space->operations.prepare(spawn->space, slot);
    return result < 0 ? result : map_program(spawn, mapping);
}

/* Prepares the claimed slot's memory. */
static int prepare(struct spawn *spawn, uint64_t signal_mask)
{
    struct elf_mapping mapping;
    struct space_slot *slot = spawn->slot;
    atomic_store(&slot->memory, MEMORY_PRESENT);
    if (spawn->attr.flags & ONESPACE_SPAWN_HOLD)
        (void)holds_take(spawn->space, slot, spawn->self);
    if (!spawn->program.interpreter_path[0] || !agent_path())
        atomic_store(&slot->loaded, 1); /* nobody there will say so */
    slot->flags = spawn->attr.flags;
    slot->number = spawn->attr.number;
    slot->ntasks = spawn->attr.ntasks;
    store_program(slot, elf_program_name(&spawn->program));
    int result = map_all(spawn, &mapping);
    spawn->child = (struct child *)slot->child_record;
    if (result == 0)
        result = build_stack(spawn, &mapping);
    if (result == 0)
        fill_child(spawn, mapping.entry, signal_mask);
    return result;
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

/* Waits until the newborn has entered its program: its id, or -errno. */
static int await_child(struct spawn *spawn)
{
    struct space_slot *slot = spawn->slot;
    int32_t child;
    while ((child = atomic_load_explicit(&slot->child_result, memory_order_acquire)) == 0) {
        futex_wait(&slot->child_result, 0, futex_deadline(1000));
        if (!reaper_alive(spawn->space))
            return -EOWNERDEAD;
    }
    if (child == 1)
        return atomic_load(&slot->id);
    int stage = atomic_load(&slot->child_stage);
    if (space_state(slot) == SLOT_CLAIMED) { /* there never was a process */
        undo(spawn, 1);
    } else {
        /* It exits; the reaper reaps it, and its status is ours to collect. */
        if (spawn->attr.flags & ONESPACE_SPAWN_HOLD)
            (void)holds_give(spawn->space, slot, spawn->self);
        while (space_state(slot) != SLOT_ENDED && reaper_alive(spawn->space)) {
            uint32_t seen = atomic_load(&spawn->space->ends);
            if (space_state(slot) != SLOT_ENDED)
                futex_wait(&spawn->space->ends, seen, futex_deadline(1000));
        }
        atomic_store(&slot->state, SLOT_COLLECTED);
        space_release_slot(slot);
    }
    char what[128];
    snprintf(what, sizeof(what), "%s (%s)",
             child == -ECHILD ? "was killed while it started" : stage_name(stage),
             strerror(-child));
    return say(&spawn->attr, child == -ECHILD ? -EAGAIN : child, spawn->program.path, what, "");
}

static int start(struct spawn *spawn)
{
    if (spawn->attr.number >= 0)
        group_join(spawn->space, spawn->slot);
    int is_thread = (spawn->attr.flags & ONESPACE_SPAWN_THREAD) != 0;
    if (spawn->self == &spawn->space->slots[0] && !is_thread) {
        reaper_request(spawn->space, spawn->slot);
        return await_child(spawn);
    }
    long pid = spawn->space->operations.child_clone(spawn->child, 1);
    if (pid > 0)
        return await_child(spawn);
    undo(spawn, 1);
    return say(&spawn->attr, (int)pid, spawn->program.path, "cannot make a kernel task",
               strerror((int)-pid));
}

static int spawn_resolved(struct spawn *spawn)
{
    uint64_t all = ~UINT64_C(0), mask;
    atomic_store(&spawn->self->has_spawned, 1);
    spawn->slot = space_claim(spawn->space, atomic_load(&spawn->self->id));
    if (!spawn->slot)
        return say(&spawn->attr, -EAGAIN, spawn->program.path, "the space is full",
                   "wait for tasks to end; one space holds 2047");
    raw(__NR_rt_sigprocmask, SIG_SETMASK, &all, &mask, 8);
    int result = prepare(spawn, mask);
    if (result < 0) {
        undo(spawn, 0);
        result = say(&spawn->attr, result, spawn->program.path, "cannot be mapped",
                     result == -ENOMEM
                         ? "out of memory or mappings: see vm.max_map_count in `onespace doctor`"
                         : strerror(-result));
    } else {
        result = start(spawn);
    }
    raw(__NR_rt_sigprocmask, SIG_SETMASK, &mask, NULL, 8);
    return result;
}

int onespace_spawn(const char *file, char *const argv[], char *const envp[],
                   const struct onespace_spawn_attr *given)
{
    struct spawn spawn = {.space = space_mine(), .self = space_self()};
    struct elf_problem problem = {0};
    if (!spawn.space)
        return -EPERM;
    if (!file || !argv || check_attr(given, &spawn.attr) < 0)
        return -EINVAL;
    spawn.file = file;
    spawn.envp = envp ? envp : environ;
    const char *path = spawn.attr.path ? spawn.attr.path : getenv("PATH");
    int directory = spawn.attr.directory >= 0 ? spawn.attr.directory : AT_FDCWD;
    int result = task_resolve(directory, file, argv, path, &spawn.program, &problem);
    if (result == 0 && (spawn.attr.flags & ONESPACE_SPAWN_THREAD) &&
        (result = elf_check_thread(&spawn.program, &problem)) < 0)
        elf_program_free(&spawn.program);
    if (result < 0)
        return say(&spawn.attr, result, file, problem.reason, problem.fix);
    result = find_start(&spawn, &problem);
    result = result < 0 ? say(&spawn.attr, result, file, problem.reason, problem.fix)
                        : spawn_resolved(&spawn);
    elf_program_free(&spawn.program);
    return result;
}
