/* tests/mpi/rma/fence.c: the barrier of a node in MPI_Win_fence (src/mpi/rma/intra_node.c) orders
 * what this node's ranks store, and what comes to one of them from other nodes, before the loads of
 * all of them.
 *
 * MPI_Win_fence of the libraries that there are is a barrier by itself and would hide that one is
 * missing, but MPI does not promise that. So MPI's is one that synchronises nothing here, and the
 * ranks are threads. Prints "wrong: …" and ends with 1 when a rank sees an older value. Also for
 * tests/mutants/run. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "mpi/group/group.h"
#include "mpi/pmpi/message.h"
#include "mpi/rma/rma.h"
#include "onespace.h"

enum { RANKS = 3, ROUNDS = 30, LATE_NS = 1000000, FAILING_ROUND = 20 };

/* The contents of a rank's part of the window: not atomic, so that ThreadSanitizer sees a missing
 * order.
 */
static struct {
    long stored;   /* by the rank, before its fence */
    long received; /* from another node: there when MPI's fence of this rank returns */
} parts[RANKS];

static struct group *group;
static struct rma_shared *shared;
static _Thread_local int rank;
static _Thread_local long receives; /* what MPI's next fence brings; 0: nothing */

static void expect(int is_right, const char *what, long round)
{
    if (!is_right) {
        fprintf(stderr, "wrong: %s, round %ld\n", what, round);
        _exit(1);
    }
}

static void be_late(void)
{
    nanosleep(&(struct timespec){0, LATE_NS}, NULL);
}

/* ---- MPI, as far as it is needed here ---- */

static int fence_without_order(int assertion, MPI_Win window)
{
    (void)assertion, (void)window;
    if (receives && rank == receives % RANKS)
        be_late();
    if (receives)
        parts[rank].received = receives;
    return receives == FAILING_ROUND && rank == 0 ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int no_handler(MPI_Win window, int error)
{
    (void)window;
    return error;
}

const struct pmpi_functions *_Atomic pmpi_table;

const struct pmpi_functions *pmpi_load(void)
{
    static const struct pmpi_functions mpi = {.Win_fence = fence_without_order,
                                              .Win_call_errhandler = no_handler};
    return &mpi;
}

int progress_step(void)
{
    return MPI_SUCCESS;
}

void progress_help_others(uint64_t *asked)
{
    (void)asked;
}

void layer_message(int from, const char *format, ...)
{
    (void)from;
    fprintf(stderr, "wrong: %s\n", format);
    _exit(1);
}

int onespace_pid(int id)
{
    return id; /* nobody ends */
}

/* ---- The ranks ---- */

static void *be_rank(void *number)
{
    rank = (int)(intptr_t)number;
    struct window window = {.group = group, .intra_node = intra_node_new(group, shared, 0)};
    expect(window.intra_node != NULL, "no memory", 0);
    for (long round = 1; round <= ROUNDS; round++) {
        if (rank == (round / RANKS) % RANKS)
            be_late();
        parts[rank].stored = round;
        receives = round;
        int expected = round == FAILING_ROUND && rank == 0 ? MPI_ERR_OTHER : MPI_SUCCESS;
        expect(intra_node_fence(&window, 0) == expected, "the fence's result", round);
        for (int i = 0; i < RANKS; i++) {
            expect(parts[i].stored == round, "a store before the fence is not seen", round);
            expect(parts[i].received == round, "data from another node is not seen", round);
        }
        receives = 0;
        expect(intra_node_fence(&window, MPI_MODE_NOSUCCEED) == MPI_SUCCESS, "the second fence",
               round);
    }
    free(window.intra_node);
    return NULL;
}

int main(void)
{
    pthread_t threads[RANKS];
    group = calloc(1, sizeof(*group) + RANKS * sizeof(int));
    shared = aligned_alloc(_Alignof(struct rma_shared), sizeof(struct rma_shared));
    if (!group || !shared)
        return 2;
    *shared = (struct rma_shared){.ranks = RANKS};
    group->ranks = RANKS;
    group->is_one_space = 1;
    for (int i = 0; i < RANKS; i++)
        group->members[i] = i + 1;
    for (int i = 0; i < RANKS; i++)
        if (pthread_create(&threads[i], NULL, be_rank, (void *)(intptr_t)i) != 0)
            return 2;
    for (int i = 0; i < RANKS; i++)
        pthread_join(threads[i], NULL);
    free(shared);
    free(group);
    puts("ok");
    return 0;
}
