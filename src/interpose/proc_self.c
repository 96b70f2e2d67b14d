/* src/interpose/proc_self.c: the files of /proc/self that the kernel makes from what an address
 * space has once. For the kernel they describe the root; a task that opens one of them gets its
 * own.
 *
 *   exe                            the task's program
 *   cmdline, environ, auxv         a file in memory with the task's own, as it is now
 *   maps, smaps, smaps_rollup,     a file in memory with the lines of the task's own mappings
 *   numa_maps
 *
 * The kernel opens the root's file first, so that all errors are the kernel's. If the task's own
 * cannot be made (no memory for it, RLIMIT_FSIZE), the descriptor stays the root's.
 *
 * Programs take the mappings in these files for theirs: garbage collectors and leak checkers scan
 * them, checkpointers save them, RDMA libraries register them. Listed are the mappings in the
 * task's range, those outside that it has made, the shared mappings that it uses, the kernel's
 * (vdso), and the code of the root's library, which runs on its threads. Not listed are other
 * members' memory and what the space keeps for itself in the task's range. A mapping that no
 * handler saw may lie where the kernel put it, and is missing. With ONESPACE_MAPS=all in the
 * environment that the task was started with the files are the kernel's. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/resource.h>

#include "arch/copy.h"
#include "base/proc.h"
#include "base/raw.h"
#include "base/text.h"
#include "interpose/calls.h"
#include "interpose/interpose.h"
#include "space/child.h"
#include "space/intervals.h"
#include "space/shared_mappings.h"

/* ---- Paths ---- */

const char *interpose_proc_self_file(const char *path)
{
    const char *process = text_skip_prefix(path, "/proc/");
    if (!process)
        return NULL;
    uint64_t pid;
    const char *end = text_read_number(process, &pid);
    if (end != process && pid != (uint64_t)raw(__NR_getpid))
        return NULL;
    if (end == process && !(end = text_skip_prefix(process, "self")) &&
        !(end = text_skip_prefix(process, "thread-self")))
        return NULL;
    const char *thread = text_skip_prefix(end, "/task/");
    if (thread && (end = text_read_number(thread, &pid)) == thread)
        return NULL;
    return *end == '/' ? end + 1 : NULL;
}

/* The FILE of a path that the kernel has just read, copied to `text` without a system call: up to
 * its end, or to where it stops to begin with /proc/. */
static const char *find_file(const char *path, char text[PROC_PATH_PREFIX_MAX])
{
    if (!path)
        return NULL;
    for (unsigned at = 0; at < PROC_PATH_PREFIX_MAX; at++) {
        if (arch_guarded_copy(text + at, path + at, 1) != 0)
            return NULL;
        if (text[at] == 0 || (at < 6 && text[at] != "/proc/"[at])) {
            text[at] = 0;
            break;
        }
    }
    text[PROC_PATH_PREFIX_MAX - 1] = 0;
    return interpose_proc_self_file(text);
}

/* Where the arguments of a call on a file begin with its path: the second of those with a
 * directory. */
static const long *path_argument(long nr, const long a[6])
{
#ifdef __NR_open
    if (nr == __NR_open || nr == __NR_readlink)
        return a;
#endif
    (void)nr;
    return a + 1;
}

long interpose_readlink(struct space_slot *self, long nr, const long a[6])
{
    const long *link = path_argument(nr, a); /* path, buffer, size */
    long result = raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
    char text[PROC_PATH_PREFIX_MAX];
    const char *file = result < 0 ? NULL : find_file((const char *)link[0], text);
    if (!file || !text_equal(file, "exe"))
        return result;
    const char *program = interpose_program(self);
    size_t length = text_length(program), size = (size_t)(int)link[2];
    length = length < size ? length : size;
    return interpose_copy_to_user((char *)link[1], program, length) == 0 ? (long)length : -EFAULT;
}

/* ---- maps, smaps, smaps_rollup, numa_maps ---- */

enum {
    IN_BYTES = 2048,
    OUT_BYTES = 1024,
    LINE_BYTES = 256,  /* of a line that are examined; the rest is part of a path */
    NAME_COLUMN = 73,  /* where names begin in maps and smaps */
    VALUE_COLUMN = 16, /* where values of 8 digits begin in smaps_rollup */
    SUMS = 40,
    FIELD_BYTES = 24,
};

