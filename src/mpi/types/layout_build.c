/* src/mpi/types/layout_build.c: builds the layout of a type from its constructors. */
#include "mpi/types/types.h"

#include <stdlib.h>
#include <string.h>

/* ---- Arguments of a constructor ---- */

/* The arguments of a constructor. `number` has those that are integers or counts, in the order in
 * which MPI_Type_get_contents gives the integers of a type that was made without large counts. Do
 * not copy it: the lists may be in `inline_lists`. */
struct contents {
    int combiner;
    MPI_Count integers, addresses, counts, types;
    int64_t *number, *address;
    MPI_Datatype *type;
    int64_t inline_lists[48]; /* for short lists */
};

/* MPI_SUCCESS, or an error class, and there is nothing to free. */
int contents_read(MPI_Datatype type, struct contents *contents);
/* Frees the handles of inner types, too. */
void contents_free(struct contents *contents);

static int read_envelope(MPI_Datatype type, struct contents *contents)
{
    int integers, addresses, types, result;
    if (pmpi()->Type_get_envelope_c)
        return pmpi()->Type_get_envelope_c(type, &contents->integers, &contents->addresses,
                                           &contents->counts, &contents->types,
                                           &contents->combiner);
    result = pmpi()->Type_get_envelope(type, &integers, &addresses, &types, &contents->combiner);
    contents->integers = integers;
    contents->addresses = addresses;
    contents->counts = 0;
    contents->types = types;
    return result;
}

/* The buffers that MPI fills. */
struct raw_contents {
    int *integer;
    MPI_Aint *address;
    MPI_Count *count;
};

static int get_contents(MPI_Datatype type, const struct contents *contents,
                        const struct raw_contents *given)
{
    if (pmpi()->Type_get_contents_c)
        return pmpi()->Type_get_contents_c(type, contents->integers, contents->addresses,
                                           contents->counts, contents->types, given->integer,
                                           given->address, given->count, contents->type);
    return pmpi()->Type_get_contents(type, (int)contents->integers, (int)contents->addresses,
                                     (int)contents->types, given->integer, given->address,
                                     contents->type);
}

/* How many of the large counts belong to `number`; the rest are addresses. */
static MPI_Count numbers_among_counts(int combiner, const MPI_Count *count, MPI_Count counts)
{
    switch (counts ? combiner : MPI_COMBINER_NAMED) {
    case MPI_COMBINER_RESIZED:
        return 0;
    case MPI_COMBINER_HVECTOR:
    case MPI_COMBINER_HINDEXED_BLOCK:
        return 2;
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_STRUCT:
        return 1 + count[0];
    default:
        return counts;
    }
}

/* How many integers come before the large counts. */
static MPI_Count integers_before_counts(int combiner, MPI_Count integers)
{
    return combiner == MPI_COMBINER_SUBARRAY ? 1 : combiner == MPI_COMBINER_DARRAY ? 3 : integers;
}

static void sort_lists(const struct raw_contents *given, struct contents *contents)
{
    int64_t *number = contents->number, *address = contents->address;
    MPI_Count first = integers_before_counts(contents->combiner, contents->integers);
    MPI_Count numbers = numbers_among_counts(contents->combiner, given->count, contents->counts);
    for (MPI_Count i = 0; i < first; i++)
        *number++ = given->integer[i];
    for (MPI_Count i = 0; i < numbers; i++)
        *number++ = given->count[i];
    for (MPI_Count i = first; i < contents->integers; i++)
        *number++ = given->integer[i];
    for (MPI_Count i = 0; i < contents->addresses; i++)
        *address++ = given->address[i];
    for (MPI_Count i = numbers; i < contents->counts; i++)
        *address++ = given->count[i];
}

static void free_lists(const struct contents *contents)
{
    if (contents->number != contents->inline_lists)
        free(contents->number);
}

int contents_read(MPI_Datatype type, struct contents *contents)
{
    int result = read_envelope(type, contents);
    if (result != MPI_SUCCESS)
        return result;
    size_t integers = (size_t)contents->integers, addresses = (size_t)contents->addresses;
    size_t counts = (size_t)contents->counts, types = (size_t)contents->types;
    /* One block; the members that need the most alignment come first. */
    size_t size = (integers + addresses + 2 * counts) * sizeof(int64_t) +
                  counts * sizeof(MPI_Count) + addresses * sizeof(MPI_Aint) +
                  types * sizeof(MPI_Datatype) + integers * sizeof(int);
    contents->number =
        size <= sizeof(contents->inline_lists) ? contents->inline_lists : malloc(size);
    if (!contents->number)
        return MPI_ERR_NO_MEM;
    contents->address = contents->number + integers + counts;
    struct raw_contents given = {.count = (MPI_Count *)(contents->address + addresses + counts)};
    given.address = (MPI_Aint *)(given.count + counts);
    contents->type = (MPI_Datatype *)(given.address + addresses);
    given.integer = (int *)(contents->type + types);
    result = get_contents(type, contents, &given);
    if (result == MPI_SUCCESS)
        sort_lists(&given, contents);
    else
        free_lists(contents);
    return result;
}

