/* src/agent/free.c: free() of a block that another task has allocated.
 *
 * Every task has a malloc of its own. Left to itself, free() would put another task's block on the
 * lists of the caller: handed out there, it would vanish with its owner. So the caller hangs it on
 * a list in the owner's slot, and the owner gives what it finds there to its own malloc at its next
 * free(). The block itself holds the link: nobody uses it any more.
 *
 * `returned` of a slot: other tasks push by compare-and-swap (release: the link is in the block
 * before the block is on the list); the owner's threads take the whole list by exchange (acquire).
 * Nobody pops single blocks, so that a block that comes back soon cannot be mistaken for its former
 * self. A task killed while it pushes leaves the list whole. A forked child must neither push nor
 * take: the list is shared with the parent, the blocks are not.
 *
 * What can be told without knowing an allocator's secrets is where a block lies. In a task without
 * steering that says nothing, and everything goes to its malloc. */
#include <stddef.h>

#include "agent/agent.h"
#include "base/numbers.h"
#include "base/raw.h"
#include "base/text.h"

/* Below the root's program break lie its heap and its program, and nothing that the kernel chose.
 */
#define BELOW_BREAK (16 * LAYOUT_GIB)

extern void __libc_free(void *) WEAK;
extern void *__libc_realloc(void *, size_t) WEAK;
extern void abort(void) WEAK;

void free(void *block);
void *realloc(void *block, size_t size);

/* The allocator's own, of whichever library comes next. */
static void (*_Atomic real_free)(void *);
static void *(*_Atomic real_realloc)(void *, size_t);

/* The TID of the thread that looks for them, 0: none. Others wait for it; it itself comes here
 * again when dlsym frees. A child of fork in which that thread is not looks on its own. */
static _Atomic int32_t finder;

static int waits_for_finder(int32_t thread)
{
    while (atomic_load(&finder) == thread) {
        if (raw(__NR_tgkill, raw(__NR_getpid), thread, 0) != 0)
            return 0;
        raw(__NR_sched_yield);
    }
    return 1;
}

static void find_real(void)
{
    int32_t found = 0, mine = (int32_t)raw(__NR_gettid);
    if (!dlsym) { /* a libc without it has no other allocator beside it */
        atomic_store(&real_free, __libc_free);
        atomic_store(&real_realloc, __libc_realloc);
        return;
    }
    if (!atomic_compare_exchange_strong(&finder, &found, mine) &&
        (found == mine || waits_for_finder(found)))
        return;
    atomic_store(&real_realloc, (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc"));
    atomic_store(&real_free, (void (*)(void *))dlsym(RTLD_NEXT, "free"));
    atomic_store(&finder, 0);
}

static void give(void *block)
{
    void (*function)(void *) = atomic_load_explicit(&real_free, memory_order_acquire);
    if (!function) {
        find_real();
        function = atomic_load(&real_free);
    }
    if (function)
        function(block);
}

static int is_mine(const void *block)
{
    return (uintptr_t)block - agent_low < LAYOUT_RANGE;
}

/* The slot whose task has allocated the block, LAYOUT_SLOTS when that is the caller or not to be
 * told. */
static unsigned other_owner(const void *block)
{
    unsigned index = layout_slot_of((uintptr_t)block);
    uintptr_t below = agent_space->fence_low - (uintptr_t)block;
    if (!space_marked())
        return LAYOUT_SLOTS;
    return index == LAYOUT_SLOTS && below - 1 < BELOW_BREAK ? 0 : index;
}

static char *append_member(char *text, int32_t id)
{
    return id == 0 ? text_append(text, "the root")
                   : numbers_write(text_append(text, "task "), (uint64_t)id, 10);
}

static void refuse(const char *call, unsigned index, const char *fix)
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

static void send_home(struct space_slot *owner, void *block)
{
    uintptr_t head = atomic_load_explicit(&owner->returned, memory_order_relaxed);
    do
        *(uintptr_t *)block = head;
    while (!atomic_compare_exchange_weak_explicit(&owner->returned, &head, (uintptr_t)block,
                                                  memory_order_release, memory_order_relaxed));
}

static void take_home(void)
{
    if (!space_marked())
        return;
    uintptr_t block = atomic_exchange_explicit(&agent_self->returned, 0, memory_order_acquire);
    while (block) {
        uintptr_t next = *(uintptr_t *)block;
        give((void *)block);
        block = next;
    }
}

static __attribute__((noinline)) void free_slowly(void *block)
{
    if (!agent_low) {
        give(block);
        return;
    }
    if (atomic_load_explicit(&agent_self->returned, memory_order_relaxed))
        take_home();
    unsigned owner = !block || is_mine(block) ? LAYOUT_SLOTS : other_owner(block);
    if (owner == LAYOUT_SLOTS)
        give(block);
    else if (owner == 0)
        refuse("free", owner, ": let the root free it\n");
    else
        send_home(&agent_space->slots[owner], block);
}

/* Every call of every task comes by here: the usual case saves no register and ends in a jump. */
EXPORTED void free(void *block)
{
    void (*function)(void *) = atomic_load_explicit(&real_free, memory_order_acquire);
    if (is_mine(block) && function &&
        !atomic_load_explicit(&agent_self->returned, memory_order_relaxed))
        function(block);
    else
        free_slowly(block);
}

EXPORTED void *realloc(void *block, size_t size)
{
    unsigned owner = block && agent_low && !is_mine(block) ? other_owner(block) : LAYOUT_SLOTS;
    if (owner != LAYOUT_SLOTS)
        refuse("realloc", owner, ", whose malloc alone knows its size: allocate, copy, free\n");
    if (!atomic_load(&real_realloc))
        find_real();
    void *(*function)(void *, size_t) = atomic_load(&real_realloc);
    return function ? function(block, size) : NULL;
}
