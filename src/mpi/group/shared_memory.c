/* src/mpi/group/shared_memory.c: memory of rank 0 that all ranks use, and holds on the memory of
 * other tasks. */
#include "mpi/group/group.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "onespace.h"

/* ---- Shared blocks ---- */

struct shared_block {                                   /* precedes the block */
    _Alignas(SHARED_BLOCK_ALIGN) _Atomic uint32_t left; /* the others add (release); the owner reads
                                                    (acquire) before it frees */
    uint32_t others;
    struct shared_block *next; /* in `retired` */
    void *allocation;          /* the address to free, or to unmap */
    size_t mapped;             /* bytes to unmap; 0: the heap's */
};

static pthread_mutex_t retired_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct shared_block *retired;

static struct shared_block *head_of(void *block)
{
    return (struct shared_block *)block - 1;
}

/* Zeroed. */
static void *allocate(size_t size, size_t *mapped)
{
    *mapped = 0;
    if (!task_is_guarded())
        return calloc(1, size);
    *mapped = size;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void release_block(const struct shared_block *shared)
{
    if (shared->mapped)
        munmap(shared->allocation, shared->mapped);
    else
        free(shared->allocation);
}

static void free_unused(void)
{
    pthread_mutex_lock(&retired_mutex);
    for (struct shared_block **at = &retired; *at;) {
        struct shared_block *shared = *at;
        if (atomic_load_explicit(&shared->left, memory_order_acquire) != shared->others) {
            at = &shared->next;
            continue;
        }
        *at = shared->next;
        release_block(shared);
    }
    pthread_mutex_unlock(&retired_mutex);
}

/* calloc skips clearing fresh pages, so each rank is the first to touch its part of the block, and
 * unused pages take no memory. */
void *shared_block_alloc(size_t size, int others)
{
    free_unused();
    size_t mapped;
    void *allocated = allocate(sizeof(struct shared_block) + size + SHARED_BLOCK_ALIGN, &mapped);
    if (!allocated)
        return NULL;
    struct shared_block *shared =
        (struct shared_block *)(((uintptr_t)allocated + SHARED_BLOCK_ALIGN - 1) &
                                -(uintptr_t)SHARED_BLOCK_ALIGN);
    shared->allocation = allocated;
    shared->mapped = mapped;
    shared->others = (uint32_t)others;
    return shared + 1;
}

void shared_block_leave(void *block)
{
    atomic_fetch_add_explicit(&head_of(block)->left, 1, memory_order_release);
}

void shared_block_retire(void *block)
{
    struct shared_block *shared = head_of(block);
    pthread_mutex_lock(&retired_mutex);
    shared->next = retired;
    retired = shared;
    pthread_mutex_unlock(&retired_mutex);
    free_unused();
}

void shared_block_free(void *block)
{
    if (block)
        release_block(head_of(block));
}

/* ---- Holds ---- */

/* One import per task, whatever the number of windows: the space's import counter is narrow. The
 * mutex is held across calls of libonespace, never across MPI. */

#define EXPORT_NAME "onespace-mpi"
enum { IMPORT_TIMEOUT_MS = 10000 };

struct hold {
    int id;
    unsigned count;
    struct hold *next;
};

static pthread_mutex_t holds_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct hold *holds;

int task_hold_enable(void)
{
    static int offered;
    static _Atomic int is_done; /* set by any thread; relaxed would suffice */
    int result = is_done ? 0 : onespace_export(EXPORT_NAME, &offered, sizeof(offered));
    if (result == -EEXIST)
        result = 0;
    if (result == 0)
        is_done = 1;
    return result;
}

static struct hold **find_hold(int id)
{
    struct hold **at = &holds;
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    return at;
}

static int import_first(struct hold **at, int id)
{
    struct hold *hold = calloc(1, sizeof(*hold));
    void *address;
    int result =
        hold ? onespace_import(id, EXPORT_NAME, &address, NULL, IMPORT_TIMEOUT_MS) : -ENOMEM;
    if (result < 0) {
        free(hold);
        return result;
    }
    hold->id = id;
    hold->count = 1;
    *at = hold;
    return 0;
}

int task_hold_acquire(int id)
{
    int result = 0;
    if (id == onespace_self())
        return 0;
    pthread_mutex_lock(&holds_mutex);
    struct hold **at = find_hold(id);
    if (*at)
        (*at)->count++;
    else
        result = import_first(at, id);
    pthread_mutex_unlock(&holds_mutex);
    return result;
}

void task_hold_release(int id)
{
    if (id == onespace_self())
        return;
    pthread_mutex_lock(&holds_mutex);
    struct hold **at = find_hold(id), *hold = *at;
    if (hold && --hold->count == 0) {
        *at = hold->next;
        free(hold);
        (void)!onespace_release(id);
    }
    pthread_mutex_unlock(&holds_mutex);
}
