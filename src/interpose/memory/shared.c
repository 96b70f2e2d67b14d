/* src/interpose/memory/shared.c: a shared mapping of what another task has mapped alike is that
 * task's, at the same address.
 *
 * Whether a program sees the difference is decided by what it does with the mapping later. As long
 * as it is the only user, it may do anything, after which nobody joins. When others use the mapping
 * too, it may unmap all of it, and move it, which makes a mapping of its own; unmapping a part has
 * no effect until its end; changing the protection or mapping over it is refused with ENOMEM,
 * since it would change what others see. docs/memory.md has the table.
 *
 * Only objects that live in memory: a device may map something else for each who asks, and two
 * mappings of a file on disk may differ in what the file system knows of them. */
#include "interpose/memory/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/mman.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/page.h"
#include "base/raw.h"
#include "interpose/memory/area.h"
#include "space/locks.h"
#include "space/shared_mappings.h"

static int may_share(const struct space_slot *self)
{
    return process_in_space() && !(self->flags & ONESPACE_SPAWN_OWN_MAPPINGS);
}

/* The addresses that a mapping of so many bytes of the file takes: of huge pages whole ones. 0: the
 * file is none in memory. */
static size_t mapped_size(long fd, size_t size)
{
    struct statfs system;
    if (raw(__NR_fstatfs, fd, &system) != 0)
        return 0;
    if (system.f_type == HUGETLBFS_MAGIC)
        return round_up(size, (size_t)system.f_bsize);
    return system.f_type == TMPFS_MAGIC ? page_ceiling(size) : 0;
}

/* Whether the kernel would grant a mapping with that protection, and what mprotect could add. */
static int may_map(long fd, long prot, uint32_t *may_write)
{
    long access = raw(__NR_fcntl, fd, F_GETFL);
    if (access < 0 || (access & O_PATH) || (access & O_ACCMODE) == O_WRONLY)
        return 0;
    *may_write = (access & O_ACCMODE) == O_RDWR;
    if (!*may_write)
        return !(prot & PROT_WRITE);
    long seals = raw(__NR_fcntl, fd, F_GET_SEALS);
    return seals < 0 || !(seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE));
}

static int find_key(const long a[6], struct space_shared_key *key)
{
    enum { PLAIN = MAP_SHARED | MAP_NORESERVE | MAP_POPULATE };
    struct stat file;
    uint32_t may_write;
    if ((a[3] & MAP_TYPE) != MAP_SHARED || (a[3] & ~(long)PLAIN) ||
        (a[2] & ~(long)(PROT_READ | PROT_WRITE)) || a[4] < 0 || a[5] % ARCH_PAGE ||
        raw(__NR_fstat, a[4], &file) != 0 || !S_ISREG(file.st_mode) ||
        !may_map(a[4], a[2], &may_write))
        return 0;
    size_t size = mapped_size(a[4], (size_t)a[1]);
    if (!size)
        return 0;
    *key = (struct space_shared_key){file.st_dev, file.st_ino,    (uint64_t)a[5],
                                     size,        (uint32_t)a[2], may_write};
    return 1;
}

/* Maps or attaches at `start`: the address or -errno. */
typedef long make_mapping(uintptr_t start, const long arguments[6]);

static long make_mmap(uintptr_t start, const long a[6])
{
    return raw(__NR_mmap, start, a[1], a[2], a[3] | MAP_FIXED_NOREPLACE, a[4], a[5]);
}

/* arguments[3]: the segment's size, rounded to pages. That a segment has huge pages only shows when
 * it is attached: the last one reaches beyond that size, perhaps into other windows. */
static long make_shmat(uintptr_t start, const long a[6])
{
    unsigned char resident;
    long result = raw(__NR_shmat, a[0], start, a[2]);
    if (raw_failed(result) ||
        raw(__NR_mincore, start + (size_t)a[3], ARCH_PAGE, &resident) == -ENOMEM)
        return result;
    raw(__NR_shmdt, start);
    return -EINVAL;
}

/* Whatever goes wrong, the caller makes the call as if nothing were shared, and gets the kernel's
 * error. */
static long create(struct space_slot *self, const struct space_shared_key *key, make_mapping *make,
                   const long a[6])
{
    struct space *space = space_registry();
    uintptr_t start;
    int index = shared_mapping_create(space, self, key, &start);
    if (index < 0)
        return NOT_SHARED;
    if (!raw_failed(make(start, a)))
        return (long)shared_mapping_publish(space, self, index);
    shared_mapping_cancel(space, index);
    return NOT_SHARED;
}

static long join_or_create(struct space_slot *self, const struct space_shared_key *key,
                           make_mapping *make, const long a[6])
{
    uint64_t signals = member_lock(self);
    long result = (long)shared_mapping_join(space_registry(), self, key);
    if (!result)
        result = create(self, key, make, a);
    member_unlock(self, signals);
    return result;
}

