/* src/insitu/step/read.c: copy a box of the global array from the parts of all ranks. */
#include "onespace/insitu.h"

#include <errno.h>
#include <string.h>

#include "insitu/handle.h"

struct request {
    const char *name;
    int type;
    const uint64_t *offset, *shape;
    char *to;
    /* Of the first part that was found; the other parts must agree. */
    unsigned dimensions;
    uint64_t global_shape[ONESPACE_INSITU_DIMENSIONS];
    uint64_t copied; /* elements */
};

/* The array of a single rank without a global shape is the whole global array. */
static void complete_alone(struct onespace_insitu_array *part, unsigned ranks)
{
    int is_told = 0;
    for (unsigned d = 0; d < part->dimensions; d++)
        is_told |= part->global_shape[d] != 0;
    if (ranks == 1 && !is_told)
        memcpy(part->global_shape, part->shape, sizeof(part->shape));
}

static int check_alike(struct request *request, const struct onespace_insitu_array *part)
{
    if (request->dimensions == 0) {
        request->dimensions = part->dimensions;
        request->type = part->type;
        memcpy(request->global_shape, part->global_shape, sizeof(part->global_shape));
        for (unsigned d = 0; d < part->dimensions; d++) {
            uint64_t end;
            if (__builtin_add_overflow(request->offset[d], request->shape[d], &end) ||
                end > part->global_shape[d])
                return insitu_fail(-EINVAL,
                                   "array '%s': the box ends at %llu of dimension %u, the global "
                                   "array at %llu",
                                   request->name, (unsigned long long)end, d,
                                   (unsigned long long)part->global_shape[d]);
        }
    } else if (part->dimensions != request->dimensions || part->type != request->type ||
               memcmp(part->global_shape, request->global_shape, sizeof(part->global_shape)) != 0)
        return insitu_fail(-EINVAL,
                           "array '%s': its ranks contradict one another about its type or global "
                           "shape",
                           request->name);
    return 0;
}

/* Copies what the part and the box have in common. */
static void copy_common(struct request *request, const struct onespace_insitu_array *part)
{
    unsigned element = insitu_type_size((uint32_t)part->type);
    uint64_t common[ONESPACE_INSITU_DIMENSIONS], count = 1;
    int64_t to_strides[ONESPACE_INSITU_DIMENSIONS];
    const char *from = part->address;
    char *to = request->to;
    insitu_dense_strides(part->dimensions, element, request->shape, to_strides);
    for (unsigned d = 0; d < part->dimensions; d++) {
        uint64_t first =
            part->offset[d] > request->offset[d] ? part->offset[d] : request->offset[d];
        uint64_t part_end = part->offset[d] + part->shape[d];
        uint64_t box_end = request->offset[d] + request->shape[d];
        uint64_t end = part_end < box_end ? part_end : box_end;
        if (first >= end)
            return;
        common[d] = end - first;
        count *= common[d];
        from += (int64_t)(first - part->offset[d]) * part->strides[d];
        to += (int64_t)(first - request->offset[d]) * to_strides[d];
    }
    struct insitu_box box = {part->dimensions, element, common,    from,
                             part->strides,    to,      to_strides};
    insitu_copy_box(&box);
    request->copied += count;
}

static int check_covered(const struct request *request)
{
    uint64_t wanted = 1;
    if (request->dimensions == 0)
        return insitu_fail(-ENOENT, "no rank has an array '%s' in this step", request->name);
    for (unsigned d = 0; d < request->dimensions; d++)
        wanted *= request->shape[d];
    if (request->copied < wanted)
        return insitu_fail(
            -ENOENT, "array '%s': the ranks' parts have %llu of the box's %llu elements",
            request->name, (unsigned long long)request->copied, (unsigned long long)wanted);
    return 0;
}

int onespace_insitu_read(struct onespace_insitu *handle, const struct onespace_insitu_step *step,
                         const char *name, int type, const uint64_t *offset, const uint64_t *shape,
                         void *to)
{
    struct request request = {
        .name = name, .type = type, .offset = offset, .shape = shape, .to = to};
    if (!insitu_held_part(handle, step, 0))
        return -EINVAL;
    for (unsigned rank = 0; rank < step->ranks; rank++) {
        struct onespace_insitu_array part;
        int result = onespace_insitu_get(handle, step, rank, name, type, &part);
        if (result == -ENOENT)
            continue;
        if (result == 0) {
            complete_alone(&part, step->ranks);
            result = check_alike(&request, &part);
        }
        if (result < 0)
            return result;
        copy_common(&request, &part);
    }
    return check_covered(&request);
}
