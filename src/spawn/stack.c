/* src/spawn/stack.c: a task's main stack, as execve would leave it: argc, argv, envp, auxiliary
 * vector, strings. */
#include "spawn/internal.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/page.h"
#include "spawn/spawn.h"

enum { AUX_ENTRIES = 48, RANDOM_BYTES = 16 };

#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#define AT_RSEQ_ALIGN        28
#endif

/* The kernel grants arguments and environment this much, whatever the limit is. */
enum { STRINGS_MIN_BYTES = 128 * 1024 };

struct stack_request {
    const struct spawn *spawn;
    const struct images *images;
    size_t size;  /* bytes of the stack */
    size_t limit; /* RLIMIT_STACK of the task: the kernel lets no stack grow beyond it */
    char *const *argv, *const *envp;
    unsigned name_index, arguments_index; /* in argv: the program's argv[0] and argv[1] */
    /* Results. */
    struct child_strings strings;
    uintptr_t auxv;
};

/* The entries that are the same for every program on this machine. */
static const unsigned long common_entries[] = {
    AT_SYSINFO_EHDR,
    AT_HWCAP,
    AT_HWCAP2,
    AT_PAGESZ,
    AT_CLKTCK,
    AT_UID,
    AT_EUID,
    AT_GID,
    AT_EGID,
    AT_MINSIGSTKSZ,
    AT_RSEQ_FEATURE_SIZE,
    AT_RSEQ_ALIGN,
};

struct aux {
    unsigned count;
    Elf64_auxv_t entries[AUX_ENTRIES];
};

static void add(struct aux *aux, unsigned long type, uintptr_t value)
{
    aux->entries[aux->count].a_type = type;
    aux->entries[aux->count++].a_un.a_val = value;
}

/* The kernel's value of AT_HWCAP. glibc's getauxval returns one of its own, which programs of other
 * libcs would misread. */
static unsigned long hwcap(void)
{
    Elf64_auxv_t entry;
    unsigned long value = getauxval(AT_HWCAP);
    int fd = open("/proc/self/auxv", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && read(fd, &entry, sizeof(entry)) == (ssize_t)sizeof(entry))
        if (entry.a_type == AT_HWCAP)
            value = entry.a_un.a_val;
    if (fd >= 0)
        close(fd);
    return value;
}

static unsigned long common_value(unsigned long type)
{
    static _Atomic unsigned long cpu; /* written by the first callers; all store the same value */
    switch (type) {
    case AT_HWCAP:
        if (!cpu)
            cpu = hwcap();
        return cpu;
    case AT_UID:
        return getuid();
    case AT_EUID:
        return geteuid();
    case AT_GID:
        return getgid();
    case AT_EGID:
        return getegid();
    default:
        return getauxval(type);
    }
}

static void add_common(struct aux *aux)
{
    for (unsigned i = 0; i < sizeof(common_entries) / sizeof(common_entries[0]); i++) {
        errno = 0;
        unsigned long value = common_value(common_entries[i]);
        if (value || errno == 0)
            add(aux, common_entries[i], value);
    }
}

static size_t count_strings(char *const *strings)
{
    size_t count = 0;
    while (strings[count])
        count++;
    return count;
}

/* The bytes above the vectors: random bytes, the platform's name, arguments, environment, the
 * program's path. */
static size_t string_bytes(const struct stack_request *request)
{
    const char *platform = (const char *)getauxval(AT_PLATFORM);
    size_t bytes = RANDOM_BYTES + strlen(request->spawn->program.path) + 1;
    bytes += platform ? strlen(platform) + 1 : 0;
    for (char *const *at = request->argv; *at; at++)
        bytes += strlen(*at) + 1;
    for (char *const *at = request->envp; *at; at++)
        bytes += strlen(*at) + 1;
    return bytes;
}

/* argc, and two vectors with NULL at their ends. */
static size_t vector_bytes(const struct stack_request *request)
{
    return (3 + count_strings(request->argv) + count_strings(request->envp)) * sizeof(uintptr_t);
}

static uintptr_t put(uintptr_t *at, const void *bytes, size_t size)
{
    uintptr_t address = *at;
    memcpy((void *)address, bytes, size);
    *at += size;
    return address;
}

static uintptr_t put_string(uintptr_t *at, const char *text)
{
    return put(at, text, strlen(text) + 1);
}

/* Writes the strings, and their addresses with a NULL to the vector. Returns the vector's end. */
static uintptr_t *put_strings(uintptr_t *at, char *const *strings, uintptr_t *vector)
{
    for (; *strings; strings++)
        *vector++ = put_string(at, *strings);
    *vector++ = 0;
    return vector;
}

