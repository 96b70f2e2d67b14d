/* mpi_collectives_refused [RANK [ITEMS [OPERATION]...]]: calls of collective operations that the
 * MPI library refuses, and calls that move nothing. With RANK only that rank's arguments are wrong.
 * OPERATIONs are left out. Rank 0 prints the class of each rank's error and how often its error
 * handler was called: the same as without the layer. If all ranks were refused the communicator
 * must be as usable as before. Exit status 1: something was wrong. */
#include "mpi/collectives/guests/collective.h"

enum { GAP = 0x5a, RANKS_OF_JOB_MAX = 8 };

static int handled, wrong_rank = -1 /* all */, items = 4;

struct call {
    struct collective arguments;
    int last_count; /* of the forms with one for each rank; 0: like the others */
};

static int call_operation(const struct call *call)
{
    int counts[RANKS_MAX], displs[RANKS_MAX];
    MPI_Datatype types[RANKS_MAX];
    struct collective c = call->arguments;
    for (int i = 0; i < ranks; i++) {
        counts[i] = i == ranks - 1 && call->last_count ? call->last_count : c.recvcount;
        displs[i] = i * items;
        types[i] = c.recvtype;
    }
    c.sendcount = c.recvcount;
    c.sendtype = c.recvtype;
    c.sendcounts = c.recvcounts = counts;
    c.sdispls = c.rdispls = displs;
    c.sendtypes = c.recvtypes = types;
    return collective_call(&c);
}

enum { ROOTED = 1, REDUCES = 2, HAS_TWO_BUFFERS = 4, GATHERS = 8, BROADCASTS = 16 };

static int kind_of(enum operation operation)
{
    int is_rooted =
        operation == BCAST || (operation >= GATHER && operation <= SCATTERV) || operation == REDUCE;
    return (is_rooted ? ROOTED : 0) | (operation >= ALLREDUCE ? REDUCES : 0) |
           (operation == BCAST ? BROADCASTS : HAS_TWO_BUFFERS) |
           (operation == ALLGATHER || operation == ALLGATHERV ? GATHERS : 0);
}

/* ---- How a call is wrong, or moves nothing ---- */

enum way {
    ROOT_NEGATIVE,
    ROOT_TOO_LARGE,
    COUNT_NEGATIVE,
    NO_TYPE,
    UNCOMMITTED_TYPE,
    UNCOMMITTED_TYPE_BY_FUNCTION,
    NOTHING_OF_UNCOMMITTED_TYPE,
    BOTH_NULL,
    SENDBUF_NULL,
    RECVBUF_NULL,
    RECVBUF_IN_PLACE,
    SENDBUF_IN_PLACE_OFF_ROOT,
    LAST_COUNT_NEGATIVE,
    NO_OPERATION,
    OPERATION_NOT_FOR_TYPE,
    BOTH_IN_PLACE,
    SAME_BUFFER,
    OWN_PLACE,
    SAME_BUFFER_ON_RANK_1,
    ROOT_SENDS_LESS,
    ROOT_SENDS_MORE,
    NOTHING,
    NOTHING_AT_NULL,
    NOTHING_WITH_GAPS,
    WAYS
};

static const struct {
    const char *name;
    int kind; /* of the operations for which it is made; 0: of all */
    int is_empty;
} ways[WAYS] = {
    [ROOT_NEGATIVE] = {"root -1", ROOTED, 0},
    [ROOT_TOO_LARGE] = {"a root too large", ROOTED, 0},
    [COUNT_NEGATIVE] = {"count -1", 0, 0},
    [NO_TYPE] = {"no type", 0, 0},
    [UNCOMMITTED_TYPE] = {"a type that is not committed", 0, 0},
    [UNCOMMITTED_TYPE_BY_FUNCTION] = {"a type that is not committed, by a function", REDUCES, 0},
    [NOTHING_OF_UNCOMMITTED_TYPE] = {"nothing of a type that is not committed", 0, 1},
    [BOTH_NULL] = {"both buffers NULL", 0, 0},
    [SENDBUF_NULL] = {"sendbuf NULL", HAS_TWO_BUFFERS, 0},
    [RECVBUF_NULL] = {"recvbuf NULL", HAS_TWO_BUFFERS, 0},
    [RECVBUF_IN_PLACE] = {"recvbuf in place", HAS_TWO_BUFFERS, 0},
    [SENDBUF_IN_PLACE_OFF_ROOT] = {"in place on ranks that are not the root",
                                   ROOTED | HAS_TWO_BUFFERS, 0},
    [LAST_COUNT_NEGATIVE] = {"the last rank's count -1", HAS_TWO_BUFFERS, 0},
    [NO_OPERATION] = {"no operation", REDUCES, 0},
    [OPERATION_NOT_FOR_TYPE] = {"an operation not for the type", REDUCES, 0},
    [BOTH_IN_PLACE] = {"both in place", HAS_TWO_BUFFERS, 0},
    [SAME_BUFFER] = {"one buffer", HAS_TWO_BUFFERS, 0},
    [OWN_PLACE] = {"from its own place", GATHERS, 0},
    [SAME_BUFFER_ON_RANK_1] = {"one buffer on one rank", GATHERS, 0},
    [ROOT_SENDS_LESS] = {"less than expected", BROADCASTS, 0},
    [ROOT_SENDS_MORE] = {"more than expected", BROADCASTS, 0},
    [NOTHING] = {"nothing", 0, 1},
    [NOTHING_AT_NULL] = {"nothing at NULL", 0, 1},
    [NOTHING_WITH_GAPS] = {"nothing of a type with gaps", HAS_TWO_BUFFERS, 1},
};

