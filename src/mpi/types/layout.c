/* src/mpi/types/layout.c: keeps the layouts of the types that were used. */
#include "mpi/types/types.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* The layouts of all derived types that were asked for and not freed since, each with a reference.
 * The mutex orders lookups with what takes them away; it is never held across a call of MPI. */
static struct handles described = HANDLES_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* How often a type was forgotten: layouts_forget() adds before MPI can give the handle to another
 * type (release); threads read it (acquire) to know whether what they remember is still true. */
static _Atomic uint64_t forgotten;

/* What this thread found last, each with a reference: nobody frees what a call of this thread uses,
 * even if another thread frees its own reference to the same type meanwhile. */
enum { RECENT = 8 };
struct recent {
    MPI_Datatype type;
    struct layouts *layouts; /* NULL: unused */
    uint64_t forgotten;      /* when they were found */
};
static _Thread_local struct {
    struct recent recent[RECENT];
    unsigned oldest, last; /* to be replaced next; found last */
} mine;

void layouts_free(struct layouts *layouts)
{
    if (!layouts)
        return;
    if (layouts->whole.loops != layouts->bytes.loops)
        free(layouts->whole.loops);
    free(layouts->bytes.loops);
    free(layouts);
}

/* The last reference is given up after all use of what it refers to (acquire and release). */
static void drop(struct layouts *layouts)
{
    if (layouts && atomic_fetch_sub_explicit(&layouts->references, 1, memory_order_acq_rel) == 1)
        layouts_free(layouts);
}

/* The thread ends. */
static void drop_all(void *recent)
{
    struct recent *first = recent;
    for (unsigned i = 0; i < RECENT; i++) {
        drop(first[i].layouts);
        first[i].layouts = NULL;
    }
}

static pthread_key_t end_of_thread;
static int has_key; /* else what a thread remembers is not freed at its end */

static void make_key(void)
{
    has_key = pthread_key_create(&end_of_thread, drop_all) == 0;
}

/* Keeps the reference in the place of the one that was found longest ago. A call finds five layouts
 * at most, MPI_Alltoallw excepted: there another thread may not free a reference meanwhile. */
static void remember(MPI_Datatype type, struct layouts *layouts, uint64_t now)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct recent *slot = &mine.recent[mine.last = mine.oldest];
    mine.oldest = (mine.oldest + 1) % RECENT;
    if (!slot->layouts) /* perhaps this thread's first */
        pthread_once(&once, make_key);
    if (!slot->layouts && has_key)
        pthread_setspecific(end_of_thread, mine.recent);
    drop(slot->layouts);
    *slot = (struct recent){type, layouts, now};
}

static size_t whole_size(const struct basic *element, size_t size)
{
    return size / element->size * element->extent;
}

static int has_gaps(const struct basic *element)
{
    return element && !types_is_dense(element);
}

static int describe(MPI_Datatype type, struct layouts *layouts)
{
    const struct basic *element;
    MPI_Count size;
    MPI_Aint lower = 0, extent = 0;
    int result = real()->Type_size_x(type, &size);
    if (result == MPI_SUCCESS)
        result = real()->Type_get_true_extent(type, &lower, &extent);
    if (result == MPI_SUCCESS)
        result = build_layout(type, 0, &layouts->bytes, &element);
    if (result != MPI_SUCCESS)
        return result;
    layouts->element = element;
    layouts->lower = lower;
    layouts->upper = lower + extent;
    layouts->bytes.size = (size_t)size;
    layouts->whole = layouts->bytes;
    if (!has_gaps(element))
        return MPI_SUCCESS;
    result = build_layout(type, 1, &layouts->whole, &element);
    if (result != MPI_SUCCESS)
        layouts->whole = layouts->bytes; /* to be freed once */
    else
        layouts->whole.size = whole_size(element, layouts->bytes.size);
    return result;
}

/* With a reference for the caller; NULL: not there. The mutex is held. */
static struct layouts *take(MPI_Datatype type)
{
    struct layouts *layouts = handles_find(&described, (uintptr_t)type);
    if (layouts)
        atomic_fetch_add_explicit(&layouts->references, 1, memory_order_relaxed);
    return layouts;
}

