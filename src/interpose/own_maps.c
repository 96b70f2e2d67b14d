/* src/interpose/own_maps.c: /proc/self/maps, smaps, smaps_rollup and numa_maps as a process of the
 * task alone would have them.
 *
 * Programs take what these files list for theirs: garbage collectors and leak checkers scan it,
 * checkpointers save it, RDMA libraries register it. A task gets a file in memory with the lines of
 * its own mappings, as they are when it opens the file: in its range, outside of it where it has
 * mapped there, and shared mappings that it uses. The kernel's (vdso) and the code of the root's
 * library, which runs on its threads, are listed too. Not listed are other members' memory, and
 * what the space keeps in the task's range for itself.
 *
 * A mapping that no handler saw may lie where the kernel put it, and is missing. With
 * ONESPACE_MAPS=all in the environment that the task was started with the files are the kernel's.
 */
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/resource.h>

#include "base/raw.h"
#include "base/text.h"
#include "interpose/calls.h"
#include "interpose/interpose.h"
#include "interpose/pointers.h"
#include "space/child.h"
#include "space/intervals.h"
#include "space/registry.h"
#include "space/shared_mappings.h"

enum {
    IN_BYTES = 2048,
    OUT_BYTES = 1024,
    LINE_BYTES = 256,  /* of a line so much is looked at; what follows is part of a path */
    NAME_COLUMN = 73,  /* of `maps` and `smaps`, where names begin */
    VALUE_COLUMN = 16, /* of `smaps_rollup`, and 8 digits */
    SUMS = 40,
    FIELD_BYTES = 24,
};

/* A field of smaps: the sum over the task's mappings, KiB. */
struct sum {
    char field[FIELD_BYTES];
    uint64_t kib;
};

/* The file that is being written, and the lines that are being read. */
struct view {
    const struct space_slot *self;
    uintptr_t range; /* of the task */
    long to;         /* descriptor */
    int failed;
    uint64_t written, limit; /* bytes; RLIMIT_FSIZE */
    size_t out_size, line_size;
    int is_shown; /* the mapping that the lines are about */
    int in_tail;  /* of a line that is longer than `line` */
    struct sum *sums;
    uintptr_t low, high;  /* of what is shown */
    uintptr_t start, end; /* of the mapping that the lines are about */
    char out[OUT_BYTES], line[LINE_BYTES];
};

/* ---- Output ---- */

/* Beyond the limit a write would raise SIGXFSZ. */
static void flush(struct view *view)
{
    size_t done = 0;
    if (view->written + view->out_size > view->limit)
        view->failed = 1;
    while (!view->failed && done < view->out_size) {
        long result = raw(__NR_write, view->to, view->out + done, view->out_size - done);
        if (result <= 0)
            view->failed = 1;
        else
            done += (size_t)result;
    }
    view->written += done;
    view->out_size = 0;
}

static void put_bytes(struct view *view, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (view->out_size == OUT_BYTES)
            flush(view);
        view->out[view->out_size++] = bytes[i];
    }
}

static void put_text(struct view *view, const char *text)
{
    put_bytes(view, text, text_length(text));
}

/* In base 10 or 16, right-aligned in `width` columns. */
static void put_number(struct view *view, uint64_t number, unsigned base, size_t width, char pad)
{
    char digits[24];
    size_t count = 0;
    do
        digits[sizeof(digits) - ++count] = "0123456789abcdef"[number % base];
    while ((number /= base) > 0);
    for (size_t i = count; i < width; i++)
        put_bytes(view, &pad, 1);
    put_bytes(view, digits + sizeof(digits) - count, count);
}

/* ---- Whose a mapping is ---- */

