/* src/interpose/memory/shared.c: shared mappings and System V segments. If another task has mapped
 * the same object equally, a task gets that mapping, at the same address.
 *
 * Later calls decide whether a program can tell the difference. As the only user it may do
 * anything; after a change no other task joins. If others use the mapping, too, the task may unmap
 * all of it, or move it, which makes a mapping of its own. Unmapping a part has no effect until the
 * task unmaps the rest or ends. Changing the protection or mapping over it fails with ENOMEM,
 * because others would see the change. docs/memory.md has the table.
 *
 * This applies only to objects in memory: a device may map something else for each caller, and file
 * systems on disk may treat two mappings of a file differently. */

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/mman.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/page.h"
#include "base/raw.h"
#include "interpose/calls.h"
#include "interpose/memory/memory.h"
#include "space/locks.h"
#include "space/shared_mappings.h"

static int may_share(const struct space_slot *self)
{
    return process_in_space() && !(self->flags & ONESPACE_SPAWN_OWN_MAPPINGS);
}

/* The size of the addresses that a mapping of `size` bytes of the file takes: whole pages, huge
 * ones on hugetlbfs. 0 if the file is not in memory. */
static size_t mapped_size(long fd, size_t size)
{
    struct statfs system;
    if (raw(__NR_fstatfs, fd, &system) != 0)
        return 0;
    if (system.f_type == HUGETLBFS_MAGIC)
        return round_up(size, (size_t)system.f_bsize);
    return system.f_type == TMPFS_MAGIC ? page_ceiling(size) : 0;
}

/* Whether the kernel would allow a mapping with that protection; *may_write: whether mprotect could
 * add PROT_WRITE. */
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

/* arguments[3]: the segment's size, rounded to pages. Only an attachment shows whether a segment
 * has huge pages: the last one reaches beyond that size, perhaps into other windows. */
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

/* On failure the caller falls back to the plain call and gets the kernel's error. */
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

/* Identifiers of segments are of an IPC namespace: its number, or 0 if it cannot be read. */
static uint64_t ipc_namespace(void)
{
    struct stat status;
    return raw(__NR_newfstatat, AT_FDCWD, "/proc/thread-self/ns/ipc", &status, 0) == 0
               ? status.st_ino
               : 0;
}

static struct space_shared_key segment_key(uint64_t namespace, long id, long flags, size_t size)
{
    int is_read_only = (flags & SHM_RDONLY) != 0;
    return (struct space_shared_key){~UINT64_C(0),
                                     (uint64_t)id,
                                     namespace,
                                     page_ceiling(size),
                                     (uint32_t)(is_read_only ? PROT_READ : PROT_READ | PROT_WRITE),
                                     !is_read_only};
}

static long shared_shmat(struct space_slot *self, long id, long flags,
                         const struct shmid_ds *segment)
{
    uint64_t namespace = ipc_namespace();
    if (!namespace || !may_share(self) || (flags & ~(long)SHM_RDONLY) ||
        !may_attach(segment, flags))
        return NOT_SHARED;
    struct space_shared_key key = segment_key(namespace, id, flags, segment->shm_segsz);
    return join_or_create(self, &key, make_shmat, (const long[6]){id, 0, flags, (long)key.size});
}

/* Adds the attachments that the kernel does not count: tasks at one address are one attachment to
 * the kernel, but a program expects one for each. */
static void count_shared_attachments(struct shmid_ds *segment, long id)
{
    uint64_t namespace = ipc_namespace();
    for (long flags = 0; process_in_space() && flags <= SHM_RDONLY; flags += SHM_RDONLY) {
        struct space_shared_key key = segment_key(namespace, id, flags, segment->shm_segsz);
        segment->shm_nattch += extra_attachments(space_registry(), &key);
    }
}

/* ---- Later calls on shared mappings ---- */

/* The task's own entry at these addresses, or -1. */
static int find_used(const struct space_slot *self, uintptr_t address)
{
    int index = shared_windows_contain(address) ? shared_window_index(address) : -1;
    return index >= 0 && shared_mapping_has_user(space_registry(), self, index) ? index : -1;
}

/* Whether the range covers an entry that no task has changed. Only the kernel knows what a window
 * contains that has become one task's own. */
static int is_whole(int index, uintptr_t start, size_t size)
{
    const struct space *space = space_registry();
    uintptr_t first = shared_window_start(index);
    return !shared_mapping_is_exclusive(space, index) && start <= first &&
           first + space->shared.mappings[index].key.size <= start + size;
}

/* Ends an entry that is the task's own if it has unmapped the last of it. */
static void release_if_empty(struct space_slot *self, int index)
{
    uintptr_t start = shared_window_start(index);
    if (area_is_free(start, shared_window_end(index) - start))
        shared_mapping_release(space_registry(), self, index);
}

/* Unmaps addresses in one window. Succeeds if the task uses nothing there, as munmap does for
 * addresses where nothing is mapped. */
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

static long shared_shmdt(struct space_slot *self, uintptr_t address)
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

