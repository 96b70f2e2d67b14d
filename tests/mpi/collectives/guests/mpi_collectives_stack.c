/* mpi_collectives_stack: collective operations on a thread with a small stack, such as user-level
 * threads have. Prints for each how many bytes of the stack it has used. */
#include <pthread.h>

#include "mpi/collectives/guests/collective.h"

enum { STACK_BYTES = 256 << 10, PAINT = 0x5a, REPEATS = 3 };

static void sum(void *from, void *into, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((long *)into)[i] += ((long *)from)[i];
}

static void *run(void *call)
{
    for (int i = 0; i < REPEATS; i++)
        collective_call(call);
    return NULL;
}

static void *run_nothing(void *nothing)
{
    return nothing;
}

/* Bytes of the stack that the thread has written. */
static size_t depth_of(void *(*start)(void *), void *argument)
{
    pthread_t thread;
    pthread_attr_t attributes;
    unsigned char *stack = aligned_alloc(4096, STACK_BYTES);
    size_t untouched = 0;
    memset(stack, PAINT, STACK_BYTES);
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, STACK_BYTES);
    pthread_create(&thread, &attributes, start, argument);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    while (untouched < STACK_BYTES && stack[untouched] == PAINT)
        untouched++;
    free(stack);
    return STACK_BYTES - untouched;
}

int main(int argc, char **argv)
{
    static long in[8 * RANKS_MAX], out[8 * RANKS_MAX];
    MPI_Datatype spaced;
    MPI_Op function;
    (void)mpi_begin_threads(&argc, &argv, MPI_THREAD_SERIALIZED);
    MPI_Type_vector(2, 1, 2, MPI_LONG, &spaced);
    MPI_Type_commit(&spaced);
    MPI_Op_create(sum, 1, &function);
    const struct {
        const char *name;
        enum operation operation;
        MPI_Datatype type;
        MPI_Op op;
    } measured[] = {{"Barrier", BARRIER, MPI_LONG, MPI_SUM},
                    {"Bcast", BCAST, MPI_LONG, MPI_SUM},
                    {"Bcast with gaps", BCAST, spaced, MPI_SUM},
                    {"Allreduce", ALLREDUCE, MPI_LONG, MPI_SUM},
                    {"Allreduce by a function", ALLREDUCE, MPI_LONG, function},
                    {"Scan", SCAN, MPI_LONG, MPI_SUM},
                    {"Gather with gaps", GATHER, spaced, MPI_SUM},
                    {"Scatter with gaps", SCATTER, spaced, MPI_SUM},
                    {"Alltoall", ALLTOALL, MPI_LONG, MPI_SUM}};
    struct collective calls[COUNT_OF(measured)];
    for (unsigned i = 0; i < COUNT_OF(calls); i++) {
        calls[i] = collective_of(measured[i].operation, 1, measured[i].type, in, out);
        calls[i].op = measured[i].op;
        collective_call(&calls[i]); /* sets up what is needed once */
    }
    size_t least = depth_of(run_nothing, NULL);
    for (unsigned i = 0; i < COUNT_OF(calls); i++)
        printf("rank %d, %s: %zu\n", rank, measured[i].name, depth_of(run, &calls[i]) - least);
    MPI_Op_free(&function);
    MPI_Type_free(&spaced);
    MPI_Finalize();
    return 0;
}
