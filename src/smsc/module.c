/* src/smsc/module.c: copies between tasks of one space. */
#include "smsc/openmpi.h"

#include <stdlib.h>
#include <sys/auxv.h>

#include "onespace.h"
#include "onespace/sync/copy.h"
#include "space/registry.h"

static struct openmpi
    openmpi; /* written by module_begin, before any other function here is called */
static struct space_stats *stats;

static int held[ONESPACE_TASKS_MAX]; /* ids of tasks whose memory is held; by MPI_Init's and
                                        MPI_Finalize's thread */
static int held_count;

/* What is read where it lies counts as what is copied: both are one copy in user space. */
static void count(size_t size)
{
    atomic_fetch_add_explicit(&stats->cma_calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&stats->cma_bytes, size, memory_order_relaxed);
}

/* The agreement is among the ranks of this job: others on this node, which MPI_Comm_spawn has
 * started or which are connected to, are not known to be in this space. */
static struct smsc_endpoint *get_endpoint(struct openmpi_process *process)
{
    if (process->name.job != openmpi.self->name.job)
        return NULL;
    struct smsc_endpoint *endpoint = malloc(sizeof(*endpoint));
    if (endpoint)
        *endpoint = (struct smsc_endpoint){.object = {openmpi.object, 1}, .process = process};
    return endpoint;
}

static void return_endpoint(struct smsc_endpoint *endpoint)
{
    free(endpoint);
}

static int copy_to(struct smsc_endpoint *endpoint, void *own, void *peers, size_t size,
                   void *registration)
{
    (void)endpoint, (void)registration;
    onespace_copy(peers, own, size);
    count(size);
    return OPENMPI_SUCCESS;
}

static int copy_from(struct smsc_endpoint *endpoint, void *own, void *peers, size_t size,
                     void *registration)
{
    (void)endpoint, (void)registration;
    onespace_copy(own, peers, size);
    count(size);
    return OPENMPI_SUCCESS;
}

static void *map(struct smsc_endpoint *endpoint, uint64_t flags, void *peers, size_t size,
                 void **mapping)
{
    (void)flags;
    *mapping = peers;
    count(size);
    return endpoint;
}

static void unmap(void *mapped)
{
    (void)mapped;
}

static struct smsc_module module = {
    .features = SMSC_CAN_MAP,
    .get_endpoint = get_endpoint,
    .return_endpoint = return_endpoint,
    .copy_to = copy_to,
    .copy_from = copy_from,
    .map = map,
    .unmap = unmap,
};

struct smsc_module *module_begin(const struct openmpi *found)
{
    openmpi = *found;
    stats = &((struct space_slot *)getauxval(SPACE_AT_SLOT))->stats;
    for (int number = 0, count_of = onespace_ntasks(); number < count_of; number++) {
        int id = onespace_task(number); /* fails if the task has ended since: so will the job */
        if (id > 0 && id != onespace_self() && onespace_hold(id) == 0)
            held[held_count++] = id;
    }
    return &module;
}

void module_end(void)
{
    while (held_count > 0) {
        int result = onespace_release(held[--held_count]);
        (void)result;
    }
}
