/* src/interpose/memory/shm.c: shmat and shmdt in the task's own range. */
#include "interpose/memory/memory.h"

#include <errno.h>
#include <sys/shm.h>

#include "base/page.h"
#include "base/raw.h"
#include "interpose/memory/area.h"

long interpose_shmat(struct space_slot *self, long nr, const long a[6])
{
    (void)nr;
    struct shmid_ds segment;
    if (a[1] == 0 && raw(__NR_shmctl, a[0], IPC_STAT, &segment) == 0) {
        struct area area = area_for(self, 0);
        for (int tries = 0; tries < AREA_TRIES; tries++) {
            uintptr_t place = area_take(&area, page_ceiling(segment.shm_segsz), ARCH_PAGE);
            if (!place)
                break;
            long result = raw(__NR_shmat, a[0], place, a[2]);
            if (result != -EINVAL)
                return result;
        }
    }
    long result = raw(__NR_shmat, a[0], a[1], a[2]);
    if (!raw_failed(result) && raw(__NR_shmctl, a[0], IPC_STAT, &segment) == 0)
        out_of_range_add(self, (uintptr_t)result, page_ceiling(segment.shm_segsz));
    return result;
}

/* shmdt is not given the size; an out-of-range entry that starts at the address is this attachment.
 */
long interpose_shmdt(struct space_slot *self, long nr, const long a[6])
{
    uintptr_t address = (uintptr_t)a[0];
    (void)nr;
    if (!in_range(self, address, ARCH_PAGE))
        out_of_range_forget(self, address);
    return raw(__NR_shmdt, address);
}
