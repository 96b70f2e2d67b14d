/* src/space/member.h: the life of a member. */
#ifndef ONESPACE_SPACE_MEMBER_H
#define ONESPACE_SPACE_MEMBER_H

#include "space/registry.h"

/* What the layers above this one add to the life of a space and of its members.
 *
 * A layer that keeps state of its own for each member has hooks. Each library or program that is
 * linked from the layers lists their hooks in member_hooks (src/hooks.c), so no layer
 * calls one above it. */

struct member_hooks {
    /* Called by the root while it fills the registry, before there is a task. NULL: nothing to do.
     */
    void (*space_created)(struct space *space);
    /* Called by the root in onespace_fini, when the reaper has ended and before anything is
     * unmapped. NULL: nothing to do. */
    void (*space_ending)(struct space *space);
    /* Called by the reaper when a member has ended or left and none of its threads runs in the
     * space any more: undo what it had in the layer. Its memory is still mapped. Freestanding.
     * NULL: nothing to do. */
    void (*ended)(struct space *space, struct space_slot *slot);
    /* Called by the reaper in each of its rounds. Nanoseconds until it must be called again at the
     * latest, 0: when something happens. Freestanding. NULL: nothing to do. */
    uint64_t (*watch)(struct space *space);
};

/* NULL-terminated. Defined once in each library or program that is made of the layers. */
extern const struct member_hooks *const member_hooks[];

/* Which space the calling program is in, and which member it is. */

/* Makes the caller the root of `space` (NULL: of none any more). */
void space_set_root(struct space *space);

/* The caller's space and slot: NULL outside a space and in a forked child. */
struct space *space_mine(void);
struct space_slot *space_self(void);
/* Whether the caller's process image descends from a member by fork. */
int forked_from_member(void);

/* Finding, claiming and freeing slots. */

/* The slot that carries `id` now, or NULL. */
struct space_slot *slot_find(struct space *space, int32_t id);
/* A free slot, CLAIMED for `spawner`, with a fresh id; or NULL when the table is full. */
struct space_slot *slot_claim(struct space *space, int32_t spawner);

/* Frees a slot if its status was collected and its memory is unmapped. The collector calls it after
 * setting COLLECTED, the reaper after setting MEMORY_NONE (both sequentially consistent), so the
 * later one sees both; a compare-and-swap lets one of them free it. */
void slot_free_if_done(struct space_slot *slot);
/* Makes a slot that only the caller refers to free again. */
void slot_free(struct space *space, struct space_slot *slot);

/* Stores the CPU time that the member's process has used, from getrusage or wait4. */
void slot_set_cpu_times(struct space_slot *slot, const struct rusage *usage);

/* A robust futex by which the kernel reports a main thread's end and execve. */

/* Links the slot's node into the calling thread's robust list. Freestanding; by the task itself. */
void membership_mark_attach(struct space_slot *slot);
/* Unlinks it: the slot is about to be unmapped. */
void membership_mark_detach(struct space_slot *slot);
/* Whether the member is certain to be in this address space: it has neither ended nor executed
 * another program, and is not in execve. Freestanding; for any slot, by any member. */
int member_is_present(const struct space_slot *slot);

/* Which processes are in this address space. Freestanding. */

enum presence {
    PRESENCE_HERE,
    PRESENCE_ELSEWHERE,
    PRESENCE_UNKNOWN, /* it has ended, or the kernel is short of memory */
    PRESENCE_DENIED,  /* by the kernel for another address space, or by a seccomp filter for all */
};

/* Reads the space's mark and its time of creation through the PID. As long as the process is in
 * this address space that needs no permission. */
enum presence process_presence(const struct space *space, int32_t pid);
/* Whether the process of a task that entered execve is still in this address space. */
int still_here_in_exec(const struct space *space, int32_t pid);

/* What lets a stock debugger find the programs and libraries of all tasks.
 *
 * A debugger that attaches to any member sees the root's program, since that is what the kernel
 * knows, and follows its DT_DEBUG entry to the struct r_debug of the root's ld.so. Since glibc 2.35
 * that one leads to further ones, made for the namespaces of dlmopen, through r_next; gdb follows
 * them from version 13 on. Behind the last of them the root hangs the chain of the space:
 *
 *   root's r_debug(s) -> head -> slot 1: program -> libraries -> slot 2: ... -> tail -> (later)
 *
 * All entries lie in the registry, and none is unlinked before the space ends: the root's ld.so
 * follows the chain, too, when dlmopen makes another namespace, which it appends to the tail. A
 * slot without a task has empty link maps, as ld.so leaves them for a namespace that is no longer
 * used. Tasks' own r_debug structures are not part of the chain: their memory is unmapped when they
 * end.
 *
 * Two entries per task, because debuggers skip link maps without a name, and that is what a main
 * program's has: one leads to a link map of ours for the program, the other to those of its ld.so.
 */