/* Reads a hexadecimal number: where it ends. */
static const char *read_address(const char *text, uintptr_t *address)
{
    *address = 0;
    for (;; text++) {
        char c = *text;
        if (c >= '0' && c <= '9')
            *address = *address * 16 + (uintptr_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            *address = *address * 16 + (uintptr_t)(c - 'a' + 10);
        else
            return text;
    }
}

/* The first part of [start, end), of a mapping of that name, that is the task's. */
static int find_own(const struct view *view, uintptr_t start, uintptr_t end, const char *name,
                    uintptr_t *low, uintptr_t *high)
{
    const struct space *space = space_registry();
    const struct space_slot *self = view->self;
    *low = start;
    *high = end;
    if (layout_slot_of(start) != LAYOUT_SLOTS)
        return start >= view->range + LAYOUT_FILES && start < view->range + LAYOUT_RANGE;
    if (shared_windows_contain(start))
        return shared_mapping_has_user(space, self, shared_window_index(start));
    if (text_skip_prefix(name, "[v") || text_skip_prefix(name, "[uprobes"))
        return 1;
    if (start < space->unwind.code_high && end > space->unwind.code_low)
        return 1;
    return intervals_find(self, INTERVALS_OUT_OF_RANGE, start, end, low, high);
}

/* The name that a process would see for memory of the task that the kernel has no name for. */
static const char *name_of(const struct view *view, uintptr_t start, uintptr_t end)
{
    const struct space_interpose *interpose = &view->self->interpose;
    uintptr_t heap = view->range + LAYOUT_BREAK, top = view->self->stack_high - 1;
    if (top >= start && top < end)
        return "[stack]";
    return start >= heap &&
                   start < atomic_load_explicit(&interpose->break_now, memory_order_relaxed)
               ? "[heap]"
               : "";
}

/* ---- Lines ---- */

/* The name behind the columns of a line of `maps`, or an empty text. */
static const char *find_name(const char *line)
{
    for (int column = 0; column < 5; column++) {
        while (*line && *line != ' ')
            line++;
        while (*line == ' ')
            line++;
    }
    return line;
}

/* Writes a mapping's line for a part of it; `rest` is what follows its addresses. The offset in the
 * file is that of the whole mapping: only anonymous memory of two members can be one mapping. */
static void put_mapping(struct view *view, uintptr_t low, uintptr_t high, const char *rest,
                        const char *name)
{
    uint64_t before = view->written + view->out_size;
    put_number(view, low, 16, 8, '0');
    put_text(view, "-");
    put_number(view, high, 16, 8, '0');
    put_text(view, rest);
    if (*name) {
        while (view->written + view->out_size < before + NAME_COLUMN && !view->failed)
            put_text(view, " ");
        put_text(view, name);
    }
}

/* The line that begins a mapping of `maps` or `smaps`; without its newline. */
static void begin_mapping(struct view *view, int is_whole_line)
{
    uintptr_t start, end, low, high, next_low, next_high;
    const char *rest = read_address(view->line, &start);
    rest = read_address(*rest == '-' ? rest + 1 : rest, &end);
    const char *name = find_name(view->line);
    int was_shown = 0;
    view->start = start;
    view->end = end;
    view->is_shown = 0;
    while (start < end && find_own(view, start, end, name, &low, &high)) {
        /* Of what was mapped piece by piece there may be an entry for each. */
        while (high < end && find_own(view, high, end, name, &next_low, &next_high) &&
               next_low == high)
            high = next_high;
        view->low = low < view->low ? low : view->low;
        view->high = high > view->high ? high : view->high;
        view->is_shown = 1;
        if (view->sums || (was_shown && !is_whole_line))
            return;
        if (was_shown)
            put_text(view, "\n");
        put_mapping(view, low, high, rest, *name ? "" : name_of(view, low, high));
        was_shown = 1;
        start = high;
    }
}

/* `numa_maps` has the start alone. */
static void begin_numa(struct view *view)
{
    uintptr_t start, low, high;
    read_address(view->line, &start);
    view->is_shown = find_own(view, start, start + 1, "", &low, &high);
    if (view->is_shown)
        put_text(view, view->line);
}

/* A line "Field:  number kB": where the number begins, or NULL. */
static const char *find_value(const char *line, char field[FIELD_BYTES])
{
    size_t size = 0;
    while (line[size] && line[size] != ':' && size < FIELD_BYTES - 1) {
        field[size] = line[size];
        size++;
    }
    field[size] = 0;
    if (line[size++] != ':')
        return NULL;
    while (line[size] == ' ')
        size++;
    return line[size] >= '0' && line[size] <= '9' ? line + size : NULL;
}

static struct sum *find_sum(struct sum *sums, const char *field)
{
    for (int i = 0; i < SUMS; i++)
        if (text_equal(sums[i].field, field))
            return &sums[i];
    return NULL;
}

static void add_field(struct view *view)
{
    char field[FIELD_BYTES];
    const char *value = find_value(view->line, field);
    struct sum *sum = value ? find_sum(view->sums, field) : NULL;
    if (value && !sum && (sum = find_sum(view->sums, "")))
        text_append(sum->field, field);
    for (uint64_t kib = 0; sum; value++) {
        if (*value < '0' || *value > '9') {
            sum->kib += kib;
            break;
        }
        kib = kib * 10 + (uint64_t)(*value - '0');
    }
}

/* A line of `smaps_rollup` with the task's sum. Fields that smaps lacks are left out. */
static void put_sum(struct view *view)
{
    char field[FIELD_BYTES];
    struct sum *sum = find_value(view->line, field) ? find_sum(view->sums, field) : NULL;
    if (view->line[0] < 'A' || view->line[0] > 'Z') {
        uintptr_t ignored;
        const char *rest = read_address(view->line, &ignored);
        rest = read_address(*rest == '-' ? rest + 1 : rest, &ignored);
        put_mapping(view, view->low < view->high ? view->low : 0, view->high, rest, "");
        put_text(view, "\n");
    } else if (sum) {
        put_text(view, field);
        put_text(view, ":");
        for (size_t i = text_length(field) + 1; i < VALUE_COLUMN; i++)
            put_text(view, " ");
        put_number(view, sum->kib, 10, 8, ' ');
        put_text(view, " kB\n");
    }
}

typedef void line_handler(struct view *view, int is_whole_line);

static void handle_maps(struct view *view, int is_whole_line)
{
    int is_field = view->line[0] >= 'A' && view->line[0] <= 'Z';
    if (!is_field)
        begin_mapping(view, is_whole_line);
    else if (view->is_shown && view->sums)
        add_field(view);
    else if (view->is_shown)
        put_text(view, view->line);
    /* As the kernel would list the flag of what it has sealed. */
    if (is_field && view->is_shown && !view->sums && text_skip_prefix(view->line, "VmFlags:") &&
        intervals_contain(view->self, INTERVALS_SEALED, view->start, view->end))
        put_text(view, "sl ");
    if (is_whole_line && view->is_shown && !view->sums)
        put_text(view, "\n");
}

static void handle_numa(struct view *view, int is_whole_line)
{
    begin_numa(view);
    if (is_whole_line && view->is_shown)
        put_text(view, "\n");
}

static void handle_rollup(struct view *view, int is_whole_line)
{
    if (is_whole_line)
        put_sum(view);
    view->is_shown = 0;
}

/* Takes more of what was read. Of a long line the handler sees the beginning; the rest follows as
 * it is. */
static void take(struct view *view, const char *bytes, size_t size, line_handler *handle)
{
    for (size_t i = 0; i < size; i++) {
        int is_end = bytes[i] == '\n';
        if (view->in_tail && view->is_shown && !view->sums)
            put_bytes(view, &bytes[i], 1);
        if (view->in_tail) {
            view->in_tail = !is_end;
            continue;
        }
        if (!is_end)
            view->line[view->line_size++] = bytes[i];
        if (!is_end && view->line_size < LINE_BYTES - 1)
            continue;
        view->line[view->line_size] = 0;
        handle(view, is_end);
        view->line_size = 0;
        view->in_tail = !is_end;
    }
}

static void read_lines(struct view *view, long from, line_handler *handle)
{
    char bytes[IN_BYTES];
    long got = 0;
    while (!view->failed && (got = raw(__NR_read, from, bytes, sizeof(bytes))) > 0)
        take(view, bytes, (size_t)got, handle);
    if (got < 0)
        view->failed = 1;
}

/* ---- The files ---- */

/* Whether the task was started with ONESPACE_MAPS=all. */
static int shows_all(const struct space_slot *self)
{
    static const char wanted[] = "ONESPACE_MAPS=all"; /* its end, too */
    const struct child_strings *strings = &((const struct child *)self->child_record)->strings;
    char bytes[256];
    size_t matched = 0;
    int is_equal = 1;
    for (uintptr_t at = strings->environment; at < strings->end; at += sizeof(bytes)) {
        size_t size = strings->end - at < sizeof(bytes) ? strings->end - at : sizeof(bytes);
        if (interpose_copy_from_user(bytes, (const void *)at, size) != 0)
            return 0;
        for (size_t i = 0; i < size; i++) {
            is_equal = is_equal && bytes[i] == wanted[matched];
            if (is_equal && matched++ == sizeof(wanted) - 1)
                return 1;
            if (!bytes[i]) {
                matched = 0;
                is_equal = 1;
            }
        }
    }
    return 0;
}

/* The kernel's rollup has no mappings to choose from: those of smaps are added up. */
static void roll_up(struct view *view, long from)
{
    struct sum sums[SUMS];
    for (int i = 0; i < SUMS; i++)
        sums[i] = (struct sum){"", 0};
    long smaps = raw(__NR_openat, AT_FDCWD, "/proc/self/smaps", O_RDONLY | O_CLOEXEC);
    if (smaps < 0) {
        view->failed = 1;
        return;
    }
    view->sums = sums;
    read_lines(view, smaps, handle_maps);
    raw(__NR_close, smaps);
    view->line_size = 0;
    read_lines(view, from, handle_rollup);
    flush(view);
}

long interpose_own_maps(const struct space_slot *self, long from, const char *file)
{
    struct view view;
    struct rlimit limit;
    int is_maps = text_equal(file, "maps") || text_equal(file, "smaps");
    int is_numa = text_equal(file, "numa_maps"), is_rollup = text_equal(file, "smaps_rollup");
    if (!(is_maps || is_numa || is_rollup) || shows_all(self) ||
        raw(__NR_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) != 0)
        return -1;
    view.self = self;
    view.range = layout_range(slot_index(space_registry(), self));
    view.to = raw(__NR_memfd_create, "proc", MFD_CLOEXEC);
    view.failed = view.is_shown = view.in_tail = 0;
    view.written = view.out_size = view.line_size = 0;
    view.limit = limit.rlim_cur;
    view.sums = NULL;
    view.low = UINTPTR_MAX;
    view.high = 0;
    if (view.to < 0)
        return view.to;
    if (is_rollup)
        roll_up(&view, from);
    else
        read_lines(&view, from, is_numa ? handle_numa : handle_maps);
    flush(&view);
    if (!view.failed && raw(__NR_lseek, view.to, 0, SEEK_SET) == 0)
        return view.to;
    raw(__NR_close, view.to);
    raw(__NR_lseek, from, 0, SEEK_SET); /* the kernel's it is, from the beginning */
    return -1;
}
