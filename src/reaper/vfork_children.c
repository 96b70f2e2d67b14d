/* src/reaper/vfork_children.c: children by vfork or posix_spawn that outlive the task that made
 * them.
 *
 * Until it executes its program such a child runs in the task's memory, on the task's stack. It has
 * no slot. If the task is killed meanwhile, its memory is held until no process without a slot is
 * left in this address space; the hold is the task's own (space/holds.c). The same goes for a child
 * by onespace_spawn, which has a slot, while it runs its spawner's function `before`.
 * Freestanding. */
#include "reaper/reaper.h"

#include <fcntl.h>

#include "base/hash.h"
#include "base/text.h"
#include "base/proc.h"
#include "base/raw.h"
#include "space/child.h"
#include "space/member.h"

enum { CHILDREN_MAX = 64, POLL_NS = 1000000 };

/* Processes that the last search found, CHILDREN_MAX at most. The rest are found by a later scan.
 */
static int32_t children[CHILDREN_MAX];
static unsigned child_count, held_count;
static uint8_t is_held[LAYOUT_SLOTS]; /* by slot: its memory is held here */

void vfork_children_init(void)
{
    child_count = held_count = 0;
    for (unsigned i = 0; i < LAYOUT_SLOTS; i++)
        is_held[i] = 0;
}

int is_in_before(const struct space *space, const struct space_slot *slot)
{
    const struct child *child = (const struct child *)slot->child_record;
    if (slot_state(slot) != SLOT_STARTING || slot_is_thread(slot))
        return 0;
    guard_open(&space->guard); /* never closed: the record is in the task's memory */
    return child->before && atomic_load(&slot->child_result) == 0;
}

static int is_spawner_gone(struct space *space, const struct space_slot *slot)
{
    unsigned index = slot_index_of_id(slot->spawner);
    const struct space_slot *spawner = &space->slots[index];
    return atomic_load(&space->pids[index]) == 0 || atomic_load(&spawner->id) != slot->spawner ||
           slot_state(spawner) == SLOT_LEFT;
}

/* Whether the process runs in the memory of a task that made it and is gone. */
static int is_child(struct space *space, int pid)
{
    const struct space_slot *slot = slot_of_pid(space, pid);
    if (slot)
        return is_in_before(space, slot) && is_spawner_gone(space, slot);
    return pid != atomic_load(&space->reaper_pid) && process_may_be_present(pid) &&
           process_presence(space, pid) == PRESENCE_HERE;
}

static void record_if_child(void *context, int pid, int directory)
{
    (void)directory;
    if (child_count < CHILDREN_MAX && is_child(context, pid))
        children[child_count++] = pid;
}

/* ---- The search: the parent of such a child has ended, so an ancestor has search it ---- */

struct search {
    struct space *space;
    int process, is_incomplete;
    uint64_t hash; /* of all PIDs read */
};

/* Reads the children of one thread. The kernel's list may miss some if others end meanwhile. */
static void read_children(void *context, int thread, int directory)
{
    struct search *search = context;
    char path[64], text[1024];
    size_t kept = 0; /* digits of a PID that the last read has cut */
    (void)directory;
    char *end = proc_path(path, search->process, "task/");
    text_append(text_append_number(end, (uint64_t)thread, 10), "/children");
    long fd = raw(__NR_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    search->is_incomplete |= fd < 0;
    for (long size; fd >= 0; kept = text_length(text)) {
        size = raw(__NR_read, fd, text + kept, sizeof(text) - 1 - kept);
        if (size <= 0)
            break;
        text[kept + (size_t)size] = 0;
        const char *at = text, *rest;
        for (uint64_t pid; *(rest = text_read_number(at, &pid)) == ' '; at = rest + 1) {
            search->hash = hash_bytes(search->hash, &pid, sizeof(pid));
            record_if_child(search->space, (int)pid, -1);
        }
        text_append(text, at);
    }
    if (fd >= 0)
        raw(__NR_close, fd);
}

static void read_process(struct search *search, int process)
{
    char path[32];
    proc_path(path, process, "task");
    search->process = process;
    search->is_incomplete |= proc_each_number(path, read_children, search) < 0;
}

/* Reads the children of the reaper's ancestors and of process 1, one of which has adopted. */
static void read_ancestors(struct search *search)
{
    struct proc_stat stat;
    for (int process = atomic_load(&search->space->reaper_pid); process > 1;
         process = stat.parent) {
        read_process(search, process);
        if (proc_read_stat(process, &stat) < 0) {
            search->is_incomplete = 1;
            return;
        }
    }
    read_process(search, 1);
}

/* Reads the lists until two readings agree. Scans all processes of the machine only if the lists
 * cannot be read, or keep changing. Without /proc it finds none. */
static void find_children(struct space *space)
{
    enum { MAX_READINGS = 4 };
    uint64_t last = 0;
    for (int i = 0; i < MAX_READINGS; i++) {
        struct search search = {.space = space, .hash = HASH_SEED};
        child_count = 0;
        read_ancestors(&search);
        if (search.is_incomplete)
            break;
        if (i > 0 && search.hash == last)
            return;
        last = search.hash;
    }
    child_count = 0;
    (void)proc_each_number("/proc", record_if_child, space);
}

/* Also those that are tasks: of a task that was just cloned the kernel may have stored the PID only
 * after it was found. */
static void remove_departed(struct space *space)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < child_count; i++)
        if (is_child(space, children[i]))
            children[kept++] = children[i];
    child_count = kept;
}

static void release_all(struct space *space)
{
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 1; i <= highest; i++) {
        if (is_held[i])
            (void)hold_release(space, &space->slots[i], &space->slots[i]);
        is_held[i] = 0;
    }
    held_count = 0;
}

void vfork_children_hold(struct space *space, struct space_slot *const *killed, unsigned count)
{
    if (count == 0)
        return;
    find_children(space);
    for (unsigned i = 0; child_count && i < count; i++) {
        if (hold_take(space, killed[i], killed[i]) != 0)
            continue;
        is_held[slot_index(space, killed[i])] = 1;
        held_count++;
    }
}

uint64_t vfork_children_poll(struct space *space)
{
    if (held_count == 0)
        return 0;
    remove_departed(space);
    if (child_count == 0)
        find_children(space);
    if (child_count == 0)
        release_all(space);
    return held_count ? POLL_NS : 0;
}
