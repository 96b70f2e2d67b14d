/* src/insitu/step.c: put arrays and attributes into a step, and get them by name. */
#include "onespace/insitu.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/page.h"
#include "base/raw.h"
#include "insitu/insitu.h"

/* ---- Types ---- */

static const struct {
    const char *name;
    unsigned size;
} types[] = {
    [ONESPACE_INSITU_ANY] = {"any", 0},         [ONESPACE_INSITU_INT8] = {"int8", 1},
    [ONESPACE_INSITU_INT16] = {"int16", 2},     [ONESPACE_INSITU_INT32] = {"int32", 4},
    [ONESPACE_INSITU_INT64] = {"int64", 8},     [ONESPACE_INSITU_UINT8] = {"uint8", 1},
    [ONESPACE_INSITU_UINT16] = {"uint16", 2},   [ONESPACE_INSITU_UINT32] = {"uint32", 4},
    [ONESPACE_INSITU_UINT64] = {"uint64", 8},   [ONESPACE_INSITU_FLOAT32] = {"float32", 4},
    [ONESPACE_INSITU_FLOAT64] = {"float64", 8},
};
enum { TYPES = sizeof(types) / sizeof(types[0]) };

unsigned insitu_type_size(int type)
{
    return (unsigned)type < TYPES ? types[type].size : 0;
}

const char *insitu_type_name(int type)
{
    return (unsigned)type < TYPES ? types[type].name : "no type";
}

/* ---- Checks of a description ---- */

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
    if (insitu_type_size(array->type) == 0)
        return insitu_fail(-EINVAL, "array '%s': there is no type %d", array->name, array->type);
    if (array->dimensions < 1 || array->dimensions > ONESPACE_INSITU_DIMENSIONS)
        return insitu_fail(-EINVAL, "array '%s': %u dimensions: there are 1 to %d", array->name,
                           array->dimensions, ONESPACE_INSITU_DIMENSIONS);
    if (!array->address && !is_empty(array))
        return insitu_fail(-EINVAL, "array '%s' has no address", array->name);
    return 0;
}

/* Sets the strides, without gaps if none are given; -EINVAL if the sizes exceed 63 bits. */
static int fill_strides(const struct onespace_insitu_array *array, int64_t *strides)
{
    uint64_t bytes = insitu_type_size(array->type);
    for (unsigned d = 0; d < array->dimensions; d++)
        if (array->shape[d] &&
            (__builtin_mul_overflow(bytes, array->shape[d], &bytes) || bytes > INT64_MAX))
            return insitu_fail(-EINVAL, "array '%s': its shape is larger than any memory",
                               array->name);
    if (all_zero(array->strides))
        insitu_dense_strides(array->dimensions, insitu_type_size(array->type), array->shape,
                             strides);
    else
        memcpy(strides, array->strides, sizeof(array->strides));
    return 0;
}

/* Elements do not overlap if, from the smallest stride to the largest, each stride is at least the
 * span of the dimensions with smaller ones. */
static int check_overlap(const struct onespace_insitu_array *array, const int64_t *strides)
{
    uint64_t span = insitu_type_size(array->type);
    unsigned done = 0;
    for (unsigned pass = 0; pass < array->dimensions; pass++) {
        unsigned smallest = ONESPACE_INSITU_DIMENSIONS;
        for (unsigned d = 0; d < array->dimensions; d++)
            if (!(done & 1u << d) &&
                (smallest == ONESPACE_INSITU_DIMENSIONS || strides[d] < strides[smallest]))
                smallest = d;
        done |= 1u << smallest;
        if (array->shape[smallest] < 2)
            continue;
        if (strides[smallest] < 0 || (uint64_t)strides[smallest] < span)
            return insitu_fail(-EINVAL,
                               "array '%s': with a stride of %lld bytes along dimension %u its "
                               "elements overlap",
                               array->name, (long long)strides[smallest], smallest);
        uint64_t more;
        if (__builtin_mul_overflow((uint64_t)strides[smallest], array->shape[smallest] - 1,
                                   &more) ||
            __builtin_add_overflow(span, more, &span) || span > INT64_MAX)
            return insitu_fail(-EINVAL, "array '%s': its strides span more than any memory",
                               array->name);
    }
    return 0;
}

static uint64_t span_of(const struct onespace_insitu_array *array, const int64_t *strides)
{
    uint64_t span = insitu_type_size(array->type);
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

/* Checks a description: 0 with its strides and the bytes that its elements span, or -errno with a
 * message. The strides are those without gaps if it gives none. */
static int check_array(const struct onespace_insitu_array *array, int64_t *strides, uint64_t *span)
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

/* Checks that these bytes are mapped: 0, or -EFAULT with a message. */
static int check_mapped(const struct onespace_insitu_array *array, uint64_t span)
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
                               "array '%s' spans %llu bytes from %p, but some are not mapped: "
                               "check its shape and strides",
                               array->name, (unsigned long long)span, array->address);
    }
    return 0;
}

