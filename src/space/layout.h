/* src/space/layout.h: the layout of the address space.
 *
 * The region lies far from the addresses that the kernel chooses for programs and heaps (from 85
 * TiB up) and for mappings (down from 128 TiB, or with `ulimit -s unlimited` down from 21 TiB).
 * Slot i owns the range [region + i * 28 GiB, + 28 GiB): the owner is computed from an address by
 * one division, and one munmap releases all of a task's memory:
 *
 *   0        +16 MiB            +1 GiB                  +17 GiB          +26 GiB        +28 GiB
 *   | tramp. | files (images)   | mappings              | program break  | main stack   |
 *
 * The dynamic linker lies at the end of the area for files, above the program, and beside it the
 * trampolines of tasks that the root spawns (spawn/images.c). Images stay within 2 GiB of the
 * trampolines, the reach of a relative jump. Nothing is reserved: a range costs nothing until it is
 * used. The range of slot 0 holds the registry. */
#ifndef ONESPACE_SPACE_LAYOUT_H
#define ONESPACE_SPACE_LAYOUT_H

#include <stdint.h>

#define LAYOUT_GIB UINT64_C(0x40000000)
#define LAYOUT_MIB UINT64_C(0x100000)

#define LAYOUT_REGION      UINT64_C(0x180000000000) /* 24 TiB */
#define LAYOUT_RANGE       (28 * LAYOUT_GIB)
#define LAYOUT_SLOTS       2048 /* the root and 2047 tasks; the region ends at 80 TiB */
#define LAYOUT_TRAMPOLINES UINT64_C(0x10000)
#define LAYOUT_AREA_MAP    (1 * LAYOUT_MIB) /* bitmap of the used pages of the next two areas */
#define LAYOUT_GUARD       (8 * LAYOUT_MIB) /* of guarded tasks: interpose/guard/guard.h */
#define LAYOUT_FILES       (16 * LAYOUT_MIB)
#define LAYOUT_MAPPINGS    (1 * LAYOUT_GIB)
#define LAYOUT_BREAK       (17 * LAYOUT_GIB)
#define LAYOUT_STACK       (26 * LAYOUT_GIB)
#define LAYOUT_STACK_GUARD                                                                         \
    (1 * LAYOUT_MIB) /* a frame larger than a page can step over a guard of one page */

/* In the range of slot 0: */
#define LAYOUT_REGISTRY LAYOUT_REGION
#define LAYOUT_MARK     (LAYOUT_REGION + 1 * LAYOUT_GIB) /* wiped in forked children */
#define LAYOUT_REAPER   (LAYOUT_REGION + 2 * LAYOUT_GIB) /* its stack, and those of its threads: */
#define LAYOUT_UNMAPPER (LAYOUT_REAPER + 1 * LAYOUT_MIB)
#define LAYOUT_CLONER   (LAYOUT_REAPER + 2 * LAYOUT_MIB)
#define LAYOUT_CACHE    (LAYOUT_REGION + 3 * LAYOUT_GIB) /* ld.so.cache */
#define LAYOUT_XPMEM    (LAYOUT_REGION + 4 * LAYOUT_GIB) /* segments and permits, 4 MiB a slot */
/* At 12 GiB the overflow of tables of intervals: space/intervals.h. */
/* Channels, and above them their steps. */
#define LAYOUT_INSITU (LAYOUT_REGION + 13 * LAYOUT_GIB + LAYOUT_GIB / 2)
#define LAYOUT_CALLS  (LAYOUT_REGION + 24 * LAYOUT_GIB) /* donors of calls */

static inline uintptr_t layout_range(unsigned index)
{
    return LAYOUT_REGION + index * LAYOUT_RANGE;
}

/* The slot whose range holds address, or LAYOUT_SLOTS when it is in none. */
static inline unsigned layout_slot_of(uintptr_t address)
{
    if (address < LAYOUT_REGION)
        return LAYOUT_SLOTS;
    uintptr_t index = (address - LAYOUT_REGION) / LAYOUT_RANGE;
    return index < LAYOUT_SLOTS ? (unsigned)index : LAYOUT_SLOTS;
}

#endif
