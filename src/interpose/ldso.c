/* src/interpose/ldso.c: load libraries with fewer changes to the shared address space.
 *
 * All tasks share one lock on the memory map, and each change interrupts all CPUs that run the
 * space (TLB shootdown). Loading the libraries of one MPI program makes about a thousand changes,
 * which dominates the start of many ranks. So four things differ from a process. Each gives up
 * hardening that means little where every task can write to all memory anyway:
 *
 * - ld.so maps a library's whole extent and then each segment over it. Here the first mapping is
 *   executable and covers code and constants; only the writable data is mapped again. The same
 *   applies to a library whose segments are aligned to more than a page, as linkers did by default
 *   until 2018: ld.so first reserves addresses for it, here among the other files.
 * - Writable data of up to 256 KiB is read into populated anonymous memory. If it were mapped, the
 *   first write to each page would replace the page and interrupt all CPUs. It also becomes one
 *   mapping with the zeroes that follow; the kernel walks all mappings of the space whenever a task
 *   ends.
 * - ld.so.cache is mapped once for all tasks, and stays.
 * - Relocated data stays writable (no RELRO): no mapping is split, no CPU interrupted. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/raw.h"
#include "base/text.h"
#include "interpose/calls.h"
#include "interpose/memory/memory.h"
#include "interpose/patch/patch.h"

/* Programs write only a part of larger data; a copy of all would take more memory than a process.
 */
#define POPULATE_DATA   (LAYOUT_MIB / 4)
#define POPULATE_ZEROES (LAYOUT_MIB / 16)

static int in_files(const struct space_slot *self, uintptr_t address, size_t size)
{
    uintptr_t range = layout_range(slot_index(space_registry(), self));
    return address >= range + LAYOUT_FILES && size <= LAYOUT_GIB &&
           address + size <= range + LAYOUT_MAPPINGS;
}

/* Whether the extent of the library that is being loaded already maps this part of the file. ld.so
 * loads one library at a time, under its lock. */
static int covered_by_extent(const struct space_slot *self, const long a[6])
{
    const struct space_interpose *interpose = &self->interpose;
    uintptr_t address = (uintptr_t)a[0];
    return interpose->image_low && a[4] == interpose->image_fd && address >= interpose->image_low &&
           address + (size_t)a[1] <= interpose->image_high &&
           address - interpose->image_low == (uintptr_t)a[5];
}

/* The extent of a library was mapped at `result`. */
static long record_extent(struct space_slot *self, long result, const long a[6])
{
    self->interpose.image_low = (uintptr_t)result;
    self->interpose.image_high = (uintptr_t)result + (size_t)a[1];
    self->interpose.image_fd = (int)a[4];
    if (a[2] & PROT_EXEC)
        interpose_patch_beginning(self, (uintptr_t)result, (size_t)a[1], (int)a[4]);
    return result;
}

static long map_extent(struct space_slot *self, const long a[6])
{
    /* MAP_NORESERVE: no memory is accounted for patched pages, so that after the patch their
     * mapping merges with its neighbours again. */
    long b[6] = {a[0], a[1], PROT_READ | PROT_EXEC, a[3] | MAP_NORESERVE, a[4], a[5]};
    long result = interpose_mmap_unpatched(self, b);
    /* On a file system mounted noexec: map as requested. */
    return raw_failed(result) ? interpose_mmap_unpatched(self, a) : record_extent(self, result, a);
}

/* Maps the extent over a part of the reserved addresses, which are marked as used already. */
static long map_reserved_extent(struct space_slot *self, const long a[6])
{
    long result = raw(__NR_mmap, a[0], a[1], PROT_READ | PROT_EXEC, a[3] | MAP_NORESERVE, a[4], 0);
    return raw_failed(result) ? interpose_mmap(self, __NR_mmap, a) : record_extent(self, result, a);
}

static long map_populated(struct space_slot *self, const long a[6], long flags, long fd,
                          long offset)
{
    long b[6] = {a[0], a[1], a[2], flags | MAP_POPULATE, fd, offset};
    return interpose_mmap(self, __NR_mmap, b);
}

/* Anonymous memory with the file's bytes, in place of a private mapping of the file: it becomes one
 * mapping with the zeroes that follow. */
static long read_data(struct space_slot *self, const long a[6])
{
    long result = map_populated(self, a, a[3] | MAP_ANONYMOUS, -1, 0);
    if (raw_failed(result))
        return result;
    for (long done = 0; done < a[1];) {
        long got = raw(__NR_pread64, a[4], a[0] + done, a[1] - done, a[5] + done);
        if (got <= 0 && got != -EINTR)
            return got == 0 ? result : map_populated(self, a, a[3], a[4], a[5]);
        done += got > 0 ? got : 0;
    }
    return result;
}

