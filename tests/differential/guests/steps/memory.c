/* tests/differential/guests/steps/memory.c: mappings in the arenas, and those whose place the
 * system chooses. */
#include "steps.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

enum { CHOSEN = 8, SCRATCH_PAGES = 24, SCRATCH = 60 };

char *arenas[2];
sigjmp_buf fault_jump;
volatile sig_atomic_t fault_is_expected, fault_is_fatal;

/* Mappings whose address the system has chosen. */
static struct chosen {
    char *start;
    size_t size;
} chosen[CHOSEN];
static int scratch = -1; /* a file in memory, through which the kernel copies to and from memory
                            that may not be there */
static unsigned char bytes[SCRATCH_PAGES * PAGE];

/* The system must never choose a place in a hole of an arena. A process's arenas lie where it
 * chooses last, from the top down. In a task the first lies where the task's range has room: the
 * search for places goes on behind it. A task is known by the address of its code, which the kernel
 * would not choose. */
void make_arenas(void)
{
    int is_task = (uintptr_t)&arenas < (uintptr_t)80 << 40;
    const uintptr_t wanted[2] = {is_task ? 0 : (uintptr_t)16 << 40, (uintptr_t)17 << 40};
    for (int i = 0; i < 2; i++) {
        int flags =
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (wanted[i] ? MAP_FIXED_NOREPLACE : 0);
        char *start;
        int tries = 0;
        do /* EEXIST: the arena of a task that has just ended */
            start =
                mmap((void *)wanted[i], (size_t)(ARENA_PAGES + 3) * PAGE, PROT_NONE, flags, -1, 0);
        while (start == MAP_FAILED && errno == EEXIST && tries++ < 20000 && usleep(1000) == 0);
        arenas[i] = start + PAGE;
        /* A hole on both sides, where a call for far too much ends. Behind the second a page stays,
         * since the search of a task moves back to the end of an area that is free again. */
        if (start == MAP_FAILED || munmap(start, PAGE) != 0 ||
            munmap(arenas[i] + (size_t)ARENA_PAGES * PAGE, PAGE) != 0) {
            perror("steps: no arena");
            exit(97);
        }
    }
    scratch = memfd_create("scratch", MFD_CLOEXEC);
    int high = dup2(scratch, SCRATCH);
    if (scratch < 0 || high < 0 || ftruncate(high, sizeof(bytes)) != 0) {
        perror("steps: no scratch file");
        exit(97);
    }
    close(scratch);
    scratch = high;
}

char *place_of(int number)
{
    return arenas[number / ARENA_PLACES % 2] + (size_t)(number % ARENA_PLACES) * PAGE;
}

/* Pages, nothing, a part of one, or far too much. */
size_t size_of(int number)
{
    switch (number % 16) {
    case 13:
        return 100;
    case 14:
        return PAGE + 1;
    case 15:
        return number / 16 % 2 ? (size_t)1 << 47 : ~(size_t)PAGE + 2;
    default:
        return (size_t)(number % 16) * PAGE;
    }
}

/* size_of without what is far too much. */
static size_t bounded_size(int number)
{
    return size_of(number % 16 == 15 ? 3 : number);
}

/* Not PROT_WRITE alone: CPUs can read such memory, and so can process_vm_readv of a task; the
 * kernel refuses. */
int protection_of(int number)
{
    static const int all[] = {PROT_READ | PROT_WRITE,
                              PROT_READ,
                              PROT_NONE,
                              PROT_READ | PROT_WRITE,
                              PROT_READ | PROT_EXEC,
                              PROT_READ | PROT_WRITE,
                              PROT_READ | PROT_WRITE | PROT_EXEC,
                              0x40};
    return all[number % 8];
}

static int flags_of(int number)
{
    static const int kind[] = {MAP_PRIVATE, MAP_SHARED, MAP_PRIVATE,
                               0x03 /* MAP_SHARED_VALIDATE */};
    static const int more[] = {0,         0,          0,           MAP_NORESERVE, MAP_POPULATE,
                               MAP_STACK, MAP_LOCKED, MAP_NONBLOCK};
    return kind[number % 4] | more[number / 4 % 8];
}

static int at_of(int number)
{
    static const int all[] = {MAP_FIXED, MAP_FIXED_NOREPLACE, MAP_FIXED, 0};
    return all[number % 4];
}

/* ---- Memory that may not be there ---- */

void fill(char *start, size_t size, int seed)
{
    size = size < sizeof(bytes) ? size : sizeof(bytes);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(seed + (int)(i * 7) + (int)(i >> 12));
    if (pwrite(scratch, bytes, size, 0) != (ssize_t)size)
        say(" scratch?");
    say_result(pread(scratch, start, size, 0));
}

void sum(char *start, size_t size)
{
    uint32_t sum = 2166136261u;
    size = size < sizeof(bytes) ? size : sizeof(bytes);
    for (size_t i = 0; i < size; i += PAGE) {
        size_t part = size - i < PAGE ? size - i : PAGE;
        ssize_t result = pwrite(scratch, start + i, part, 0);
        if (result > 0 && pread(scratch, bytes, (size_t)result, 0) == result)
            sum = checksum(sum, bytes, (size_t)result);
        else
            sum = checksum(sum, &(int){errno}, sizeof(int));
    }
    say(" sum %08x", sum);
}

