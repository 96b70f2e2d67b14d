/* src/api/mappings.c: what a space maps at its beginning: registry, mark, trampolines, fence.
 */
#include "api/mappings.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arch/trampoline.h"
#include "base/page.h"
#include "base/raw.h"
#include "space/registry.h"
#include "space/member.h"
#include "spawn/spawn.h"

enum { FENCE_TRIES = 16 };

/* The registry is a private mapping of a named file: copied on write like anonymous memory, so that
 * a forked child cannot write to it, but found by name in /proc/PID/maps by `onespace ps`. Where a
 * limit on file sizes allows no file it is anonymous memory, and `onespace ps` does not see the
 * space. */
static long map_registry(void)
{
    int fd = memory_file_create("onespace-space", 0, sizeof(struct space));
    if (fd < 0 && fd != -EFBIG)
        return fd;
    void *memory =
        mmap((void *)LAYOUT_REGISTRY, sizeof(struct space), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_FIXED_NOREPLACE | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0),
             fd < 0 ? -1 : fd, 0);
    long result = memory == MAP_FAILED ? -errno : 0;
    if (fd >= 0)
        close(fd);
    return result;
}

/* Anonymous memory that is zero in a forked child. */
static long map_wiped(void *at, size_t size, int flags)
{
    void *memory =
        mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    return memory == MAP_FAILED || madvise(memory, size, MADV_WIPEONFORK) != 0 ? -errno : 0;
}

/* Fork makes private memory read-only, and the next store copies the page: one by the kernel, as
 * CLONE_PARENT_SETTID, waits for the fork then, and is left out if the caller is killed while it
 * waits. Of memory that is wiped in a forked child nothing is made read-only. */
static long map_pids(struct space *space)
{
    size_t size = sizeof(*space) - offsetof(struct space, pids);
    return map_wiped(space->pids, size, MAP_FIXED | MAP_NORESERVE);
}

static long map_mark(void)
{
    long result = map_wiped((void *)LAYOUT_MARK, ARCH_PAGE, MAP_FIXED_NOREPLACE);
    if (result == 0)
        *(volatile uint32_t *)LAYOUT_MARK = 1;
    return result;
}

static long map_trampolines(struct space *space)
{
    void *page = mmap(NULL, ARCH_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return -errno;
    arch_write_trampolines(page, -ARCH_PAGE);
    space->trampoline_page = (uintptr_t)page;
    return mprotect(page, ARCH_PAGE, PROT_READ | PROT_EXEC) == 0 ? 0 : -errno;
}

/* The address space has one program break, and the libc of every program that is not interposed
 * assumes that it owns it. A page directly above the break makes every brk fail; those libcs then
 * take their heap from mmap. Before that one page is allocated by the root's own sbrk: the root's
 * libc then never lowers the break, which would open a gap below the fence. */
static long fence_break(struct space *space)
{
    for (int tries = 0; tries < FENCE_TRIES; tries++) {
        if (sbrk(ARCH_PAGE) == (void *)-1)
            return 0; /* what is mapped there already serves as the fence */
        uintptr_t end = page_ceiling((uintptr_t)raw(__NR_brk, 0));
        void *fence =
            mmap((void *)end, ARCH_PAGE, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        if (fence != MAP_FAILED) {
            space->fence_low = end;
            space->fence_high = end + ARCH_PAGE;
            return 0;
        }
        if (errno != EEXIST)
            return -errno;
    }
    return -EEXIST;
}

/* Precondition of a space: nothing is mapped in the region and in the windows of shared mappings
 * behind it, because it would be unmapped with the task that gets that range or window. Only
 * unusual layouts put anything there: setarch -L, vm.legacy_va_layout, a stack limit of dozens of
 * TiB. */
static long check_region(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    unsigned long start, end;
    int is_free = 1;
    if (!maps)
        return -errno;
    while (is_free && fscanf(maps, "%lx-%lx%*[^\n]", &start, &end) == 2)
        is_free = end <= LAYOUT_REGION || start >= SHARED_END;
    fclose(maps);
    return is_free ? 0 : -ENOMEM;
}

long space_map(struct space *space)
{
    long result = check_region();
    if (result < 0)
        return result;
    result = map_registry();
    if (result < 0)
        return result == -EEXIST ? -ENOMEM : result;
    result = map_pids(space);
    if (result == 0)
        result = map_mark();
    if (result == 0)
        result = map_trampolines(space);
    if (result == 0)
        result = fence_break(space);
    if (result < 0)
        space_unmap(space);
    return result;
}

void space_unmap(struct space *space)
{
    if (space->fence_high)
        munmap((void *)space->fence_low, space->fence_high - space->fence_low);
    if (space->trampoline_page)
        munmap((void *)space->trampoline_page, ARCH_PAGE);
    /* The registry, the mark, and memory of ended tasks that was still held. */
    (void)memory_unmap(LAYOUT_REGION, LAYOUT_SLOTS * LAYOUT_RANGE);
}
