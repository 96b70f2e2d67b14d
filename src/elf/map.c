/* src/elf/map.c: maps the segments of a file that elf_read accepted.
 *
 * The whole extent is reserved first, without access, and only then filled: no other mapping can be
 * replaced, none can appear in a gap between two segments, and one munmap undoes all of it. No byte
 * of the file is accessed through a mapping here: if the file were truncated at that moment, SIGBUS
 * would hit the caller, which is not the task. */
#include "elf/internal.h"

#include <errno.h>
#include <sys/mman.h>

static int reserve(uintptr_t address, size_t size)
{
    void *place = mmap((void *)address, size, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (place == MAP_FAILED)
        return -errno;
    if (place == (void *)address)
        return 0;
    /* Linux before 4.17 ignores the flag: the address is a hint, and the mapping goes elsewhere. */
    munmap(place, size);
    return -EEXIST;
}

static int map_fixed(uintptr_t from, uintptr_t to, int prot, int flags, int fd, uint64_t offset)
{
    if (from == to)
        return 0;
    void *place =
        mmap((void *)from, to - from, prot, MAP_PRIVATE | MAP_FIXED | flags, fd, (off_t)offset);
    return place == MAP_FAILED ? -errno : 0;
}

/* Maps one segment at `bias`: whole pages from the file, then anonymous memory. If the file part
 * ends within a page, the rest of that page must be zero; the page is made anonymous and read,
 * which costs what the copy-on-write of zeroing it would cost. Dynamic linkers allocate from the
 * rest of the page beyond .bss, so it is zeroed even where the segment's memory ends earlier. */
static int map_segment(int fd, const struct elf_segment *segment, uintptr_t bias)
{
    uintptr_t low = elf_page_floor(bias + segment->vaddr);
    uintptr_t file_end = bias + segment->vaddr + segment->filesz;
    uintptr_t high = elf_page_ceiling(bias + segment->vaddr + segment->memsz);
    bool zero_tail = (segment->prot & PROT_WRITE) != 0 || segment->memsz > segment->filesz;
    uintptr_t whole = zero_tail ? elf_page_floor(file_end) : elf_page_ceiling(file_end);
    if (segment->filesz == 0)
        whole = low;
    int status = map_fixed(low, whole, segment->prot, 0, fd, elf_page_floor(segment->offset));
    if (status != 0)
        return status;
    bool partial = segment->filesz != 0 && whole < file_end;
    int first_prot = partial ? PROT_READ | PROT_WRITE : segment->prot;
    status = map_fixed(whole, high, first_prot, MAP_ANONYMOUS, -1, 0);
    if (status != 0 || !partial)
        return status;
    /* From the page's start: a file mapping shows the bytes before the segment, too. */
    uint64_t offset = elf_page_floor(segment->offset) + (whole - low);
    status = elf_read_exact(fd, (void *)whole, file_end - whole, offset);
    if (status == 0 && first_prot != segment->prot &&
        mprotect((void *)whole, high - whole, segment->prot) != 0)
        status = -errno;
    return status;
}

int elf_map(int fd, const struct elf_info *info, uintptr_t address, struct elf_mapping *mapping)
{
    size_t size = info->high - info->low;
    if (address == 0 || address % info->align != 0 || address > UINTPTR_MAX - size)
        return -EINVAL;
    int status = reserve(address, size);
    if (status != 0)
        return status;
    /* May wrap: for a file linked at high addresses that is right, modulo 2^64. */
    uintptr_t bias = address - info->low;
    for (unsigned i = 0; i < info->segment_count && status == 0; i++)
        status = map_segment(fd, &info->segments[i], bias);
    if (status != 0) {
        munmap((void *)address, size);
        return status;
    }
    *mapping = (struct elf_mapping){
        .base = address,
        .bias = bias,
        .size = size,
        .entry = bias + info->entry,
        .phdr = info->phdr_vaddr != 0 ? bias + info->phdr_vaddr : 0,
    };
    return 0;
}

int elf_load(int fd, const struct elf_info *info, unsigned char *memory)
{
    int status = 0;
    for (unsigned i = 0; i < info->segment_count && status == 0; i++) {
        const struct elf_segment *segment = &info->segments[i];
        /* From the page's start: a mapping shows the bytes before the segment's own, too. */
        uint64_t skew = segment->vaddr - elf_page_floor(segment->vaddr);
        if (segment->filesz != 0)
            status = elf_read_exact(fd, memory + (segment->vaddr - skew - info->low),
                                    segment->filesz + skew, segment->offset - skew);
    }
    return status;
}
