/* src/space/init.c: make a space, fence the program break, end the space. */
#include "onespace.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <pthread.h>

#include "arch.h"
#include "space/debugger.h"
#include "space/futex.h"
#include "space/group.h"
#include "space/registry.h"
#include "space/locking.h"
#include "space/robust.h"
#include "steer/steer.h"
#include "task/birth.h"
#include "task/inherit.h"
#include "task/agent_path.h"
#include "task/keeper.h"
#include "task/loader_image.h"
#include "task/threads.h"
#include "xpmem/calls.h"

#ifndef PR_FUTEX_HASH
#define PR_FUTEX_HASH           78
#define PR_FUTEX_HASH_SET_SLOTS 1
#endif

enum { FUTEX_HASH_SLOTS = 1024, FENCE_TRIES = 16 };

/* The registry is a private mapping of a named file: copied on write like anonymous memory, so that
 * a forked child cannot write to it, but found by name in /proc/PID/maps by `onespace ps`. */
static long map_registry(void)
{
    int fd = memfd_create("onespace-space", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    long result = 0;
    if (ftruncate(fd, (off_t)sizeof(struct space)) != 0 ||
        mmap((void *)LAYOUT_REGISTRY, sizeof(struct space), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_FIXED_NOREPLACE | MAP_NORESERVE, fd, 0) == MAP_FAILED)
        result = -errno;
    close(fd);
    return result;
}

static long map_mark(void)
{
    void *mark = mmap((void *)LAYOUT_MARK, ARCH_PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (mark == MAP_FAILED)
        return -errno;
    if (madvise(mark, ARCH_PAGE, MADV_WIPEONFORK) != 0)
        return -errno;
    *(volatile uint32_t *)mark = 1;
    return 0;
}

static long map_stubs(struct space *space)
{
    void *page = mmap(NULL, ARCH_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return -errno;
    arch_write_stubs(page, -ARCH_PAGE);
    space->stub_page = (uintptr_t)page;
    return mprotect(page, ARCH_PAGE, PROT_READ | PROT_EXEC) == 0 ? 0 : -errno;
}

/* The address space has one program break, and the libc of every program that is not steered
 * believes that it owns it. A page behind the break makes every brk fail; those libcs then take
 * their heap from mmap. One page that is taken from the root's own sbrk first keeps the root's libc
 * from ever lowering the break and so opening the gap again. */
static long fence_break(struct space *space)
{
    for (int tries = 0; tries < FENCE_TRIES; tries++) {
        if (sbrk(ARCH_PAGE) == (void *)-1)
            return 0; /* something lies there already, and stays if it is not ours */
        uintptr_t end = ((uintptr_t)raw(__NR_brk, 0) + ARCH_PAGE - 1) & -(uintptr_t)ARCH_PAGE;
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

/* Whatever lies in the region would be taken for a task's one day. Only unusual layouts put
 * anything there: setarch -L, vm.legacy_va_layout, a stack limit of dozens of TiB. */
static int region_is_free(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    unsigned long start, end;
    int is_free = 1;
    while (maps && is_free && fscanf(maps, "%lx-%lx%*[^\n]", &start, &end) == 2)
        is_free = end <= LAYOUT_REGION || start >= layout_range(LAYOUT_SLOTS);
    if (maps)
        fclose(maps);
    return is_free;
}

static void unmap_space(struct space *space)
{
    debugger_take_away(space);
    if (space->fence_high)
        munmap((void *)space->fence_low, space->fence_high - space->fence_low);
    if (space->stub_page)
        munmap((void *)space->stub_page, ARCH_PAGE);
    /* The registry, the mark, and memory of ended tasks that was still held. */
    munmap((void *)LAYOUT_REGION, LAYOUT_SLOTS * LAYOUT_RANGE);
}

/* By the agent of each task, on the task's main thread, when its libraries are loaded. */
static void task_attached(struct space_slot *self, uintptr_t link_map)
{
    const struct link_map *program = (const struct link_map *)link_map;
    robust_attach(self);
    if (program) { /* musl's has a name, and needs no second one */
        const char *path = *program->l_name ? NULL : steer_program(self);
        debugger_show(space_registry(), self, path, program->l_addr, (uintptr_t)program->l_ld,
                      link_map);
    }
    atomic_store_explicit(&self->loaded, 1, memory_order_release);
    futex_wake(&self->loaded, INT32_MAX);
    if ((self->flags & ONESPACE_SPAWN_TOGETHER) && self->ntasks > 1)
        group_await_loaded(space_registry(), self);
}

static void fill_registry(struct space *space)
{
    struct space_slot *root = &space->slots[0];
    space->magic = SPACE_MAGIC;
    space->abi = SPACE_ABI;
    space->size = sizeof(*space);
    space->operations.task_attached = task_attached;
    space->operations.steer = steer_call;
    space->operations.prepare = steer_prepare;
    space->operations.birth_clone = birth_clone;
    space->operations.xpmem = (struct space_xpmem_operations){call_make, call_remove, call_get,
                                                              call_release, call_attach};
    agent_path_beside("libxpmem.so.0", space->xpmem_library, sizeof(space->xpmem_library));
    space->operations.thread_exit = threads_exit;
    space->root_pid = getpid();
    space->keeper_ignored = inherit_ignored_signals() & ~keeper_handled_signals();
    for (int i = 0; i < SPACE_LIMITS; i++)
        (void)getrlimit(i, &space->keeper_limits[i]);
    space->created_ns = futex_now_ns();
    atomic_store(&space->requests, -1);
    atomic_store(&space->free_hint, 1);
    atomic_store(&space->pids[0], space->root_pid);
    atomic_store(&root->pid, space->root_pid);
    root->number = root->ntasks = -1;
    root->started_ns = space->created_ns;
    ssize_t length = readlink("/proc/self/exe", root->program, SPACE_PROGRAM_MAX - 1);
    root->program[length > 0 ? length : 0] = 0;
    struct link_map *first = NULL;
    void *program = dlopen(NULL, RTLD_LAZY);
    if (program && dlinfo(program, RTLD_DI_LINKMAP, &first) == 0)
        root->link_map = (uintptr_t)first;
    debugger_hang(space);
    atomic_store(&root->memory, MEMORY_PRESENT);
    atomic_store(&root->state, SLOT_RUNNING);
}

static long create_space(void)
{
    struct space *space = space_registry();
    long result = region_is_free() ? map_registry() : -ENOMEM;
    if (result < 0)
        return result == -EEXIST ? -ENOMEM : result;
    result = map_mark();
    if (result == 0)
        result = map_stubs(space);
    if (result == 0)
        result = fence_break(space);
    if (result == 0) {
        /* With the hash fixed before the first task, no wake-up is lost while the kernel changes it
         * (Linux 6.16 and later; older kernels have no such call and no such hash). */
        prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_SET_SLOTS, FUTEX_HASH_SLOTS, 0, 0);
        arch_detect();
        fill_registry(space);
        result = keeper_start(space);
    }
    if (result < 0) {
        unmap_space(space);
        return result;
    }
    space_set_root(space);
    if (getpid() == gettid())
        robust_attach(&space->slots[0]);
    return 0;
}

/* Valgrind runs one program's threads in turn; the keeper, a process in the same memory, would take
 * its turn along when valgrind ends it, and the root would wait for ever. */
static int is_under_valgrind(void)
{
    const char *preloaded = getenv("LD_PRELOAD");
    return preloaded && strstr(preloaded, "/vgpreload_");
}

int onespace_init(void)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&once);
    struct space_slot *slot = space_self();
    long result = 0;
    if (slot)
        result = atomic_load(&slot->id);
    else if (space_was_member())
        result = -EPERM;
    else if (is_under_valgrind())
        result = -ENOTSUP;
    else
        result = create_space();
    if (result >= 0 && locking_begin() < 0)
        result = -EAGAIN;
    pthread_mutex_unlock(&once);
    return (int)result;
}

int onespace_fini(void)
{
    struct space *space = space_mine();
    if (!space || space_self() != &space->slots[0])
        return -EPERM;
    long result = keeper_stop(space);
    if (result < 0)
        return (int)result;
    robust_detach(&space->slots[0]);
    space_set_root(NULL);
    loader_image_forget();
    unmap_space(space);
    return 0;
}

const char *onespace_version(void)
{
    return "0.1.0";
}
