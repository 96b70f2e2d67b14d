/* src/reaper/vforked.c: see vforked.h. */
#include "reaper/reaper.h"

#include <fcntl.h>

#include "base/hash.h"
#include "base/text.h"
#include "base/proc.h"
#include "base/raw.h"
#include "space/member.h"

enum { VFORKED_MAX = 64, POLL_NS = 1000000 };

/* Processes found by the last search, VFORKED_MAX at most. The others are found by a later search,
 * when these have left. */
static int32_t vforked[VFORKED_MAX];
static unsigned vforked_count, held_count;
static uint8_t held[LAYOUT_SLOTS];

void vfork_children_init(void)
{
    vforked_count = held_count = 0;
    for (unsigned i = 0; i < LAYOUT_SLOTS; i++)
        held[i] = 0;
}

static int is_known(const struct space *space, int32_t pid)
{
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 0; i <= highest; i++)
        if (atomic_load_explicit(&space->pids[i], memory_order_relaxed) == pid)
            return 1;
    return pid == atomic_load(&space->reaper_pid);
}

static void note_if_vforked(void *context, int pid, int directory)
{
    const struct space *space = context;
    (void)directory;
    if (vforked_count < VFORKED_MAX && !is_known(space, pid) &&
        process_presence(space, pid) == PRESENCE_HERE)
        vforked[vforked_count++] = pid;
}

/* ---- Where to look: the parent of such a child has ended, so an ancestor has adopted it ---- */

struct adopted {
    struct space *space;
    int process, is_incomplete;
    uint64_t hash; /* of all children read */
};

/* The children of one thread. The kernel's list may miss some if others end while it is read. */
static void read_children(void *context, int thread, int directory)
{
    struct adopted *adopted = context;
    char path[64], text[1024];
    size_t kept = 0; /* the digits of a PID that the last piece has cut */
    (void)directory;
    char *end = text_append_number(text_append(path, "/proc/"), (uint64_t)adopted->process, 10);
    end = text_append_number(text_append(end, "/task/"), (uint64_t)thread, 10);
    text_append(end, "/children");
    long fd = raw(__NR_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    adopted->is_incomplete |= fd < 0;
    for (long size; fd >= 0; kept = text_length(text)) {
        size = raw(__NR_read, fd, text + kept, sizeof(text) - 1 - kept);
        if (size <= 0)
            break;
        text[kept + (size_t)size] = 0;
        const char *at = text, *rest;
        for (uint64_t pid; *(rest = text_read_number(at, &pid)) == ' '; at = rest + 1) {
            adopted->hash = hash_bytes(adopted->hash, &pid, sizeof(pid));
            note_if_vforked(adopted->space, (int)pid, -1);
        }
        text_append(text, at);
    }
    if (fd >= 0)
        raw(__NR_close, fd);
}

static void read_process(struct adopted *adopted, int process)
{
    char path[32];
    text_append(text_append_number(text_append(path, "/proc/"), (uint64_t)process, 10), "/task");
    adopted->process = process;
    adopted->is_incomplete |= proc_each_number(path, read_children, adopted) < 0;
}

/* The reaper's ancestors and process 1, which adopts what no ancestor wants. */
static void read_ancestors(struct adopted *adopted)
{
    struct proc_stat stat;
    for (int process = atomic_load(&adopted->space->reaper_pid); process > 1;
         process = stat.parent) {
        read_process(adopted, process);
        if (proc_read_stat(process, &stat) < 0) {
            adopted->is_incomplete = 1;
            return;
        }
    }
    read_process(adopted, 1);
}

/* Reads the lists until two readings agree. All processes of the machine are looked at only where
 * the lists cannot be read, or change all the time. Without /proc none is found. */
static void find_vforked(struct space *space)
{
    enum { READINGS = 4 };
    uint64_t last = 0;
    for (int i = 0; i < READINGS; i++) {
        struct adopted adopted = {.space = space, .hash = HASH_SEED};
        vforked_count = 0;
        read_ancestors(&adopted);
        if (adopted.is_incomplete)
            break;
        if (i > 0 && adopted.hash == last)
            return;
        last = adopted.hash;
    }
    vforked_count = 0;
    (void)proc_each_number("/proc", note_if_vforked, space);
}

static void drop_departed(const struct space *space)
{
    unsigned left = 0;
    for (unsigned i = 0; i < vforked_count; i++)
        if (process_presence(space, vforked[i]) == PRESENCE_HERE)
            vforked[left++] = vforked[i];
    vforked_count = left;
}

static void release_all(struct space *space)
{
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 1; i <= highest; i++) {
        if (held[i])
            (void)hold_release(space, &space->slots[i], &space->slots[i]);
        held[i] = 0;
    }
    held_count = 0;
}

void vfork_children_hold(struct space *space, struct space_slot *const *killed, unsigned count)
{
    if (count == 0)
        return;
    find_vforked(space);
    for (unsigned i = 0; vforked_count && i < count; i++) {
        if (hold_take(space, killed[i], killed[i]) != 0)
            continue;
        held[slot_index(space, killed[i])] = 1;
        held_count++;
    }
}

uint64_t vfork_children_poll(struct space *space)
{
    if (held_count == 0)
        return 0;
    drop_departed(space);
    if (vforked_count == 0)
        find_vforked(space);
    if (vforked_count == 0)
        release_all(space);
    return held_count ? POLL_NS : 0;
}
