/* cmd/lib/help.c: see help.h. */
#include "cmd/lib/help.h"

#include <string.h>

#include "cmd/lib/output.h"

enum { LINE_MAX_BYTES = 1024, COLUMN_MAX = 26, USAGE_INDENT = 11, WORD_MAX = 40 };

/* The explanation of a row, or its end. */
static const char *explanation(const char *row, const char *end)
{
    const char *at = row + strspn(row, " ");
    for (; at + 1 < end; at++)
        if (at[0] == ' ' && at[1] == ' ')
            return at + strspn(at, " ");
    return end;
}

static const char *end_of_names(const char *row, const char *text)
{
    while (text > row && (text[-1] == ' ' || text[-1] == '\n'))
        text--;
    return text;
}

/* The column of the explanations of the rows that begin here: behind the longest name that fits. */
static unsigned column_of(const char *row)
{
    unsigned column = 0;
    while (*row == ' ') {
        const char *end = row + strcspn(row, "\n");
        unsigned length = (unsigned)(end_of_names(row, explanation(row, end)) - row) + 2;
        if (length <= COLUMN_MAX && length > column)
            column = length;
        row = end + (*end == '\n');
    }
    return column ? column : COLUMN_MAX;
}

static void print_wrapped(FILE *out, unsigned at, unsigned indent, const char *text, size_t length)
{
    char line[LINE_MAX_BYTES];
    snprintf(line, sizeof(line), "%.*s", (int)length, text);
    output_wrapped(out, HELP_WIDTH, at, indent, line);
    putc('\n', out);
}

static void print_row(FILE *out, const char *row, const char *end, unsigned column)
{
    const char *text = explanation(row, end), *names_end = end_of_names(row, text);
    unsigned length = (unsigned)(names_end - row);
    fprintf(out, "%.*s", (int)length, row);
    if (text == end) {
        putc('\n', out);
        return;
    }
    if (length + 2 > column)
        fprintf(out, "\n%*s", (int)column, "");
    else
        fprintf(out, "%*s", (int)(column - length), "");
    print_wrapped(out, column, column, text, (size_t)(end - text));
}

void help_print(FILE *out, const char *text)
{
    unsigned column = 0;
    for (const char *line = text; *line;) {
        const char *end = line + strcspn(line, "\n");
        int is_row = *line == ' ';
        if (is_row && !column)
            column = column_of(line);
        if (is_row)
            print_row(out, line, end, column);
        else
            print_wrapped(out, 0, strncmp(line, "usage:", 6) == 0 ? USAGE_INDENT : 0, line,
                          (size_t)(end - line));
        column = is_row ? column : 0;
        line = end + (*end == '\n');
    }
}

const char *help_next_option(const char *text, struct help_option *option)
{
    for (const char *line = text; *line;) {
        const char *end = line + strcspn(line, "\n"), *names = line + strspn(line, " ");
        if (*line == ' ' && *names == '-') {
            option->text = explanation(line, end);
            option->text_length = (int)(end - option->text);
            option->names = names;
            option->names_length = (int)(end_of_names(names, option->text) - names);
            return end + (*end == '\n');
        }
        line = end + (*end == '\n');
    }
    return NULL;
}

/* Letters to insert, remove, replace or exchange with their neighbour. */
static unsigned distance(const char *a, const char *b)
{
    unsigned rows[3][WORD_MAX + 1];
    size_t width = strlen(b);
    for (size_t j = 0; j <= width; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; a[i - 1]; i++) {
        unsigned *above = rows[(i - 1) % 3], *row = rows[i % 3], *second = rows[(i + 1) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= width; j++) {
            unsigned best = above[j - 1] + (a[i - 1] != b[j - 1]);
            best = above[j] + 1 < best ? above[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                second[j - 2] + 1 < best)
                best = second[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[strlen(a) % 3][width];
}

const char *help_most_like(const char *given, const char *(*next)(const void *names, int index),
                           const void *names)
{
    const char *best = NULL, *name;
    size_t length = strlen(given);
    unsigned least = length < 4 ? 1 : length < 8 ? 2 : 3;
    if (length == 0 || length > WORD_MAX)
        return NULL;
    for (int i = 0; (name = next(names, i)); i++) {
        unsigned unlike = strlen(name) <= WORD_MAX ? distance(given, name) : WORD_MAX;
        /* What is cut off after three letters and more was meant to be longer. */
        if (length >= 3 && strncmp(given, name, length) == 0)
            unlike = 1;
        if (unlike <= least && (!best || unlike < least)) {
            best = name;
            least = unlike;
        }
    }
    return best;
}
