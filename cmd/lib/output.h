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

/* Writes what remains of standard output. Returns an exit status: 0, or 1 with a message of the
 * command `name`, because a reader of incomplete output would take it for all. */
int output_check(const char *name);

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
    size_t count, capacity; /* cells */
    char **cells;
};
__attribute__((format(printf, 2, 3))) void output_cell(struct output_table *table,
                                                       const char *format, ...);
/* "3.1M", or "-" when it is not known. */
void output_cell_bytes(struct output_table *table, int is_known, uint64_t bytes);
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
void json_seconds(struct output_json *json, const char *key,
                  double value); /* to 1 ms; null when negative */
/* null when the value is below `least`, which means that it is not known. */
void json_integer_from(struct output_json *json, const char *key, int64_t least, int64_t value);
void json_boolean(struct output_json *json, const char *key, int value);

#endif
