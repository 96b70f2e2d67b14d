/* src/space/member.c: slots and ids, which processes are members, and what members ask of the
 * reaper.
 *
 * A slot's id grows by the number of slots each time the slot is used, so slot = id mod slots: an
 * id finds its slot without a search, and an id of an earlier task finds nothing. Freestanding. */
#include "space/member.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/uio.h>

#include "base/futex.h"
#include "base/proc.h"
#include "base/raw.h"
#include "space/intervals.h"

_Atomic int space_is_mapped;

struct space_slot *slot_find(struct space *space, int32_t id)
{
    if (id < 0)
        return NULL;
    struct space_slot *slot = &space->slots[slot_index_of_id(id)];
    uint32_t state = slot_state(slot);
    if (state == SLOT_FREE || state == SLOT_CLAIMED || state == SLOT_ABORTING)
        return NULL;
    return atomic_load_explicit(&slot->id, memory_order_relaxed) == id ? slot : NULL;
}

static void clear_slot(struct space *space, struct space_slot *slot)
{
    /* `state` stays CLAIMED. Words that other members may still read are set one by one. */
    atomic_store(&slot->ended, 0);
    atomic_store(&slot->memory, MEMORY_NONE);
    atomic_store(&slot->reclaim_pending, 0);
    atomic_store(&slot->pid, 0);
    atomic_store(&slot->spawner_has_ended, 0);
    atomic_store(&slot->leaving, 0);
    atomic_store(&slot->exited, 0);
    slot->incomplete_scans = 0;
    atomic_store(&slot->child_result, 0);
    atomic_store(&slot->child_stage, 0);
    atomic_store(&slot->loaded, 0);
    atomic_store(&slot->has_exported, 0);
    atomic_store(&slot->has_spawned, 0);
    atomic_store(&slot->has_held, 0);
    atomic_store(&slot->was_held, 0);
    atomic_store(&slot->has_shared, 0);
    atomic_store(&slot->was_called, 0);
    atomic_store(&slot->called_exit, 0);
    atomic_store(&slot->robust.at, 0);
    atomic_store(&slot->progress_thread.state, PROGRESS_THREAD_NONE);
    atomic_store(&slot->progress_thread.tid, 0);
    atomic_store(&slot->progress_thread.cpu, -1);
    atomic_store(&slot->returned, 0);
    atomic_store(&slot->group, 0);
    slot->number = slot->ntasks = -1;
    slot->status = 0;
    atomic_store(&space->end_order[slot_index(space, slot)], 0);
    slot->guard_key = slot->guard_rights = 0;
    slot->user_us = slot->system_us = 0;
    intervals_clear(slot);
    registrations_clear(slot);
    char *from = (char *)&slot->stats, *end = (char *)&slot->interpose.interval_words;
    while (from < end)
        *from++ = 0;
}

/* Reuses low slots first, so that a space that runs one task after another touches few pages. */
static struct space_slot *claim_free_slot(struct space *space, uint32_t claimed)
{
    uint32_t first = atomic_load(&space->free_hint);
    for (unsigned tries = 0; tries < LAYOUT_SLOTS; tries++) {
        unsigned index = (first + tries) % LAYOUT_SLOTS;
        struct space_slot *slot = &space->slots[index];
        uint32_t expected = SLOT_FREE;
        /* The state of a slot that no task has used is not read before it is written, for the
         * reason given in intervals_clear. */
        if (index == 0 || (index <= atomic_load(&space->highest) && slot_state(slot) != SLOT_FREE))
            continue;
        /* Before the claim: if the claimer dies, the reaper searches up to `highest`. */
        word_raise(&space->highest, index);
        if (!atomic_compare_exchange_strong(&slot->state, &expected, claimed))
            continue;
        atomic_store(&space->free_hint,
                     (index + 1) % LAYOUT_SLOTS); /* a hint: races are harmless */
        return slot;
    }
    return NULL;
}

