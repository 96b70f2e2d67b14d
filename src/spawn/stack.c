/* src/spawn/stack.c: build the initial stack: argc, argv, envp, auxiliary vector, strings. */
#include "spawn/internal.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/page.h"

enum { AUX_ENTRIES = 48, RANDOM_BYTES = 16 };

#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#define AT_RSEQ_ALIGN        28
#endif

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

/* What the kernel says of the CPU. glibc's getauxval has a value of its own for it, which programs
 * of other libcs would misread. */
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
    static _Atomic unsigned long cpu; /* by whoever spawns first; of all the same */
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
    size_t bytes = RANDOM_BYTES + strlen(request->program) + 1;
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
        memcpy(bytes, &request->slot->started_ns, sizeof(request->slot->started_ns));
    add_common(aux);
    add(aux, AT_PHDR, request->images->phdr);
    add(aux, AT_PHENT, sizeof(Elf64_Phdr));
    add(aux, AT_PHNUM, request->images->phnum);
    add(aux, AT_BASE, request->images->base);
    add(aux, AT_FLAGS, 0);
    add(aux, AT_ENTRY, request->images->program_entry);
    add(aux, AT_SECURE, 0);
    add(aux, AT_RANDOM, put(at, bytes, sizeof(bytes)));
    add(aux, AT_EXECFN, put_string(at, request->program));
    if (platform)
        add(aux, AT_PLATFORM, put_string(at, platform));
    add(aux, SPACE_AT_REGISTRY, (uintptr_t)request->space);
    add(aux, SPACE_AT_SLOT, (uintptr_t)request->slot);
    add(aux, AT_NULL, 0);
}

/* Where argv[0] of the program and its arguments went. */
static void note_arguments(struct stack_request *request, const uintptr_t *argv)
{
    struct child_strings *strings = &request->strings;
    int is_empty = !argv[request->name_at];
    uintptr_t after_name = is_empty ? 0 : argv[request->name_at + 1];
    uintptr_t arguments = is_empty ? 0 : argv[request->arguments_at];
    strings->name = argv[request->name_at];
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
    note_arguments(request, argv);
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
static size_t room_for_strings(const struct stack_request *request)
{
    enum { MOST = 6 << 20 };
    size_t room = request->limit / 4;
    room = room < STACK_STRINGS_LEAST ? STACK_STRINGS_LEAST : room > MOST ? MOST : room;
    return room > request->size / 4 * 3 ? request->size / 4 * 3 : room;
}

int stack_build(struct stack_request *request, uintptr_t *stack_pointer)
{
    uintptr_t end = layout_range(slot_index(request->space, request->slot)) + LAYOUT_RANGE;
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
    request->slot->stack_low = low;
    request->slot->stack_high = top;
    *stack_pointer = fill(request, top, top - room_for_strings(request));
    return *stack_pointer ? 0 : -E2BIG;
}
