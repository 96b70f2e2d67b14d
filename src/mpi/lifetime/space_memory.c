/* src/mpi/lifetime/space_memory.c: the provider of windows whose ranks are tasks of one space.
 *
 * Rank 0 allocates for all ranks, and the others use the same addresses. They map nothing, and a
 * page that any rank has touched faults in no other (Process-in-Process, HPDC'18, sections 4.1 and
 * 7.1). The rank that touches a page first still decides on which memory node it lies. */
#include "mpi/lifetime/lifetime.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mpi/pmpi/message.h"
#include "mpi/rma/rma.h"

enum {
    PART_ALIGN = 64,
    MMAP_MIN_BYTES = 128 * 1024, /* smaller: from the heap, whose pages are warm */
    HUGE_PAGES_MIN_BYTES = 4096 * 1024,
};

struct memory { /* rank 0's window->provider_data */
    char *base;
    size_t size;
    void *mapping; /* where `base` lies, if `mapped` bytes are to be unmapped; else it is the heap's
                    */
    size_t mapped;
};

static int accepts(const struct window_request *request, uint64_t *memory, int *is_ours)
{
    (void)memory;
    *is_ours = request->agreement->group->is_one_space && task_is_in_space();
    return MPI_SUCCESS;
}

static int info_is(MPI_Info info, const char *key, char *value)
{
    int found = 0;
    return info != MPI_INFO_NULL &&
           pmpi()->Info_get(info, (char *)key, MPI_MAX_INFO_VAL - 1, value, &found) ==
               MPI_SUCCESS &&
           found;
}

/* The alignment of parts; 1: they must be contiguous. */
static size_t alignment_of(const struct window_request *request)
{
    char value[MPI_MAX_INFO_VAL];
    if (request->is_shared &&
        !(info_is(request->info, "alloc_shared_noncontig", value) && strcmp(value, "true") == 0))
        return 1;
    if (info_is(request->info, "mpi_minimum_memory_alignment", value)) {
        unsigned long wanted = strtoul(value, NULL, 10);
        if (wanted > PART_ALIGN && wanted <= (1ul << 30) && (wanted & (wanted - 1)) == 0)
            return wanted;
    }
    return PART_ALIGN;
}

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Computes the offset of each rank's part. Returns the total size, or SIZE_MAX if it is too large.
 */
static size_t compute_offsets(const struct window_request *request, size_t *offsets)
{
    const struct window_proposal *proposals = request->proposals;
    size_t at = 0, min_align = alignment_of(request), page = page_size();
    for (int i = 0; i < request->agreement->group->ranks; i++) {
        size_t align =
            min_align > 1 && min_align < page && proposals[i].size >= page ? page : min_align;
        if (__builtin_add_overflow(at, align - 1, &at))
            return SIZE_MAX;
        offsets[i] = at &= -align;
        if (__builtin_add_overflow(at, proposals[i].size, &at) || at > SIZE_MAX / 2)
            return SIZE_MAX;
    }
    return at;
}

/* `sharing`: of guarded tasks MAP_SHARED, to which all may write (space/interposition.h). */
static int map_memory(struct memory *memory, int sharing, size_t align)
{
    memory->mapped = memory->size + (sharing == MAP_SHARED ? align : 0);
    memory->mapping =
        mmap(NULL, memory->mapped, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
    if (memory->mapping == MAP_FAILED)
        return -errno;
    memory->base = (char *)(((uintptr_t)memory->mapping + align - 1) & -(uintptr_t)align);
    if (memory->size >= HUGE_PAGES_MIN_BYTES)
        (void)madvise(memory->base, memory->size, MADV_HUGEPAGE); /* a hint only */
    return 0;
}

/* Zeroed, like windows in shared memory. */
static int allocate_memory(struct memory *memory, size_t align)
{
    size_t page = page_size();
    align = align < page ? page : align;
    if (task_is_guarded())
        return map_memory(memory, MAP_SHARED, align);
    if (memory->size < MMAP_MIN_BYTES || align != page) {
        memory->size = (memory->size + align) & -align;
        memory->base = aligned_alloc(align, memory->size);
        if (memory->base)
            memset(memory->base, 0, memory->size);
        return memory->base ? 0 : -ENOMEM;
    }
    return map_memory(memory, MAP_PRIVATE, page);
}

static int print_failure(const struct window_request *request, size_t size, int error)
{
    if (size == SIZE_MAX)
        layer_message(0, "%s: the sizes of all ranks together are more than an address space holds",
                      request->call);
    else
        layer_message(0,
                      "%s: cannot allocate the %zu bytes of all ranks together: %s; ask for less, "
                      "or see vm.overcommit_memory and `ulimit -v`",
                      request->call, size, strerror(-error));
    return MPI_ERR_NO_MEM;
}

/* Rank 0 allocates for all ranks. */
static int allocate_all(struct window *window, const struct window_request *request)
{
    int ranks = window->group->ranks;
    size_t *offsets = calloc((size_t)ranks, sizeof(*offsets));
    struct memory *memory = calloc(1, sizeof(*memory));
    size_t size = offsets && memory ? compute_offsets(request, offsets) : 0;
    int error = !offsets || !memory ? -ENOMEM : size == SIZE_MAX ? -EOVERFLOW : 0;
    if (error == 0) {
        memory->size = size;
        error = allocate_memory(memory, alignment_of(request));
    }
    /* An empty part has a null base, as in MPICH and Open MPI. */
    for (int i = 0; error == 0 && i < ranks; i++)
        window->rma_shared->rank[i].base =
            request->proposals[i].size ? memory->base + offsets[i] : NULL;
    free(offsets);
    if (error == 0) {
        window->provider_data = memory;
        return MPI_SUCCESS;
    }
    free(memory);
    return print_failure(request, size, error);
}

static int allocate(struct window *window, const struct window_request *request)
{
    int32_t error = MPI_SUCCESS;
    const void *all;
    if (window->group->rank == 0)
        error = allocate_all(window, request);
    int result = agreement_allgather(request->agreement, &error, sizeof(error), &all);
    if (result == MPI_SUCCESS)
        result = *(const int32_t *)all; /* rank 0's */
    if (result == MPI_SUCCESS)
        window->base = window->rma_shared->rank[window->group->rank].base;
    return result;
}

static int free_memory(struct window *window)
{
    struct memory *memory = window->provider_data;
    if (!memory)
        return MPI_SUCCESS;
    if (memory->mapped)
        munmap(memory->mapping, memory->mapped);
    else
        free(memory->base);
    free(memory);
    return MPI_SUCCESS;
}

const struct window_provider provider_space = {
    .name = "space",
    .accepts = accepts,
    .allocate = allocate,
    .free = free_memory,
};
