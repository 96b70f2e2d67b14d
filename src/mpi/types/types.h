/* src/mpi/types/types.h: MPI's datatypes and operations, for ranks that read and write one
 * another's memory. */
#ifndef ONESPACE_MPI_TYPES_TYPES_H
#define ONESPACE_MPI_TYPES_TYPES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "mpi/pmpi/pmpi.h"
#include "mpi/types/reduce_loops.h"
#include "onespace/sync/copy.h"

/* ---- Predefined types ---- */

/* MPI's datatypes, as far as loads and stores need to know them. */

struct type_layout;

/* A predefined type; never freed. */
struct predefined_type {
    MPI_Datatype type;
    enum type_class class;
    size_t size;   /* bytes of data */
    size_t extent; /* from one element to the next: larger for some pairs */
    const struct type_layout *layout;
    /* Operations, one bit each, of which it is known whether the library computes them on the type,
     * and those that it computes: written by any thread, `computed` first (release), read in the
     * other order (acquire). All threads find the same. */
    _Atomic unsigned asked, computed;
    struct predefined_type
        *next; /* in predefined_type_of's table; set before the entry is published */
};

/* The predefined type behind a handle; NULL: a derived type. */
const struct predefined_type *predefined_type_of(MPI_Datatype type);
/* The same, but NULL also for a type that was not asked for yet. Much faster for derived types. */
const struct predefined_type *predefined_type_known(MPI_Datatype type);
static inline int predefined_type_is_dense(const struct predefined_type *predefined)
{
    return predefined && predefined->size == predefined->extent;
}

/* One side of a transfer. */
struct buf_desc {
    void *address;
    MPI_Count count;
    MPI_Datatype type;
};

/* Copies between two dense types. MPI_SUCCESS or MPI_ERR_TRUNCATE. */
static inline int buf_copy_dense(const struct buf_desc *to, const struct predefined_type *target,
                                 const struct buf_desc *from, const struct predefined_type *origin)
{
    size_t size = (size_t)from->count * origin->size;
    if (size > (size_t)to->count * target->size)
        return MPI_ERR_TRUNCATE;
    onespace_copy(to->address, from->address, size);
    return MPI_SUCCESS;
}
/* Copies between any two types with the same signature. MPI_SUCCESS or an error class. */
int buf_copy(const struct buf_desc *to, const struct buf_desc *from);

/* ---- Layouts of all types ---- */

/* where the data of a type is, as nested loops over runs of bytes.
 *
 * A type is described from its constructors, in time and memory proportional to what the program
 * gave them, not to the type's extent or size. The description is kept until the program frees the
 * type, or one reference to it: what MPI_Type_get_contents returns is a reference of its own. The
 * wrapper of MPI_Type_free says so before MPI can give the handle to another type. (An attribute of
 * the type would not need the wrapper, but costs Open MPI as much as a small transfer.) */

/* `count` repetitions, `stride` bytes apart, of the children one after another, or of a run. */
struct loop {
    int64_t offset; /* of the first repetition from the parent's */
    int64_t stride;
    size_t count;             /* 0: no data */
    size_t size;              /* bytes of a run; 0: there are children */
    uint32_t child, children; /* the first in the layout's `loops`, and how many */
    uint32_t depth;           /* of nested loops with children; 0: a run */
};

struct loop_nest {
    size_t size;     /* bytes of data in an item */
    int64_t extent;  /* from one item to the next */
    struct loop top; /* an item */
    struct loop *loops;
};

/* Constant once it is published. */
struct type_layout {
    const struct predefined_type *element; /* that all elements have in common, or NULL */
    struct loop_nest bytes;                /* the data only */
    struct loop_nest whole;      /* elements with the gaps in them; the same when they have none */
    int64_t lower, upper;        /* bytes from an item's address between which its data lies */
    _Atomic unsigned references; /* of the table and of threads; not used for predefined types */
    /* Set by any thread that has found the type committed, which it then stays; relaxed: it guards
     * no other data. */
    _Atomic int is_committed;
};

/* Adds `count` repetitions, `stride` bytes apart, to a loop whose children need no new parent. Not
 * 0: done. Inline for the sake of types of many blocks. */