static int fits_window(int index, uintptr_t address, size_t size)
{
    return page_ceiling(size) >= size &&
           page_ceiling(size) <= shared_window_end(index) - page_floor(address);
}

/* A call that changes the mapping for all of its users: made only if this task is the only one and
 * the change stays in the window, because other tasks' mappings may follow it. */
static long change(struct space_slot *self, uintptr_t address, size_t size, long nr,
                   const long a[6])
{
    uint64_t signals = member_lock(self);
    int index = find_used(self, address);
    long result = -ENOMEM;
    if (index >= 0 && fits_window(index, address, size) &&
        shared_mapping_make_exclusive(space_registry(), self, index))
        result = raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
    member_unlock(self, signals);
    return result;
}

/* In a window that no task uses: a program may have found the addresses by a mapping that it has
 * unmapped again. */
static long map_in_free_window(struct space_slot *self, int index, const long a[6])
{
    uint64_t signals = member_lock(self);
    long result = -ENOMEM;
    if (fits_window(index, (uintptr_t)a[0], (size_t)a[1]) &&
        shared_mapping_claim(space_registry(), self, index)) {
        result = raw_syscall6(__NR_mmap, a[0], a[1], a[2], a[3], a[4], a[5]);
        release_if_empty(self, index);
    }
    member_unlock(self, signals);
    return result;
}

long shared_mmap_at(struct space_slot *self, const long a[6])
{
    uintptr_t address = (uintptr_t)a[0];
    if (!process_in_space())
        return raw_syscall6(__NR_mmap, a[0], a[1], a[2], a[3], a[4], a[5]);
    return find_used(self, address) >= 0
               ? change(self, address, (size_t)a[1], __NR_mmap, a)
               : map_in_free_window(self, shared_window_index(address), a);
}

/* Whether these pages of the entry have that protection. Unless the entry is the task's own, they
 * have the one that they were mapped with. */
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

/* Makes another mapping of the same object, usually in the task's own range. */
static long duplicate(struct space_slot *self, const long a[6])
{
    const long copy[6] = {a[0], 0, a[2], MREMAP_MAYMOVE | (a[3] & MREMAP_FIXED), a[4]};
    if (a[3] & MREMAP_FIXED)
        return raw(__NR_mremap, copy[0], copy[1], copy[2], copy[3], copy[4]);
    long result = mremap_into_range(self, copy);
    return result == -EEXIST ? -ENOMEM : result;
}

/* Moves a mapping that is the task's own; the kernel checks the call. It never grows in place,
 * where it might reach into the next window. */
static long move(struct space_slot *self, int index, const long a[6])
{
    long result = a[3] & MREMAP_FIXED ? raw_syscall6(__NR_mremap, a[0], a[1], a[2], a[3], a[4], 0)
                                      : mremap_into_range(self, a);
    if (!raw_failed(result))
        release_if_empty(self, index);
    return result == -EEXIST ? -ENOMEM : result;
}

/* NOT_SHARED if others use it, too. */
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

/* ---- shmat, shmdt, shmctl ---- */

/* shmat in the task's range: the address, or -errno. */
static long attach_in_range(struct space_slot *self, size_t size, size_t align, const long a[6])
{
    for (int tries = 0; tries < AREA_TRIES; tries++) {
        uintptr_t start = area_claim(self, AREA_MAPPINGS, size, align);
        if (!start)
            break;
        long result = raw(__NR_shmat, a[0], start, a[2]);
        if (!raw_failed(result)) {
            area_record_segment(self, start, size);
            return result;
        }
        /* EINVAL: something is mapped there, or the address is not aligned. */
        if (result != -EINVAL || area_is_free(start, size)) {
            area_release(self, start, size);
            return result;
        }
        area_mark_conflict(self, start, size, tries);
    }
    return -ENOMEM;
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
        return process_in_space() ? change(self, (uintptr_t)a[1], size, __NR_shmat, a)
                                  : raw(__NR_shmat, a[0], a[1], a[2]);
    result = -ENOMEM;
    /* The kernel refuses SHM_REMAP without an address. With one of ours it would replace a mapping.
     */
    if (a[1] == 0 && is_known && !(a[2] & SHM_REMAP))
        result = attach_in_range(self, size, ARCH_PAGE, a);
    if (result == -EINVAL && !(a[2] & SHM_REMAP)) /* of huge pages */
        result = attach_in_range(self, round_up(size, ARCH_HUGE_PAGE), ARCH_HUGE_PAGE, a);
    if (!raw_failed(result))
        return result;
    result = raw(__NR_shmat, a[0], a[1], a[2]);
    if (!raw_failed(result) && is_known && in_range(self, (uintptr_t)result, size)) {
        area_mark_used(self, (uintptr_t)result, size);
        area_record_segment(self, (uintptr_t)result, size);
    } else if (!raw_failed(result) && is_known) {
        out_of_range_add(self, (uintptr_t)result, size);
    }
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
        count_shared_attachments((struct shmid_ds *)a[2], a[0]);
    return result;
}
