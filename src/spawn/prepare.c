/* src/spawn/prepare.c: see prepare.h. */
#include "spawn/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "arch/remote_call.h"
#include "arch/keys.h"
#include "base/page.h"
#include "base/raw.h"
#include "interpose/guard/guard.h"
#include "interpose/memory/area.h"
#include "space/member.h"
#include "space/locks.h"
#include "spawn/spawn.h"

/* ld.so --argv0 NAME --preload AGENT PROGRAM ARGUMENTS…, so that ld.so loads the program as its
 * main program and $ORIGIN is the program's directory. Freed by the caller. */
static char **interpreter_argv(const struct spawn *spawn, unsigned *name_at, unsigned *arguments_at)
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
    *name_at = (unsigned)at;
    vector[at++] = count ? argv[0] : (char *)"";
    const char *agent = agent_path();
    if (agent) {
        vector[at++] = "--preload";
        vector[at++] = (char *)agent;
    }
    vector[at++] = (char *)spawn->program.path;
    *arguments_at = (unsigned)at;
    for (size_t i = 1; i < count; i++)
        vector[at++] = argv[i];
    return vector;
}

/* The task's soft RLIMIT_STACK, in bytes. */
static size_t stack_limit_of(const struct spawn *spawn)
{
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    if (spawn->attr.limits)
        limit = spawn->attr.limits[RLIMIT_STACK];
    else
        (void)getrlimit(RLIMIT_STACK, &limit);
    return limit.rlim_cur;
}

/* The kernel grants arguments and environment 128 KiB of any stack; the program gets as much. */
static size_t stack_size_of(const struct spawn *spawn, size_t limit)
{
    enum { LEAST = 2 * STACK_STRINGS_LEAST, DEFAULT = 8 << 20 };
    size_t size = spawn->attr.stack_size,
           most = LAYOUT_RANGE - LAYOUT_STACK - 2 * LAYOUT_STACK_GUARD;
    if (size == 0)
        size = limit == RLIM_INFINITY ? DEFAULT : limit;
    size = size < LEAST ? LEAST : size > most ? most : size;
    return page_ceiling(size);
}

static const char tunables[] = "GLIBC_TUNABLES=", no_rseq[] = "glibc.pthread.rseq=0";
static char says_guard[] = "ONESPACE_GUARD=1";

static int is_named(const char *entry, const char *name, size_t length)
{
    return strncmp(entry, name, length) == 0;
}

/* The environment of a guarded task. It says so to onespace/sync. glibc is asked to register no
 * area for restartable sequences: the kernel would have to change it on a thread's way into a
 * signal handler, without the right to (docs/internals/guard.md). NULL: no memory. */
static char **guarded_envp(char *const *envp)
{
    size_t count = 0, at = 2;
    const char *given = NULL;
    char *text;
    while (envp[count])
        count++;
    char **copy = calloc(count + 3, sizeof(*copy));
    if (!copy)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (is_named(envp[i], tunables, sizeof(tunables) - 1))
            given = envp[i];
        else if (!is_named(envp[i], says_guard, sizeof(says_guard) - 2)) /* up to the "=" */
            copy[at++] = envp[i];
    if (asprintf(&text, "%s%s%s", given ? given : tunables, given ? ":" : "", no_rseq) < 0) {
        free(copy);
        return NULL;
    }
    copy[0] = text;
    copy[1] = says_guard;
    return copy;
}

static void free_guarded_envp(char **envp)
{
    if (envp)
        free(envp[0]);
    free(envp);
}

static int build_stack(struct spawn *spawn, const struct images *images)
{
    unsigned name_at = 0, arguments_at = 1;
    char **argv =
        images->is_command ? interpreter_argv(spawn, &name_at, &arguments_at) : spawn->program.argv;
    if (!argv)
        return -ENOMEM;
    int is_guarded = (spawn->attr.flags & ONESPACE_SPAWN_GUARD) != 0;
    char **guarded = is_guarded ? guarded_envp(spawn->envp) : NULL;
    if (is_guarded && !guarded) {
        if (images->is_command)
            free(argv);
        return -ENOMEM;
    }
    size_t limit = stack_limit_of(spawn);
    struct stack_request request = {
        .space = spawn->space,
        .slot = spawn->slot,
        .size = stack_size_of(spawn, limit),
        .limit = limit,
        .images = images,
        .program = spawn->program.path,
        .argv = argv,
        .envp = guarded ? guarded : spawn->envp,
        .name_at = name_at,
        .arguments_at = arguments_at,
    };
    int result = stack_build(&request, &spawn->child->stack_pointer);
    spawn->child->strings = request.strings;
    spawn->child->auxv = request.auxv;
    if (images->is_command)
        free(argv);
    free_guarded_envp(guarded);
    return result;
}