static void fill_aux(const struct stack_request *request, uintptr_t *at, struct aux *aux)
{
    unsigned char bytes[RANDOM_BYTES] = {0};
    const char *platform = (const char *)getauxval(AT_PLATFORM);
    if (getrandom(bytes, sizeof(bytes), GRND_NONBLOCK) != (ssize_t)sizeof(bytes))
        memcpy(bytes, &request->spawn->slot->started_ns, sizeof(request->spawn->slot->started_ns));
    add_common(aux);
    add(aux, AT_PHDR, request->images->phdr);
    add(aux, AT_PHENT, sizeof(Elf64_Phdr));
    add(aux, AT_PHNUM, request->images->phnum);
    add(aux, AT_BASE, request->images->base);
    add(aux, AT_FLAGS, 0);
    add(aux, AT_ENTRY, request->images->program_entry);
    add(aux, AT_SECURE, 0);
    add(aux, AT_RANDOM, put(at, bytes, sizeof(bytes)));
    add(aux, AT_EXECFN, put_string(at, request->spawn->program.path));
    if (platform)
        add(aux, AT_PLATFORM, put_string(at, platform));
    add(aux, SPACE_AT_REGISTRY, (uintptr_t)request->spawn->space);
    add(aux, SPACE_AT_SLOT, (uintptr_t)request->spawn->slot);
    add(aux, AT_NULL, 0);
}

/* Records where argv[0] of the program and its arguments are. */
static void record_arguments(struct stack_request *request, const uintptr_t *argv)
{
    struct child_strings *strings = &request->strings;
    int is_empty = !argv[request->name_index];
    uintptr_t after_name = is_empty ? 0 : argv[request->name_index + 1];
    uintptr_t arguments = is_empty ? 0 : argv[request->arguments_index];
    strings->name = argv[request->name_index];
    strings->name_end = after_name ? after_name : strings->environment;
    strings->arguments = arguments ? arguments : strings->environment;
}

/* Fills the stack below `top`. The stack pointer, or 0 if it does not fit above `low`. */
static uintptr_t fill(struct stack_request *request, uintptr_t top, uintptr_t low)
{
    struct aux aux = {0};
    size_t bytes = string_bytes(request);
    size_t vectors = vector_bytes(request) + AUX_ENTRIES * sizeof(aux.entries[0]);
    if (bytes + vectors + 64 > top - low)
        return 0;
    uintptr_t strings = top - sizeof(uintptr_t) - bytes, at = strings;
    fill_aux(request, &at, &aux);
    vectors = vector_bytes(request) + aux.count * sizeof(aux.entries[0]);
    uintptr_t pointer = (strings - vectors) & -(uintptr_t)16;
    uintptr_t *vector = (uintptr_t *)pointer;
    *vector++ = count_strings(request->argv);
    const uintptr_t *argv = vector;
    vector = put_strings(&at, request->argv, vector);
    request->strings.environment = at;
    record_arguments(request, argv);
    vector = put_strings(&at, request->envp, vector);
    request->strings.end = at;
    request->auxv = (uintptr_t)vector;
    memcpy(vector, aux.entries, aux.count * sizeof(aux.entries[0]));
    return pointer;
}

/* The guard makes large frames beyond the stack's end fault. It is not needed if the task's own
 * limit keeps the stack from growing beyond its size. */
