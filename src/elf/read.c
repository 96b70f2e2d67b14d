/* src/elf/read.c: reads an ELF file: its headers, with every check that the other sources rely on,
 * the libraries it needs, and the options of a dynamic linker.
 *
 * Invariants after elf_read has accepted a file: the file part of every segment lies within the
 * size that the file had, segments ascend and share no page, all addresses are below
 * ARCH_ADDRESS_END, and the entry point is in an executable segment. Others may still truncate or
 * rewrite the file; code that reads it again must handle that. */
#include "elf/internal.h"

#include <errno.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

#ifndef EM_LOONGARCH /* glibc before 2.35 */
#define EM_LOONGARCH 258
#endif

/* No page size is larger; a greater alignment is an attempt to exhaust the address space. */
#define ALIGN_MAX (1UL << 30)

static const char REBUILD[] = "Copy or build the file again.";

struct reading { /* one file while it is being checked */
    int fd;
    uint64_t file_size;
    ElfW(Ehdr) header;
    ElfW(Phdr) table[ELF_PHDRS_MAX];
    struct elf_info *info;
    struct elf_problem *problem;
};

int elf_refuse(struct elf_problem *problem, int error, const char *fix, const char *reason, ...)
{
    if (problem == NULL)
        return -error;
    /* In a copy: the arguments may quote the earlier text of *problem. */
    struct elf_problem composed = {.error = error};
    va_list arguments;
    va_start(arguments, reason);
    vsnprintf(composed.reason, sizeof(composed.reason), reason, arguments);
    va_end(arguments);
    snprintf(composed.fix, sizeof(composed.fix), "%s", fix);
    for (char *at = composed.reason; *at != '\0'; at++) {
        if (text_is_control(*at))
            *at = '?';
    }
    *problem = composed;
    return -error;
}

ssize_t elf_read_some(int fd, void *buffer, size_t size, uint64_t offset)
{
    size_t done = 0;
    while (done < size) {
        ssize_t count = pread(fd, (char *)buffer + done, size - done, (off_t)(offset + done));
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -errno;
        if (count == 0)
            break;
        done += (size_t)count;
    }
    return (ssize_t)done;
}

int elf_read_exact(int fd, void *buffer, size_t size, uint64_t offset)
{
    ssize_t count = elf_read_some(fd, buffer, size, offset);
    if (count < 0)
        return (int)count;
    return (size_t)count == size ? 0 : -ELIBBAD;
}

static int refuse_unread(struct elf_problem *problem, int status, const char *what)
{
    if (status == -ELIBBAD)
        return elf_refuse(problem, ELIBBAD, REBUILD, "is truncated: it ends within %s", what);
    return elf_refuse(problem, -status, "Check the file system that it lies on.",
                      "cannot be read: %s", strerror(-status));
}

static const char *machine_name(unsigned machine)
{
    static const struct {
        unsigned machine;
        const char *name;
    } known[] = {
        {EM_386, "i386"},    {EM_X86_64, "x86-64"}, {EM_AARCH64, "aarch64"},
        {EM_ARM, "arm"},     {EM_RISCV, "riscv"},   {EM_PPC64, "ppc64"},
        {EM_S390, "s390"},   {EM_MIPS, "mips"},     {EM_LOONGARCH, "loongarch"},
        {EM_PPC, "powerpc"}, {EM_SPARCV9, "sparc"},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (known[i].machine == machine)
            return known[i].name;
    }
    return "another architecture";
}

