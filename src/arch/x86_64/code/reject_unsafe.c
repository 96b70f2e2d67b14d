/* src/arch/x86_64/code/reject_unsafe.c: which spans of code may be replaced as a whole.
 *
 * A pattern found byte by byte may begin inside a longer instruction, and a branch may lead into
 * its middle: compilers share one system call instruction between two numbers. Both follow from
 * where instructions begin, which is unknown: symbols and .eh_frame may be missing, and are not
 * mapped yet when ld.so has just mapped the code. But an instruction begins in any 15 successive
 * bytes of code, so decoding from all of them finds every real one, and decoding from a wrong start
 * synchronises after a few instructions. `starts` below is therefore a superset of the real starts,
 * and hardly larger after a run-up.
 *
 * - A place is kept only if all of these decodings agree that an instruction begins there.
 * - A short branch reaches 128 bytes: those are found from the starts around the place.
 * - A long branch may be anywhere (a function's unlikely part is far away), so all bytes are looked
 *   at as if one began there, and the few that lead into a place are then judged by the starts.
 *
 * Jump tables are not read: that one leads between a number's load and its call would take a switch
 * one of whose cases is nothing but that load. */
#include "arch/code/decode.h"
#include "arch/code/patch.h"

enum {
    RUN_UP = 256, /* bytes to fall into step in */
    REACH = 132,  /* of a short branch, with the instruction itself */
    WINDOW = RUN_UP + 2 * REACH + 64,
    FILTER_BITS = 4096,
    FAR_BYTES = 4, /* of a branch further than REACH, at least, without prefixes */
};

/* Where instructions begin in code[begin, end). */
struct window {
    const unsigned char *code;
    size_t size, begin, end;
    uint64_t starts[WINDOW / 64 + 1];
};

static int is_start(const struct window *window, size_t at)
{
    size_t bit = at - window->begin;
    return (window->starts[bit / 64] >> bit % 64 & 1) != 0;
}

static void mark(struct window *window, size_t at)
{
    size_t bit = at - window->begin;
    if (at < window->end)
        window->starts[bit / 64] |= UINT64_C(1) << bit % 64;
}

/* Opens the window from `before` bytes before `at`, and a run-up, to `end`. The code's first byte
 * is a start. */
static void open_window(struct window *window, const unsigned char *code, size_t size, size_t at,
                        size_t before, size_t end)
{
    size_t back = before + RUN_UP;
    window->code = code;
    window->size = size;
    window->begin = at > back ? at - back : 0;
    window->end = end < size ? end : size;
    for (unsigned i = 0; i < sizeof(window->starts) / sizeof(window->starts[0]); i++)
        window->starts[i] = 0;
    for (unsigned i = 0; i < (window->begin ? ARCH_INSTRUCTION_BYTES : 1); i++)
        mark(window, window->begin + i);
}

/* Decodes the start at `at` and marks the next one: 0, or -1 when it is not an instruction. */
static int step(struct window *window, size_t at, struct arch_instruction *instruction)
{
    if (arch_decode(window->code + at, window->size - at, instruction) != 0)
        return -1;
    mark(window, at + instruction->length);
    return 0;
}

/* Whether an instruction certainly begins at the place, and no branch nearby leads into it. */
static int is_whole(const unsigned char *code, size_t size, const struct arch_span *place)
{
    struct window window;
    struct arch_instruction found;
    size_t begin = place->at, end = begin + place->length;
    open_window(&window, code, size, begin, REACH, end + REACH);
    for (size_t at = window.begin; at < window.end; at++) {
        if (!is_start(&window, at) || step(&window, at, &found) != 0)
            continue;
        if (at < begin && at + found.length > begin)
            return 0;
        size_t target = at + found.length + (size_t)(ptrdiff_t)found.distance;
        if (found.branch && target > begin && target < end)
            return 0;
    }
    return is_start(&window, begin);
}

