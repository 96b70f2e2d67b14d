/* src/mpi/types/reduce.c: finds the loop of a reduction. */
#include "mpi/types/types.h"

static const struct reduce_table *best_table(void)
{
#if defined(__x86_64__) && !defined(__clang__) && __GNUC__ >= 12
    if (__builtin_cpu_supports("x86-64-v4"))
        return &reduce_table_v4;
    if (__builtin_cpu_supports("x86-64-v3"))
        return &reduce_table_v3;
#elif defined(__x86_64__)
    /* Clang 14 and GCC 10 do not know the levels, so test the features that are new in each. */
    int is_v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
    if (is_v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return &reduce_table_v4;
    if (is_v3)
        return &reduce_table_v3;
#endif
    return &reduce_table_plain;
}

/* Comparisons, not a table: Open MPI's handles are looked up at run time, and a table would look up
 * all of them for each call. */
static enum reduce_op reduce_op_of(MPI_Op op)
{
#define IS(handle, operation)                                                                      \
    if (op == (handle))                                                                            \
        return operation;
    IS(MPI_SUM, SUM)
    IS(MPI_PROD, PRODUCT)
    IS(MPI_MAX, MAXIMUM)
    IS(MPI_MIN, MINIMUM)
    IS(MPI_LAND, AND)
    IS(MPI_LOR, OR)
    IS(MPI_LXOR, XOR)
    IS(MPI_BAND, BIT_AND)
    IS(MPI_BOR, BIT_OR)
    IS(MPI_BXOR, BIT_XOR)
    IS(MPI_MAXLOC, MAXLOC)
    IS(MPI_MINLOC, MINLOC)
#undef IS
    return OPERATIONS;
}

const char *reduce_op_name(MPI_Op op)
{
    static const char *const names[] = {
        [SUM] = "MPI_SUM",       [PRODUCT] = "MPI_PROD",  [MAXIMUM] = "MPI_MAX",
        [MINIMUM] = "MPI_MIN",   [AND] = "MPI_LAND",      [OR] = "MPI_LOR",
        [XOR] = "MPI_LXOR",      [BIT_AND] = "MPI_BAND",  [BIT_OR] = "MPI_BOR",
        [BIT_XOR] = "MPI_BXOR",  [MAXLOC] = "MPI_MAXLOC", [MINLOC] = "MPI_MINLOC",
        [OPERATIONS] = "its own"};
    return names[reduce_op_of(op)];
}

int reduce_op_is_predefined(MPI_Op op)
{
    return reduce_op_of(op) < OPERATIONS || op == MPI_REPLACE || op == MPI_NO_OP;
}

static reduce_function *find(enum reduce_op operation, const struct predefined_type *element)
{
    const struct reduce_table *table = best_table();
    for (size_t i = 0; operation < OPERATIONS && i < table->count; i++) {
        const struct reduce_row *row = &table->rows[i];
        if (row->kind == element->class && row->size == element->size)
            return row->functions[operation];
    }
    return NULL;
}

reduce_function *reduce_function_find(MPI_Op op, const struct predefined_type *element)
{
    return find(reduce_op_of(op), element);
}

/* On a communicator of one rank the library combines nothing, but checks its arguments. */
static int ask_library(MPI_Op op, const struct predefined_type *element, MPI_Comm comm)
{
    _Alignas(16) char sendbuf[64] = {0}, recvbuf[64];
    return element->extent <= sizeof(sendbuf) &&
           pmpi()->Allreduce(sendbuf, recvbuf, 1, element->type, op, comm) == MPI_SUCCESS;
}

int reduce_is_supported(MPI_Op op, const struct predefined_type *element)
{
    struct predefined_type *predefined = (struct predefined_type *)element;
    unsigned bit = 1u << (op == MPI_NO_OP ? OPERATIONS + 1 : reduce_op_of(op));
    if (!(atomic_load_explicit(&predefined->asked, memory_order_acquire) & bit)) {
        MPI_Comm comm = pmpi_self_comm();
        if (comm == MPI_COMM_NULL) /* in MPI_Finalize, or there are no more communicators */
            return reduce_function_find(op, element) != NULL;
        if (ask_library(op, element, comm))
            atomic_fetch_or_explicit(&predefined->supported, bit, memory_order_relaxed);
        atomic_fetch_or_explicit(&predefined->asked, bit, memory_order_release);
    }
    return (atomic_load_explicit(&predefined->supported, memory_order_relaxed) & bit) != 0;
}
