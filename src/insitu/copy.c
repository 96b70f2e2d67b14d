/* src/insitu/copy.c: copy boxes of elements: between arrays with different strides, copies of a
 * step's arrays, and boxes of the global array from the parts of all ranks. */
#include "onespace/insitu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/page.h"
#include "insitu/insitu.h"
#include "onespace/sync/copy.h"

/* ---- Boxes ---- */

/* A box of elements to copy between arrays with different strides (bytes). */
struct box {
    unsigned dimensions, element; /* bytes of an element */
    const uint64_t *shape;
    const char *from;
    const int64_t *from_strides;
    char *to;
    const int64_t *to_strides;
};

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

/* Finds the innermost dimensions that have no gaps on both sides. They are copied as one run of
 * bytes. Sets *run to its length and returns the number of dimensions outside it. */
static unsigned contiguous_run(const struct box *box, uint64_t *run)
{
    unsigned outer = box->dimensions;
    *run = box->element;
    while (outer > 0 &&
           (box->shape[outer - 1] == 1 || (box->from_strides[outer - 1] == (int64_t)*run &&
                                           box->to_strides[outer - 1] == (int64_t)*run))) {
        outer--;
        *run *= box->shape[outer];
    }
    return outer;
}

static void copy_dimension(const struct box *box, unsigned dimension, unsigned outer, uint64_t run,
                           const char *from, char *to)
{
    if (dimension == outer) {
        onespace_copy(to, from, run);
        return;
    }
    for (uint64_t i = 0; i < box->shape[dimension]; i++)
        copy_dimension(box, dimension + 1, outer, run,
                       from + (int64_t)i * box->from_strides[dimension],
                       to + (int64_t)i * box->to_strides[dimension]);
}

static void copy_box(const struct box *box)
{
    uint64_t run;
    for (unsigned d = 0; d < box->dimensions; d++)
        if (box->shape[d] == 0)
            return;
    unsigned outer = contiguous_run(box, &run);
    copy_dimension(box, 0, outer, run, box->from, box->to);
}

/* ---- Copies of a step ---- */

/* Copies of a step (ONESPACE_INSITU_COPY) lie in one block of memory per rank and entry, which is
 * reused and grows. */

enum { COPY_ALIGNMENT = 64 };

struct array_view {
    uint64_t shape[ONESPACE_INSITU_DIMENSIONS];
    int64_t strides[ONESPACE_INSITU_DIMENSIONS], dense[ONESPACE_INSITU_DIMENSIONS];
    uint64_t bytes; /* without gaps */
};

static void view_array(const struct insitu_array *array, struct array_view *view)
{
    unsigned element = insitu_type_size(array->type);
    view->bytes = element;
    for (unsigned d = 0; d < array->dimensions; d++) {
        view->shape[d] = array->along[d].shape;
        view->strides[d] = array->along[d].stride;
        view->bytes *= view->shape[d];
    }
    insitu_dense_strides(array->dimensions, element, view->shape, view->dense);
}

void insitu_copy_free(struct insitu_part *part)
{
    if (part->copy)
        munmap((void *)part->copy, part->copy_bytes);
    part->copy = part->copy_bytes = 0;
}

/* Uses mmap, so that the memory lies in the caller's range and can be unmapped. */
static int reserve_copy(struct insitu_part *part, uint64_t bytes)
{
    if (part->copy_bytes >= bytes)
        return 0;
    insitu_copy_free(part);
    bytes = page_ceiling(bytes);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return insitu_fail(-ENOMEM, "no memory for a copy of the step's arrays, %llu bytes",
                           (unsigned long long)bytes);
    part->copy = (uintptr_t)memory;
    part->copy_bytes = bytes;
    return 0;
}

