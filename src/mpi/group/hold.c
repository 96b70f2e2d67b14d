/* src/mpi/group/hold.c: see hold.h. One import per task, however many windows, since the space
 * counts imports in few bits. The mutex is held across calls of libonespace, never across MPI. */
#include "mpi/group/hold.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "onespace.h"

#define EXPORT_NAME "onespace-mpi"
enum { IMPORT_TIMEOUT_MS = 10000 };

struct hold {
    int id;
    unsigned count;
    struct hold *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct hold *holds;

int hold_offer(void)
{
    static int offered;
    static _Atomic int is_done; /* set by any thread that has found it done; relaxed would do */
    int result = is_done ? 0 : onespace_export(EXPORT_NAME, &offered, sizeof(offered));
    if (result == -EEXIST)
        result = 0;
    if (result == 0)
        is_done = 1;
    return result;
}

static struct hold **find(int id)
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

int hold_acquire(int id)
{
    int result = 0;
    if (id == onespace_self())
        return 0;
    pthread_mutex_lock(&mutex);
    struct hold **at = find(id);
    if (*at)
        (*at)->count++;
    else
        result = import_first(at, id);
    pthread_mutex_unlock(&mutex);
    return result;
}

void hold_release(int id)
{
    if (id == onespace_self())
        return;
    pthread_mutex_lock(&mutex);
    struct hold **at = find(id), *hold = *at;
    if (hold && --hold->count == 0) {
        *at = hold->next;
        free(hold);
        (void)!onespace_release(id);
    }
    pthread_mutex_unlock(&mutex);
}
