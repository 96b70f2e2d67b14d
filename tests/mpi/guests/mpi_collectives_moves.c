/* mpi_collectives_moves ROUNDS [SEED]: random collective operations that move data between ranks or
 * combine it in their order, on several communicators; each rank describes its side by a type of
 * its own, and checks what it gets. Exit status 1: something was wrong.
 *
 * mpi_collectives_moves sizes: gathers in which the root expects other sizes than it gets; it says
 * which of them failed. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COMMS = 4, GAP = -77 };

static int wrong;
static MPI_Datatype spaced; /* an int, and room for another */
static MPI_Op then;         /* not commutative */

struct call {
    MPI_Comm comm;
    int rank, ranks, round, root, in_place, scale;
};

static void expect(int is_right, const char *what, const struct call *call)
{
    if (!is_right && wrong++ < 5)
        printf("round %d, rank %d of %d: %s is wrong\n", call->round, call->rank, call->ranks,
               what);
}

/* One side's data: ints `step` apart. */
struct typed_items {
    int *data, step, room;
    MPI_Datatype type;
};

static struct typed_items make(const struct call *call, int room, int salt)
{
    int step = 1 + (call->rank * 3 + call->round + salt) % 2;
    struct typed_items side = {malloc(sizeof(int) * (2 * (size_t)room + 1)), step, room,
                               step == 1 ? MPI_INT : spaced};
    for (int i = 0; i < 2 * room; i++)
        side.data[i] = GAP;
    return side;
}

static int value(const struct call *call, int from, int to, int i)
{
    return from * 1000003 + to * 7919 + i * 13 + call->round;
}

/* How many ints `from` gives to `to` where ranks give different numbers. */
static int count_of(const struct call *call, int from, int to)
{
    return (from * 5 + to * 3 + call->round) % 4 * call->scale;
}

static void put(const struct call *call, struct typed_items *side, int at, int count, int from,
                int to)
{
    for (int i = 0; i < count; i++)
        side->data[(at + i) * side->step] = value(call, from, to, i);
}

static int has(const struct call *call, const struct typed_items *side, int at, int count, int from,
               int to)
{
    for (int i = 0; i < count; i++)
        if (side->data[(at + i) * side->step] != value(call, from, to, i))
            return 0;
    return 1;
}

/* Nothing was written between the elements, or behind the last. */
static int is_clean(const struct typed_items *side, int used)
{
    for (int i = 0; i < 2 * side->room; i++)
        if ((i % side->step || i / side->step >= used) && side->data[i] != GAP)
            return 0;
    return 1;
}

/* The ints of each rank and where they are, in an order of their own, with gaps. */
struct counts {
    int counts[64], at[64], bytes[64], all;
    MPI_Datatype types[64];
};

static struct counts counts_of(const struct call *call, const struct typed_items *side, int gives,
                               int to_one)
{
    struct counts made = {.all = 0};
    for (int i = call->ranks - 1; i >= 0; i--) {
        made.counts[i] = gives ? count_of(call, call->rank, i)
                               : count_of(call, i, to_one ? call->root : call->rank);
        made.at[i] = made.all;
        made.bytes[i] = made.all * side->step * (int)sizeof(int);
        made.types[i] = side->type;
        made.all += made.counts[i] + i % 2;
    }
    return made;
}

static void gather(const struct call *call, int to_all)
{
    int n = call->scale, gets = to_all || call->rank == call->root,
        in_place = call->in_place && gets;
    struct typed_items from = make(call, n, 0), to = make(call, n * call->ranks, 1);
    put(call, in_place ? &to : &from, in_place ? n * call->rank : 0, n, call->rank, 0);
    const void *given = in_place ? MPI_IN_PLACE : from.data;
    if (to_all)
        MPI_Allgather(given, n, from.type, to.data, n, to.type, call->comm);
    else
        MPI_Gather(given, n, from.type, to.data, n, to.type, call->root, call->comm);
    for (int i = 0; gets && i < call->ranks; i++)
        expect(has(call, &to, n * i, n, i, 0), to_all ? "Allgather" : "Gather", call);
    expect(!gets || is_clean(&to, n * call->ranks), "a gap of Gather", call);
    free(from.data);
    free(to.data);
}