/* What the caller made: another thread may have described the type meanwhile. */
static int publish(MPI_Datatype type, struct layouts **layouts)
{
    pthread_mutex_lock(&mutex);
    struct layouts *other = take(type);
    int error = other ? MPI_SUCCESS : handles_add(&described, (uintptr_t)type, *layouts);
    pthread_mutex_unlock(&mutex);
    if (other || error != MPI_SUCCESS) {
        layouts_free(*layouts);
        *layouts = other;
    }
    return error;
}

static int make(MPI_Datatype type, struct layouts **made)
{
    struct layouts *layouts = calloc(1, sizeof(*layouts));
    int error = layouts ? describe(type, layouts) : MPI_ERR_NO_MEM;
    if (error != MPI_SUCCESS) {
        layouts_free(layouts);
        return error;
    }
    layouts->references = 2; /* the table's and the caller's */
    *made = layouts;
    return publish(type, made);
}

static struct layouts *look_up(MPI_Datatype type)
{
    if (!handles_find(&described, (uintptr_t)type))
        return NULL;
    pthread_mutex_lock(&mutex);
    struct layouts *found = take(type);
    pthread_mutex_unlock(&mutex);
    return found;
}

/* What this thread has found before; NULL: nothing that is still true. */
static const struct layouts *recall(MPI_Datatype type, uint64_t now)
{
    unsigned at = mine.last;
    for (unsigned i = 0; i < RECENT; i++, at = (at + RECENT - 1) % RECENT) {
        struct recent *slot = &mine.recent[at];
        if (slot->type == type && slot->forgotten == now && slot->layouts) {
            mine.last = at;
            return slot->layouts;
        }
    }
    return NULL;
}

int layouts_find(MPI_Datatype type, const struct layouts **layouts)
{
    const struct basic *basic = types_known(type);
    uint64_t now = atomic_load_explicit(&forgotten, memory_order_acquire);
    if (!basic && (*layouts = recall(type, now)))
        return MPI_SUCCESS;
    struct layouts *found = basic ? NULL : look_up(type);
    if (!basic && !found)
        basic = types_basic(type);
    int error = basic || found ? MPI_SUCCESS : make(type, &found);
    if (found)
        remember(type, found, now);
    *layouts = basic ? basic->layouts : found;
    return error;
}

int layouts_check_committed(MPI_Datatype type, const struct layouts *layouts)
{
    _Atomic int *is_committed = &((struct layouts *)layouts)->is_committed;
    if (atomic_load_explicit(is_committed, memory_order_relaxed))
        return MPI_SUCCESS;
    MPI_Comm comm = private_communicator();
    if (comm == MPI_COMM_NULL)
        return MPI_SUCCESS;
    /* No function tells, but both libraries check the type of a gather of nothing. */
    if (real()->Gather(NULL, 0, type, NULL, 0, type, 0, comm) != MPI_SUCCESS)
        return MPI_ERR_TYPE;
    atomic_store_explicit(is_committed, 1, memory_order_relaxed);
    return MPI_SUCCESS;
}

void layouts_forget(MPI_Datatype type)
{
    if (!handles_find(&described, (uintptr_t)type))
        return;
    pthread_mutex_lock(&mutex);
    struct layouts *layouts = handles_find(&described, (uintptr_t)type);
    if (layouts) {
        handles_remove(&described, (uintptr_t)type);
        atomic_fetch_add_explicit(&forgotten, 1, memory_order_release);
    }
    pthread_mutex_unlock(&mutex);
    drop(layouts);
}

struct layouts *layouts_of_basic(const struct basic *basic)
{
    MPI_Aint lower = 0, extent = 0;
    struct layouts *layouts = calloc(1, sizeof(*layouts));
    if (!layouts || real()->Type_get_true_extent(basic->type, &lower, &extent) != MPI_SUCCESS ||
        build_basic(basic, 0, &layouts->bytes) != MPI_SUCCESS) {
        free(layouts);
        return NULL;
    }
    layouts->element = basic;
    layouts->lower = lower;
    layouts->upper = lower + extent;
    layouts->bytes.size = basic->size;
    layouts->whole = layouts->bytes;
    if (has_gaps(basic) && build_basic(basic, 1, &layouts->whole) != MPI_SUCCESS) {
        layouts_free(layouts);
        return NULL;
    }
    layouts->whole.size = basic->size ? whole_size(basic, basic->size) : 0;
    return layouts;
}
