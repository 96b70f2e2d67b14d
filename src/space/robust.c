/* src/space/robust.c: the membership mark of a main thread, in its libc's own robust list. */
#include "space/member.h"

#include <linux/futex.h>

#include "base/raw.h"

/* The index of the word that the libc's offset leads to from `next` (-32 bytes in glibc, -28 in
 * musl), or -1 if that is outside the array of words. */
static int word_index(const struct space_robust *robust, long offset)
{
    long at = (long)offsetof(struct space_robust, next) + offset;
    if (at < 0 || at % 4 != 0 || at / 4 >= (long)(sizeof(robust->words) / sizeof(robust->words[0])))
        return -1;
    return (int)(at / 4);
}

void membership_mark_attach(struct space_slot *slot)
{
    struct space_robust *robust = &slot->robust;
    struct robust_list_head *head = NULL;
    size_t size;
    /* musl has no list until the program locks a robust mutex: then only the exec hook tells. */
    if (raw(__NR_get_robust_list, 0, &head, &size) != 0 || !head)
        return;
    int index = word_index(robust, head->futex_offset);
    if (index < 0)
        return;
    uint32_t thread = (uint32_t)raw(__NR_gettid);
    atomic_store(&robust->words[index], thread | FUTEX_WAITERS);
    struct robust_list *node = (struct robust_list *)&robust->next, *first = head->list.next;
    robust->next = (uintptr_t)first;
    robust->previous = (uintptr_t)head;
    if (first != &head->list) /* both libcs keep a backward link before each forward one */
        ((uintptr_t *)((uintptr_t)first & ~(uintptr_t)1))[-1] = (uintptr_t)node;
    head->list.next = node;
    atomic_store_explicit(&robust->at, (uint32_t)index + 1, memory_order_release);
}

void membership_mark_detach(struct space_slot *slot)
{
    struct space_robust *robust = &slot->robust;
    struct robust_list_head *head = NULL;
    size_t size;
    if (!atomic_load(&robust->at) || raw(__NR_get_robust_list, 0, &head, &size) != 0 || !head)
        return;
    struct robust_list *node = (struct robust_list *)&robust->next, *at = &head->list;
    while (at->next != node && at->next != &head->list)
        at = at->next;
    if (at->next == node) {
        at->next = node->next;
        if (node->next != &head->list)
            ((uintptr_t *)node->next)[-1] = (uintptr_t)at;
    }
    atomic_store(&robust->at, 0);
}

int member_is_present(const struct space_slot *slot)
{
    if (space_state(slot) != SLOT_RUNNING ||
        atomic_load_explicit(&slot->leaving, memory_order_acquire))
        return 0;
    uint32_t at = atomic_load_explicit(&slot->robust.at, memory_order_acquire);
    return !at || !(atomic_load_explicit(&slot->robust.words[at - 1], memory_order_acquire) &
                    FUTEX_OWNER_DIED);
}
