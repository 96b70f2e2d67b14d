/* src/storage/file/hints.c: reads hints. */
#include "storage/file/file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reading {
    storage_lookup *lookup;
    void *context;
    struct storage_error *error;
};

static int refuse(const struct reading *reading, const char *key, const char *value,
                  const char *allowed)
{
    return storage_fail(reading->error, -EINVAL, "the hint %s has the value \"%s\": allowed is %s",
                        key, value, allowed);
}

static const char *value_of(const struct reading *reading, const char *key)
{
    return reading->lookup(reading->context, key);
}

/* Reads one of two words; sets *is_second if it is the second. */
static int read_word(const struct reading *reading, const char *key, const char *first_word,
                     const char *second_word, int *is_second)
{
    char allowed[64];
    const char *value = value_of(reading, key);
    if (!value || strcmp(value, first_word) == 0)
        return 0;
    *is_second = strcmp(value, second_word) == 0;
    snprintf(allowed, sizeof(allowed), "%s or %s", first_word, second_word);
    return *is_second ? 0 : refuse(reading, key, value, allowed);
}

/* The benchmarks of uMMAP-IO write mem_first for memory_first. */
static int read_order(const struct reading *reading, int *storage_first)
{
    static const char key[] = "storage_alloc_order";
    const char *value = value_of(reading, key);
    return value && strcmp(value, "mem_first") == 0
               ? 0
               : read_word(reading, key, "memory_first", "storage_first", storage_first);
}

static int read_number(const struct reading *reading, const char *key, uint64_t min, uint64_t max,
                       const char *allowed, uint64_t *number)
{
    const char *value = value_of(reading, key);
    char *end;
    if (!value)
        return 0;
    errno = 0;
    unsigned long long found = strtoull(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end || errno || found < min || found > max)
        return refuse(reading, key, value, allowed);
    *number = found;
    return 0;
}

static int read_filename(const struct reading *reading, struct storage_hints *hints)
{
    static const char key[] = "storage_alloc_filename";
    const char *value = value_of(reading, key);
    if (!value)
        return storage_fail(
            reading->error, -EINVAL,
            "the hint alloc_type is \"storage\", and the hint %s is missing: set it "
            "to the path of a file or of a block device",
            key);
    if (!*value || strlen(value) >= PATH_MAX)
        return refuse(reading, key, value, "the path of a file or of a block device");
    hints->filename = strdup(value);
    return hints->filename ? 0 : storage_fail(reading->error, -ENOMEM, "out of memory");
}

static int read_factor(const struct reading *reading, double *factor)
{
    static const char key[] = "storage_alloc_factor";
    const char *value = value_of(reading, key);
    char *end;
    if (!value)
        return 0;
    if (strcmp(value, "auto") == 0) {
        *factor = STORAGE_FACTOR_AUTO;
        return 0;
    }
    double found = strtod(value, &end);
    int is_number =
        end != value && !*end && ((value[0] >= '0' && value[0] <= '9') || *value == '.');
    if (!is_number || !(found >= 0 && found <= 1))
        return refuse(reading, key, value,
                      "auto, or a number from 0 to 1, the part of the window that is on storage");
    *factor = found;
    return 0;
}

/* ---- access_style ---- */

static const struct {
    const char *name;
    unsigned bit;
} styles[] = {
    {"read_once", STORAGE_READ_ONCE},     {"write_once", STORAGE_WRITE_ONCE},
    {"read_mostly", STORAGE_READ_MOSTLY}, {"write_mostly", STORAGE_WRITE_MOSTLY},
    {"sequential", STORAGE_SEQUENTIAL},   {"reverse_sequential", STORAGE_REVERSE_SEQUENTIAL},
    {"random", STORAGE_RANDOM},
};

static unsigned style_bit(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(styles) / sizeof(styles[0]); i++)
        if (strlen(styles[i].name) == length && strncmp(styles[i].name, name, length) == 0)
            return styles[i].bit;
    return 0;
}

static int read_style(const struct reading *reading, unsigned *style)
{
    static const char key[] = "access_style";
    const char *value = value_of(reading, key);
    for (const char *at = value; at;) {
        size_t length = strcspn(at, ",");
        unsigned bit = style_bit(at, length);
        if (!bit)
            return refuse(reading, key, value,
                          "a list, with commas, of read_once, write_once, read_mostly, "
                          "write_mostly, sequential, reverse_sequential and random");
        *style |= bit;
        at = at[length] ? at + length + 1 : NULL;
    }
    unsigned orders = *style & (STORAGE_SEQUENTIAL | STORAGE_REVERSE_SEQUENTIAL | STORAGE_RANDOM);
    return orders & (orders - 1)
               ? refuse(reading, key, value, "one of sequential, reverse_sequential and random")
               : 0;
}

