/* mpi_collectives_named: operations by name, with one root after another.
 *
 *   mpi_collectives_named TIMES ITEMS NAME... */
#include "mpi/collectives/guests/collective.h"

int main(int argc, char **argv)
{
    mpi_begin(&argc, &argv);
    int times = atoi(argv[1]), items = atoi(argv[2]), counts[RANKS_MAX];
    size_t all = (size_t)items * (size_t)ranks;
    int *sent = calloc(all, sizeof(int)), *received = calloc(all, sizeof(int));
    for (int i = 0; i < ranks; i++)
        counts[i] = items;
    for (int i = 0; i < times; i++)
        for (int operation = 0; operation < OPERATIONS; operation++) {
            struct collective call = collective_of(operation, items, MPI_INT, sent, received);
            call.recvcounts = counts;
            call.root = i % ranks;
            for (int name = 3; name < argc; name++)
                if (strcmp(operation_names[operation], argv[name]) == 0)
                    OK(collective_call(&call));
        }
    free(sent);
    free(received);
    return mpi_end();
}
