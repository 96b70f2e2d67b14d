/* src/interpose/table.c: from a system call's number to its handler. */
#include "arch/keys.h"
#include "arch/trampoline.h"
#include "base/raw.h"
#include "interpose/calls.h"
#include "interpose/guard/guard.h"
#include "interpose/interpose.h"
#include "interpose/memory/memory.h"
#include "space/intervals.h"
#include "space/locks.h"

#include <errno.h>
#include <linux/mman.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/page.h"

struct interposed_call {
    unsigned where;
    interposed_handler *handler, *ldso_handler;
};

#define ROW(name, where, handler, ldso_handler, what)                                              \
    [__NR_##name] = {where, handler, ldso_handler},
static const struct interposed_call calls[] = {INTERPOSED_CALLS(ROW)};

static const struct interposed_call *find(long nr)
{
    static const struct interposed_call none;
    return nr >= 0 && (unsigned long)nr < sizeof(calls) / sizeof(calls[0]) ? &calls[nr] : &none;
}

unsigned interposed_where(long nr)
{
    return find(nr)->where;
}

/* As many mappings as any call needs at once: -ENOMEM when they cannot be had. Dividing a mapping
 * needs more room than making one, and for mremap six must be free. */
static long take_a_few(void)
{
    enum { PAGES = 7 };
    long start = raw(__NR_mmap, 0, PAGES * ARCH_PAGE, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
         result = 0;
    if (raw_failed(start))
        return start;
    for (int i = 1; i < PAGES && result == 0; i += 2)
        result = raw(__NR_mprotect, start + i * ARCH_PAGE, ARCH_PAGE, PROT_READ);
    raw(__NR_munmap, start, PAGES * ARCH_PAGE);
    return result;
}

/* A call on memory has failed with ENOMEM: counts it if there are no mappings left, when pages
 * without memory cannot be had either. Of a limit on the address space that is no sign. A task that
 * is killed in between leaves those pages until the space ends. */
static void note_refused(void)
{
    struct rlimit limit = {0, 0};
    if (take_a_few() == -ENOMEM && raw(__NR_prlimit64, 0, RLIMIT_AS, 0, &limit) == 0 &&
        limit.rlim_cur == RLIM_INFINITY)
        counter_add(&space_registry()->mappings_exhausted, 1);
}

static int changes_map(long nr)
{
    switch (nr) {
    case __NR_brk:
    case __NR_mmap:
    case __NR_mprotect:
    case __NR_mremap:
    case __NR_munmap:
    case __NR_pkey_mprotect:
    case __NR_shmat:
    case __NR_shmdt:
        return 1;
    default:
        return 0;
    }
}

static long run_handler(interposed_handler *handler, struct space_slot *self, long nr,
                        const long a[6])
{
    return handler ? handler(self, nr, a) : raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* A call that changes the map or what it holds. */
static long run_on_map(interposed_handler *handler, struct space_slot *self, long nr,
                       const long a[6])
{
    if (seal_forbids(self, nr, a))
        return -EPERM;
    uint32_t begun = changes_map(nr) ? map_throttle_begin(space_registry()) : 0;
    long result = run_handler(handler, self, nr, a);
    map_throttle_end(space_registry(), begun);
    if (__builtin_expect(intervals_used(self, INTERVALS_DONTFORK) != 0, 0) && !raw_failed(result) &&
        process_in_space())
        dontfork_note(self, nr, a, result);
    return result;
}

/* All that fail with ENOMEM are calls on memory. The break that cannot move says so by its value,
 * and a libc goes to mmap then. */
static long run(interposed_handler *handler, struct space_slot *self, long nr, const long a[6])
{
    long result =
        (changes_map(nr) || nr == __NR_madvise ? run_on_map : run_handler)(handler, self, nr, a);
    if (__builtin_expect(result == -ENOMEM, 0))
        note_refused();
    return result;
}

long interpose_plain_call(struct space_slot *self, long nr, const long arguments[6])
{
    return run(find(nr)->handler, self, nr, arguments);
}

long interpose_call(struct space_slot *self, long nr, const long arguments[6])
{
    return ARCH_HAS_KEYS && self->guard_key ? guard_call(self, nr, arguments)
                                            : interpose_plain_call(self, nr, arguments);
}

long interpose_dispatch(const struct arch_patched_syscall *call, const long arguments[6])
{
    const struct interposed_call *found = find(call->nr);
    interposed_handler *handler =
        call->is_loader && found->ldso_handler ? found->ldso_handler : found->handler;
    return run(handler, call->self, call->nr, arguments);
}
