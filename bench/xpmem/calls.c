/* bench/xpmem/calls.c: cycles of each call of XPMEM, and of POSIX shared memory.
 *
 * calls members      two tasks: number 0 owns a segment, number 1 measures and also makes its own
 * calls shm          shm_open and the like
 * calls limit        a locked addition
 *
 * Prints "WHAT INDEX CYCLES": the first call of the process (first), and the median of all later
 * ones (warm). */
#include <fcntl.h>
#include <sys/mman.h>

#include "../lib/bench.h"
#include "onespace.h"
#include "xpmem.h"

enum { ROUNDS = 2001, WARM_UP = 200, CALLS_MAX = 8 };
enum { MAKE, GET, ATTACH, DETACH, RELEASE, REMOVE, SEQUENCE };
enum { OPEN, TRUNCATE, MAP, CLOSE, RECEIVER_OPEN, RECEIVER_MAP, RECEIVER_CLOSE, UNMAP };
static const size_t SIZE = 2ul << 30; /* the paper's array */

static double spans[CALLS_MAX][ROUNDS];
static double empty; /* ticks between two readings */

static void require(int right, const char *what)
{
    if (!right)
        bench_fail(what, strerror(errno));
}

static void measure_empty(void)
{
    static double values[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t start = ticks_now();
        values[i] = (double)(ticks_now() - start);
    }
    empty = bench_median(values, ROUNDS);
}

/* Never 0: anything faster than reading the clock counts as one tick. */
static double without_clock(double span)
{
    return span > empty ? span - empty : 1;
}

static void print_spans(int from, int to)
{
    for (int call = from; call <= to; call++) {
        double warm = bench_median(spans[call] + WARM_UP, ROUNDS - WARM_UP);
        printf("first %d %.0f\n", call, without_clock(spans[call][0]));
        printf("warm %d %.0f\n", call, without_clock(warm));
    }
}

/* Times one expression of round `round`. */
#define TIME(call, expression)                                                                     \
    do {                                                                                           \
        uint64_t start_ = ticks_now();                                                             \
        expression;                                                                                \
        spans[call][round] = (double)(ticks_now() - start_);                                       \
    } while (0)

/* From get to release of another member's segment. */
static void measure_reader(xpmem_segid_t segid)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct xpmem_addr addr = {-1, 0};
        void *at = NULL;
        int detached = -1, released = -1;
        TIME(GET, addr.apid = xpmem_get(segid, XPMEM_RDWR, XPMEM_PERMIT_MODE, NULL));
        require(addr.apid > 0, "xpmem_get");
        TIME(ATTACH, at = xpmem_attach(addr, SIZE, NULL));
        require(at != (void *)-1 && *(int *)at == 4711, "xpmem_attach");
        TIME(DETACH, detached = xpmem_detach(at));
        TIME(RELEASE, released = xpmem_release(addr.apid));
        require(detached == 0 && released == 0, "xpmem_detach, xpmem_release");
    }
    print_spans(GET, RELEASE);
}

static void measure_owner(void *memory)
{
    for (int round = 0; round < ROUNDS; round++) {
        xpmem_segid_t segid = -1;
        int removed = -1;
        TIME(MAKE, segid = xpmem_make(memory, SIZE, XPMEM_PERMIT_MODE, (void *)0600));
        require(segid > 0, "xpmem_make");
        TIME(REMOVE, removed = xpmem_remove(segid));
        require(removed == 0, "xpmem_remove");
    }
    print_spans(MAKE, MAKE);
    print_spans(REMOVE, REMOVE);
}

/* The five calls of a complete use, by one process, with no clock reading in between. */
static void measure_sequence(void *memory)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct xpmem_addr addr = {-1, 0};
        xpmem_segid_t segid = -1;
        int failed = 0;
        void *at = NULL;
        TIME(SEQUENCE, {
            segid = xpmem_make(memory, SIZE, XPMEM_PERMIT_MODE, (void *)0600);
            addr.apid = xpmem_get(segid, XPMEM_RDWR, XPMEM_PERMIT_MODE, NULL);
            at = xpmem_attach(addr, SIZE, NULL);
            failed = xpmem_detach(at) | xpmem_release(addr.apid);
        });
        require(at != (void *)-1 && !failed, "a whole use");
        require(xpmem_remove(segid) == 0, "xpmem_remove");
    }
    print_spans(SEQUENCE, SEQUENCE);
}

static int *map_memory(void)
{
    int *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(memory != MAP_FAILED, "mmap");
    *memory = 4711;
    return memory;
}

/* A barrier of both members of the space. */
static void wait_for_both(void)
{
    int result = onespace_barrier(20000);
    errno = -result;
    require(result == 0, "onespace_barrier");
}

static void measure_members(void)
{
    static xpmem_segid_t segid;
    require(onespace_init() > 0 && onespace_ntasks() == 2, "two tasks of a space");
    int *memory = map_memory();
    if (onespace_number() == 0) {
        measure_owner(memory);
        segid = xpmem_make(memory, SIZE, XPMEM_PERMIT_MODE, (void *)0600);
        require(segid > 0 && onespace_export("segment", &segid, sizeof(segid)) == 0, "segment");
        wait_for_both();
        return;
    }
    void *found = NULL;
    int owner = onespace_task(0);
    require(owner > 0 && onespace_import(owner, "segment", &found, NULL, 20000) == 0, "import");
    measure_reader(*(xpmem_segid_t *)found);
    measure_sequence(memory);
    wait_for_both();
}

static void measure_shm(void)
{
    char name[64];
    snprintf(name, sizeof(name), "/onespace-bench-%d", getpid());
    for (int round = 0; round < ROUNDS; round++) {
        int fd = -1, failed = 0;
        void *at = MAP_FAILED, *again = MAP_FAILED;
        TIME(OPEN, fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600));
        require(fd >= 0, "shm_open");
        TIME(TRUNCATE, failed = ftruncate(fd, (off_t)SIZE));
        TIME(MAP, at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
        TIME(CLOSE, failed |= close(fd));
        require(at != MAP_FAILED && !failed, "mmap");
        TIME(RECEIVER_OPEN, fd = shm_open(name, O_RDWR, 0600));
        TIME(RECEIVER_MAP, again = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
        TIME(RECEIVER_CLOSE, failed = close(fd));
        require(again != MAP_FAILED && !failed, "mmap again");
        TIME(UNMAP, failed = munmap(again, SIZE));
        require(!failed && munmap(at, SIZE) == 0 && shm_unlink(name) == 0, "munmap, shm_unlink");
    }
    print_spans(OPEN, UNMAP);
}

static void measure_limit(void)
{
    enum { ADDITIONS = 1000 }; /* a single one is below the clock's resolution */
    static long word;
    for (int round = 0; round < ROUNDS; round++)
        TIME(0, {
            for (int i = 0; i < ADDITIONS; i++)
                __atomic_fetch_add(&word, 1, __ATOMIC_SEQ_CST);
        });
    printf("warm 0 %g\n", bench_median(spans[0] + WARM_UP, ROUNDS - WARM_UP) / ADDITIONS);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    measure_empty();
    if (strcmp(what, "members") == 0)
        measure_members();
    else if (strcmp(what, "shm") == 0)
        measure_shm();
    else if (strcmp(what, "limit") == 0)
        measure_limit();
    else
        return fprintf(stderr, "usage: calls members|shm|limit\n"), 2;
    return 0;
}
