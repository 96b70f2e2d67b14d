/* src/interpose/guard/report.c: a write to another task's memory: who, where, and what goes on. */
#include <signal.h>
#include <stddef.h>

#include "arch/registers.h"
#include "arch/keys.h"
#include "base/text.h"
#include "base/raw.h"
#include "interpose/guard/guard.h"
#include "interpose/guard/place.h"
#include "interpose/guard/record.h"
#include "interpose/interpose.h"

static char *append_task(char *text, const struct space_slot *slot)
{
    int32_t number = slot->number >= 0 ? slot->number : atomic_load(&slot->id);
    text = text_append_number(text_append(text, "task "), (uint64_t)number, 10);
    text = text_append(text, " (");
    text = text_append_max(text, text_basename(slot->program), 64);
    return text_append(text, ")");
}

static void say(const struct space_slot *self, uintptr_t address, uintptr_t code, const char *end)
{
    char text[640], *at = text_append(text, "onespace: ");
    const struct space_slot *owner = &space_registry()->slots[layout_slot_of(address)];
    struct place there, here;
    place_find(address, &there);
    place_find(code, &here);
    if (!interpose_is_task(self))
        at = text_append(at, "a child of ");
    at = text_append(append_task(at, self), " wrote to ");
    at = text_append(text_append_number(at, address, 16), " in ");
    at = place_say(at, &there, owner, address);
    at = text_append(append_task(text_append(at, " of "), owner), ", at ");
    if (here.file[0])
        at = text_append(text_append(at, here.file), "+");
    at = text_append_number(at, here.file[0] ? code - here.file_start : code, 16);
    at = text_append(at, end);
    raw(__NR_write, 2, text, at - text);
}

/* Whether the instruction has not been reported yet. When there is no room, it has. */
static int is_new(struct guard_record *record, uintptr_t code)
{
    for (unsigned i = 0; i < GUARD_PLACES; i++) {
        uintptr_t found = 0;
        if (atomic_compare_exchange_strong_explicit(&record->reported[i], &found, code,
                                                    memory_order_relaxed, memory_order_relaxed))
            return 1;
        if (found == code)
            return 0;
    }
    return 0;
}

static int may_step(const void *context)
{
    uint64_t blocked = *(const uint64_t *)&((const ucontext_t *)context)->uc_sigmask;
    return !(blocked & signal_bit(SIGTRAP));
}

int guard_violated(struct space_slot *self, const void *information, void *context)
{
    const struct space_guard *guard = &space_registry()->guard;
    const siginfo_t *info = information;
    uint32_t key = info->si_pkey, all = guard->no_access | guard->no_write;
    uint32_t *saved = arch_saved_rights(context, guard->saved_at);
    uintptr_t address = (uintptr_t)info->si_addr, code = arch_interrupted_at(context);
    if (key >= ARCH_KEYS || !(ARCH_NO_ACCESS(key) & all) || layout_slot_of(address) == LAYOUT_SLOTS)
        return 0;                             /* a key of the program's own */
    if (*saved & all & ~self->guard_rights) { /* in a handler of which no call told */
        *saved = (*saved & ~all) | (self->guard_rights & all);
        return 1;
    }
    if (!(self->flags & ONESPACE_SPAWN_GUARD_REPORT)) {
        say(self, address, code, ": it is ended (--guard)\n");
        return 0;
    }
    if (is_new(guard_record(self), code))
        say(self, address, code, ": it goes on (--guard=report)\n");
    *saved &= ~ARCH_NO_WRITE(key);
    arch_set_stepping(context, may_step(context)); /* else it stays open for this thread */
    return 1;
}
