/* src/pip/export.c: export and import of addresses: by name, one per task, and as auxiliary data.
 */
#include <stdarg.h>
#include <stdio.h>

#include "onespace.h"
#include "base/futex.h"
#include "state.h"

/* Separates these names from those of the native interface. Names after it may be empty. */
#define NAME_PREFIX "pip:"

enum { SPAWN_POLL_MS = 1000 };

static int make_name(char name[ONESPACE_NAME_MAX + 1], const char *format, va_list list)
{
    const size_t used = sizeof(NAME_PREFIX) - 1, capacity = ONESPACE_NAME_MAX + 1 - used;
    memcpy(name, NAME_PREFIX, sizeof(NAME_PREFIX));
    int length = format ? vsnprintf(name + used, capacity, format, list) : 0;
    return length < 0 ? EINVAL : (size_t)length >= capacity ? ENAMETOOLONG : 0;
}

int pip_named_export(void *exp, const char *format, ...)
{
    char name[ONESPACE_NAME_MAX + 1];
    va_list list;
    if (!state_self())
        return EPERM;
    va_start(list, format);
    int result = make_name(name, format, list);
    va_end(list);
    if (result)
        return result;
    result = onespace_export(name, exp, 0);
    return result == -EEXIST ? EBUSY : result == -ENOSPC ? ENOMEM : -result;
}

/* Ids + 1 of the members whose memory the caller holds, by PiP id; the root, whose id is 0, is the
 * last entry. The caller keeps one hold per member: later imports release the one before. */
static int held[PIP_NTASKS_MAX + 1];
static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;

static void keep_one_hold(const struct record *record, int id)
{
    /* The root holds its tasks from their start. No member needs a hold on itself. */
    if (state_is_root() || id == onespace_self()) {
        (void)!onespace_release(id);
        return;
    }
    pthread_mutex_lock(&held_lock);
    int *entry = &held[record->pipid >= 0 ? record->pipid : PIP_NTASKS_MAX];
    int earlier = *entry;
    *entry = id + 1;
    pthread_mutex_unlock(&held_lock);
    if (earlier)
        (void)!onespace_release(earlier - 1);
}

void export_release_all(void)
{
    pthread_mutex_lock(&held_lock);
    for (int i = 0; i <= PIP_NTASKS_MAX; i++) {
        if (held[i])
            (void)!onespace_release(held[i] - 1);
        held[i] = 0;
    }
    pthread_mutex_unlock(&held_lock);
}

/* Waits until the record's task has been spawned: 0 or the error of the import. */
static int await_spawn(struct state *state, const struct record *record, int nonblocking)
{
    for (;;) {
        uint32_t changes = atomic_load_explicit(&state->changes, memory_order_acquire);
        uint32_t record_state = atomic_load_explicit(&record->state, memory_order_acquire);
        /* A collected task's exports remain until its PiP id is used again. */
        if (record_state == RECORD_ALIVE ||
            (record_state == RECORD_FREE && atomic_load(&record->id)) || record == state_self())
            return 0;
        if (nonblocking)
            return EAGAIN;
        if (record_state == RECORD_FREE && state_is_root())
            return EDEADLK; /* only the caller could spawn it */
        futex_wait(&state->changes, changes, futex_deadline(SPAWN_POLL_MS));
    }
}

static int import_named(int pipid, void **expp, int nonblocking, const char *format, va_list list)
{
    char name[ONESPACE_NAME_MAX + 1];
    struct record *record;
    void *address;
    int result = state_find(pipid, &record);
    if (result == 0)
        result = make_name(name, format, list);
    if (result == 0)
        result = await_spawn(state_mine(), record, nonblocking);
    if (result)
        return result;
    int id = state_id(record);
    result = onespace_import(id, name, &address, NULL, nonblocking ? 0 : -1);
    if (result < 0)
        return result == -ETIMEDOUT                        ? EAGAIN
               : result == -EOWNERDEAD || result == -ESRCH ? ECANCELED
                                                           : -result;
    keep_one_hold(record, id);
    if (expp)
        *expp = address;
    return 0;
}

int pip_named_import(int pipid, void **expp, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int result = import_named(pipid, expp, 0, format, list);
    va_end(list);
    return result;
}

int pip_named_tryimport(int pipid, void **expp, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int result = import_named(pipid, expp, 1, format, list);
    va_end(list);
    return result;
}

int pip_export(void *exp)
{
    struct record *self = state_self();
    void *none = NULL;
    if (!self)
        return EPERM;
    if (!exp)
        return EINVAL;
    /* Release: pairs with the acquire of importers, which read what the address points to. */
    return atomic_compare_exchange_strong_explicit(&self->export, &none, exp, memory_order_release,
                                                   memory_order_relaxed)
               ? 0
               : EBUSY;
}

int pip_import(int pipid, void **expp)
{
    struct record *record;
    int result = state_find_alive(pipid, &record);
    if (result == 0 && onespace_is_member(state_id(record)) == 0)
        result = ESRCH; /* it has executed another program */
    if (result == 0 && expp)
        *expp = atomic_load_explicit(&record->export, memory_order_acquire);
    return result;
}

int pip_set_aux(void *aux)
{
    struct record *self = state_self();
    if (!self)
        return EPERM;
    atomic_store(&self->aux, aux);
    return 0;
}

int pip_get_aux(void **auxp)
{
    struct record *self = state_self();
    if (!self)
        return EPERM;
    if (auxp)
        *auxp = atomic_load(&self->aux);
    return 0;
}

int pip_get_addr(int pipid, const char *name, void **addrp)
{
    struct record *record;
    void *address;
    if (!name || !*name)
        return state_self() ? EINVAL : EPERM;
    int result = state_find(pipid, &record);
    if (result)
        return result;
    /* Acquire: the id was stored before the state. */
    if (record != state_self() && !atomic_load_explicit(&record->state, memory_order_acquire) &&
        !atomic_load(&record->id))
        return ESRCH;
    result = onespace_lookup(state_id(record), name, &address, NULL);
    if (addrp &&
        (result == 0 || result == -ENOENT)) /* NULL if there is no such symbol, as dlsym returns */
        *addrp = result == 0 ? address : NULL;
    return -result;
}