void contents_free(struct contents *contents)
{
    for (MPI_Count i = 0; i < contents->types; i++)
        if (!predefined_type_of(contents->type[i]))
            pmpi()->Type_free(&contents->type[i]);
    free_lists(contents);
}

/* ---- Layouts ---- */

/* Each constructor becomes one loop over what its inner type became. Loops are merged where that
 * keeps the order of the data: adjacent runs become one run, runs at equal distances one loop. */

struct builder {
    struct loop *loops;
    uint32_t count, capacity;
    int is_whole;
    const struct predefined_type *element; /* of all leaves so far */
    int is_mixed;
    int error; /* the first */
};

static const struct loop empty;

static int fail(struct builder *builder, int error)
{
    if (builder->error == MPI_SUCCESS)
        builder->error = error;
    return 0;
}

/* ---- Loops ---- */

/* Appends children; their index, or 0 after a failure. */
static uint32_t append(struct builder *builder, const struct loop *children, uint32_t count)
{
    uint32_t at = builder->count;
    if (builder->capacity - at < count) {
        uint64_t least = (uint64_t)at + count, capacity = 2 * (uint64_t)at;
        capacity = capacity < least ? least : capacity;
        struct loop *more =
            capacity <= UINT32_MAX ? realloc(builder->loops, capacity * sizeof(*more)) : NULL;
        if (!more)
            return (uint32_t)fail(builder, MPI_ERR_NO_MEM);
        builder->loops = more;
        builder->capacity = (uint32_t)capacity;
    }
    memcpy(builder->loops + at, children, count * sizeof(*children));
    builder->count += count;
    return at;
}

static struct loop parent_at(uint32_t at, const struct loop *children, uint32_t count)
{
    uint32_t depth = 0;
    for (uint32_t i = 0; i < count; i++)
        depth = children[i].depth > depth ? children[i].depth : depth;
    return (struct loop){.count = 1, .child = at, .children = count, .depth = depth + 1};
}

static struct loop parent_of(struct builder *builder, const struct loop *children, uint32_t count)
{
    return parent_at(append(builder, children, count), children, count);
}

static inline struct loop repeat(struct builder *builder, struct loop loop, size_t count,
                                 int64_t stride)
{
    if (!loop_repeat(&loop, count, stride)) {
        loop = parent_of(builder, &loop, 1);
        loop_repeat(&loop, count, stride);
    }
    return loop;
}

static inline struct loop moved(struct loop loop, int64_t by)
{
    loop.offset += by;
    return loop;
}

/* Loops that follow one another. */
struct sequence {
    struct loop *loops;
    size_t count;
};

/* Whether the loop continues the last one of the sequence, which it then becomes part of. */
static inline int continues(struct loop *last, const struct loop *loop)
{
    if (last->children || loop->children || loop->count != 1)
        return 0;
    if (last->count == 1 && last->offset + (int64_t)last->size == loop->offset) {
        last->size += loop->size;
        return 1;
    }
    if (last->size != loop->size)
        return 0;
    if (last->count == 1)
        last->stride = loop->offset - last->offset;
    if (last->offset + last->stride * (int64_t)last->count != loop->offset)
        return 0;
    last->count++;
    return 1;
}

/* The sequence has room for it. */
static inline void add(struct sequence *sequence, struct loop loop)
{
    if (loop.count == 0)
        return;
    if (sequence->count == 0 || !continues(&sequence->loops[sequence->count - 1], &loop))
        sequence->loops[sequence->count++] = loop;
}

static struct sequence sequence_of(struct builder *builder, size_t most)
{
    struct sequence sequence = {malloc((most + 1) * sizeof(struct loop)), 0};
    if (!sequence.loops)
        fail(builder, MPI_ERR_NO_MEM);
    return sequence;
}

/* The first children of a type are the sequence's own array. */
static struct loop adopt(struct builder *builder, struct sequence *sequence)
{
    builder->loops = sequence->loops;
    builder->count = builder->capacity = (uint32_t)sequence->count;
    sequence->loops = NULL;
    return parent_at(0, builder->loops, builder->count);
}

static struct loop finish(struct builder *builder, struct sequence *sequence)
{
    struct loop loop = sequence->count == 0               ? empty
                       : sequence->count == 1             ? sequence->loops[0]
                       : sequence->count > UINT32_MAX / 4 ? (fail(builder, MPI_ERR_NO_MEM), empty)
                       : !builder->loops
                           ? adopt(builder, sequence)
                           : parent_of(builder, sequence->loops, (uint32_t)sequence->count);
    free(sequence->loops);
    return loop;
}

