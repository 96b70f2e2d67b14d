/* src/interpose/guard/report.c: a write to another task's memory: reports which task wrote, to
 * what, and lets the task continue or not. Uses little stack: it runs in signal handlers. */
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>

#include "arch/constants.h"
#include "arch/keys.h"
#include "arch/registers.h"
#include "base/proc.h"
#include "base/raw.h"
#include "base/text.h"
#include "interpose/guard/guard.h"
#include "interpose/interpose.h"

/* ---- What is at an address ---- */

enum { FILE_NAME_BYTES = 48 };

/* Below and above the libc's record of a main thread, where its thread-local storage lies. The rest
 * of glibc's struct pthread is 1,536 to 1,568 bytes; before 2.34 other mappings may follow soon. */
enum { TLS_BELOW = 4096, TLS_ABOVE = 1536 };

struct location {
    /* The last file before the address that is mapped from its beginning, in the same task's range:
     * name, empty if there is none; where its mapping begins. */
    char file[FILE_NAME_BYTES];
    uintptr_t file_start;
    int is_guarded; /* behind a page that nothing may access, as threads' stacks */
};

/* Whether the page is a guard within a mapping, as glibc 2.42 and later make them for threads'
 * stacks (MADV_GUARD_INSTALL). Linux 6.15 and later say so; 0 on older ones. */
static int is_guard_page(uintptr_t page)
{
    enum { GUARD_BIT = 58 };
    uint64_t entry = 0;
    long fd = raw(__NR_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    long size = raw(__NR_pread64, fd, &entry, sizeof(entry), page / ARCH_PAGE * sizeof(entry));
    raw(__NR_close, fd);
    return size == sizeof(entry) && (entry >> GUARD_BIT & 1);
}

/* Reads /proc/self/maps; a location without a file if that cannot be read. */
static void find_location(uintptr_t address, struct location *location)
{
    char buffer[512];
    struct proc_maps maps;
    struct proc_mapping mapping;
    uintptr_t start = address, last_end = 0;
    int last_is_guard = 0; /* the mapping before was inaccessible */
    *location = (struct location){.file = ""};
    if (proc_maps_open(&maps, 0, buffer, sizeof(buffer)) != 0)
        return;
    while (proc_maps_next(&maps, &mapping) && mapping.start <= address) {
        if (layout_slot_of(mapping.start) != layout_slot_of(address)) {
            location->file[0] = 0;
        } else if (mapping.name[0] == '/' && mapping.offset == 0) {
            text_append_max(location->file, text_basename(mapping.name), FILE_NAME_BYTES - 1);
            location->file_start = mapping.start;
        }
        location->is_guarded = last_is_guard && last_end == mapping.start;
        start = mapping.start;
        last_is_guard = text_skip_prefix(mapping.permissions, "---") != NULL;
        last_end = mapping.end;
    }
    proc_maps_close(&maps);
    location->is_guarded |= is_guard_page(start);
}

static int is_thread_local(const struct space_slot *owner, uintptr_t address)
{
    uintptr_t record = owner->robust.previous; /* the list's head is in it */
    return atomic_load(&owner->robust.at) && address + TLS_BELOW >= record &&
           address < record + TLS_ABOVE;
}

/* Appends what is at the address in the owner's range: "the heap". */
static char *append_location(char *text, const struct location *location,
                             const struct space_slot *owner, uintptr_t address)
{
    uintptr_t at = address - layout_range(slot_index(space_registry(), owner));
    if (is_thread_local(owner, address))
        return text_append(text, "the thread-local storage");
    if (at >= LAYOUT_STACK)
        return text_append(text, "the main stack");
    if (at >= LAYOUT_BREAK)
        return text_append(text, "the heap");
    if (at >= LAYOUT_MAPPINGS)
        return text_append(text, location->is_guarded ? "a thread's stack" : "mapped memory");
    if (at < LAYOUT_FILES || !location->file[0] || text_skip_prefix(location->file, "memfd:") ||
        text_skip_prefix(location->file, "ld-"))
        return text_append(text, "the dynamic linker's data");
    if (text_skip_prefix(text_basename(owner->program), location->file))
        return text_append(text, "the globals");
    return text_append(text_append(text, "the data of "), location->file);
}

/* ---- The report ---- */

static char *append_task(char *text, const struct space_slot *slot)
{
    int32_t number = slot->number >= 0 ? slot->number : atomic_load(&slot->id);
    text = text_append_number(text_append(text, "task "), (uint64_t)number, 10);
    text = text_append(text, " (");
    text = text_append_max(text, text_basename(slot->program), 64);
    return text_append(text, ")");
}

static void report(const struct space_slot *self, uintptr_t address, uintptr_t code,
                   const char *end)
{
    char text[640], *at = text_append(text, "onespace: ");
    const struct space_slot *owner = &space_registry()->slots[layout_slot_of(address)];
    struct location target, instruction;
    find_location(address, &target);
    find_location(code, &instruction);
    if (!interpose_is_task(self))
        at = text_append(at, "a child of ");
    at = text_append(append_task(at, self), " wrote to ");
    at = text_append(text_append_number(at, address, 16), " in ");
    at = append_location(at, &target, owner, address);
    at = text_append(append_task(text_append(at, " of "), owner), ", at ");
    if (instruction.file[0])
        at = text_append(text_append(at, instruction.file), "+");
    at = text_append_number(at, instruction.file[0] ? code - instruction.file_start : code, 16);
    at = text_append(at, end);
    raw(__NR_write, 2, text, at - text);
}

/* Whether the instruction has not been reported yet; 0 if the record is full. */
static int mark_reported(struct guard_record *record, uintptr_t code)
{
    for (unsigned i = 0; i < GUARD_REPORTS_MAX; i++) {
        uintptr_t found = 0;
        if (atomic_compare_exchange_strong_explicit(&record->reported[i], &found, code,
                                                    memory_order_relaxed, memory_order_relaxed))
            return 1;
        if (found == code)
            return 0;
    }
    return 0;
}

int guard_violated(struct space_slot *self, const void *information, void *context)
{
    const struct space_guard *guard = &space_registry()->guard;
    const siginfo_t *info = information;
    uint32_t key = info->si_pkey, all = guard->no_access | guard->no_write;
    uint32_t *saved = arch_saved_rights(context, guard->saved_at);
    uintptr_t address = (uintptr_t)info->si_addr, code = arch_interrupted_at(context);
    if (key >= ARCH_KEYS || !(ARCH_NO_ACCESS(key) & all) || layout_slot_of(address) == LAYOUT_SLOTS)
        return 0;                             /* a key that the program has allocated */
    if (*saved & all & ~self->guard_rights) { /* in a handler that no call has set */
        *saved = (*saved & ~all) | (self->guard_rights & all);
        return 1;
    }
    if (!(self->flags & ONESPACE_SPAWN_GUARD_REPORT)) {
        report(self, address, code, ": terminated (--guard)\n");
        return 0;
    }
    if (mark_reported(guard_record(self), code))
        report(self, address, code, ": continuing (--guard=report)\n");
    *saved &= ~ARCH_NO_WRITE(key);
    /* Where SIGTRAP is blocked, the right stays with this thread. */
    uint64_t blocked = *(const uint64_t *)&((const ucontext_t *)context)->uc_sigmask;
    arch_set_stepping(context, !(blocked & signal_bit(SIGTRAP)));
    return 1;
}
