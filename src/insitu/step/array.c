/* src/insitu/step/array.c: put arrays into a step, and get them by name. */
#include "onespace/insitu.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "insitu/handle.h"

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

unsigned insitu_type_size(uint32_t type)
{
    return type < TYPES ? types[type].size : 0;
}

const char *insitu_type_name(uint32_t type)
{
    return type < TYPES ? types[type].name : "no type";
}

void insitu_dense_strides(unsigned dimensions, unsigned element, const uint64_t *shape,
                          int64_t *strides)
{
    int64_t stride = element;
    for (unsigned d = dimensions; d-- > 0;) {
        strides[d] = stride;
        /* An empty dimension counts as 1: the strides outside it do not matter. */
        stride = (int64_t)((uint64_t)stride * (shape[d] ? shape[d] : 1));
    }
}

/* ---- Putting ---- */

static int has_array(const struct insitu_part *part, const char *name)
{
    for (unsigned i = 0; i < part->array_count; i++)
        if (strcmp(part->arrays[i].name, name) == 0)
            return 1;
    return 0;
}

static struct insitu_array stored_form(const struct onespace_insitu_array *array,
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
    int result = insitu_check_producer(handle);
    if (result == 0 && handle->entry == NO_ENTRY)
        result = insitu_fail(-ENOENT, "channel '%s': no step was begun", handle->channel->name);
    return result;
}

int onespace_insitu_put(struct onespace_insitu *handle, const struct onespace_insitu_array *array)
{
    int64_t strides[ONESPACE_INSITU_DIMENSIONS];
    uint64_t span = 0;
    int result = check_begun(handle);
    if (result == 0)
        result = insitu_check_array(array, strides, &span);
    if (result < 0)
        return result;
    struct insitu_part *part = handle->part;
    if (part->array_count == ONESPACE_INSITU_ARRAYS)
        return insitu_fail(-ENOSPC, "array '%s': the step has %d arrays already", array->name,
                           ONESPACE_INSITU_ARRAYS);
    /* The description that was here in the entry's last step is usually the same. It is not written
     * again then, so that consumers keep its cache lines. */
    struct insitu_array *stored = &part->arrays[part->array_count];
    struct insitu_array fresh = stored_form(array, strides, span);
    int is_same = strcmp(stored->name, fresh.name) == 0;
    if (!(handle->names_repeat && is_same) && has_array(part, array->name))
        return insitu_fail(-EEXIST, "array '%s': the step has one of that name already",
                           array->name);
    if (!is_same || stored->source != fresh.source || stored->bytes != span)
        result = insitu_check_mapped(array, span);
    if (result < 0)
        return result;
    if (memcmp(stored, &fresh, sizeof(fresh)) != 0)
        memcpy(stored, &fresh, sizeof(fresh));
    handle->names_repeat &= is_same;
    part->array_count++;
    return 0;
}

/* ---- Getting ---- */

static void load(const struct insitu_array *stored, struct onespace_insitu_array *array)
{
    array->name = stored->name;
    array->units = stored->units;
    array->address = (void *)stored->address;
    array->bytes = stored->bytes;
    array->type = (int)stored->type;
    array->dimensions = stored->dimensions;
    for (unsigned d = 0; d < ONESPACE_INSITU_DIMENSIONS; d++) {
        int is_there = d < stored->dimensions;
        array->shape[d] = is_there ? stored->along[d].shape : 0;
        array->strides[d] = is_there ? stored->along[d].stride : 0;
        array->global_shape[d] = is_there ? stored->along[d].global_shape : 0;
        array->offset[d] = is_there ? stored->along[d].offset : 0;
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
                               insitu_type_name(stored->type), insitu_type_name((uint32_t)type));
        load(stored, array);
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
    load(&part->arrays[index], array);
    return 0;
}
