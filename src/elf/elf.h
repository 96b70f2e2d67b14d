/* src/elf/elf.h: read, check and map ELF files, and resolve a command to the file that runs.
 *
 * Knows nothing of tasks. Everything here takes hostile input: a header field is never used before
 * it has been checked against the file's size, and no arithmetic on one may wrap. */
#ifndef ONESPACE_ELF_H
#define ONESPACE_ELF_H

#include <elf.h>
#include <linux/limits.h> /* PATH_MAX, in freestanding sources too */
#include <stddef.h>
#include <stdint.h>

enum {
    ELF_SEGMENTS_MAX = 64, /* PT_LOAD entries; real programs have 2 to 6 */
    ELF_PHDRS_MAX = 512,   /* 64 KiB of program headers is the kernel's own limit */
    ELF_SCRIPT_DEPTH = 5,  /* nested #! lines, as in the kernel */
    ELF_SCRIPT_LINE = 256, /* bytes of the first line that the kernel looks at */
};

/* Why a file cannot be used, for a person: what is wrong and how to fix it. */
struct elf_problem {
    int error;        /* positive errno that says the same to a program */
    char reason[512]; /* a predicate of the file as it was named: "is not position independent" */
    char fix[512];    /* a sentence: "Rebuild it with -fPIE -pie." */
};

struct elf_segment { /* one PT_LOAD */
    uint64_t vaddr, memsz, filesz, offset;
    int prot; /* PROT_READ | PROT_WRITE | PROT_EXEC */
};

struct elf_info {
    uint64_t entry;      /* virtual, without load bias */
    uint64_t phdr_vaddr; /* where the program headers land, 0 if in no segment */
    uint16_t phnum;
    uint64_t low, high; /* extent: low rounded down to align, high up to a page */
    uint64_t align;     /* largest p_align, at least a page, at most 1 GiB */
    unsigned segment_count;
    struct elf_segment segments[ELF_SEGMENTS_MAX];
    char interpreter[PATH_MAX]; /* PT_INTERP, empty if none (static PIE) */
    int executable_stack;       /* PT_GNU_STACK with PF_X */
    int takes_argv0_preload;    /* of an interpreter: --argv0 and --preload (glibc 2.33, musl) */
    uint64_t dynamic_vaddr, dynamic_size; /* PT_DYNAMIC, 0 if none */
};

/* A command resolved to what runs: owned by the caller, freed with elf_program_free. */
struct elf_program {
    char path[PATH_MAX]; /* real path of the ELF file (after PATH, links and #! lines) */
    char **argv; /* argument vector as the kernel would build it, NULL-terminated; one allocation */
    struct elf_info info;
    char interpreter_path[PATH_MAX]; /* real path of info.interpreter, empty if none */
    struct elf_info interpreter_info;
    char requested_path[PATH_MAX]; /* real path of the program that the user named, when `path` is
                                     the start program that runs it from its library (see
                                     elf_set_python_start); else empty */
};

/* The real path of the program that the user named. */
static inline const char *elf_program_name(const struct elf_program *program)
{
    return program->requested_path[0] != '\0' ? program->requested_path : program->path;
}

struct elf_mapping {
    uintptr_t base;  /* where `low` went */
    uintptr_t bias;  /* added to a virtual address of the file */
    size_t size;     /* high - low */
    uintptr_t entry; /* bias + entry */
    uintptr_t phdr;  /* bias + phdr_vaddr, 0 if that is 0 */
};

/* Reads and checks the ELF file open at fd as the program or interpreter of a task.
 * 0, or -errno with *problem filled and *info unspecified. Reads with pread only; needs no seek. */
int elf_read(int fd, struct elf_info *info, struct elf_problem *problem);

