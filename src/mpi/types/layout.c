/* src/mpi/types/layout.c: see layout.h. */
#include "mpi/types/layout.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "mpi/types/build.h"

/* What publish() is setting on this thread. */
static _Thread_local struct layouts *publishing;

/* How many layouts were deleted: delete() adds before MPI can give their handles to other types
 * (release); threads read it (acquire) to know whether what they remember is still true. */
static _Atomic uint64_t deletions;

/* What this thread found last, by type: asking MPI costs more than a small transfer. */
enum { RECENT_BITS = 2 };
static _Thread_local struct recent {
    MPI_Datatype type;
    const struct layouts *layouts; /* NULL: unused */
    uint64_t deletions;            /* when they were found */
} recent[1 << RECENT_BITS];

void layouts_free(struct layouts *layouts)
{
    while (layouts) {
        struct layouts *replaced = layouts->replaced;
        if (layouts->whole.loops != layouts->bytes.loops)
            free(layouts->whole.loops);
        free(layouts->bytes.loops);
        free(layouts);
        layouts = replaced;
    }
}

/* The type is deleted, or its attribute is replaced by what this thread publishes. */
static int delete (MPI_Datatype type, int key, void *value, void *extra)
{
    (void)type, (void)key, (void)extra;
    if (publishing) {
        publishing->replaced = value;
        return MPI_SUCCESS;
    }
    atomic_fetch_add_explicit(&deletions, 1, memory_order_release);
    layouts_free(value);
    return MPI_SUCCESS;
}

static int copy_nothing(MPI_Datatype type, int key, void *extra, void *value, void *copy, int *flag)
{
    (void)type, (void)key, (void)extra, (void)value, (void)copy;
    *flag = 0;
    return MPI_SUCCESS;
}

/* The attribute's key; MPI_KEYVAL_INVALID: *error. The first thread publishes its own (release);
 * all use that (acquire). */
static int find_key(int *error)
{
    static _Atomic int published = MPI_KEYVAL_INVALID;
    int key = atomic_load_explicit(&published, memory_order_acquire), none = MPI_KEYVAL_INVALID;
    if (key != MPI_KEYVAL_INVALID)
        return key;
    *error = real()->Type_create_keyval(copy_nothing, delete, &key, NULL);
    if (*error != MPI_SUCCESS)
        return MPI_KEYVAL_INVALID;
    if (atomic_compare_exchange_strong_explicit(&published, &none, key, memory_order_acq_rel,
                                                memory_order_acquire))
        return key;
    real()->Type_free_keyval(&key);
    return none;
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
    int result = real()->Type_size_x(type, &size);
    if (result == MPI_SUCCESS)
        result = build_layout(type, 0, &layouts->bytes, &element);
    if (result != MPI_SUCCESS)
        return result;
    layouts->element = element;
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

/* Two threads may describe one type at the same time. Each uses what it made, so the second to set
 * the attribute keeps the first's, until the type is deleted. */
static int publish(MPI_Datatype type, int key, struct layouts *layouts)
{
    publishing = layouts;
    int result = real()->Type_set_attr(type, key, layouts);
    publishing = NULL;
    return result;
}

static int make(MPI_Datatype type, int key, const struct layouts **made)
{
    struct layouts *layouts = calloc(1, sizeof(*layouts));
    int error = layouts ? describe(type, layouts) : MPI_ERR_NO_MEM;
    if (error == MPI_SUCCESS)
        error = publish(type, key, layouts);
    if (error == MPI_SUCCESS)
        *made = layouts;
    else
        layouts_free(layouts);
    return error;
}

/* As MPI knows them, or made now. */
static int ask(MPI_Datatype type, const struct layouts **layouts)
{
    void *found;
    int is_there = 0, error = MPI_SUCCESS, key = find_key(&error);
    if (key == MPI_KEYVAL_INVALID)
        return error;
    error = real()->Type_get_attr(type, key, &found, &is_there);
    if (error != MPI_SUCCESS)
        return error;
    const struct basic *basic = is_there ? NULL : types_basic(type);
    if (!is_there && !basic)
        return make(type, key, layouts);
    *layouts = basic ? basic->layouts : found;
    return MPI_SUCCESS;
}

int layouts_find(MPI_Datatype type, const struct layouts **layouts)
{
    const struct basic *basic = types_known(type);
    if (basic) {
        *layouts = basic->layouts;
        return MPI_SUCCESS;
    }
    struct recent *last = &recent[real_hash((uintptr_t)type, RECENT_BITS)];
    uint64_t now = atomic_load_explicit(&deletions, memory_order_acquire);
    if (last->layouts && last->type == type && last->deletions == now) {
        *layouts = last->layouts;
        return MPI_SUCCESS;
    }
    *layouts = NULL;
    int error = ask(type, layouts);
    *last = (struct recent){type, *layouts, now};
    return error;
}

struct layouts *layouts_of_basic(const struct basic *basic)
{
    struct layouts *layouts = calloc(1, sizeof(*layouts));
    if (!layouts || build_basic(basic, 0, &layouts->bytes) != MPI_SUCCESS) {
        free(layouts);
        return NULL;
    }
    layouts->element = basic;
    layouts->bytes.size = basic->size;
    layouts->whole = layouts->bytes;
    if (has_gaps(basic) && build_basic(basic, 1, &layouts->whole) != MPI_SUCCESS) {
        layouts_free(layouts);
        return NULL;
    }
    layouts->whole.size = basic->size ? whole_size(basic, basic->size) : 0;
    return layouts;
}
