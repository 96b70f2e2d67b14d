/* src/insitu/step/copy.c: publish copies (ONESPACE_INSITU_COPY): one block of memory per rank and
 * entry, which is reused and grows. */
#include <errno.h>
#include <sys/mman.h>

#include "base/page.h"
#include "insitu/handle.h"

enum { ALIGNMENT = 64 };

struct array_view {
    uint64_t shape[ONESPACE_INSITU_DIMENSIONS];
    int64_t strides[ONESPACE_INSITU_DIMENSIONS], dense[ONESPACE_INSITU_DIMENSIONS];
    uint64_t bytes; /* without gaps */
};

static void view(const struct insitu_array *array, struct array_view *seen)
{
    unsigned element = insitu_type_size(array->type);
    seen->bytes = element;
    for (unsigned d = 0; d < array->dimensions; d++) {
        seen->shape[d] = array->along[d].shape;
        seen->strides[d] = array->along[d].stride;
        seen->bytes *= seen->shape[d];
    }
    insitu_dense_strides(array->dimensions, element, seen->shape, seen->dense);
}

void insitu_free_copy(struct insitu_part *part)
{
    if (part->copy)
        munmap((void *)part->copy, part->copy_bytes);
    part->copy = part->copy_bytes = 0;
}

/* By mmap, so that it lies in the caller's range and can be unmapped. */
static int make_room(struct insitu_part *part, uint64_t bytes)
{
    if (part->copy_bytes >= bytes)
        return 0;
    insitu_free_copy(part);
    bytes = page_ceiling(bytes);
    void *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return insitu_fail(-ENOMEM, "no memory for a copy of the step's arrays, %llu bytes",
                           (unsigned long long)bytes);
    part->copy = (uintptr_t)room;
    part->copy_bytes = bytes;
    return 0;
}

static void copy_array(struct insitu_array *array, char *to)
{
    struct array_view seen;
    view(array, &seen);
    struct insitu_box box = {.dimensions = array->dimensions,
                             .element = insitu_type_size(array->type),
                             .shape = seen.shape,
                             .from = (const char *)array->source,
                             .from_strides = seen.strides,
                             .to = to,
                             .to_strides = seen.dense};
    insitu_copy_box(&box);
    array->address = (uintptr_t)to;
    for (unsigned d = 0; d < array->dimensions; d++)
        array->along[d].stride = seen.dense[d];
}

int insitu_copy_part(struct insitu_part *part)
{
    uint64_t bytes = 0;
    struct array_view seen;
    for (unsigned i = 0; i < part->array_count; i++) {
        view(&part->arrays[i], &seen);
        bytes += round_up(seen.bytes, ALIGNMENT);
    }
    int result = make_room(part, bytes);
    if (result < 0)
        return result;
    char *to = (char *)part->copy;
    for (unsigned i = 0; i < part->array_count; i++) {
        view(&part->arrays[i], &seen);
        copy_array(&part->arrays[i], to);
        to += round_up(seen.bytes, ALIGNMENT);
    }
    return 0;
}
