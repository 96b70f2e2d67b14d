/* src/elf/map.c: maps the segments of a file that elf_read accepted, and extends its dynamic
 * section.
 *
 * The whole extent is reserved first, without access, and only then filled: no other mapping can be
 * replaced, none can appear in a gap between two segments, and one munmap undoes all of it. No byte
 * of the file is accessed through a mapping here: if the file were truncated at that moment, SIGBUS
 * would hit the caller, which is not the task. */
#include "elf/internal.h"

#include <errno.h>
#include <link.h>
#include <string.h>
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
    uintptr_t low = page_floor(bias + segment->vaddr);
    uintptr_t file_end = bias + segment->vaddr + segment->filesz;
    uintptr_t high = page_ceiling(bias + segment->vaddr + segment->memsz);
    bool zero_tail = (segment->prot & PROT_WRITE) != 0 || segment->memsz > segment->filesz;
    uintptr_t whole = zero_tail ? page_floor(file_end) : page_ceiling(file_end);
    if (segment->filesz == 0)
        whole = low;
    int status = map_fixed(low, whole, segment->prot, 0, fd, page_floor(segment->offset));
    if (status != 0)
        return status;
    bool partial = segment->filesz != 0 && whole < file_end;
    int first_prot = partial ? PROT_READ | PROT_WRITE : segment->prot;
    status = map_fixed(whole, high, first_prot, MAP_ANONYMOUS, -1, 0);
    if (status != 0 || !partial)
        return status;
    /* From the page's start: a file mapping shows the bytes before the segment, too. */
    uint64_t offset = page_floor(segment->offset) + (whole - low);
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

int elf_read_image(int fd, const struct elf_info *info, unsigned char *memory)
{
    int status = 0;
    for (unsigned i = 0; i < info->segment_count && status == 0; i++) {
        const struct elf_segment *segment = &info->segments[i];
        /* From the page's start: a mapping shows the bytes before the segment's own, too. */
        uint64_t skew = segment->vaddr - page_floor(segment->vaddr);
        if (segment->filesz != 0)
            status = elf_read_exact(fd, memory + (segment->vaddr - skew - info->low),
                                    segment->filesz + skew, segment->offset - skew);
    }
    return status;
}

/* ---- Program headers for a program that ld.so finds mapped ----
 *
 * A program is entered as the kernel enters it, but in the process of another program. ld.so finds
 * it by AT_PHDR and gets a copy of its program headers, next to a copy of its dynamic section with
 * one more library at the beginning. The copies may lie anywhere: ld.so takes the load bias from
 * PT_PHDR and adds it to the addresses in the other headers. Offsets into the string table wrap in
 * the same way.
 *
 * ld.so takes the program's directory from /proc/self/exe, which is the root's program. In the
 * copy's search paths $ORIGIN is therefore replaced by the directory. */

/* Together of one block; text is for the library's name and search paths. */
enum { DYNAMIC_BYTES_MAX = 1 << 20, TEXT_BYTES = 16384 };

struct extension {
    int fd;
    const struct elf_info *info;
    uintptr_t strings; /* the program's string table in memory */
    const char *program;
    char *text, *end; /* where the next string goes, and what it may not reach */
};

static size_t table_bytes(const struct elf_info *info)
{
    return info->phnum * sizeof(ElfW(Phdr));
}

/* The library, the place of the file's own, and DT_NULL. */
static size_t dynamic_entries(const struct elf_info *info)
{
    return info->dynamic_size / sizeof(ElfW(Dyn)) + 3;
}

size_t elf_extension_size(const struct elf_info *info)
{
    return info->dynamic_size > DYNAMIC_BYTES_MAX
               ? 0
               : table_bytes(info) + dynamic_entries(info) * sizeof(ElfW(Dyn)) + TEXT_BYTES;
}

/* Adds a string of that length: its offset into the program's string table. */
static uint64_t add_text(struct extension *extension, const char *text, size_t length)
{
    uint64_t offset = (uintptr_t)extension->text - extension->strings;
    memcpy(extension->text, text, length + 1);
    extension->text += length + 1;
    return offset;
}

/* The length of $ORIGIN or ${ORIGIN} at the beginning of the text, or 0. */
static size_t origin_length(const char *text)
{
    if (strncmp(text, "${ORIGIN}", 9) == 0)
        return 9;
    return strncmp(text, "$ORIGIN", 7) == 0 && strchr("/:", text[7]) != NULL ? 7 : 0;
}

