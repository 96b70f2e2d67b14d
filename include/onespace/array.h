/* onespace/array.h: arrays that tasks share by name, together with their type and shape.
 *
 * An array that a task publishes under NAME is two exports (see onespace_export): NAME is the
 * memory of its elements, and NAME "@array" is a struct onespace_array that describes them.
 * Python's onespace.export and onespace.import_array write and read the same structure, so C and
 * Python programs can share arrays in both directions.
 *
 *   owner     onespace_array_export ... onespace_array_unexport, onespace_array_users until 0
 *   others    onespace_array_view   ... onespace_array_release
 *
 * A view holds the owner's memory, even after the owner has ended. The owner may free or reuse the
 * elements once, after onespace_array_unexport, there are no users: each view is recorded in the
 * structure, and views of tasks that have ended no longer count. The structure may then describe
 * another array, but its memory must never be freed or used for anything else: a task that has
 * found the name before it was withdrawn may still be about to record a view there.
 *
 * Everything here is inline and calls only onespace.h, with the same conventions. Since 0.1.0. */
#ifndef ONESPACE_ARRAY_H
#define ONESPACE_ARRAY_H

#include <errno.h>
#include <onespace.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ONESPACE_ARRAY_SUFFIX     "@array"
#define ONESPACE_ARRAY_MAGIC      "1sArray" /* 8 bytes with the terminating zero */
#define ONESPACE_ARRAY_ABI        1u
#define ONESPACE_ARRAY_NAME_MAX   (ONESPACE_NAME_MAX - 6) /* bytes of an array's name */
#define ONESPACE_ARRAY_DIMENSIONS 64                      /* of an array at most */
#define ONESPACE_ARRAY_VIEWS      1024                    /* of an array at once */
#define ONESPACE_ARRAY_TYPE_MAX   32768 /* bytes of type[], with the terminating zero */

#define ONESPACE_ARRAY_READ_ONLY 1u /* flags: only the owner may write to it */

/* onespace_array.state */
enum { ONESPACE_ARRAY_LIVE = 1, ONESPACE_ARRAY_TAKEN_BACK = 2 };

/* An array. Filled in by the owner, in zeroed memory that all members can read, such as its heap;
 * others only read it, except `views`, which the owner leaves as they are when it fills in the
 * structure anew. */
struct onespace_array {
    char magic[8];       /* set by onespace_array_export, like the next two */
    uint32_t abi;        /* ONESPACE_ARRAY_ABI */
    uint32_t size;       /* bytes of this structure with type[] */
    uint64_t address;    /* of the element with all indices 0 */
    uint64_t low, bytes; /* the memory that contains all elements */
    uint64_t item_size;  /* bytes of an element */
    uint32_t flags;      /* ONESPACE_ARRAY_READ_ONLY */
    uint32_t dimensions;
    /* The type of an element, as in NumPy's array interface: i u signed and unsigned integers, f
     * floating point, c complex, b booleans, M m dates and time differences, S bytes, U UCS-4 text,
     * V structures and others. */
    char kind;
    char order; /* '<' little-endian, '>' big-endian, '|': not applicable */
    char reserved[6];
    uint64_t shape[ONESPACE_ARRAY_DIMENSIONS];  /* elements */
    int64_t strides[ONESPACE_ARRAY_DIMENSIONS]; /* bytes from one element to the next */
    /* Written by the owner, which then reads `views`; read by viewers after they have recorded
     * themselves in `views`. All are sequentially consistent, so that at least one of the two sees
     * the other. */
    uint32_t state;
    uint32_t reserved_word;
    int32_t views[ONESPACE_ARRAY_VIEWS]; /* ids of the viewers, -1 - id; 0: free */
    /* The complete type as Python text: "'<f8'", or for a structure the list of its fields,
     * "[('x', '<f4'), ('n', '<i8', (3,))]" (numpy.lib.format.dtype_to_descr). */
    char type[];
};

/* Validates the structure, and that its elements are within its memory: 0 or -EPROTO. `size` is the
 * one from onespace_import. Does not check that the memory is mapped. */
