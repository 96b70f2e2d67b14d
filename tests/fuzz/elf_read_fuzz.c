/* tests/fuzz/elf_read_fuzz.c: any bytes as an ELF file: read, searched, and mapped if accepted.
 *
 * Beyond not crashing: what elf_read promises about an accepted file is checked, and what
 * elf_map mapped is compared with the file. One input in four is cut after it was read, as a
 * file is that another process rewrites at that moment. */
#include "elf/internal.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

#define EXTENT_MAX (64UL << 20)

static int file_of(const uint8_t *data, size_t size)
{
    static int fd = -1;
    if (fd < 0)
        fd = memfd_create("input", MFD_CLOEXEC);
    require(fd >= 0 && ftruncate(fd, 0) == 0, "a memory file");
    require(pwrite(fd, data, size, 0) == (ssize_t)size, "writing the file");
    return fd;
}

static void check_info(const struct elf_info *info, size_t size)
{
    uint64_t end = info->low;
    require(info->segment_count > 0 && info->segment_count <= ELF_SEGMENTS_MAX, "segments");
    require(info->low % info->align == 0 && info->low < info->high, "an aligned extent");
    require(info->high <= ARCH_ADDRESS_END, "addresses of a program");
    for (unsigned i = 0; i < info->segment_count; i++) {
        const struct elf_segment *segment = &info->segments[i];
        require(segment->filesz <= segment->memsz, "file part within memory");
        require(segment->vaddr >= end, "ascending segments");
        require(segment->filesz == 0 || elf_within(segment->offset, segment->filesz, size),
                "segment within the file");
        end = page_ceiling(segment->vaddr + segment->memsz);
    }
    require(end == info->high, "the extent's end");
    require(strlen(info->interpreter) < sizeof(info->interpreter), "a string");
}

static void check_memory(const struct elf_info *info, const struct elf_mapping *mapping,
                         const uint8_t *data)
{
    for (unsigned i = 0; i < info->segment_count; i++) {
        const struct elf_segment *segment = &info->segments[i];
        if ((segment->prot & PROT_READ) == 0)
            continue;
        const uint8_t *memory = (const uint8_t *)(mapping->bias + segment->vaddr);
        require(segment->filesz == 0 ||
                    memcmp(memory, data + segment->offset, segment->filesz) == 0,
                "the file's bytes");
        uint64_t rest = segment->memsz - segment->filesz;
        if (rest > ARCH_PAGE)
            rest = ARCH_PAGE;
        for (uint64_t at = 0; at < rest; at++)
            require(memory[segment->filesz + at] == 0, "zeroes behind the file's bytes");
    }
}

static void map_and_check(int fd, const struct elf_info *info, const uint8_t *data, size_t size)
{
    uint64_t extent = info->high - info->low;
    if (extent > EXTENT_MAX)
        return;
    void *room = mmap(NULL, extent + info->align, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(room != MAP_FAILED, "free addresses");
    munmap(room, extent + info->align);
    uintptr_t address = ((uintptr_t)room + info->align - 1) & ~(info->align - 1);
    bool cut = size > 0 && data[size - 1] % 4 == 1;
    if (cut)
        require(ftruncate(fd, (off_t)(size / 2)) == 0, "cutting the file");
    struct elf_mapping mapping;
    if (elf_map(fd, info, address, &mapping) == 0) {
        if (!cut)
            check_memory(info, &mapping, data);
        struct elf_mapping second;
        require(elf_map(fd, info, address, &second) != 0, "a taken place is refused");
        munmap((void *)mapping.base, mapping.size);
    }
}

static int ignore_name(const char *name, void *context)
{
    (void)context;
    require(strlen(name) <= 256, "a bounded name");
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"__asan_init", "other", NULL};
    struct elf_info info;
    struct elf_problem problem;
    Elf64_Sym symbol;
    int fd = file_of(data, size);
    elf_symbol(fd, "main", &symbol);
    elf_defines(fd, names);
    int status = elf_read(fd, &info, &problem);
    if (status != 0) {
        require(problem.error == -status && problem.reason[0] != '\0', "a reason");
        return 0;
    }
    check_info(&info, size);
    elf_each_needed(fd, &info, ignore_name, NULL);
    map_and_check(fd, &info, data, size);
    return 0;
}
