/* network_check ROUNDS SECONDS [KIND]...: an MPI program that `onespace doctor --network` compiles
 * and runs on two nodes or more: memory is allocated, sent from, received into, freed and allocated
 * again at the same addresses, and each byte that arrives is checked.
 *
 * A network library that is not notified of freed memory sends what was there before. So in two of
 * the kinds a rank uses memory of its neighbour on the same node, which that neighbour then frees.
 * KIND, by default all in turn:
 *
 *   shared    its neighbour's part of a window of MPI_Win_allocate_shared
 *   allocate  its own part of a window of MPI_Win_allocate, if the library can make one
 *   malloc    its own memory
 *   lent      its neighbour's private mapping, which only tasks can use: of a process its own
 *
 * It ends after so many rounds, or soon after so many seconds. Rank 0 prints the number of nodes,
 * and each rank how many bytes were wrong. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MIN_BYTES = 24 << 10, STEP_BYTES = 20 << 10, STEPS = 12, LINES_MAX = 3 };

static MPI_Comm node; /* the ranks of this node */
static int rank, ranks, node_rank, node_ranks, nodes;
static int to, from; /* this rank's counterparts on the next node and on the one before */
static int is_task;
static long wrong; /* bytes */

static void fail(const char *reason)
{
    if (rank == 0)
        fprintf(stderr, "network_check: %s\n", reason);
    MPI_Finalize();
    exit(2);
}

/* ---- Memory ---- */

struct memory {
    MPI_Win window;
    char *allocated, *used; /* by this rank; what it uses may be another rank's */
    size_t bytes;
};

static void allocate_shared(struct memory *memory)
{
    MPI_Aint bytes;
    int unit;
    MPI_Win_allocate_shared((MPI_Aint)memory->bytes, 1, MPI_INFO_NULL, node, &memory->allocated,
                            &memory->window);
    MPI_Win_shared_query(memory->window, (node_rank + 1) % node_ranks, &bytes, &unit,
                         &memory->used);
}

static void allocate_window(struct memory *memory)
{
    MPI_Win_allocate((MPI_Aint)memory->bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory->allocated,
                     &memory->window);
    memory->used = memory->allocated;
}

static void free_window(struct memory *memory)
{
    MPI_Win_free(&memory->window);
}

static void allocate_lent(struct memory *memory)
{
    int next = (node_rank + 1) % node_ranks, previous = (node_rank + node_ranks - 1) % node_ranks;
    memory->allocated = memory->used =
        mmap(NULL, memory->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory->allocated == MAP_FAILED)
        MPI_Abort(MPI_COMM_WORLD, 3);
    if (is_task)
        MPI_Sendrecv(&memory->allocated, sizeof(memory->allocated), MPI_BYTE, previous, 0,
                     &memory->used, sizeof(memory->used), MPI_BYTE, next, 0, node,
                     MPI_STATUS_IGNORE);
}

static void free_lent(struct memory *memory)
{
    munmap(memory->allocated, memory->bytes);
}

static void allocate_heap(struct memory *memory)
{
    memory->allocated = memory->used = malloc(memory->bytes);
    if (!memory->allocated)
        MPI_Abort(MPI_COMM_WORLD, 3);
}

static void free_heap(struct memory *memory)
{
    free(memory->allocated);
}

