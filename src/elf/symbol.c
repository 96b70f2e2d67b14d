/* src/elf/symbol.c: looks names up in the symbol tables of an ELF file.
 *
 * Reads the file, never a task's memory, so that it may be called on any thread for any task. Every
 * size is bounded before memory is allocated for it: a file can claim any size, and a sparse one
 * can even have it. */
#include "elf/internal.h"

#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    SYMBOLS_AT_ONCE = 256,   /* entries read in one go */
    VERSION_HIDDEN = 0x8000, /* in .gnu.version: not the default version */
};

/* Symbol and string tables beyond this are an attempt to exhaust memory or time. */
#define TABLE_BYTES_MAX (1UL << 30)

struct elf_file {
    int fd;
    uint64_t size;
    ElfW(Ehdr) header;
    uint64_t section_count;
};

struct symbol_table {
    int fd;
    uint64_t symbols, count; /* offset in the file, entries */
    char *strings;           /* owned, zero-terminated */
    uint64_t strings_size;
    uint64_t versions; /* offset of .gnu.version, 0 if none */
};

struct found {
    int rank; /* 0: nothing yet */
    ElfW(Sym) symbol;
};

static int read_section(const struct elf_file *file, uint64_t index, ElfW(Shdr) * section)
{
    if (index >= file->section_count)
        return -ELIBBAD;
    return elf_read_exact(file->fd, section, sizeof(*section),
                          file->header.e_shoff + index * sizeof(*section));
}

/* Extended numbering: with 65,280 sections and more the first one's size holds the count. */
static int count_sections(struct elf_file *file)
{
    const ElfW(Ehdr) *header = &file->header;
    if (header->e_shoff == 0)
        return -ENOENT;
    if (header->e_shentsize != sizeof(ElfW(Shdr)) || header->e_shoff > file->size)
        return -ELIBBAD;
    file->section_count = header->e_shnum;
    if (header->e_shnum == 0) {
        ElfW(Shdr) first;
        int status = elf_read_exact(file->fd, &first, sizeof(first), header->e_shoff);
        if (status != 0)
            return status;
        file->section_count = first.sh_size;
    }
    if (file->section_count > (file->size - header->e_shoff) / sizeof(ElfW(Shdr)) ||
        file->section_count > TABLE_BYTES_MAX / sizeof(ElfW(Shdr)))
        return -ELIBBAD;
    return 0;
}

static int open_sections(int fd, struct elf_file *file)
{
    struct stat stat;
    if (fstat(fd, &stat) != 0)
        return -errno;
    if (!S_ISREG(stat.st_mode))
        return -EACCES;
    *file = (struct elf_file){.fd = fd, .size = (uint64_t)stat.st_size};
    int status = elf_read_exact(fd, &file->header, sizeof(file->header), 0);
    if (status != 0)
        return status;
    const unsigned char *ident = file->header.e_ident;
    if (memcmp(ident, ELFMAG, SELFMAG) != 0 || ident[EI_CLASS] != ARCH_ELF_CLASS ||
        ident[EI_DATA] != ARCH_ELF_DATA)
        return -ENOEXEC;
    return count_sections(file);
}

static int find_section(const struct elf_file *file, unsigned type, uint64_t *index,
                        ElfW(Shdr) * section)
{
    for (uint64_t i = 0; i < file->section_count; i++) {
        int status = read_section(file, i, section);
        if (status != 0)
            return status;
        if (section->sh_type == type) {
            *index = i;
            return 0;
        }
    }
    return -ENOENT;
}

static int read_strings(const struct elf_file *file, uint64_t index, struct symbol_table *table)
{
    ElfW(Shdr) section;
    int status = read_section(file, index, &section);
    if (status != 0)
        return status;
    if (section.sh_type != SHT_STRTAB ||
        !elf_within(section.sh_offset, section.sh_size, file->size))
        return -ELIBBAD;
    if (section.sh_size > TABLE_BYTES_MAX)
        return -EFBIG;
    char *strings = malloc(section.sh_size + 1);
    if (strings == NULL)
        return -ENOMEM;
    status = elf_read_exact(file->fd, strings, section.sh_size, section.sh_offset);
    if (status != 0) {
        free(strings);
        return status;
    }
    strings[section.sh_size] = '\0';
    table->strings = strings;
    table->strings_size = section.sh_size;
    return 0;
}

/* .gnu.version is parallel to .dynsym; a corrupt one is an error, a missing one is not. */
static int find_versions(const struct elf_file *file, uint64_t symbols_index,
                         struct symbol_table *table)
{
    ElfW(Shdr) section;
    uint64_t index;
    int status = find_section(file, SHT_GNU_versym, &index, &section);
    if (status == -ENOENT)
        return 0;
    if (status != 0)
        return status;
    if (section.sh_link != symbols_index)
        return 0;
    if (!elf_within(section.sh_offset, section.sh_size, file->size) ||
        section.sh_size / sizeof(ElfW(Half)) < table->count)
        return -ELIBBAD;
    table->versions = section.sh_offset;
    return 0;
}

/* On success the caller frees table->strings. -ENOENT when the file has no such table. */
static int open_table(int fd, unsigned type, struct symbol_table *table)
{
    struct elf_file file = {.fd = -1};
    ElfW(Shdr) section;
    uint64_t index;
    int status = open_sections(fd, &file);
    if (status == 0)
        status = find_section(&file, type, &index, &section);
    if (status != 0)
        return status;
    if (section.sh_entsize != sizeof(ElfW(Sym)) ||
        !elf_within(section.sh_offset, section.sh_size, file.size))
        return -ELIBBAD;
    if (section.sh_size > TABLE_BYTES_MAX)
        return -EFBIG;
    *table = (struct symbol_table){
        .fd = fd,
        .symbols = section.sh_offset,
        .count = section.sh_size / sizeof(ElfW(Sym)),
    };
    if (type == SHT_DYNSYM)
        status = find_versions(&file, index, table);
    if (status == 0)
        status = read_strings(&file, section.sh_link, table);
    return status;
}

