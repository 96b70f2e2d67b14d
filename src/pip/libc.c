/* src/pip/libc.c: Process-in-Process' wrappers of malloc and dlopen. It declares but does not
 * document them. */
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>

#include "onespace.h"
#include "state.h"

/* ---- Memory ----
 *
 * A block belongs to the libc of the task that allocated it, and only that task's threads may free
 * it. pip_free pushes another member's block on that member's list. The member frees the list at
 * its next call. A block is at least as large as a pointer. */

static void free_returned(void)
{
    struct record *self = state_self();
    /* Acquire pairs with the release of the push: the links are complete. */
    void *block = self && atomic_load_explicit(&self->returned, memory_order_relaxed)
                      ? atomic_exchange_explicit(&self->returned, NULL, memory_order_acquire)
                      : NULL;
    while (block) {
        void *next = *(void **)block;
        free(block);
        block = next;
    }
}

static void push_returned(struct record *owner, void *block)
{
    void *newest = atomic_load_explicit(&owner->returned, memory_order_relaxed);
    do
        *(void **)block = newest;
    while (!atomic_compare_exchange_weak_explicit(&owner->returned, &newest, block,
                                                  memory_order_release, memory_order_relaxed));
}

void pip_free(void *memory)
{
    free_returned();
    int owner = memory ? onespace_owner(memory) : 0;
    if (!memory || !state_self() || owner == onespace_self()) {
        free(memory);
        return;
    }
    struct record *record = owner >= 0 ? state_record_of(state_mine(), owner) : NULL;
    if (record && state_is_alive(record))
        push_returned(record, memory);
    else if (!record)
        pip_err_mesg("pip_free: %p is not a member's memory", memory);
    /* An ended task's memory is unmapped as a whole. */
}

void *pip_malloc(size_t size)
{
    free_returned();
    return malloc(size);
}

void *pip_calloc(size_t count, size_t size)
{
    free_returned();
    return calloc(count, size);
}

void *pip_realloc(void *memory, size_t size)
{
    free_returned();
    if (!memory || !state_self() || onespace_owner(memory) == onespace_self())
        return realloc(memory, size);
    void *copy = malloc(size);
    if (!copy)
        return NULL;
    size_t old = malloc_usable_size(memory);
    memcpy(copy, memory, old < size ? old : size);
    pip_free(memory);
    return copy;
}

int pip_posix_memalign(void **memory, size_t alignment, size_t size)
{
    free_returned();
    return posix_memalign(memory, alignment, size);
}

size_t pip_malloc_usable_size(void *memory)
{
    return malloc_usable_size(memory);
}

/* ---- Dynamic linking: the caller's own ---- */

void *pip_dlopen(const char *file, int flags)
{
    return dlopen(file, flags);
}

void *pip_dlopen_unsafe(const char *file, int flags)
{
    return dlopen(file, flags);
}

void *pip_dlmopen(long space, const char *file, int flags)
{
    return dlmopen(space, file, flags);
}

void *pip_dlsym(void *handle, const char *symbol)
{
    return dlsym(handle, symbol);
}

void *pip_dlsym_unsafe(void *handle, const char *symbol)
{
    return dlsym(handle, symbol);
}

int pip_dlclose(void *handle)
{
    return dlclose(handle);
}

char *pip_dlerror(void)
{
    return dlerror();
}

int pip_dlinfo(void *handle, int request, void *info)
{
    return dlinfo(handle, request, info);
}
