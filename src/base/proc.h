/* src/base/proc.h: /proc without libc: the state of a process, its mappings, and directories whose
 * entries are numbers. Freestanding. */
#ifndef ONESPACE_BASE_PROC_H
#define ONESPACE_BASE_PROC_H

#include <stddef.h>
#include <stdint.h>

/* Writes /proc/PID/NAME, or /proc/self/NAME for pid 0. Returns the end of the text. */
char *proc_path(char *path, int pid, const char *name);

/* ---- /proc/PID/stat ---- */

struct proc_stat {
    char name[32]; /* the kernel truncates it to 15 bytes */
    char state;    /* 'R', 'S', …; 'Z' and 'X' have ended */
    int parent;
    uint64_t flags;                    /* the kernel's PF_… */
    uint64_t user_ticks, system_ticks; /* CPU time; sysconf(_SC_CLK_TCK) ticks a second */
    uint64_t start_ticks;              /* since the machine was started */
    uint64_t bytes;                    /* of the address space */
};

/* Whether /proc is of the caller's PID namespace: else its numbers mean other processes. */
int proc_is_own(void);

/* In flags: the process has not executed a program since it was cloned. */
#define PROC_FORKNOEXEC UINT64_C(0x40)

/* 0; -ENOENT or -ESRCH if there is no such process; another -errno if it cannot be read. */
long proc_read_stat(int pid, struct proc_stat *stat);

/* Whether a process, or a thread, has ended: also a zombie, which keeps its number until it is
 * reaped. 0 if /proc cannot be read. */
int proc_has_ended(int pid);

/* The real user id of a process, or -1 if it cannot be read. Its directory's owner may be root. */
long proc_real_uid(int pid);

/* ---- /proc/PID/maps ---- */

struct proc_mapping {
    uintptr_t start, end;
    uint64_t offset;     /* in the file, bytes */
    uint64_t inode;      /* of the file, or 0 */
    char permissions[5]; /* "rwxp" */
    const char *name;    /* in the line that was parsed; empty if the mapping has none */
};

/* Parses a line of maps, or the first line of a mapping in smaps: 1, or 0 if it is none, as the
 * fields of smaps. */
int proc_parse_mapping(const char *line, struct proc_mapping *mapping);

/* Iterates over the mappings of a process in the caller's buffer. A longer line is truncated. */
struct proc_maps {
    long fd;
    char *buffer;
    size_t capacity, at, size; /* buffer[at, size) has been read and not parsed yet */
    int is_truncated;          /* the rest of a truncated line comes next */
};

/* `pid` 0: the calling process. 0 or -errno. The kernel's list, of the whole address space. */
long proc_maps_open(struct proc_maps *maps, int pid, char *buffer, size_t capacity);
/* 1, or 0 at the end. mapping->name is valid until the next call. */
int proc_maps_next(struct proc_maps *maps, struct proc_mapping *mapping);
void proc_maps_close(struct proc_maps *maps);

/* ---- Directories whose entries are numbers ---- */

/* Calls visit for each number, as for the threads in /proc/PID/task. `directory` is the descriptor
 * of the open directory. 0, or -errno if it cannot be opened. */
typedef void proc_number_visit(void *context, int number, int directory);
long proc_each_number(const char *path, proc_number_visit *visit, void *context);

#endif