/* A field of smaps: the sum over the task's mappings, KiB. */
struct sum {
    char field[FIELD_BYTES];
    uint64_t kib;
};

/* Filters one file: the file that is written, and the line that is read. */
struct filter {
    const struct space_slot *self;
    uintptr_t range; /* the task's */
    long to;         /* the descriptor that is written to */
    int failed;
    uint64_t written, limit; /* bytes; RLIMIT_FSIZE */
    size_t out_size, line_size;
    int is_listed;        /* the current mapping is the task's */
    int is_rest_of_line;  /* the line is longer than `line` */
    struct sum *sums;     /* smaps_rollup: the fields of smaps are added up here */
    uintptr_t low, high;  /* the extent of all listed mappings */
    uintptr_t start, end; /* the current mapping */
    char out[OUT_BYTES], line[LINE_BYTES];
};

/* A write beyond the limit would raise SIGXFSZ. */
static void flush(struct filter *filter)
{
    size_t done = 0;
    if (filter->written + filter->out_size > filter->limit)
        filter->failed = 1;
    while (!filter->failed && done < filter->out_size) {
        long result = raw(__NR_write, filter->to, filter->out + done, filter->out_size - done);
        if (result <= 0)
            filter->failed = 1;
        else
            done += (size_t)result;
    }
    filter->written += done;
    filter->out_size = 0;
}

static void put_bytes(struct filter *filter, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (filter->out_size == OUT_BYTES)
            flush(filter);
        filter->out[filter->out_size++] = bytes[i];
    }
}

static void put_text(struct filter *filter, const char *text)
{
    put_bytes(filter, text, text_length(text));
}

/* In base 10 or 16, right-aligned in `width` columns. */
static void put_number(struct filter *filter, uint64_t number, unsigned base, size_t width,
                       char pad)
{
    char digits[24];
    size_t count = 0;
    do
        digits[sizeof(digits) - ++count] = "0123456789abcdef"[number % base];
    while ((number /= base) > 0);
    for (size_t i = count; i < width; i++)
        put_bytes(filter, &pad, 1);
    put_bytes(filter, digits + sizeof(digits) - count, count);
}

/* Finds the first part [low, high) of [start, end), a mapping of that name, that is the task's. */
static int find_own(const struct filter *filter, uintptr_t start, uintptr_t end, const char *name,
                    uintptr_t *low, uintptr_t *high)
{
    const struct space *space = space_registry();
    const struct space_slot *self = filter->self;
    *low = start;
    *high = end;
    if (layout_slot_of(start) != LAYOUT_SLOTS)
        return start >= filter->range + LAYOUT_FILES && start < filter->range + LAYOUT_RANGE;
    if (shared_windows_contain(start))
        return shared_mapping_has_user(space, self, shared_window_index(start));
    if (text_skip_prefix(name, "[v") || text_skip_prefix(name, "[uprobes"))
        return 1;
    if (start < space->unwind.code_high && end > space->unwind.code_low)
        return 1;
    return intervals_find(self, INTERVALS_OUT_OF_RANGE, start, end, low, high);
}

/* The name that a process would see for memory of the task that the kernel does not name. */
static const char *name_of(const struct filter *filter, uintptr_t start, uintptr_t end)
{
    const struct space_interpose *interpose = &filter->self->interpose;
    uintptr_t heap = filter->range + LAYOUT_BREAK, top = filter->self->stack_high - 1;
    if (top >= start && top < end)
        return "[stack]";
    return start >= heap &&
                   start < atomic_load_explicit(&interpose->break_now, memory_order_relaxed)
               ? "[heap]"
               : "";
}

/* Writes the line of a mapping for a part of it; `rest` follows the addresses. The offset in the
 * file stays that of the whole mapping: only anonymous memory of two members can be one mapping. */
static void put_mapping(struct filter *filter, uintptr_t low, uintptr_t high, const char *rest,
                        const char *name)
{
    uint64_t before = filter->written + filter->out_size;
    put_number(filter, low, 16, 8, '0');
    put_text(filter, "-");
    put_number(filter, high, 16, 8, '0');
    put_text(filter, rest);
    if (*name) {
        while (filter->written + filter->out_size < before + NAME_COLUMN && !filter->failed)
            put_text(filter, " ");
        put_text(filter, name);
    }
}