static int map_guard(const struct stack_request *request, uintptr_t low)
{
    if (request->size >= request->limit)
        return 0;
    void *guard = mmap((void *)(low - LAYOUT_STACK_GUARD), LAYOUT_STACK_GUARD, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    return guard == MAP_FAILED ? -errno : 0;
}

/* As execve: a quarter of the limit, within bounds. A quarter of the stack remains. */
static size_t strings_limit(const struct stack_request *request)
{
    enum { MAX_BYTES = 6 << 20 };
    size_t limit = request->limit / 4;
    limit = limit < STRINGS_MIN_BYTES ? STRINGS_MIN_BYTES : limit > MAX_BYTES ? MAX_BYTES : limit;
    return limit > request->size / 4 * 3 ? request->size / 4 * 3 : limit;
}

/* Maps the stack at the top of the slot's range and fills it. Returns 0; -E2BIG if arguments and
 * environment take more than execve would grant; or -errno. *stack_pointer is where to start. */
static int map_stack(struct stack_request *request, uintptr_t *stack_pointer)
{
    uintptr_t end =
        layout_range(slot_index(request->spawn->space, request->spawn->slot)) + LAYOUT_RANGE;
    uintptr_t top = end - ARCH_PAGE; /* a page above stays free */
    uintptr_t low = page_floor(top - request->size);
    int result = map_guard(request, low);
    if (result < 0)
        return result;
    /* Executable stacks need MAP_GROWSDOWN: glibc's mprotect asks for PROT_GROWSDOWN. */
    void *stack = mmap((void *)low, top - low, request->images->stack_prot,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_STACK | MAP_NORESERVE |
                           MAP_FIXED_NOREPLACE,
                       -1, 0);
    if (stack == MAP_FAILED)
        return -errno;
    request->spawn->slot->stack_low = low;
    request->spawn->slot->stack_high = top;
    *stack_pointer = fill(request, top, top - strings_limit(request));
    return *stack_pointer ? 0 : -E2BIG;
}

/* ---- What goes on the stack ---- */

/* ld.so --argv0 NAME --preload AGENT PROGRAM ARGUMENTS…: ld.so loads the program as its main
 * program, and $ORIGIN is the program's directory. The caller frees the vector. */
static char **interpreter_argv(const struct spawn *spawn, unsigned *name_index,
                               unsigned *arguments_index)
{
    char *const *argv = spawn->program.argv;
    size_t count = count_strings(argv), at = 0;
    char **vector = calloc(count + 8, sizeof(*vector));
    if (!vector)
        return NULL;
    vector[at++] = (char *)spawn->program.interpreter_path;
    vector[at++] = "--argv0";
    *name_index = (unsigned)at;
    vector[at++] = count ? argv[0] : (char *)"";
    const char *agent = agent_path();
    if (agent) {
        vector[at++] = "--preload";
        vector[at++] = (char *)agent;
    }
    vector[at++] = (char *)spawn->program.path;
    *arguments_index = (unsigned)at;
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
    enum { MIN_BYTES = 2 * STRINGS_MIN_BYTES, DEFAULT_BYTES = 8 << 20 };
    size_t size = spawn->attr.stack_size;
    size_t max = LAYOUT_RANGE - LAYOUT_STACK - 2 * LAYOUT_STACK_GUARD;
    if (size == 0)
        size = limit == RLIM_INFINITY ? DEFAULT_BYTES : limit;
    size = size < MIN_BYTES ? MIN_BYTES : size > max ? max : size;
    return page_ceiling(size);
}

static const char tunables[] = "GLIBC_TUNABLES=", no_rseq[] = "glibc.pthread.rseq=0";
static char guard_entry[] = "ONESPACE_GUARD=1";

/* The environment of a guarded task, or NULL without memory. ONESPACE_GUARD tells onespace/sync.
 * The tunable keeps glibc from registering an area for restartable sequences, because the kernel
 * would write to it on the way into a signal handler, without the right to
 * (docs/internals/guard.md). */
static char **guarded_envp(char *const *envp)
{
    size_t count = count_strings(envp), at = 2;
    const char *given = NULL;
    char *text;
    char **copy = calloc(count + 3, sizeof(*copy));
    if (!copy)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (strncmp(envp[i], tunables, sizeof(tunables) - 1) == 0)
            given = envp[i];
        else if (strncmp(envp[i], guard_entry, sizeof(guard_entry) - 2) != 0) /* up to the "=" */
            copy[at++] = envp[i];
    if (asprintf(&text, "%s%s%s", given ? given : tunables, given ? ":" : "", no_rseq) < 0) {
        free(copy);
        return NULL;
    }
    copy[0] = text;
    copy[1] = guard_entry;
    return copy;
}

int stack_build(struct spawn *spawn, const struct images *images)
{
    unsigned name_index = 0, arguments_index = 1;
    char **argv = images->is_command ? interpreter_argv(spawn, &name_index, &arguments_index)
                                     : spawn->program.argv;
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
        .spawn = spawn,
        .images = images,
        .size = stack_size_of(spawn, limit),
        .limit = limit,
        .argv = argv,
        .envp = guarded ? guarded : spawn->envp,
        .name_index = name_index,
        .arguments_index = arguments_index,
    };
    int result = map_stack(&request, &spawn->child->stack_pointer);
    spawn->child->strings = request.strings;
    spawn->child->auxv = request.auxv;
    if (images->is_command)
        free(argv);
    if (guarded)
        free(guarded[0]);
    free(guarded);
    return result;
}
