/* src/mpi/pmpi/pmpi.h: the MPI library's own functions and objects, found at run time.
 *
 * The layer names no MPI library to the dynamic linker. So one build serves every library with the
 * same binary interface, and programs that load their MPI late and with RTLD_LOCAL, as mpi4py does.
 */
#ifndef ONESPACE_MPI_PMPI_PMPI_H
#define ONESPACE_MPI_PMPI_PMPI_H

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "mpi/names/functions.h"
#include "mpi/pmpi/large_counts.h"

/* The functions that the layer calls but does not wrap. */
#define MPI_NOT_WRAPPED(X)                                                                         \
    X(Comm_call_errhandler)                                                                        \
    X(Comm_create_group)                                                                           \
    X(Comm_create_keyval)                                                                          \
    X(Comm_dup)                                                                                    \
    X(Comm_free)                                                                                   \
    X(Comm_free_keyval)                                                                            \
    X(Comm_get_attr)                                                                               \
    X(Comm_group)                                                                                  \
    X(Comm_rank)                                                                                   \
    X(Comm_remote_size)                                                                            \
    X(Comm_set_attr)                                                                               \
    X(Comm_set_errhandler)                                                                         \
    X(Comm_size)                                                                                   \
    X(Comm_split)                                                                                  \
    X(Comm_test_inter)                                                                             \
    X(Errhandler_free)                                                                             \
    X(Finalized)                                                                                   \
    X(Get_count)                                                                                   \
    X(Get_library_version)                                                                         \
    X(Grequest_complete)                                                                           \
    X(Grequest_start)                                                                              \
    X(Group_difference)                                                                            \
    X(Group_free)                                                                                  \
    X(Group_incl)                                                                                  \
    X(Group_size)                                                                                  \
    X(Group_translate_ranks)                                                                       \
    X(Group_union)                                                                                 \
    X(Info_get)                                                                                    \
    X(Info_set)                                                                                    \
    X(Initialized)                                                                                 \
    X(Irecv)                                                                                       \
    X(Irsend)                                                                                      \
    X(Isend)                                                                                       \
    X(Issend)                                                                                      \
    X(Op_commutative)                                                                              \
    X(Pack)                                                                                        \
    X(Pack_size)                                                                                   \
    X(Query_thread)                                                                                \
    X(Reduce_local)                                                                                \
    X(Request_free)                                                                                \
    X(Status_set_cancelled)                                                                        \
    X(Status_set_elements)                                                                         \
    X(Type_commit)                                                                                 \
    X(Type_contiguous)                                                                             \
    X(Type_get_contents)                                                                           \
    X(Type_get_envelope)                                                                           \
    X(Type_get_extent)                                                                             \
    X(Type_get_true_extent)                                                                        \
    X(Type_size)                                                                                   \
    X(Type_size_x)                                                                                 \
    X(Win_call_errhandler)                                                                         \
    X(Win_create_dynamic)                                                                          \
    X(Win_create)                                                                                  \
    X(Win_get_errhandler)                                                                          \
    X(Win_set_errhandler)
#define MPI_NOT_WRAPPED_LARGE(X)                                                                   \
    X(Irecv_c)                                                                                     \
    X(Irsend_c)                                                                                    \
    X(Isend_c)                                                                                     \
    X(Issend_c)                                                                                    \
    X(Type_get_contents_c)                                                                         \
    X(Type_get_envelope_c)

#ifdef OPEN_MPI /* a macro in MPICH's interface */
#define MPI_NOT_WRAPPED_OPEN_MPI(X) X(Win_f2c)
#else
#define MPI_NOT_WRAPPED_OPEN_MPI(X)
#endif

struct pmpi_functions {
#define MEMBER(name) __typeof__(PMPI_##name) *name;
    MPI_LOADING(MEMBER)
    MPI_COLLECTIVES(MEMBER)
    MPI_NONBLOCKING(MEMBER)
    MPI_WAITING(MEMBER)
    MPI_FORWARDED(MEMBER)
    MPI_NOT_WRAPPED(MEMBER)
    MPI_NOT_WRAPPED_OPEN_MPI(MEMBER)
    /* NULL where the library lacks them: */
    MPI_LOADING_LARGE(MEMBER)
    MPI_COLLECTIVES_LARGE(MEMBER)
    MPI_WAITING_LARGE(MEMBER) MPI_FORWARDED_LARGE(MEMBER) MPI_NOT_WRAPPED_LARGE(MEMBER)
#undef MEMBER
};

/* NULL until the functions have been looked up. Any thread writes it, once (release), after it has
 * filled the table; readers use acquire. */