/* Shows the caller, a task in `slot`, to debuggers: the program `path` (NULL: the link maps name
 * it) loaded at `bias`, its dynamic section, and the first of its ld.so's link maps or 0. All must
 * stay valid until debugger_unlink. Called once, by the task itself. Freestanding. */
void debugger_link(struct space *space, struct space_slot *slot, const char *path, uintptr_t bias,
                   uintptr_t dynamic, uintptr_t first_link_map);
/* Undoes that. Called by the reaper when the task has ended. Freestanding. */
void debugger_unlink(struct space_slot *slot);

/* The tasks of a space that were started together, and how they wait for one
 * another.
 *
 * `space->group` names the current group: its id in the upper half, below it its number of tasks
 * and a count of joins. A slot belongs to a group from group_join until group_leave, and
 * `slot->group` is that group's id, 0 otherwise. The next group begins when no slot belongs to the
 * current one.
 *
 * Members wait for one another on words of 64 bits (`space->barrier`, `space->group_loaded`), so
 * that a task may be killed at any instruction and still leave them consistent:
 *
 *   bits 63..48  group        the lower bits of the id of the group that used the word last
 *   bits 47..32  generation   advanced when all have arrived *and* when a member leaves
 *   bit  31      broken       a member has left: all waits of this group fail
 *   bits 30..0   arrived      members that have arrived in this generation
 *
 * Waiters sleep on the upper half. Both events that end a wait change that half in the same
 * compare-and-swap that makes them visible, so a waiter that looked too early does not sleep: the
 * word has changed. A word of an earlier group counts as a new generation with no arrivals.
 *
 * Writers: each member (arrivals, withdrawals), the reaper and a spawner that fails (group_leave).
 * All orderings are sequentially consistent: a wait that succeeds publishes all that its members
 * wrote before they arrived. Freestanding. */

/* The spawner, before clone: adds the slot to the current group, or to the next one, which begins
 * if the current one has no member left and had this number already or has another size. */
void group_join(struct space *space, struct space_slot *slot);
/* The reaper, when a member has ended or left, or the spawner that could not make it: breaks the
 * group's barriers, wakes those that wait there, and takes the slot out of its group. */
void group_leave(struct space *space, struct space_slot *slot);
/* The number of tasks of the current group, 0 before the first one. */
uint32_t group_ntasks(const struct space *space);
/* Whether a member with that number was started in the current group. */
int group_has_started(const struct space *space, uint32_t number);

/* Arrives at `word` as a member of its group: 1 if all have arrived now, 0 if the caller must wait,
 * -EOWNERDEAD. *generation is for the functions below. */
int group_arrive(_Atomic uint64_t *word, const struct space_slot *self, uint32_t *generation);
/* Waits until all have arrived: 0, -EOWNERDEAD, -ETIMEDOUT: then the caller still counts as
 * arrived. */
int group_wait(_Atomic uint64_t *word, uint32_t generation, uint64_t deadline);
/* Takes the arrival back: -ETIMEDOUT; or what group_wait had returned a moment later. */
int group_withdraw(_Atomic uint64_t *word, uint32_t generation);

/* A member whose libraries are loaded waits for the others (ONESPACE_SPAWN_TOGETHER). */
void group_wait_loaded(struct space *space, const struct space_slot *self);

/* Who holds whose memory, and unmapping it when nobody does.
 *
 * holds[owner][holder] counts the imports that one member has of another's memory; only the holder
 * changes its cell, and the reaper zeroes it when the holder is gone. The owner's word `memory`
 * decides together with the cells (all sequentially consistent):
 *
 *   holder:  cell++                     reaper:  memory PRESENT -> ASKED
 *            await memory not ASKED              any cell of the row? back to PRESENT
 *            memory PRESENT? it holds            else GOING: unmap, memory NONE
 *            else cell--, too late
 *
 * so at least one of the two sees the other. A holder does not give up while the reaper looks: that
 * may have seen its cell, and would leave memory that nobody holds. A release works likewise: the
 * holder decrements its cell and then reads the owner's `reclaim_pending`; the reaper sets
 * `reclaim_pending` and then reads the cells. So releasing a living member's memory costs no system
 * call, whatever other members' memory is still held.
 *
 * Calls hold the callee's memory without a cell, by the lender that they have
 * (space/remote_call.h). */

