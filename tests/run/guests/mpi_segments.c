/* mpi_segments: which transports UCX is told to use, and whether it has System V segments. A line
 * of each rank: "rank N linked N transports X segments N"; linked: with UCX. */
#include "mpi/guests/mpi_check.h"

static int mappings_of(const char *text)
{
    char line[4096];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof(line), maps))
        count += strstr(line, text) != NULL;
    if (maps)
        fclose(maps);
    return count;
}

int main(int argc, char **argv)
{
    int linked = mappings_of("/libucp.so.") != 0;
    mpi_begin(&argc, &argv);
    MPI_Barrier(world);
    const char *transports = getenv("UCX_TLS");
    printf("rank %d linked %d transports %s segments %d\n", rank, linked,
           transports ? transports : "unset", mappings_of("/SYSV") != 0);
    fflush(stdout);
    MPI_Barrier(world);
    return MPI_Finalize();
}