/* ---- Types ---- */

/* An inner type. */
struct inner {
    struct loop loop;
    int64_t extent;
};

static struct inner inner_of(struct builder *builder, MPI_Datatype type);

static struct loop leaf(struct builder *builder, const struct predefined_type *predefined)
{
    struct loop run = {.count = predefined->size > 0, .size = predefined->size};
    if (predefined->size == 0)
        return empty;
    builder->is_mixed |= builder->element && builder->element != predefined;
    builder->element = predefined;
    if (builder->is_whole)
        run.size = predefined->extent;
    else if (predefined->class == TYPE_PAIR_SHORT) {
        struct loop pair[2] = {{.count = 1, .size = sizeof(short)},
                               {.offset = sizeof(int), .count = 1, .size = sizeof(int)}};
        return parent_of(builder, pair, 2);
    }
    return run;
}

static struct loop vector(struct builder *builder, const struct inner *inner, const int64_t *number,
                          int64_t stride)
{
    struct loop block = repeat(builder, inner->loop, (size_t)number[1], inner->extent);
    return repeat(builder, block, (size_t)number[0], stride);
}

/* Where blocks begin: at items[i] extents of their inner type or, when that is NULL, at
 * addresses[i]. */
struct block_offsets {
    const int64_t *items, *addresses;
};

/* number[0] blocks of one inner type. Block i has number[1 + i] items, or number[1] when all are
 * equal. */
static struct loop indexed(struct builder *builder, struct inner inner, const int64_t *number,
                           int are_equal, struct block_offsets places)
{
    size_t count = (size_t)number[0];
    struct sequence sequence = sequence_of(builder, count);
    if (inner.loop.count > 1) /* one parent for all blocks, not one for each */
        inner.loop = parent_of(builder, &inner.loop, 1);
    for (size_t i = 0; i < count && sequence.loops; i++) {
        int64_t offset = places.items ? places.items[i] * inner.extent : places.addresses[i];
        size_t length = (size_t)number[are_equal ? 1 : 1 + i];
        add(&sequence, moved(repeat(builder, inner.loop, length, inner.extent), offset));
    }
    return finish(builder, &sequence);
}

static struct loop structure(struct builder *builder, const struct contents *contents)
{
    size_t count = (size_t)contents->number[0];
    struct sequence sequence = sequence_of(builder, count);
    for (size_t i = 0; i < count && sequence.loops; i++) {
        struct inner inner = inner_of(builder, contents->type[i]);
        size_t length = (size_t)contents->number[1 + i];
        add(&sequence,
            moved(repeat(builder, inner.loop, length, inner.extent), contents->address[i]));
    }
    return finish(builder, &sequence);
}

/* The dimension whose index varies fastest comes first. */
static int dimension_of(int i, int dimensions, int64_t order)
{
    return order == MPI_ORDER_FORTRAN ? i : dimensions - 1 - i;
}

static struct loop subarray(struct builder *builder, const struct inner *inner,
                            const int64_t *number)
{
    int dimensions = (int)number[0];
    const int64_t *sizes = number + 1, *parts = sizes + dimensions, *starts = parts + dimensions;
    struct loop loop = inner->loop;
    int64_t unit = inner->extent;
    for (int i = 0; i < dimensions; i++) {
        int at = dimension_of(i, dimensions, starts[dimensions]);
        loop = moved(repeat(builder, loop, (size_t)parts[at], unit), starts[at] * unit);
        unit *= sizes[at];
    }
    return loop;
}

/* One dimension of an array that is distributed over processes. */
struct distribution {
    int64_t size, block; /* indices in all, and in a block */
    int64_t processes, coordinate;
};

/* Blocks of indices, dealt to the processes in turn; the last block may be short.
 * MPI_DISTRIBUTE_BLOCK is the case of one block for each process. */
static struct loop distribute(struct builder *builder, struct loop loop, int64_t unit,
                              const struct distribution *d)
{
    int64_t first = d->coordinate * d->block, round = d->processes * d->block;
    int64_t left = d->size > first ? d->size - first : 0, full = left / round;
    int64_t rest = left % round;
    if (rest >= d->block) {
        full++;
        rest = 0;
    }
    struct sequence sequence = sequence_of(builder, 2);
    if (!sequence.loops)
        return empty;
    struct loop block = repeat(builder, loop, (size_t)d->block, unit);
    add(&sequence, moved(repeat(builder, block, (size_t)full, round * unit), first * unit));
    add(&sequence, moved(repeat(builder, loop, (size_t)rest, unit), (first + full * round) * unit));
    return finish(builder, &sequence);
}