/* The kind of file, which the user can correct, as opposed to corruption. */
static int check_kind(const ElfW(Ehdr) * header, struct elf_problem *problem)
{
    static const char rebuild_here[] = "Build it for " ARCH_NAME ".";
    if (header->e_ident[EI_CLASS] != ARCH_ELF_CLASS)
        return elf_refuse(problem, ENOEXEC, rebuild_here, "is not a %d-bit program", ARCH_ELF_BITS);
    if (header->e_ident[EI_DATA] != ARCH_ELF_DATA || header->e_machine != ARCH_ELF_MACHINE)
        return elf_refuse(
            problem, ENOEXEC, rebuild_here, "is built for %s and this machine is " ARCH_NAME,
            header->e_ident[EI_DATA] != ARCH_ELF_DATA ? "the other byte order"
                                                      : machine_name(header->e_machine));
    if (header->e_type == ET_EXEC)
        return elf_refuse(problem, ENOEXEC,
                          "Rebuild it with -fPIE -pie (if it is static: -static-pie, if it is "
                          "Go: -buildmode=pie); for Debian's Node.js see docs/programs.md.",
                          "is not position independent (non-PIE)");
    if (header->e_type != ET_DYN)
        return elf_refuse(problem, ENOEXEC, "Give the linked program instead.",
                          "is %s, not a program",
                          header->e_type == ET_REL    ? "an object file"
                          : header->e_type == ET_CORE ? "a core dump"
                                                      : "an ELF file of unknown type");
    return 0;
}

