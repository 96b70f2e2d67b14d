/* src/steer/sites.c: which sites of a file are patched, and the patching.
 *
 * A file is searched once per space; the result is kept under its identity. */
#include "steer/steer.h"

#include <errno.h>
#include <sys/mman.h>

#include "task/numbers.h"

/* Sites of a program, which may have any number, leave the other half of a task's stubs to its
 * libc, without which no memory would be steered. */
enum { PROGRAM_STUBS = ARCH_SITES_MAX / 2 };

struct site_list {
    uint16_t count, left_out;
    struct space_site sites[SPACE_FILE_SITES];
};

static int is_steered(long nr, int is_loader)
{
    switch (nr) {
    case __NR_mmap:
    case __NR_munmap:
    case __NR_mremap:
    case __NR_mprotect:
    case __NR_brk:
    case __NR_shmat:
    case __NR_shmdt:
    case __NR_rt_sigaction:
    case __NR_readlink:
    case __NR_readlinkat:
    case __NR_execve:
    case __NR_execveat:
    case __NR_process_vm_readv:
    case __NR_process_vm_writev:
    case __NR_exit_group:
        return 1;
    case __NR_openat:
        return is_loader;
    default:
        return 0;
    }
}

static void search_sites(const unsigned char *code, size_t size, int is_loader,
                         struct site_list *list)
{
    struct arch_found_site found;
    list->count = list->left_out = 0;
    for (size_t at = arch_next_site(code, size, 0, &found); at < size && at <= UINT32_MAX;
         at = arch_next_site(code, size, at + 1, &found)) {
        if (!is_steered(found.nr, is_loader))
            continue;
        if (list->count == SPACE_FILE_SITES) {
            list->left_out += list->left_out < UINT16_MAX;
            continue;
        }
        list->sites[list->count++] = (struct space_site){.at = (uint32_t)at,
                                                         .nr = (uint16_t)found.nr,
                                                         .length = found.length,
                                                         .lead = found.lead};
    }
}

static void search_cpuids(const unsigned char *code, size_t size, struct site_list *list)
{
    uint32_t offsets[ARCH_CPUIDS_MAX];
    unsigned count = arch_find_cpuids(code, size, offsets, ARCH_CPUIDS_MAX);
    for (unsigned i = 0; i < count && list->count < SPACE_FILE_SITES; i++)
        list->sites[list->count++] = (struct space_site){.at = offsets[i], .nr = SPACE_SITE_CPUID};
}

static int same_file(const struct space_file *file, const struct stat *status, size_t size,
                     long offset)
{
    return file->device == status->st_dev && file->inode == status->st_ino &&
           file->changed_ns == steer_changed_ns(status) &&
           file->size == (uint64_t)status->st_size && file->offset == (uint64_t)offset &&
           file->length == size;
}

/* Keeps what was found. EMPTY -> FILLING by compare-and-swap makes one writer; READY releases the
 * entry to the readers, who acquire it. */
static void remember(struct space *space, const struct stat *status, size_t size, long offset,
                     const struct site_list *list)
{
    for (unsigned i = 0; i < SPACE_FILES; i++) {
        struct space_file *file = &space->files[i];
        uint32_t expected = FILE_EMPTY;
        if (!atomic_compare_exchange_strong(&file->state, &expected, FILE_FILLING))
            continue;
        file->device = status->st_dev;
        file->inode = status->st_ino;
        file->changed_ns = steer_changed_ns(status);
        file->size = (uint64_t)status->st_size;
        file->offset = (uint64_t)offset;
        file->length = size;
        file->count = list->count;
        file->left_out = list->left_out;
        for (uint32_t s = 0; s < list->count; s++)
            file->sites[s] = list->sites[s];
        atomic_store_explicit(&file->state, FILE_READY, memory_order_release);
        return;
    }
    space_count(&space->overflows.files, 1);
}

static void find_sites(uintptr_t code, size_t size, int fd, long offset, int is_loader,
                       struct site_list *list)
{
    struct space *space = space_registry();
    struct stat status;
    int known = fd >= 0 && raw(__NR_fstat, fd, &status) == 0;
    for (unsigned i = 0; known && i < SPACE_FILES; i++) {
        struct space_file *file = &space->files[i];
        uint32_t state = atomic_load_explicit(&file->state, memory_order_acquire);
        if (state == FILE_EMPTY)
            break;
        if (state != FILE_READY || !same_file(file, &status, size, offset))
            continue;
        list->count = file->count;
        list->left_out = file->left_out;
        for (uint32_t s = 0; s < file->count; s++)
            list->sites[s] = file->sites[s];
        return;
    }
    search_sites((const unsigned char *)code, size, is_loader, list);
    if (is_loader)
        search_cpuids((const unsigned char *)code, size, list);
    if (known)
        remember(space, &status, size, offset, list);
}

/* The index of a stub, of which the first `most` may be taken; or -1. */
static int take_stub(struct space_steer *steer, uint32_t most)
{
    uint32_t index = atomic_load_explicit(&steer->site_count, memory_order_relaxed);
    do
        if (index >= most)
            return -1;
    while (!atomic_compare_exchange_weak_explicit(&steer->site_count, &index, index + 1,
                                                  memory_order_relaxed, memory_order_relaxed));
    return (int)index;
}

