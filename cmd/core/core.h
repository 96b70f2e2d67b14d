/* cmd/core/core.h: what the parts of `onespace core` share. */
#ifndef ONESPACE_CMD_CORE_CORE_H
#define ONESPACE_CMD_CORE_CORE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/procfs.h>
#include <sys/user.h>

#include "arch/registers.h"
#include "cmd/map/map.h"
#include "cmd/ps/ps.h"
#include "space/child.h"

/* ---- threads.c: stops the threads of one task and reads their registers ---- */

enum { CORE_EXTENDED_MAX = 16384 };

struct core_thread {
    int id;
    int signal; /* pending; delivered when the thread continues */
    struct user_regs_struct registers;
    arch_float_registers float_registers;
    size_t extended_size; /* 0: this CPU has none */
    unsigned char *extended;
};

struct core_threads {
    struct core_thread *all; /* the main thread first */
    unsigned count;
    size_t capacity;
};

/* Stops all threads of the task: 0; -ESRCH when it has ended, -ETIMEDOUT when one of them, *stuck,
 * does not stop (the kernel waits for a device or for a vfork child in its name), or -errno. None
 * is stopped after a failure. */
int core_stop(const struct ps_task *task, struct core_threads *threads, int *stuck);
/* Lets the threads continue and frees. 0, or -ESRCH if a thread was killed meanwhile. */
int core_release(struct core_threads *threads);

/* ---- segments.c: which memory of the task the core has ---- */

struct core_segment {
    const struct map_region *region;
    uintptr_t start, end;
    uint64_t bytes;      /* from start, that the file contains; the others are not in it */
    int is_sparse;       /* absent pages are zero: holes in the file */
    const void *content; /* in place of the task's memory; or NULL */
};

struct core_memory {
    struct map map;
    struct core_segment *segments;
    size_t count, capacity;
    int memory, page_map; /* descriptors of /proc/PID/mem and pagemap, or -1 */
    struct code code;     /* that all tasks run; path empty: not known */
    void *added;          /* the content of a segment that is not the task's; or NULL */
    uintptr_t change_at;  /* of the word that the core replaces by `change`; 0: none */
    uintptr_t change;
};

/* Selects the memory of a stopped task, which is read through one of its threads: that of a main
 * thread that has ended before the others cannot be read. 0 or -errno. */
int core_select_memory(const struct ps_space *space, const struct ps_task *task, int thread,
                       struct core_memory *memory);
void core_free_memory(struct core_memory *memory);

/* Reads at that address, or offset of a file: bytes read. */
typedef size_t core_reader(const void *context, uint64_t at, void *to, size_t size);
/* Reads the memory of a stopped task; the context is its struct core_memory. */
size_t core_read_memory(const void *context, uint64_t at, void *to, size_t size);

/* ---- segments.c: the code of the space ---- */

/* The end of the range of slot 0, of which no task's core has anything. */
#define CORE_ENTRY_AT (LAYOUT_REGION + LAYOUT_RANGE - LAYOUT_MIB)
/* One more library of the task, at CORE_ENTRY_AT. */
struct core_entry {
    struct space_link_map map;
    char name[PATH_MAX];
};
/* Fills the entry of the code, after the task's last library. `read` reads the task's memory,
 * `read_code` that at the code's first page. The address of the word of the task that must lead to
 * the entry in the core, or 0 when the program has no such list. */
uintptr_t core_make_entry(core_reader *read, const void *context, const struct space_slot *slot,
                          core_reader *read_code, const void *code_context, const struct code *code,
                          struct core_entry *entry);

/* Adds the code of the space to the libraries that the core shows. 0, or -errno: the program has no
 * such list, or it is not in the core. */
int core_add_code(const struct space_slot *slot, struct core_memory *memory);

/* ---- notes.c: all notes, one after another ---- */

struct core_notes {
    unsigned char *bytes;
    size_t size, capacity;
    int failed; /* out of memory */
};
void core_note(const struct ps_space *space, const struct ps_task *task,
               const struct core_threads *threads, const struct core_memory *memory,
               struct core_notes *notes);

/* The file that is mapped at the address, by an NT_FILE note; path empty: none. */
void core_file_at(const void *content, size_t size, uintptr_t address, struct code *code);

/* Reads the task's slot of the registry. 0 or -1. */
int core_read_slot(const struct ps_space *space, const struct ps_task *task,
                   struct space_slot *slot);

/* Appends one note. */
void core_add_note(struct core_notes *notes, const char *name, unsigned type, const void *content,
                   size_t size);

/* The task's slot of the registry, and the record in its own memory. */
struct core_record {
    struct space_slot slot;
    struct child child;
};
/* Makes the auxiliary vector lead to the program that the task shows to debuggers. `read` gives the
 * file as far as it is in memory; without its headers there the file is opened if `may_open`. */
enum { CORE_AUXV_MAX = 256 };
void core_set_program(const struct core_record *record, Elf64_auxv_t *vector, unsigned count,
                      core_reader *read, const void *context, int may_open);

/* Fills the command line of a process from the task's memory. */
void core_set_arguments(struct elf_prpsinfo *info, const struct child_strings *strings,
                        core_reader *read, const void *context);

/* ---- segments.c: the file ---- */

/* Writes all bytes at that offset, and adds those written to *written. 0 or -errno. */
int core_put(int fd, const void *bytes, size_t size, uint64_t offset, int64_t *written);

/* The ELF header of a core with that many program headers, and no section header yet. */
Elf64_Ehdr core_header(uint64_t headers);
/* Writes the file: its size on the disk, or -errno. */
int64_t core_write(int fd, const struct core_memory *memory, const struct core_notes *notes);

/* ---- core.c: the output file, which has its name only when it is complete ---- */

/* A new file, which gets the name `path` when it is complete: its descriptor, or -1 with a message.
 */
int core_open_file(const char *path);
/* Gives it that name; written < 0 is an error. 0, or 1 with a message. */
int core_finish_file(int fd, const char *path, int64_t written);
void core_discard_file(int fd);
/* Prints why the file cannot be written. Returns 1. */
int core_report_write_error(const char *path, int error);

/* ---- kernel_core.c: the core of a task that crashed, from that of the whole space ---- */

struct core_from {
    const char *core; /* a file, or "-": standard input */
    const char *file; /* to write */
    int is_crashed;   /* the kernel named the crashed process: the next fields are valid */
    uid_t uid;
    gid_t gid;
    uint64_t limit; /* RLIMIT_CORE of the process that crashed, bytes */
    int dump;       /* as fs.suid_dumpable: 1 if the core may be the user's */
    uint64_t most;  /* bytes that the file may have */
};
/* From the words of --crashed and --max-mib: 0, or -1 with a message. */
int core_set_crashed(struct core_from *from, const char *text);
int core_set_most(struct core_from *from, const char *text);
/* Returns an exit status. */
int core_from(const struct core_from *from);

/* ---- extract.c ---- */

struct core_extract {
    int from;            /* the kernel's core: a file or a pipe */
    int to;              /* a new file */
    uint64_t most;       /* bytes of that file at most */
    int opens_nothing;   /* none of the files that the core names: their file system may hang */
    int pid, id, signal; /* result: of the crashed task; id -1: not known */
    int64_t written;
    int is_cut; /* the kernel's core ends before the task's memory does */
    int write_error;
};
/* Writes the core of the task that crashed from that of a whole space: 0; -ENOEXEC when it is not a
 * core, -ESRCH when it is not one of a task of this version's spaces, -EIO when `write_error` tells
 * why, or -errno. */
int core_extract(struct core_extract *extract);

#endif
