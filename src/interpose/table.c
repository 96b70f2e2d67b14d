/* src/interpose/table.c: from a system call's number to its handler. */
#include "arch/trampoline.h"
#include "base/raw.h"
#include "interpose/calls.h"
#include "interpose/interpose.h"

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

static long run(interposed_handler *handler, struct space_slot *self, long nr, const long a[6])
{
    return handler ? handler(self, nr, a) : raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

long interpose_call(struct space_slot *self, long nr, const long arguments[6])
{
    return run(find(nr)->handler, self, nr, arguments);
}

long interpose_dispatch(const struct arch_call *call, const long arguments[6])
{
    const struct interposed_call *found = find(call->nr);
    interposed_handler *handler =
        call->is_loader && found->ldso_handler ? found->ldso_handler : found->handler;
    return run(handler, call->self, call->nr, arguments);
}