/* The target of what would be a long branch at code[at], or `size`. */
static size_t long_target(const unsigned char *code, size_t size, size_t at)
{
    const unsigned char *byte = code + at;
    int is_long = (byte[0] & 0xfe) != 0xe8;
    int is_branch = !is_long || (byte[0] == 0x0f && (byte[1] & 0xf0) == 0x80) ||
                    (byte[0] == 0xc7 && byte[1] == 0xf8); /* xbegin */
    size_t end = at + (is_long ? 6 : 5);
    if (!is_branch || end > size)
        return size;
    return end + (size_t)(ptrdiff_t)(int32_t)scan_load_4(code + end - 4);
}

/* The same of an xbegin whose distance an operand size prefix makes one of 16 bits: more than a
 * short branch has. */
static size_t narrow_target(const unsigned char *code, size_t size, size_t at)
{
    size_t end = at + 4;
    if (end > size || code[at] != 0xc7 || code[at + 1] != 0xf8)
        return size;
    return end + (size_t)(ptrdiff_t)(int16_t)(code[end - 2] | code[end - 1] << 8);
}

/* Whether a branch to the target may begin at code[at] or with prefixes before it. */
static int may_be_branch(const unsigned char *code, size_t size, size_t at, size_t target)
{
    struct window window;
    struct arch_instruction found;
    open_window(&window, code, size, at, ARCH_INSTRUCTION_BYTES, at + 1);
    for (size_t start = window.begin; start < window.end; start++)
        if (is_start(&window, start) && step(&window, start, &found) == 0 && found.branch &&
            start + found.length > at &&
            start + found.length + (size_t)(ptrdiff_t)found.distance == target)
            return 1;
    return 0;
}

static struct arch_span *span_around(struct arch_span *spans, unsigned count, size_t target)
{
    for (unsigned i = 0; i < count; i++)
        if (target > spans[i].at && target < spans[i].at + (size_t)spans[i].length)
            return &spans[i];
    return NULL;
}

/* One bit for the 16 bytes around `at`: most targets are ruled out by it. */
static unsigned filter_bit(size_t at)
{
    return (unsigned)(at / 16 % FILTER_BITS);
}

struct filter {
    uint64_t bits[FILTER_BITS / 64];
};

static void fill_filter(struct filter *filter, const struct arch_span *spans, unsigned count)
{
    for (unsigned i = 0; i < FILTER_BITS / 64; i++)
        filter->bits[i] = 0;
    for (unsigned i = 0; i < count; i++)
        for (size_t at = spans[i].at; at < spans[i].at + (size_t)spans[i].length; at++)
            filter->bits[filter_bit(at) / 64] |= UINT64_C(1) << filter_bit(at) % 64;
}

static int passes(const struct filter *filter, size_t target)
{
    return (filter->bits[filter_bit(target) / 64] >> filter_bit(target) % 64 & 1) != 0;
}

static void reject_far_targets(const unsigned char *code, size_t size, struct arch_span *spans,
                               unsigned count)
{
    struct filter filter;
    fill_filter(&filter, spans, count);
    for (size_t at = 0; at + FAR_BYTES <= size; at += 8) {
        uint64_t word =
            at + 8 <= size ? scan_load(code + at) : scan_load_part(code + at, size - at);
        uint64_t marks =
            scan_equal(word & ~SCAN_EACH, 0xe8) | scan_equal(word, 0x0f) | scan_equal(word, 0xc7);
        while (marks) {
            size_t branch = at + scan_next(&marks);
            if (branch + 1 >= size)
                continue;
            const size_t targets[] = {long_target(code, size, branch),
                                      narrow_target(code, size, branch)};
            for (unsigned i = 0; i < 2; i++) {
                if (targets[i] >= size || !passes(&filter, targets[i]))
                    continue;
                struct arch_span *span = span_around(spans, count, targets[i]);
                if (span && may_be_branch(code, size, branch, targets[i]))
                    span->length = 0;
            }
        }
    }
}

void arch_reject_unsafe(const unsigned char *code, size_t size, struct arch_span *spans,
                        unsigned count)
{
    unsigned left = 0;
    for (unsigned i = 0; i < count; i++) {
        if (!is_whole(code, size, &spans[i]))
            spans[i].length = 0;
        left += spans[i].length != 0;
    }
    if (left)
        reject_far_targets(code, size, spans, count);
}
