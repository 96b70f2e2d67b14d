/* src/space/member.h: the life of a member.
 *
 * A member is the root or a task; its record is a slot of the registry (registry.h, which has the
 * states of a slot and who makes each transition). This header is what the layers above use of the
 * registry: the calling program's membership, slots, the group of numbered tasks and its barrier,
 * holds on memory, exports, and what members ask of the reaper. */
#ifndef ONESPACE_SPACE_MEMBER_H
#define ONESPACE_SPACE_MEMBER_H

#include "space/registry.h"

/* ---- Hooks: what a layer above adds to the life of a space and its members ----
 *
 * `hooks_of_layers` (src/hooks.c) lists the hooks of all layers, so that no layer calls one above
 * it. Each hook may be NULL. */
struct member_hooks {
    /* Called by the root while it fills the registry, before there is a task. */
    void (*space_created)(struct space *space);
    /* Called by the root in onespace_fini, when the reaper has ended and before anything is
     * unmapped. */
    void (*space_ending)(struct space *space);
    /* Called by the reaper: whether the layer needs the memory of a member that has ended or left.
     * When it no longer does, it calls reaper_recheck. Freestanding. */
    int (*holds_memory)(struct space *space, const struct space_slot *slot);
    /* Called by the reaper when a member has ended or left, and none of its threads runs in the
     * space any more: undo what the member had in the layer. Its memory is still mapped.
     * Freestanding. */
    void (*ended)(struct space *space, struct space_slot *slot);
    /* Called by the reaper in each of its rounds. Returns the time in ns after which it must be
     * called again, or 0: at the next event. Freestanding. */
    uint64_t (*poll)(struct space *space);
};

/* NULL-terminated. */
extern const struct member_hooks *const hooks_of_layers[];

/* ---- The calling program: self.c ---- */

/* Makes the caller the root of `space`, or with NULL no member. */
void space_set_root(struct space *space);
/* The caller's space and slot; NULL outside a space and in a forked child. */
struct space *space_mine(void);
struct space_slot *space_self(void);
/* Whether this program has a space, for signal handlers: they stay when the root ends its space,
 * and must not read the registry then. Written by self.c, in each program's copy of the library. */
extern _Atomic int space_is_mapped;
/* Whether the caller was forked from a member and is none itself. */
int forked_from_member(void);

/* Makes this program's libc use atomic instructions in its locks. Returns 0, or -EAGAIN if no
 * thread can be created; the caller may try again then. Not from signal handlers. */
int force_libc_locking(void);

/* ---- Slots: member.c ---- */

/* The slot of the member with that id, or NULL if it has none (any more). */
struct space_slot *slot_find(struct space *space, int32_t id);
/* A free slot, CLAIMED for `spawner`, with a new id; NULL if the table is full. */
struct space_slot *slot_claim(struct space *space, int32_t spawner);
/* Frees a slot that no other member refers to. */
void slot_free(struct space *space, struct space_slot *slot);
/* Frees the slot if its status is collected and its memory unmapped. The collector calls it after
 * it has stored COLLECTED, the reaper after it has stored MEMORY_NONE. Both stores are sequentially
 * consistent, so the later caller sees both; a compare-and-swap lets one of them free the slot. */
void slot_free_if_done(struct space_slot *slot);
/* Stores the CPU time of the member's process, from getrusage or wait4. */
void slot_set_cpu_times(struct space_slot *slot, const struct rusage *usage);

struct audit_task {
    int32_t id, pid; /* pid 0: it has ended, and its slot may be another task's */
    const char *program;
};

/* Writes a record of the space, or of a task, to the system's log, if the machine's policy asks for
 * it. more: a field of the event's own, or NULL. By the reaper, the root, or a task that spawns. */
void member_log(const struct space *space, const char *event, const struct audit_task *task,
                const struct audit_field *more);

/* ---- Which processes are in the address space: member.c ---- */

/* Links the slot's robust futex into the calling thread's robust list, so that the kernel marks it
 * when the thread ends or executes another program. By the member itself. Freestanding. */
void membership_mark_attach(struct space_slot *slot);
/* Unlinks it from the main thread's list, before the slot is unmapped. That thread must not lock or
 * unlock a robust mutex meanwhile. */
