/* src/mpi/group/shared.c: see shared.h. */
#include "mpi/group/shared.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "mpi/group/space.h"

struct shared {                                  /* in front of the block */
    _Alignas(SHARED_LINE) _Atomic uint32_t left; /* the others add (release); the owner reads
                                                    (acquire) before it frees */
    uint32_t others;
    struct shared *next; /* of the retired */
    void *allocated;     /* what to free: it begins up to a line before */
    size_t mapped;       /* its bytes, if it is to be unmapped instead */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct shared *retired;

static struct shared *head_of(void *block)
{
    return (struct shared *)block - 1;
}

/* Zeroed. */
static void *allocate(size_t size, size_t *mapped)
{
    *mapped = 0;
    if (!space_is_guarded())
        return calloc(1, size);
    *mapped = size;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void give_back(const struct shared *shared)
{
    if (shared->mapped)
        munmap(shared->allocated, shared->mapped);
    else
        free(shared->allocated);
}

static void free_left(void)
{
    pthread_mutex_lock(&mutex);
    for (struct shared **at = &retired; *at;) {
        struct shared *shared = *at;
        if (atomic_load_explicit(&shared->left, memory_order_acquire) != shared->others) {
            at = &shared->next;
            continue;
        }
        *at = shared->next;
        give_back(shared);
    }
    pthread_mutex_unlock(&mutex);
}

/* calloc knows which memory is new, and so zero: each rank is the first to touch its part of it,
 * and what is not used takes no room. */
void *shared_new(size_t size, int others)
{
    free_left();
    size_t mapped;
    void *allocated = allocate(sizeof(struct shared) + size + SHARED_LINE, &mapped);
    if (!allocated)
        return NULL;
    struct shared *shared =
        (struct shared *)(((uintptr_t)allocated + SHARED_LINE - 1) & -(uintptr_t)SHARED_LINE);
    shared->allocated = allocated;
    shared->mapped = mapped;
    shared->others = (uint32_t)others;
    return shared + 1;
}

void shared_leave(void *block)
{
    atomic_fetch_add_explicit(&head_of(block)->left, 1, memory_order_release);
}

void shared_retire(void *block)
{
    struct shared *shared = head_of(block);
    pthread_mutex_lock(&mutex);
    shared->next = retired;
    retired = shared;
    pthread_mutex_unlock(&mutex);
    free_left();
}

void shared_free(void *block)
{
    if (block)
        give_back(head_of(block));
}
