/* src/remote_call/function.c: whether an address is code of a member.
 *
 * Once for each function and member: a call takes less time than to ask. Ids are never used again
 * in a space, so what was found stays true, but for a library that the callee closes: then a call
 * to its functions is an error as it is within one program. */
#include "remote_call/context.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/raw.h"

enum { KNOWN = 256 };

/* Written, by one thread at a time, in the order no id, function, id; read id, function, id: no
 * half-written pair is believed. All sequentially consistent. */
static struct {
    _Atomic uintptr_t function;
    _Atomic int32_t id_plus_1;
} known[KNOWN];
static _Atomic uint64_t known_in; /* created_ns of the space that these are of */

static unsigned place_of(int id, uintptr_t function)
{
    return (unsigned)((function >> 4) + (function >> 12) + (unsigned)id) % KNOWN;
}

static int is_known(int id, uintptr_t function)
{
    unsigned at = place_of(id, function);
    return atomic_load(&known[at].id_plus_1) == id + 1 &&
           atomic_load(&known[at].function) == function &&
           atomic_load(&known[at].id_plus_1) == id + 1;
}

static void remember(int id, uintptr_t function)
{
    static atomic_flag is_busy = ATOMIC_FLAG_INIT;
    unsigned at = place_of(id, function);
    if (atomic_flag_test_and_set(&is_busy))
        return; /* the next call finds it out again */
    atomic_store(&known[at].id_plus_1, 0);
    atomic_store(&known[at].function, function);
    atomic_store(&known[at].id_plus_1, id + 1);
    atomic_flag_clear(&is_busy);
}

/* Whether the address is mapped executable; 1 if that cannot be found out. By a system call of
 * ours: what the libc opens lists the caller's memory alone. */
static int is_executable(uintptr_t address)
{
    long fd = raw(__NR_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
    FILE *maps = fd < 0 ? NULL : fdopen((int)fd, "r");
    unsigned long start, end;
    char execute;
    int found = 0;
    if (!maps)
        return 1;
    while (!found && fscanf(maps, "%lx-%lx %*c%*c%c%*[^\n]", &start, &end, &execute) == 3)
        if (address >= start && address < end)
            found = execute == 'x' ? 1 : -1;
    fclose(maps);
    return found == 1;
}

int call_check_function(struct space *space, const struct space_slot *slot, int id,
                        uintptr_t function)
{
    if (atomic_load_explicit(&known_in, memory_order_acquire) == space->created_ns) {
        if (is_known(id, function))
            return 0;
    } else { /* this root has ended a space and made another one */
        for (unsigned i = 0; i < KNOWN; i++)
            atomic_store(&known[i].id_plus_1, 0);
        atomic_store(&known_in, space->created_ns);
    }
    /* Without interposition a task's memory is not in its range. */
    int owner = slot->flags & ONESPACE_SPAWN_NO_INTERPOSE ? id : onespace_owner((void *)function);
    if (owner != id)
        return call_fail(-EINVAL,
                         "%#lx is no function of member %d: it is not in its memory; take its "
                         "address from onespace_lookup",
                         (unsigned long)function, id);
    if (!is_executable(function))
        return call_fail(-EINVAL,
                         "%#lx is no function of member %d: what is there is no code; take the "
                         "address of a function from onespace_lookup",
                         (unsigned long)function, id);
    remember(id, function);
    return 0;
}
