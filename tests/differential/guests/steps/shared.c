/* tests/differential/guests/steps/shared.c: System V segments, and shared mappings of files in
 * memory whose place the system chooses: a task shares those with other tasks, alike in all that
 * the only user sees (docs/memory.md). */
#include "steps.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

enum { SEGMENTS = 4, ATTACHED = 8 };

/* A segment is marked for removal as soon as it is attached once, so that none outlives the
 * program. */
static struct segment {
    int id;
    size_t size;
    char *first;
} segments[SEGMENTS];

static struct attached {
    char *start;
    size_t size;
} attached[ATTACHED], maps[ATTACHED];

/* entry pages */
OPERATION(shmget)
{
    struct segment *segment = &segments[a[0] % SEGMENTS];
    size_t size = (size_t)(a[1] % 8) * PAGE + (a[2] % 4 == 3) * 100;
    if (segment->first)
        shmdt(segment->first);
    memset(segment, 0, sizeof(*segment));
    int id = shmget(IPC_PRIVATE, size, IPC_CREAT | 0600);
    say(id < 0 ? " = -E%d" : " made", errno);
    if (id < 0)
        return;
    char *start = shmat(id, NULL, 0);
    shmctl(id, IPC_RMID, NULL);
    if (start == (void *)-1) {
        say(" not attached %d", errno);
        return;
    }
    *segment = (struct segment){id, size, start};
}

static int id_of(int number)
{
    return segments[number % SEGMENTS].first ? segments[number % SEGMENTS].id : -1;
}

/* slot, segment, where, place, flags */
OPERATION(shmat)
{
    static const int all[] = {0, SHM_RDONLY, SHM_RND, SHM_REMAP, SHM_REMAP | SHM_RDONLY, 0};
    struct attached *slot = &attached[a[0] % ATTACHED];
    int flags = all[a[4] % 6];
    char *where = a[2] % 3 == 0 ? NULL : place_of(a[3]) + (a[2] % 3 == 2) * 100;
    char *start = shmat(id_of(a[1]), where, flags);
    if (start == (void *)-1) {
        say_result(-1);
        return;
    }
    if (where)
        say_address(start);
    else
        say(" attached");
    if (slot->start)
        say_result(shmdt(slot->start));
    *slot = (struct attached){start, segments[a[1] % SEGMENTS].size};
}

OPERATION(shmdt)
{
    struct attached *slot = &attached[a[0] % ATTACHED];
    char *start = a[1] % 8 == 7 ? place_of(a[2]) : slot->start;
    if (start)
        say_result(shmdt(start));
    if (start == slot->start)
        slot->start = NULL;
}

OPERATION(shmctl)
{
    struct shmid_ds segment;
    memset(&segment, 0, sizeof(segment));
    long result = shmctl(id_of(a[0]), a[1] % 8 == 7 ? 99 : IPC_STAT, &segment);
    say_result(result);
    if (result == 0)
        say(" attached %lu size %zu mode %o", (unsigned long)segment.shm_nattch, segment.shm_segsz,
            segment.shm_perm.mode);
}

OPERATION(shm_fill)
{
    struct attached *slot = &attached[a[0] % ATTACHED];
    if (slot->start)
        fill(slot->start, slot->size, a[1]);
}

OPERATION(shm_sum)
{
    struct attached *slot = &attached[a[0] % ATTACHED];
    if (slot->start)
        sum(slot->start, slot->size);
}

/* slot, descriptor, pages, protection: a file in memory, where the system chooses */
OPERATION(share)
{
    struct attached *slot = &maps[a[0] % ATTACHED];
    size_t size = (size_t)(a[2] % 6) * PAGE;
    if (slot->start)
        munmap(slot->start, slot->size);
    slot->start = mmap(NULL, size, protection_of(a[3] % 2), MAP_SHARED, descriptor_of(a[1]),
                       (off_t)(a[4] % 3) * PAGE);
    slot->size = size;
    if (slot->start == MAP_FAILED) {
        slot->start = NULL;
        say_result(-1);
    } else {
        say(" mapped");
    }
}

/* Summed up by the kernel, which reports pages beyond the end of the file. */
OPERATION(share_sum)
{
    struct attached *slot = &maps[a[0] % ATTACHED];
    if (slot->start)
        sum(slot->start, slot->size);
}

OPERATION(share_fill)
{
    struct attached *slot = &maps[a[0] % ATTACHED];
    if (slot->start)
        fill(slot->start, slot->size, a[1]);
}

OPERATION(share_touch)
{
    struct attached *slot = &maps[a[0] % ATTACHED];
    if (slot->start)
        touch(slot->start + (size_t)a[1] * 61 % slot->size, a[2] % 2, a[2] & 0x7f);
}

/* slot, page, pages: a part of it, or all */
OPERATION(share_munmap)
{
    struct attached *slot = &maps[a[0] % ATTACHED];
    if (!slot->start)
        return;
    size_t from = (size_t)a[1] * PAGE % slot->size;
    size_t size = (size_t)(a[2] % 3 + 1) * PAGE < slot->size - from ? (size_t)(a[2] % 3 + 1) * PAGE
                                                                    : slot->size - from;
    if (a[3] % 2) {
        from = 0;
        size = slot->size;
    }
    say_result(munmap(slot->start + from, size));
    /* The hole may be taken by the next mapping: all of it goes. */
    if (size < slot->size)
        munmap(slot->start, slot->size);
    slot->start = NULL;
}

OPERATION(share_mprotect)
{
    struct attached *slot = &maps[a[0] % ATTACHED];
    if (slot->start)
        say_result(mprotect(slot->start + (size_t)a[1] * PAGE % slot->size,
                            a[2] % 2 ? PAGE : slot->size - (size_t)a[1] * PAGE % slot->size,
                            protection_of(a[3])));
}

/* slot, page: a private page in place of one of it */
OPERATION(share_over)
{
    struct attached *slot = &maps[a[0] % ATTACHED];
    if (!slot->start)
        return;
    char *place = slot->start + (size_t)a[1] * PAGE % slot->size;
    say(mmap(place, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
                place
            ? " there"
            : " = -E%d",
        errno);
}

/* slot, pages: grows, shrinks or moves; a second mapping of the same */
OPERATION(share_mremap)
{
    struct attached *slot = &maps[a[0] % ATTACHED];
    size_t size = (size_t)(a[1] % 7) * PAGE;
    int is_copy = a[2] % 4 == 3;
    if (!slot->start)
        return;
    char *to = mremap(slot->start, is_copy ? 0 : slot->size, size, MREMAP_MAYMOVE);
    if (to == MAP_FAILED) {
        say_result(-1);
        return;
    }
    say(" mapped");
    sum(to, size);
    if (is_copy) {
        munmap(to, size);
    } else {
        slot->start = to;
        slot->size = size;
    }
}

OPERATION(share_madvise)
{
    static const int all[] = {MADV_DONTNEED, MADV_REMOVE, MADV_WILLNEED, MADV_DONTFORK,
                              MADV_DOFORK};
    struct attached *slot = &maps[a[0] % ATTACHED];
    if (slot->start)
        say_result(madvise(slot->start, slot->size, all[a[1] % 5]));
}