/* The rest of a line after "START-END". */
static const char *skip_addresses(const char *line)
{
    while (*line && *line != ' ')
        line++;
    return line;
}

/* The first line of a mapping in maps or smaps, without its newline. */
static void begin_mapping(struct filter *filter, int is_whole_line)
{
    uintptr_t low, high, next_low, next_high;
    struct proc_mapping mapping;
    int has_output = 0;
    filter->is_listed = 0;
    if (!proc_parse_mapping(filter->line, &mapping))
        return;
    const char *rest = skip_addresses(filter->line), *name = mapping.name;
    uintptr_t start = filter->start = mapping.start, end = filter->end = mapping.end;
    while (start < end && find_own(filter, start, end, name, &low, &high)) {
        /* A mapping that was made in parts may have an entry for each part. */
        while (high < end && find_own(filter, high, end, name, &next_low, &next_high) &&
               next_low == high)
            high = next_high;
        filter->low = low < filter->low ? low : filter->low;
        filter->high = high > filter->high ? high : filter->high;
        filter->is_listed = 1;
        if (filter->sums || (has_output && !is_whole_line))
            return;
        if (has_output)
            put_text(filter, "\n");
        put_mapping(filter, low, high, rest, *name ? "" : name_of(filter, low, high));
        has_output = 1;
        start = high;
    }
}

/* The number in a line "Field:  number kB", or NULL. */
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

static void add_field(struct filter *filter)
{
    char field[FIELD_BYTES];
    const char *value = find_value(filter->line, field);
    struct sum *sum = value ? find_sum(filter->sums, field) : NULL;
    uint64_t kib;
    if (value && !sum && (sum = find_sum(filter->sums, "")))
        text_append(sum->field, field);
    if (sum) {
        text_read_number(value, &kib);
        sum->kib += kib;
    }
}

/* Writes a line of smaps_rollup with the task's sum. Fields that smaps lacks are omitted. */
static void put_sum(struct filter *filter)
{
    char field[FIELD_BYTES];
    struct sum *sum = find_value(filter->line, field) ? find_sum(filter->sums, field) : NULL;
    if (filter->line[0] < 'A' || filter->line[0] > 'Z') {
        put_mapping(filter, filter->low < filter->high ? filter->low : 0, filter->high,
                    skip_addresses(filter->line), "");
        put_text(filter, "\n");
    } else if (sum) {
        put_text(filter, field);
        put_text(filter, ":");
        for (size_t i = text_length(field) + 1; i < VALUE_COLUMN; i++)
            put_text(filter, " ");
        put_number(filter, sum->kib, 10, 8, ' ');
        put_text(filter, " kB\n");
    }
}

typedef void line_handler(struct filter *filter, int is_whole_line);

static void handle_maps(struct filter *filter, int is_whole_line)
{
    int is_field = filter->line[0] >= 'A' && filter->line[0] <= 'Z';
    if (!is_field)
        begin_mapping(filter, is_whole_line);
    else if (filter->is_listed && filter->sums)
        add_field(filter);
    else if (filter->is_listed)
        put_text(filter, filter->line);
    /* The flag that the kernel would list for sealed memory. */
    if (is_field && filter->is_listed && !filter->sums &&
        text_skip_prefix(filter->line, "VmFlags:") &&
        intervals_contain(filter->self, INTERVALS_SEALED, filter->start, filter->end))
        put_text(filter, "sl ");
    if (is_whole_line && filter->is_listed && !filter->sums)
        put_text(filter, "\n");
}

/* numa_maps has only the start of each mapping. */
static void handle_numa(struct filter *filter, int is_whole_line)
{
    uintptr_t start, low, high;
    text_read_hex(filter->line, &start);
    filter->is_listed = find_own(filter, start, start + 1, "", &low, &high);
    if (filter->is_listed)
        put_text(filter, filter->line);
    if (is_whole_line && filter->is_listed)
        put_text(filter, "\n");
}

static void handle_rollup(struct filter *filter, int is_whole_line)
{
    if (is_whole_line)
        put_sum(filter);
    filter->is_listed = 0;
}

/* Splits the input into lines. The handler sees the beginning of a long line; the rest is copied.
 */
