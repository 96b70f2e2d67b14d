/* src/agent/free.c: free() of a block that another task has allocated.
 *
 * Every task has a malloc of its own. The caller's free() would put another task's block on the
 * caller's lists: allocated from there, it would be unmapped when its owner ends. So the caller
 * pushes it onto a list in the owner's slot, and the owner frees what is on the list with its own
 * malloc at its next free(). The link is stored in the block itself, which is not in use any more.
 *
 * `returned` of a slot: other tasks push by compare-and-swap (release: the link is in the block
 * before the block is on the list); the owner's threads detach the whole list by exchange
 * (acquire). Single blocks are never popped, so there is no ABA problem. A task killed while it
 * pushes leaves the list intact. In a forked child the lists are copies that no owner reads: it
 * neither pushes nor detaches.
 *
 * The block's address alone tells its owner, without knowledge of an allocator's structures. In a
 * task without interposition it does not, and all blocks go to the task's own malloc. */
#include <stddef.h>

#include "agent/agent.h"
#include "base/text.h"
#include "base/futex.h"

/* Within this distance below the root's program break lie only its heap and its program, because
 * the kernel places no mappings there. */
#define BELOW_BREAK (16 * LAYOUT_GIB)

extern void __libc_free(void *) WEAK;
extern void *__libc_realloc(void *, size_t) WEAK;
extern void abort(void) WEAK;

void free(void *block);
void *realloc(void *block, size_t size);

/* The allocator's own functions, from the next library that has them. */
static void (*_Atomic real_free)(void *);
static void *(*_Atomic real_realloc)(void *, size_t);

/* The TID of the thread that searches for them, 0: none. Other threads wait for it; it enters
 * find_libc_free again if dlsym calls free. In a forked child that thread may not exist; then the
 * child searches. */
static _Atomic int32_t finder;

static int waits_for_finder(int32_t thread)
{
    while (atomic_load(&finder) == thread) {
        if (raw(__NR_tgkill, raw(__NR_getpid), thread, 0) != 0)
            return 0;
        spin_yield();
    }
    return 1;
}

void find_libc_free(void)
{
    int32_t found = 0, tid = (int32_t)raw(__NR_gettid);
    if (!dlsym) { /* a libc without it has no other allocator beside it */
        atomic_store(&real_free, __libc_free);
        atomic_store(&real_realloc, __libc_realloc);
        return;
    }
    if (!atomic_compare_exchange_strong(&finder, &found, tid) &&
        (found == tid || waits_for_finder(found)))
        return;
    atomic_store(&real_realloc, (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc"));
    atomic_store(&real_free, (void (*)(void *))dlsym(RTLD_NEXT, "free"));
    atomic_store(&finder, 0);
}

static void free_own(void *block)
{
    void (*function)(void *) = atomic_load_explicit(&real_free, memory_order_acquire);
    if (!function) {
        find_libc_free();
        function = atomic_load(&real_free);
    }
    if (function)
        function(block);
}

static int is_in_own_range(const void *block)
{
    return (uintptr_t)block - agent_low < LAYOUT_RANGE;
}

/* The slot whose task has allocated the block, or LAYOUT_SLOTS if that is the caller or unknown. */
static unsigned other_owner(const void *block)
{
    unsigned index = layout_slot_of((uintptr_t)block);
    uintptr_t below = agent_space->fence_low - (uintptr_t)block;
    if (!process_in_space())
        return LAYOUT_SLOTS;
    return index == LAYOUT_SLOTS && below - 1 < BELOW_BREAK ? 0 : index;
}

static char *append_member(char *text, int32_t id)
{
    return id == 0 ? text_append(text, "the root")
                   : text_append_number(text_append(text, "task "), (uint64_t)id, 10);
}

static void abort_call(const char *call, unsigned index, const char *fix)
{
    char text[256],
        *end = append_member(text_append(text, "onespace: "), atomic_load(&agent_self->id));
    end = text_append(text_append(text_append(end, " calls "), call), "() on memory of ");
    end = text_append(append_member(end, atomic_load(&agent_space->slots[index].id)), fix);
    raw(__NR_write, 2, text, end - text);
    if (abort)
        abort();
    raw(__NR_exit_group, 134);
}

static void push_to_owner(struct space_slot *owner, void *block)
{
    uintptr_t head = atomic_load_explicit(&owner->returned, memory_order_relaxed);
    uint32_t rights = guard_open(&agent_space->guard); /* the block is the owner's memory */
    do
        *(uintptr_t *)block = head;
    while (!atomic_compare_exchange_weak_explicit(&owner->returned, &head, (uintptr_t)block,
                                                  memory_order_release, memory_order_relaxed));
    guard_close(&agent_space->guard, rights);
}

static void free_returned(void)
{
    if (!process_in_space())
        return;
    uintptr_t block = atomic_exchange_explicit(&agent_self->returned, 0, memory_order_acquire);
    while (block) {
        uintptr_t next = *(uintptr_t *)block;
        free_own((void *)block);
        block = next;
    }
}

static __attribute__((noinline)) void free_slowly(void *block)
{
    if (!agent_low) {
        free_own(block);
        return;
    }
    if (atomic_load_explicit(&agent_self->returned, memory_order_relaxed))
        free_returned();
    unsigned owner = !block || is_in_own_range(block) ? LAYOUT_SLOTS : other_owner(block);
    if (owner == LAYOUT_SLOTS)
        free_own(block);
    else if (owner == 0)
        abort_call("free", owner, ": let the root free it\n");
    else
        push_to_owner(&agent_space->slots[owner], block);
}

/* Called for every free() of every task: the common case saves no register and ends in a jump. */
EXPORTED void free(void *block)
{
    void (*function)(void *) = atomic_load_explicit(&real_free, memory_order_acquire);
    if (is_in_own_range(block) && function &&
        !atomic_load_explicit(&agent_self->returned, memory_order_relaxed))
        function(block);
    else
        free_slowly(block);
}

EXPORTED void *realloc(void *block, size_t size)
{
    unsigned owner =
        block && agent_low && !is_in_own_range(block) ? other_owner(block) : LAYOUT_SLOTS;
    if (owner != LAYOUT_SLOTS)
        abort_call("realloc", owner,
                   ": only that task's malloc knows the size, so allocate a block, copy, and free "
                   "the old one\n");
    if (!atomic_load(&real_realloc))
        find_libc_free();
    void *(*function)(void *, size_t) = atomic_load(&real_realloc);
    return function ? function(block, size) : NULL;
}