static MPI_Datatype uncommitted, spaced;
static MPI_Op function;

static void add(void *from, void *into, int *count, MPI_Datatype *type)
{
    (void)from, (void)into, (void)count, (void)type;
}

static void change(enum way way, struct call *call)
{
    struct collective *c = &call->arguments;
    int is_root = rank == c->root;
    if (way == ROOT_NEGATIVE || way == ROOT_TOO_LARGE)
        c->root = way == ROOT_NEGATIVE ? -1 : ranks;
    if (way == NO_TYPE)
        c->recvtype = MPI_DATATYPE_NULL;
    if (way >= UNCOMMITTED_TYPE && way <= NOTHING_OF_UNCOMMITTED_TYPE) {
        c->recvtype = uncommitted;
        c->recvcount = 1;
    }
    if (way == COUNT_NEGATIVE)
        c->recvcount = -1;
    if (ways[way].is_empty)
        c->recvcount = 0;
    if (way == ROOT_SENDS_LESS || way == ROOT_SENDS_MORE)
        c->recvcount -= is_root == (way == ROOT_SENDS_LESS);
    if (way == NOTHING_WITH_GAPS)
        c->recvtype = spaced;
    if (way == LAST_COUNT_NEGATIVE)
        call->last_count = -1;
    if (way == UNCOMMITTED_TYPE_BY_FUNCTION)
        c->op = function;
    if (way == NO_OPERATION || way == OPERATION_NOT_FOR_TYPE)
        c->op = way == NO_OPERATION ? MPI_OP_NULL : MPI_BAND /* of doubles */;
    if (way == SAME_BUFFER || (way == SAME_BUFFER_ON_RANK_1 && rank == 1))
        c->sendbuf = c->recvbuf;
    if (way == OWN_PLACE)
        c->sendbuf = (double *)c->recvbuf + rank * items;
    if (way == BOTH_NULL || way == SENDBUF_NULL || way == NOTHING_AT_NULL)
        c->sendbuf = NULL;
    if (way == BOTH_NULL || way == RECVBUF_NULL || way == NOTHING_AT_NULL)
        c->recvbuf = NULL;
    if (way == BOTH_IN_PLACE || (way == SENDBUF_IN_PLACE_OFF_ROOT && !is_root))
        c->sendbuf = MPI_IN_PLACE;
    if (way == BOTH_IN_PLACE || way == RECVBUF_IN_PLACE)
        c->recvbuf = MPI_IN_PLACE;
}

/* Leaves out what crashes the library itself, as processes too (Open MPI 4.1, MPICH 4.0), or never
 * ends in it (Open MPI 4.1), what it refuses on some ranks alone, for which the others wait, and
 * what it refuses without a reason: MPICH takes two buffers at NULL, of nothing, for one, and wants
 * a buffer of rank 0 for MPI_Exscan. Open MPI's MPI_Allgatherv accepts a negative count. */
static int is_left_out(enum operation operation, enum way way)
{
    if (way == SENDBUF_IN_PLACE_OFF_ROOT)
        return 1;
    if (way == LAST_COUNT_NEGATIVE)
        return operation != ALLTOALLV && operation != ALLTOALLW && operation != REDUCE_SCATTER;
#ifdef OPEN_MPI
    return (way == BOTH_IN_PLACE && operation == EXSCAN) || way == ROOT_SENDS_LESS ||
           way == ROOT_SENDS_MORE || way == BOTH_NULL || way == SENDBUF_NULL ||
           way == RECVBUF_NULL ||
           ((way == UNCOMMITTED_TYPE || way == NOTHING_OF_UNCOMMITTED_TYPE) &&
            operation == SCATTERV) ||
           (way == RECVBUF_IN_PLACE && (operation == SCAN || operation == EXSCAN));
#else
    int is_rooted = kind_of(operation) & ROOTED;
    return (way == BOTH_IN_PLACE && is_rooted) ||
           (way == SAME_BUFFER && (is_rooted || (kind_of(operation) & GATHERS))) ||
           (way == COUNT_NEGATIVE && (kind_of(operation) & REDUCES)) ||
           (way == SENDBUF_NULL && is_rooted) ||
           ((way == RECVBUF_IN_PLACE || way == RECVBUF_NULL) &&
            (is_rooted || operation == EXSCAN)) ||
           (way == NOTHING_AT_NULL && operation >= ALLTOALL && operation <= ALLTOALLW);
#endif
}