static void touch_here(char *address, int is_store, int stored)
{
    volatile signed char *byte = (volatile signed char *)address;
    volatile int value = stored;
    if (sigsetjmp(fault_jump, 1) == 0) {
        fault_is_expected = 1;
        if (is_store)
            *byte = (signed char)value;
        else
            value = (unsigned char)*byte;
        fault_is_expected = 0;
        say(is_store ? " stored" : " = %d", value);
    } else {
        fault_is_expected = 0;
        say(" fault");
    }
}

void touch(char *address, int is_store, int value)
{
    if (faults_are_ours()) {
        touch_here(address, is_store, value);
        return;
    }
    pid_t child = fork_quietly();
    if (child == 0) {
        volatile char *byte = address;
        fault_is_fatal = 1;
        if (is_store)
            *byte = (signed char)value;
        _exit(*byte & 0x7f);
    }
    say_end_of(child);
}

/* ---- Operations ---- */

static void say_mapped(char *result, size_t size, const char *wanted)
{
    if (result == MAP_FAILED)
        say_result(-1);
    else if (result == wanted)
        say(" there");
    else {
        say(" elsewhere");
        munmap(result, size);
    }
}

/* place size protection flags at offset */
OPERATION(mmap)
{
    char *wanted = place_of(a[0]);
    size_t size = size_of(a[1]);
    errno = 0;
    char *result = mmap(wanted, size, protection_of(a[2]),
                        flags_of(a[3]) | at_of(a[4]) | MAP_ANONYMOUS, -1, (off_t)a[5] % 2 * PAGE);
    say_mapped(result, size, wanted);
}

/* place size protection flags (2 bits), at and offset, descriptor: of a file */
OPERATION(mmap_file)
{
    char *wanted = place_of(a[0]);
    size_t size = size_of(a[1]);
    off_t offset = a[4] / 4 % 8 == 7 ? 100 : (off_t)(a[4] / 4 % 4) * PAGE;
    /* A hint for a private mapping of a file is not taken in a task: its place is in reach of the
     * trampolines. */
    int flags = flags_of(a[3]), at = at_of(a[4]);
    if ((flags & MAP_TYPE) == MAP_PRIVATE && at == 0)
        at = MAP_FIXED;
    say_mapped(mmap(wanted, size, protection_of(a[2]), flags | at, descriptor_of(a[5]), offset),
               size, wanted);
}

/* slot size protection flags descriptor: where the system chooses; even flags: anonymous */
OPERATION(mmap_chosen)
{
    struct chosen *slot = &chosen[a[0] % CHOSEN];
    size_t size = bounded_size(a[1]);
    if (slot->start)
        munmap(slot->start, slot->size);
    int is_file = a[4] % 2;
    char *result =
        mmap(NULL, size, protection_of(a[2]), flags_of(a[3]) | (is_file ? 0 : MAP_ANONYMOUS),
             is_file ? descriptor_of(a[5]) : -1, 0);
    if (result == MAP_FAILED) {
        slot->start = NULL;
        say_result(-1);
        return;
    }
    slot->start = result;
    slot->size = (size + PAGE - 1) / PAGE * PAGE;
    say(" mapped");
}

OPERATION(munmap_chosen)
{
    struct chosen *slot = &chosen[a[0] % CHOSEN];
    if (!slot->start)
        return;
    say_result(munmap(slot->start, slot->size));
    slot->start = NULL;
}

/* slot, page, protection: one page of it */
OPERATION(mprotect_chosen)
{
    struct chosen *slot = &chosen[a[0] % CHOSEN];
    if (slot->start)
        say_result(
            mprotect(slot->start + (size_t)a[1] * PAGE % slot->size, PAGE, protection_of(a[2])));
}

/* slot, size, value: contents by loads and stores of the kernel */
OPERATION(fill_chosen)
{
    struct chosen *slot = &chosen[a[0] % CHOSEN];
    if (slot->start)
        fill(slot->start, slot->size, a[1]);
}

OPERATION(sum_chosen)
{
    struct chosen *slot = &chosen[a[0] % CHOSEN];
    if (slot->start)
        sum(slot->start, slot->size);
}

/* slot, size: grows and may move, or shrinks */
OPERATION(mremap_chosen)
{
    struct chosen *slot = &chosen[a[0] % CHOSEN];
    size_t size = bounded_size(a[1]);
    if (!slot->start)
        return;
    char *result = mremap(slot->start, slot->size, size, MREMAP_MAYMOVE);
    if (result == MAP_FAILED) {
        say_result(-1);
        return;
    }
    slot->start = result;
    slot->size = (size + PAGE - 1) / PAGE * PAGE;
    sum(slot->start, slot->size);
}

OPERATION(munmap)
{
    say_result(munmap(place_of(a[0]) + a[2] % 16 / 15, size_of(a[1])));
}

