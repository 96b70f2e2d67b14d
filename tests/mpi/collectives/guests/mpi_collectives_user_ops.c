/* mpi_collectives_user_ops ROUNDS [SEED [WHICH]]: random reductions by functions of the program,
 * each checked against what a rank computes by itself. WHICH: "dense" has no types with gaps;
 * "alike" has, the same on all ranks, as far as libraries can do that; "layer" has all, also such
 * as differ between ranks in all but the data, at MPI_BOTTOM, and checks that a function gets up to
 * 4 KiB at once. Exit status 1: something was wrong. */
#include <unistd.h>

#include "mpi/collectives/guests/collective.h"

enum { COMMS = 3, GAP = 0x5a, BYTES_AT_ONCE = 4096, ITEMS_MAX = 4000 };

static int is_dense, is_layer;

struct call {
    struct collective arguments;
    struct share share;
    int rank, ranks, round, in_place; /* rank and ranks: of the communicator */
};

static void expect(int is_right, const char *what, const struct call *call)
{
    if (!is_right && wrong++ < 5)
        printf("round %d, rank %d of %d, %d items: %s is wrong\n", call->round, call->rank,
               call->ranks, call->arguments.recvcount, what);
}

/* ---- Items: words that belong together, and operations on them ---- */

enum { SIDE = 3, PERMUTED = 1500, WORDS_MAX = PERMUTED, SIZES = 3 };
static const int sizes[SIZES] = {2, SIDE *SIDE, PERMUTED}; /* x -> a0 x + a1; matrix; permutation */