static inline int loop_repeat(struct loop *loop, size_t count, int64_t stride)
{
    if (count == 1 && loop->count)
        return 1;
    if (count == 0 || loop->count == 0)
        loop->count = 0;
    else if (loop->count == 1 && loop->size && (int64_t)loop->size == stride)
        loop->size *= count;
    else if (loop->count == 1) {
        loop->count = count;
        loop->stride = stride;
    } else if (loop->stride * (int64_t)loop->count == stride)
        loop->count *= count;
    else
        return 0;
    return 1;
}

/* *layouts: of a predefined or derived type, valid during this call of the program's; NULL with an
 * error, whose class is the result. */
int type_layout_find(MPI_Datatype type, const struct type_layout **layout);
/* Between which bytes from their address the data of `count` items lies; both 0 if there is none.
 * MPI_SUCCESS, or MPI_ERR_COUNT: more bytes than an address space has. */
int type_layout_bounds(const struct type_layout *layout, MPI_Count count, int64_t *lower,
                       int64_t *upper);
/* buf_copy(), of types that the caller has looked up. */
int type_layout_copy(const struct buf_desc *to, const struct type_layout *sink,
                     const struct buf_desc *from, const struct type_layout *source);
/* MPI_SUCCESS if the library takes the type for communication; MPI_ERR_TYPE: the program has not
 * committed it. */
int type_layout_check_committed(MPI_Datatype type, const struct type_layout *layout);
/* The program frees the type. To be called before MPI frees it. */
void type_layout_forget(MPI_Datatype type);
/* Of a predefined type; predefined_type_of() keeps them in `predefined`. NULL: out of memory. */
struct type_layout *type_layout_of_predefined(const struct predefined_type *predefined);
void type_layout_free(struct type_layout *layout);

/* builds the layout of a type from its constructors. */

/* All return MPI_SUCCESS, or an error class, and nothing is left allocated. layout->loops is the
 * caller's to free; layout->size is not set. is_whole: elements include the gaps in them. */

/* Of a derived type. *element: see struct type_layout. */
int loop_nest_build(MPI_Datatype type, int is_whole, struct loop_nest *nest,
                    const struct predefined_type **element);
/* Of a predefined type, which predefined_type_of need not know yet. */
int loop_nest_build_predefined(const struct predefined_type *predefined, int is_whole,
                               struct loop_nest *nest);

/* ---- Walking and copying ---- */

/* visits the data of two sides of a transfer in the order of their types. */

/* `count` blocks of `size` bytes, `stride` bytes apart, at each side. */
struct strided_blocks {
    char *to;
    const char *from;
    int64_t to_stride, from_stride;
    size_t size, count;
};

/* 0: go on. */
typedef int items_visitor(void *context, const struct strided_blocks *blocks);

/* One side: `items` items at `address`. */
struct typed_items {
    char *address;
    size_t items;
    const struct loop_nest *nest;
};

/* Calls the function until it returns non-zero, or one of the sides is at its end. MPI_SUCCESS;
 * MPI_ERR_NO_MEM: it was not called. */
int items_walk(const struct typed_items *to, const struct typed_items *from,
               items_visitor *function, void *context);

/* Copies from one side to the other. */
int items_copy(const struct typed_items *to, const struct typed_items *from);

/* ---- Reductions ---- */

/* MPI's predefined operations on elements of predefined types. */

/* The loop of an operation; NULL: it is not defined for the type. MPI_REPLACE and MPI_NO_OP have
 * none. */
reduce_function *reduce_function_find(MPI_Op op, const struct predefined_type *element);
/* Whether the library's collective operations compute one of MPI's own operations on the type. That
 * is more than the MPI standard defines, such as sums of MPI_CHAR, and less than one-sided
 * operations accept. Asks the library, once for each pair. */
int reduce_is_supported(MPI_Op op, const struct predefined_type *element);
/* For messages. */
const char *reduce_op_name(MPI_Op op);
/* Whether the operation is one of MPI's own, these two included. */
int reduce_op_is_predefined(MPI_Op op);

#endif
