/* src/insitu/step/box.c: copy a box of elements between arrays with different strides. */

#include "insitu/handle.h"
#include "onespace/sync/copy.h"

/* The innermost dimensions without gaps on both sides are copied as one run of bytes: sets *run to
 * its length and returns the number of dimensions outside it. */
static unsigned run_of(const struct insitu_box *box, uint64_t *run)
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

static void copy(const struct insitu_box *box, unsigned dimension, unsigned outer, uint64_t run,
                 const char *from, char *to)
{
    if (dimension == outer) {
        onespace_copy(to, from, run);
        return;
    }
    for (uint64_t i = 0; i < box->shape[dimension]; i++)
        copy(box, dimension + 1, outer, run, from + (int64_t)i * box->from_strides[dimension],
             to + (int64_t)i * box->to_strides[dimension]);
}

void insitu_copy_box(const struct insitu_box *box)
{
    uint64_t run;
    for (unsigned d = 0; d < box->dimensions; d++)
        if (box->shape[d] == 0)
            return;
    unsigned outer = run_of(box, &run);
    copy(box, 0, outer, run, box->from, box->to);
}