void membership_mark_detach(struct space_slot *slot);
/* Whether the member is certainly in this address space: it has neither ended nor executed another
 * program, and is not in execve. By any member. Freestanding. */
int member_is_present(const struct space_slot *slot);

/* Whether a live task has only other threads left, because its main thread has called pthread_exit.
 * In thread mode it then creates no more of them. By any member. Freestanding. */
int main_thread_has_ended(const struct space *space, const struct space_slot *slot);

/* The slot of the member whose process has that PID, or NULL. Acquire. Freestanding. */
struct space_slot *slot_of_pid(struct space *space, int32_t pid);

enum presence {
    PRESENCE_HERE,
    PRESENCE_ELSEWHERE,
    PRESENCE_UNKNOWN, /* the process has ended, or the kernel is short of memory */
    PRESENCE_DENIED,  /* refused: another address space, or a seccomp filter */
};

/* Reads the space's mark and creation time through the PID, which needs no permission while the
 * process is in this address space. Freestanding. */
enum presence process_presence(const struct space *space, int32_t pid);
/* Whether the process may be in this address space, and have executed no program in it: judged by
 * what needs no lock of that process. Another user's may be in an execve that its file system never
 * completes, and process_presence would wait for it. */
int process_may_be_present(int32_t pid);
/* Whether the process of a task that has entered execve is still in this address space. */
int still_here_in_exec(const struct space *space, int32_t pid);

/* ---- The chain that debuggers follow: member.c ---- */

/* Shows the calling task, in `slot`, to debuggers: the program `path` (NULL: its link map has the
 * name) loaded at `bias`, its dynamic section, and the first of its ld.so's link maps, or 0. All
 * must stay valid until debugger_unlink. Called once, by the task. Freestanding. */
void debugger_link(struct space *space, struct space_slot *slot, const char *path, uintptr_t bias,
                   uintptr_t dynamic, uintptr_t first_link_map);
/* Undoes that. By the reaper, when the task has ended. Freestanding. */
void debugger_unlink(struct space_slot *slot);

/* ---- The group of numbered tasks, and its barrier: member_group.c. Freestanding. ---- */

/* By the spawner, before clone: adds the slot to the current group. Begins the next group first if
 * the current one has no members left, and either has had this number or has another ntasks. */
void group_join(struct space *space, struct space_slot *slot);
/* By the reaper when a member has ended or left, or by a spawner that could not make it: breaks the
 * group's barriers, wakes their waiters, and takes the slot out of its group. */
void group_leave(struct space *space, struct space_slot *slot);
/* The number of tasks of the current group; 0 before the first one. */
uint32_t group_ntasks(const struct space *space);
/* Whether the current group has had a member with that number. */
int group_has_started(const struct space *space, uint32_t number);

/* Arrives at `word` for the caller's group. Returns 1 if all members have arrived now; 0 if the
 * caller must wait: then *generation is for the functions below; -EOWNERDEAD if a member has left.
 */
int group_arrive(_Atomic uint64_t *word, const struct space_slot *self, uint32_t *generation);
/* Waits until all have arrived: 0, -EOWNERDEAD, or -ETIMEDOUT, after which the caller still counts
 * as arrived. */
int group_wait(_Atomic uint64_t *word, uint32_t generation, uint64_t deadline);
/* Takes back the caller's arrival and returns -ETIMEDOUT; if the wait has ended meanwhile, returns
 * how, as group_wait. */
int group_withdraw(_Atomic uint64_t *word, uint32_t generation);
/* Waits until all members have loaded their libraries (ONESPACE_SPAWN_TOGETHER), 2 s at most. */
void group_wait_loaded(struct space *space, const struct space_slot *self);

/* ---- Holds, and unmapping the memory of ended members: holds.c ---- */

/* Takes a hold of `holder` on the memory of `owner`: 0, -EOWNERDEAD if the memory is gone, or
 * -EOVERFLOW. */
long hold_take(struct space *space, struct space_slot *owner, struct space_slot *holder);
/* Releases one: 0 or -EINVAL. */
long hold_release(struct space *space, struct space_slot *owner, struct space_slot *holder);
/* The same for the time of one copy; it gives `holder` no right to use the memory. */
long hold_take_for_copy(struct space *space, struct space_slot *owner, struct space_slot *holder);
void hold_release_after_copy(struct space *space, struct space_slot *owner,
                             struct space_slot *holder);