static void item_of(uint32_t *to, int words, int from, int i, int round)
{
    uint32_t seed = (uint32_t)(from * 7919 + i * 31 + round * 101 + 1);
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
    static uint32_t result[WORDS_MAX];
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

/* ---- Types: places of the words of an item ---- */

enum { DENSE, SHIFTED, SPREAD, NEGATIVE, BACKWARDS, COLUMN, FORMS };

struct form {
    int words;
    MPI_Aint low, high, extent, at[WORDS_MAX]; /* bytes */
    MPI_Datatype type;
};
static struct form forms[SIZES][FORMS], absolute; /* absolute: of one call, at MPI_BOTTOM */

static void make_form(struct form *form, int words, int which)
{
    MPI_Datatype inner;
    int is_column = which == COLUMN && words == 2; /* items lie between one another's words */
    MPI_Aint step = which == SPREAD ? 12 : is_column ? 8 * ITEMS_MAX : 4;
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

static int items_at_once; /* that a function must get in the call in progress; 0: any */

static void by_items(void *in, void *inout, int count, MPI_Datatype type,
                     void (*combine)(const uint32_t *, uint32_t *, int))
{
    static uint32_t a[WORDS_MAX], b[WORDS_MAX];
    const struct form *form = form_of(type);
    if ((!form || count < items_at_once) && wrong++ < 5)
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

/* The result of the first `count` ranks. */
static void combined(const struct call *call, uint32_t *to, int words, int count, int i)
{
    static uint32_t first[WORDS_MAX];
    item_of(to, words, count - 1, i, call->round);
    for (int from = count - 2; from >= 0; from--) {
        item_of(first, words, from, i, call->round);
        (call->arguments.op == composes ? compose : add)(first, to, words);
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
    uint32_t gaps[WORDS_MAX];
    memset(gaps, GAP, sizeof(gaps));
    for (int i = 0; i < count; i++)
        write_item(buffer->form, buffer->items, i, gaps);
    for (size_t i = 0; i < buffer->size; i++)
        if (buffer->memory[i] != GAP)
            return 0;
    return 1;
}

/* ---- Calls ---- */

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

static void reduce(struct call *call, const struct form *form)
{
    uint32_t words[WORDS_MAX], found[WORDS_MAX];
    const struct share *share = &call->share;
    struct collective *c = &call->arguments;
    int in_place = call->in_place;
    int is_absolute =
        is_layer && in_place && form->extent != 4 * form->words && call->round % 4 == 0;
    struct buffer in = make(form, share->all), out = make(form, share->all);
    for (int i = 0; i < share->all; i++) {
        item_of(words, form->words, call->rank, i, call->round);
        write_item(form, (in_place ? &out : &in)->items, i, words);
    }
    int is_short = c->recvcount * form->words * (int)sizeof(*words) <= BYTES_AT_ONCE;
    /* A rank without a result may pass any buffer. */
    int has_buffer =
        in_place || share->operands || !(call->round % 2) || !(c->operation == REDUCE || is_layer);
    items_at_once = is_layer && is_short && c->operation < REDUCE_SCATTER ? c->recvcount : 0;
    c->sendbuf = in_place ? MPI_IN_PLACE : in.items;
    c->recvbuf = is_absolute ? MPI_BOTTOM : has_buffer ? out.items : NULL;
    if (is_absolute)
        make_absolute(form, out.items);
    c->recvtype = is_absolute ? absolute.type : form->type;
    reduction_call(*c, share);
    if (is_absolute)
        MPI_Type_free(&absolute.type);
    absolute.words = items_at_once = 0;
    for (int i = 0, is_right = 1; share->operands && is_right && i < share->own; i++) {
        combined(call, words, form->words, share->operands, share->first + i);
        read_item(form, out.items, i, found);
        is_right = memcmp(found, words, sizeof(*words) * (size_t)form->words) == 0;
        expect(is_right, operation_names[c->operation], call);
    }
    expect(is_clean(&in, in_place ? 0 : share->all), "the send buffer", call);
    expect(is_clean(&out, in_place ? share->all : share->operands ? share->own : 0), "a gap", call);
    free(in.memory);
    free(out.memory);
}

static void play(int rounds, MPI_Comm *comms)
{
    for (int round = 0; round < rounds; round++) {
        int which = rand() % COMMS, size = rand() % 8, n = rand(), root = rand(), form = rand();
        struct call call = {.round = round};
        struct collective *c = &call.arguments;
        size = size < 5 ? 0 : size < 7 ? 1 : 2;
        int count = 1 + n % (n / 8 % 2 ? 12 : size == 0 ? ITEMS_MAX : size == 1 ? 600 : 8);
        *c = collective_of(ALLREDUCE + rand() % 6, size == 2 ? 1 + n % 8 : count, MPI_DATATYPE_NULL,
                           NULL, NULL);
        c->comm = comms[which];
        c->op = rand() % 4 ? composes : adds;
        MPI_Comm_rank(c->comm, &call.rank);
        MPI_Comm_size(c->comm, &call.ranks);
        c->root = root % call.ranks;
        call.share = share_of(c, call.rank, call.ranks, round);
        /* MPICH 4.0.2 crashes where another root than rank 0 reduces in place. */
        call.in_place = rand() % 2 && (c->operation != REDUCE || (c->root == 0 && call.rank == 0));
        form = is_dense ? DENSE : (form + (is_layer && form / 16 % 2 ? call.rank : 0)) % FORMS;
        /* Open MPI 4.1 crashes where data begins elsewhere than the item. */
        if (!is_layer && c->operation == ALLREDUCE && (form == SHIFTED || form == NEGATIVE))
            form = SPREAD;
        if (round % 8 == 0 && call.rank == round % 5) /* some are late, sometimes */
            usleep(200);
        reduce(&call, &forms[size][form]);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm comms[COMMS];
    mpi_begin(&argc, &argv);
    is_dense = argc > 3 && strcmp(argv[3], "dense") == 0;
    is_layer = argc > 3 && strcmp(argv[3], "layer") == 0;
    for (int i = 0; i < SIZES * FORMS; i++)
        make_form(&forms[i / FORMS][i % FORMS], sizes[i / FORMS], i % FORMS);
    MPI_Op_create(compose_items, 0, &composes);
    MPI_Op_create(add_items, 1, &adds);
    comms[0] = world;
    MPI_Comm_split(world, 0, -rank, &comms[1]);
    MPI_Comm_split(world, 0, rank % 2 * RANKS_MAX + rank, &comms[2]);
    srand(argc > 2 ? (unsigned)atoi(argv[2]) : 1);
    play(argc > 1 ? atoi(argv[1]) : 100, comms);
    for (int i = 1; i < COMMS; i++)
        MPI_Comm_free(&comms[i]);
    for (int i = 0; i < SIZES * FORMS; i++)
        MPI_Type_free(&forms[i / FORMS][i % FORMS].type);
    MPI_Op_free(&composes);
    MPI_Op_free(&adds);
    return mpi_end();
}
