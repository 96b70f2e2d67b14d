/* cmd/insitu/watch.c: onespace insitu watch: the steps of a channel as they come, with the smallest
 * and the largest element of each array. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/futex.h"
#include "cmd/insitu/insitu.h"
#include "cmd/lib/array.h"
#include "cmd/lib/files.h"
#include "cmd/lib/output.h"
#include "insitu/insitu.h"
#include "onespace/insitu.h"

/* ---- The smallest and the largest element of arrays ---- */

struct extent {
    double low, high; /* of those that are numbers, if there are any */
    uint64_t numbers, nans;
};

static void add_value(struct extent *extent, double value)
{
    if (value != value) {
        extent->nans++;
        return;
    }
    if (!extent->numbers || value < extent->low)
        extent->low = value;
    if (!extent->numbers || value > extent->high)
        extent->high = value;
    extent->numbers++;
}

/* Elements may be at addresses that are not aligned for their type. */
#define DEFINE_ROW(name, type)                                                                     \
    static void name(struct extent *extent, const char *at, uint64_t count, int64_t stride)        \
    {                                                                                              \
        for (; count > 0; count--, at += stride) {                                                 \
            type value;                                                                            \
            memcpy(&value, at, sizeof(value));                                                     \
            add_value(extent, (double)value);                                                      \
        }                                                                                          \
    }
DEFINE_ROW(int8_row, int8_t)
DEFINE_ROW(int16_row, int16_t)
DEFINE_ROW(int32_row, int32_t)
DEFINE_ROW(int64_row, int64_t)
DEFINE_ROW(uint8_row, uint8_t)
DEFINE_ROW(uint16_row, uint16_t)
DEFINE_ROW(uint32_row, uint32_t)
DEFINE_ROW(uint64_row, uint64_t)
DEFINE_ROW(float32_row, float)
DEFINE_ROW(float64_row, double)

typedef void row_function(struct extent *extent, const char *at, uint64_t count, int64_t stride);

static row_function *const rows[] = {
    [ONESPACE_INSITU_INT8] = int8_row,       [ONESPACE_INSITU_INT16] = int16_row,
    [ONESPACE_INSITU_INT32] = int32_row,     [ONESPACE_INSITU_INT64] = int64_row,
    [ONESPACE_INSITU_UINT8] = uint8_row,     [ONESPACE_INSITU_UINT16] = uint16_row,
    [ONESPACE_INSITU_UINT32] = uint32_row,   [ONESPACE_INSITU_UINT64] = uint64_row,
    [ONESPACE_INSITU_FLOAT32] = float32_row, [ONESPACE_INSITU_FLOAT64] = float64_row,
};

/* Adds the elements from dimension d on. Recursion is at most ONESPACE_INSITU_DIMENSIONS deep. */
static void add_from(struct extent *extent, const struct onespace_insitu_array *array, unsigned d,
                     const char *at)
{
    if (d + 1 == array->dimensions) {
        rows[array->type](extent, at, array->shape[d], array->strides[d]);
        return;
    }
    for (uint64_t i = 0; i < array->shape[d]; i++, at += array->strides[d])
        add_from(extent, array, d + 1, at);
}

/* Reads all elements of the array, in place. extent: zeroed before the first array. */
static void add_array(struct extent *extent, const struct onespace_insitu_array *array)
{
    add_from(extent, array, 0, array->address);
}

/* An array of all ranks that have one of that name. */
struct row {
    struct onespace_insitu_array array; /* the first's; its texts are valid as long as the step */
    struct extent extent;
    unsigned parts;
};

struct watching {
    const struct insitu_request *request;
    struct onespace_insitu *channel;
    unsigned long looks, most; /* most 0: without limit */
    uint64_t taken_ns;         /* when a step was taken last, 0: never */
    struct row *rows;
    size_t row_count, capacity;
};

/* ---- Looking at a step ---- */

static struct row *row_of(struct watching *watching, const struct onespace_insitu_array *array)
{
    for (size_t i = 0; i < watching->row_count; i++)
        if (strcmp(watching->rows[i].array.name, array->name) == 0)
            return &watching->rows[i];
    struct row *more =
        array_grow(watching->rows, &watching->capacity, watching->row_count + 1, sizeof(*more));
    if (!more)
        return NULL;
    watching->rows = more;
    struct row *row = &watching->rows[watching->row_count++];
    *row = (struct row){.array = *array};
    return row;
}

