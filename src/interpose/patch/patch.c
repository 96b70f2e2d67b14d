/* src/interpose/patch/patch.c: turns a file's patch sites into jumps to the task's trampolines. */
#include "interpose/patch/patch.h"

#include <elf.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <sys/mman.h>

#include "arch/code/patch.h"
#include "arch/copy.h"
#include "base/text.h"
#include "base/page.h"
#include "base/raw.h"
#include "interpose/calls.h"
#include "interpose/interpose.h"

/* A program may have any number of patch sites, so with its ld.so it gets at most half of a task's
 * trampolines. The rest is reserved for its libc, without which no memory call would be interposed,
 * and, when that has been patched, for libraries that count as programs. */
enum { PROGRAM_TRAMPOLINES = ARCH_PATCHED_SYSCALLS_MAX / 2 };

/* The index of an unused trampoline below `limit`, or -1. */
static int claim_trampoline(struct space_interpose *interpose, uint32_t limit)
{
    uint32_t index = atomic_load_explicit(&interpose->trampoline_count, memory_order_relaxed);
    do
        if (index >= limit)
            return -1;
    while (!atomic_compare_exchange_weak_explicit(&interpose->trampoline_count, &index, index + 1,
                                                  memory_order_relaxed, memory_order_relaxed));
    return (int)index;
}

static void patch(struct space_slot *self, uintptr_t code, const struct space_patch_site *found,
                  enum interpose_code kind)
{
    struct arch_trampoline_data *data =
        (struct arch_trampoline_data *)self->interpose.trampoline_data;
    if (ARCH_HAS_CPUID && found->nr == SPACE_PATCH_SITE_CPUID) {
        cpuid_patch(self, code + found->at);
        return;
    }
    _Atomic uint32_t *has_libc = &self->interpose.has_libc;
    int must_reserve =
        kind == CODE_PROGRAM && !atomic_load_explicit(has_libc, memory_order_relaxed);
    int index = claim_trampoline(&self->interpose,
                                 must_reserve ? PROGRAM_TRAMPOLINES : ARCH_PATCHED_SYSCALLS_MAX);
    if (index < 0) {
        counter_add(&space_registry()->overflows.patch_sites, 1);
        return;
    }
    if (kind == CODE_LIBC)
        atomic_store_explicit(has_libc, 1, memory_order_relaxed);
    struct arch_patched_syscall *call = &data->calls[index];
    struct arch_patch_site form = {found->nr, found->length, found->displaced};
    call->self = self;
    call->nr = found->nr;
    call->is_loader = kind == CODE_LDSO;
    arch_set_resume(call, code + found->at, &form);
    if (arch_patch_syscall(code + found->at, &form,
                           arch_syscall_trampoline(self->interpose.trampolines, (unsigned)index)) !=
        0)
        counter_add(&space_registry()->overflows.patch_sites, 1); /* out of reach */
}

/* Whether a site is patched in this kind of code and task. The cached list of a file has the sites
 * for all kinds. */
static int is_patched_in(const struct space_slot *self, const struct space_patch_site *site,
                         enum interpose_code kind)
{
    static const unsigned in_code[] = {
        [CODE_LDSO] = IN_LDSO, [CODE_LIBC] = IN_LIBC, [CODE_PROGRAM] = IN_PROGRAM};
    unsigned where = in_code[kind];
    if (kind == CODE_LDSO && slot_is_thread(self))
        where |= IN_LDSO_OF_THREAD;
    return site->nr == SPACE_PATCH_SITE_CPUID ? kind == CODE_LDSO
                                              : (interposed_where(site->nr) & where) != 0;
}

/* An atomic read-modify-write is a write to the page; volatile, because compilers may turn one that
 * changes nothing into a load. On a CPU where it is a load and a store, the first access would be
 * the load. */
static void touch_for_writing(uintptr_t address)
{
    volatile unsigned char *first = (volatile unsigned char *)address;
    __atomic_fetch_or(first, 0, __ATOMIC_RELAXED);
    __atomic_fetch_or(first + ARCH_PATCH_SITE_BYTES - 1, 0, __ATOMIC_RELAXED);
}

/* Finds the sites that are patched in this task. Returns whether all of the code was read. */
static int find_sites(const struct space_slot *self, uintptr_t code, size_t size, int fd,
                      long offset, enum interpose_code kind, struct patch_sites *list)
{
    int was_read = patch_sites_find(code, size, fd, offset, kind == CODE_LDSO, list);
    if (list->left_out)
        counter_add(&space_registry()->overflows.patch_sites, list->left_out);
    uint16_t kept = 0;
    for (uint16_t i = 0; i < list->count; i++)
        if (is_patched_in(self, &list->items[i], kind))
            list->items[kept++] = list->items[i];
    list->count = kept;
    return was_read;
}

