/* tests/differential/guests/steps/heap.c: the program break above what the libc's malloc may need.
 * No operation touches memory above the break: a task keeps memory mapped there
 * (docs/memory.md), a process does not. */
#include "steps.h"

#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HEAP_MAX = 256 * PAGE };

char *heap_start;

/* malloc gets two megabytes that it does not give back, so that it need not move the break, which
 * is ours from here on. */
void prepare_heap(void)
{
#ifdef __GLIBC__
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    void *volatile block = malloc(2 << 20);
    free(block);
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
#endif
    char *now = sbrk(0);
    (void)!brk((char *)(((uintptr_t)now + PAGE - 1) / PAGE * PAGE));
    heap_start = sbrk(0);
}

static size_t heap_size(void)
{
    return (size_t)((char *)sbrk(0) - heap_start);
}

/* The page of the heap with that number, or NULL when it has none. */
static char *page_of(int number)
{
    size_t pages = heap_size() / PAGE;
    return pages ? heap_start + (size_t)number % pages * PAGE : NULL;
}

static void say_break(void)
{
    say(" H+%#zx", heap_size());
}

/* Two differences that docs/testing.md names are left out. The kernel leaves the break where it is,
 * without an error, when nothing is mapped between the old break and the new; a task's is lowered.
 * And what was locked or advised stays so for the same pages of a task when the break is lowered
 * and raised again. */
static void before_break_moves(void)
{
    unsigned char resident;
    char *last = (char *)(((uintptr_t)sbrk(0) - 1) / PAGE * PAGE);
    if (last < heap_start)
        return;
    if (mincore(last, PAGE, &resident) != 0)
        (void)mmap(last, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                   0);
    for (char *page = heap_start; page <= last; page += PAGE) {
        munlock(page, PAGE);
        madvise(page, PAGE, MADV_DOFORK);
        madvise(page, PAGE, MADV_KEEPONFORK);
    }
}

/* The break at a number of bytes, in steps of a few hundred */
OPERATION(brk)
{
    size_t size = (size_t)a[0] * 479 % HEAP_MAX;
    before_break_moves();
    say_result(brk(heap_start + (a[1] % 4 ? size / PAGE * PAGE : size)));
    say_break();
}

/* by so many bytes up or down */
OPERATION(sbrk)
{
    long change = a[1] % 2 ? (long)(a[0] % 12) * PAGE : a[0] % 5000;
    if (a[1] / 2 % 2)
        change = (size_t)change > heap_size() ? -(long)heap_size() : -change;
    if (heap_size() + (size_t)(change > 0 ? change : 0) > HEAP_MAX)
        change = 0;
    before_break_moves();
    say(sbrk(change) == (void *)-1 ? " failed" : " moved");
    say_break();
}

/* what cannot be: far too much */
OPERATION(brk_bad)
{
    say_result(brk(a[0] % 2 ? heap_start + (1ul << 45) : (void *)(~0ul - PAGE)));
    say_break();
}

OPERATION(heap_store)
{
    if (heap_size())
        touch(heap_start + (size_t)a[0] * 97 % heap_size(), 1, a[1] & 0x7f);
}

OPERATION(heap_fill)
{
    char *page = page_of(a[0]);
    if (page)
        fill(page, PAGE, a[1]);
}

OPERATION(heap_sum)
{
    for (size_t done = 0; done < heap_size(); done += 16 * PAGE)
        sum(heap_start + done, heap_size() - done < 16 * PAGE ? heap_size() - done : 16 * PAGE);
}

OPERATION(heap_mprotect)
{
    char *page = page_of(a[0]);
    if (page)
        say_result(mprotect(page, PAGE, protection_of(a[1])));
}

OPERATION(heap_munmap)
{
    char *page = page_of(a[0]);
    if (page)
        say_result(munmap(page, PAGE));
}

OPERATION(heap_mmap)
{
    char *page = page_of(a[0]);
    if (page)
        say_address(mmap(page, PAGE, protection_of(a[1]),
                         MAP_ANONYMOUS | MAP_FIXED | (a[2] % 2 ? MAP_SHARED : MAP_PRIVATE), -1, 0));
}

OPERATION(heap_mlock)
{
    char *page = page_of(a[0]);
    if (page)
        say_result(a[1] % 2 ? munlock(page, PAGE) : mlock(page, PAGE));
}

OPERATION(heap_madvise)
{
    static const int all[] = {MADV_DONTNEED, MADV_DONTFORK, MADV_WIPEONFORK, MADV_KEEPONFORK,
                              MADV_DOFORK};
    char *page = page_of(a[0]);
    if (page)
        say_result(madvise(page, PAGE, all[a[1] % 5]));
}

/* between the heap and an arena */
OPERATION(heap_mremap)
{
    char *page = page_of(a[0]);
    if (page)
        say_address(a[1] % 2
                        ? mremap(page, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place_of(a[2]))
                        : mremap(place_of(a[2]), PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, page));
}

/* blocks of malloc, from the heap and from mmap */
OPERATION(malloc)
{
    size_t size = (size_t)a[0] % 2 ? (size_t)a[1] % 2000 + 1 : ((size_t)a[1] % 64 + 33) * 4 * PAGE;
    unsigned char *block = malloc(size);
    for (size_t i = 0; i < size; i++)
        block[i] = (unsigned char)(i * 3 + (size_t)a[2]);
    block = realloc(block, size + size / 2);
    say(" sum %08x", checksum(0, block, size));
    free(block);
}