/* 0 or -ENOMEM. */
static int read_step(struct watching *watching, const struct onespace_insitu_step *step)
{
    struct onespace_insitu_array array;
    watching->row_count = 0;
    for (unsigned rank = 0; rank < step->ranks; rank++)
        for (unsigned i = 0;
             onespace_insitu_array_at(watching->channel, step, rank, i, &array) == 0; i++) {
            struct row *row = row_of(watching, &array);
            if (!row)
                return -ENOMEM;
            row->parts++;
            add_array(&row->extent, &array);
        }
    return 0;
}

/* ---- Showing it ---- */

/* "200x300"; "4 x 200x300" of four ranks without a global array. */
static void shape_text(const struct row *row, char *text, size_t size)
{
    const struct onespace_insitu_array *array = &row->array;
    size_t used = 0;
    int is_global = 0;
    for (unsigned d = 0; d < array->dimensions; d++)
        is_global |= array->global_shape[d] != 0;
    if (!is_global && row->parts > 1)
        used = (size_t)snprintf(text, size, "%u x ", row->parts);
    for (unsigned d = 0; d < array->dimensions && used < size; d++)
        used += (size_t)snprintf(text + used, size - used, "%s%" PRIu64, d ? "x" : "",
                                 is_global ? array->global_shape[d] : array->shape[d]);
}

static void print_rows(const struct watching *watching, FILE *out, unsigned width)
{
    static const char *const headers[] = {"MIN", "MAX", "NAN", "TYPE", "SHAPE", "UNITS", "ARRAY"};
    struct output_table table = {.headers = headers, .columns = 7, .right_aligned = 7};
    for (size_t i = 0; i < watching->row_count; i++) {
        const struct row *row = &watching->rows[i];
        char shape[128];
        shape_text(row, shape, sizeof(shape));
        for (int high = 0; high < 2; high++)
            if (row->extent.numbers)
                output_cell(&table, "%.6g", high ? row->extent.high : row->extent.low);
            else
                output_cell(&table, "-");
        output_cell(&table, "%" PRIu64, row->extent.nans);
        output_cell(&table, "%s", insitu_type_name(row->array.type));
        output_cell(&table, "%s", shape);
        output_cell(&table, "%s", *row->array.units ? row->array.units : "-");
        output_cell(&table, "%s", row->array.name);
    }
    output_table(&table, out, width);
}

static void print_step(struct watching *watching, const struct onespace_insitu_step *step,
                       FILE *out)
{
    const struct insitu_channel *channel = watching->channel->channel;
    uint64_t now = futex_now_ns(), then = watching->taken_ns;
    char name[INSITU_NAME];
    snprintf(name, sizeof(name), "%s", channel->name);
    fprintf(out, "channel %s: step %" PRIu64, output_clean(name), step->step);
    if (then)
        fprintf(out, ", %.3g steps/s", (double)(step->passed + 1) * 1e9 / (double)(now - then));
    if (atomic_load(&channel->skipped))
        fprintf(out, ", %" PRIu64 " skipped", atomic_load(&channel->skipped));
    putc('\n', out);
    watching->taken_ns = now;
}

/* ---- Waiting ---- */

/* The producer's close waits until its last step was taken. */
static int is_ending(const struct insitu_channel *channel)
{
    return atomic_load(&channel->last) != UINT64_MAX || atomic_load(&channel->broken);
}

static void pause_between_steps(const struct watching *watching)
{
    static const struct timespec moment = {.tv_nsec = 20000000};
    uint64_t deadline = futex_now_ns() + (uint64_t)(watching->request->interval * 1e9);
    while (futex_now_ns() < deadline && !is_ending(watching->channel->channel))
        nanosleep(&moment, NULL);
}

static int take_timeout_ms(const struct insitu_request *request)
{
    double ms = request->interval * 1000;
    return ms < 100 ? 100 : ms > INT_MAX ? INT_MAX : (int)ms;
}

/* ---- One look after another, until the channel ends ---- */

