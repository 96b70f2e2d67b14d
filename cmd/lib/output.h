/* cmd/lib/output.h: what the reporting subcommands print: JSON for programs, aligned text for
 * people.
 *
 * Texts may come from hostile sources (paths, the memory of other users' processes): JSON stays
 * valid UTF-8, and no control character reaches a terminal. The command ends when it is out of
 * memory. */
#ifndef ONESPACE_CMD_LIB_OUTPUT_H
#define ONESPACE_CMD_LIB_OUTPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- Text ---- */

/* Columns of the terminal that `out` is; 0, without limit, when it is not one. */
unsigned output_width(FILE *out);

/* Replaces control characters in place by '?', those of C1 in UTF-8 too. Returns its argument. */
char *output_clean(char *text);
/* The same for any bytes, where newlines stay. */
void output_clean_lines(char *text, size_t size);
/* Whether output_clean would change it. */
int output_has_control(const char *text);

/* Prints words of `text`, the first at column `at`; what does not fit into `width` columns (0: no
 * limit) goes to lines that start at column `indent`. No newline at the end. Control characters are
 * replaced as by output_clean. */
void output_wrapped(FILE *out, unsigned width, unsigned at, unsigned indent, const char *text);

/* "3.1M": bytes with one suffix. "2:05", "1:02:03", "3d04h": seconds. Into text, which is returned.
 */
enum { OUTPUT_SHORT = 24 };
char *output_bytes(char text[OUTPUT_SHORT], uint64_t bytes);
char *output_seconds(char text[OUTPUT_SHORT], double seconds);

/* ---- Tables: the last column takes what is left of the width, shortened from the left ---- */

struct output_table {
    const char *const *headers;
    unsigned columns;
    unsigned right_aligned; /* bit i: column i */
    unsigned count, room;   /* cells */
    char **cells;
};
__attribute__((format(printf, 2, 3))) void output_cell(struct output_table *table,
                                                       const char *format, ...);
/* Prints and frees the cells. */
void output_table(struct output_table *table, FILE *out, unsigned width);

/* ---- XML ---- */

/* Escapes it; what XML cannot hold becomes U+FFFD. */
void output_xml(FILE *out, const char *text);

/* ---- JSON ---- */

struct output_json {
    FILE *out;
    unsigned depth;
    int filled; /* the innermost bracket holds something */
};
/* key: NULL inside an array and at the top. */
void json_open(struct output_json *json, const char *key, char bracket);
void json_close(struct output_json *json, char bracket);
void json_null(struct output_json *json, const char *key);
void json_text(struct output_json *json, const char *key, const char *value); /* NULL: null */
void json_integer(struct output_json *json, const char *key, int64_t value);
void json_seconds(struct output_json *json, const char *key, double value); /* to 1 ms */
void json_boolean(struct output_json *json, const char *key, int value);

/* ---- Repeating the output, like watch(1) ---- */

/* Seconds from the argument of `--watch`, NULL: 2. -1 after a message when it is no number from 0.1
 * to 86400. */
double watch_seconds(const char *command, const char *argument);

/* Shows it once when `seconds` is 0, else again and again. `show` prints to `out` for a terminal of
 * `width` columns (0: no limit) and returns 0; another value ends it and is returned. On a terminal
 * each look replaces the one before and is cut to the terminal's lines. */
int watch(double seconds, int (*show)(FILE *out, unsigned width, void *context), void *context);

#endif
