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

struct type_layout;

/* A predefined type; never freed. */
struct predefined_type {
    MPI_Datatype type;
    enum type_class class;
    size_t size;   /* bytes of data */
    size_t extent; /* from one element to the next: larger for some pairs */
    const struct type_layout *layout;
    /* Operations, one bit each: those that the library was asked about, and those that it supports
     * on the type. Any thread writes `supported`, then `asked` (release), and reads them in the
     * other order (acquire). All threads get the same answer. */
    _Atomic unsigned asked, supported;
    struct predefined_type
        *next; /* in predefined_type_of's table; set before the entry is published */
};

/* The predefined type behind a handle; NULL: a derived type. */
const struct predefined_type *predefined_type_of(MPI_Datatype type);
/* The same, but NULL also for a type that predefined_type_of has not seen yet. Much faster for
 * derived types. */
const struct predefined_type *predefined_type_known(MPI_Datatype type);
static inline int predefined_type_is_dense(const struct predefined_type *predefined)
{
    return predefined && predefined->size == predefined->extent;
}

/* A buffer as MPI calls describe it. */
struct buf_desc {
    void *address;
    MPI_Count count;
    MPI_Datatype type;
};

/* In bytes; SIZE_MAX: more than there is memory. */
static inline size_t items_size(MPI_Count count, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow((size_t)count, size, &bytes) ? SIZE_MAX : bytes;
}

/* Copies between two dense types. MPI_SUCCESS or MPI_ERR_TRUNCATE. */
static inline int buf_copy_dense(const struct buf_desc *to, const struct predefined_type *target,
                                 const struct buf_desc *from, const struct predefined_type *origin)
{
    size_t size = items_size(from->count, origin->size);
    if (size > items_size(to->count, target->size))
        return MPI_ERR_TRUNCATE;
    onespace_copy(to->address, from->address, size);
    return MPI_SUCCESS;
}

/* ---- Layouts of all types ---- */

/* A layout says where the data of a type lies, as nested loops over runs of bytes.
 *
 * It is built from the type's constructors, in time and memory proportional to their arguments, not
 * to the type's extent or size. It is kept until the program frees the type, or one reference to it
 * (MPI_Type_get_contents returns further references). The wrapper of MPI_Type_free removes it
 * before MPI can give the handle to another type. (An attribute of the type would do without the
 * wrapper, but costs Open MPI as much as a small transfer.) */

/* `count` repetitions, `stride` bytes apart, of the children one after another, or of a run. */
struct loop {
    int64_t offset; /* of the first repetition from the parent's */
    int64_t stride;
    size_t count;             /* 0: no data */
    size_t size;              /* bytes of a run; 0: there are children */
    uint32_t child, children; /* index of the first in the nest's `loops`, and number */
    uint32_t depth;           /* of nested loops with children; 0: a run */
};

struct loop_nest {
    size_t size;     /* bytes of data in an item */
    int64_t extent;  /* from one item to the next */
    struct loop top; /* one item */
    struct loop *loops;
};

/* Constant once it is published. */
struct type_layout {
    const struct predefined_type *element; /* the type of all elements; NULL: they differ */
    struct loop_nest bytes;                /* the data only */
    struct loop_nest whole;      /* elements with their gaps; equal to `bytes` if there are none */
    int64_t lower, upper;        /* bytes from an item's address between which its data lies */
    _Atomic unsigned references; /* of the table and of threads; not used for predefined types */
    /* Set by any thread that has found the type committed; final. Relaxed: it guards no data. */
    _Atomic int is_committed;
};

/* Repeats a loop `count` times, `stride` bytes apart. 0: it would need a parent, and is unchanged.
 * Inline because of types with many blocks. */
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

/* Finds the layout of any type, valid until the program's MPI call returns. MPI_SUCCESS or an error
 * class; MPI_ERR_INTERN: the layer does not know types that are made in this way. */
int type_layout_find(MPI_Datatype type, const struct type_layout **layout);
/* The same for communication: MPI_ERR_TYPE if the program has not committed the type. */
int type_layout_find_committed(MPI_Datatype type, const struct type_layout **layout);
/* The bounds, in bytes from the buffer's address, of the data of `count` items; both 0 if there is
 * no data. MPI_SUCCESS, or MPI_ERR_COUNT: more bytes than an address space has. */
int type_layout_bounds(const struct type_layout *layout, MPI_Count count, int64_t *lower,
                       int64_t *upper);
/* Copies between two types with the same signature. MPI_SUCCESS or an error class. */
int type_layout_copy(const struct buf_desc *to, const struct type_layout *sink,
                     const struct buf_desc *from, const struct type_layout *source);
/* The program frees the type. Call it before MPI does. */
void type_layout_forget(MPI_Datatype type);
/* The layout of a predefined type, for predefined_type_of(). NULL: out of memory. */
struct type_layout *type_layout_of_predefined(const struct predefined_type *predefined);
void type_layout_free(struct type_layout *layout);

/* Builds the loops of a derived type. is_whole: elements include their gaps. Sets *element as in
 * struct type_layout; does not set nest->size. The caller frees nest->loops. MPI_SUCCESS, or an
 * error class with nothing allocated. */
int loop_nest_build(MPI_Datatype type, int is_whole, struct loop_nest *nest,
                    const struct predefined_type **element);
/* The same for a predefined type, before predefined_type_of knows it. */
int loop_nest_build_predefined(const struct predefined_type *predefined, int is_whole,
                               struct loop_nest *nest);

/* ---- Walking and copying ---- */

/* `count` blocks of `size` bytes on each side of a copy, with a stride on each side. */
struct strided_blocks {
    char *to;
    const char *from;
    int64_t to_stride, from_stride;
    size_t size, count;
};

/* Returns 0 to continue the walk. */
typedef int items_visitor(void *context, const struct strided_blocks *blocks);

/* One side of a copy. */
struct typed_items {
    char *address;
    size_t items;
    const struct loop_nest *nest;
};

/* Visits the data of both sides, in the order of their types, until the function returns non-zero
 * or one side ends. MPI_SUCCESS; MPI_ERR_NO_MEM: the function was not called. */
int items_walk(const struct typed_items *to, const struct typed_items *from,
               items_visitor *function, void *context);

/* Copies from one side to the other. */
int items_copy(const struct typed_items *to, const struct typed_items *from);

/* ---- Reductions ---- */

/* The loop of a predefined operation; NULL: it is not defined for the type. MPI_REPLACE and
 * MPI_NO_OP have none. */
reduce_function *reduce_function_find(MPI_Op op, const struct predefined_type *element);
/* Whether the library's collective operations support a predefined operation on the type. They
 * support more than the MPI standard defines, such as sums of MPI_CHAR, and less than one-sided
 * operations accept. Asks the library, once for each pair. */
int reduce_is_supported(MPI_Op op, const struct predefined_type *element);
/* The operation's name, for messages. */
const char *reduce_op_name(MPI_Op op);
/* Whether the operation is predefined, MPI_REPLACE and MPI_NO_OP included. */
int reduce_op_is_predefined(MPI_Op op);

#endif
