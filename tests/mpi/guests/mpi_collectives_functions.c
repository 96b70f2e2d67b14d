/* mpi_collectives_functions ROUNDS [SEED [WHICH]]: random reductions by functions of the program,
 * each checked against what a rank computes by itself. WHICH: "dense" has no types with gaps;
 * "alike" has, the same on all ranks, as far as libraries can do that; "layer" has all, also such
 * as differ between ranks in all but the data, at MPI_BOTTOM, and checks that a function gets up to
 * 4 KiB at once. Exit status 1: something was wrong.
 *
 * mpi_collectives_functions disagree: rank 1 gives fewer items than the others. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COMMS = 3, MOST_RANKS = 64, GAP = 0x5a, AT_ONCE = 4096, MOST_ITEMS = 4000 };

static int wrong, is_dense, is_layer;

struct call {
    MPI_Comm comm;
    int rank, ranks, round, what, root, in_place, count;
    MPI_Op op;
};

static void expect(int is_right, const char *what, const struct call *call)
{
    if (!is_right && wrong++ < 5)
        printf("round %d, rank %d of %d, %d items: %s is wrong\n", call->round, call->rank,
               call->ranks, call->count, what);
}

/* ---- Items: words that belong together, and operations on them ---- */

enum { SIDE = 3, PERMUTED = 1500, MOST_WORDS = PERMUTED, SIZES = 3 };
static const int sizes[SIZES] = {2, SIDE *SIDE, PERMUTED}; /* x -> a0 x + a1; matrix; permutation */

static void item_of(uint32_t *to, int words, int rank, int i, int round)
{
    uint32_t seed = (uint32_t)(rank * 7919 + i * 31 + round * 101 + 1);
    for (int k = 0; k < words; k++)
        to[k] = words == PERMUTED ? ((uint32_t)k + seed % 97) % PERMUTED
                                  : seed * (uint32_t)(2 * k + 3) + (uint32_t)k;
    if (words == PERMUTED) { /* rotations would commute */
        uint32_t at = seed % (PERMUTED - 1), word = to[at];
        to[at] = to[at + 1];
        to[at + 1] = word;
    }
}

/* b = a, then b. Not commutative, and a word of the result depends on several of an item. */
static void compose(const uint32_t *a, uint32_t *b, int words)
{
    static uint32_t result[MOST_WORDS];
    if (words == 2) {
        b[1] += b[0] * a[1];
        b[0] *= a[0];
        return;
    }
    for (int k = 0; words == PERMUTED && k < words; k++)
        result[k] = b[a[k]];
    for (int k = 0; words != PERMUTED && k < words; k++) {
        const uint32_t *row = a + k / SIDE * SIDE, *column = b + k % SIDE;
        /* Nine words, all of them set. */
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) */
        result[k] = row[0] * column[0] + row[1] * column[SIDE] + row[2] * column[2 * SIDE];
    }
    memcpy(b, result, sizeof(*b) * (size_t)words);
}

static void add(const uint32_t *a, uint32_t *b, int words)
{
    for (int k = 0; k < words; k++)
        b[k] += a[k];
}

/* ---- Types: where the words of an item are ---- */

enum { DENSE, SHIFTED, SPREAD, NEGATIVE, BACKWARDS, COLUMN, FORMS };

struct form {
    int words;
    MPI_Aint low, high, extent, at[MOST_WORDS]; /* bytes */
    MPI_Datatype type;
};
static struct form forms[SIZES][FORMS], absolute; /* absolute: of one call, at MPI_BOTTOM */

