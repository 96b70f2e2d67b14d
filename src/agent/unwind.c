/* src/agent/unwind.c: lets unwinders of the task unwind through interposed calls.
 *
 * A signal handler that interrupts an interposed call finds, above the program's own frames, those
 * of the root's library, which no list of the task's dynamic linker holds: an exception that the
 * handler throws, a cancelled thread or a profiler's backtrace would end there. libgcc asks
 * _Unwind_Find_FDE for each frame, by name, so the agent answers for the root's library and for the
 * task's trampolines, and forwards all other calls. Nothing is registered, so nothing has a cost
 * before the first unwinding. */
#include <stddef.h>

#include "agent/agent.h"
#include "arch/trampoline.h"

/* libgcc's. */
struct dwarf_eh_bases {
    void *tbase, *dbase, *function;
};
typedef const void *find_fde_function(void *, struct dwarf_eh_bases *);
find_fde_function _Unwind_Find_FDE;

/* .eh_frame_hdr as linkers write it: encodings, then sorted pairs relative to its beginning. */
struct unwind_table {
    uint8_t version, frame_encoding, count_encoding, table_encoding;
    int32_t frame;
    uint32_t count;
    struct {
        int32_t start, fde;
    } entries[];
};
enum { PC_RELATIVE = 0x1b, UNSIGNED_4 = 0x03, TABLE_RELATIVE = 0x3b };

/* The description of the function that holds `pc`, or NULL; *start is the function's. */
static const unsigned char *find_in_table(uintptr_t pc, uintptr_t *start)
{
    uintptr_t base = agent_space->unwind.table;
    const struct unwind_table *table = (const struct unwind_table *)base;
    if (!base || table->version != 1 || table->frame_encoding != PC_RELATIVE ||
        table->count_encoding != UNSIGNED_4 || table->table_encoding != TABLE_RELATIVE)
        return NULL;
    uint32_t low = 0, high = table->count; /* the last entry whose start is not after pc */
    while (low + 1 < high) {
        uint32_t middle = low + (high - low) / 2;
        if (base + (uintptr_t)(intptr_t)table->entries[middle].start <= pc)
            low = middle;
        else
            high = middle;
    }
    if (low >= high)
        return NULL;
    *start = base + (uintptr_t)(intptr_t)table->entries[low].start;
    const unsigned char *fde =
        (const unsigned char *)(base + (uintptr_t)(intptr_t)table->entries[low].fde);
    uint32_t bytes;
    __builtin_memcpy(&bytes, fde + 12, sizeof(bytes));
    return pc >= *start && pc - *start < bytes ? fde : NULL;
}

/* libgcc's function. It may be linked into the program, or into a library that the program has
 * loaded. */
static find_fde_function *find_libgcc_function(void)
{
    static find_fde_function *_Atomic real;
    find_fde_function *found = atomic_load_explicit(&real, memory_order_relaxed);
    if (found || !dlsym)
        return found;
    found = (find_fde_function *)dlsym(RTLD_NEXT, "_Unwind_Find_FDE");
    void *libgcc = !found && dlopen ? dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (libgcc)
        found = (find_fde_function *)dlsym(libgcc, "_Unwind_Find_FDE");
    atomic_store_explicit(&real, found, memory_order_relaxed); /* all threads find the same */
    return found;
}

EXPORTED const void *_Unwind_Find_FDE(void *pc, struct dwarf_eh_bases *bases)
{
    uintptr_t at = (uintptr_t)pc, start = 0;
    const unsigned char *fde = NULL;
    if (agent_low) {
        const struct space_unwind *unwind = &agent_space->unwind;
        uintptr_t trampolines = agent_self->interpose.trampolines;
        if (at - unwind->code_low < unwind->code_high - unwind->code_low) {
            fde = find_in_table(at, &start);
        } else if (at - trampolines < ARCH_PATCHED_SYSCALLS_MAX * ARCH_SYSCALL_TRAMPOLINE_BYTES) {
            fde = find_in_table(unwind->trampoline_frame, &start);
            start = at & -(uintptr_t)ARCH_SYSCALL_TRAMPOLINE_BYTES;
        }
    }
    if (fde) {
        *bases = (struct dwarf_eh_bases){NULL, NULL, (void *)start};
        return fde;
    }
    find_fde_function *real = find_libgcc_function();
    return real ? real(pc, bases) : NULL;
}
