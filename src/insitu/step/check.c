/* src/insitu/step/check.c: check the description of an array before it is put. */
#include <errno.h>
#include <string.h>

#include "base/page.h"
#include "base/raw.h"
#include "insitu/handle.h"

static int is_empty(const struct onespace_insitu_array *array)
{
    for (unsigned d = 0; d < array->dimensions; d++)
        if (array->shape[d] == 0)
            return 1;
    return 0;
}

static int all_zero(const void *values)
{
    static const uint64_t zero[ONESPACE_INSITU_DIMENSIONS];
    return memcmp(values, zero, sizeof(zero)) == 0;
}

static int check_fields(const struct onespace_insitu_array *array)
{
    int result = insitu_check_name("an array", array->name);
    if (result < 0)
        return result;
    if (array->units &&
        strnlen(array->units, ONESPACE_INSITU_UNITS_MAX + 1) > ONESPACE_INSITU_UNITS_MAX)
        return insitu_fail(-ENAMETOOLONG, "array '%s': its units have more than %d bytes",
                           array->name, ONESPACE_INSITU_UNITS_MAX);
    if (insitu_type_size((uint32_t)array->type) == 0)
        return insitu_fail(-EINVAL, "array '%s': there is no type %d", array->name, array->type);
    if (array->dimensions < 1 || array->dimensions > ONESPACE_INSITU_DIMENSIONS)
        return insitu_fail(-EINVAL, "array '%s': %u dimensions: there are 1 to %d", array->name,
                           array->dimensions, ONESPACE_INSITU_DIMENSIONS);
    if (!array->address && !is_empty(array))
        return insitu_fail(-EINVAL, "array '%s' has no address", array->name);
    return 0;
}

/* Strides without gaps if none are given; -EINVAL if the sizes do not fit into 63 bits. */
static int fill_strides(const struct onespace_insitu_array *array, int64_t *strides)
{
    uint64_t bytes = insitu_type_size((uint32_t)array->type);
    for (unsigned d = 0; d < array->dimensions; d++)
        if (array->shape[d] &&
            (__builtin_mul_overflow(bytes, array->shape[d], &bytes) || bytes > INT64_MAX))
            return insitu_fail(-EINVAL, "array '%s': its shape is larger than any memory",
                               array->name);
    if (all_zero(array->strides))
        insitu_dense_strides(array->dimensions, insitu_type_size((uint32_t)array->type),
                             array->shape, strides);
    else
        memcpy(strides, array->strides, sizeof(array->strides));
    return 0;
}

/* Elements do not overlap if, from the smallest stride to the largest, each stride is at least the
 * span of the dimensions with smaller ones. */
static int check_overlap(const struct onespace_insitu_array *array, const int64_t *strides)
{
    uint64_t span = insitu_type_size((uint32_t)array->type);
    unsigned done = 0;
    for (unsigned pass = 0; pass < array->dimensions; pass++) {
        unsigned least = ONESPACE_INSITU_DIMENSIONS;
        for (unsigned d = 0; d < array->dimensions; d++)
            if (!(done & 1u << d) &&
                (least == ONESPACE_INSITU_DIMENSIONS || strides[d] < strides[least]))
                least = d;
        done |= 1u << least;
        if (array->shape[least] < 2)
            continue;
        if (strides[least] < 0 || (uint64_t)strides[least] < span)
            return insitu_fail(-EINVAL,
                               "array '%s': with a stride of %lld bytes along dimension %u its "
                               "elements overlap",
                               array->name, (long long)strides[least], least);
        uint64_t more;
        if (__builtin_mul_overflow((uint64_t)strides[least], array->shape[least] - 1, &more) ||
            __builtin_add_overflow(span, more, &span) || span > INT64_MAX)
            return insitu_fail(-EINVAL, "array '%s': its strides span more than any memory",
                               array->name);
    }
    return 0;
}

static uint64_t span_of(const struct onespace_insitu_array *array, const int64_t *strides)
{
    uint64_t span = insitu_type_size((uint32_t)array->type);
    if (is_empty(array))
        return 0;
    for (unsigned d = 0; d < array->dimensions; d++)
        span += (array->shape[d] - 1) * (uint64_t)strides[d];
    return span;
}

static int check_global(const struct onespace_insitu_array *array)
{
    if (all_zero(array->global_shape) && all_zero(array->offset))
        return 0;
    for (unsigned d = 0; d < array->dimensions; d++) {
        uint64_t end;
        if (__builtin_add_overflow(array->offset[d], array->shape[d], &end) ||
            end > array->global_shape[d])
            return insitu_fail(-EINVAL,
                               "array '%s': %llu elements from %llu on do not lie within the "
                               "global shape's %llu of dimension %u",
                               array->name, (unsigned long long)array->shape[d],
                               (unsigned long long)array->offset[d],
                               (unsigned long long)array->global_shape[d], d);
    }
    return 0;
}

int insitu_check_array(const struct onespace_insitu_array *array, int64_t *strides, uint64_t *span)
{
    int result = check_fields(array);
    if (result == 0)
        result = fill_strides(array, strides);
    if (result == 0)
        result = check_overlap(array, strides);
    if (result < 0)
        return result;
    *span = span_of(array, strides);
    if (array->bytes && *span > array->bytes)
        return insitu_fail(
            -EINVAL, "array '%s': its shape and strides span %llu bytes, but it has %llu",
            array->name, (unsigned long long)*span, (unsigned long long)array->bytes);
    return check_global(array);
}

int insitu_check_mapped(const struct onespace_insitu_array *array, uint64_t span)
{
    enum { PAGES = 4096 };
    unsigned char present[PAGES];
    uintptr_t from = (uintptr_t)array->address, end;
    if (__builtin_add_overflow(from, span, &end))
        return insitu_fail(-EFAULT, "array '%s' ends above the last address", array->name);
    from = page_floor(from);
    for (uintptr_t next; from < end; from = next) {
        next =
            end - from > (uintptr_t)PAGES * ARCH_PAGE ? from + (uintptr_t)PAGES * ARCH_PAGE : end;
        if (raw(__NR_mincore, from, next - from, present) != 0)
            return insitu_fail(-EFAULT,
                               "array '%s' says that it spans %llu bytes from %p, but not all of "
                               "that is mapped: check its shape and strides",
                               array->name, (unsigned long long)span, array->address);
    }
    return 0;
}