static void gatherv(const struct call *call, int to_all)
{
    int gets = to_all || call->rank == call->root, in_place = call->in_place && gets;
    struct call same = *call; /* each gives the same to all */
    same.root = 0;
    struct typed_items from = make(call, 4 * call->scale, 0),
                       to = make(call, 5 * call->scale * call->ranks, 1);
    struct counts counts = counts_of(&same, &to, 0, 1);
    int n = count_of(call, call->rank, 0);
    put(call, in_place ? &to : &from, in_place ? counts.at[call->rank] : 0, n, call->rank, 0);
    const void *given = in_place ? MPI_IN_PLACE : from.data;
    if (to_all)
        MPI_Allgatherv(given, n, from.type, to.data, counts.counts, counts.at, to.type, call->comm);
    else
        MPI_Gatherv(given, n, from.type, to.data, counts.counts, counts.at, to.type, call->root,
                    call->comm);
    for (int i = 0; gets && i < call->ranks; i++)
        expect(has(call, &to, counts.at[i], counts.counts[i], i, 0),
               to_all ? "Allgatherv" : "Gatherv", call);
    free(from.data);
    free(to.data);
}

static void scatter(const struct call *call, int varies)
{
    int is_root = call->rank == call->root, in_place = call->in_place && is_root, root = call->root;
    struct typed_items from = make(call, 5 * call->scale * call->ranks, 0),
                       to = make(call, 4 * call->scale, 1);
    struct counts counts = counts_of(call, &from, 1, 0);
    int n = varies ? count_of(call, root, call->rank) : call->scale;
    for (int i = 0; is_root && i < call->ranks; i++)
        put(call, &from, varies ? counts.at[i] : i * n, varies ? counts.counts[i] : n, root, i);
    void *gets = in_place ? MPI_IN_PLACE : to.data;
    if (varies)
        MPI_Scatterv(from.data, counts.counts, counts.at, from.type, gets, n, to.type, root,
                     call->comm);
    else
        MPI_Scatter(from.data, n, from.type, gets, n, to.type, root, call->comm);
    expect(in_place || (has(call, &to, 0, n, root, call->rank) && is_clean(&to, n)),
           varies ? "Scatterv" : "Scatter", call);
    free(from.data);
    free(to.data);
}

static void alltoall(const struct call *call)
{
    int n = call->scale;
    struct typed_items from = make(call, n * call->ranks, 0), to = make(call, n * call->ranks, 1);
    for (int i = 0; i < call->ranks; i++)
        put(call, call->in_place ? &to : &from, n * i, n, call->rank, i);
    MPI_Alltoall(call->in_place ? MPI_IN_PLACE : from.data, n, from.type, to.data, n, to.type,
                 call->comm);
    for (int i = 0; i < call->ranks; i++)
        expect(has(call, &to, n * i, n, i, call->rank), "Alltoall", call);
    expect(is_clean(&to, n * call->ranks), "a gap of Alltoall", call);
    free(from.data);
    free(to.data);
}

/* In place what a rank gives and gets has the same size: so it has no zero counts in one direction
 * only. */
static void alltoallv(const struct call *call, int with_types)
{
    struct typed_items from = make(call, 5 * call->scale * call->ranks, 0);
    struct typed_items to = make(call, 5 * call->scale * call->ranks, 1);
    struct counts gives = counts_of(call, &from, 1, 0), gets = counts_of(call, &to, 0, 0);
    for (int i = 0; call->in_place && i < call->ranks; i++) {
        gets.counts[i] = (call->rank + i + call->round) % 4 * call->scale;
        gets.at[i] = i * 4 * call->scale;
        gets.bytes[i] = gets.at[i] * to.step * (int)sizeof(int);
    }
    for (int i = 0; i < call->ranks; i++)
        if (call->in_place)
            put(call, &to, gets.at[i], gets.counts[i], call->rank, i);
        else
            put(call, &from, gives.at[i], gives.counts[i], call->rank, i);
    const void *given = call->in_place ? MPI_IN_PLACE : from.data;
    if (with_types)
        MPI_Alltoallw(given, gives.counts, gives.bytes, gives.types, to.data, gets.counts,
                      gets.bytes, gets.types, call->comm);
    else
        MPI_Alltoallv(given, gives.counts, gives.at, from.type, to.data, gets.counts, gets.at,
                      to.type, call->comm);
    for (int i = 0; i < call->ranks; i++)
        expect(has(call, &to, gets.at[i], gets.counts[i], i, call->rank),
               with_types ? "Alltoallw" : "Alltoallv", call);
    free(from.data);
    free(to.data);
}