/* Takes a hold of `holder` on `owner`: 0, -EOWNERDEAD when the memory is gone, -EOVERFLOW. */
long hold_take(struct space *space, struct space_slot *owner, struct space_slot *holder);
/* Releases one: 0 or -EINVAL. */
long hold_release(struct space *space, struct space_slot *owner, struct space_slot *holder);

/* The same for as long as a copy takes: it gives `holder` no right to use the memory. */
long hold_take_for_copy(struct space *space, struct space_slot *owner, struct space_slot *holder);
void hold_release_after_copy(struct space *space, struct space_slot *owner,
                             struct space_slot *holder);
/* Whether `holder` may use the memory of `owner`: it has imported, attached or held it. */
int hold_exists(struct space *space, const struct space_slot *owner,
                const struct space_slot *holder);

/* Lets the reaper look again, after something else that held memory has gone. Sequentially
 * consistent after that. */
void reaper_recheck(struct space *space);

/* Reaper: the member has ended or left; releases all its holds. */
void hold_release_all(struct space *space, struct space_slot *holder);
/* Reaper: has the memory of these slots unmapped (space/member.h), now or when the last hold is
 * released. Slots in sequence are unmapped by one call, since each call takes the lock of the
 * address space. */
void memory_release(struct space *space, struct space_slot *const *owners, unsigned count);
/* Unmaps all that can be unmapped: 0, or -errno if something stays. A sealed mapping (mseal) makes
 * munmap fail for the whole of what it is asked to unmap, so the rest goes in parts, and with the
 * mapping up to 64 KiB around it stay. */
long memory_unmap(uintptr_t start, size_t size);
/* Reaper, in each round: frees the slots whose memory is unmapped, and tries again to unmap what
 * was held. */
void memory_reclaim(struct space *space);

/* A thread of the reaper that unmaps what ended tasks had.
 *
 * munmap may wait for others: for the reader of a userfaultfd that watches the memory and wants to
 * know when it goes (another task, which may be stopped), or for the driver of a device. The reaper
 * must not wait with it, because then no task of the space could start or be reaped. So it posts
 * runs (slots whose memory is GOING, or channels that are being freed), and this thread unmaps one
 * after the other; what the thread has finished the reaper takes back in its next round. The thread
 * begins with the first run. Where a filter forbids it the reaper unmaps by itself.
 *
 * All functions are the reaper's. Freestanding. */

/* Adjacent slots, which one munmap can unmap together; or, from UNMAPPER_CHANNELS on, a channel of
 * onespace/insitu.h. A run is posted again only after it is finished. */
enum { UNMAPPER_CHANNELS = LAYOUT_SLOTS, UNMAPPER_RUNS = 2 * LAYOUT_SLOTS };
struct unmapper_run {
    uint16_t first, count;
    void (*unmap)(struct space *space, struct unmapper_run run);  /* by the thread */
    void (*finish)(struct space *space, struct unmapper_run run); /* by the reaper, afterwards */
};

/* The reaper of a fresh space begins: nothing is posted. */
void unmapper_init(void);
/* Has the run unmapped, by the thread, or right now if there can be none. */
void unmapper_post(struct space *space, struct unmapper_run run);
/* Waits until all that was posted is done, `ns` at most. Does not wait if an earlier wait has timed
 * out and the thread is still at the same run. */
void unmapper_wait(uint64_t ns);
/* Finishes all runs that are unmapped. */
void unmapper_finish(struct space *space);

/* Named exports, in one table of the space with open addressing. */

/* 0, -EEXIST, -ENOSPC. Called by the owner's threads only. */
long exports_add(struct space *space, struct space_slot *owner, const char *name, void *address,
                 uint64_t size);
/* 0 or -ENOENT. */
long exports_remove(struct space *space, struct space_slot *owner, const char *name);
/* 0 or -ENOENT. */
long exports_find(struct space *space, int32_t owner, const char *name, void **address,
                  uint64_t *size);
/* Reaper: removes everything that the member exported. Freestanding. */
void exports_remove_all(struct space *space, struct space_slot *owner);

/* What members ask of the reaper. */

/* Wakes the reaper: something has changed. */
void reaper_wake(struct space *space);
/* Hands a claimed slot with a child record to the reaper, which makes its kernel task. */
void reaper_request_clone(struct space *space, struct space_slot *slot);
/* When the reaper was killed the kernel kills the tasks, unless they have reset PR_SET_PDEATHSIG:
 * kills those. */
void reaper_kill_survivors(const struct space *space);
/* 0 if the reaper was killed: the ends of tasks are not reported any more. */
int reaper_is_alive(const struct space *space);

/* Makes this program's libc use atomic instructions in its locks: 0, or -EAGAIN if no thread can be
 * made; it may be called again then. Not from signal handlers. */
int force_libc_locking(void);

#endif