static void make_form(struct form *form, int words, int which)
{
    MPI_Datatype inner;
    int is_column = which == COLUMN && words == 2; /* items lie between one another's words */
    MPI_Aint step = which == SPREAD ? 12 : is_column ? 8 * MOST_ITEMS : 4;
    form->words = words;
    form->low = which == SHIFTED ? 4 : which == NEGATIVE ? -8 : 0;
    form->high = form->low + (words - 1) * step + 4;
    form->extent = which == DENSE      ? 4 * words
                   : is_column         ? 4
                   : which == NEGATIVE ? form->high - form->low + 8
                                       : form->high + 8;
    for (int k = 0; k < words; k++)
        form->at[k] = form->low + (which == BACKWARDS ? words - 1 - k : k) * step;
    if (which == DENSE)
        MPI_Type_contiguous(words, MPI_UINT32_T, &inner);
    else
        MPI_Type_create_hindexed_block(words, 1, form->at, MPI_UINT32_T, &inner);
    MPI_Type_create_resized(inner, which == NEGATIVE ? form->low : 0, form->extent, &form->type);
    MPI_Type_commit(&form->type);
    MPI_Type_free(&inner);
}

static const struct form *form_of(MPI_Datatype type)
{
    if (absolute.words && type == absolute.type)
        return &absolute;
    for (int i = 0; i < SIZES * FORMS; i++)
        if (forms[i / FORMS][i % FORMS].type == type)
            return &forms[i / FORMS][i % FORMS];
    return NULL;
}

static void *word_at(const struct form *form, const void *items, int i, int k)
{
    uintptr_t at = (uintptr_t)items + (uintptr_t)(i * form->extent + form->at[k]);
    return (void *)at;
}

static void read_item(const struct form *form, const void *items, int i, uint32_t *words)
{
    for (int k = 0; k < form->words; k++)
        memcpy(&words[k], word_at(form, items, i, k), sizeof(*words));
}

static void write_item(const struct form *form, void *items, int i, const uint32_t *words)
{
    for (int k = 0; k < form->words; k++)
        memcpy(word_at(form, items, i, k), &words[k], sizeof(*words));
}

/* ---- The functions ---- */

static int all_at_once; /* items of the call in progress, if they must come so; else 0 */

static void by_items(void *in, void *inout, int count, MPI_Datatype type,
                     void (*combine)(const uint32_t *, uint32_t *, int))
{
    static uint32_t a[MOST_WORDS], b[MOST_WORDS];
    const struct form *form = form_of(type);
    if ((!form || count < all_at_once) && wrong++ < 5)
        printf("a function got %s\n", form ? "only some of the items" : "a type of no call");
    for (int i = 0; form && i < count; i++) {
        read_item(form, in, i, a);
        read_item(form, inout, i, b);
        combine(a, b, form->words);
        write_item(form, inout, i, b);
    }
}

static void compose_items(void *in, void *inout, int *count, MPI_Datatype *type)
{
    by_items(in, inout, *count, *type, compose);
}

static void add_items(void *in, void *inout, int *count, MPI_Datatype *type)
{
    by_items(in, inout, *count, *type, add);
}

static MPI_Op composes, adds;

/* Of the first `ranks` ranks. */
static void combined(const struct call *call, uint32_t *to, int words, int ranks, int i)
{
    static uint32_t first[MOST_WORDS];
    item_of(to, words, ranks - 1, i, call->round);
    for (int rank = ranks - 2; rank >= 0; rank--) {
        item_of(first, words, rank, i, call->round);
        (call->op == composes ? compose : add)(first, to, words);
    }
}

/* ---- Buffers ---- */

/* Items of a form; all other bytes are GAP. */
struct buffer {
    unsigned char *memory;
    void *items;
    size_t size;
    const struct form *form;
};

static struct buffer make(const struct form *form, int count)
{
    enum { EDGE = 16 };
    size_t size = (size_t)(count * form->extent + form->high) + 2 * EDGE;
    struct buffer buffer = {malloc(size), NULL, size, form};
    memset(buffer.memory, GAP, size);
    buffer.items = buffer.memory + EDGE;
    return buffer;
}

/* Nothing but the first `count` items was written. Overwrites them. */
static int is_clean(const struct buffer *buffer, int count)
{
    uint32_t gaps[MOST_WORDS];
    memset(gaps, GAP, sizeof(gaps));
    for (int i = 0; i < count; i++)
        write_item(buffer->form, buffer->items, i, gaps);
    for (size_t i = 0; i < buffer->size; i++)
        if (buffer->memory[i] != GAP)
            return 0;
    return 1;
}