/* Whether the machine's policy allows as many tasks as there are now, with those that are being
 * made. Two spawners that claim the last place at the same time may both be refused. */
static int is_within_policy(const struct space *space)
{
    uint32_t count = 0, highest = atomic_load(&space->highest);
    for (uint32_t i = 1; i <= highest && space->tasks_max; i++) {
        uint32_t kind = slot_state(&space->slots[i]) & SLOT_STATE_MASK;
        count += kind == SLOT_CLAIMED || slot_is_alive(kind);
    }
    return count <= space->tasks_max;
}

struct space_slot *slot_claim(struct space *space, int32_t spawner)
{
    /* If the spawner dies before STARTING, the reaper finds the slot by the spawner's index in it.
     */
    struct space_slot *slot = claim_free_slot(space, SLOT_CLAIMED | slot_index_of_id(spawner) << 8);
    if (!slot)
        return NULL;
    if (!is_within_policy(space)) {
        slot_free(space, slot);
        return NULL;
    }
    uint32_t index = slot_index(space, slot);
    int32_t last = atomic_load(&slot->id);
    slot->spawner = spawner;
    atomic_store(&slot->id,
                 last ? (int32_t)(((uint32_t)last + LAYOUT_SLOTS) & INT32_MAX) : (int32_t)index);
    clear_slot(space, slot);
    slot->started_ns = futex_now_ns();
    return slot;
}

void slot_free(struct space *space, struct space_slot *slot)
{
    uint32_t index = slot_index(space, slot), hint = atomic_load(&space->free_hint);
    atomic_store(&slot->state, SLOT_FREE);
    while (index < hint && !atomic_compare_exchange_weak(&space->free_hint, &hint, index))
        ;
}

void slot_free_if_done(struct space_slot *slot)
{
    uint32_t expected = SLOT_COLLECTED;
    if (atomic_load(&slot->memory) != MEMORY_NONE ||
        !atomic_compare_exchange_strong(&slot->state, &expected, SLOT_ABORTING))
        return;
    slot_free(space_registry(), slot);
}

static uint64_t microseconds(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000000u + (uint64_t)time.tv_usec;
}

void slot_set_cpu_times(struct space_slot *slot, const struct rusage *usage)
{
    slot->user_us = microseconds(usage->ru_utime);
    slot->system_us = microseconds(usage->ru_stime);
}

void member_log(const struct space *space, const char *event, const struct audit_task *task,
                const struct audit_field *more)
{
    struct audit_field fields[AUDIT_FIELDS_MAX];
    unsigned count = 0;
    if (!space->log)
        return;
    int may_wait = raw(__NR_getpid) != atomic_load(&space->reaper_pid);
    fields[count++] = (struct audit_field){"SPACE", space->name[0] ? space->name : "-", 0};
    fields[count++] = (struct audit_field){"ROOT_PID", NULL, (uint64_t)space->root_pid};
    fields[count++] = (struct audit_field){"UID", NULL, (uint64_t)raw(__NR_getuid)};
    if (task) {
        fields[count++] = (struct audit_field){"TASK", NULL, (uint64_t)task->id};
        fields[count++] = (struct audit_field){"PID", NULL, (uint64_t)task->pid};
    }
    if (more)
        fields[count++] = *more;
    fields[count++] =
        (struct audit_field){"PROGRAM", task ? task->program : space->slots[0].program, 0};
    audit_send(may_wait, event, fields, count);
}

/* ---- The membership mark: a robust futex of the main thread, in its libc's own list ---- */

/* The index of the word at the libc's offset from `next` (-32 bytes in glibc, -28 in musl), or -1
 * if that is outside the array of words. */
static int word_index(const struct space_robust *robust, long offset)
{
    long at = (long)offsetof(struct space_robust, next) + offset;
    if (at < 0 || at % 4 != 0 || at / 4 >= (long)(sizeof(robust->words) / sizeof(robust->words[0])))
        return -1;
    return (int)(at / 4);
}