void storage_style_name(unsigned style, char *text, size_t size)
{
    size_t used = 0;
    if (size)
        text[0] = 0;
    for (size_t i = 0; i < sizeof(styles) / sizeof(styles[0]); i++)
        if ((style & styles[i].bit) && used < size)
            used +=
                (size_t)snprintf(text + used, size - used, "%s%s", used ? "," : "", styles[i].name);
}

/* ---- file_perm ---- */

/* The message shows the value in both bases, because the intended one is unknown. */
static int refuse_perm(const struct reading *reading, const char *key, const char *value)
{
    char allowed[256], octal[32] = "no number", *end;
    size_t used = (size_t)snprintf(allowed, sizeof(allowed),
                                   "permissions up to 0777, octal with a leading zero, such as "
                                   "0640, or decimal without, such as 416");
    if (!*value || strlen(value) > 9 || strspn(value, "0123456789") != strlen(value))
        return refuse(reading, key, value, allowed);
    unsigned long found = strtoul(value, &end, 8);
    if (!*end)
        snprintf(octal, sizeof(octal), "0%lo", found);
    snprintf(allowed + used, sizeof(allowed) - used,
             "; this is 0%lo read as decimal, %s read as octal", strtoul(value, NULL, 10), octal);
    return refuse(reading, key, value, allowed);
}

/* Octal with a leading zero, else decimal, as uMMAP-IO reads it; its programs print a mode_t with
 * %d. Base 0 would read "0x1ff" as well. */
static int read_perm(const struct reading *reading, mode_t *perm)
{
    static const char key[] = "file_perm";
    const char *value = value_of(reading, key);
    char *end;
    if (!value)
        return 0;
    unsigned long found = strtoul(value, &end, value[0] == '0' ? 8 : 10);
    if (value[0] < '0' || value[0] > '9' || *end || found > 0777)
        return refuse_perm(reading, key, value);
    *perm = (mode_t)found;
    return 0;
}

/* ---- All hints ---- */

static int read_numbers(const struct reading *reading, struct storage_hints *hints)
{
    uint64_t stripes = 0, versions = 0;
    hints->has_offset = value_of(reading, "storage_alloc_offset") != NULL;
    int result = read_number(reading, "storage_alloc_offset", 0, INT64_MAX,
                             "a number of bytes from 0 to 9223372036854775807", &hints->offset);
    if (result == 0)
        result = read_perm(reading, &hints->perm);
    if (result == 0)
        result =
            read_number(reading, "striping_factor", 1, 65535, "a number from 1 to 65535", &stripes);
    if (result == 0)
        result = read_number(reading, "striping_unit", 65536, UINT32_MAX,
                             "a number of bytes from 65536 to 4294967295", &hints->striping_unit);
    if (result == 0 && hints->striping_unit % 65536)
        result = refuse(reading, "striping_unit", value_of(reading, "striping_unit"),
                        "a multiple of 65536 bytes");
    if (result == 0)
        result = read_number(reading, "storage_alloc_versions", 0, 1000,
                             "how many versions are kept, from 0 (none) to 1000", &versions);
    hints->striping_factor = (unsigned)stripes;
    hints->versions = (unsigned)versions;
    hints->style |= versions ? STORAGE_VERSIONED : 0;
    return result;
}

int storage_hints_read(struct storage_hints *hints, storage_lookup *lookup, void *context,
                       struct storage_error *error)
{
    struct reading reading = {lookup, context, error};
    *hints = (struct storage_hints){.factor = 1, .perm = 0600};
    int result = read_word(&reading, "alloc_type", "memory", "storage", &hints->is_storage);
    if (result < 0 || !hints->is_storage)
        return result;
    result = read_filename(&reading, hints);
    if (result == 0)
        result = read_factor(&reading, &hints->factor);
    if (result == 0)
        result = read_order(&reading, &hints->storage_first);
    if (result == 0)
        result = read_word(&reading, "storage_alloc_unlink", "false", "true", &hints->unlink);
    if (result == 0)
        result = read_word(&reading, "storage_alloc_discard", "false", "true", &hints->discard);
    if (result == 0)
        result =
            read_word(&reading, "storage_alloc_tracking", "true", "false", &hints->is_untracked);
    if (result == 0)
        result = read_style(&reading, &hints->style);
    return result == 0 ? read_numbers(&reading, hints) : result;
}

void storage_hints_clear(struct storage_hints *hints)
{
    free(hints->filename);
    hints->filename = NULL;
}
