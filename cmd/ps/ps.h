/* cmd/ps/ps.h: what `onespace ps` and the other commands find out about spaces, from outside and
 * without their cooperation. */
#ifndef ONESPACE_CMD_PS_PS_H
#define ONESPACE_CMD_PS_PS_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "cmd/lib/output.h"
#include "insitu/channel.h"
#include "space/registry.h"

/* ---- Spaces, tasks and their memory ---- */

#define PS_REAPER "onespace-reaper" /* what the kernel calls the reaper */

/* A process whose memory holds a registry, as the kernel describes it. */
struct ps_member {
    int pid;       /* as this command sees it */
    int inner_pid; /* as it sees itself: differs in containers */
    int parent;
    uint64_t space; /* the registry's inode: one per space */
    uid_t user;
    gid_t group;
    uid_t owner;      /* of the space: the user of the topmost ancestor that has this registry */
    char command[32]; /* its name in the kernel */
};

struct ps_memory { /* bytes */
    int known;
    uint64_t resident, files, mappings, heap, stack;
    uint64_t private;      /* resident, mapped at this place alone: free without the task */
    uint64_t proportional; /* resident; a page that n places map counts for 1/n at each */
    uint64_t swapped;
};

struct ps_task {
    int id;         /* -1: not known */
    int pid;        /* as this command sees it; 0: no process any more */
    unsigned slot;  /* whose range is its own; 0 when it is not known, and the root's */
    unsigned flags; /* ONESPACE_SPAWN_* */
    const char *state;
    int number;        /* ONESPACE_TASK_ID, or -1 */
    int ended, status; /* wait status, valid when ended */
    char program[SPACE_PROGRAM_MAX];
    double seconds;     /* since its start; -1: not known */
    double cpu_seconds; /* -1: not known */
    double weight;      /* by which show_sort sorts */
    struct ps_memory memory;
    uint64_t copies, copied_bytes;
    uint64_t *out_of_range;      /* its mappings outside its range: space/intervals.h */
    unsigned out_of_range_count; /* words of it */
    unsigned out_of_range_lost;  /* and how many more there were */
};

/* Identifies a space by what the kernel knows of it. */
struct ps_key {
    uint64_t registry; /* its inode */
    uid_t user;        /* who owns the space */
    gid_t group;
};

/* The process ids are those of processes that map this registry and are of the space's user; those
 * of other processes that the registry names are 0. A task that has executed a program maps the
 * registry no more: its process is of that user, and that is all that is known. */
struct ps_space {
    int root_pid; /* as this command sees it; 0: not known */
    int reaper_pid;
    int source_pid; /* a process that has the memory; 0: the registry could not be read */
    struct ps_key key;
    char name[64];
    double created;                  /* seconds since 1970; -1: not known */
    char problem[768];               /* why data are missing, or empty */
    uintptr_t fence_low, fence_high; /* the page above the program break */
    uintptr_t trampoline_page;
    struct space_overflows overflows;
    int unmapping; /* id of the ended task whose memory is being unmapped; -1: of a channel; 0 */
    double unmapping_seconds;            /* since when */
    struct space_shared_mapping *shared; /* mappings of several tasks, all; NULL: not known */
    struct ps_task *tasks;
    unsigned task_count;
    struct insitu_channel *channels;
    unsigned channel_count;
};

/* find.c: fills what the kernel tells of the process. 0, or -1 when it has ended. */
int ps_read_status(struct ps_member *member);
/* find.c: opens the memory of a process of this space: its descriptor or -errno. Checked when it is
 * open, so that it is neither that of another process nor of another program. */
int ps_open_memory(const struct ps_key *key, int pid, int flags);

/* What ps_each visits, and how. */
struct ps_query {
    const char *wanted; /* the name of the space or the pid of one of its processes; or NULL */
    const struct ps_key *key; /* this space only; or NULL */
    void *context;
    /* Reports on a space. For a space of another user it runs in a child process with the rights of
     * that user (cmd/lib/user.h), so that its changes of memory are lost. Returns a value from 0 to
     * PS_VALUE_MAX. */
    int (*visit)(struct ps_space *space, void *context);
    /* Called here after each visit with what it returned; or NULL. */
    void (*visited)(const struct ps_key *key, int value, void *context);
    FILE **out; /* the stream that visit prints to, which is another one for that time; or NULL */
    struct output_json *json; /* where visit writes an object when it returns 0; or NULL */
    const char *command;      /* for messages */
};
enum { PS_VALUE_MAX = 200 };

/* find.c: visits the spaces: how many, or -errno. */
int ps_each(const struct ps_query *query);
/* find.c: the same for a command that prints what it finds: writes the brackets of an array around
 * the objects, or says that there are no spaces. Their number, or -1 with a message. */
int ps_report(const struct ps_query *query);
/* Says on stderr why ps_each found nothing, or what its error means, after the name of the
 * `command`. */
void ps_explain(const char *command, const char *wanted, int result);

/* read.c: reads one space, given those of its members that were found. 0, and then the caller ends
 * with ps_free; or -ESRCH when it has ended meanwhile. */
int ps_read(const struct ps_key *key, const struct ps_member *members, unsigned count,
            struct ps_space *space);
void ps_free(struct ps_space *space);

/* read.c: memory for the registry up to the files, which is all that is read of it, zeroed; the
 * rest must not be used. NULL: out of memory. The caller frees it. */
