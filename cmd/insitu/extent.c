/* cmd/insitu/extent.c: see extent.h. */
#include "cmd/insitu/extent.h"

#include <string.h>

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

/* Elements may be anywhere, also at addresses that do not suit their type. */
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

/* From dimension d on; at most ONESPACE_INSITU_DIMENSIONS deep. */
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

void extent_add(struct extent *extent, const struct onespace_insitu_array *array)
{
    add_from(extent, array, 0, array->address);
}