/* a, then b: x -> a0 x + a1, modulo 2^32. */
static void compose(void *in, void *inout, int *count, MPI_Datatype *type)
{
    uint32_t *a = in, *b = inout;
    (void)type;
    for (int i = 0; i < *count; i++, a += 2, b += 2) {
        b[1] += b[0] * a[1];
        b[0] *= a[0];
    }
}

static void affine(const struct call *call, uint32_t *to, int rank, int i)
{
    to[0] = 2u * (uint32_t)(rank + i + call->round) + 1;
    to[1] = (uint32_t)(rank * 31 + i * 7 + call->round);
}

/* The functions of ranks 0 to `ranks` - 1, one after another. */
static void composed(const struct call *call, uint32_t *to, int ranks, int i)
{
    int one = 1;
    affine(call, to, ranks - 1, i);
    for (int rank = ranks - 2; rank >= 0; rank--) {
        uint32_t first[2];
        affine(call, first, rank, i);
        compose(first, to, &one, NULL);
    }
}

static void in_order(const struct call *call, int what)
{
    static const char *const names[] = {"own Allreduce", "own Reduce", "own Scan", "own Exscan"};
    int n = call->scale, gets = what != 1 || call->rank == call->root;
    MPI_Datatype pair;
    MPI_Type_contiguous(2, MPI_UINT32_T, &pair);
    MPI_Type_commit(&pair);
    uint32_t *in = malloc(8 * (size_t)n), *out = malloc(8 * (size_t)n), right[2];
    for (int i = 0; i < n; i++) {
        affine(call, in + 2 * i, call->rank, i);
        affine(call, out + 2 * i, call->rank, i);
    }
    const void *given = call->in_place && gets ? MPI_IN_PLACE : in;
    if (what == 0)
        MPI_Allreduce(given, out, n, pair, then, call->comm);
    else if (what == 1)
        /* MPICH 4.0.2 crashes where another root than rank 0 reduces in place. */
        MPI_Reduce(call->root ? in : given, out, n, pair, then, call->root, call->comm);
    else if (what == 2)
        MPI_Scan(given, out, n, pair, then, call->comm);
    else
        MPI_Exscan(given, out, n, pair, then, call->comm);
    int operands = what < 2 ? call->ranks : what == 2 ? call->rank + 1 : call->rank;
    for (int i = 0; gets && operands && i < n; i++) {
        composed(call, right, operands, i);
        expect(memcmp(right, out + 2 * i, sizeof(right)) == 0, names[what], call);
    }
    MPI_Type_free(&pair);
    free(in);
    free(out);
}

static void scan(const struct call *call, int is_exclusive)
{
    int n = call->scale, operands = call->rank + !is_exclusive;
    int64_t *in = malloc(8 * (size_t)n), *out = malloc(8 * (size_t)n);
    for (int i = 0; i < n; i++)
        in[i] = out[i] = value(call, call->rank, 0, i);
    if (is_exclusive)
        MPI_Exscan(call->in_place ? MPI_IN_PLACE : in, out, n, MPI_INT64_T, MPI_SUM, call->comm);
    else
        MPI_Scan(call->in_place ? MPI_IN_PLACE : in, out, n, MPI_INT64_T, MPI_SUM, call->comm);
    for (int i = 0; i < n; i++) {
        int64_t sum = 0;
        for (int rank = 0; rank < operands; rank++)
            sum += value(call, rank, 0, i);
        expect(operands == 0 || sum == out[i], is_exclusive ? "Exscan" : "Scan", call);
    }
    free(in);
    free(out);
}

static void reduce_scatter(const struct call *call, int is_block)
{
    int counts[64], all = 0, before = 0;
    for (int i = 0; i < call->ranks; i++) {
        counts[i] = is_block ? call->scale : count_of(call, i, 0);
        before += i < call->rank ? counts[i] : 0;
        all += counts[i];
    }
    int64_t *in = malloc(8 * (size_t)all + 8), *out = malloc(8 * (size_t)all + 8);
    for (int i = 0; i < all; i++)
        in[i] = out[i] = value(call, call->rank, 0, i);
    const void *given = call->in_place ? MPI_IN_PLACE : in;
    if (is_block)
        MPI_Reduce_scatter_block(given, out, call->scale, MPI_INT64_T, MPI_SUM, call->comm);
    else
        MPI_Reduce_scatter(given, out, counts, MPI_INT64_T, MPI_SUM, call->comm);
    for (int i = 0; i < counts[call->rank]; i++) {
        int64_t sum = 0;
        for (int rank = 0; rank < call->ranks; rank++)
            sum += value(call, rank, 0, before + i);
        expect(sum == out[i], is_block ? "Reduce_scatter_block" : "Reduce_scatter", call);
    }
    free(in);
    free(out);
}