/* ---- Putting arrays ---- */

static int has_array(const struct insitu_part *part, const char *name)
{
    for (unsigned i = 0; i < part->array_count; i++)
        if (strcmp(part->arrays[i].name, name) == 0)
            return 1;
    return 0;
}

static struct insitu_array array_to_stored(const struct onespace_insitu_array *array,
                                           const int64_t *strides, uint64_t span)
{
    struct insitu_array stored = {.address = (uintptr_t)array->address,
                                  .source = (uintptr_t)array->address,
                                  .bytes = span,
                                  .type = (uint32_t)array->type,
                                  .dimensions = array->dimensions};
    strcpy(stored.name, array->name);
    strcpy(stored.units, array->units ? array->units : "");
    for (unsigned d = 0; d < array->dimensions; d++)
        stored.along[d] = (struct insitu_dimension){array->shape[d], strides[d],
                                                    array->global_shape[d], array->offset[d]};
    return stored;
}

static int check_begun(const struct onespace_insitu *handle)
{
    int result = insitu_check_end(handle, 1);
    if (result == 0 && handle->entry == NO_ENTRY)
        result = insitu_fail(-ENOENT, "channel '%s': no step was begun", handle->channel->name);
    return result;
}

int onespace_insitu_put(struct onespace_insitu *handle, const struct onespace_insitu_array *array)
{
    int64_t strides[ONESPACE_INSITU_DIMENSIONS] = {0};
    uint64_t span = 0;
    int result = check_begun(handle);
    if (result == 0)
        result = check_array(array, strides, &span);
    if (result < 0)
        return result;
    struct insitu_part *part = handle->part;
    if (part->array_count == ONESPACE_INSITU_ARRAYS)
        return insitu_fail(-ENOSPC, "array '%s': the step has %d arrays already", array->name,
                           ONESPACE_INSITU_ARRAYS);
    /* The entry's last step usually had the same description here. It is not written again then, so
     * that consumers keep its cache lines. */
    struct insitu_array *stored = &part->arrays[part->array_count];
    struct insitu_array fresh = array_to_stored(array, strides, span);
    int is_same = strcmp(stored->name, fresh.name) == 0;
    if (!(handle->same_names && is_same) && has_array(part, array->name))
        return insitu_fail(-EEXIST, "array '%s': the step has one of that name already",
                           array->name);
    if (!is_same || stored->source != fresh.source || stored->bytes != span)
        result = check_mapped(array, span);
    if (result < 0)
        return result;
    if (memcmp(stored, &fresh, sizeof(fresh)) != 0)
        memcpy(stored, &fresh, sizeof(fresh));
    handle->same_names &= is_same;
    part->array_count++;
    return 0;
}

/* ---- Getting arrays ---- */

static void array_from_stored(const struct insitu_array *stored,
                              struct onespace_insitu_array *array)
{
    array->name = stored->name;
    array->units = stored->units;
    array->address = (void *)stored->address;
    array->bytes = stored->bytes;
    array->type = (int)stored->type;
    array->dimensions = stored->dimensions;
    for (unsigned d = 0; d < ONESPACE_INSITU_DIMENSIONS; d++) {
        int is_used = d < stored->dimensions;
        array->shape[d] = is_used ? stored->along[d].shape : 0;
        array->strides[d] = is_used ? stored->along[d].stride : 0;
        array->global_shape[d] = is_used ? stored->along[d].global_shape : 0;
        array->offset[d] = is_used ? stored->along[d].offset : 0;
    }
}

/* -ENOENT, with a message that names the arrays that exist. */
static int fail_missing(const struct insitu_part *part, const char *name,
                        const struct onespace_insitu_step *step, unsigned rank)
{
    char names[256] = "none";
    size_t length = 0;
    for (unsigned i = 0; i < part->array_count && length < sizeof(names) - 1; i++)
        length += (size_t)snprintf(names + length, sizeof(names) - length, "%s'%s'", i ? ", " : "",
                                   part->arrays[i].name);
    return insitu_fail(-ENOENT, "step %llu of rank %u has no array '%s'; it has %s",
                       (unsigned long long)step->step, rank, name, names);
}

int onespace_insitu_get(struct onespace_insitu *handle, const struct onespace_insitu_step *step,
                        unsigned rank, const char *name, int type,
                        struct onespace_insitu_array *array)
{
    const struct insitu_part *part = insitu_held_part(handle, step, rank);
    int result = part ? insitu_check_name("an array", name) : -EINVAL;
    if (result < 0)
        return result;
    for (unsigned i = 0; i < part->array_count; i++) {
        const struct insitu_array *stored = &part->arrays[i];
        if (strcmp(stored->name, name) != 0)
            continue;
        if (type != ONESPACE_INSITU_ANY && (uint32_t)type != stored->type)
            return insitu_fail(-EPROTOTYPE, "array '%s' is of type %s, not %s", name,
                               insitu_type_name(stored->type), insitu_type_name(type));
        array_from_stored(stored, array);
        return 0;
    }
    return fail_missing(part, name, step, rank);
}