OPERATION(mprotect)
{
    say_result(mprotect(place_of(a[0]) + a[3] % 16 / 15, size_of(a[1]), protection_of(a[2])));
}

/* place, old size, new size, flags, new place */
OPERATION(mremap)
{
    static const int all[] = {0,
                              MREMAP_MAYMOVE | MREMAP_FIXED,
                              MREMAP_MAYMOVE | MREMAP_FIXED,
                              MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP,
                              MREMAP_FIXED,
                              MREMAP_DONTUNMAP,
                              MREMAP_MAYMOVE,
                              8};
    int flags = all[a[3] % 8];
    char *from = place_of(a[0]), *to = place_of(a[4]);
    /* Whether a far too large size overlaps depends on the places of the arenas. */
    size_t old_size = flags & MREMAP_FIXED ? bounded_size(a[1]) : size_of(a[1]);
    char *result = mremap(from, old_size, size_of(a[2]), flags, to);
    if (result == MAP_FAILED)
        say_result(-1);
    else if (flags == MREMAP_MAYMOVE && result != from) {
        say(" moved");
        sum(result, size_of(a[2]));
        munmap(result, size_of(a[2]));
    } else {
        say_address(result);
    }
}

OPERATION(madvise)
{
    /* Not MADV_FREE, after which the kernel decides when the contents are lost. */
    static const int all[] = {MADV_NORMAL,
                              MADV_DONTNEED,
                              MADV_WILLNEED,
                              MADV_DONTFORK,
                              MADV_DOFORK,
                              MADV_WIPEONFORK,
                              MADV_KEEPONFORK,
                              MADV_DONTDUMP,
                              MADV_DODUMP,
                              MADV_NOHUGEPAGE,
                              MADV_REMOVE,
                              MADV_SEQUENTIAL,
                              MADV_RANDOM,
                              MADV_COLD,
                              22 /* MADV_POPULATE_READ */,
                              23 /* MADV_POPULATE_WRITE */,
                              24 /* MADV_DONTNEED_LOCKED */,
                              99};
    /* It goes on behind holes: far too much would be all that follows. */
    say_result(madvise(place_of(a[0]), bounded_size(a[1]),
                       all[(size_t)a[2] % (sizeof(all) / sizeof(all[0]))]));
}

OPERATION(msync)
{
    static const int all[] = {MS_SYNC,       MS_ASYNC,           MS_SYNC | MS_INVALIDATE,
                              MS_INVALIDATE, MS_SYNC | MS_ASYNC, 0x40};
    say_result(msync(place_of(a[0]), size_of(a[1]), all[a[2] % 6]));
}

OPERATION(mlock)
{
    char *start = place_of(a[0]);
    size_t size = size_of(a[1]);
    if (a[2] % 4 == 0)
        say_result(mlock(start, size));
    else if (a[2] % 4 == 1)
        say_result(syscall(SYS_mlock2, start, size, a[3] % 3));
    else
        say_result(munlock(start, size));
}

OPERATION(mincore)
{
    unsigned char resident[64] = {0};
    size_t size = bounded_size(a[1]);
    long result = mincore(place_of(a[0]), size, resident);
    say_result(result);
    for (size_t i = 0; i < sizeof(resident); i++)
        resident[i] &= 1;
    say(" sum %08x", checksum(0, resident, sizeof(resident)));
}

OPERATION(fill)
{
    fill(place_of(a[0]), bounded_size(a[1]), a[2]);
}

OPERATION(sum)
{
    sum(place_of(a[0]), bounded_size(a[1]));
}

OPERATION(load)
{
    touch(place_of(a[0]) + a[1] % PAGE, 0, 0);
}

OPERATION(store)
{
    touch(place_of(a[0]) + a[1] % PAGE, 1, a[2] & 0x7f);
}

/* two places, two sizes, direction and the kind of vector: this process's own memory, as CMA copies
 * it */
OPERATION(vm_copy)
{
    size_t size = bounded_size(a[2]), half = size / 2;
    char *here = place_of(a[0]), *there = place_of(a[1]);
    struct iovec local[2] = {{here, half}, {here + half, size - half}};
    struct iovec remote[3] = {{there, size / 3}, {there + size / 3, size - size / 3}, {NULL, 1}};
    /* A task's copy touches memory that the kernel does not look at when the other side is not
     * there (mincore). */
    sum(here, size);
    sum(there, size);
    unsigned long locals = 2 - a[4] % 2, remotes = 1 + (unsigned long)a[4] / 2 % 3,
                  flags = a[4] / 8 % 8 == 7;
    ssize_t result = a[3] % 2 ? process_vm_writev(getpid(), local, locals, remote, remotes, flags)
                              : process_vm_readv(getpid(), local, locals, remote, remotes, flags);
    say_result(result);
    sum(a[3] % 2 ? there : here, size);
}

/* place, size: a system call with a buffer of which a part is not there */
OPERATION(bad_vector)
{
    struct iovec vector[3] = {{bytes, 10}, {place_of(a[0]), bounded_size(a[1])}, {bytes, 10}};
    say_result(a[2] % 2 ? preadv(scratch, vector, 3, 0) : pwritev(scratch, vector, 3, 0));
}