static void patch_all(struct space_slot *self, uintptr_t code, const struct patch_sites *list,
                      enum interpose_code kind)
{
    for (uint16_t i = 0; i < list->count; i++)
        patch(self, code, &list->items[i], kind);
}

void interpose_patch_writable(struct space_slot *self, uintptr_t code, size_t size, int fd,
                              long offset, enum interpose_code kind)
{
    struct patch_sites list;
    find_sites(self, code, size, fd, offset, kind, &list);
    patch_all(self, code, &list, kind);
}

void interpose_patch_mapping(struct space_slot *self, uintptr_t code, size_t size, int fd,
                             long offset, enum interpose_code kind)
{
    struct patch_sites list;
    uintptr_t low = UINTPTR_MAX, high = 0;
    /* The search has mapped every page of the program, which will execute few of them. No page has
     * been written to yet. */
    if (find_sites(self, code, size, fd, offset, kind, &list) && kind == CODE_PROGRAM)
        raw(__NR_madvise, code, size, MADV_DONTNEED);
    for (uint16_t i = 0; i < list.count; i++) {
        uintptr_t at = code + list.items[i].at;
        low = at < low ? page_floor(at) : low;
        high = at + ARCH_PATCH_SITE_BYTES > high ? at + ARCH_PATCH_SITE_BYTES : high;
    }
    if (high == 0)
        return;
    if (raw(__NR_mprotect, low, high - low, PROT_READ | PROT_WRITE) != 0) {
        counter_add(&space_registry()->overflows.patch_sites, list.count);
        return;
    }
    /* Write before reading: a page whose first access is a write is copied at once. After a read
     * the file's page is mapped and later replaced, which interrupts every CPU that runs the space.
     */
    for (uint16_t i = 0; ARCH_PATCH_READS && i < list.count; i++)
        touch_for_writing(code + list.items[i].at);
    patch_all(self, code, &list, kind);
    if (raw(__NR_mprotect, low, high - low, PROT_READ | PROT_EXEC) == 0)
        return;
    /* PR_SET_MDWE or SELinux forbids to execute written pages: maps the file's code again. */
    raw(__NR_mmap, low, high - low, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd,
        offset + (long)(low - code));
    counter_add(&space_registry()->overflows.patch_sites, list.count);
}

void interpose_patch_loaded(struct space_slot *self, uintptr_t code, size_t size, int fd,
                            long offset)
{
    char link[32], path[PATH_MAX];
    text_append_number(text_append(link, "/proc/self/fd/"), (uint64_t)fd, 10);
    long length = raw(__NR_readlinkat, AT_FDCWD, link, path, sizeof(path) - 1);
    if (length <= 0)
        return;
    path[length] = 0;
    const char *name = text_basename(path);
    if (text_skip_prefix(name, "libc.so") || text_skip_prefix(name, "libc-") ||
        text_skip_prefix(name, "libpthread"))
        interpose_patch_mapping(self, code, size, fd, offset, CODE_LIBC);
    else if (text_skip_prefix(name,
                              "libucm") || /* UCX redirects libc's functions to its own calls */
             text_equal(path, interpose_program(self)))
        interpose_patch_mapping(self, code, size, fd, offset, CODE_PROGRAM);
}

/* 0, or nonzero past the end of the file, where nothing can be read. */
static int read_image(struct space_slot *self, void *to, uintptr_t from, size_t size)
{
    return interpose_can_recover(self) ? arch_guarded_copy(to, (const void *)from, size) != 0
                                       : interpose_copy_from_user(to, (const void *)from, size);
}

/* The size of an ELF file's segment at offset 0 if that is code, else 0. The file may be of any
 * kind. */
static size_t leading_code(struct space_slot *self, uintptr_t image, size_t size)
{
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    if (size < sizeof(header) || read_image(self, &header, image, sizeof(header)) != 0 ||
        !text_skip_prefix((const char *)header.e_ident, ELFMAG) || header.e_phoff > size)
        return 0;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        size_t at = header.e_phoff + i * sizeof(segment);
        if (at + sizeof(segment) > size ||
            read_image(self, &segment, image + at, sizeof(segment)) != 0)
            return 0;
        if (segment.p_type == PT_LOAD) /* the first: segments ascend */
            return segment.p_offset == 0 && (segment.p_flags & PF_X) && segment.p_filesz <= size
                       ? segment.p_filesz
                       : 0;
    }
    return 0;
}

void interpose_patch_beginning(struct space_slot *self, uintptr_t image, size_t size, int fd)
{
    size_t code = leading_code(self, image, size);
    if (code)
        interpose_patch_loaded(self, image, code, fd, 0);
}