static void split_lines(struct filter *filter, const char *bytes, size_t size, line_handler *handle)
{
    for (size_t i = 0; i < size; i++) {
        int is_end = bytes[i] == '\n';
        if (filter->is_rest_of_line && filter->is_listed && !filter->sums)
            put_bytes(filter, &bytes[i], 1);
        if (filter->is_rest_of_line) {
            filter->is_rest_of_line = !is_end;
            continue;
        }
        if (!is_end)
            filter->line[filter->line_size++] = bytes[i];
        if (!is_end && filter->line_size < LINE_BYTES - 1)
            continue;
        filter->line[filter->line_size] = 0;
        handle(filter, is_end);
        filter->line_size = 0;
        filter->is_rest_of_line = !is_end;
    }
}

static void read_lines(struct filter *filter, long from, line_handler *handle)
{
    char bytes[IN_BYTES];
    long got = 0;
    while (!filter->failed && (got = raw(__NR_read, from, bytes, sizeof(bytes))) > 0)
        split_lines(filter, bytes, (size_t)got, handle);
    if (got < 0)
        filter->failed = 1;
}

/* Whether the task was started with ONESPACE_MAPS=all. */
static int wants_all_mappings(const struct space_slot *self)
{
    static const char wanted[] = "ONESPACE_MAPS=all"; /* with the terminating zero */
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

/* The kernel's smaps_rollup does not list mappings, so the task's mappings in smaps are added up.
 */
static void filter_rollup(struct filter *filter, long from)
{
    struct sum sums[SUMS];
    for (int i = 0; i < SUMS; i++)
        sums[i] = (struct sum){"", 0};
    long smaps = raw(__NR_openat, AT_FDCWD, "/proc/self/smaps", O_RDONLY | O_CLOEXEC);
    if (smaps < 0) {
        filter->failed = 1;
        return;
    }
    filter->sums = sums;
    read_lines(filter, smaps, handle_maps);
    raw(__NR_close, smaps);
    filter->line_size = 0;
    read_lines(filter, from, handle_rollup);
    flush(filter);
}

/* Filters `from`, the root's file of that name: a descriptor of a file in memory, or negative if
 * `from` is to be used. */
static long filter_maps(const struct space_slot *self, long from, const char *file)
{
    struct filter filter;
    struct rlimit limit;
    int is_maps = text_equal(file, "maps") || text_equal(file, "smaps");
    int is_numa = text_equal(file, "numa_maps"), is_rollup = text_equal(file, "smaps_rollup");
    if (!(is_maps || is_numa || is_rollup) || wants_all_mappings(self) ||
        raw(__NR_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) != 0)
        return -1;
    filter.self = self;
    filter.range = layout_range(slot_index(space_registry(), self));
    filter.to = raw(__NR_memfd_create, "proc", MFD_CLOEXEC);
    filter.failed = filter.is_listed = filter.is_rest_of_line = 0;
    filter.written = filter.out_size = filter.line_size = 0;
    filter.limit = limit.rlim_cur;
    filter.sums = NULL;
    filter.low = UINTPTR_MAX;
    filter.high = 0;
    if (filter.to < 0)
        return filter.to;
    if (is_rollup)
        filter_rollup(&filter, from);
    else
        read_lines(&filter, from, is_numa ? handle_numa : handle_maps);
    flush(&filter);
    if (!filter.failed && raw(__NR_lseek, filter.to, 0, SEEK_SET) == 0)
        return filter.to;
    raw(__NR_close, filter.to);
    raw(__NR_lseek, from, 0, SEEK_SET); /* the caller reads the kernel's, from the beginning */
    return -1;
}

/* ---- cmdline, environ, auxv ---- */

enum { AUXV_ENTRIES_MAX = 256 };

/* A range of the task's memory. */
struct memory_range {
    uintptr_t from, to;
};

size_t interpose_auxv(const struct space_slot *self, const void **vector)
{
    uintptr_t auxv = ((const struct child *)self->child_record)->auxv;
    *vector = (const void *)auxv;
    for (size_t i = 0; i < AUXV_ENTRIES_MAX; i++) {
        Elf64_auxv_t entry;
        if (arch_guarded_copy(&entry, (const void *)(auxv + i * sizeof(entry)), sizeof(entry)) != 0)
            return 0;
        if (entry.a_type == AT_NULL)
            return (i + 1) * sizeof(entry);
    }
    return 0;
}

/* The memory that makes up the file: one range, or two in order. 0 if it is another file. */
static int find_ranges(const struct space_slot *self, const char *file,
                       struct memory_range ranges[2])
{
    const struct child *child = (const struct child *)self->child_record;
    const struct child_strings *strings = &child->strings;
    ranges[1] = (struct memory_range){0, 0};
    if (text_equal(file, "cmdline")) {
        ranges[0] = (struct memory_range){strings->name, strings->name_end};
        ranges[1] = (struct memory_range){strings->arguments, strings->environment};
    } else if (text_equal(file, "environ")) {
        ranges[0] = (struct memory_range){strings->environment, strings->end};
    } else if (text_equal(file, "auxv")) {
        const void *auxv;
        size_t size = interpose_auxv(self, &auxv);
        ranges[0] = (struct memory_range){(uintptr_t)auxv, (uintptr_t)auxv + size};
    } else {
        return 0;
    }
    return 1;
}

/* The kernel reads the memory: a part that the program has unmapped is an error, no fault. */
static int write_range(long fd, struct memory_range range)
{
    while (range.from < range.to) {
        long written = raw(__NR_write, fd, range.from, range.to - range.from);
        if (written <= 0)
            return -1;
        range.from += (uintptr_t)written;
    }
    return 0;
}

/* A descriptor of a file in memory with the ranges, at its beginning, or -errno. */
static long make_file(const struct memory_range ranges[2])
{
    struct rlimit limit;
    size_t size = ranges[0].to - ranges[0].from + (ranges[1].to - ranges[1].from);
    /* A write beyond the limit would raise SIGXFSZ. */
    if (raw(__NR_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) != 0 || limit.rlim_cur < size)
        return -1;
    long fd = raw(__NR_memfd_create, "proc", MFD_CLOEXEC);
    if (fd < 0)
        return fd;
    if (write_range(fd, ranges[0]) == 0 && write_range(fd, ranges[1]) == 0 &&
        raw(__NR_lseek, fd, 0, SEEK_SET) == 0)
        return fd;
    raw(__NR_close, fd);
    return -1;
}

/* The kernel's file is the task's, too. */
enum { NOT_OWN = -4096 };

/* Opens the task's own file for a path that the kernel has opened with these flags as `fd`: a
 * descriptor, NOT_OWN, or -errno: then the call fails so. */
static long open_own(const struct space_slot *self, const char *path, long flags, long fd)
{
    char text[PROC_PATH_PREFIX_MAX];
    struct memory_range ranges[2];
    const char *file = find_file(path, text);
    if (!file)
        return NOT_OWN;
    if (text_equal(file, "exe"))
        return flags & O_NOFOLLOW
                   ? NOT_OWN
                   : raw(__NR_openat, AT_FDCWD, interpose_program(self), flags | O_CLOEXEC);
    if (flags & O_PATH)
        return NOT_OWN;
    long own = find_ranges(self, file, ranges) ? make_file(ranges) : filter_maps(self, fd, file);
    return own >= 0 || own == -EMFILE ? own : NOT_OWN;
}

/* The root's file has taken the last descriptor that RLIMIT_NOFILE allows: closes it first. */
static long open_own_at_limit(struct space_slot *self, long nr, const long a[6], long fd)
{
    const long *path = path_argument(nr, a);
    raw(__NR_close, fd);
    long own = open_own(self, (const char *)path[0], path[1], -1);
    if (own == NOT_OWN)
        return raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (own >= 0 && !(path[1] & O_CLOEXEC))
        raw(__NR_fcntl, own, F_SETFD, 0);
    return own;
}

long interpose_open(struct space_slot *self, long nr, const long a[6])
{
    const long *path = path_argument(nr, a); /* path, flags, mode */
    long flags = path[1], fd;
    if (interpose_shm_open((const char *)path[0], (int)flags, (unsigned)path[2], &fd))
        return fd;
    fd = raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (fd < 0 || (flags & O_ACCMODE) != O_RDONLY)
        return fd;
    long own = open_own(self, (const char *)path[0], flags, fd);
    if (own == -EMFILE)
        return open_own_at_limit(self, nr, a, fd);
    if (own == NOT_OWN)
        return fd;
    if (own < 0) {
        raw(__NR_close, fd);
        return own;
    }
    raw(__NR_dup3, own, fd, flags & O_CLOEXEC);
    raw(__NR_close, own);
    return fd;
}
