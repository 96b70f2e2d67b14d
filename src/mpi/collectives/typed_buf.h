/* src/mpi/collectives/typed_buf.h: buffers as programs describe them to MPI, and as other ranks
 * read them.
 *
 * coll_buf has the arguments of a call; typed_buf is memory with a layout that the layer can copy.
 */
#ifndef ONESPACE_MPI_COLLECTIVES_TYPED_BUF_H
#define ONESPACE_MPI_COLLECTIVES_TYPED_BUF_H

#include <stddef.h>
#include <stdint.h>

#include "mpi/collectives/engine.h"
#include "mpi/types/types.h"

/* A send or receive buffer: `count` items, or counts[i] items at displs[i] for each rank. */
struct coll_buf {
    void *addr; /* or MPI_IN_PLACE */
    MPI_Count count;
    const void *counts, *displs;   /* NULL; or of int, or with is_large of MPI_Count and MPI_Aint */
    const MPI_Datatype *datatypes; /* by rank, of MPI_Alltoallw; else NULL */
    MPI_Datatype datatype;
    int is_large;
};

/* An element of an array of counts or displacements. */
int64_t int_array_get(const void *values, int is_large, int index);
static inline MPI_Count buf_count(const struct coll_buf *desc, int rank)
{
    return desc->counts ? int_array_get(desc->counts, desc->is_large, rank) : desc->count;
}
/* Where the block of a rank begins: in items, in MPI_Alltoallw in bytes. */
static inline ptrdiff_t buf_displ(const struct coll_buf *desc, int rank)
{
    return desc->displs ? int_array_get(desc->displs, desc->is_large, rank)
                        : (ptrdiff_t)rank * desc->count;
}
/* False if a count is negative. */
int buf_counts_are_valid(const struct coll_buf *desc, int ranks);

/* A datatype. */
struct item_layout {
    size_t size;                    /* bytes of data in an item */
    ptrdiff_t extent;               /* from one item to the next */
    const struct loop_nest *layout; /* NULL: items are contiguous */
};
/* MPI_SUCCESS or an error class. */
int item_layout_find(MPI_Datatype datatype, struct item_layout *layout);
/* MPI_ERR_TYPE if the program has not committed the type. Requires a item_layout_find before. */
int type_check_committed(MPI_Datatype datatype);

/* Items in memory. */
struct typed_buf {
    char *addr;
    MPI_Count count;
    struct item_layout type;
};

static inline size_t typed_buf_bytes(const struct typed_buf *buf)
{
    return (size_t)buf->count * buf->type.size;
}
static inline struct engine_part typed_buf_part(const struct typed_buf *buf)
{
    return (struct engine_part){buf->addr, typed_buf_bytes(buf), buf->type.layout};
}
static inline struct typed_buf typed_buf_of_bytes(const void *addr, size_t bytes)
{
    return (struct typed_buf){(char *)addr, (MPI_Count)bytes, {1, 1, NULL}};
}
/* MPI_SUCCESS or an error class; MPI_ERR_TRUNCATE: `from` is longer than the buffer. */
int typed_buf_receive(const struct typed_buf *buf, const struct engine_part *from);
static inline int typed_buf_copy(const struct typed_buf *to, const struct typed_buf *from)
{
    const struct engine_part part = typed_buf_part(from);
    return typed_buf_receive(to, &part);
}
/* Copies the data to typed_buf_bytes contiguous bytes. */
int typed_buf_pack(const struct typed_buf *buf, void *to);

/* Memory for packed data and operands, one for each communicator: threads may have small stacks. */
enum {
    PACKED_MAX_BYTES = 4096,
    OPERAND_BUF_BYTES = 8192, /* two stay in any first-level cache */
    OPERAND_ALIGN = 64,
};
struct pack_bufs {
    _Alignas(OPERAND_ALIGN) char send[PACKED_MAX_BYTES], recv[PACKED_MAX_BYTES];
    _Alignas(OPERAND_ALIGN) char operands[2 * (OPERAND_BUF_BYTES + OPERAND_ALIGN)];
};

/* Two operands of a reduction in this rank's memory, with the distances and gaps of the call's
 * type: the function of the program, and the loops for pairs with gaps, get them as the program's
 * own buffers have them. The data may begin before an item's address. */
struct operand_bufs {
    char *sum, *next; /* addresses of the first items, aligned for any type */
    size_t items;     /* room in each */
    void *memory;     /* to be freed; or NULL */
};
/* Room for `items` items; or, if `bufs` is too small for them, for as many as it holds and at least
 * for `min_items`. bufs: NULL to use malloc. MPI_SUCCESS or an error class; then nothing is to be
 * freed. */
int operand_bufs_init(struct operand_bufs *operands, struct pack_bufs *bufs, MPI_Datatype datatype,
                      const struct item_layout *type, size_t items, size_t min_items);
void operand_bufs_free(struct operand_bufs *operands);

#endif
