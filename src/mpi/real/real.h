/* src/mpi/real/real.h: the MPI library's own functions and objects, found at run time.
 *
 * The layer names no MPI library to the dynamic linker: one file serves every library of the same
 * binary interface, and programs that open their MPI late and locally, as mpi4py does. */
#ifndef ONESPACE_MPI_REAL_REAL_H
#define ONESPACE_MPI_REAL_REAL_H

#include <mpi.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "mpi/names/functions.h"
#include "mpi/real/large.h"

/* What the layer calls besides the functions that it wraps. */
#define MPI_CALLED(X)                                                                              \
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
    X(Get_library_version)                                                                         \
    X(Grequest_complete)                                                                           \
    X(Grequest_start)                                                                              \
    X(Group_difference)                                                                            \
    X(Group_free)                                                                                  \
    X(Group_incl)                                                                                  \
    X(Group_size)                                                                                  \
    X(Group_translate_ranks)                                                                       \
    X(Group_union)                                                                                 \
    X(Iallgather)                                                                                  \
    X(Ibcast)                                                                                      \
    X(Info_get)                                                                                    \
    X(Info_set)                                                                                    \
    X(Initialized)                                                                                 \
    X(Op_commutative)                                                                              \
    X(Op_create)                                                                                   \
    X(Op_free)                                                                                     \
    X(Query_thread)                                                                                \
    X(Reduce_local)                                                                                \
    X(Status_set_cancelled)                                                                        \
    X(Status_set_elements)                                                                         \
    X(Test)                                                                                        \
    X(Type_commit)                                                                                 \
    X(Type_contiguous)                                                                             \
    X(Type_get_contents)                                                                           \
    X(Type_get_envelope)                                                                           \
    X(Type_get_extent)                                                                             \
    X(Type_get_true_extent)                                                                        \
    X(Type_size)                                                                                   \
    X(Type_size_x)                                                                                 \
    X(Wait)                                                                                        \
    X(Win_call_errhandler)                                                                         \
    X(Win_create_dynamic)                                                                          \
    X(Win_create)                                                                                  \
    X(Win_get_errhandler)                                                                          \
    X(Win_set_errhandler)
#define MPI_CALLED_LARGE(X)                                                                        \
    X(Type_get_contents_c)                                                                         \
    X(Type_get_envelope_c)

#ifdef OPEN_MPI /* of MPICH's interface these are macros */
#define MPI_CALLED_ALSO(X) X(Win_f2c)
#else
#define MPI_CALLED_ALSO(X)
#endif

struct real {
#define MEMBER(name) __typeof__(PMPI_##name) *name;
    MPI_MAKERS(MEMBER)
    MPI_COLLECTIVES(MEMBER)
    MPI_USERS(MEMBER)
    MPI_CALLED(MEMBER)
    MPI_CALLED_ALSO(MEMBER)
    /* NULL where the library lacks them: */
    MPI_MAKERS_LARGE(MEMBER)
    MPI_COLLECTIVES_LARGE(MEMBER) MPI_USERS_LARGE(MEMBER) MPI_CALLED_LARGE(MEMBER)
#undef MEMBER
};

/* NULL until the functions were looked up. Written once (release), by any thread; read with
 * acquire: the functions are there. */
extern const struct real *_Atomic real_found;
/* Looks them up. Ends the program with a message when there is no MPI library: no caller can go on
 * without one. */
const struct real *real_find(void);
/* The functions. */
static inline const struct real *real(void)
{
    const struct real *found = atomic_load_explicit(&real_found, memory_order_acquire);
    return found ? found : real_find();
}
/* A copy callback for attributes that a duplicate does not inherit. */
int real_no_copy(MPI_Comm comm, int keyval, void *extra, void *value, void *copy, int *flag);
/* The key of an attribute of communicators that duplicates do not inherit, made at the first use:
 * *keyval is MPI_KEYVAL_INVALID before, and then the same for all threads. MPI_SUCCESS or an
 * error. */
int real_make_keyval(_Atomic int *keyval, MPI_Comm_delete_attr_function *delete);
/* The bucket of a handle in a table of 2^bits. Handles are small integers or aligned addresses:
 * their high bits differ only after the multiplication. */
static inline size_t real_hash(uintptr_t handle, unsigned bits)
{
    return (size_t)((handle * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - bits));
}

/* Whether the library is Open MPI, whichever binary interface it offers. MPICH and its derivatives
 * check arguments alike; Open MPI differs from them. */
int real_is_open_mpi(void);

/* Any other function of the MPI library or of its Fortran bindings, or NULL. */
void *real_symbol(const char *name);
/* An object of the MPI library, where the program sees it: a copy relocation may have moved it into
 * the program. */
void *real_object(const char *name);

/* Open MPI's handles are addresses of objects in the library. They are looked up like its
 * functions, once per place that names one; all threads find the same address. */
#ifdef OMPI_PREDEFINED_GLOBAL
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, object)                                                       \
    (__extension__({                                                                               \
        static _Atomic(void *) object##_cache;                                                     \
        void *object##_place = object##_cache;                                                     \
        if (!object##_place)                                                                       \
            object##_cache = object##_place = real_object(#object);                                \
        (type) object##_place;                                                                     \
    }))
#endif

#endif
