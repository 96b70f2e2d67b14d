/* cmd/lib/options.c: options, help texts and Python programs of subcommands: see options.h. */
#include "cmd/lib/options.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/lib/files.h"
#include "cmd/lib/output.h"

/* ---- Help texts ---- */

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

/* The column of the explanations of the rows that begin here: after the longest name that fits. */
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

/* Damerau-Levenshtein edit_distance. */
static unsigned edit_distance(const char *a, const char *b)
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

const char *help_most_similar(const char *given, const char *(*next)(const void *names, int index),
                              const void *names)
{
    const char *best = NULL, *name;
    size_t length = strlen(given);
    unsigned limit = length < 4 ? 1 : length < 8 ? 2 : 3;
    if (length == 0 || length > WORD_MAX)
        return NULL;
    for (int i = 0; (name = next(names, i)); i++) {
        unsigned difference = strlen(name) <= WORD_MAX ? edit_distance(given, name) : WORD_MAX;
        /* A prefix of three letters or more is an abbreviation. */
        if (length >= 3 && strncmp(given, name, length) == 0)
            difference = 1;
        if (difference <= limit && (!best || difference < limit)) {
            best = name;
            limit = difference;
        }
    }
    return best;
}

/* ---- Options ---- */

static const char *name_at(const void *options, int index)
{
    return ((const struct option *)options)[index].name;
}

/* getopt has printed that there is no such option. */
static void suggest(char **argv, const char *given, const struct option *options)
{
    char name[64];
    size_t length = strcspn(given, "=");
    snprintf(name, sizeof(name), "%.*s", (int)length, given);
    const char *like = help_most_similar(name, name_at, options);
    if (like)
        fprintf(stderr, "%s: did you mean --%s?\n", argv[0], like);
}

/* Launchers have -np: reads it as --np, if that is an option. */
static void read_np(int argc, char **argv, const struct option *options)
{
    static char np[] = "--np";
    int at = optind ? optind : 1;
    if (at >= argc || strcmp(argv[at], "-np") != 0)
        return;
    for (; options->name; options++)
        if (strcmp(options->name, "np") == 0)
            argv[at] = np;
}

int options_next(int argc, char **argv, const char *letters, const struct option *options)
{
    int index = -1;
    read_np(argc, argv, options);
    int at = optind ? optind : 1;
    int option = getopt_long(argc, argv, letters, options, &index);
    if (option == '?' && at < argc && strncmp(argv[at], "--", 2) == 0 && !optopt)
        suggest(argv, argv[at] + 2, options);
    if (index < 0)
        return option;
    int is_separate = optarg && optarg == argv[optind - 1];
    const char *given = argv[optind - 1 - is_separate];
    size_t length = strcspn(given, "=");
    const char *name = options[index].name;
    if (!name || length == strlen(name) + 2) /* "--" */
        return option;
    fprintf(stderr, "%s: no option is called %.*s; there is --%s\n", argv[0], (int)length, given,
            name);
    return '?';
}

int options_refuse(const char *command, const char *problem)
{
    fprintf(stderr, "%s: %s. Try `%s --help`.\n", command, problem, command);
    return 2;
}

int options_parse(int argc, char **argv, const struct command_option *options, const char *help)
{
    enum { FIRST = 256 };
    struct option table[OPTIONS_MAX + 2] = {{"help", no_argument, NULL, 'h'}};
    char letters[2 * OPTIONS_MAX + 2] = "h";
    int count = 0;
    for (; options[count].name; count++) {
        const struct command_option *option = &options[count];
        table[1 + count] = (struct option){option->name, option->text ? required_argument : 0, NULL,
                                           option->letter ? option->letter : FIRST + count};
        if (option->letter)
            snprintf(letters + strlen(letters), 3, "%c%s", option->letter, option->text ? ":" : "");
    }
    for (int value; (value = options_next(argc, argv, letters, table)) != -1;) {
        if (value == 'h') {
            help_print(stdout, help);
            exit(output_check(argv[0]));
        }
        int at = 0;
        while (at < count && value != table[1 + at].val)
            at++;
        if (at == count) {
            fprintf(stderr, "Try `%s --help`.\n", argv[0]);
            return 2;
        }
        if (options[at].text)
            *options[at].text = optarg;
        else
            *options[at].flag = 1;
    }
    return 0;
}

/* ---- Subcommands that are Python programs ---- */

/* The installed program, beside the command's directory; else that of the source tree around the
 * build. */
static int find(const char *path, const char *self, char driver[PATH_MAX])
{
    static const char *const below[] = {"../share/onespace/bench", "../../bench"};
    int directory = (int)(strrchr(self, '/') - self);
    for (size_t i = 0; i < sizeof(below) / sizeof(below[0]); i++) {
        int length = snprintf(driver, PATH_MAX, "%.*s/%s/%s", directory, self, below[i], path);
        if (length < PATH_MAX && access(driver, R_OK) == 0)
            return 0;
    }
    return -ENOENT;
}

int driver_become(int argc, char **argv, const char *path, const char *const first[])
{
    char driver[PATH_MAX];
    const char *self = file_self();
    int count = 2;
    if (!self || find(path, self, driver) != 0) {
        fprintf(stderr,
                "%s: its program is not installed beside %s (share/onespace/bench): install "
                "onespace with `make install`\n",
                argv[0], self ? self : "this command");
        return 1;
    }
    const char **words = calloc((size_t)argc + DRIVER_WORDS_MAX + 3, sizeof(*words));
    if (words) {
        setenv("ONESPACE_BIN", self, 1);
        while (first[count - 2]) {
            words[count] = first[count - 2];
            count++;
        }
        memcpy(words + count, argv + 1, (size_t)(argc - 1) * sizeof(*words));
        words[1] = driver;
        /* The distribution's Python first: the distribution's matplotlib belongs to it. */
        words[0] = "/usr/bin/python3";
        execv(words[0], (char *const *)words);
        words[0] = "python3";
        execvp(words[0], (char *const *)words);
        free(words);
    }
    fprintf(stderr, "%s: cannot run python3 (%s): install it (Debian package python3)\n", argv[0],
            strerror(errno));
    return 1;
}
