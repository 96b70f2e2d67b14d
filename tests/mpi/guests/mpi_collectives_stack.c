/* mpi_collectives_stack: collective operations on a thread with a small stack, such as user-level
 * threads have. Prints for each how many bytes of the stack it has used. */

#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STACK = 256 << 10, PAINT = 0x5a, MOST_RANKS = 16, REPEATS = 3 };

static int rank, ranks;
static MPI_Datatype spaced;
static MPI_Op function;
static long give[8 * MOST_RANKS], get[8 * MOST_RANKS];

static void barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}
static void bcast(void)
{
    MPI_Bcast(give, 1, MPI_LONG, 0, MPI_COMM_WORLD);
}
static void bcast_spaced(void)
{
    MPI_Bcast(give, 2, spaced, 0, MPI_COMM_WORLD);
}
static void allreduce(void)
{
    MPI_Allreduce(give, get, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
}
static void allreduce_by_function(void)
{
    MPI_Allreduce(give, get, 1, MPI_LONG, function, MPI_COMM_WORLD);
}
static void scan(void)
{
    MPI_Scan(give, get, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
}
static void gather_spaced(void)
{
    MPI_Gather(give, 1, spaced, get, 1, spaced, 0, MPI_COMM_WORLD);
}
static void scatter_spaced(void)
{
    MPI_Scatter(give, 1, spaced, get, 1, spaced, 0, MPI_COMM_WORLD);
}
static void alltoall(void)
{
    MPI_Alltoall(give, 1, MPI_LONG, get, 1, MPI_LONG, MPI_COMM_WORLD);
}

static const struct {
    const char *name;
    void (*call)(void);
} operations[] = {{"Barrier", barrier},
                  {"Bcast", bcast},
                  {"Bcast with gaps", bcast_spaced},
                  {"Allreduce", allreduce},
                  {"Allreduce by a function", allreduce_by_function},
                  {"Scan", scan},
                  {"Gather with gaps", gather_spaced},
                  {"Scatter with gaps", scatter_spaced},
                  {"Alltoall", alltoall}};
enum { OPERATIONS = sizeof(operations) / sizeof(operations[0]) };

static void sum(void *from, void *into, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((long *)into)[i] += ((long *)from)[i];
}

static void *run(void *call)
{
    for (int i = 0; i < REPEATS; i++)
        (*(void (**)(void))call)();
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
    unsigned char *stack = aligned_alloc(4096, STACK);
    size_t untouched = 0;
    memset(stack, PAINT, STACK);
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, STACK);
    pthread_create(&thread, &attributes, start, argument);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    while (untouched < STACK && stack[untouched] == PAINT)
        untouched++;
    free(stack);
    return STACK - untouched;
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Type_vector(2, 1, 2, MPI_LONG, &spaced);
    MPI_Type_commit(&spaced);
    MPI_Op_create(sum, 1, &function);
    for (int i = 0; i < OPERATIONS; i++)
        operations[i].call(); /* sets up what is needed once */
    size_t least = depth_of(run_nothing, NULL);
    for (int i = 0; i < OPERATIONS; i++) {
        void (*call)(void) = operations[i].call;
        printf("rank %d, %s: %zu\n", rank, operations[i].name, depth_of(run, &call) - least);
    }
    MPI_Op_free(&function);
    MPI_Type_free(&spaced);
    MPI_Finalize();
    return 0;
}
