/* cmd/core/write.c: the file: ELF header, program headers, notes, memory.
 *
 * With 65,535 program headers or more their number is in the first section header, which exists for
 * that only (elf(5), PN_XNUM). */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/constants.h"
#include "cmd/core/core.h"

enum { BUFFER = 1 << 20 };

struct writing {
    int fd;
    off_t at;
    int64_t written;
    int result;
};

static void put(struct writing *writing, const void *bytes, size_t size)
{
    const char *from = bytes;
    while (size > 0 && writing->result == 0) {
        ssize_t done = pwrite(writing->fd, from, size, writing->at);
        if (done <= 0) {
            writing->result = done < 0 ? -errno : -EIO;
            return;
        }
        from += done;
        size -= (size_t)done;
        writing->at += done;
        writing->written += done;
    }
}

static uint64_t align(uint64_t offset)
{
    return (offset + ARCH_PAGE - 1) / ARCH_PAGE * ARCH_PAGE;
}

Elf64_Ehdr core_header(uint64_t headers)
{
    Elf64_Ehdr header = {
        .e_type = ET_CORE,
        .e_machine = ARCH_ELF_MACHINE,
        .e_version = EV_CURRENT,
        .e_phoff = sizeof(header),
        .e_ehsize = sizeof(header),
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = headers < PN_XNUM ? (Elf64_Half)headers : PN_XNUM,
    };
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    return header;
}

static void put_header(struct writing *writing, uint64_t headers, uint64_t sections)
{
    Elf64_Ehdr header = core_header(headers);
    if (sections) {
        header.e_shoff = sections;
        header.e_shentsize = sizeof(Elf64_Shdr);
        header.e_shnum = 1;
    }
    put(writing, &header, sizeof(header));
}

static Elf64_Word flags_of(const char *permissions)
{
    return (permissions[0] == 'r' ? PF_R : 0u) | (permissions[1] == 'w' ? PF_W : 0u) |
           (permissions[2] == 'x' ? PF_X : 0u);
}

static void put_program_headers(struct writing *writing, const struct core_memory *memory,
                                uint64_t notes, uint64_t notes_size, uint64_t data)
{
    Elf64_Phdr note = {.p_type = PT_NOTE, .p_offset = notes, .p_filesz = notes_size, .p_align = 4};
    put(writing, &note, sizeof(note));
    for (size_t i = 0; i < memory->count && writing->result == 0; i++) {
        const struct core_segment *segment = &memory->segments[i];
        Elf64_Phdr header = {
            .p_type = PT_LOAD,
            .p_flags = flags_of(segment->region->permissions),
            .p_offset = data,
            .p_vaddr = segment->start,
            .p_filesz = segment->bytes,
            .p_memsz = segment->end - segment->start,
            .p_align = ARCH_PAGE,
        };
        put(writing, &header, sizeof(header));
        data += segment->bytes;
    }
}

/* Up to BUFFER bytes. What cannot be read, as behind the end of a file, is a hole. */
static void put_memory(struct writing *writing, const struct core_memory *memory, uintptr_t from,
                       size_t size, char *buffer)
{
    while (size > 0 && writing->result == 0) {
        ssize_t done = pread(memory->memory, buffer, size, (off_t)from);
        if (done > 0)
            put(writing, buffer, (size_t)done);
        size_t passed = done > 0 ? (size_t)done : ARCH_PAGE - from % ARCH_PAGE;
        passed = passed < size ? passed : size;
        if (done <= 0)
            writing->at += (off_t)passed;
        from += passed;
        size -= passed;
    }
}

static void put_segment(struct writing *writing, const struct core_memory *memory,
                        const struct core_segment *segment, char *buffer)
{
    static unsigned char present[CORE_PAGES];
    uintptr_t end = segment->start + segment->bytes;
    off_t begin = writing->at;
    if (segment->content) {
        put(writing, segment->content, segment->bytes);
        return;
    }
    for (uintptr_t at = segment->start; at < end && writing->result == 0;) {
        size_t pages = BUFFER / ARCH_PAGE, run = 0;
        uintptr_t until = end - at < BUFFER ? end : at + BUFFER;
        if (!segment->is_sparse) {
            put_memory(writing, memory, at, until - at, buffer);
            at = until;
            continue;
        }
        pages = core_present(memory, at, until, present);
        while (run < pages && present[run] == present[0])
            run++;
        if (present[0])
            put_memory(writing, memory, at, run * ARCH_PAGE, buffer);
        else
            writing->at += (off_t)(run * ARCH_PAGE);
        at += run * ARCH_PAGE;
    }
    if (memory->change_at >= segment->start && memory->change_at < end && writing->result == 0 &&
        pwrite(writing->fd, &memory->change, sizeof(memory->change),
               begin + (off_t)(memory->change_at - segment->start)) != sizeof(memory->change))
        writing->result = -errno;
}

int64_t core_write(int fd, const struct core_memory *memory, const struct core_notes *notes)
{
    struct writing writing = {.fd = fd};
    uint64_t headers = memory->count + 1;
    uint64_t at = sizeof(Elf64_Ehdr) + headers * sizeof(Elf64_Phdr);
    uint64_t sections = headers < PN_XNUM ? 0 : at;
    uint64_t notes_at = at + (sections ? sizeof(Elf64_Shdr) : 0);
    char *buffer = malloc(BUFFER);
    if (!buffer)
        return -ENOMEM;
    put_header(&writing, headers, sections);
    put_program_headers(&writing, memory, notes_at, notes->size, align(notes_at + notes->size));
    if (sections) {
        Elf64_Shdr section = {.sh_type = SHT_NULL, .sh_info = (Elf64_Word)headers};
        put(&writing, &section, sizeof(section));
    }
    put(&writing, notes->bytes, notes->size);
    writing.at = (off_t)align((uint64_t)writing.at);
    for (size_t i = 0; i < memory->count && writing.result == 0; i++)
        put_segment(&writing, memory, &memory->segments[i], buffer);
    free(buffer);
    if (writing.result == 0 && ftruncate(fd, writing.at) != 0)
        writing.result = -errno;
    return writing.result < 0 ? writing.result : writing.written;
}
