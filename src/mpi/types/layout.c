/* src/mpi/types/layout.c: keeps the layouts of the types that were used. */
#include "mpi/types/types.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* The layouts of all derived types in use, each with a reference. The mutex orders lookups and
 * removals; it is never held across a call of MPI. */
static struct handle_table cache = HANDLE_TABLE_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* How often a type was generation: type_layout_forget() adds before MPI can give the handle to
 * another type (release); threads read it (acquire) to know whether what they remember is still
 * true. */
static _Atomic uint64_t generation;

/* The layouts that this thread found last, each with a reference: a layout stays valid during a
 * call of this thread, even if another thread frees its own reference to the type meanwhile. */
enum { RECENT = 8 };
struct recent {
    MPI_Datatype type;
    struct type_layout *layout; /* NULL: unused */
    uint64_t generation;        /* at which it was found */
    uint64_t last_use;          /* `uses` when it was last found */
};
static _Thread_local struct {
    struct recent recent[RECENT];
    uint64_t uses; /* of all entries so far */
    unsigned last; /* index of the entry found last */
} self;

void type_layout_free(struct type_layout *layout)
{
    if (!layout)
        return;
    if (layout->whole.loops != layout->bytes.loops)
        free(layout->whole.loops);
    free(layout->bytes.loops);
    free(layout);
}

/* Acquire-release: the last reference is dropped after all uses of the layout. */
static void unref(struct type_layout *layout)
{
    if (layout && atomic_fetch_sub_explicit(&layout->references, 1, memory_order_acq_rel) == 1)
        type_layout_free(layout);
}

/* The thread ends. */
static void unref_all(void *recent)
{
    struct recent *first = recent;
    for (unsigned i = 0; i < RECENT; i++) {
        unref(first[i].layout);
        first[i].layout = NULL;
    }
}

static pthread_key_t end_of_thread;
static int has_key; /* without it a thread's references are not dropped at its end */

static void make_key(void)
{
    has_key = pthread_key_create(&end_of_thread, unref_all) == 0;
}

/* Keeps the reference in place of the one that was used least recently. A call finds at most five
 * layouts, except MPI_Alltoallw: during that, another thread must not free a reference. */
static void add_recent(MPI_Datatype type, struct type_layout *layout, uint64_t now)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    unsigned oldest = 0;
    for (unsigned i = 1; i < RECENT; i++)
        if (self.recent[i].last_use < self.recent[oldest].last_use)
            oldest = i;
    struct recent *slot = &self.recent[self.last = oldest];
    if (!slot->layout) /* perhaps this thread's first */
        pthread_once(&once, make_key);
    if (!slot->layout && has_key)
        pthread_setspecific(end_of_thread, self.recent);
    unref(slot->layout);
    *slot = (struct recent){type, layout, now, ++self.uses};
}

static size_t whole_size(const struct predefined_type *element, size_t size)
{
    return size / element->size * element->extent;
}

static int has_gaps(const struct predefined_type *element)
{
    return element && !predefined_type_is_dense(element);
}

static int build(MPI_Datatype type, struct type_layout *layout)
{
    const struct predefined_type *element;
    MPI_Count size;
    MPI_Aint lower = 0, extent = 0;
    int result = pmpi()->Type_size_x(type, &size);
    if (result == MPI_SUCCESS)
        result = pmpi()->Type_get_true_extent(type, &lower, &extent);
    if (result == MPI_SUCCESS)
        result = loop_nest_build(type, 0, &layout->bytes, &element);
    if (result != MPI_SUCCESS)
        return result;
    layout->element = element;
    layout->lower = lower;
    layout->upper = lower + extent;
    layout->bytes.size = (size_t)size;
    layout->whole = layout->bytes;
    if (!has_gaps(element))
        return MPI_SUCCESS;
    result = loop_nest_build(type, 1, &layout->whole, &element);
    if (result != MPI_SUCCESS)
        layout->whole = layout->bytes; /* to be freed once */
    else
        layout->whole.size = whole_size(element, layout->bytes.size);
    return result;
}

/* Returns a reference, or NULL. The caller holds the mutex. */
static struct type_layout *ref(MPI_Datatype type)
{
    struct type_layout *layout = handle_table_find(&cache, (uintptr_t)type);
    if (layout)
        atomic_fetch_add_explicit(&layout->references, 1, memory_order_relaxed);
    return layout;
}

/* Another thread may have published a layout of the type meanwhile; then *layout becomes that. */
static int publish(MPI_Datatype type, struct type_layout **layout)
{
    pthread_mutex_lock(&mutex);
    struct type_layout *other = ref(type);
    int error = other ? MPI_SUCCESS : handle_table_add(&cache, (uintptr_t)type, *layout);
    pthread_mutex_unlock(&mutex);
    if (other || error != MPI_SUCCESS) {
        type_layout_free(*layout);
        *layout = other;
    }
    return error;
}

