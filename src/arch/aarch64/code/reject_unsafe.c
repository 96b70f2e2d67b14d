/* src/arch/aarch64/code/reject_unsafe.c: by which register a patch site can be resumed.
 *
 * A system call preserves all registers except x0, and compilers rely on it. A trampoline can
 * return only by a jump to a register, so it needs one whose value the code does not use any more.
 * By the calling convention x16 and x17 are lost in every call and return, because the linker may
 * insert code there. One of the two is free if no path from the patch site to a call, a return or
 * the like mentions it. An instruction mentions a register if its number is in one of the four
 * fields that name registers, even if the field is part of a constant. casp names the first of two.
 *
 * Compilers use these two last, so paths are short, and nearly all patch sites pass. */
#include "arch/code/patch.h"

enum { STEPS_MAX = 256, BRANCHES_MAX = 24 };

enum { FREE_16 = 1, FREE_17 = 2 };

/* Which of the two the instruction does not mention. */
static unsigned not_mentioned(uint32_t word)
{
    unsigned is_free = FREE_16 | FREE_17;
    static const unsigned char places[] = {0, 5, 10, 16};
    /* Branches on a condition or one register, adr, adrp: the rest is a distance. Constants
     * combined with one register, but for the pairs of extr; loads and stores at a constant
     * distance. */
    int has_one = (word & 0x7c000000u) == 0x34000000u || (word & 0xff000000u) == 0x54000000u ||
                  (word & 0x1f000000u) == 0x10000000u;
    int is_casp = (word & 0xbfa07c00u) == 0x08207c00u;
    int has_two = ((word & 0x1c000000u) == 0x10000000u && (word & 0x1f800000u) != 0x13800000u) ||
                  (word & 0x3b000000u) == 0x39000000u;
    for (unsigned i = 0; i < (has_one ? 1u : has_two ? 2u : sizeof(places)); i++) {
        unsigned number = word >> places[i] & 31;
        if (number == 16)
            is_free &= is_casp ? 0u : ~(unsigned)FREE_16;
        else if (number == 17)
            is_free &= ~(unsigned)FREE_17;
    }
    return is_free;
}

static int is_call(uint32_t word)
{
    return (word & 0xfc000000u) == 0x94000000u || (word & 0xfffffc1fu) == 0xd63f0000u;
}

/* With pointer authentication too. */
static int is_return(uint32_t word)
{
    return (word & 0xfffffc1fu) == 0xd65f0000u || (word & 0xfffffbffu) == 0xd65f0bffu;
}

static int is_jump(uint32_t word)
{
    return (word & 0xfc000000u) == 0x14000000u;
}

/* b.cond, cbz, cbnz, tbz, tbnz: whether it is one, and its distance. */
static int is_branch(uint32_t word, int64_t *distance)
{
    int is_test = (word & 0x7e000000u) == 0x36000000u;
    *distance = instruction_distance(word, 5, is_test ? 14 : 19);
    return is_test || (word & 0x7e000000u) == 0x34000000u || (word & 0xff000000u) == 0x54000000u;
}

/* Other jumps by a register, perhaps through a table of this function. */
static int is_indirect(uint32_t word)
{
    return (word & 0xfe000000u) == 0xd6000000u;
}

/* brk, hlt and the like; udf: the program ends there. */
static int is_end(uint32_t word)
{
    return ((word & 0xff000000u) == 0xd4000000u && word != INSTRUCTION_SVC) ||
           (word & 0xffff0000u) == INSTRUCTION_UNDEFINED;
}

/* The paths already followed and those still to follow: each branch is followed once. */
struct paths {
    size_t starts[BRANCHES_MAX];
    unsigned count, next;
};

/* 0, or -1 when there are too many. */
static int add_path(struct paths *paths, size_t start)
{
    for (unsigned i = 0; i < paths->count; i++)
        if (paths->starts[i] == start)
            return 0;
    if (paths->count == BRANCHES_MAX)
        return -1;
    paths->starts[paths->count++] = start;
    return 0;
}

/* Follows one path to its end. Returns which of the registers in `is_free` are free on it. */
static unsigned follow(const unsigned char *code, size_t size, size_t at, struct paths *paths,
                       unsigned *steps, unsigned is_free)
{
    for (;; at += 4) {
        int64_t distance;
        if (at + 4 > size || at > size || ++*steps > STEPS_MAX)
            return 0;
        uint32_t word = instruction_at(code + at);
        if (is_call(word) || is_return(word))
            return is_free & not_mentioned(word);
        if (is_jump(word))
            return add_path(paths, at + (size_t)instruction_distance(word, 0, 26)) == 0 ? is_free
                                                                                        : 0;
        if (is_end(word))
            return is_free;
        if (is_indirect(word))
            return 0;
        is_free &= not_mentioned(word);
        if (!is_free || (is_branch(word, &distance) && add_path(paths, at + (size_t)distance) != 0))
            return 0;
    }
}

/* 16 or 17, or 0 when neither is known to be free after the instruction at `at`. */
static unsigned char find_scratch(const unsigned char *code, size_t size, size_t at)
{
    struct paths paths = {.starts = {at + 4}, .count = 1};
    unsigned is_free = FREE_16 | FREE_17, steps = 0;
    while (is_free && paths.next < paths.count)
        is_free = follow(code, size, paths.starts[paths.next++], &paths, &steps, is_free);
    return is_free & FREE_17 ? 17 : is_free & FREE_16 ? 16 : 0;
}

void arch_reject_unsafe(const unsigned char *code, size_t size, struct arch_span *spans,
                        unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        spans[i].displaced = find_scratch(code, size, spans[i].at);
        if (!spans[i].displaced)
            spans[i].length = 0;
    }
}
