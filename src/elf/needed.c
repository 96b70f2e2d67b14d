/* src/elf/needed.c: the libraries that an ELF file needs (DT_NEEDED), from its dynamic section.
 *
 * Like symbol.c it reads the file, never a task's memory. */
#include "elf/internal.h"

#include <errno.h>
#include <link.h>
#include <stdlib.h>

enum {
    DYNAMIC_ENTRIES_MAX = 65536,
    LIBRARY_NAME_MAX = 256, /* longer names are truncated: no caller compares that many bytes */
};

bool elf_offset_of(const struct elf_info *info, uint64_t vaddr, uint64_t size, uint64_t *offset)
{
    for (unsigned i = 0; i < info->segment_count; i++) {
        const struct elf_segment *segment = &info->segments[i];
        if (vaddr >= segment->vaddr && elf_within(vaddr - segment->vaddr, size, segment->filesz)) {
            *offset = segment->offset + (vaddr - segment->vaddr);
            return true;
        }
    }
    return false;
}

static int visit_needed(int fd, const struct elf_info *info, const ElfW(Dyn) * entries,
                        size_t count, int (*visit)(const char *name, void *context), void *context)
{
    uint64_t strings_vaddr = 0, strings_size = 0, strings_offset;
    for (size_t i = 0; i < count; i++) {
        if (entries[i].d_tag == DT_STRTAB)
            strings_vaddr = entries[i].d_un.d_ptr;
        if (entries[i].d_tag == DT_STRSZ)
            strings_size = entries[i].d_un.d_val;
    }
    if (!elf_offset_of(info, strings_vaddr, strings_size, &strings_offset))
        return -ELIBBAD;
    int status = 0;
    for (size_t i = 0; i < count && status == 0; i++) {
        char name[LIBRARY_NAME_MAX + 1] = {0};
        uint64_t at = entries[i].d_un.d_val;
        if (entries[i].d_tag != DT_NEEDED)
            continue;
        if (at >= strings_size)
            return -ELIBBAD;
        ssize_t length = elf_read_some(fd, name, LIBRARY_NAME_MAX, strings_offset + at);
        if (length < 0)
            return (int)length;
        status = visit(name, context);
    }
    return status;
}

int elf_each_needed(int fd, const struct elf_info *info,
                    int (*visit)(const char *name, void *context), void *context)
{
    uint64_t offset;
    size_t count = info->dynamic_size / sizeof(ElfW(Dyn));
    if (count == 0)
        return 0;
    if (count > DYNAMIC_ENTRIES_MAX ||
        !elf_offset_of(info, info->dynamic_vaddr, count * sizeof(ElfW(Dyn)), &offset))
        return -ELIBBAD;
    ElfW(Dyn) *entries = malloc(count * sizeof(*entries));
    if (entries == NULL)
        return -ENOMEM;
    int status = elf_read_exact(fd, entries, count * sizeof(*entries), offset);
    size_t used = 0;
    while (used < count && entries[used].d_tag != DT_NULL && status == 0)
        used++;
    if (status == 0)
        status = visit_needed(fd, info, entries, used, visit, context);
    free(entries);
    return status;
}
