/* cmd/lib/output.c: text, tables, XML and JSON, once or repeatedly: see output.h. */
#include "cmd/lib/output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"
#include "cmd/lib/array.h"

/* ---- Text ---- */

unsigned output_width(FILE *out)
{
    struct winsize size;
    if (!isatty(fileno(out)))
        return 0;
    if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    const char *columns = getenv("COLUMNS");
    int given = columns ? atoi(columns) : 0;
    return given > 0 ? (unsigned)given : 80;
}

int output_check(const char *name)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    fprintf(stderr, "%s: cannot write to standard output%s%s\n", name, errno ? ": " : "",
            errno ? strerror(errno) : "");
    return 1;
}

/* How many bytes at text[at] are a control character: 0, 1 or, of C1 in UTF-8, 2. */
static unsigned control_bytes(const char *text, size_t at, size_t size)
{
    unsigned char byte = (unsigned char)text[at];
    if (text_is_control(text[at]))
        return 1;
    unsigned char next = at + 1 < size ? (unsigned char)text[at + 1] : 0;
    return byte == 0xc2 && next >= 0x80 && next < 0xa0 ? 2 : 0;
}

void output_clean_lines(char *text, size_t size)
{
    for (size_t at = 0; at < size; at++) {
        unsigned bytes = text[at] == '\n' ? 0 : control_bytes(text, at, size);
        if (bytes)
            memset(text + at, '?', bytes);
    }
}

char *output_clean(char *text)
{
    size_t size = strlen(text);
    for (size_t at = 0; at < size; at++) {
        unsigned bytes = control_bytes(text, at, size);
        if (bytes)
            memset(text + at, '?', bytes);
    }
    return text;
}

int output_has_control(const char *text)
{
    size_t size = strlen(text);
    for (size_t at = 0; at < size; at++)
        if (control_bytes(text, at, size))
            return 1;
    return 0;
}

/* Characters, not bytes: continuation bytes of UTF-8 take no column. */
static unsigned columns_of(const char *text, size_t bytes)
{
    unsigned columns = 0;
    for (size_t i = 0; i < bytes; i++)
        columns += (text[i] & 0xc0) != 0x80;
    return columns;
}

static void print_clean(FILE *out, const char *text, size_t size)
{
    for (size_t at = 0; at < size; at++) {
        unsigned bytes = control_bytes(text, at, size);
        fputc(bytes ? '?' : text[at], out);
        at += bytes > 1;
    }
}

void output_wrapped(FILE *out, unsigned width, unsigned at, unsigned indent, const char *text)
{
    int at_start = 1;
    while (*text) {
        size_t length = strcspn(text, " ");
        unsigned columns = columns_of(text, length);
        if (!at_start && width && at + 1 + columns > width) {
            fprintf(out, "\n%*s", (int)indent, "");
            at = indent;
            at_start = 1;
        }
        if (!at_start)
            fputc(' ', out);
        print_clean(out, text, length);
        at += columns + !at_start;
        at_start = 0;
        text += length;
        while (*text == ' ')
            text++;
    }
}

char *output_bytes(char text[OUTPUT_SHORT], uint64_t bytes)
{
    static const char suffixes[] = "KMGTPE";
    double value = (double)bytes / 1024;
    unsigned at = 0;
    if (bytes < 1024) {
        snprintf(text, OUTPUT_SHORT, "%u", (unsigned)bytes);
        return text;
    }
    /* 999.95 and more would print as 1000.0. */
    while (value >= 999.95 && suffixes[at + 1]) {
        value /= 1024;
        at++;
    }
    snprintf(text, OUTPUT_SHORT, value < 9.95 ? "%.1f%c" : "%.0f%c", value, suffixes[at]);
    return text;
}

char *output_seconds(char text[OUTPUT_SHORT], double seconds)
{
    unsigned long long all = seconds > 0 ? (unsigned long long)seconds : 0;
    unsigned minutes = (unsigned)(all / 60 % 60), hours = (unsigned)(all / 3600 % 24);
    unsigned long long days = all / 86400;
    if (days > 0)
        snprintf(text, OUTPUT_SHORT, "%llud%02uh", days, hours);
    else if (hours > 0)
        snprintf(text, OUTPUT_SHORT, "%u:%02u:%02u", hours, minutes, (unsigned)(all % 60));
    else
        snprintf(text, OUTPUT_SHORT, "%u:%02u", minutes, (unsigned)(all % 60));
    return text;
}

/* ---- Tables ---- */

static void check_memory(const void *memory)
{
    if (memory)
        return;
    fprintf(stderr, "onespace: out of memory\n");
    exit(1);
}

void output_cell(struct output_table *table, const char *format, ...)
{
    table->cells =
        array_grow(table->cells, &table->capacity, table->count + 1, sizeof(*table->cells));
    check_memory(table->cells);
    va_list arguments;
    char *text;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    check_memory(length < 0 ? NULL : text);
    table->cells[table->count++] = output_clean(text);
}

void output_cell_bytes(struct output_table *table, int is_known, uint64_t bytes)
{
    char text[OUTPUT_SHORT];
    output_cell(table, "%s", is_known ? output_bytes(text, bytes) : "-");
}

static void print_padded(FILE *out, const char *text, unsigned width, int right)
{
    unsigned columns = columns_of(text, strlen(text));
    int padding = (int)(width > columns ? width - columns : 0);
    if (right)
        fprintf(out, "%*s%s", padding, "", text);
    else
        fprintf(out, "%s%*s", text, padding, "");
}

