/* table TABLE_MIB OWN_MIB SECONDS PAGES: each rank fills a table, equal in all ranks, and memory of
 * its own, and waits. Then it writes to so many pages of the table, at random, and once more to the
 * same. Prints "write RANKS SECONDS" and "again RANKS SECONDS": the time of a write, the longest of
 * all ranks. */
#include <mpi.h>
#include <sys/mman.h>

#include "../lib/bench.h"

enum { PAGE = 4096, WORDS = PAGE / 8 };

/* Memory that depends on the seed alone, no page of it equal to another. */
static uint64_t *filled(size_t bytes, uint64_t seed)
{
    uint64_t *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        bench_fail("mmap", strerror(errno));
    for (size_t i = 0; i < bytes / sizeof(*memory); i++)
        memory[i] = bench_random(&seed);
    return memory;
}

static void time_writes(uint64_t *table, size_t pages, long writes, const char *name)
{
    int rank, ranks;
    uint64_t seed = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = seconds_now();
    for (long i = 0; i < writes; i++)
        table[bench_random(&seed) % pages * WORDS] += (uint64_t)rank;
    double own = (seconds_now() - start) / (double)writes, longest = 0;
    MPI_Reduce(&own, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s %d %.9e\n", name, ranks, longest);
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    if (argc != 5)
        bench_fail("usage: table TABLE_MIB OWN_MIB SECONDS PAGES", NULL);
    size_t bytes = (size_t)atol(argv[1]) << 20, own = (size_t)atol(argv[2]) << 20;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    uint64_t *table = filled(bytes, 1);
    if (own)
        (void)filled(own, (uint64_t)rank + 2);
    MPI_Barrier(MPI_COMM_WORLD);
    usleep((useconds_t)(atof(argv[3]) * 1e6));
    time_writes(table, bytes / PAGE, atol(argv[4]), "write");
    time_writes(table, bytes / PAGE, atol(argv[4]), "again");
    return MPI_Finalize();
}
