/* mpi_collectives_limits: calls of collective operations that the MPI library refuses, and such as
 * move nothing. With an argument, a rank, only that rank's arguments are wrong. A second one is the
 * number of items, and operations that follow are left out. Rank 0 prints the class of each rank's
 * error and how often its error handler was called, which must be the same whoever does the
 * operations. Where all ranks were refused the communicator must be as good as before. Exit status
 * 1: something was wrong. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 8, GAP = 0x5a };

static int rank, ranks, wrong, handled, wrong_rank = -1 /* all */, items = 4;

struct call {
    MPI_Comm comm;
    int root, count;
    MPI_Datatype type;
    MPI_Op op;
    void *send, *receive;
    int last_count; /* of the forms with one for each rank; 0: like the others */
};

/* ---- The operations ---- */

/* What the forms with an entry for each rank take. */
static struct {
    int counts[MOST_RANKS], places[MOST_RANKS];
    MPI_Datatype types[MOST_RANKS];
} each;

static void set_each(const struct call *call)
{
    for (int i = 0; i < ranks; i++) {
        each.counts[i] = call->count;
        each.places[i] = i * items;
        each.types[i] = call->type;
    }
    if (call->last_count)
        each.counts[ranks - 1] = call->last_count;
}

#define CALL(name, ...)                                                                            \
    static int name(const struct call *call)                                                       \
    {                                                                                              \
        const struct call c = *call;                                                               \
        set_each(call);                                                                            \
        return MPI_##name(__VA_ARGS__);                                                            \
    }
CALL(Bcast, c.receive, c.count, c.type, c.root, c.comm)
CALL(Gather, c.send, c.count, c.type, c.receive, c.count, c.type, c.root, c.comm)
CALL(Gatherv, c.send, c.count, c.type, c.receive, each.counts, each.places, c.type, c.root, c.comm)
CALL(Scatter, c.send, c.count, c.type, c.receive, c.count, c.type, c.root, c.comm)
CALL(Scatterv, c.send, each.counts, each.places, c.type, c.receive, c.count, c.type, c.root, c.comm)
CALL(Allgather, c.send, c.count, c.type, c.receive, c.count, c.type, c.comm)
CALL(Allgatherv, c.send, c.count, c.type, c.receive, each.counts, each.places, c.type, c.comm)
CALL(Alltoall, c.send, c.count, c.type, c.receive, c.count, c.type, c.comm)
CALL(Alltoallv, c.send, each.counts, each.places, c.type, c.receive, each.counts, each.places,
     c.type, c.comm)
CALL(Alltoallw, c.send, each.counts, each.places, each.types, c.receive, each.counts, each.places,
     each.types, c.comm)
CALL(Reduce, c.send, c.receive, c.count, c.type, c.op, c.root, c.comm)
CALL(Allreduce, c.send, c.receive, c.count, c.type, c.op, c.comm)
CALL(Reduce_scatter, c.send, c.receive, each.counts, c.type, c.op, c.comm)
CALL(Reduce_scatter_block, c.send, c.receive, c.count, c.type, c.op, c.comm)
CALL(Scan, c.send, c.receive, c.count, c.type, c.op, c.comm)
CALL(Exscan, c.send, c.receive, c.count, c.type, c.op, c.comm)

enum { ROOTED = 1, REDUCES = 2, MOVES_BETWEEN = 4 /* two buffers */, GATHERS = 8, BROADCASTS = 16 };
#define OPERATION(name, kind)                                                                      \
    {                                                                                              \
#name, name, kind                                                                          \
    }
static const struct operation {
    const char *name;
    int (*call)(const struct call *call);
    int kind;
} operations[] = {
    OPERATION(Bcast, ROOTED | BROADCASTS),
    OPERATION(Gather, ROOTED | MOVES_BETWEEN),
    OPERATION(Gatherv, ROOTED | MOVES_BETWEEN),
    OPERATION(Scatter, ROOTED | MOVES_BETWEEN),
    OPERATION(Scatterv, ROOTED | MOVES_BETWEEN),
    OPERATION(Allgather, MOVES_BETWEEN | GATHERS),
    OPERATION(Allgatherv, MOVES_BETWEEN | GATHERS),
    OPERATION(Alltoall, MOVES_BETWEEN),
    OPERATION(Alltoallv, MOVES_BETWEEN),
    OPERATION(Alltoallw, MOVES_BETWEEN),
    OPERATION(Reduce, ROOTED | REDUCES | MOVES_BETWEEN),
    OPERATION(Allreduce, REDUCES | MOVES_BETWEEN),
    OPERATION(Reduce_scatter, REDUCES | MOVES_BETWEEN),
    OPERATION(Reduce_scatter_block, REDUCES | MOVES_BETWEEN),
    OPERATION(Scan, REDUCES | MOVES_BETWEEN),
    OPERATION(Exscan, REDUCES | MOVES_BETWEEN),
};

/* ---- What is special about a call ---- */