static int make(MPI_Datatype type, struct type_layout **made)
{
    struct type_layout *layout = calloc(1, sizeof(*layout));
    int error = layout ? build(type, layout) : MPI_ERR_NO_MEM;
    if (error != MPI_SUCCESS) {
        type_layout_free(layout);
        return error;
    }
    layout->references = 2; /* the table's and the caller's */
    *made = layout;
    return publish(type, made);
}

static struct type_layout *look_up(MPI_Datatype type)
{
    if (!handle_table_find(&cache, (uintptr_t)type))
        return NULL;
    pthread_mutex_lock(&mutex);
    struct type_layout *found = ref(type);
    pthread_mutex_unlock(&mutex);
    return found;
}

/* Searches this thread's recent layouts; NULL: none that is still valid. */
static const struct type_layout *find_recent(MPI_Datatype type, uint64_t now)
{
    unsigned at = self.last;
    for (unsigned i = 0; i < RECENT; i++, at = (at + RECENT - 1) % RECENT) {
        struct recent *slot = &self.recent[at];
        if (slot->type == type && slot->generation == now && slot->layout) {
            self.last = at;
            slot->last_use = ++self.uses;
            return slot->layout;
        }
    }
    return NULL;
}

int type_layout_find(MPI_Datatype type, const struct type_layout **layout)
{
    const struct predefined_type *predefined = predefined_type_known(type);
    uint64_t now = atomic_load_explicit(&generation, memory_order_acquire);
    if (!predefined && type == MPI_DATATYPE_NULL) /* the library would call another handler */
        return MPI_ERR_TYPE;
    if (!predefined && (*layout = find_recent(type, now)))
        return MPI_SUCCESS;
    struct type_layout *found = predefined ? NULL : look_up(type);
    if (!predefined && !found)
        predefined = predefined_type_of(type);
    int error = predefined || found ? MPI_SUCCESS : make(type, &found);
    if (found)
        add_recent(type, found, now);
    *layout = predefined ? predefined->layout : found;
    return error;
}

static int check_committed(MPI_Datatype type, const struct type_layout *layout)
{
    _Atomic int *is_committed = &((struct type_layout *)layout)->is_committed;
    if (atomic_load_explicit(is_committed, memory_order_relaxed))
        return MPI_SUCCESS;
    MPI_Comm comm = pmpi_self_comm();
    if (comm == MPI_COMM_NULL)
        return MPI_SUCCESS;
    /* MPI has no function for this, but both libraries check the type of a gather of no items. */
    if (pmpi()->Gather(NULL, 0, type, NULL, 0, type, 0, comm) != MPI_SUCCESS)
        return MPI_ERR_TYPE;
    atomic_store_explicit(is_committed, 1, memory_order_relaxed);
    return MPI_SUCCESS;
}

int type_layout_find_committed(MPI_Datatype type, const struct type_layout **layout)
{
    int error = type_layout_find(type, layout);
    return error == MPI_SUCCESS ? check_committed(type, *layout) : error;
}

void type_layout_forget(MPI_Datatype type)
{
    if (!handle_table_find(&cache, (uintptr_t)type))
        return;
    pthread_mutex_lock(&mutex);
    struct type_layout *layout = handle_table_find(&cache, (uintptr_t)type);
    if (layout) {
        handle_table_remove(&cache, (uintptr_t)type);
        atomic_fetch_add_explicit(&generation, 1, memory_order_release);
    }
    pthread_mutex_unlock(&mutex);
    unref(layout);
}

struct type_layout *type_layout_of_predefined(const struct predefined_type *predefined)
{
    MPI_Aint lower = 0, extent = 0;
    struct type_layout *layout = calloc(1, sizeof(*layout));
    if (!layout || pmpi()->Type_get_true_extent(predefined->type, &lower, &extent) != MPI_SUCCESS ||
        loop_nest_build_predefined(predefined, 0, &layout->bytes) != MPI_SUCCESS) {
        free(layout);
        return NULL;
    }
    layout->element = predefined;
    layout->lower = lower;
    layout->upper = lower + extent;
    layout->bytes.size = predefined->size;
    layout->whole = layout->bytes;
    if (has_gaps(predefined) &&
        loop_nest_build_predefined(predefined, 1, &layout->whole) != MPI_SUCCESS) {
        type_layout_free(layout);
        return NULL;
    }
    layout->whole.size = predefined->size ? whole_size(predefined, predefined->size) : 0;
    return layout;
}
