/* tests/lib/ucx_cache.h: UCX's cache of registrations, as its transports make it, for guests whose
 * "card" is io_uring. */
#ifndef ONESPACE_TESTS_LIB_UCX_CACHE_H
#define ONESPACE_TESTS_LIB_UCX_CACHE_H

#include <ucm/api/ucm.h>
#include <ucs/memory/rcache.h>

static void describe_region(void *context, ucs_rcache_t *of, ucs_rcache_region_t *region,
                            char *text, size_t size)
{
    (void)context, (void)of, (void)region;
    if (size)
        *text = 0;
}

/* A cache whose entries have `region_bytes`, beginning with a ucs_rcache_region_t; NULL: UCX
 * refuses. `operations` is completed, and stays in use. */
static inline ucs_rcache_t *ucx_cache_create(size_t region_bytes, ucs_rcache_ops_t *operations)
{
    ucs_rcache_t *cache = NULL;
    ucs_rcache_params_t parameters = {.region_struct_size = region_bytes,
                                      .alignment = 64,
                                      .max_alignment = 4096,
                                      .ucm_events = UCM_EVENT_VM_UNMAPPED,
                                      .ucm_event_priority = 1000,
                                      .ops = operations,
                                      .max_regions = -1,
                                      .max_size = -1,
                                      .max_unreleased = -1};
    operations->dump_region = describe_region;
    return ucs_rcache_create(&parameters, "registrations", NULL, &cache) == UCS_OK ? cache : NULL;
}

#endif
