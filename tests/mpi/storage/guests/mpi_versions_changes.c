/* mpi_versions_changes: a window with versions, in each of which few bytes are new, stored in every
 * way there is.
 *
 *   mpi_versions_changes FILE KIND COMMITS SEED [NAME=VALUE]...
 *
 * KIND: separate, a file per rank; shared, one file, each rank's part behind the other's; combined,
 * half of each part in memory; mixed, odd ranks in memory, which no version has; contiguous and
 * noncontiguous, MPI_Win_allocate_shared; queried, MPI_Win_allocate whose parts
 * MPI_Win_shared_query gives. NAME=VALUE are further hints.
 *
 * SEED, version and rank determine what is stored, so that each rank knows all parts of any
 * version. Prints "rank R: found V, made W, N wrong", and before that "rank R: read N, wrote N":
 * bytes, by the system calls of its process in the last commit. CHILD=V in the environment: in
 * version V a forked child of rank 0 stores, too. */
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mpi/guests/mpi_check.h"
#include "onespace/window.h"

#pragma weak onespace_window_commit
#pragma weak onespace_window_version

/* A cell belongs to one rank in each version, so that no two store to the same place. */
enum { CELL = 96 << 10, CELLS = 40, PART = CELL * CELLS + 1232, OPERATIONS = 12 };

static const char *kind;
static MPI_Win win;
static unsigned char *base, *model; /* own part; all parts, one behind the other */
static unsigned char **others;      /* their addresses, of kinds that have them */

static int is(const char *name)
{
    return strcmp(kind, name) == 0;
}

static int is_in_memory(int who)
{
    return is("mixed") && who % 2 == 1;
}

/* ---- Random numbers ---- */

static uint64_t state;

static uint64_t chance(uint64_t of)
{
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (state >> 33) % of;
}

/* ---- One operation ---- */

enum way { STORE, PUT, STRIDED, ADD, SWAP, READ, POINTER, WAYS };

struct operation {
    enum way way;
    int to;
    size_t at, size;
    unsigned char byte;
};

/* The rank's next operation in a version. */
static struct operation draw(uint64_t version, int who)
{
    struct operation operation = {.way = (enum way)chance(WAYS),
                                  .to = (int)chance((uint64_t)ranks)};
    uint64_t cell = chance((uint64_t)(CELLS / ranks)) * (uint64_t)ranks +
                    ((uint64_t)who + version) % (uint64_t)ranks;
    operation.size = chance(8) ? 1 + chance(300) : CELL - 8 - chance(9000);
    operation.at = cell * CELL + chance(CELL - operation.size);
    operation.byte = (unsigned char)chance(256);
    while (is_in_memory(operation.to))
        operation.to = (operation.to + 1) % ranks;
    if (operation.way == ADD || operation.way == SWAP) {
        operation.at &= ~(size_t)7;
        operation.size =
            operation.way == SWAP || operation.size < 8 ? 8 : operation.size & ~(size_t)7;
    }
    return operation;
}

static void simulate(const struct operation *operation)
{
    unsigned char *at = model + (size_t)operation->to * PART + operation->at;
    uint64_t word, more;
    memset(&more, operation->byte, 8);
    switch (operation->way) {
    case ADD:
        for (size_t i = 0; i < operation->size; i += 8) {
            memcpy(&word, at + i, 8);
            word += more;
            memcpy(at + i, &word, 8);
        }
        break;
    case STRIDED: /* every other byte */
        for (size_t i = 0; i < operation->size; i += 2)
            at[i] = operation->byte;
        break;
    case READ:
        memset(at, 0, operation->size);
        break;
    default:
        memset(at, operation->byte, operation->size);
    }
}

/* Before it is simulated. Ways that reach the own part only, or need addresses, are puts to others.
 */
static void carry_out(const struct operation *operation)
{
    static unsigned char data[CELL], result[CELL];
    enum way way = operation->way;
    unsigned char *at = operation->to == rank ? base + operation->at
                        : others              ? others[operation->to] + operation->at
                                              : NULL;
    MPI_Aint place = (MPI_Aint)operation->at;
    int size = (int)operation->size, zeros;
    MPI_Datatype strided;
    memset(data, way == READ ? 0 : operation->byte, operation->size);
    if (way == STORE && at)
        memset(at, operation->byte, operation->size);
    else if (way == POINTER && at)
        memcpy(at, data, operation->size);
    else if (way == READ && at) {
        zeros = open("/dev/zero", O_RDONLY);
        if (read(zeros, at, operation->size) != size)
            abort();
        close(zeros);
    } else if (way == ADD) {
        if (size == 8)
            MPI_Fetch_and_op(data, result, MPI_UINT64_T, operation->to, place, MPI_SUM, win);
        else
            MPI_Accumulate(data, size / 8, MPI_UINT64_T, operation->to, place, size / 8,
                           MPI_UINT64_T, MPI_SUM, win);
    } else if (way == SWAP)
        MPI_Compare_and_swap(data, model + (size_t)operation->to * PART + operation->at, result,
                             MPI_UINT64_T, operation->to, place, win);
    else if (way == STRIDED) {
        int count = (size + 1) / 2;
        MPI_Type_vector(count, 1, 2, MPI_BYTE, &strided);
        MPI_Type_commit(&strided);
        MPI_Put(data, count, MPI_BYTE, operation->to, place, 1, strided, win);
        MPI_Type_free(&strided);
    } else
        MPI_Put(data, size, MPI_BYTE, operation->to, place, size, MPI_BYTE, win);
    MPI_Win_flush(operation->to, win);
}