/* The node that a link names: glibc sets the lowest bit for mutexes with priority inheritance. */
static struct robust_list *node_of(const struct robust_list *link)
{
    return (struct robust_list *)((uintptr_t)link & ~(uintptr_t)1);
}

/* Both libcs keep a backward link before each forward one. */
static void set_backward_link(struct robust_list *node, const struct robust_list *to)
{
    ((uintptr_t *)node)[-1] = (uintptr_t)to;
}

void membership_mark_attach(struct space_slot *slot)
{
    struct space_robust *robust = &slot->robust;
    struct robust_list_head *head = NULL;
    size_t size;
    /* musl has no list until the program locks a robust mutex. Until then only the interposed
     * execve reports that the task leaves. */
    if (raw(__NR_get_robust_list, 0, &head, &size) != 0 || !head)
        return;
    int index = word_index(robust, head->futex_offset);
    if (index < 0)
        return;
    uint32_t thread = (uint32_t)raw(__NR_gettid);
    atomic_store(&robust->words[index], thread | FUTEX_WAITERS);
    struct robust_list *node = (struct robust_list *)&robust->next, *first = head->list.next;
    robust->next = (uintptr_t)first;
    robust->previous = (uintptr_t)head;
    if (first != &head->list)
        set_backward_link(node_of(first), node);
    head->list.next = node;
    atomic_store_explicit(&robust->at, (uint32_t)index + 1, memory_order_release);
}

void membership_mark_detach(struct space_slot *slot)
{
    struct space_robust *robust = &slot->robust;
    struct robust_list_head *head = NULL;
    size_t size;
    if (!atomic_load(&robust->at))
        return;
    atomic_store(&robust->at, 0);
    if (raw(__NR_get_robust_list, raw(__NR_getpid), &head, &size) != 0 || !head)
        return; /* the main thread has ended, and its list with it */
    struct robust_list *node = (struct robust_list *)&robust->next, *at = &head->list;
    while (node_of(at->next) != node && at->next != &head->list)
        at = node_of(at->next);
    if (node_of(at->next) == node) {
        at->next = node->next;
        if (node->next != &head->list)
            set_backward_link(node_of(node->next), at);
    }
}

int member_is_present(const struct space_slot *slot)
{
    if (slot_state(slot) != SLOT_RUNNING ||
        atomic_load_explicit(&slot->leaving, memory_order_acquire))
        return 0;
    uint32_t at = atomic_load_explicit(&slot->robust.at, memory_order_acquire);
    return !at || !(atomic_load_explicit(&slot->robust.words[at - 1], memory_order_acquire) &
                    FUTEX_OWNER_DIED);
}

/* In thread mode it is a thread of its spawner's process; else its process is a zombie then. */
int main_thread_has_ended(const struct space *space, const struct space_slot *slot)
{
    struct proc_stat stat;
    int32_t process = atomic_load(&slot->pid);
    int32_t thread = atomic_load(&space->pids[slot_index(space, slot)]);
    if (slot_is_thread(slot))
        return process && thread && raw(__NR_tgkill, process, thread, 0) == -ESRCH;
    return process && proc_read_stat(process, &stat) == 0 && stat.state == 'Z';
}

/* ---- Which processes are in this address space ---- */

struct space_slot *slot_of_pid(struct space *space, int32_t pid)
{
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 0; i <= highest; i++)
        if (atomic_load_explicit(&space->pids[i], memory_order_acquire) == pid)
            return &space->slots[i];
    return NULL;
}

