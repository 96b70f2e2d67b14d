/* bench/miniapps/sizes.c: preloaded into the ranks of an MPI program, counts their messages and, in
 * MPI_Finalize, their page faults and page tables: the PMPI counter of Figure 11 of the SCFA 2022
 * paper, and its page faults.
 *
 * Each rank writes ONESPACE_SIZES/RANK:
 *   message BYTES COUNT   messages of at most BYTES (a power of two, or 0) and more than half of it
 *   faults COUNT          page faults of this rank, up to MPI_Finalize
 *   tables NODE BYTES     page tables of its address space, which tasks of a node share
 * Counts point-to-point sends of the program, not those inside the MPI's collectives. */
#include <mpi.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { BINS = 64 };

/* Incremented by any thread that sends, read in MPI_Finalize. MPI requires all sends to have
 * returned before that, so relaxed ordering suffices. */
static atomic_ulong counts[BINS];

static void note(int count, MPI_Datatype type)
{
    int size = 0;
    PMPI_Type_size(type, &size);
    uint64_t bytes = (uint64_t)count * (uint64_t)size;
    /* 0 for no bytes, 1 for one, 2 for two, 3 for up to four, ... */
    int bin = bytes < 2 ? (int)bytes : 65 - __builtin_clzll(bytes - 1);
    atomic_fetch_add_explicit(&counts[bin], 1, memory_order_relaxed);
}

static unsigned long page_tables(void)
{
    unsigned long kib = 0;
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof(line), status))
        if (sscanf(line, "VmPTE: %lu kB", &kib) == 1)
            break;
    if (status)
        fclose(status);
    return kib * 1024;
}

static void write_counts(FILE *file)
{
    char node[MPI_MAX_PROCESSOR_NAME];
    int length;
    struct rusage usage;
    PMPI_Get_processor_name(node, &length);
    getrusage(RUSAGE_SELF, &usage);
    fprintf(file, "faults %ld\ntables %s %lu\n", usage.ru_minflt + usage.ru_majflt, node,
            page_tables());
    for (int bin = 0; bin < BINS; bin++) {
        unsigned long count = atomic_load_explicit(&counts[bin], memory_order_relaxed);
        if (count)
            fprintf(file, "message %llu %lu\n", bin ? 1ULL << (bin - 1) : 0ULL, count);
    }
}

int MPI_Finalize(void)
{
    const char *directory = getenv("ONESPACE_SIZES");
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char path[4096];
    snprintf(path, sizeof(path), "%s/%d", directory ? directory : ".", rank);
    FILE *file = fopen(path, "w");
    if (file)
        write_counts(file);
    if (!file || fclose(file) != 0) {
        fprintf(stderr, "sizes: cannot write %s: name a directory in ONESPACE_SIZES\n", path);
        PMPI_Finalize(); /* no abort: MPICH's launcher may lose what was said right before it */
        exit(1);
    }
    return PMPI_Finalize();
}

int MPI_Send(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    note(count, type);
    return PMPI_Send(buffer, count, type, to, tag, comm);
}

int MPI_Ssend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    note(count, type);
    return PMPI_Ssend(buffer, count, type, to, tag, comm);
}

int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    note(count, type);
    return PMPI_Isend(buffer, count, type, to, tag, comm, request);
}

int MPI_Sendrecv(const void *send, int count, MPI_Datatype type, int to, int tag, void *receive,
                 int receive_count, MPI_Datatype receive_type, int from, int receive_tag,
                 MPI_Comm comm, MPI_Status *status)
{
    note(count, type);
    return PMPI_Sendrecv(send, count, type, to, tag, receive, receive_count, receive_type, from,
                         receive_tag, comm, status);
}

#ifdef OPEN_MPI
/* Open MPI's Fortran interface calls PMPI functions; MPICH's calls the wrappers above. Weak: absent
 * from C programs. */
extern void pmpi_send_(void *buffer, MPI_Fint *count, MPI_Fint *type, MPI_Fint *to, MPI_Fint *tag,
                       MPI_Fint *comm, MPI_Fint *error) __attribute__((weak));
extern void pmpi_isend_(void *buffer, MPI_Fint *count, MPI_Fint *type, MPI_Fint *to, MPI_Fint *tag,
                        MPI_Fint *comm, MPI_Fint *request, MPI_Fint *error) __attribute__((weak));

void mpi_finalize_(MPI_Fint *error)
{
    *error = MPI_Finalize();
}

void mpi_send_(void *buffer, MPI_Fint *count, MPI_Fint *type, MPI_Fint *to, MPI_Fint *tag,
               MPI_Fint *comm, MPI_Fint *error)
{
    note(*count, PMPI_Type_f2c(*type));
    pmpi_send_(buffer, count, type, to, tag, comm, error);
}

void mpi_isend_(void *buffer, MPI_Fint *count, MPI_Fint *type, MPI_Fint *to, MPI_Fint *tag,
                MPI_Fint *comm, MPI_Fint *request, MPI_Fint *error)
{
    note(*count, PMPI_Type_f2c(*type));
    pmpi_isend_(buffer, count, type, to, tag, comm, request, error);
}
#endif