/* The end of a path tells more than its start. */
static void print_shortened(FILE *out, const char *text, unsigned width)
{
    unsigned columns = columns_of(text, strlen(text));
    if (columns <= width) {
        fputs(text, out);
        return;
    }
    for (columns += 3; columns > width && *text; columns--)
        do
            text++;
        while ((*text & 0xc0) == 0x80);
    fprintf(out, "...%s", text);
}

static void print_row(const struct output_table *table, FILE *out, const unsigned widths[],
                      const char *const cells[], unsigned left)
{
    unsigned last = table->columns - 1;
    for (unsigned i = 0; i < last; i++) {
        print_padded(out, cells[i], widths[i], table->right_aligned >> i & 1);
        fputc(' ', out);
    }
    print_shortened(out, cells[last], left);
    fputc('\n', out);
}

void output_table(struct output_table *table, FILE *out, unsigned width)
{
    enum { LAST_COLUMN_MIN = 12 }; /* of the last column, however narrow the terminal */
    unsigned widths[16] = {0}, taken = 0, last = table->columns - 1;
    for (unsigned i = 0; i < last; i++) {
        widths[i] = columns_of(table->headers[i], strlen(table->headers[i]));
        for (size_t at = i; at < table->count; at += table->columns) {
            unsigned columns = columns_of(table->cells[at], strlen(table->cells[at]));
            widths[i] = columns > widths[i] ? columns : widths[i];
        }
        taken += widths[i] + 1;
    }
    unsigned left = width == 0                        ? UINT32_MAX / 2
                    : width > taken + LAST_COLUMN_MIN ? width - taken
                                                      : LAST_COLUMN_MIN;
    print_row(table, out, widths, table->headers, left);
    for (size_t at = 0; at + last < table->count; at += table->columns)
        print_row(table, out, widths, (const char *const *)table->cells + at, left);
    for (size_t i = 0; i < table->count; i++)
        free(table->cells[i]);
    free(table->cells);
    table->cells = NULL;
    table->count = table->capacity = 0;
}

/* ---- JSON ---- */

/* The length of the valid UTF-8 character at text, 0 when it is none. */
static unsigned utf8_length(const unsigned char *text)
{
    unsigned length = text[0] < 0x80       ? 1
                      : text[0] >> 5 == 6  ? 2
                      : text[0] >> 4 == 14 ? 3
                      : text[0] >> 3 == 30 ? 4
                                           : 0;
    for (unsigned i = 1; i < length; i++)
        if (text[i] >> 6 != 2)
            return 0;
    int overlong = (length == 2 && text[0] < 0xc2) ||
                   (length == 3 && text[0] == 0xe0 && text[1] < 0xa0) ||
                   (length == 4 && text[0] == 0xf0 && text[1] < 0x90);
    int beyond = (length == 3 && text[0] == 0xed && text[1] >= 0xa0) ||
                 (length == 4 && (text[0] > 0xf4 || (text[0] == 0xf4 && text[1] >= 0x90)));
    return overlong || beyond ? 0 : length;
}

static void print_string(FILE *out, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    fputc('"', out);
    while (*at) {
        unsigned length = utf8_length(at);
        if (length == 0)
            fputs("\\ufffd", out);
        else if (*at == '"' || *at == '\\')
            fprintf(out, "\\%c", *at);
        else if (text_is_control((char)*at))
            fprintf(out, "\\u%04x", *at);
        else if (length == 2 && *at == 0xc2 && at[1] < 0xa0) /* C1, which controls terminals, too */
            fprintf(out, "\\u%04x", at[1]);
        else
            fwrite(at, 1, length, out);
        at += length ? length : 1;
    }
    fputc('"', out);
}

void output_xml(FILE *out, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    while (*at) {
        unsigned length = utf8_length(at);
        if (length == 0 || text_is_control((char)*at))
            fputs("&#xfffd;", out);
        else if (strchr("<>&\"'", *at))
            fprintf(out, "&#%u;", *at);
        else
            fwrite(at, 1, length, out);
        at += length ? length : 1;
    }
}

static void begin(struct output_json *json, const char *key)
{
    if (json->filled)
        fputc(',', json->out);
    if (json->depth > 0)
        fprintf(json->out, "\n%*s", (int)(2 * json->depth), "");
    if (key) {
        print_string(json->out, key);
        fputs(": ", json->out);
    }
    json->filled = 1;
}

void json_open(struct output_json *json, const char *key, char bracket)
{
    begin(json, key);
    fputc(bracket, json->out);
    json->depth++;
    json->filled = 0;
}

void json_close(struct output_json *json, char bracket)
{
    json->depth--;
    if (json->filled)
        fprintf(json->out, "\n%*s", (int)(2 * json->depth), "");
    fputc(bracket, json->out);
    if (json->depth == 0)
        fputc('\n', json->out);
    json->filled = 1;
}

void json_null(struct output_json *json, const char *key)
{
    begin(json, key);
    fputs("null", json->out);
}

void json_text(struct output_json *json, const char *key, const char *value)
{
    if (!value) {
        json_null(json, key);
        return;
    }
    begin(json, key);
    print_string(json->out, value);
}

void json_integer(struct output_json *json, const char *key, int64_t value)
{
    begin(json, key);
    fprintf(json->out, "%lld", (long long)value);
}

void json_integer_from(struct output_json *json, const char *key, int64_t least, int64_t value)
{
    if (value < least)
        json_null(json, key);
    else
        json_integer(json, key, value);
}

void json_seconds(struct output_json *json, const char *key, double value)
{
    if (value < 0) {
        json_null(json, key);
        return;
    }
    begin(json, key);
    fprintf(json->out, "%.3f", value);
}

void json_boolean(struct output_json *json, const char *key, int value)
{
    begin(json, key);
    fputs(value ? "true" : "false", json->out);
}