/* ---- Calls ---- */

enum { ALLREDUCE, REDUCE, SCAN, EXSCAN, SCATTER, SCATTER_BLOCK, CALLS };
static const char *const names[] = {"Allreduce", "Reduce",         "Scan",
                                    "Exscan",    "Reduce_scatter", "Reduce_scatter_block"};

/* What a rank gives, and which part of the result it gets. */
struct part {
    int counts[MOST_RANKS]; /* of the calls that scatter */
    int all, first, mine;   /* items */
    int operands;           /* of the first so many ranks; 0: it gets nothing */
};

static struct part part_of(const struct call *call)
{
    struct part part = {.all = call->count, .mine = call->count};
    part.operands = call->what == SCAN                                 ? call->rank + 1
                    : call->what == EXSCAN                             ? call->rank
                    : call->what == REDUCE && call->rank != call->root ? 0
                                                                       : call->ranks;
    if (call->what < SCATTER)
        return part;
    part.all = 0;
    for (int i = 0; i < call->ranks; i++) {
        part.counts[i] = call->what == SCATTER
                             ? (i + call->round) % 3 * (call->count / (2 * call->ranks) + 1)
                             : call->count / call->ranks + 1;
        part.all += part.counts[i];
        part.first += i < call->rank ? part.counts[i] : 0;
    }
    part.mine = part.counts[call->rank];
    return part;
}

static void run(const struct call *call, const struct part *part, const void *in, void *out,
                MPI_Datatype type)
{
    int count = call->count;
    switch (call->what) {
    case ALLREDUCE:
        MPI_Allreduce(in, out, count, type, call->op, call->comm);
        return;
    case REDUCE:
        MPI_Reduce(in, out, count, type, call->op, call->root, call->comm);
        return;
    case SCAN:
        MPI_Scan(in, out, count, type, call->op, call->comm);
        return;
    case EXSCAN:
        MPI_Exscan(in, out, count, type, call->op, call->comm);
        return;
    case SCATTER:
        MPI_Reduce_scatter(in, out, part->counts, type, call->op, call->comm);
        return;
    default:
        MPI_Reduce_scatter_block(in, out, part->counts[0], type, call->op, call->comm);
    }
}

/* The same items at MPI_BOTTOM. */
static void make_absolute(const struct form *form, const void *items)
{
    MPI_Aint address;
    MPI_Get_address(items, &address);
    absolute = *form;
    for (int k = 0; k < form->words; k++)
        absolute.at[k] += address;
    MPI_Type_create_hindexed_block(1, 1, &address, form->type, &absolute.type);
    MPI_Type_commit(&absolute.type);
}

static void one(const struct call *call, const struct form *form)
{
    uint32_t words[MOST_WORDS];
    const struct part part = part_of(call);
    /* MPICH 4.0.2 crashes where another root than rank 0 reduces in place. */
    int in_place = call->in_place && (call->what != REDUCE || (call->root == 0 && call->rank == 0));
    int is_absolute =
        is_layer && in_place && form->extent != 4 * form->words && call->round % 4 == 0;
    struct buffer in = make(form, part.all), out = make(form, part.all);
    for (int i = 0; i < part.all; i++) {
        item_of(words, form->words, call->rank, i, call->round);
        write_item(form, (in_place ? &out : &in)->items, i, words);
    }
    int is_short = call->count * form->words * (int)sizeof(*words) <= AT_ONCE;
    /* Where nothing is got, the buffer means nothing. */
    int has_buffer =
        in_place || part.operands || !(call->round % 2) || !(call->what == REDUCE || is_layer);
    all_at_once = is_layer && is_short && call->what < SCATTER ? call->count : 0;
    if (is_absolute) {
        make_absolute(form, out.items);
        run(call, &part, MPI_IN_PLACE, MPI_BOTTOM, absolute.type);
        MPI_Type_free(&absolute.type);
        absolute.words = 0;
    } else
        run(call, &part, in_place ? MPI_IN_PLACE : in.items, has_buffer ? out.items : NULL,
            form->type);
    all_at_once = 0;
    for (int i = 0, is_right = 1; part.operands && is_right && i < part.mine; i++) {
        uint32_t found[MOST_WORDS];
        combined(call, words, form->words, part.operands, part.first + i);
        read_item(form, out.items, i, found);
        is_right = memcmp(found, words, sizeof(*words) * (size_t)form->words) == 0;
        expect(is_right, names[call->what], call);
    }
    expect(is_clean(&in, in_place ? 0 : part.all), "what was given", call);
    expect(is_clean(&out, in_place ? part.all : part.operands ? part.mine : 0), "a gap", call);
    free(in.memory);
    free(out.memory);
}