static inline int onespace_array_check(const struct onespace_array *array, size_t size)
{
    if (size < sizeof(*array) + 1 || memcmp(array->magic, ONESPACE_ARRAY_MAGIC, 8) != 0 ||
        array->abi != ONESPACE_ARRAY_ABI || array->size != size ||
        size > sizeof(*array) + ONESPACE_ARRAY_TYPE_MAX ||
        array->dimensions > ONESPACE_ARRAY_DIMENSIONS ||
        memchr(array->type, 0, size - sizeof(*array)) == NULL)
        return -EPROTO;
    for (uint32_t i = 0; i < array->dimensions; i++)
        if (array->shape[i] == 0)
            return 0; /* no elements */
    /* 128-bit arithmetic, and each product is bounded before it is added: nothing can overflow. */
    __extension__ typedef __int128 wide;
    wide first = (wide)array->address, last = first + (wide)array->item_size;
    const wide limit = (wide)1 << 64;
    for (uint32_t i = 0; i < array->dimensions; i++) {
        if (array->shape[i] > (uint64_t)INT64_MAX)
            return -EPROTO;
        wide span = (wide)(array->shape[i] - 1) * array->strides[i];
        if (span > limit || span < -limit)
            return -EPROTO;
        *(span < 0 ? &first : &last) += span;
    }
    return first >= (wide)array->low && last <= (wide)array->low + array->bytes ? 0 : -EPROTO;
}

static inline int onespace_array_name(const char *name, char full[ONESPACE_NAME_MAX + 1])
{
    if (name == NULL || *name == 0)
        return -EINVAL;
    if (strlen(name) > ONESPACE_ARRAY_NAME_MAX)
        return -ENAMETOOLONG;
    snprintf(full, ONESPACE_NAME_MAX + 1, "%s" ONESPACE_ARRAY_SUFFIX, name);
    return 0;
}

/* Publishes the array under a name of at most ONESPACE_ARRAY_NAME_MAX bytes. The elements stay the
 * caller's, who must keep them until onespace_array_users returns 0; the structure, see above,
 * until the end. -EPROTO: the structure is inconsistent; else the errors of onespace_export. */
ONESPACE_CHECK static inline int onespace_array_export(const char *name,
                                                       struct onespace_array *array)
{
    char full[ONESPACE_NAME_MAX + 1];
    int result = onespace_array_name(name, full);
    if (result < 0)
        return result;
    memcpy(array->magic, ONESPACE_ARRAY_MAGIC, 8);
    array->abi = ONESPACE_ARRAY_ABI;
    const char *end = (const char *)memchr(array->type, 0, ONESPACE_ARRAY_TYPE_MAX);
    array->size = (uint32_t)(sizeof(*array) + 1 +
                             (end ? (size_t)(end - array->type) : ONESPACE_ARRAY_TYPE_MAX));
    if ((result = onespace_array_check(array, array->size)) < 0)
        return result;
    __atomic_store_n(&array->state, ONESPACE_ARRAY_LIVE, __ATOMIC_SEQ_CST);
    result = onespace_export(name, (void *)(uintptr_t)array->low, array->bytes);
    if (result == 0 && (result = onespace_export(full, array, array->size)) < 0)
        (void)!onespace_unexport(name);
    return result;
}

/* Withdraws the array's name: there are no new views afterwards. -ENOENT. */
ONESPACE_CHECK static inline int onespace_array_unexport(const char *name,
                                                         struct onespace_array *array)
{
    char full[ONESPACE_NAME_MAX + 1];
    int result = onespace_array_name(name, full);
    if (result < 0)
        return result;
    __atomic_store_n(&array->state, ONESPACE_ARRAY_TAKEN_BACK, __ATOMIC_SEQ_CST);
    result = onespace_unexport(full);
    int other = onespace_unexport(name);
    return result < 0 ? result : other;
}

/* The number of views of the array in living members; stores up to `capacity` of their ids in
 * `ids`, which may be NULL. */
static inline int onespace_array_users(const struct onespace_array *array, int *ids, int capacity)
{
    int count = 0;
    for (int i = 0; i < ONESPACE_ARRAY_VIEWS; i++) {
        int32_t view = __atomic_load_n(&array->views[i], __ATOMIC_SEQ_CST);
        if (view == 0 || onespace_is_member(-1 - view) <= 0)
            continue;
        if (count < capacity && ids != NULL)
            ids[count] = -1 - view;
        count++;
    }
    return count;
}

/* Records a view of the calling member: 0, -ENOENT if the array was withdrawn, -ENOSPC if there are
 * ONESPACE_ARRAY_VIEWS views. */