/* Resolves `file` as execvpe does: with a slash relative to dirfd (a directory descriptor or
 * AT_FDCWD), else along `path` (the text of PATH; NULL means the default "/bin:/usr/bin");
 * follows #! lines by the kernel's rules (depth, length, one optional argument, argv[0] replaced),
 * and those of `env NAME` along `path` to the program that env would execute;
 * reads the ELF file and its interpreter and refuses early what cannot be a task: not executable,
 * a directory, empty, truncated, 32 bit, another architecture, not position independent, setuid or
 * setgid (or file capabilities), interpreter missing. AddressSanitizer/ThreadSanitizer guests
 * (they need fixed shadow addresses) and valgrind are refused too. A file that is neither ELF nor a
 * script runs with /bin/sh, as with execvp. 0, or -errno with *problem (which may be NULL) filled
 * and *program untouched. ENOEXEC and EPERM: it cannot be a task; ELIBBAD: truncated or corrupt. */
int elf_resolve(int dirfd, const char *file, char *const argv[], const char *path,
                struct elf_program *program, struct elf_problem *problem);
/* Sets the start program (src/python/start.c), which runs a Python interpreter from its shared
 * library. With it a non-PIE interpreter is no longer refused: its elf_program is the start
 * program's, with argv [as given, LIBRARY, PYTHON, arguments...]. Empty: none. The path is copied.
 * Not thread-safe: no other thread may resolve meanwhile. */
void elf_set_python_start(const char *path);

/* Whether the program can share its process, and so its signal handlers, with others (thread mode):
 * 0, or -ENOTSUP with *problem filled. */
int elf_check_thread_mode(const struct elf_program *program, struct elf_problem *problem);
void elf_program_free(struct elf_program *program);

/* Maps the file at exactly `address` (page aligned and aligned to info->align; the extent
 * [address, address + high - low) must be free: -EEXIST otherwise), each segment with its own
 * protection, the rest of the last file page of writable segments zeroed to the page's end.
 * On failure nothing stays mapped. 0 or -errno. */
int elf_map(int fd, const struct elf_info *info, uintptr_t address, struct elf_mapping *mapping);

/* The second entry of an extended dynamic section: where the file's own is. Debuggers take the
 * difference to its place in the file for the load bias. Dynamic linkers ignore such a tag. */
enum { ELF_FILE_DYNAMIC = 0x6f6e6573 };

/* Writes to `block`, for a program that is mapped there, its program headers and a dynamic section
 * that begins with the library, a path, and where $ORIGIN is the directory of the `program`, an
 * absolute path. The headers come first, so the block's address is the program's AT_PHDR; it stays
 * for the program's life. 0, -ELIBBAD when the file has changed, or another -errno. */
int elf_extend(int fd, const struct elf_info *info, const struct elf_mapping *mapping,
               const char *program, const char *library, void *block);
/* How large the block is, which is zero before; 0: the dynamic section is too large. */
size_t elf_extension_size(const struct elf_info *info);

/* Reads what elf_map would map into memory of high - low bytes, which is zero: for an image that
 * is mapped later. 0, -ELIBBAD when the file has become shorter, or another -errno. */
int elf_read_image(int fd, const struct elf_info *info, unsigned char *memory);

/* Looks a symbol up in the .symtab, else the .dynsym, of the ELF file at fd (section headers
 * needed). Its value is virtual, without bias. Default versions win. 0, -ENOENT, or another
 * -errno. */
int elf_symbol(int fd, const char *name, Elf64_Sym *symbol);

/* Whether the ELF file at fd uses one of these functions of its libraries (names, NULL): 1, 0, or
 * -errno, -ENOENT when it is static. */
int elf_imports(int fd, const char *const names[]);

/* Calls visit for the name of each library that the file needs (DT_NEEDED), until visit
 * returns something other than 0, which is returned. 0 when there are no more; -errno when the
 * dynamic section cannot be read. */
int elf_each_needed(int fd, const struct elf_info *info,
                    int (*visit)(const char *name, void *context), void *context);

/* Fills library with the name of the library by which the program uses GPUs of AMD, if it is linked
 * with one: 1 or 0. One that it loads later, as PyTorch does, is not found. */
int elf_uses_amd_gpu(const struct elf_program *program, char *library, size_t size);

#endif