/* How well a definition matches `name`: 0 if it does not; the greatest wins. Global precedes weak,
 * weak precedes local. In .symtab the linker writes versions into the name: name@@V is the default,
 * name@V an old one. An old version is better than none: a task may need it. */
static int rank_of(const struct symbol_table *table, const ElfW(Sym) * symbol, bool hidden,
                   const char *name, size_t length)
{
    unsigned type = symbol->st_info & 0xf;
    if (symbol->st_shndx == SHN_UNDEF || type == STT_SECTION || type == STT_FILE ||
        symbol->st_name >= table->strings_size)
        return 0;
    const char *found = table->strings + symbol->st_name;
    if (strncmp(found, name, length) != 0)
        return 0;
    const char *version = found + length;
    if (version[0] != '\0' && version[0] != '@')
        return 0;
    bool old = hidden || (version[0] == '@' && version[1] != '@');
    unsigned binding = symbol->st_info >> 4;
    int rank = binding == STB_LOCAL ? 1 : binding == STB_WEAK ? 2 : 3;
    return old ? rank : rank + 3;
}

static int scan_symbols(const struct symbol_table *table, const char *name, struct found *best)
{
    ElfW(Sym) symbols[SYMBOLS_AT_ONCE];
    ElfW(Half) versions[SYMBOLS_AT_ONCE] = {0};
    size_t length = strlen(name);
    /* The string table is searched first: the symbols are many. */
    if (!memmem(table->strings, table->strings_size, name, length))
        return 0;
    for (uint64_t first = 0; first < table->count; first += SYMBOLS_AT_ONCE) {
        uint64_t left = table->count - first;
        size_t count = left < SYMBOLS_AT_ONCE ? (size_t)left : SYMBOLS_AT_ONCE;
        int status = elf_read_exact(table->fd, symbols, count * sizeof(symbols[0]),
                                    table->symbols + first * sizeof(symbols[0]));
        if (status == 0 && table->versions != 0)
            status = elf_read_exact(table->fd, versions, count * sizeof(versions[0]),
                                    table->versions + first * sizeof(versions[0]));
        if (status != 0)
            return status;
        for (size_t i = 0; i < count; i++) {
            bool hidden = (versions[i] & VERSION_HIDDEN) != 0;
            int rank = rank_of(table, &symbols[i], hidden, name, length);
            if (rank > best->rank)
                *best = (struct found){rank, symbols[i]};
        }
    }
    return 0;
}

/* 0, -ENOENT when there is no such table or symbol, or another -errno. */
static int find_symbol(int fd, unsigned type, const char *name, ElfW(Sym) * symbol)
{
    struct symbol_table table;
    struct found best = {0};
    int status = open_table(fd, type, &table);
    if (status != 0)
        return status;
    status = scan_symbols(&table, name, &best);
    free(table.strings);
    if (status == 0 && best.rank == 0)
        status = -ENOENT;
    if (status == 0)
        *symbol = best.symbol;
    return status;
}

int elf_symbol(int fd, const char *name, Elf64_Sym *symbol)
{
    if (name[0] == '\0')
        return -ENOENT;
    int status = find_symbol(fd, SHT_SYMTAB, name, symbol);
    return status == -ENOENT ? find_symbol(fd, SHT_DYNSYM, name, symbol) : status;
}

/* The index of the first of the names that the table defines, or -errno. */
static int find_any(int fd, unsigned type, const char *const names[])
{
    struct symbol_table table;
    int status = open_table(fd, type, &table);
    if (status != 0)
        return status;
    struct found best = {0};
    int index = 0;
    for (; names[index] != NULL && status == 0 && best.rank == 0; index++)
        status = scan_symbols(&table, names[index], &best);
    free(table.strings);
    if (status != 0)
        return status;
    return best.rank != 0 ? index - 1 : -ENOENT;
}

int elf_defines(int fd, const char *const names[])
{
    int index = find_any(fd, SHT_DYNSYM, names);
    return index == -ENOENT ? find_any(fd, SHT_SYMTAB, names) : index;
}

static bool is_import_of(const struct symbol_table *table, const ElfW(Sym) * symbol,
                         const char *const names[])
{
    if (symbol->st_shndx != SHN_UNDEF || symbol->st_name >= table->strings_size)
        return false;
    for (; *names != NULL; names++)
        if (strcmp(table->strings + symbol->st_name, *names) == 0)
            return true;
    return false;
}

int elf_imports(int fd, const char *const names[])
{
    struct symbol_table table;
    int status = open_table(fd, SHT_DYNSYM, &table);
    if (status != 0)
        return status;
    for (uint64_t first = 0; first < table.count && status == 0; first += SYMBOLS_AT_ONCE) {
        ElfW(Sym) symbols[SYMBOLS_AT_ONCE];
        uint64_t left = table.count - first;
        size_t count = left < SYMBOLS_AT_ONCE ? (size_t)left : SYMBOLS_AT_ONCE;
        status = elf_read_exact(fd, symbols, count * sizeof(symbols[0]),
                                table.symbols + first * sizeof(symbols[0]));
        for (size_t i = 0; i < count && status == 0; i++)
            status = is_import_of(&table, &symbols[i], names);
    }
    free(table.strings);
    return status;
}