static void copy_array(struct insitu_array *array, char *to)
{
    struct array_view view;
    view_array(array, &view);
    struct box box = {.dimensions = array->dimensions,
                      .element = insitu_type_size(array->type),
                      .shape = view.shape,
                      .from = (const char *)array->source,
                      .from_strides = view.strides,
                      .to = to,
                      .to_strides = view.dense};
    copy_box(&box);
    array->address = (uintptr_t)to;
    for (unsigned d = 0; d < array->dimensions; d++)
        array->along[d].stride = view.dense[d];
}

int insitu_part_copy(struct insitu_part *part)
{
    uint64_t bytes = 0;
    struct array_view view;
    for (unsigned i = 0; i < part->array_count; i++) {
        view_array(&part->arrays[i], &view);
        bytes += round_up(view.bytes, COPY_ALIGNMENT);
    }
    int result = reserve_copy(part, bytes);
    if (result < 0)
        return result;
    char *to = (char *)part->copy;
    for (unsigned i = 0; i < part->array_count; i++) {
        view_array(&part->arrays[i], &view);
        copy_array(&part->arrays[i], to);
        to += round_up(view.bytes, COPY_ALIGNMENT);
    }
    return 0;
}

/* ---- Reading the global array ---- */

/* Elements of the global array: from `begin` to before `end` in each dimension. */
struct extent {
    uint64_t begin[ONESPACE_INSITU_DIMENSIONS], end[ONESPACE_INSITU_DIMENSIONS];
};

struct request {
    const char *name;
    int type;
    const uint64_t *offset, *shape;
    char *to;
    /* From the first part found; the other parts must agree. */
    unsigned dimensions;
    uint64_t global_shape[ONESPACE_INSITU_DIMENSIONS];
    /* Elements that no part has had yet, as extents that do not overlap. Parts may overlap. */
    struct extent *missing;
    size_t missing_count, missing_room;
};

static int add_missing(struct request *request, const struct extent *extent)
{
    for (unsigned d = 0; d < request->dimensions; d++)
        if (extent->begin[d] >= extent->end[d])
            return 0;
    if (request->missing_count == request->missing_room) {
        size_t room = request->missing_room ? 2 * request->missing_room : 16;
        struct extent *larger = realloc(request->missing, room * sizeof(*larger));
        if (!larger)
            return insitu_fail(-ENOMEM, "array '%s': no memory to find what its parts lack",
                               request->name);
        request->missing = larger;
        request->missing_room = room;
    }
    request->missing[request->missing_count++] = *extent;
    return 0;
}

/* Replaces what is missing by what remains of it without `found`: of each extent that overlaps it,
 * the slices below and above it in each dimension. */
static int subtract_found(struct request *request, const struct extent *found)
{
    int result = 0;
    for (size_t i = request->missing_count; i-- > 0 && result == 0;) {
        struct extent rest = request->missing[i];
        int overlaps = 1;
        for (unsigned d = 0; d < request->dimensions; d++)
            overlaps &= found->begin[d] < rest.end[d] && rest.begin[d] < found->end[d];
        if (!overlaps)
            continue;
        /* The last one takes its place; those added below are behind it, and do not overlap. */
        request->missing[i] = request->missing[--request->missing_count];
        for (unsigned d = 0; d < request->dimensions && result == 0; d++) {
            struct extent below = rest, above = rest;
            below.end[d] = found->begin[d];
            above.begin[d] = found->end[d];
            result = add_missing(request, &below);
            if (result == 0)
                result = add_missing(request, &above);
            if (rest.begin[d] < found->begin[d])
                rest.begin[d] = found->begin[d];
            if (rest.end[d] > found->end[d])
                rest.end[d] = found->end[d];
        }
    }
    return result;
}

/* The array of a single rank without a global shape is the whole global array. */
static void set_default_global_shape(struct onespace_insitu_array *part, unsigned ranks)
{
    int has_global_shape = 0;
    for (unsigned d = 0; d < part->dimensions; d++)
        has_global_shape |= part->global_shape[d] != 0;
    if (ranks == 1 && !has_global_shape)
        memcpy(part->global_shape, part->shape, sizeof(part->shape));
}

