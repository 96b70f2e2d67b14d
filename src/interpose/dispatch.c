/* src/interpose/dispatch.c: from a patched system call to its handler, and the set-up of a task
 * that leads there. */
#include <errno.h>
#include <linux/mman.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "arch/keys.h"
#include "arch/trampoline.h"
#include "base/page.h"
#include "base/raw.h"
#include "interpose/calls.h"
#include "interpose/guard/guard.h"
#include "interpose/interpose.h"
#include "interpose/memory/memory.h"
#include "interpose/patch/patch.h"
#include "space/child.h"
#include "space/intervals.h"
#include "space/locks.h"

struct interposed_call {
    unsigned where;
    enum map_effect effect;
    interposed_handler *handler, *ldso_handler;
    guarded_handler *guarded_handler;
};

#define ROW(name, where, effect, handler, ldso_handler, guarded_handler, description)              \
    [__NR_##name] = {where, effect, handler, ldso_handler, ARCH_HAS_KEYS ? guarded_handler : NULL},
/* NOLINTNEXTLINE(bugprone-branch-clone): rows without a handler for guarded tasks */
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

/* Probes for seven free mappings, as many as any call needs at once: 0, or -ENOMEM if the space has
 * fewer. Dividing a mapping takes more of them than making one, and mremap wants six. */
static long probe_free_mappings(void)
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

/* A call on memory has failed with ENOMEM: counts it if no mappings are left, which shows when
 * pages without memory cannot be mapped either. ENOMEM from RLIMIT_AS does not count. A task that
 * is killed during the probe leaves those pages until the space ends. */
static void count_exhausted_mappings(void)
{
    struct rlimit limit = {0, 0};
    if (probe_free_mappings() == -ENOMEM && raw(__NR_prlimit64, 0, RLIMIT_AS, 0, &limit) == 0 &&
        limit.rlim_cur == RLIM_INFINITY)
        counter_add(&space_registry()->mappings_exhausted, 1);
}

static long run_handler(interposed_handler *handler, struct space_slot *self, long nr,
                        const long a[6])
{
    return handler ? handler(self, nr, a) : raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static long run_on_memory(enum map_effect effect, interposed_handler *handler,
                          struct space_slot *self, long nr, const long a[6])
{
    if (nr == __NR_munmap && registrations_is_delivery(self, (uintptr_t)a[0], (uintptr_t)a[1]))
        return 0;
    if (seal_forbids(self, nr, a))
        return -EPERM;
    if (__builtin_expect(registrations_exist(space_registry()), 0) && process_in_space())
        notify_registrants(self, nr, a);
    /* A filter of the program's own may kill for the calls that the throttle makes. */
    uint32_t begun =
        effect == CHANGES_MAP && !brk_is_reserved(self) ? map_throttle_begin(space_registry()) : 0;
    long result = run_handler(handler, self, nr, a);
    map_throttle_end(space_registry(), begun);
    if (__builtin_expect(intervals_used(self, INTERVALS_DONTFORK) != 0, 0) && !raw_failed(result) &&
        process_in_space())
        dontfork_update(self, nr, a, result);
    return result;
}

/* Every call that fails with ENOMEM is a call on memory. A break that cannot move returns the old
 * break, and the libc falls back to mmap. */
static long run(const struct interposed_call *call, interposed_handler *handler,
                struct space_slot *self, long nr, const long a[6])
{
    long result = call->effect ? run_on_memory(call->effect, handler, self, nr, a)
                               : run_handler(handler, self, nr, a);
    if (__builtin_expect(result == -ENOMEM, 0))
        count_exhausted_mappings();
    return result;
}

long interpose_run_call(struct space_slot *self, int is_loader, long nr, const long arguments[6])
{
    const struct interposed_call *call = find(nr);
    return run(call, is_loader && call->ldso_handler ? call->ldso_handler : call->handler, self, nr,
               arguments);
}

static long guarded_call(struct space_slot *self, int is_loader, long nr, const long arguments[6])
{
    guarded_handler *handler = find(nr)->guarded_handler;
    return handler ? handler(self, is_loader, nr, arguments)
                   : interpose_run_call(self, is_loader, nr, arguments);
}

long interpose_call(struct space_slot *self, long nr, const long arguments[6])
{
    return ARCH_HAS_KEYS && self->guard_key ? guarded_call(self, 0, nr, arguments)
                                            : interpose_run_call(self, 0, nr, arguments);
}

long interpose_dispatch(const struct arch_patched_syscall *call, const long arguments[6])
{
    return interpose_run_call(call->self, call->is_loader != 0, call->nr, arguments);
}

static long dispatch_guarded(const struct arch_patched_syscall *call, const long arguments[6])
{
    return guarded_call(call->self, call->is_loader != 0, call->nr, arguments);
}

/* ---- Setting a task up ---- */

void interpose_init_data(struct arch_trampoline_data *data, struct space_slot *slot)
{
    struct arch_handlers handlers = {.call = interpose_dispatch, .fault = interpose_fault};
    if (ARCH_HAS_KEYS && slot->guard_key) {
        handlers.call = dispatch_guarded;
        handlers.fault = guard_signal;
    }
#if ARCH_HAS_CPUID
    handlers.cpuid = interpose_cpuid;
#endif
    arch_init_trampoline_data(data, slot, &handlers);
}

void interpose_init_slot(struct space *space, struct space_slot *slot)
{
    uintptr_t range = layout_range(slot_index(space, slot));
    struct space_interpose *interpose = &slot->interpose;
    atomic_store(&interpose->files_next, range + LAYOUT_FILES);
    atomic_store(&interpose->mappings_next, range + LAYOUT_MAPPINGS);
    atomic_store(&interpose->break_now, range + LAYOUT_BREAK);
    atomic_store(&interpose->break_mapped, range + LAYOUT_BREAK);
}

long interpose_map_trampolines(struct space *space, struct space_slot *slot)
{
    uintptr_t data = layout_range(slot_index(space, slot)) + LAYOUT_TRAMPOLINES;
    interpose_init_slot(space, slot);
    long result = raw(__NR_mmap, data, ARCH_PAGE * (2 + CHILD_PAGES), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (raw_failed(result))
        return result;
    /* Old size 0 duplicates a shared mapping: every task has the same physical page of trampolines.
     */
    result = raw(__NR_mremap, space->trampoline_page, 0, ARCH_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
                 data + ARCH_PAGE);
    if (raw_failed(result))
        return result;
    interpose_init_data((struct arch_trampoline_data *)data, slot);
    slot->interpose.trampoline_data = data;
    slot->interpose.trampolines = data + ARCH_PAGE;
    slot->child_record = data + 2 * ARCH_PAGE;
    return 0;
}