/* Whether `holder` may use the memory of `owner`: it has imported, attached or held it. */
int hold_exists(struct space *space, const struct space_slot *owner,
                const struct space_slot *holder);
/* By the reaper, for a member that has ended or left: releases all its holds. */
void hold_release_all(struct space *space, struct space_slot *holder);

/* Makes the reaper check again which ended members' memory is held, because something has let go of
 * it. Sequentially consistent after that. */
void reaper_recheck(struct space *space);

/* By the reaper: unmaps the memory of these slots, now or when the last hold is released. Slots in
 * sequence are unmapped by one call, because each takes the lock of the address space. */
void memory_unmap_unless_held(struct space *space, struct space_slot *const *owners,
                              unsigned count);
/* By the reaper, in each round: frees slots whose memory is unmapped, and unmaps what is no longer
 * held. */
void memory_reclaim(struct space *space);
/* Whether a hold was released, and the reaper has not done so since. Any thread. */
int memory_reclaim_is_due(const struct space *space);
/* Unmaps what can be unmapped: 0, or -errno if something stays. A sealed mapping (mseal) makes
 * munmap fail for the whole range, so the range is split; up to 64 KiB around the mapping stay. */
long memory_unmap(uintptr_t start, size_t size);

/* A unit of work of the unmapper: adjacent slots; or, from UNMAPPER_CHANNELS on, a channel of
 * onespace/insitu.h. A job is posted again only after it is finished. */
enum { UNMAPPER_CHANNELS = LAYOUT_SLOTS, UNMAPPER_JOBS = 2 * LAYOUT_SLOTS };
struct unmapper_job {
    uint16_t first, count;
    void (*unmap)(struct space *space, struct unmapper_job job);  /* by the unmapper's thread */
    void (*finish)(struct space *space, struct unmapper_job job); /* by the reaper, afterwards */
};

/* The unmapper, a thread of the reaper; all functions are the reaper's. Forgets all jobs: the space
 * is new. */
void unmapper_init(struct space *space);
/* Does the job, by the thread, or at once if there can be no thread. */
void unmapper_post(struct space *space, struct unmapper_job job);
/* Waits `ns` at most until all posted jobs are done. Returns at once if an earlier wait has
 * timed out and the thread is still at the same job. */
void unmapper_wait(uint64_t ns);
/* Finishes the jobs that are done. */
void unmapper_finish(struct space *space);

/* ---- Exports: exports.c ---- */

/* By the owner's threads: 0, -EEXIST, or -ENOSPC. */
long exports_add(struct space *space, struct space_slot *owner, const char *name, void *address,
                 uint64_t size);
/* By the owner's threads: 0 or -ENOENT. */
long exports_remove(struct space *space, struct space_slot *owner, const char *name);
/* 0 or -ENOENT. */
long exports_find(struct space *space, int32_t owner, const char *name, void **address,
                  uint64_t *size);
/* By the reaper: removes all exports of the member. Freestanding. */
void exports_remove_all(struct space *space, struct space_slot *owner);

/* ---- The reaper: member.c, and reaper_start_thread in holds.c ---- */

/* By the reaper: starts a thread of it with a stack at this address. Whether that worked. */
int reaper_start_thread(struct space *space, uintptr_t stack, void (*function)(void *));
/* Wakes the reaper. */
void reaper_wake(struct space *space);
/* By the root: makes the reaper clone the kernel task of a claimed slot that has its child record.
 */
void reaper_request_clone(struct space *space, struct space_slot *slot);
/* By the root after the reaper's death: kills the tasks that are processes. Returns whether it
 * found one, or a task in thread mode, whose end only the reaper detects. */
int kill_survivors(const struct space *space);
/* Whether the reaper has not been killed. Without it, ends of tasks are not reported. */
int reaper_is_alive(const struct space *space);
/* Waits for what the reaper reports: while *word, a futex, is `seen`, but at most a second. 0: test
 * the condition again; -ETIMEDOUT; -EOWNERDEAD: the reaper was killed, and if `self` is the root,
 * all tasks are. */
int reaper_await(const struct space *space, const struct space_slot *self, const void *word,
                 uint32_t seen, uint64_t deadline);

#endif