struct space *ps_allocate_head(void);

/* read.c: copies from the memory of a process. 0 or -errno. */
long ps_copy(int pid, uintptr_t address, void *to, size_t size);
/* read.c: from now on ps_copy reads the memory of that process through this descriptor. */
void ps_copy_by(int pid, int memory);

/* table.c: the line above a space's table, and what is wrong with it. */
void ps_print_title(FILE *out, const struct ps_space *space, unsigned width);

/* ---- mappings.c: the mappings of a space ---- */

enum map_owner { MAP_ROOT, MAP_REGISTRY, MAP_REAPER, MAP_TASK, MAP_NOBODY };

/* In the order in which they are listed and drawn: cmd/map/kinds.c sets them. */
enum map_kind {
    MAP_PROGRAM,
    MAP_LIBRARY,
    MAP_HEAP,
    MAP_ANONYMOUS,
    MAP_STACK,
    MAP_THREAD_STACK,
    MAP_SHARED,
    MAP_FILE,
    MAP_OWN,
    MAP_UNKNOWN,
    MAP_KINDS
};

struct map_region {
    uintptr_t start, end;
    char permissions[5];
    enum map_owner owner;
    unsigned slot;        /* of a task */
    struct ps_task *task; /* of a task and the root; NULL: it started or ended meanwhile */
    enum map_kind kind;
    uint64_t resident, huge; /* bytes; huge: the part of it in huge pages */
    uint64_t private;        /* resident, mapped at this place alone */
    uint64_t proportional;   /* resident; divided by the number of its mappings */
    uint64_t swapped;
    uint64_t anonymous;                    /* bytes that are in no file: without one, or changed */
    uint64_t offset;                       /* in its file */
    int is_device, not_dumped, is_hugetlb; /* the last but one: by MADV_DONTDUMP */
    char *name;                            /* the file or what the kernel calls it, or NULL */
};

struct map {
    const struct ps_space *space;
    int counted; /* whether the kernel reported resident memory */
    struct map_region *regions;
    size_t count, capacity;
};

/* The mappings of the space, ascending: 0, -EACCES or -EPERM when this user may not read them, or
 * -ESRCH when the space has ended. To be freed with map_free. */
int map_read(const struct ps_space *space, struct map *map);
void map_free(struct map *map);
/* Fills owner, slot and task of every region. */
void map_set_owners(struct map *map);

/* ---- memory.c ---- */

/* Fills the memory of the tasks, as far as /proc shows it. */
void ps_memory(struct ps_space *space);
/* Whether the task uses the shared mapping at this address, which shared_windows_contain(). */
int ps_uses_shared(const struct ps_space *space, const struct ps_task *task, uintptr_t address);
/* The task that has this address among its out-of-range mappings, or is the first of those that use
 * the shared mapping there; or NULL. */
struct ps_task *ps_out_of_range_owner(const struct ps_space *space, uintptr_t address);

/* ---- find.c: whether this user may trace a process ---- */

enum { YAMA_NO_ATTACH = 3 }; /* root may not trace either, and the scope cannot be changed */

/* The process that traces this one, or 0. */
int access_tracer(int pid);

/* kernel.yama.ptrace_scope; 0 where the kernel has no Yama. */
int access_yama_scope(void);

/* 0 when it may be traced or has ended; 1 after a message that begins with the command's name. */
int access_check(const char *command, int pid);

/* ---- read.c: the code of the space, the root's copy of onespace, which all members run ---- */

struct code { /* the file that holds the code of the space */
    char path[PATH_MAX];
    uintptr_t base, low, high; /* where its file begins; its code */
};

/* Where the root has that code, by an address in it. 0, or -1 when the space has ended. */
int code_find(const struct ps_space *space, struct code *code);

/* ---- channels.c: the channels of a space (onespace/insitu.h) ---- */

/* Copies the channels out of the memory of a process: their count, or -errno. *channels is the
 * caller's to free. Called for a space that has a table of channels. */
int channels_read(int pid, struct insitu_channel **channels);
/* A line for each channel, and one for each of its consumers. */
void channels_print(FILE *out, const struct insitu_channel *channels, unsigned count);
/* The same as an array named "channels". */
void channels_json(struct output_json *json, const struct insitu_channel *channels, unsigned count);

/* ---- table.c: what `onespace ps` prints, and in which order ---- */

enum show_order { SHOW_BY_ID, SHOW_BY_MEMORY, SHOW_BY_TIME };

/* Sorts the tasks, those with most first; the root stays the first. */
void show_sort(struct ps_space *space, enum show_order order);
/* Memory that would be free without the task, including swapped pages. */
uint64_t show_used(const struct ps_task *task);

void show_table(FILE *out, unsigned width, const struct ps_space *space, enum show_order order,
                int all);
void show_json(struct output_json *json, const struct ps_space *space);

/* memory.c: says whether the memory that the space may use is nearly full, and which task uses
 * most of it: a line, or nothing; an object named "shortage", or null. */
void shortage_print(FILE *out, unsigned width, const struct ps_space *space);
void shortage_json(struct output_json *json, const struct ps_space *space);

/* memory.c: says what the unmapping of an ended task's memory waits for, if it has taken longer
 * than a second: a line, or nothing; an object named "unmapping", or null. */
void unmapping_print(FILE *out, unsigned width, const struct ps_space *space);
void unmapping_json(struct output_json *json, const struct ps_space *space);

#endif