static void root_below(struct call *call)
{
    call->root = -1;
}
static void root_beyond(struct call *call)
{
    call->root = ranks;
}
static void count_below(struct call *call)
{
    call->count = -1;
}
static void no_type(struct call *call)
{
    call->type = MPI_DATATYPE_NULL;
}
static void uncommitted_type(struct call *call)
{
    static MPI_Datatype all = MPI_DATATYPE_NULL;
    if (all == MPI_DATATYPE_NULL)
        MPI_Type_contiguous(items, MPI_DOUBLE, &all);
    call->count = 1;
    call->type = all;
}
static void add(void *from, void *into, int *count, MPI_Datatype *type)
{
    (void)from, (void)into, (void)count, (void)type;
}
static void uncommitted_type_by_function(struct call *call)
{
    static MPI_Op function = MPI_OP_NULL;
    if (function == MPI_OP_NULL)
        MPI_Op_create(add, 1, &function);
    uncommitted_type(call);
    call->op = function;
}
static void uncommitted_nothing(struct call *call)
{
    uncommitted_type(call);
    call->count = 0;
}
static void nowhere(struct call *call)
{
    call->send = call->receive = NULL;
}
static void from_nowhere(struct call *call)
{
    call->send = NULL;
}
static void to_nowhere(struct call *call)
{
    call->receive = NULL;
}
static void to_in_place(struct call *call)
{
    call->receive = MPI_IN_PLACE;
}
static void from_in_place_on_others(struct call *call)
{
    if (rank != call->root)
        call->send = MPI_IN_PLACE;
}
static void last_count_below(struct call *call)
{
    call->last_count = -1;
}
static void no_operation(struct call *call)
{
    call->op = MPI_OP_NULL;
}
static void wrong_operation(struct call *call)
{
    call->op = MPI_BAND; /* of doubles */
}
static void both_in_place(struct call *call)
{
    call->send = call->receive = MPI_IN_PLACE;
}
static void same_buffer(struct call *call)
{
    call->send = call->receive;
}
static void own_place(struct call *call)
{
    call->send = (double *)call->receive + rank * items;
}
static void one_buffer_on_one_rank(struct call *call)
{
    if (rank == 1)
        call->send = call->receive;
}
static void root_gives_less(struct call *call)
{
    call->count -= rank == call->root;
}
static void root_gives_more(struct call *call)
{
    call->count -= rank != call->root;
}
static void nothing(struct call *call)
{
    call->count = 0;
}
static void nothing_nowhere(struct call *call)
{
    call->count = 0;
    call->send = call->receive = NULL;
}
static void nothing_by_gaps(struct call *call)
{
    static MPI_Datatype spaced = MPI_DATATYPE_NULL;
    if (spaced == MPI_DATATYPE_NULL) {
        MPI_Type_create_resized(MPI_DOUBLE, 0, 2 * sizeof(double), &spaced);
        MPI_Type_commit(&spaced);
    }
    call->count = 0;
    call->type = spaced;
}

static const struct way {
    const char *name;
    void (*change)(struct call *call);
    int kind; /* of the operations for which it is made; 0: of all */
    int is_empty;
} ways[] = {
    {"root -1", root_below, ROOTED, 0},
    {"a root too large", root_beyond, ROOTED, 0},
    {"count -1", count_below, 0, 0},
    {"no type", no_type, 0, 0},
    {"a type that is not committed", uncommitted_type, 0, 0},
    {"a type that is not committed, by a function", uncommitted_type_by_function, REDUCES, 0},
    {"nothing of a type that is not committed", uncommitted_nothing, 0, 1},
    {"nowhere", nowhere, 0, 0},
    {"from nowhere", from_nowhere, MOVES_BETWEEN, 0},
    {"to nowhere", to_nowhere, MOVES_BETWEEN, 0},
    {"to the place of the data", to_in_place, MOVES_BETWEEN, 0},
    {"in place on ranks that are not the root", from_in_place_on_others, ROOTED | MOVES_BETWEEN, 0},
    {"the last rank's count -1", last_count_below, MOVES_BETWEEN, 0},
    {"no operation", no_operation, REDUCES, 0},
    {"an operation not for the type", wrong_operation, REDUCES, 0},
    {"both in place", both_in_place, MOVES_BETWEEN, 0},
    {"one buffer", same_buffer, MOVES_BETWEEN, 0},
    {"from its own place", own_place, GATHERS, 0},
    {"one buffer on one rank", one_buffer_on_one_rank, GATHERS, 0},
    {"less than expected", root_gives_less, BROADCASTS, 0},
    {"more than expected", root_gives_more, BROADCASTS, 0},
    {"nothing", nothing, 0, 1},
    {"nothing at NULL", nothing_nowhere, 0, 1},
    {"nothing of a type with gaps", nothing_by_gaps, MOVES_BETWEEN, 1},
};

/* ---- */

static void handle(MPI_Comm *comm, int *error, ...)
{
    (void)comm, (void)error;
    handled++;
}