enum presence process_presence(const struct space *space, int32_t pid)
{
    uint32_t mark = 0;
    uint64_t created = 0;
    struct iovec local[] = {{&mark, sizeof(mark)}, {&created, sizeof(created)}};
    struct iovec remote[] = {{(void *)LAYOUT_MARK, sizeof(mark)},
                             {(void *)&space->created_ns, sizeof(created)}};
    long result = raw(__NR_process_vm_readv, pid, local, 2, remote, 2, 0);
    if (result == -ESRCH || result == -ENOMEM)
        return PRESENCE_UNKNOWN;
    if (result < 0 && result != -EFAULT)
        return PRESENCE_DENIED;
    /* Another space has its registry and its mark at the same addresses. */
    return mark && created == space->created_ns ? PRESENCE_HERE : PRESENCE_ELSEWHERE;
}

/* An address space of the same size is most probably the same. All of them change while they are
 * read: by the sizes that our own has had meanwhile, and twice as far. */
static int is_as_large(int32_t pid)
{
    enum { READINGS = 5 };
    struct proc_stat own, stat;
    uint64_t least = UINT64_MAX, most = 0;
    for (int i = 0; i < READINGS; i++) {
        if (proc_read_stat((int)raw(__NR_getpid), &own) != 0 || proc_read_stat(pid, &stat) != 0)
            return 1;
        least = own.bytes < least ? own.bytes : least;
        most = own.bytes > most ? own.bytes : most;
    }
    uint64_t range = most - least + LAYOUT_GIB;
    return stat.bytes + range >= least && stat.bytes <= most + range;
}

int process_may_be_present(int32_t pid)
{
    struct proc_stat stat;
    if (!proc_is_own() || proc_read_stat(pid, &stat) != 0)
        return raw(__NR_kill, pid, 0) != -ESRCH;
    long uid = proc_real_uid(pid);
    return (stat.flags & PROC_FORKNOEXEC) &&
           (uid < 0 || uid == raw(__NR_getuid) || is_as_large(pid));
}

int still_here_in_exec(const struct space *space, int32_t pid)
{
    struct proc_stat stat;
    if (proc_is_own() && proc_read_stat(pid, &stat) == 0)
        return (stat.flags & PROC_FORKNOEXEC) != 0;
    /* Without /proc. This waits while the task's execve waits for a file system. */
    enum presence presence = process_presence(space, pid);
    if (presence != PRESENCE_DENIED)
        return presence != PRESENCE_ELSEWHERE;
    /* If a filter denies the call even for the caller, the task counts as here until
     * it ends. */
    return process_presence(space, (int32_t)raw(__NR_getpid)) != PRESENCE_HERE;
}

/* ---- The chain that debuggers follow ----
 *
 * A debugger that attaches to any member sees the root's program, because that is what the kernel
 * knows, and follows its DT_DEBUG entry to the struct r_debug of the root's ld.so. Since glibc 2.35
 * that structure leads to further ones, made for the namespaces of dlmopen, through r_next; gdb
 * follows them from version 13 on. The root appends the chain of the space to the last of them
 * (api/init.c):
 *
 *   root's r_debug(s) -> head -> slot 1: program -> libraries -> slot 2: ... -> tail -> (later)
 *
 * All entries lie in the registry, and none is unlinked before the space ends: the root's ld.so
 * follows the chain, too, when dlmopen makes another namespace, which it appends to the tail. A
 * slot without a task has empty link maps, as ld.so leaves them for a namespace that is no longer
 * used. Tasks' own r_debug structures are not in the chain, because their memory is unmapped at
 * their end.
 *
 * Each task has two entries, because debuggers skip link maps without a name, such as a main
 * program's: one leads to a link map of ours for the program, the other to those of its ld.so. */

/* Links all slots up to this one, in order. Every step is an idempotent compare-and-swap, so
 * several callers may make it at once, and the next caller completes what a killed one left half
 * done. */