static int check_same_array(struct request *request, const struct onespace_insitu_array *part)
{
    if (request->dimensions == 0) {
        request->dimensions = part->dimensions;
        request->type = part->type;
        memcpy(request->global_shape, part->global_shape, sizeof(part->global_shape));
        struct extent all;
        for (unsigned d = 0; d < part->dimensions; d++) {
            uint64_t end;
            if (__builtin_add_overflow(request->offset[d], request->shape[d], &end) ||
                end > part->global_shape[d])
                return insitu_fail(-EINVAL,
                                   "array '%s': the box ends at %llu of dimension %u, the global "
                                   "array at %llu",
                                   request->name, (unsigned long long)end, d,
                                   (unsigned long long)part->global_shape[d]);
            all.begin[d] = request->offset[d];
            all.end[d] = end;
        }
        return add_missing(request, &all);
    } else if (part->dimensions != request->dimensions || part->type != request->type ||
               memcmp(part->global_shape, request->global_shape, sizeof(part->global_shape)) != 0)
        return insitu_fail(-EINVAL,
                           "array '%s': its ranks contradict one another about its type or global "
                           "shape",
                           request->name);
    return 0;
}

/* Copies the intersection of the part and the box. */
static int copy_intersection(struct request *request, const struct onespace_insitu_array *part)
{
    unsigned element = insitu_type_size(part->type);
    uint64_t common[ONESPACE_INSITU_DIMENSIONS];
    struct extent found;
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
            return 0;
        common[d] = end - first;
        found.begin[d] = first;
        found.end[d] = end;
        from += (int64_t)(first - part->offset[d]) * part->strides[d];
        to += (int64_t)(first - request->offset[d]) * to_strides[d];
    }
    struct box box = {part->dimensions, element, common, from, part->strides, to, to_strides};
    copy_box(&box);
    return subtract_found(request, &found);
}

static int check_covered(const struct request *request)
{
    uint64_t wanted = 1, missing = 0;
    if (request->dimensions == 0)
        return insitu_fail(-ENOENT, "no rank has an array '%s' in this step", request->name);
    for (unsigned d = 0; d < request->dimensions; d++)
        wanted *= request->shape[d];
    for (size_t i = 0; i < request->missing_count; i++) {
        uint64_t elements = 1;
        for (unsigned d = 0; d < request->dimensions; d++)
            elements *= request->missing[i].end[d] - request->missing[i].begin[d];
        missing += elements;
    }
    if (missing > 0)
        return insitu_fail(
            -ENOENT, "array '%s': the ranks' parts have %llu of the box's %llu elements",
            request->name, (unsigned long long)(wanted - missing), (unsigned long long)wanted);
    return 0;
}

static int read_parts(struct onespace_insitu *handle, const struct onespace_insitu_step *step,
                      struct request *request)
{
    for (unsigned rank = 0; rank < step->ranks; rank++) {
        struct onespace_insitu_array part;
        int result = onespace_insitu_get(handle, step, rank, request->name, request->type, &part);
        if (result == -ENOENT)
            continue;
        if (result == 0) {
            set_default_global_shape(&part, step->ranks);
            result = check_same_array(request, &part);
        }
        if (result == 0)
            result = copy_intersection(request, &part);
        if (result < 0)
            return result;
    }
    return check_covered(request);
}

int onespace_insitu_read(struct onespace_insitu *handle, const struct onespace_insitu_step *step,
                         const char *name, int type, const uint64_t *offset, const uint64_t *shape,
                         void *to)
{
    struct request request = {
        .name = name, .type = type, .offset = offset, .shape = shape, .to = to};
    if (!insitu_held_part(handle, step, 0))
        return -EINVAL;
    int result = read_parts(handle, step, &request);
    free(request.missing);
    return result;
}
