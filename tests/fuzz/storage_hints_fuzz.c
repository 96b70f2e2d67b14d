/* tests/fuzz/storage_hints_fuzz.c: any values of the hints of a window on storage.
 *
 * The first 9 bytes are a size, then for each hint the number of its name and its value, which ends
 * with a zero. Beyond not crashing: what is accepted is in the documented ranges, what is refused
 * is named, and a division into storage and memory has the size. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "storage/region/region.h"
#include "fuzz.h"

static const char *const names[] = {
    "alloc_type",
    "storage_alloc_filename",
    "storage_alloc_offset",
    "storage_alloc_factor",
    "storage_alloc_order",
    "storage_alloc_unlink",
    "storage_alloc_discard",
    "storage_alloc_versions",
    "storage_alloc_tracking",
    "access_style",
    "file_perm",
    "striping_factor",
    "striping_unit",
};
enum { NAMES = sizeof(names) / sizeof(names[0]) };

static char values[NAMES][2 * PATH_MAX];
static int is_set[NAMES];

static const char *look_up(void *context, const char *key)
{
    (void)context;
    for (size_t i = 0; i < NAMES; i++)
        if (strcmp(names[i], key) == 0)
            return is_set[i] ? values[i] : NULL;
    require(0, "a documented hint");
    return NULL;
}

static void check_style(unsigned style)
{
    char text[128], small[8];
    storage_style_name(style, text, sizeof(text));
    storage_style_name(style, small, sizeof(small));
    require(strlen(text) < sizeof(text) - 1, "the names have room");
    require(strncmp(text, small, strlen(small)) == 0, "a name that is cut is a beginning");
}

static void check_division(const struct storage_hints *hints, uint64_t size)
{
    struct storage_layout layout;
    struct storage_error error = {""};
    double factor = hints->factor == STORAGE_FACTOR_AUTO ? 0.37 : hints->factor;
    int result = storage_layout_divide(&layout, hints, factor, size, &error);
    require(result == 0 || (result == -EINVAL && error.text[0]), "divided or refused");
    if (result == 0)
        require(layout.storage_length <= size &&
                    layout.memory_length == size - layout.storage_length,
                "the parts have the size");
}

static void check(uint64_t size)
{
    struct storage_hints hints;
    struct storage_error error = {""};
    int result = storage_hints_read(&hints, look_up, NULL, &error);
    require(memchr(error.text, 0, sizeof(error.text)) != NULL, "a text");
    require(result == 0 || (result == -EINVAL && error.text[0]), "a value is accepted or refused");
    if (result == 0 && hints.is_storage) {
        require(hints.filename && *hints.filename && strlen(hints.filename) < PATH_MAX, "a path");
        require(hints.offset <= INT64_MAX, "an offset");
        require(hints.factor == STORAGE_FACTOR_AUTO || (hints.factor >= 0 && hints.factor <= 1),
                "a factor");
        require(hints.perm <= 0777, "permissions");
        require(hints.versions <= 1000, "a number of versions");
        require(hints.striping_factor <= 65535 && hints.striping_unit <= UINT32_MAX &&
                    hints.striping_unit % 65536 == 0,
                "stripes");
        check_style(hints.style);
        check_division(&hints, size);
    }
    storage_hints_clear(&hints);
    require(hints.filename == NULL, "nothing is left");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t window = 0;
    if (size < 9)
        return 0;
    for (int i = 0; i < 8; i++)
        window = window << 8 | data[i];
    memset(is_set, 0, sizeof(is_set));
    if (data[8] & 1) { /* hardly any other input asks for storage */
        strcpy(values[0], "storage");
        strcpy(values[1], "/x");
        is_set[0] = is_set[1] = 1;
    }
    for (size_t at = 9; at + 1 < size;) {
        size_t name = data[at++] % NAMES, length = strnlen((const char *)data + at, size - at);
        size_t copied = length < sizeof(values[0]) - 1 ? length : sizeof(values[0]) - 1;
        memcpy(values[name], data + at, copied);
        values[name][copied] = 0;
        is_set[name] = 1;
        at += length + 1;
    }
    check(window >> data[8] / 4);
    return 0;
}