static void patch_site(struct space_slot *self, uintptr_t code, const struct space_site *found,
                       enum steer_kind kind)
{
    struct arch_stub_data *data = (struct arch_stub_data *)self->steer.stub_data;
    uint32_t *cpuids = &self->steer.cpuid_count;
    if (found->nr == SPACE_SITE_CPUID) {
        if (*cpuids < ARCH_CPUIDS_MAX &&
            arch_patch_cpuid(code + found->at, &data->cpuids[*cpuids],
                             arch_cpuid_stub_address(self->steer.stubs, *cpuids)) == 0)
            ++*cpuids;
        return;
    }
    int index = take_stub(&self->steer, kind == STEER_CODE ? PROGRAM_STUBS : ARCH_SITES_MAX);
    if (index < 0) {
        space_count(&space_registry()->overflows.sites, 1);
        return;
    }
    struct arch_site *site = &data->sites[index];
    struct arch_found_site form = {found->nr, found->length, found->lead};
    site->self = self;
    site->nr = found->nr;
    site->is_loader = kind == STEER_LOADER;
    site->resume = code + found->at + found->length;
    arch_patch_site(code + found->at, &form, arch_stub_address(self->steer.stubs, (unsigned)index));
}

static int is_wanted(const struct space_slot *self, const struct space_site *site,
                     enum steer_kind kind)
{
    switch (site->nr) {
    case __NR_exit_group: /* the agent sees to the libc's */
        return kind == STEER_LOADER && space_is_thread(self);
    case __NR_mprotect:
    case __NR_openat:
    case SPACE_SITE_CPUID:
        return kind == STEER_LOADER;
    case __NR_process_vm_readv:
    case __NR_process_vm_writev: /* the copy clobbers vector registers */
        return kind == STEER_LIBC;
    default:
        return 1;
    }
}

static void touch_for_writing(uintptr_t address)
{
    __atomic_fetch_or((unsigned char *)address, 0, __ATOMIC_RELAXED);
    __atomic_fetch_or((unsigned char *)(address + ARCH_SITE_BYTES - 1), 0, __ATOMIC_RELAXED);
}

static void find_and_count(uintptr_t code, size_t size, int fd, long offset, enum steer_kind kind,
                           struct site_list *list)
{
    find_sites(code, size, fd, offset, kind == STEER_LOADER, list);
    if (list->left_out)
        space_count(&space_registry()->overflows.sites, list->left_out);
}

void steer_patch_writable(struct space_slot *self, uintptr_t code, size_t size, int fd, long offset,
                          enum steer_kind kind)
{
    struct site_list list;
    find_and_count(code, size, fd, offset, kind, &list);
    for (uint32_t i = 0; i < list.count; i++)
        if (is_wanted(self, &list.sites[i], kind))
            patch_site(self, code, &list.sites[i], kind);
}

void steer_patch_mapping(struct space_slot *self, uintptr_t code, size_t size, int fd, long offset,
                         enum steer_kind kind)
{
    struct site_list list;
    uintptr_t low = UINTPTR_MAX, high = 0;
    find_and_count(code, size, fd, offset, kind, &list);
    for (uint32_t i = 0; i < list.count; i++) {
        uintptr_t at = code + list.sites[i].at;
        if (!is_wanted(self, &list.sites[i], kind))
            continue;
        low = at < low ? at & -(uintptr_t)ARCH_PAGE : low;
        high = at + ARCH_SITE_BYTES > high ? at + ARCH_SITE_BYTES : high;
    }
    if (high == 0 || raw(__NR_mprotect, low, high - low, PROT_READ | PROT_WRITE) != 0)
        return;
    /* Written before it is read, a page is copied at once; the other way round it is mapped, copied
     * and replaced, and every processor of the space must hear of it. */
    for (uint32_t i = 0; i < list.count; i++)
        if (is_wanted(self, &list.sites[i], kind))
            touch_for_writing(code + list.sites[i].at);
    for (uint32_t i = 0; i < list.count; i++)
        if (is_wanted(self, &list.sites[i], kind))
            patch_site(self, code, &list.sites[i], kind);
    raw(__NR_mprotect, low, high - low, PROT_READ | PROT_EXEC);
}

static int begins_with(const char *text, const char *prefix)
{
    while (*prefix)
        if (*text++ != *prefix++)
            return 0;
    return 1;
}

static int same_text(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

/* The text of /proc/self/fd/FD. */
static void write_fd_link(char text[32], int fd)
{
    const char *prefix = "/proc/self/fd/";
    while (*prefix)
        *text++ = *prefix++;
    numbers_write(text, fd);
}

void steer_patch_loaded(struct space_slot *self, uintptr_t code, size_t size, int fd, long offset)
{
    char link[32], path[4096];
    write_fd_link(link, fd);
    long length = raw(__NR_readlink, link, path, sizeof(path) - 1);
    if (length <= 0)
        return;
    path[length] = 0;
    const char *name = path;
    for (const char *at = path; *at; at++)
        if (*at == '/')
            name = at + 1;
    if (begins_with(name, "libc.so") || begins_with(name, "libc-") ||
        begins_with(name, "libpthread"))
        steer_patch_mapping(self, code, size, fd, offset, STEER_LIBC);
    else if (begins_with(name, "libucm") || /* UCX redirects libc's functions to its own calls */
             same_text(path, steer_program(self)))
        steer_patch_mapping(self, code, size, fd, offset, STEER_CODE);
}
