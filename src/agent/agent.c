/* src/agent/agent.c: libonespace-agent.so, preloaded into each task before its program.
 *
 * Freestanding: no library is needed, so that one file serves glibc and musl of any age; the few
 * libc functions it calls are weak and looked for by name. Most of what a task needs is done by the
 * root's library through steering; the agent does what must happen inside the task once its libc is
 * ready: it makes the task a member for all to see, settles the allocator, and carries syscall(),
 * by which some programs reach the calls that are steered. */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>

#include "onespace.h"
#include "space/registry.h"
#include "raw_syscall.h"

#define EXPORTED __attribute__((visibility("default")))
#define WEAK     __attribute__((weak))

extern unsigned long getauxval(unsigned long) WEAK;
extern int mallopt(int, int) WEAK;
extern int *__errno_location(void) WEAK;

long syscall(long nr, ...);

enum { /* glibc's malloc.h, which a freestanding file cannot rely on */
       OPTION_TRIM_THRESHOLD = -1,
       OPTION_TOP_PAD = -2,
       OPTION_MMAP_THRESHOLD = -3,
};
enum {
    HEAP_PAD = 1 << 20,   /* grow the break by at least this much */
    HEAP_TRIM = 64 << 20, /* keep at most this much free memory at the heap's top */
    HEAP_MMAP = 32 << 20, /* from here on mmap, which gives memory back at once */
};

static struct space *space;
static struct space_slot *self;

/* A heap that keeps some free memory enters the kernel less often: in one address space every
 * munmap and page fault costs all tasks a little. docs/memory.md has the measurements and the
 * bound. */
static void settle_heap(void)
{
    if (!mallopt || (self->flags & ONESPACE_SPAWN_HEAP_LIBC))
        return;
    mallopt(OPTION_TOP_PAD, HEAP_PAD);
    mallopt(OPTION_TRIM_THRESHOLD, HEAP_TRIM);
    mallopt(OPTION_MMAP_THRESHOLD, HEAP_MMAP);
}

__attribute__((constructor)) static void attach(void)
{
    if (!getauxval)
        return;
    space = (struct space *)getauxval(SPACE_AT_REGISTRY);
    self = (struct space_slot *)getauxval(SPACE_AT_SLOT);
    if (!space || !self || space->magic != SPACE_MAGIC || space->abi != SPACE_ABI ||
        space->size != sizeof(*space)) {
        space = NULL;
        return;
    }
    space->operations.task_attached(self);
    settle_heap();
}

/* libfabric and UCX make some steered calls through syscall(). */
EXPORTED long syscall(long nr, ...)
{
    long a[6];
    va_list list;
    va_start(list, nr);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    long result = space && !(self->flags & ONESPACE_SPAWN_UNSTEERED)
                      ? space->operations.steer(self, nr, a)
                      : raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
    if ((unsigned long)result < -4095ul)
        return result;
    if (__errno_location)
        *__errno_location() = (int)-result;
    return -1;
}