static inline int onespace_array_note(struct onespace_array *array)
{
    int32_t mine = -1 - onespace_self();
    for (int i = 0; i < ONESPACE_ARRAY_VIEWS; i++) {
        int32_t seen = __atomic_load_n(&array->views[i], __ATOMIC_RELAXED);
        if (seen != 0 && onespace_is_member(-1 - seen) > 0)
            continue;
        if (!__atomic_compare_exchange_n(&array->views[i], &seen, mine, 0, __ATOMIC_SEQ_CST,
                                         __ATOMIC_RELAXED))
            continue;
        if (__atomic_load_n(&array->state, __ATOMIC_SEQ_CST) == ONESPACE_ARRAY_LIVE)
            return 0;
        __atomic_store_n(&array->views[i], 0, __ATOMIC_SEQ_CST);
        return -ENOENT;
    }
    return -ENOSPC;
}

/* Releases a view. -EINVAL: the caller has none of this array. */
static inline int onespace_array_release(int id, struct onespace_array *array)
{
    int32_t mine = -1 - onespace_self();
    for (int i = 0; i < ONESPACE_ARRAY_VIEWS; i++) {
        int32_t seen = mine;
        if (__atomic_load_n(&array->views[i], __ATOMIC_RELAXED) == mine &&
            __atomic_compare_exchange_n(&array->views[i], &seen, 0, 0, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED))
            return onespace_release(id); /* last: it may unmap the structure */
    }
    return -EINVAL;
}

/* Whether `view` is what task `id` publishes under the full name now: 0; -ENOENT if it was
 * withdrawn meanwhile; or another error of onespace_import. */
static inline int onespace_array_confirm(int id, const char *full,
                                         const struct onespace_array *view, size_t view_size)
{
    void *found = NULL;
    size_t size = 0;
    int result = onespace_import(id, full, &found, &size, 0);
    if (result == 0)
        (void)!onespace_release(id);
    if (result == -ETIMEDOUT || result == -EDEADLK)
        return -ENOENT;
    return result == 0 && (found != (const void *)view || size != view_size) ? -ENOENT : result;
}

/* The structure may be withdrawn, and describe another array, until a view is recorded and the name
 * is then found to lead there. -ENOENT: it was. */
static inline int onespace_array_try(int id, const char *name, const char *full,
                                     struct onespace_array **array, int timeout_ms)
{
    void *found = NULL, *elements = NULL;
    size_t size = 0, bytes = 0;
    int result = onespace_import(id, full, &found, &size, timeout_ms);
    if (result < 0)
        return result;
    struct onespace_array *view = (struct onespace_array *)found;
    if ((result = onespace_array_check(view, size)) < 0) {
        int confirmed = onespace_array_confirm(id, full, view, size);
        (void)!onespace_release(id);
        return confirmed < 0 ? confirmed : result;
    }
    if ((result = onespace_array_note(view)) < 0) {
        (void)!onespace_release(id);
        return result;
    }
    if ((result = onespace_array_confirm(id, full, view, size)) == 0 &&
        (result = onespace_array_check(view, size)) == 0)
        result = onespace_import(id, name, &elements, &bytes, 0);
    if (result == 0)
        (void)!onespace_release(id);
    if (result == 0 && ((uintptr_t)elements != view->low || bytes != view->bytes))
        result = -EPROTO;
    if (result == -ETIMEDOUT || result == -EDEADLK) /* withdrawn meanwhile */
        result = -ENOENT;
    if (result < 0)
        (void)onespace_array_release(id, view);
    else
        *array = view;
    return result;
}

/* Creates a view of the array that task `id` publishes under `name`; waits until it does, for
 * timeout_ms at most, which begins anew if the name is withdrawn just then. *array and the elements
 * are valid until onespace_array_release. The errors of onespace_import; -EPROTO: the structure is
 * inconsistent, or its memory is not the one exported under `name`; -ENOSPC. */
ONESPACE_CHECK static inline int onespace_array_view(int id, const char *name,
                                                     struct onespace_array **array, int timeout_ms)
{
    char full[ONESPACE_NAME_MAX + 1];
    int result = onespace_array_name(name, full);
    if (result < 0)
        return result;
    do
        result = onespace_array_try(id, name, full, array, timeout_ms);
    while (result == -ENOENT && timeout_ms != 0 && onespace_is_member(id) > 0);
    if (result != -ENOENT)
        return result;
    return onespace_is_member(id) > 0 ? -ETIMEDOUT : -EOWNERDEAD;
}

#ifdef __cplusplus
}
#endif
#endif