long shared_mmap(struct space_slot *self, const long a[6])
{
    struct space_shared_key key;
    return may_share(self) && find_key(a, &key) ? join_or_create(self, &key, make_mmap, a)
                                                : NOT_SHARED;
}

/* Whether the owner's permissions, which are this task's, allow the attachment. */
static int may_attach(const struct shmid_ds *segment, long flags)
{
    unsigned wanted = flags & SHM_RDONLY ? 0400 : 0600;
    uid_t user = (uid_t)raw(__NR_geteuid);
    return (segment->shm_perm.uid == user || segment->shm_perm.cuid == user) &&
           (segment->shm_perm.mode & wanted) == wanted;
}

static struct space_shared_key segment_key(long id, long flags, size_t size)
{
    int is_read_only = (flags & SHM_RDONLY) != 0;
    return (struct space_shared_key){~UINT64_C(0),
                                     (uint64_t)id,
                                     0,
                                     page_ceiling(size),
                                     (uint32_t)(is_read_only ? PROT_READ : PROT_READ | PROT_WRITE),
                                     !is_read_only};
}

long shared_shmat(struct space_slot *self, long id, long flags, const struct shmid_ds *segment)
{
    if (!may_share(self) || (flags & ~(long)SHM_RDONLY) || !may_attach(segment, flags))
        return NOT_SHARED;
    struct space_shared_key key = segment_key(id, flags, segment->shm_segsz);
    return join_or_create(self, &key, make_shmat, (const long[6]){id, 0, flags, (long)key.size});
}

/* Tasks at one address are one attachment to the kernel; to a program each has its own. */
void shared_count_attached(struct shmid_ds *segment, long id)
{
    for (long flags = 0; process_in_space() && flags <= SHM_RDONLY; flags += SHM_RDONLY) {
        struct space_shared_key key = segment_key(id, flags, segment->shm_segsz);
        segment->shm_nattch += extra_attachments(space_registry(), &key);
    }
}

/* ---- What is done with them later ---- */

/* The task's own entry at these addresses, or -1. */
static int find_used(const struct space_slot *self, uintptr_t address)
{
    int index = shared_windows_contain(address) ? shared_window_index(address) : -1;
    return index >= 0 && shared_mapping_has_user(space_registry(), self, index) ? index : -1;
}

/* Whether that is all of an entry that nobody has changed. What lies in the window of a task's own
 * only the kernel knows. */
static int is_whole(int index, uintptr_t start, size_t size)
{
    const struct space *space = space_registry();
    uintptr_t first = shared_window_start(index);
    return !shared_mapping_is_exclusive(space, index) && start <= first &&
           first + space->shared.mappings[index].key.size <= start + size;
}

/* The task has unmapped something of an entry that is its own: it ends with the last of it. */
static void release_if_empty(struct space_slot *self, int index)
{
    uintptr_t start = shared_window_start(index);
    if (area_is_free(start, shared_window_end(index) - start))
        shared_mapping_release(space_registry(), self, index);
}

/* Of one window, in which the addresses lie. Nothing of this task's: as where nothing is mapped. */
static long unmap_in_window(struct space_slot *self, int index, uintptr_t start, uintptr_t end)
{
    struct space *space = space_registry();
    long result = 0;
    if (!shared_mapping_has_user(space, self, index))
        return 0;
    if (is_whole(index, start, end - start)) {
        shared_mapping_release(space, self, index);
    } else if (shared_mapping_make_exclusive(space, self, index)) {
        result = raw(__NR_munmap, start, end - start);
        release_if_empty(self, index);
    }
    return result;
}

static long unmap(struct space_slot *self, uintptr_t start, uintptr_t end)
{
    long result = 0;
    while (start < end && shared_windows_contain(start)) {
        int index = shared_window_index(start);
        uintptr_t next = shared_window_end(index);
        long failed = unmap_in_window(self, index, start, end < next ? end : next);
        result = failed ? failed : result;
        start = next;
    }
    return result;
}

long shared_munmap(struct space_slot *self, const long a[6])
{
    uintptr_t start = (uintptr_t)a[0];
    size_t size = page_ceiling((size_t)a[1]);
    if (!process_in_space() || start % ARCH_PAGE || !size || start + size < start)
        return raw(__NR_munmap, a[0], a[1]);
    uint64_t signals = member_lock(self);
    long result = unmap(self, start, start + size);
    member_unlock(self, signals);
    return result;
}

long shared_shmdt(struct space_slot *self, uintptr_t address)
{
    if (!process_in_space())
        return raw(__NR_shmdt, address);
    uint64_t signals = member_lock(self);
    int index = find_used(self, address);
    int is_attached = index >= 0 && shared_window_start(index) == address;
    long result = is_attached ? 0 : -EINVAL;
    if (is_attached && shared_mapping_is_exclusive(space_registry(), index)) {
        result = raw(__NR_shmdt, address);
        release_if_empty(self, index);
    } else if (is_attached) {
        shared_mapping_release(space_registry(), self, index);
    }
    member_unlock(self, signals);
    return result;
}