int onespace_insitu_array_at(struct onespace_insitu *handle,
                             const struct onespace_insitu_step *step, unsigned rank, unsigned index,
                             struct onespace_insitu_array *array)
{
    const struct insitu_part *part = insitu_held_part(handle, step, rank);
    if (!part)
        return -EINVAL;
    if (index >= part->array_count)
        return insitu_fail(-ENOENT, "step %llu of rank %u has %u arrays",
                           (unsigned long long)step->step, rank, part->array_count);
    array_from_stored(&part->arrays[index], array);
    return 0;
}

/* ---- Attributes ---- */

static int check_attribute(const struct onespace_insitu *handle,
                           const struct onespace_insitu_attribute *attribute)
{
    int result = check_begun(handle);
    if (result == 0)
        result = insitu_check_name("an attribute", attribute->name);
    if (result < 0)
        return result;
    if (attribute->type < ONESPACE_INSITU_INTEGER || attribute->type > ONESPACE_INSITU_TEXT ||
        (attribute->type == ONESPACE_INSITU_TEXT && !attribute->text))
        return insitu_fail(-EINVAL, "attribute '%s' has no value of type %d", attribute->name,
                           attribute->type);
    if (attribute->type == ONESPACE_INSITU_TEXT &&
        strnlen(attribute->text, ONESPACE_INSITU_TEXT_MAX + 1) > ONESPACE_INSITU_TEXT_MAX)
        return insitu_fail(-ENAMETOOLONG, "attribute '%s': its text has more than %d bytes",
                           attribute->name, ONESPACE_INSITU_TEXT_MAX);
    return 0;
}

static const struct insitu_attribute *find_attribute(const struct insitu_part *part,
                                                     const char *name)
{
    for (unsigned i = 0; i < part->attribute_count; i++)
        if (strcmp(part->attributes[i].name, name) == 0)
            return &part->attributes[i];
    return NULL;
}

int onespace_insitu_put_attribute(struct onespace_insitu *handle,
                                  const struct onespace_insitu_attribute *attribute)
{
    int result = check_attribute(handle, attribute);
    if (result < 0)
        return result;
    struct insitu_part *part = handle->part;
    if (find_attribute(part, attribute->name))
        return insitu_fail(-EEXIST, "attribute '%s': the step has one of that name already",
                           attribute->name);
    if (part->attribute_count == ONESPACE_INSITU_ATTRIBUTES)
        return insitu_fail(-ENOSPC, "attribute '%s': the step has %d attributes already",
                           attribute->name, ONESPACE_INSITU_ATTRIBUTES);
    struct insitu_attribute *stored = &part->attributes[part->attribute_count];
    strcpy(stored->name, attribute->name);
    stored->type = (uint32_t)attribute->type;
    if (attribute->type == ONESPACE_INSITU_INTEGER)
        stored->value.integer = attribute->integer;
    else if (attribute->type == ONESPACE_INSITU_NUMBER)
        stored->value.number = attribute->number;
    else
        strcpy(stored->value.text, attribute->text);
    part->attribute_count++;
    return 0;
}

static void attribute_from_stored(const struct insitu_attribute *stored,
                                  struct onespace_insitu_attribute *attribute)
{
    *attribute =
        (struct onespace_insitu_attribute){.name = stored->name, .type = (int)stored->type};
    if (stored->type == ONESPACE_INSITU_INTEGER)
        attribute->integer = stored->value.integer;
    else if (stored->type == ONESPACE_INSITU_NUMBER)
        attribute->number = stored->value.number;
    else
        attribute->text = stored->value.text;
}

int onespace_insitu_get_attribute(struct onespace_insitu *handle,
                                  const struct onespace_insitu_step *step, unsigned rank,
                                  const char *name, struct onespace_insitu_attribute *attribute)
{
    const struct insitu_part *part = insitu_held_part(handle, step, rank);
    int result = part ? insitu_check_name("an attribute", name) : -EINVAL;
    if (result < 0)
        return result;
    const struct insitu_attribute *found = find_attribute(part, name);
    if (!found)
        return insitu_fail(-ENOENT, "step %llu of rank %u has no attribute '%s'",
                           (unsigned long long)step->step, rank, name);
    attribute_from_stored(found, attribute);
    return 0;
}

int onespace_insitu_attribute_at(struct onespace_insitu *handle,
                                 const struct onespace_insitu_step *step, unsigned rank,
                                 unsigned index, struct onespace_insitu_attribute *attribute)
{
    const struct insitu_part *part = insitu_held_part(handle, step, rank);
    if (!part)
        return -EINVAL;
    if (index >= part->attribute_count)
        return insitu_fail(-ENOENT, "step %llu of rank %u has %u attributes",
                           (unsigned long long)step->step, rank, part->attribute_count);
    attribute_from_stored(&part->attributes[index], attribute);
    return 0;
}
