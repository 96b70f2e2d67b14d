/* src/mpi/window/table.c: finds the window of a handle, and lists all windows. */
#include "mpi/real/handles.h"
#include "mpi/window/window.h"

static struct handles handles = HANDLES_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of the list */
static struct window *first, **last = &first;

static uintptr_t key_of(MPI_Win handle)
{
    return (uintptr_t)handle;
}

struct window *window_find(MPI_Win handle)
{
    return handles_find(&handles, key_of(handle));
}

int window_add(struct window *window)
{
    int result = handles_add(&handles, key_of(window->handle), window);
    if (result != MPI_SUCCESS)
        return result;
    pthread_mutex_lock(&mutex);
    window->next = NULL;
    *last = window;
    last = &window->next;
    pthread_mutex_unlock(&mutex);
    return result;
}

void window_remove(struct window *window)
{
    handles_remove(&handles, key_of(window->handle));
    pthread_mutex_lock(&mutex);
    struct window **at = &first;
    while (*at && *at != window)
        at = &(*at)->next;
    if (*at) {
        *at = window->next;
        if (last == &window->next)
            last = at;
    }
    pthread_mutex_unlock(&mutex);
}

/* Only MPI_Finalize walks the list, when no other thread may call MPI. */
int windows_each(int (*function)(struct window *window))
{
    int outcome = MPI_SUCCESS;
    for (struct window *window = first, *next; window; window = next) {
        next = window->next;
        int result = function(window);
        if (outcome == MPI_SUCCESS)
            outcome = result;
    }
    return outcome;
}