/* ---- A version ---- */

/* At the end of a part, which is in no cell. */
static void store_in_child(int is_done)
{
    int to = others ? 1 : 0;
    memset(model + (size_t)to * PART + PART - 1000, 0xab, 1000);
    if (!is_done || rank != 0)
        return;
    pid_t child = fork();
    if (child == 0) {
        memset((others ? others[to] : base) + PART - 1000, 0xab, 1000);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static void change(uint64_t seed, uint64_t version, int is_done)
{
    const char *child = getenv("CHILD");
    if (child && version == (uint64_t)atoll(child))
        store_in_child(is_done);
    for (int who = 0; who < ranks; who++) {
        state = seed * 1000003 + version * 1009 + (uint64_t)who;
        for (int i = 0; i < OPERATIONS; i++) {
            struct operation operation = draw(version, who);
            if (is_done && who == rank)
                carry_out(&operation);
            simulate(&operation);
        }
    }
}

static size_t count_wrong(void)
{
    size_t bad = 0;
    for (size_t i = 0; i < PART && !is_in_memory(rank); i++)
        bad += base[i] != model[(size_t)rank * PART + i];
    return bad;
}

static void moved(unsigned long long sums[2])
{
    char line[128];
    FILE *file = fopen("/proc/thread-self/io", "r");
    while (file && fgets(line, sizeof(line), file)) {
        sscanf(line, "rchar: %llu", &sums[0]);
        sscanf(line, "wchar: %llu", &sums[1]);
    }
    if (file)
        fclose(file);
}

static uint64_t commit(int is_last)
{
    uint64_t version = 0;
    unsigned long long before[2] = {0, 0}, after[2] = {0, 0};
    MPI_Barrier(world);
    moved(before);
    if (onespace_window_commit(win, &version) != MPI_SUCCESS)
        MPI_Abort(world, 1);
    moved(after);
    if (is_last)
        printf("rank %d: read %llu, wrote %llu\n", rank, after[0] - before[0],
               after[1] - before[1]);
    return version;
}

/* ---- The window ---- */

static void allocate(const char *file, char **pairs)
{
    int is_shared = is("contiguous") || is("noncontiguous");
    MPI_Info info = info_of(NULL);
    if (!is_in_memory(rank)) {
        MPI_Info_free(&info);
        info =
            part_hints(file, is("shared") || is("contiguous"),
                       is("shared") ? (size_t)rank * PART : 0, PAIRS("storage_alloc_versions=1"));
    }
    if (is("combined"))
        MPI_Info_set(info, "storage_alloc_factor", "0.5");
    if (is("noncontiguous"))
        MPI_Info_set(info, "alloc_shared_noncontig", "true");
    info_add(info, (const char *const *)pairs);
    if (is_shared)
        MPI_Win_allocate_shared(PART, 1, info, world, &base, &win);
    else
        MPI_Win_allocate(PART, 1, info, world, &base, &win);
    MPI_Info_free(&info);
    others = is_shared || is("queried") ? calloc((size_t)ranks, sizeof(*others)) : NULL;
    for (int i = 0; others && i < ranks; i++)
        others[i] = (unsigned char *)part_of(win, i);
}

int main(int argc, char **argv)
{
    uint64_t found = 0, version;
    mpi_begin(&argc, &argv);
    kind = argv[2];
    int commits = atoi(argv[3]);
    uint64_t seed = (uint64_t)atoll(argv[4]);
    allocate(argv[1], argv + 5);
    model = calloc((size_t)ranks, PART);
    onespace_window_version(win, &found);
    for (uint64_t i = 1; i <= found; i++)
        change(seed, i, 0);
    size_t bad = count_wrong();
    MPI_Win_lock_all(0, win);
    MPI_Barrier(world); /* no rank stores while others look */
    version = found;
    for (int i = 1; i <= commits; i++) {
        change(seed, version + 1, 1);
        version = commit(i == commits);
    }
    MPI_Barrier(world);
    bad += count_wrong();
    printf("rank %d: found %d, made %d, %zu wrong\n", rank, (int)found, (int)version, bad);
    fflush(stdout);
    MPI_Barrier(world);
    memset(base, 0xee, PART); /* never committed */
    MPI_Win_unlock_all(win);
    free(model);
    free(others);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
