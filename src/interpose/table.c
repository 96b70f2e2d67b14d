/* src/interpose/table.c: from a system call's number to its handler. */
#include "arch/trampoline.h"
#include "base/raw.h"
#include "interpose/calls.h"
#include "interpose/guard/guard.h"
#include "interpose/interpose.h"

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

/* A call on memory has failed with ENOMEM: counts it if there are no mappings left, when one more
 * page without memory cannot be had either. Of a limit on the address space that is no sign. A task
 * that is killed in between leaves that page until the space ends. */
static void note_refused(void)
{
    struct rlimit limit = {0, 0};
    long page =
        raw(__NR_mmap, 0, ARCH_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!raw_failed(page))
        raw(__NR_munmap, page, ARCH_PAGE);
    else if (page == -ENOMEM && raw(__NR_prlimit64, 0, RLIMIT_AS, 0, &limit) == 0 &&
             limit.rlim_cur == RLIM_INFINITY)
        space_count(&space_registry()->refused, 1);
}

/* All that fail with ENOMEM are calls on memory. The break that cannot move says so by its value,
 * and a libc goes to mmap then. */
static long run(interposed_handler *handler, struct space_slot *self, long nr, const long a[6])
{
    long result =
        handler ? handler(self, nr, a) : raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
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
    return self->guard_key ? guard_call(self, nr, arguments)
                           : interpose_plain_call(self, nr, arguments);
}

long interpose_dispatch(const struct arch_call *call, const long arguments[6])
{
    const struct interposed_call *found = find(call->nr);
    interposed_handler *handler =
        call->is_loader && found->ldso_handler ? found->ldso_handler : found->handler;
    return run(handler, call->self, call->nr, arguments);
}