static struct distribution distribution_of(int64_t kind, int64_t size, int64_t block,
                                           int64_t processes, int64_t coordinate)
{
    if (kind == MPI_DISTRIBUTE_NONE)
        return (struct distribution){size, size, 1, 0};
    if (block == MPI_DISTRIBUTE_DFLT_DARG)
        block = kind == MPI_DISTRIBUTE_CYCLIC ? 1 : (size + processes - 1) / processes;
    return (struct distribution){size, block, processes, coordinate};
}

static struct loop distributed(struct builder *builder, const struct inner *inner,
                               const int64_t *number)
{
    int dimensions = (int)number[2];
    int64_t rank = number[1], unit = inner->extent;
    const int64_t *sizes = number + 3, *kinds = sizes + dimensions, *blocks = kinds + dimensions;
    const int64_t *grid = blocks + dimensions;
    struct loop loop = inner->loop;
    for (int i = 0; i < dimensions; i++) {
        int at = dimension_of(i, dimensions, grid[dimensions]);
        int64_t below = 1;
        for (int j = at + 1; j < dimensions; j++) /* the grid is always in the order of C */
            below *= grid[j];
        struct distribution distribution =
            distribution_of(kinds[at], sizes[at], blocks[at], grid[at], rank / below % grid[at]);
        loop = distribute(builder, loop, unit, &distribution);
        unit *= sizes[at];
    }
    return loop;
}

static struct loop loop_of(struct builder *builder, const struct contents *contents)
{
    const int64_t *number = contents->number;
    if (contents->combiner == MPI_COMBINER_STRUCT)
        return structure(builder, contents);
    if (contents->types != 1) {
        fail(builder, MPI_ERR_INTERN);
        return empty;
    }
    struct inner inner = inner_of(builder, contents->type[0]);
    struct block_offsets addresses = {NULL, contents->address};
    switch (contents->combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED:
        return inner.loop;
    case MPI_COMBINER_CONTIGUOUS:
        return repeat(builder, inner.loop, (size_t)number[0], inner.extent);
    case MPI_COMBINER_VECTOR:
        return vector(builder, &inner, number, number[2] * inner.extent);
    case MPI_COMBINER_HVECTOR:
        return vector(builder, &inner, number, contents->address[0]);
    case MPI_COMBINER_INDEXED:
        return indexed(builder, inner, number, 0,
                       (struct block_offsets){number + 1 + number[0], NULL});
    case MPI_COMBINER_HINDEXED:
        return indexed(builder, inner, number, 0, addresses);
    case MPI_COMBINER_INDEXED_BLOCK:
        return indexed(builder, inner, number, 1, (struct block_offsets){number + 2, NULL});
    case MPI_COMBINER_HINDEXED_BLOCK:
        return indexed(builder, inner, number, 1, addresses);
    case MPI_COMBINER_SUBARRAY:
        return subarray(builder, &inner, number);
    case MPI_COMBINER_DARRAY:
        return distributed(builder, &inner, number);
    default:
        fail(builder, MPI_ERR_INTERN);
        return empty;
    }
}

static struct inner inner_of(struct builder *builder, MPI_Datatype type)
{
    const struct predefined_type *predefined = predefined_type_of(type);
    struct contents contents;
    MPI_Aint lower, extent = 0;
    if (predefined)
        return (struct inner){leaf(builder, predefined), (int64_t)predefined->extent};
    int result = pmpi()->Type_get_extent(type, &lower, &extent);
    if (result == MPI_SUCCESS)
        result = contents_read(type, &contents);
    if (result != MPI_SUCCESS) {
        fail(builder, result);
        return (struct inner){empty, 0};
    }
    struct inner inner = {loop_of(builder, &contents), extent};
    contents_free(&contents);
    return inner;
}

/* ---- The layout ---- */

static int finish_layout(struct builder *builder, const struct inner *inner, struct loop_nest *nest)
{
    if (builder->error != MPI_SUCCESS) {
        free(builder->loops);
        return builder->error;
    }
    *nest =
        (struct loop_nest){.extent = inner->extent, .top = inner->loop, .loops = builder->loops};
    return MPI_SUCCESS;
}

int loop_nest_build(MPI_Datatype type, int is_whole, struct loop_nest *nest,
                    const struct predefined_type **element)
{
    struct builder builder = {.is_whole = is_whole, .error = MPI_SUCCESS};
    struct inner inner = inner_of(&builder, type);
    *element = builder.is_mixed ? NULL : builder.element;
    return finish_layout(&builder, &inner, nest);
}

int loop_nest_build_predefined(const struct predefined_type *predefined, int is_whole,
                               struct loop_nest *nest)
{
    struct builder builder = {.is_whole = is_whole, .error = MPI_SUCCESS};
    struct inner inner = {leaf(&builder, predefined), (int64_t)predefined->extent};
    return finish_layout(&builder, &inner, nest);
}