/* The search path with the program's directory in it. False: it has no $ORIGIN, or is too long. */
static bool expand(const struct extension *extension, const char *path, char *to, size_t room)
{
    size_t directory = (size_t)(strrchr(extension->program, '/') - extension->program), at = 0;
    bool found = false;
    while (*path != '\0') {
        size_t length = origin_length(path);
        size_t added = length != 0 ? directory : 1;
        if (at + added >= room)
            return false;
        memcpy(to + at, length != 0 ? extension->program : path, added);
        at += added;
        path += length != 0 ? length : 1;
        found = found || length != 0;
    }
    to[at] = '\0';
    return found;
}

static void expand_entry(struct extension *extension, ElfW(Dyn) * entry, uint64_t strings_vaddr)
{
    char path[TEXT_BYTES / 2] = {0}, expanded[TEXT_BYTES / 2];
    uint64_t offset;
    if (!elf_offset_of(extension->info, strings_vaddr + entry->d_un.d_val, 1, &offset) ||
        elf_read_some(extension->fd, path, sizeof(path) - 1, offset) <= 0 ||
        strlen(path) == sizeof(path) - 1 || !expand(extension, path, expanded, sizeof(expanded)) ||
        strlen(expanded) >= (size_t)(extension->end - extension->text))
        return;
    entry->d_un.d_val = add_text(extension, expanded, strlen(expanded));
}

/* Extends the dynamic section that begins at dynamic[2] and ends with DT_NULL. */
static int extend_dynamic(struct extension *extension, uintptr_t bias, const char *library,
                          ElfW(Dyn) * dynamic)
{
    uint64_t strings = 0;
    for (const ElfW(Dyn) *at = dynamic + 2; at->d_tag != DT_NULL; at++)
        if (at->d_tag == DT_STRTAB)
            strings = at->d_un.d_ptr;
    if (strings == 0)
        return -ELIBBAD;
    extension->strings = bias + strings;
    dynamic[0].d_tag = DT_NEEDED;
    dynamic[0].d_un.d_val = add_text(extension, library, strlen(library));
    dynamic[1].d_tag = ELF_FILE_DYNAMIC;
    dynamic[1].d_un.d_ptr = bias + extension->info->dynamic_vaddr;
    for (ElfW(Dyn) *at = dynamic + 2; at->d_tag != DT_NULL; at++)
        if (at->d_tag == DT_RPATH || at->d_tag == DT_RUNPATH)
            expand_entry(extension, at, strings);
    return 0;
}

/* The program's dynamic section, extended, and the header that leads to it. */
static int put_dynamic(struct extension *extension, uintptr_t bias, const char *library,
                       ElfW(Dyn) * dynamic, ElfW(Phdr) * header)
{
    const struct elf_info *info = extension->info;
    size_t entries = dynamic_entries(info);
    uint64_t offset;
    if (!elf_offset_of(info, info->dynamic_vaddr, info->dynamic_size, &offset))
        return -ELIBBAD;
    int status =
        elf_read_exact(extension->fd, dynamic + 2, (entries - 3) * sizeof(*dynamic), offset);
    dynamic[entries - 1].d_tag = DT_NULL;
    if (status == 0)
        status = extend_dynamic(extension, bias, library, dynamic);
    header->p_vaddr = header->p_paddr = (uintptr_t)dynamic - bias;
    header->p_filesz = header->p_memsz = entries * sizeof(*dynamic);
    return status;
}

int elf_extend(int fd, const struct elf_info *info, const struct elf_mapping *mapping,
               const char *program, const char *library, void *block)
{
    ElfW(Ehdr) header;
    ElfW(Phdr) *table = block, *last = NULL; /* of dynamic sections the last counts, as in ld.so */
    ElfW(Dyn) *dynamic = (ElfW(Dyn) *)((char *)block + table_bytes(info));
    struct extension extension = {.fd = fd, .info = info, .program = program};
    extension.text = (char *)(dynamic + dynamic_entries(info));
    extension.end = extension.text + TEXT_BYTES;
    if (strlen(library) >= TEXT_BYTES)
        return -ENAMETOOLONG;
    int status = elf_read_exact(fd, &header, sizeof(header), 0);
    if (status == 0)
        status = elf_read_exact(fd, table, table_bytes(info), header.e_phoff);
    for (unsigned i = 0; i < info->phnum && status == 0; i++) {
        if (table[i].p_type == PT_PHDR)
            table[i].p_vaddr = table[i].p_paddr = (uintptr_t)table - mapping->bias;
        if (table[i].p_type == PT_DYNAMIC)
            last = &table[i];
    }
    return status == 0 && last ? put_dynamic(&extension, mapping->bias, library, dynamic, last)
                               : status;
}