static int disagree(int rank)
{
    enum { ITEMS = 2000 };
    static uint32_t in[2 * ITEMS], out[2 * ITEMS];
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int result = MPI_Allreduce(in, out, rank == 1 ? ITEMS / 2 : ITEMS, forms[0][DENSE].type,
                               composes, MPI_COMM_WORLD);
    printf("rank %d: %s\n", rank, result == MPI_SUCCESS ? "no error" : "an error");
    MPI_Finalize(); /* a launcher kills the others when a rank ends without it */
    return result == MPI_SUCCESS;
}

static void play(int rounds, MPI_Comm *comms)
{
    for (int round = 0; round < rounds; round++) {
        int which = rand() % COMMS, size = rand() % 8, n = rand(), root = rand(), form = rand();
        struct call call = {.comm = comms[which],
                            .round = round,
                            .what = rand() % CALLS,
                            .in_place = rand() % 2,
                            .op = rand() % 4 ? composes : adds};
        MPI_Comm_rank(call.comm, &call.rank);
        MPI_Comm_size(call.comm, &call.ranks);
        call.root = root % call.ranks;
        size = size < 5 ? 0 : size < 7 ? 1 : 2;
        call.count = 1 + n % (n / 8 % 2 ? 12 : size == 0 ? MOST_ITEMS : size == 1 ? 600 : 8);
        if (size == 2)
            call.count = 1 + n % 8;
        form = is_dense ? DENSE : (form + (is_layer && form / 16 % 2 ? call.rank : 0)) % FORMS;
        /* Open MPI 4.1 crashes where data begins elsewhere than the item. */
        if (!is_layer && call.what == ALLREDUCE && (form == SHIFTED || form == NEGATIVE))
            form = SPREAD;
        if (round % 8 == 0 && call.rank == round % 5) /* some are late, sometimes */
            usleep(200);
        one(&call, &forms[size][form]);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm comms[COMMS];
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    is_dense = argc > 3 && strcmp(argv[3], "dense") == 0;
    is_layer = argc > 3 && strcmp(argv[3], "layer") == 0;
    for (int i = 0; i < SIZES * FORMS; i++)
        make_form(&forms[i / FORMS][i % FORMS], sizes[i / FORMS], i % FORMS);
    MPI_Op_create(compose_items, 0, &composes);
    MPI_Op_create(add_items, 1, &adds);
    if (argc > 1 && strcmp(argv[1], "disagree") == 0)
        return disagree(rank);
    comms[0] = MPI_COMM_WORLD;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[1]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, rank % 2 * MOST_RANKS + rank, &comms[2]);
    srand(argc > 2 ? (unsigned)atoi(argv[2]) : 1);
    play(argc > 1 ? atoi(argv[1]) : 100, comms);
    for (int i = 1; i < COMMS; i++)
        MPI_Comm_free(&comms[i]);
    for (int i = 0; i < SIZES * FORMS; i++)
        MPI_Type_free(&forms[i / FORMS][i % FORMS].type);
    MPI_Op_free(&composes);
    MPI_Op_free(&adds);
    printf("rank %d: %d wrong\n", rank, wrong);
    MPI_Finalize();
    return wrong != 0;
}