static int fill_cache(struct space_cache *cache, const struct file_identity *identity, int fd)
{
    uint32_t expected = FILE_EMPTY;
    if (identity->size > LAYOUT_GIB || !identity->is_settled ||
        !atomic_compare_exchange_strong(&cache->state, &expected, FILE_FILLING))
        return 0;
    cache->identity = *identity;
    if (raw(__NR_mmap, LAYOUT_CACHE, identity->size, PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE,
            fd, 0) != (long)LAYOUT_CACHE)
        return 0; /* the state stays FILLING: no other task tries again */
    atomic_store_explicit(&cache->state, FILE_READY, memory_order_release);
    return 1;
}

/* Whether the whole file to be mapped is at LAYOUT_CACHE. The space shares the first file that an
 * ld.so maps and that is not a library. */
static int is_cached(const long a[6])
{
    struct space_cache *cache = &space_registry()->cache;
    struct stat status;
    uint32_t state = atomic_load_explicit(&cache->state, memory_order_acquire);
    if (state == FILE_FILLING || (a[3] & MAP_DENYWRITE) || !process_in_space() ||
        raw(__NR_fstat, a[4], &status) != 0 || status.st_size != a[1])
        return 0;
    struct file_identity identity = file_identity_of(&status);
    if (state == FILE_EMPTY)
        return fill_cache(cache, &identity, (int)a[4]);
    return file_is_unchanged(&cache->identity, &identity);
}

long ldso_mmap(struct space_slot *self, long nr, const long a[6])
{
    (void)nr;
    int is_file = (a[3] & MAP_PRIVATE) && !(a[3] & MAP_ANONYMOUS) && a[4] >= 0;
    int is_fixed = (a[3] & MAP_FIXED) != 0;
    if (!is_file && !is_fixed && a[2] == PROT_NONE) {
        self->interpose.image_low = 0; /* another library, perhaps at the addresses of the last */
        long result = mmap_in_files(self, a);
        return raw_failed(result) ? interpose_mmap(self, __NR_mmap, a) : result;
    }
    if (is_file && !is_fixed) {
        self->interpose.image_low = 0;
        /* MAP_DENYWRITE distinguishes a library from ld.so.cache and the like. */
        if ((a[2] & ~PROT_EXEC) == PROT_READ && a[5] == 0 && (a[3] & MAP_DENYWRITE))
            return map_extent(self, a);
    }
    if (is_file && is_fixed && !(a[2] & PROT_WRITE) && (a[2] & PROT_READ) &&
        covered_by_extent(self, a)) {
        if (a[2] & PROT_EXEC)
            interpose_patch_loaded(self, (uintptr_t)a[0], (size_t)a[1], (int)a[4], a[5]);
        return a[0];
    }
    if (is_file && is_fixed && (a[2] & ~PROT_EXEC) == PROT_READ && a[5] == 0 &&
        (a[3] & MAP_DENYWRITE) && in_files(self, (uintptr_t)a[0], (size_t)a[1]))
        return map_reserved_extent(self, a);
    if (is_fixed && (a[2] & PROT_WRITE) &&
        (size_t)a[1] <= (is_file ? POPULATE_DATA : POPULATE_ZEROES))
        return is_file ? read_data(self, a) : map_populated(self, a, a[3], -1, 0);
    if (is_file && !is_fixed && a[2] == PROT_READ && a[5] == 0 && is_cached(a))
        return LAYOUT_CACHE;
    return interpose_mmap(self, __NR_mmap, a);
}

long ldso_munmap(struct space_slot *self, long nr, const long a[6])
{
    return (uintptr_t)a[0] == LAYOUT_CACHE ? 0 : interpose_munmap(self, nr, a);
}

long ldso_mprotect(struct space_slot *self, long nr, const long a[6])
{
    (void)nr;
    const struct space_interpose *interpose = &self->interpose;
    uintptr_t address = (uintptr_t)a[0];
    if (a[2] == PROT_READ && in_files(self, address, (size_t)a[1]))
        return 0;
    /* ld.so makes everything after the first segment inaccessible before it maps the others over
     * it. Here the extent stays accessible, because it covers them. */
    if (a[2] == PROT_NONE && address >= interpose->image_low && address < interpose->image_high)
        return 0;
    return raw(__NR_mprotect, a[0], a[1], a[2]);
}

/* ld.so finds our libxpmem.so.0 wherever it looks for one: the kernel module's library would map
 * memory that a pointer reaches anyway. Unlike a preload this costs other programs nothing. */
long ldso_openat(struct space_slot *self, long nr, const long a[6])
{
    (void)nr;
    const char *ours = space_registry()->xpmem_library, *path = (const char *)a[1];
    /* A program that loads the library of the driver may get memory that the CPU cannot read. */
    if (path && text_skip_prefix(text_basename(path), "libcuda.so"))
        atomic_store_explicit(&self->interpose.gpu_library, 1, memory_order_relaxed);
    if (path && ours[0] && text_equal(text_basename(path), "libxpmem.so.0")) {
        long fd = raw(__NR_openat, a[0], ours, a[2], a[3]);
        if (fd >= 0) /* it cannot be opened after chroot */
            return fd;
    }
    return raw(__NR_openat, a[0], a[1], a[2], a[3]);
}