/* Of a path that is too long, the end: that is what `ps` shows. */
static void store_program(struct space_slot *slot, const char *path)
{
    size_t length = strlen(path);
    const char *from = length < SPACE_PROGRAM_MAX ? path : path + length - (SPACE_PROGRAM_MAX - 1);
    memcpy(slot->program, from, strlen(from) + 1);
}

/* Whether the reaper may report success right after clone: nothing that the child does before its
 * program can fail or need be complete when onespace_spawn returns. */
static int cannot_fail(const struct spawn *spawn)
{
    const struct onespace_spawn_attr *attr = &spawn->attr;
    return spawn->self == &spawn->space->slots[0] && !attr->fd_count && attr->directory < 0 &&
           !attr->cpus && !attr->before && !spawn->child->limit_mask &&
           !(attr->flags & (ONESPACE_SPAWN_GROUP | ONESPACE_SPAWN_SESSION | ONESPACE_SPAWN_THREAD));
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
    /* A task's child inherits from it through clone; the parent of the root's child is the reaper.
     */
    child_inherit(child, attr, spawn->self);
    child->before = attr->before;
    child->before_argument = attr->before_argument;
    child->thread_pointer = arch_thread_pointer();
    child->start = spawn->start;
    child->start_argument = attr->start_argument;
    child->data = attr->data;
    child->reaper_announces = cannot_fail(spawn);
}

static void colour_image(const struct space_slot *slot, const struct elf_info *info, uintptr_t bias)
{
    for (unsigned i = 0; i < info->segment_count; i++) {
        const struct elf_segment *segment = &info->segments[i];
        uintptr_t start = page_floor(bias + segment->vaddr);
        if (segment->prot & PROT_WRITE)
            guard_set_key(slot, start, bias + segment->vaddr + segment->memsz - start,
                          PROT_READ | PROT_WRITE);
    }
}

/* Gives the child's key to what its program may write to, and nobody else. The rest gets it when it
 * is mapped, by the task itself. */
static void colour_child(const struct spawn *spawn, const struct images *images)
{
    const struct space_slot *slot = spawn->slot;
    if (images->loader.size)
        colour_image(slot, &spawn->program.interpreter_info, images->loader.bias);
    if (images->program.size)
        colour_image(slot, &spawn->program.info, images->program.bias);
    if (images->extension_size)
        guard_set_key(slot, images->phdr, images->extension_size, PROT_READ | PROT_WRITE);
    guard_set_key(slot, slot->stack_low, slot->stack_high - slot->stack_low, images->stack_prot);
    guard_set_record_keys(slot);
}

/* Maps and fills all that the child needs before its program runs. */
static int make_memory(struct spawn *spawn, struct images *images)
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
    return result == 0 ? build_stack(spawn, images) : result;
}

int prepare_child(struct spawn *spawn, uint64_t signal_mask)
{
    struct images images = {0};
    struct space_slot *slot = spawn->slot;
    atomic_store(&slot->memory, MEMORY_PRESENT);
    if (spawn->attr.flags & ONESPACE_SPAWN_HOLD)
        (void)hold_take(spawn->space, slot, spawn->self);
    if (!spawn->program.interpreter_path[0] || !agent_path()) { /* there is no agent to store it */
        atomic_store(&slot->loaded, 1);
        atomic_store(&slot->called_exit, 1);
    }
    slot->flags = spawn->attr.flags;
    slot->number = spawn->attr.number;
    slot->ntasks = spawn->attr.ntasks;
    store_program(slot, elf_program_name(&spawn->program));
    /* A task's own calls take turns one by one, and would wait here for this one. */
    int is_root = spawn->self == &spawn->space->slots[0];
    uint32_t begun = is_root ? map_throttle_begin(spawn->space) : 0;
    int result = make_memory(spawn, &images);
    map_throttle_end(spawn->space, begun);
    if (result == 0)
        fill_child(spawn, images.entry, signal_mask);
    if (ARCH_HAS_KEYS && result == 0 && slot->guard_key)
        colour_child(spawn, &images);
    return result;
}
