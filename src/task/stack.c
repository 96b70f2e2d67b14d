/* src/task/stack.c: build the initial stack: argc, argv, envp, auxiliary vector, strings. */
#include "task/stack.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "arch.h"

enum { AUX_ENTRIES = 48, RANDOM_BYTES = 16 };

#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#define AT_RSEQ_ALIGN        28
#endif

/* The entries that hold for every program on this machine. */
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

static unsigned long common_value(unsigned long type)
{
    switch (type) {
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

/* Strings are laid from the top down, as the kernel does. */
struct pen {
    uintptr_t at, low;
    int full;
};

static uintptr_t push_bytes(struct pen *pen, const void *bytes, size_t size)
{
    if (pen->full || size > pen->at - pen->low) {
        pen->full = 1;
        return 0;
    }
    pen->at -= size;
    memcpy((void *)pen->at, bytes, size);
    return pen->at;
}

static uintptr_t push_string(struct pen *pen, const char *text)
{
    return push_bytes(pen, text, strlen(text) + 1);
}

static size_t count_strings(char *const *strings)
{
    size_t count = 0;
    while (strings[count])
        count++;
    return count;
}

/* The strings of a vector end up in ascending order; `addresses` gets where each went. */
static void push_strings(struct pen *pen, char *const *strings, size_t count, uintptr_t *addresses)
{
    for (size_t i = count; i > 0 && !pen->full; i--)
        addresses[i - 1] = push_string(pen, strings[i - 1]);
    addresses[count] = 0;
}

static void fill_aux(const struct stack_request *request, struct pen *pen, struct aux *aux)
{
    unsigned char bytes[RANDOM_BYTES] = {0};
    const char *platform = (const char *)getauxval(AT_PLATFORM);
    if (getrandom(bytes, sizeof(bytes), GRND_NONBLOCK) != (ssize_t)sizeof(bytes))
        memcpy(bytes, &request->slot->started_ns, sizeof(request->slot->started_ns));
    add_common(aux);
    add(aux, AT_PHDR, request->mapping->phdr);
    add(aux, AT_PHENT, request->info->phentsize);
    add(aux, AT_PHNUM, request->info->phnum);
    add(aux, AT_BASE, 0); /* ld.so is run as a command: it is the program */
    add(aux, AT_FLAGS, 0);
    add(aux, AT_ENTRY, request->mapping->entry);
    add(aux, AT_SECURE, 0);
    add(aux, AT_RANDOM, push_bytes(pen, bytes, sizeof(bytes)));
    add(aux, AT_EXECFN, push_string(pen, request->program));
    if (platform)
        add(aux, AT_PLATFORM, push_string(pen, platform));
    add(aux, SPACE_AT_REGISTRY, (uintptr_t)request->space);
    add(aux, SPACE_AT_SLOT, (uintptr_t)request->slot);
    add(aux, AT_NULL, 0);
}

static int fill(const struct stack_request *request, uintptr_t top, uintptr_t low,
                uintptr_t *stack_pointer)
{
    size_t argc = count_strings(request->argv), envc = count_strings(request->envp);
    size_t words = 1 + argc + 1 + envc + 1;
    struct aux aux = {0};
    /* The vectors go below the strings; their size is known, so they can be filled in place. */
    size_t bytes = words * sizeof(uintptr_t) + AUX_ENTRIES * sizeof(Elf64_auxv_t) + 64;
    if (bytes > top - low)
        return -E2BIG;
    struct pen pen = {top - 8, low + bytes, 0};
    uintptr_t *vector = (uintptr_t *)low; /* for the time being: argv, envp */
    push_strings(&pen, request->envp, envc, vector + argc + 1);
    push_strings(&pen, request->argv, argc, vector);
    fill_aux(request, &pen, &aux);
    if (pen.full)
        return -E2BIG;
    uintptr_t pointer = pen.at - (words * sizeof(uintptr_t) + aux.count * sizeof(aux.entries[0]));
    pointer &= -(uintptr_t)16;
    uintptr_t *out = (uintptr_t *)pointer;
    out[0] = argc;
    memmove(out + 1, vector, (words - 1) * sizeof(uintptr_t));
    memcpy(out + words, aux.entries, aux.count * sizeof(aux.entries[0]));
    *stack_pointer = pointer;
    return 0;
}

int stack_make(const struct stack_request *request, uintptr_t *stack_pointer)
{
    uintptr_t end = layout_range(space_slot_index(request->space, request->slot)) + LAYOUT_RANGE;
    uintptr_t top = end - ARCH_PAGE; /* a page above stays free */
    uintptr_t low = (top - request->size) & -(uintptr_t)ARCH_PAGE;
    /* Executable stacks need MAP_GROWSDOWN: glibc's mprotect asks for PROT_GROWSDOWN. The guard
     * stops the growth and catches large frames. */
    void *guard = mmap((void *)(low - LAYOUT_STACK_GUARD), LAYOUT_STACK_GUARD, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (guard == MAP_FAILED)
        return -errno;
    void *stack = mmap((void *)low, top - low, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_STACK | MAP_NORESERVE |
                           MAP_FIXED_NOREPLACE,
                       -1, 0);
    if (stack == MAP_FAILED)
        return -errno;
    request->slot->stack_low = low;
    request->slot->stack_high = top;
    return fill(request, top, top - request->size / 4, stack_pointer);
}