/* ---- A call, its outcome, and the next call ---- */

static void handle(MPI_Comm *comm, int *error, ...)
{
    (void)comm, (void)error;
    handled++;
}

static void expect_sum(MPI_Comm comm, enum operation operation, enum way way)
{
    int own = rank + 1, sum = 0;
    MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, comm);
    if (sum != ranks * (ranks + 1) / 2 && wrong++ < 5)
        printf("rank %d: the operation after %s, %s, is wrong\n", rank, operation_names[operation],
               ways[way].name);
}

static void print_outcome(enum operation operation, enum way way, int class)
{
    int own[2] = {class, handled}, all[2 * RANKS_OF_JOB_MAX];
    char text[256] = "";
    MPI_Gather(own, 2, MPI_INT, all, 2, MPI_INT, 0, world);
    for (int i = 0; rank == 0 && i < ranks; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), " %d (%d times)", all[2 * i],
                 all[2 * i + 1]);
    if (rank == 0)
        printf("%s, %s:%s\n", operation_names[operation], ways[way].name, text);
    fflush(stdout);
}

static int is_untouched(const char *buffer, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (buffer[i] != GAP)
            return 0;
    return 1;
}

/* On a communicator of its own, because data of the other ranks may stay in it where some ranks are
 * refused. */
static void try(enum operation operation, enum way way, MPI_Errhandler handler)
{
    static double *in, *out;
    size_t bytes = (size_t)items * RANKS_OF_JOB_MAX * sizeof(double);
    if (!in && (!(in = calloc(1, bytes)) || !(out = malloc(bytes))))
        abort();
    struct call call = {collective_of(operation, items, MPI_DOUBLE, in, out), 0};
    int all_refused = 0;
    MPI_Comm_dup(world, &call.arguments.comm);
    MPI_Comm_set_errhandler(call.arguments.comm, handler);
    memset(out, GAP, bytes);
    if (wrong_rank < 0 || rank == wrong_rank)
        change(way, &call);
    handled = 0;
    int class = class_of(call_operation(&call)), refused = class != MPI_SUCCESS;
    if (ways[way].is_empty && !is_untouched((char *)out, bytes) && wrong++ < 5)
        printf("rank %d: %s of nothing has changed memory\n", rank, operation_names[operation]);
    print_outcome(operation, way, class);
    MPI_Allreduce(&refused, &all_refused, 1, MPI_INT, MPI_MIN, world);
    if (all_refused || ways[way].is_empty || wrong_rank >= 0)
        expect_sum(call.arguments.comm, operation, way);
    expect_sum(world, operation, way);
    MPI_Comm_free(&call.arguments.comm);
}

static int is_tried(enum operation operation, enum way way, char *const *left_out)
{
    while (*left_out)
        if (strcmp(*left_out++, operation_names[operation]) == 0)
            return 0;
    if (ways[way].kind && !(ways[way].kind & kind_of(operation)))
        return 0;
    return wrong_rank >= 0 ? !ways[way].is_empty : !is_left_out(operation, way);
}

int main(int argc, char **argv)
{
    MPI_Errhandler handler;
    mpi_begin(&argc, &argv);
    if (argc > 1)
        wrong_rank = atoi(argv[1]);
    if (argc > 2)
        items = atoi(argv[2]);
    MPI_Type_contiguous(items, MPI_DOUBLE, &uncommitted);
    MPI_Type_create_resized(MPI_DOUBLE, 0, 2 * sizeof(double), &spaced);
    MPI_Type_commit(&spaced);
    MPI_Op_create(add, 1, &function);
    MPI_Comm_create_errhandler(handle, &handler);
    MPI_Comm_set_errhandler(world, handler); /* Open MPI calls it for a few errors */
    for (enum operation operation = BCAST; operation < OPERATIONS; operation++)
        for (enum way way = 0; way < WAYS; way++)
            if (is_tried(operation, way, argv + (argc > 3 ? 3 : argc)))
                try(operation, way, handler);
    MPI_Errhandler_free(&handler);
    return mpi_end_by_root();
}