extern const struct pmpi_functions *_Atomic pmpi_table;
/* Looks the functions up. Aborts with a message if there is no MPI library. */
const struct pmpi_functions *pmpi_load(void);
static inline const struct pmpi_functions *pmpi(void)
{
    const struct pmpi_functions *found = atomic_load_explicit(&pmpi_table, memory_order_acquire);
    return found ? found : pmpi_load();
}
/* The copy callback of an attribute that duplicates do not inherit. */
int pmpi_no_copy(MPI_Comm comm, int keyval, void *extra, void *value, void *copy, int *flag);
/* Creates, at the first use, the key of a communicator attribute that duplicates do not inherit.
 * *keyval is MPI_KEYVAL_INVALID before, and then the same for all threads. MPI_SUCCESS or an
 * error. */
int pmpi_create_keyval(_Atomic int *keyval, MPI_Comm_delete_attr_function *delete);
/* The bucket of a handle in a table of 2^bits. Handles are small integers or aligned addresses:
 * their high bits differ only after the multiplication. */
static inline size_t handle_hash(uintptr_t handle, unsigned bits)
{
    return (size_t)((handle * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - bits));
}

/* Whether the library is Open MPI, whichever binary interface it offers. MPICH and its derivatives
 * check arguments alike; Open MPI differs from them. */
int pmpi_is_open_mpi(void);
/* Whether an MPICH refuses equal send and receive buffers in collective operations. A setting may
 * turn this off (MPIR_CVAR_COLL_ALIAS_CHECK, MPIR_CVAR_ERROR_CHECKING), or how it was configured,
 * so the library is asked once. */
int pmpi_refuses_aliases(void);

/* Any other function of the MPI library or of its Fortran bindings, or NULL. */
void *pmpi_symbol(const char *name);
/* The address at which the program sees an object of the MPI library: a copy relocation may have
 * moved it into the program. */
void *pmpi_object(const char *name);

/* Open MPI's handles are addresses of objects in the library. They are looked up like its
 * functions, once per use in the source; all threads find the same address. */
#ifdef OMPI_PREDEFINED_GLOBAL
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, object)                                                       \
    (__extension__({                                                                               \
        static _Atomic(void *) object##_cache;                                                     \
        void *object##_address = object##_cache;                                                   \
        if (!object##_address)                                                                     \
            object##_cache = object##_address = pmpi_object(#object);                              \
        (type) object##_address;                                                                   \
    }))
#endif

/* Whether there are MPI_COMM_WORLD and MPI_COMM_SELF: MPI_Init has been called, and MPI_Finalize
 * has not. Programs that use sessions may have none, also after MPI_Finalize. */
int pmpi_has_world(void);

/* ---- A communicator of this process alone ---- */

/* A communicator on which the layer tests what the library accepts. Created at the first call; its
 * errors are returned. MPI_COMM_NULL: MPI is about to end or is out of resources, or the program
 * uses sessions alone. For one call that involves no other rank; any thread. */
MPI_Comm pmpi_self_comm(void);
/* MPI_Finalize: frees it. Later calls get MPI_COMM_NULL. */
void pmpi_self_comm_free(void);

/* ---- State that the layer keeps for an MPI handle ---- */

/* A hash table with chaining. Entries are reused, never freed, so that lookups need no lock: a
 * reader may be at any entry at any time. An entry is not reused while a caller uses its handle,
 * because that would be a use after the handle was freed. */

enum { HANDLE_TABLE_BITS = 10 };

/* handle: written under the mutex, after `value` (release); read with acquire. 0: free. value:
 * relaxed; while a handle is being freed the value may be the next handle's. */
struct handle_entry {
    _Atomic uintptr_t handle;
    void *_Atomic value;
    struct handle_entry *next; /* set before the entry is published by its bucket */
};

struct handle_table {
    struct handle_entry
        *_Atomic buckets[1 << HANDLE_TABLE_BITS]; /* release by writers, acquire by readers */
    pthread_mutex_t mutex;                        /* for writers; never held across a call of MPI */
};
#define HANDLE_TABLE_INIT                                                                          \
    {                                                                                              \
        .mutex = PTHREAD_MUTEX_INITIALIZER                                                         \
    }

static inline struct handle_entry *handle_table_entry(struct handle_table *handles,
                                                      uintptr_t handle)
{
    struct handle_entry *entry = atomic_load_explicit(
        &handles->buckets[handle_hash(handle, HANDLE_TABLE_BITS)], memory_order_acquire);
    while (entry && atomic_load_explicit(&entry->handle, memory_order_acquire) != handle)
        entry = entry->next;
    return entry;
}

/* NULL: the table has no entry for it. */
static inline void *handle_table_find(struct handle_table *handles, uintptr_t handle)
{
    struct handle_entry *entry = handle_table_entry(handles, handle);
    return entry && handle ? atomic_load_explicit(&entry->value, memory_order_relaxed) : NULL;
}

/* 0 or an error class. */
int handle_table_add(struct handle_table *handles, uintptr_t handle, void *value);
/* Call it before the handle is freed: MPI may reuse it at once. */
void handle_table_remove(struct handle_table *handles, uintptr_t handle);

#endif