/* A call that changes the mapping for all who use it: made if that is this task alone, and if it
 * stays in the window, since other tasks' mappings may follow. */
static long change(struct space_slot *self, uintptr_t address, size_t size, long nr,
                   const long a[6])
{
    uint64_t signals = member_lock(self);
    int index = find_used(self, address);
    long result = -ENOMEM;
    if (index >= 0 && page_ceiling(size) <= shared_window_end(index) - page_floor(address) &&
        page_ceiling(size) >= size && shared_mapping_make_exclusive(space_registry(), self, index))
        result = raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
    member_unlock(self, signals);
    return result;
}

long shared_mmap_at(struct space_slot *self, const long a[6])
{
    return process_in_space() ? change(self, (uintptr_t)a[0], (size_t)a[1], __NR_mmap, a)
                              : raw_syscall6(__NR_mmap, a[0], a[1], a[2], a[3], a[4], a[5]);
}

long shared_shmat_at(struct space_slot *self, size_t size, const long a[6])
{
    return process_in_space() ? change(self, (uintptr_t)a[1], size, __NR_shmat, a)
                              : raw(__NR_shmat, a[0], a[1], a[2]);
}

/* Whether these pages of the entry have that protection: unless it is the task's own they have
 * what they were mapped with. */
static int has_protection(int index, const long a[6])
{
    const struct space *space = space_registry();
    const struct space_shared_key *key = &space->shared.mappings[index].key;
    uintptr_t start = (uintptr_t)a[0], first = shared_window_start(index);
    return !shared_mapping_is_exclusive(space, index) && key->prot == (uint32_t)a[2] &&
           start % ARCH_PAGE == 0 && start >= first && (size_t)a[1] <= key->size &&
           start - first <= key->size - (size_t)a[1];
}

long shared_mprotect(struct space_slot *self, long nr, const long a[6])
{
    int index = find_used(self, (uintptr_t)a[0]);
    if (!process_in_space())
        return raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (index >= 0 && nr == __NR_mprotect && has_protection(index, a))
        return 0;
    return change(self, (uintptr_t)a[0], (size_t)a[1], nr, a);
}

/* A mapping of the same object, as a rule in the task's own range. */
static long duplicate(struct space_slot *self, const long a[6])
{
    const long copy[6] = {a[0], 0, a[2], MREMAP_MAYMOVE | (a[3] & MREMAP_FIXED), a[4]};
    if (a[3] & MREMAP_FIXED)
        return raw(__NR_mremap, copy[0], copy[1], copy[2], copy[3], copy[4]);
    long result = remap_into_range(self, copy);
    return result == -EEXIST ? -ENOMEM : result;
}

/* The mapping of the task alone: the kernel moves it, and finds what is wrong with the call. Never
 * in place, where it might grow into what the next entry will be. */
static long move(struct space_slot *self, int index, const long a[6])
{
    long result = a[3] & MREMAP_FIXED ? raw_syscall6(__NR_mremap, a[0], a[1], a[2], a[3], a[4], 0)
                                      : remap_into_range(self, a);
    if (!raw_failed(result))
        release_if_empty(self, index);
    return result == -EEXIST ? -ENOMEM : result;
}

/* NOT_SHARED: others use it too. */
static long move_if_own(struct space_slot *self, const long a[6])
{
    uint64_t signals = member_lock(self);
    int index = find_used(self, (uintptr_t)a[0]);
    long result = NOT_SHARED;
    if (index >= 0 && shared_mapping_make_exclusive(space_registry(), self, index))
        result = move(self, index, a);
    member_unlock(self, signals);
    return result;
}

long shared_mremap(struct space_slot *self, const long a[6])
{
    size_t old_size = page_ceiling((size_t)a[1]), size = page_ceiling((size_t)a[2]);
    if (!process_in_space())
        return raw_syscall6(__NR_mremap, a[0], a[1], a[2], a[3], a[4], 0);
    if (find_used(self, (uintptr_t)a[0]) < 0)
        return -EFAULT;
    if (!size || a[0] % ARCH_PAGE)
        return -EINVAL;
    if (old_size && size <= old_size && !(a[3] & (MREMAP_FIXED | MREMAP_DONTUNMAP))) {
        const long tail[6] = {a[0] + (long)size, (long)(old_size - size)};
        return size == old_size || shared_munmap(self, tail) == 0 ? a[0] : -ENOMEM;
    }
    if (!(a[3] & MREMAP_MAYMOVE))
        return a[3] ? -EINVAL : change(self, (uintptr_t)a[0], size, __NR_mremap, a);
    long result = move_if_own(self, a);
    if (result != NOT_SHARED)
        return result;
    result = duplicate(self, a);
    if (!raw_failed(result) && old_size && !(a[3] & MREMAP_DONTUNMAP))
        shared_munmap(self, a);
    return result;
}