static void one(const struct call *call, int what)
{
    switch (what) {
    case 0:
    case 1:
        return gather(call, what);
    case 2:
    case 3:
        return gatherv(call, what - 2);
    case 4:
    case 5:
        return scatter(call, what - 4);
    case 6:
        return alltoall(call);
    case 7:
    case 8:
        return alltoallv(call, what - 7);
    case 9:
    case 10:
        return scan(call, what - 9);
    case 11:
    case 12:
        return reduce_scatter(call, what - 11);
    default:
        return in_order(call, what - 13);
    }
}

static void gather_sizes(int rank, int given, int expected)
{
    enum { MOST = 65536 };
    static signed char mine[MOST], all[4 * MOST];
    int class = MPI_SUCCESS, ranks;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    memset(mine, rank, sizeof(mine));
    memset(all, GAP, sizeof(all));
    int result = MPI_Gather(mine, rank ? given : expected, MPI_CHAR, all, expected, MPI_CHAR, 0,
                            MPI_COMM_WORLD);
    MPI_Error_class(result, &class);
    memset(mine, GAP, sizeof(mine)); /* it is the caller's again */
    for (int i = 0; rank == 0 && given <= expected && i < ranks * expected; i++)
        wrong += all[i] != (i % expected < (i < expected ? expected : given) ? i / expected : GAP);
    printf("rank %d, %d for %d: %s, %d wrong\n", rank, given, expected,
           class == MPI_ERR_TRUNCATE ? "truncated"
           : result                  ? "an error"
                                     : "no error",
           wrong);
}

/* Rank 1 makes another call, after so many that are alike: nobody waits for ever. */
static void gather_with_another_call(int rank, int before)
{
    static signed char mine[16384], all[8 * 16384];
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    while (before--)
        MPI_Bcast(mine, 1, MPI_CHAR, 0, comm);
    if (rank == 1)
        MPI_Alltoall(mine, 1024, MPI_CHAR, all, 1024, MPI_CHAR, comm);
    else
        MPI_Gather(mine, 16384, MPI_CHAR, all, 16384, MPI_CHAR, 0, comm);
}

static int disagree(int rank)
{
    static const int sizes[][2] = {{65536, 65536}, {65536, 32768}, {65536, 100},
                                   {32768, 65536}, {100, 65536},   {65536, 65536}};
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        gather_sizes(rank, sizes[i][0], sizes[i][1]);
    for (int before = 0; before < 3; before++)
        gather_with_another_call(rank, before);
    MPI_Finalize();
    return wrong != 0;
}

int main(int argc, char **argv)
{
    MPI_Comm comms[COMMS];
    int rank, rounds = argc > 1 ? atoi(argv[1]) : 100;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 1 && strcmp(argv[1], "sizes") == 0)
        return disagree(rank);
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spaced);
    MPI_Type_commit(&spaced);
    MPI_Op_create(compose, 0, &then);
    comms[0] = MPI_COMM_WORLD;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comms[1]);
    MPI_Comm_dup(MPI_COMM_SELF, &comms[2]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, rank % 2 * 64 + rank, &comms[3]); /* not node by node */
    srand(argc > 2 ? (unsigned)atoi(argv[2]) : 1);
    for (int round = 0; round < rounds; round++) {
        int which = rand() % (COMMS + 2) % COMMS, what = rand() % 17, size = rand() % 8, n = rand();
        struct call call = {.comm = comms[which], .round = round, .in_place = rand() % 2};
        MPI_Comm_rank(call.comm, &call.rank);
        MPI_Comm_size(call.comm, &call.ranks);
        call.root = rand() % call.ranks;
        call.scale = 1 + n % (size < 4 ? 12 : size < 7 ? 400 : 9000);
        if (size == 0 && call.rank == round % 5) /* some are late, sometimes */
            usleep(200);
        one(&call, what);
    }
    for (int i = 1; i < COMMS; i++)
        MPI_Comm_free(&comms[i]);
    MPI_Op_free(&then);
    MPI_Type_free(&spaced);
    printf("rank %d: %d wrong\n", rank, wrong);
    MPI_Finalize();
    return wrong != 0;
}
