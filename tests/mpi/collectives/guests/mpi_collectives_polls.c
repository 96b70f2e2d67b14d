/* mpi_collectives_polls [MESSAGES]: rank 0 sends messages and enters a collective operation that
 * all ranks leave after it. One poll of another rank then finds each message, as it does after the
 * library's own operation. Prints how many polls found nothing. */
#include "mpi/collectives/guests/collective.h"
#include "mpi/guests/polls.h"

enum { ROUNDS = 50, BARRIERS_BEFORE = 40 };

static const struct {
    const char *name;
    int (*poll)(int tag);
    int needs_receives;
} polls[] = {
    {"MPI_Iprobe", probe, 0},        {"MPI_Improbe", matched_probe, 0},
    {"a loop", probe_until_none, 0}, {"MPI_Test", test_each, 1},
    {"MPI_Testall", test_all, 1},    {"MPI_Testsome", test_some, 1},
    {"MPI_Testany", test_any, 1},    {"MPI_Request_get_status", get_status, 1},
};

/* No rank leaves them before rank 0 has entered. */
static const enum operation operations[] = {BARRIER,   BCAST,    ALLREDUCE, SCAN,
                                            ALLGATHER, ALLTOALL, SCATTER};

int main(int argc, char **argv)
{
    int in[RANKS_MAX] = {0}, out[RANKS_MAX];
    mpi_begin(&argc, &argv);
    messages = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < BARRIERS_BEFORE; i++)
        MPI_Barrier(world);
    for (unsigned i = 0; i < COUNT_OF(operations); i++)
        for (unsigned k = 0; k < COUNT_OF(polls); k++) {
            struct collective call = collective_of(operations[i], 1, MPI_INT, in, out);
            int misses = 0;
            for (int round = 0; round < ROUNDS; round++) {
                if (polls[k].needs_receives)
                    post((int)k);
                MPI_Barrier(world);
                send_all((int)k);
                collective_call(&call);
                misses += rank ? polls[k].poll((int)k) : 0;
            }
            wrong += misses;
            if (misses)
                printf("rank %d: after MPI_%s %s misses %d of %d\n", rank,
                       operation_names[operations[i]], polls[k].name, misses, ROUNDS * messages);
        }
    (void)mpi_end();
    return 0;
}
