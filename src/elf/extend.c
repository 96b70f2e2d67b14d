/* src/elf/extend.c: program headers and a dynamic section for a program that is entered as the
 * kernel enters it, in a process that is another's.
 *
 * ld.so finds the program by AT_PHDR. The headers that it gets are a copy, beside a copy of the
 * dynamic section that begins with one library more; both lie where there is room, which ld.so does
 * not mind: it takes the load bias from PT_PHDR, and adds it to what the other headers say. Offsets
 * into the string table wrap in the same way.
 *
 * ld.so takes the program's directory from /proc/self/exe, which is the root's program: in
 * the copy's search paths $ORIGIN is that directory already. */
#include "elf/internal.h"

#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

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

/* Of the dynamic section that begins at dynamic[2], and has its end. */
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