/* The message may contain names from the producer. */
static const char *message(void)
{
    static char text[1024];
    snprintf(text, sizeof(text), "%s", onespace_insitu_message());
    return output_clean(text);
}

/* Reports that the channel has no further step. Returns an exit status, or -1 for success. */
static int end(int result)
{
    fprintf(stderr, "onespace insitu watch: %s\n", message());
    return result == -ENODATA ? -1 : 1;
}

/* Prints the next step. 0, or as end. */
static int look(struct watching *watching, FILE *out)
{
    struct onespace_insitu_step step;
    if (watching->looks)
        pause_between_steps(watching);
    int result = onespace_insitu_take(watching->channel, &step, take_timeout_ms(watching->request));
    if (result == -ETIMEDOUT) {
        fprintf(out, "channel %s: no step within %g s\n", watching->request->channel,
                take_timeout_ms(watching->request) / 1e3);
        return 0;
    }
    if (result < 0)
        return end(result);
    result = read_step(watching, &step);
    print_step(watching, &step, out);
    print_rows(watching, out, output_width(stdout));
    if (onespace_insitu_release(watching->channel, &step) < 0)
        return end(-EINVAL);
    if (result < 0)
        return fprintf(stderr, "onespace insitu watch: out of memory\n"), 1;
    return ++watching->looks == watching->most ? -1 : 0;
}

/* On a terminal each look replaces the one before: from the upper left corner, each line cut at the
 * right margin (no automatic wrap), the rest of it and of the screen cleared. The last line is the
 * cursor's. */
static void print_look(char *text, int is_first)
{
    struct winsize size;
    if (!isatty(STDOUT_FILENO)) {
        printf("%s%s", is_first ? "" : "\n", text);
        return;
    }
    int has_size = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 1;
    unsigned left = (has_size ? size.ws_row : 24u) - 1;
    printf("%s\033[H\033[?7l", is_first ? "\033[2J" : "");
    for (char *line = text, *end; left > 0 && (end = strchr(line, '\n')); line = end + 1, left--)
        printf("%.*s\033[K\n", (int)(end - line), line);
    printf("\033[?7h\033[J");
}

/* Returns as end. */
static int look_again_and_again(struct watching *watching)
{
    int result = 0;
    for (int is_first = 1; result == 0; is_first = 0) {
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        result = out ? look(watching, out) : EXIT_FAILURE;
        if (out && fclose(out) == 0 && text)
            print_look(text, is_first);
        free(text);
        if (fflush(stdout) != 0)
            result = EXIT_FAILURE;
    }
    return result;
}

/* 0, or an exit status with a message. */
static int open_channel(struct watching *watching)
{
    const struct insitu_request *request = watching->request;
    double ms = strtod(request->wait, NULL) * 1000;
    /* A command of another version would continue outside the space and make its own. */
    int result = insitu_is_task() ? onespace_init() : -EPERM;
    if (result >= 0)
        result = onespace_insitu_open(request->channel, ONESPACE_INSITU_LATEST,
                                      ms > INT_MAX ? INT_MAX : (int)ms, &watching->channel);
    if (result >= 0)
        return 0;
    if (result == -ETIMEDOUT)
        fprintf(stderr,
                "onespace insitu watch: there was no channel '%s' within %s s: `onespace ps` lists "
                "channels; --wait waits longer\n",
                request->channel, request->wait);
    else
        fprintf(stderr, "onespace insitu watch: %s\n",
                *onespace_insitu_message() ? message() : strerror(-result));
    return 1;
}

int insitu_watch(const struct insitu_request *request)
{
    struct watching watching = {.request = request};
    if (!request->is_joined && (request->space || !insitu_is_task())) {
        const char *const first[] = {file_self(), "insitu", "watch", "--joined", NULL};
        if (first[0])
            return insitu_become_task(request, first, request->words);
        fprintf(stderr, "onespace insitu watch: cannot find its own file: is /proc mounted?\n");
        return 1;
    }
    watching.most = request->count ? strtoul(request->count, NULL, 10) : 0;
    int status = open_channel(&watching);
    if (status)
        return status;
    status = look_again_and_again(&watching);
    (void)!onespace_insitu_close(watching.channel, 0);
    free(watching.rows);
    return status < 0 ? 0 : status;
}