static const struct kind {
    const char *name;
    void (*allocate)(struct memory *), (*free)(struct memory *);
} kinds[] = {
    {"shared", allocate_shared, free_window},
    {"allocate", allocate_window, free_window},
    {"malloc", allocate_heap, free_heap},
    {"lent", allocate_lent, free_lent},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* ---- Rounds ---- */

static char byte_of(int sender, int round, size_t at)
{
    return (char)(sender * 89 + round * 31 + (int)(at * 7) + (int)(at >> 9));
}

static void check_bytes(const char *received, size_t bytes, int round, const char *kind)
{
    static int lines;
    long different = 0;
    for (size_t i = 0; i < bytes; i++)
        different += received[i] != byte_of(from, round, i);
    wrong += different;
    if (different && lines++ < LINES_MAX)
        printf("rank %d, round %d, %s: %ld of %zu bytes are wrong\n", rank, round, kind, different,
               bytes);
}

static void run_round(const struct kind *kind, int round)
{
    struct memory memory = {.bytes = MIN_BYTES + (size_t)(round % STEPS) * STEP_BYTES};
    size_t bytes = memory.bytes / 2;
    kind->allocate(&memory);
    char *sent = memory.used, *received = memory.used + bytes;
    for (size_t i = 0; i < bytes; i++)
        sent[i] = byte_of(rank, round, i);
    MPI_Sendrecv(sent, (int)bytes, MPI_BYTE, to, 0, received, (int)bytes, MPI_BYTE, from, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check_bytes(received, bytes, round, kind->name);
    MPI_Barrier(node); /* the neighbour has finished with the memory of this rank */
    kind->free(&memory);
}

/* Returns how many of the names are kinds. */
static int choose_kinds(char *const *names, int is_chosen[KINDS])
{
    int count = 0;
    for (int i = 0; i < KINDS; i++) {
        is_chosen[i] = !*names;
        for (char *const *name = names; *name; name++)
            if (strcmp(*name, kinds[i].name) == 0)
                is_chosen[i] = 1, count++;
    }
    return count;
}

/* ---- Nodes ---- */

/* Finds the counterparts: the ranks of the same number on other nodes. They form a ring, in the
 * order of their ranks. */
static void find_nodes(void)
{
    int least, most;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &node_rank);
    MPI_Comm_size(node, &node_ranks);
    MPI_Allreduce(&node_ranks, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&node_ranks, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    nodes = ranks / node_ranks;
    if (least != most)
        fail("the nodes have different numbers of ranks: start as many on each");
    if (nodes < 2)
        fail("all ranks are on one node: start them on two or more");
    int *numbers = malloc((size_t)ranks * sizeof(*numbers)); /* by rank, on its node */
    if (!numbers) {
        MPI_Abort(MPI_COMM_WORLD, 3);
        return;
    }
    MPI_Allgather(&node_rank, 1, MPI_INT, numbers, 1, MPI_INT, MPI_COMM_WORLD);
    to = from = -1;
    for (int step = 1; step < ranks && (to < 0 || from < 0); step++) {
        int after = (rank + step) % ranks, before = (rank + ranks - step) % ranks;
        to = to < 0 && numbers[after] == node_rank ? after : to;
        from = from < 0 && numbers[before] == node_rank ? before : from;
    }
    free(numbers);
}

/* Whether the library has one-sided communication for this network; Open MPI 4 has none for TCP. */
static int can_allocate_windows(void)
{
    MPI_Win window = MPI_WIN_NULL;
    char *base;
    int can, all_can;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    can = MPI_Win_allocate(1, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window) == MPI_SUCCESS;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Allreduce(&can, &all_can, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (all_can)
        MPI_Win_free(&window);
    return all_can;
}

/* Whether another round is to begin: every few rounds rank 0 decides for all. */
static int goes_on(int round, int rounds, double end)
{
    enum { ROUNDS_PER_DECISION = 16 };
    static int is_late;
    if (round % ROUNDS_PER_DECISION == 0) {
        is_late = MPI_Wtime() > end;
        MPI_Bcast(&is_late, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    return round < rounds && !is_late;
}

int main(int argc, char **argv)
{
    int is_chosen[KINDS], round = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    is_task = getenv("ONESPACE_TASK_ID") != NULL;
    int rounds = argc > 2 ? atoi(argv[1]) : 0, seconds = argc > 2 ? atoi(argv[2]) : 0;
    if (rounds <= 0 || seconds <= 0 || choose_kinds(argv + 3, is_chosen) != argc - 3)
        fail("usage: network_check ROUNDS SECONDS [shared|allocate|malloc|lent]...");
    find_nodes();
    int chosen = 0;
    for (int i = 0; i < KINDS; i++) {
        if (is_chosen[i] && kinds[i].allocate == allocate_window)
            is_chosen[i] = can_allocate_windows();
        chosen += is_chosen[i];
    }
    if (!chosen)
        fail("this MPI library cannot allocate windows over this network");
    double end = MPI_Wtime() + seconds;
    for (int i = 0; goes_on(round, rounds, end); i = (i + 1) % KINDS) {
        while (!is_chosen[i])
            i = (i + 1) % KINDS;
        run_round(&kinds[i], round++);
    }
    if (rank == 0)
        printf("%d rounds, %d nodes, %d ranks on each\n", round, nodes, node_ranks);
    printf("rank %d: %ld wrong\n", rank, wrong);
    fflush(stdout);
    MPI_Comm_free(&node);
    MPI_Finalize();
    return wrong != 0;
}