static void link_up_to(struct space *space, uint32_t index)
{
    uintptr_t tail = (uintptr_t)&space->debug_tail, none, last;
    uint32_t linked = atomic_load_explicit(&space->debug_linked, memory_order_acquire);
    _Atomic uintptr_t *end =
        linked ? &space->slots[linked].debug.libraries.next : &space->debug_head.next;
    for (uint32_t i = linked + 1; i <= index; i++) {
        struct space_debug *debug = &space->slots[i].debug;
        debug->program.version = debug->libraries.version = SPACE_NAMESPACES;
        atomic_store_explicit(&debug->program.next, (uintptr_t)&debug->libraries,
                              memory_order_relaxed);
        none = 0;
        atomic_compare_exchange_strong(&debug->libraries.next, &none, tail);
        last = tail;
        atomic_compare_exchange_strong(end, &last, (uintptr_t)&debug->program);
        end = &debug->libraries.next;
    }
    while (linked < index &&
           !atomic_compare_exchange_weak_explicit(&space->debug_linked, &linked, index,
                                                  memory_order_release, memory_order_acquire))
        ;
}

void debugger_link(struct space *space, struct space_slot *slot, const char *path, uintptr_t bias,
                   uintptr_t dynamic, uintptr_t first_link_map)
{
    struct space_debug *debug = &slot->debug;
    link_up_to(space, slot_index(space, slot));
    debug->map = (struct space_link_map){.bias = bias, .name = path, .dynamic = dynamic};
    /* Release: a debugger that sees the entry sees what it leads to. */
    if (path)
        atomic_store_explicit(&debug->program.maps, (uintptr_t)&debug->map, memory_order_release);
    atomic_store_explicit(&debug->libraries.maps, first_link_map, memory_order_release);
}

void debugger_unlink(struct space_slot *slot)
{
    atomic_store_explicit(&slot->debug.libraries.maps, 0, memory_order_release);
    atomic_store_explicit(&slot->debug.program.maps, 0, memory_order_release);
}

/* ---- Requests to the reaper ---- */

void reaper_wake(struct space *space)
{
    futex_bump(&space->events);
}

void reaper_request_clone(struct space *space, struct space_slot *slot)
{
    int32_t index = (int32_t)slot_index(space, slot);
    int32_t newest = atomic_load(&space->requests);
    do
        atomic_store(&slot->next_request, newest);
    while (!atomic_compare_exchange_weak(&space->requests, &newest, index));
    /* The reaper first frees what the caller has released, as exports: the task may need the place.
     */
    if (atomic_load(&space->has_cloner) && !memory_reclaim_is_due(space))
        futex_wake(&space->requests, 1);
    else
        reaper_wake(space);
}

/* Without the reaper, the kernel kills only the tasks that have not reset PR_SET_PDEATHSIG. */
int kill_survivors(const struct space *space)
{
    int found = 0;
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 1; i <= highest; i++) {
        int32_t pid = atomic_load(&space->pids[i]);
        /* Without the reaper, ended tasks stay in the table: the PID may be another process's now.
         */
        if (pid <= 0)
            continue;
        if (slot_is_thread(&space->slots[i])) { /* other threads of it may run */
            found = 1;
        } else if (process_may_be_present(pid) && process_presence(space, pid) == PRESENCE_HERE) {
            raw(__NR_kill, pid, SIGKILL);
            found = 1;
        }
    }
    return found;
}

int reaper_is_alive(const struct space *space)
{
    return !(atomic_load(&space->reaper_word) & FUTEX_OWNER_DIED);
}

int reaper_await(const struct space *space, const struct space_slot *self, const void *word,
                 uint32_t seen, uint64_t deadline)
{
    enum { CHECK_REAPER_MS = 1000 };
    if (!reaper_is_alive(space)) {
        if (self == &space->slots[0])
            kill_survivors(space);
        return -EOWNERDEAD;
    }
    if (deadline != UINT64_MAX && futex_now_ns() >= deadline)
        return -ETIMEDOUT;
    uint64_t slice = futex_deadline(CHECK_REAPER_MS);
    futex_wait(word, seen, slice < deadline ? slice : deadline);
    return 0;
}
