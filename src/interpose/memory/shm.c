/* src/interpose/memory/shm.c: System V segments in the task's own range, or shared (shared.c). */
#include "interpose/memory/memory.h"

#include <errno.h>
#include <sys/shm.h>

#include "base/page.h"
#include "base/raw.h"
#include "interpose/memory/area.h"

/* shmat in the task's range: the address, or -errno. */
static long attach_in_range(struct space_slot *self, size_t size, size_t align, const long a[6])
{
    for (int tries = 0; tries < AREA_TRIES; tries++) {
        uintptr_t place = area_claim(self, AREA_MAPPINGS, size, align);
        if (!place)
            break;
        long result = raw(__NR_shmat, a[0], place, a[2]);
        if (!raw_failed(result)) {
            area_record_segment(self, place, size);
            return result;
        }
        /* The same error says that something lies there and that the address is not aligned. */
        if (result != -EINVAL || area_is_free(place, size)) {
            area_release(self, place, size);
            return result;
        }
        area_mark_conflict(self, place, size, tries);
    }
    return -ENOMEM;
}

static void note(struct space_slot *self, uintptr_t place, size_t size)
{
    if (in_range(self, place, size)) {
        area_mark_used(self, place, size);
        area_record_segment(self, place, size);
    } else {
        out_of_range_add(self, place, size);
    }
}

long interpose_shmat(struct space_slot *self, long nr, const long a[6])
{
    (void)nr;
    struct shmid_ds segment;
    int is_known = raw(__NR_shmctl, a[0], IPC_STAT, &segment) == 0;
    size_t size = is_known ? page_ceiling(segment.shm_segsz) : 0;
    long result = a[1] == 0 && is_known ? shared_shmat(self, a[0], a[2], &segment) : NOT_SHARED;
    if (result != NOT_SHARED)
        return result;
    if (shared_windows_contain((uintptr_t)a[1]))
        return shared_shmat_at(self, size, a);
    result = -ENOMEM;
    /* Without an address SHM_REMAP is refused; with a place of ours it would replace what is there.
     */
    if (a[1] == 0 && is_known && !(a[2] & SHM_REMAP))
        result = attach_in_range(self, size, ARCH_PAGE, a);
    if (result == -EINVAL && !(a[2] & SHM_REMAP)) /* of huge pages */
        result = attach_in_range(self, round_up(size, ARCH_HUGE_PAGE), ARCH_HUGE_PAGE, a);
    if (!raw_failed(result))
        return result;
    result = raw(__NR_shmat, a[0], a[1], a[2]);
    if (!raw_failed(result) && is_known)
        note(self, (uintptr_t)result, size);
    return result;
}

long interpose_shmdt(struct space_slot *self, long nr, const long a[6])
{
    uintptr_t address = (uintptr_t)a[0];
    (void)nr;
    if (shared_windows_contain(address))
        return shared_shmdt(self, address);
    if (!in_range(self, address, ARCH_PAGE))
        return out_of_range_shmdt(self, address);
    long result = raw(__NR_shmdt, address);
    if (result == 0)
        area_forget_segment(self, address);
    return result;
}

long interpose_shmctl(struct space_slot *self, long nr, const long a[6])
{
    (void)self;
    long result = raw(nr, a[0], a[1], a[2]);
    if (result == 0 && a[1] == IPC_STAT)
        shared_count_attached((struct shmid_ds *)a[2], a[0]);
    return result;
}