static void expect_sum(MPI_Comm comm, const char *name, const char *way)
{
    int mine = rank + 1, sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
    if (sum != ranks * (ranks + 1) / 2 && wrong++ < 5)
        printf("rank %d: the operation after %s, %s, is wrong\n", rank, name, way);
}

static void report(const struct operation *operation, const struct way *way, int class)
{
    int mine[2] = {class, handled}, all[2 * MOST_RANKS];
    char text[256] = "";
    MPI_Gather(mine, 2, MPI_INT, all, 2, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < ranks; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), " %d (%d times)", all[2 * i],
                 all[2 * i + 1]);
    if (rank == 0)
        printf("%s, %s:%s\n", operation->name, way->name, text);
    fflush(stdout);
}

static int is_one_of(int (*call)(const struct call *), const char *names)
{
    for (unsigned i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
        if (operations[i].call == call)
            return strstr(names, operations[i].name) != NULL;
    return 0;
}

/* What crashes the library itself, as processes too (Open MPI 4.1, MPICH 4.0), or never ends in it
 * (Open MPI 4.1), is refused on some ranks alone, for which the others wait, or is refused without
 * a reason: MPICH takes two buffers at NULL, of nothing, for one, and wants a buffer of rank 0 for
 * MPI_Exscan. Open MPI's MPI_Allgatherv accepts a negative count. */
static int is_left_out(const struct operation *operation, const struct way *way)
{
    int is_rooted = operation->kind & ROOTED;
    if (way->change == from_in_place_on_others || way->change == last_count_below)
        return !is_one_of(operation->call, "Alltoallv Alltoallw Reduce_scatter") || is_rooted ||
               way->change == from_in_place_on_others;
#ifdef OPEN_MPI
    return (way->change == both_in_place && operation->call == Exscan) ||
           way->change == root_gives_less || way->change == root_gives_more ||
           way->change == nowhere || way->change == from_nowhere || way->change == to_nowhere ||
           (way->change == uncommitted_type && operation->call == Scatterv) ||
           (way->change == uncommitted_nothing && operation->call == Scatterv) ||
           (way->change == to_in_place && is_one_of(operation->call, "Scan Exscan"));
#else
    return (way->change == both_in_place && is_rooted) ||
           (way->change == same_buffer && (is_rooted || (operation->kind & GATHERS))) ||
           (way->change == count_below && (operation->kind & REDUCES)) ||
           (way->change == from_nowhere && is_rooted) ||
           ((way->change == to_in_place || way->change == to_nowhere) &&
            (is_rooted || operation->call == Exscan)) ||
           (way->change == nothing_nowhere && is_one_of(operation->call, "Alltoallv Alltoallw"));
#endif
}

static int is_untouched(const char *buffer, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (buffer[i] != GAP)
            return 0;
    return 1;
}

/* On a communicator of its own, since where some ranks are refused what the others have given may
 * stay. */
static void try(const struct operation *operation, const struct way *way, MPI_Errhandler handler)
{
    static double *give, *get;
    size_t bytes = (size_t)items * MOST_RANKS * sizeof(double);
    if (!give && (!(give = calloc(1, bytes)) || !(get = malloc(bytes))))
        abort();
    struct call call = {MPI_COMM_NULL, 0, items, MPI_DOUBLE, MPI_SUM, give, get, 0};
    int class, all_refused = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &call.comm);
    MPI_Comm_set_errhandler(call.comm, handler);
    memset(get, GAP, bytes);
    if (wrong_rank < 0 || rank == wrong_rank)
        way->change(&call);
    handled = 0;
    MPI_Error_class(operation->call(&call), &class);
    int refused = class != MPI_SUCCESS;
    if (way->is_empty && !is_untouched((char *)get, bytes) && wrong++ < 5)
        printf("rank %d: %s of nothing has changed memory\n", rank, operation->name);
    report(operation, way, class);
    MPI_Allreduce(&refused, &all_refused, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (all_refused || way->is_empty || wrong_rank >= 0)
        expect_sum(call.comm, operation->name, way->name);
    expect_sum(MPI_COMM_WORLD, operation->name, way->name);
    MPI_Comm_free(&call.comm);
}

static int is_among(const char *name, char **names)
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

int main(int argc, char **argv)
{
    MPI_Errhandler handler;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc > 1)
        wrong_rank = atoi(argv[1]);
    if (argc > 2)
        items = atoi(argv[2]);
    MPI_Comm_create_errhandler(handle, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler); /* Open MPI calls it for a few errors */
    for (unsigned i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
        for (unsigned k = 0; k < sizeof(ways) / sizeof(ways[0]); k++)
            if ((!ways[k].kind || (ways[k].kind & operations[i].kind)) &&
                !(argc > 3 && is_among(operations[i].name, argv + 3)) &&
                (wrong_rank >= 0 ? !ways[k].is_empty : !is_left_out(&operations[i], &ways[k])))
                try(&operations[i], &ways[k], handler);
    MPI_Errhandler_free(&handler);
    printf("rank %d: %d wrong\n", rank, wrong);
    MPI_Finalize();
    return wrong != 0;
}