static int read_header(struct reading *reading)
{
    ElfW(Ehdr) *header = &reading->header;
    struct elf_problem *problem = reading->problem;
    memset(header, 0, sizeof(*header));
    ssize_t count = elf_read_some(reading->fd, header, sizeof(*header), 0);
    if (count < 0)
        return refuse_unread(problem, (int)count, "its header");
    if (count == 0)
        return elf_refuse(problem, ENOEXEC, REBUILD, "is empty");
    if (count < SELFMAG || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
        return elf_refuse(problem, ENOEXEC, "Give an ELF program or a script that names one.",
                          "is not an ELF program");
    /* A 32-bit header is shorter than this one, so the class is checked before the length. */
    if (count > EI_CLASS && header->e_ident[EI_CLASS] == ELFCLASS32)
        return check_kind(header, problem);
    if ((size_t)count < sizeof(*header))
        return refuse_unread(problem, -ELIBBAD, "its header");
    int status = check_kind(header, problem);
    if (status != 0)
        return status;
    if (header->e_ident[EI_VERSION] != EV_CURRENT || header->e_version != EV_CURRENT)
        return elf_refuse(problem, ELIBBAD, REBUILD, "has an ELF version that does not exist");
    return 0;
}

static int read_table(struct reading *reading)
{
    const ElfW(Ehdr) *header = &reading->header;
    struct elf_problem *problem = reading->problem;
    if (header->e_phnum == 0 || header->e_phentsize != sizeof(ElfW(Phdr)))
        return elf_refuse(problem, ELIBBAD, REBUILD, "is corrupt: it has no program headers");
    if (header->e_phnum > ELF_PHDRS_MAX)
        return elf_refuse(problem, ENOEXEC, "Link it with fewer segments.",
                          "has %u program headers, more than the %d that onespace reads",
                          (unsigned)header->e_phnum, ELF_PHDRS_MAX);
    size_t size = header->e_phnum * sizeof(ElfW(Phdr));
    if (!elf_within(header->e_phoff, size, reading->file_size))
        return refuse_unread(problem, -ELIBBAD, "its program headers");
    int status = elf_read_exact(reading->fd, reading->table, size, header->e_phoff);
    if (status != 0)
        return refuse_unread(problem, status, "its program headers");
    return 0;
}

static int protection(unsigned flags)
{
    return (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) |
           (flags & PF_X ? PROT_EXEC : 0);
}

/* The checks that need only the segment itself; NULL when all hold. */
static const char *segment_fault(const ElfW(Phdr) * entry)
{
    if (entry->p_filesz > entry->p_memsz)
        return "a segment is larger in the file than in memory";
    if (!elf_within(entry->p_vaddr, entry->p_memsz, ARCH_ADDRESS_END - ALIGN_MAX))
        return "a segment lies outside the addresses of a program";
    if (entry->p_filesz != 0 && (entry->p_vaddr - entry->p_offset) % ARCH_PAGE != 0)
        return "a segment's place in the file does not fit its address";
    if ((entry->p_align & (entry->p_align - 1)) != 0 || entry->p_align > ALIGN_MAX)
        return "a segment has an impossible alignment";
    return NULL;
}

static int add_segment(struct reading *reading, const ElfW(Phdr) * entry)
{
    struct elf_info *info = reading->info;
    if (entry->p_memsz == 0 && entry->p_filesz == 0)
        return 0;
    const char *fault = segment_fault(entry);
    uint64_t low = page_floor(entry->p_vaddr);
    /* Two segments in one page would need the same protection; no linker makes that. */
    if (fault == NULL && info->segment_count > 0 && low < info->high)
        fault = "its segments overlap or do not ascend";
    if (fault != NULL)
        return elf_refuse(reading->problem, ELIBBAD, REBUILD, "is corrupt: %s", fault);
    if (!elf_within(entry->p_offset, entry->p_filesz, reading->file_size) && entry->p_filesz != 0)
        return refuse_unread(reading->problem, -ELIBBAD, "a segment");
    if (info->segment_count == ELF_SEGMENTS_MAX)
        return elf_refuse(reading->problem, ENOEXEC, "Link it with fewer segments.",
                          "has more than the %d loaded segments that onespace maps",
                          ELF_SEGMENTS_MAX);
    if (info->segment_count == 0)
        info->low = low;
    info->high = page_ceiling(entry->p_vaddr + entry->p_memsz);
    if (entry->p_align > info->align)
        info->align = entry->p_align;
    info->segments[info->segment_count++] = (struct elf_segment){
        .vaddr = entry->p_vaddr,
        .memsz = entry->p_memsz,
        .filesz = entry->p_filesz,
        .offset = entry->p_offset,
        .prot = protection(entry->p_flags),
    };
    return 0;
}

static int read_interpreter(struct reading *reading, const ElfW(Phdr) * entry)
{
    char *name = reading->info->interpreter;
    if (name[0] != '\0')
        return 0; /* the first one counts, as in the kernel */
    if (entry->p_filesz < 2 || entry->p_filesz > sizeof(reading->info->interpreter))
        return elf_refuse(reading->problem, ELIBBAD, REBUILD,
                          "is corrupt: its interpreter's name has an impossible length");
    int status = -ELIBBAD;
    if (elf_within(entry->p_offset, entry->p_filesz, reading->file_size))
        status = elf_read_exact(reading->fd, name, entry->p_filesz, entry->p_offset);
    if (status != 0)
        return refuse_unread(reading->problem, status, "its interpreter's name");
    if (name[entry->p_filesz - 1] != '\0' || name[0] == '\0')
        return elf_refuse(reading->problem, ELIBBAD, REBUILD,
                          "is corrupt: its interpreter's name is not a string");
    return 0;
}

static int read_entries(struct reading *reading)
{
    struct elf_info *info = reading->info;
    for (unsigned i = 0; i < reading->header.e_phnum; i++) {
        const ElfW(Phdr) *entry = &reading->table[i];
        int status = 0;
        if (entry->p_type == PT_LOAD)
            status = add_segment(reading, entry);
        else if (entry->p_type == PT_INTERP)
            status = read_interpreter(reading, entry);
        else if (entry->p_type == PT_GNU_STACK)
            info->executable_stack = (entry->p_flags & PF_X) != 0;
        else if (entry->p_type == PT_DYNAMIC) {
            info->dynamic_vaddr = entry->p_vaddr;
            info->dynamic_size = entry->p_memsz;
        }
        if (status != 0)
            return status;
    }
    if (info->segment_count == 0)
        return elf_refuse(reading->problem, ELIBBAD, REBUILD, "is corrupt: it has nothing to load");
    /* `low` is a multiple of `align`, so that a base aligned to it keeps every segment's alignment.
     */
    info->low &= ~(info->align - 1);
    return 0;
}

/* The segment that holds [vaddr, vaddr + size) in memory, or NULL. */
static const struct elf_segment *segment_of(const struct elf_info *info, uint64_t vaddr,
                                            uint64_t size)
{
    for (unsigned i = 0; i < info->segment_count; i++) {
        const struct elf_segment *segment = &info->segments[i];
        if (vaddr >= segment->vaddr && elf_within(vaddr - segment->vaddr, size, segment->memsz))
            return segment;
    }
    return NULL;
}

/* Where the program headers land: in the segment that holds their place in the file, whatever
 * PT_PHDR claims. That is how the kernel computes AT_PHDR. */
static void place_table(struct reading *reading)
{
    struct elf_info *info = reading->info;
    uint64_t offset = reading->header.e_phoff;
    uint64_t size = reading->header.e_phnum * sizeof(ElfW(Phdr));
    for (unsigned i = 0; i < info->segment_count; i++) {
        const struct elf_segment *segment = &info->segments[i];
        if (offset >= segment->offset &&
            elf_within(offset - segment->offset, size, segment->filesz)) {
            info->phdr_vaddr = segment->vaddr + (offset - segment->offset);
            return;
        }
    }
}

static int check_entry(struct reading *reading)
{
    struct elf_info *info = reading->info;
    info->entry = reading->header.e_entry;
    if (info->entry == 0)
        return elf_refuse(reading->problem, ENOEXEC,
                          "Give a program that uses it, or link it with -pie.",
                          "is a shared library, not a program");
    const struct elf_segment *code = segment_of(info, info->entry, 1);
    if (code == NULL || (code->prot & PROT_EXEC) == 0)
        return elf_refuse(reading->problem, ELIBBAD, REBUILD,
                          "is corrupt: its entry point is outside its code");
    if (info->dynamic_size != 0 &&
        segment_of(info, info->dynamic_vaddr, info->dynamic_size) == NULL)
        return elf_refuse(reading->problem, ELIBBAD, REBUILD,
                          "is corrupt: its dynamic section is in no segment");
    return 0;
}

int elf_read(int fd, struct elf_info *info, struct elf_problem *problem)
{
    struct reading reading = {.fd = fd, .info = info, .problem = problem};
    struct stat stat;
    if (fstat(fd, &stat) != 0)
        return refuse_unread(problem, -errno, "its header");
    if (!S_ISREG(stat.st_mode))
        return elf_refuse(problem, EACCES, "Give the path of a program.",
                          S_ISDIR(stat.st_mode) ? "is a directory" : "is not a regular file");
    reading.file_size = (uint64_t)stat.st_size;
    memset(info, 0, sizeof(*info));
    info->align = ARCH_PAGE;
    info->executable_stack = ARCH_STACK_EXECUTABLE;
    int status = read_header(&reading);
    if (status == 0)
        status = read_table(&reading);
    if (status == 0)
        status = read_entries(&reading);
    if (status == 0)
        status = check_entry(&reading);
    if (status != 0)
        return status;
    info->phnum = reading.header.e_phnum;
    place_table(&reading);
    return 0;
}

/* ---- Libraries that the file needs (DT_NEEDED) ---- */

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

/* ---- Options that a dynamic linker takes when it is run as a command ---- */

enum { CHUNK = 16384, OVERLAP = 16 };

/* Whether the bytes have the option as glibc has it in its text, "--argv0", or as musl has it,
 * "argv0", each a whole string. */
static bool has_option(const char *bytes, size_t size, const char *name)
{
    size_t length = strlen(name) + 1; /* with its end */
    const char *at = bytes;
    while ((at = memmem(at, size - (size_t)(at - bytes), name, length))) {
        size_t before = (size_t)(at - bytes);
        if ((before >= 1 && at[-1] == 0) || (before >= 2 && memcmp(at - 2, "--", 2) == 0))
            return true;
        at++;
    }
    return false;
}

int elf_read_linker(int fd, struct elf_info *info, struct elf_problem *problem)
{
    char bytes[CHUNK];
    bool takes_argv0 = false, takes_preload = false;
    ssize_t size;
    for (uint64_t at = 0; (size = elf_read_some(fd, bytes, sizeof(bytes), at)) > OVERLAP;
         at += (uint64_t)size - OVERLAP) {
        takes_argv0 = takes_argv0 || has_option(bytes, (size_t)size, "argv0");
        takes_preload = takes_preload || has_option(bytes, (size_t)size, "preload");
        if (takes_argv0 && takes_preload)
            break;
    }
    info->takes_argv0_preload = takes_argv0 && takes_preload;
    return size < 0 ? elf_refuse_open(problem, (int)-size) : 0;
}
