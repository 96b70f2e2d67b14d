/* tests/kernels/guests/kernel_places.c: uses what the kernel keeps once per address space, or finds
 * by walking over all processes that share one. Ends with 0, with 1 and a line on standard error if
 * something is wrong, with 77 if the kernel does not allow it.
 *
 *   clone MS CODE       starts threads, children and programs all the time; ends with CODE
 *   register            registers for each command of membarrier
 *   membarrier MS       registers, and checks that membarrier reaches a thread's CPU
 *   probe CALLS         counts calls of a function by an uprobe, and returns by another
 *   merge PAGES         lets the kernel merge equal pages; changes them after a line of input
 *   collapse MS         lets the kernel make huge pages, and takes memory away from it
 *   balance MS          moves its pages to the node where they are
 *   aio FILE            reads FILE asynchronously until it is killed
 *   aio-end FILE        reads once, and ends without io_destroy
 *   aio-destroy FILE    reads once, and calls io_destroy
 *   aio-unseen FILE     makes a context, destroys it by an instruction of its own, says its name
 *   aio-named FILE      says its context's name, and reads after a line of input
 *   ring ROUNDS         reads a pipe by io_uring, and has reads of an empty one in flight
 *   synchronise         installs a filter in all threads, which denies getppid
 *   unfiltered          whether getppid works
 *   arguments           moves what /proc shows as the process's arguments
 *   crash DIRECTORY     dumps core there after a line of input */
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/membarrier.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { NOT_ALLOWED = 77 };

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

__attribute__((noreturn)) static void fail(const char *what)
{
    fprintf(stderr, "pid %d: %s: %s\n", (int)getpid(), what, strerror(errno));
    _exit(1);
}

static void check(int is_right, const char *what)
{
    if (!is_right)
        fail(what);
}

static long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void say(const char *line)
{
    puts(line);
    fflush(stdout);
}

static void wait_for_line(void)
{
    char byte;
    while (read(0, &byte, 1) == 1 && byte != '\n')
        ;
}

static void *map(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(memory != MAP_FAILED, "mmap");
    return memory;
}

/* ---- Processes and threads that begin and end ---- */

static void *nothing(void *argument)
{
    return argument;
}

static void start_all_kinds(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        check(pthread_create(&threads[i], NULL, nothing, NULL) == 0, "pthread_create");
    pid_t forked = fork();
    if (forked == 0)
        _exit(5);
    pid_t vforked = vfork();
    if (vforked == 0)
        _exit(6);
    pid_t spawned = -1;
    char *words[] = {"true", NULL};
    check(posix_spawnp(&spawned, "true", NULL, NULL, words, environ) == 0, "posix_spawnp");
    for (int i = 0; i < 4; i++)
        check(pthread_join(threads[i], NULL) == 0, "pthread_join");
    int status;
    check(waitpid(forked, &status, 0) == forked && WEXITSTATUS(status) == 5, "fork");
    check(waitpid(vforked, &status, 0) == vforked && WEXITSTATUS(status) == 6, "vfork");
    check(waitpid(spawned, &status, 0) == spawned && status == 0, "posix_spawn");
}

static int clone_for(long ms)
{
    say("cloning");
    for (long end = now_ms() + ms; now_ms() < end;)
        start_all_kinds();
    return 0;
}

/* ---- membarrier: one thread orders its accesses by it, the other by a compiler's barrier alone,
 * so that at least one of them sees the other's store ---- */

static const int Registrations[] = {MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED,
                                    MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,
                                    MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE,
                                    MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ};
static const int Commands[] = {MEMBARRIER_CMD_GLOBAL_EXPEDITED, MEMBARRIER_CMD_PRIVATE_EXPEDITED,
                               MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE,
                               MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ};

static long membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0);
}

static long register_all(void)
{
    long known = membarrier(MEMBARRIER_CMD_QUERY);
    if (known < 0)
        exit(NOT_ALLOWED);
    for (int i = 0; i < 4; i++)
        if (known & Registrations[i])
            check(membarrier(Registrations[i]) == 0, "registering for membarrier");
    return known;
}

/* Each round's stores and loads: written by one thread each, read by the other in the round, and
 * compared when both have arrived at the pthread_barrier_t that ends the round. */
static struct {
    pthread_barrier_t round;
    _Atomic int fast, slow;
    int seen_by_fast, seen_by_slow;
    _Atomic int is_over;
} dekker;

static void *run_fast_side(void *argument)
{
    for (;;) {
        pthread_barrier_wait(&dekker.round);
        if (atomic_load_explicit(&dekker.is_over, memory_order_relaxed))
            return argument;
        atomic_store_explicit(&dekker.fast, 1, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst);
        dekker.seen_by_fast = atomic_load_explicit(&dekker.slow, memory_order_relaxed);
        pthread_barrier_wait(&dekker.round);
    }
}

static int check_membarrier(long ms)
{
    long known = register_all();
    pthread_t other;
    pthread_barrier_init(&dekker.round, NULL, 2);
    check(pthread_create(&other, NULL, run_fast_side, NULL) == 0, "pthread_create");
    long end = now_ms() + ms;
    for (unsigned i = 0; now_ms() < end; i++) {
        int command = Commands[i % 4];
        if (!(known & command))
            continue;
        atomic_store_explicit(&dekker.fast, 0, memory_order_relaxed);
        atomic_store_explicit(&dekker.slow, 0, memory_order_relaxed);
        pthread_barrier_wait(&dekker.round);
        atomic_store_explicit(&dekker.slow, 1, memory_order_relaxed);
        check(membarrier(command) == 0, "membarrier");
        dekker.seen_by_slow = atomic_load_explicit(&dekker.fast, memory_order_relaxed);
        pthread_barrier_wait(&dekker.round);
        /* RSEQ promises an order for restartable sequences only. */
        check(command == MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ || dekker.seen_by_fast ||
                  dekker.seen_by_slow,
              "neither thread saw the other's store");
    }
    if (known & MEMBARRIER_CMD_GLOBAL) /* not with CPUs that run without a tick */
        check(membarrier(MEMBARRIER_CMD_GLOBAL) == 0, "MEMBARRIER_CMD_GLOBAL");
    atomic_store_explicit(&dekker.is_over, 1, memory_order_relaxed);
    pthread_barrier_wait(&dekker.round);
    pthread_join(other, NULL);
    return 0;
}

/* ---- An uprobe: the kernel's breakpoint in a function, which it puts into all that map the file
 * ---- */

__attribute__((noinline, noclone, used)) static long probed(long value)
{
    __asm__ volatile("" : "+r"(value));
    return value + 1;
}

static long read_number(const char *path)
{
    long number = -1;
    FILE *file = fopen(path, "r");
    if (file) {
        if (fscanf(file, "%ld", &number) != 1)
            number = -1;
        fclose(file);
    }
    return number;
}

/* Where the function lies in the program's file: by the mapping that holds it. */
static unsigned long find_offset(const void *function, char *path, size_t size)
{
    char line[8192];
    unsigned long low, high, offset, place = (unsigned long)function;
    FILE *maps = fopen("/proc/self/maps", "r");
    check(maps != NULL, "/proc/self/maps");
    while (fgets(line, sizeof(line), maps)) {
        int at = 0;
        if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %n", &low, &high, &offset, &at) == 3 &&
            place >= low && place < high) {
            line[strcspn(line, "\n")] = 0;
            snprintf(path, size, "%s", line + at);
            fclose(maps);
            return place - low + offset;
        }
    }
    fail("no mapping holds the function");
}

static int open_probe(const char *path, unsigned long offset, int is_at_return)
{
    struct perf_event_attr event = {.size = sizeof(event)};
    event.type = (unsigned)read_number("/sys/bus/event_source/devices/uprobe/type");
    event.config = (unsigned)is_at_return;
    event.config1 = (uintptr_t)path;
    event.config2 = offset;
    return (int)syscall(SYS_perf_event_open, &event, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static int count_calls(long calls)
{
    static char path[8192];
    unsigned long offset = find_offset((const void *)probed, path, sizeof(path));
    int fds[2];
    for (int i = 0; i < 2; i++) {
        fds[i] = open_probe(path, offset, i);
        if (fds[i] < 0)
            return errno == EINVAL ? 1 : NOT_ALLOWED;
    }
    say("probed");
    for (long i = 0; i < calls; i++)
        check(probed(i) == i + 1, "the probed function");
    for (int i = 0; i < 2; i++) {
        uint64_t count = 0;
        check(read(fds[i], &count, sizeof(count)) == sizeof(count), "reading the counter");
        if (count != (uint64_t)calls)
            fprintf(stderr, "%lu of %ld calls counted\n", (unsigned long)count, calls);
        check(count == (uint64_t)calls, "the counter");
        close(fds[i]);
    }
    check(probed(1) == 2, "the function without probes");
    return 0;
}

/* ---- Memory that the kernel rearranges ---- */

enum { HUGE_PAGE = 2 << 20 };

static int merge(long pages)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (size_t)pages * page;
    unsigned char *memory = map(size);
    memset(memory, 0x5a, size);
    if (madvise(memory, size, MADV_MERGEABLE) != 0)
        return NOT_ALLOWED;
    say("mergeable");
    wait_for_line();
    for (long i = 0; i < pages; i += 2)
        memset(memory + (size_t)i * page, getpid() & 0xff, page);
    for (size_t i = 0; i < size; i++)
        check(memory[i] == (i / page % 2 ? 0x5a : (getpid() & 0xff)), "merged memory");
    return 0;
}

/* Fills, checks and discards parts, while the kernel collapses the pages of others. */
static int collapse(long ms)
{
    enum { PARTS = 4 };
    unsigned char *memory = map((PARTS + 1) * (size_t)HUGE_PAGE);
    memory = (unsigned char *)(((uintptr_t)memory + HUGE_PAGE - 1) & -(uintptr_t)HUGE_PAGE);
    if (madvise(memory, PARTS * (size_t)HUGE_PAGE, MADV_NOHUGEPAGE) != 0)
        return NOT_ALLOWED;
    long end = now_ms() + ms;
    for (unsigned round = 0; now_ms() < end; round++) {
        unsigned char *part = memory + round % PARTS * (size_t)HUGE_PAGE;
        check(madvise(part, HUGE_PAGE, MADV_NOHUGEPAGE) == 0, "MADV_NOHUGEPAGE");
        for (size_t i = 0; i < HUGE_PAGE; i += 4096)
            part[i] = (unsigned char)(round + i / 4096);
        check(madvise(part, HUGE_PAGE, MADV_HUGEPAGE) == 0, "MADV_HUGEPAGE");
        (void)madvise(part, HUGE_PAGE, MADV_COLLAPSE); /* Linux 6.1; it may find no memory */
        for (size_t i = 0; i < HUGE_PAGE; i += 4096)
            check(part[i] == (unsigned char)(round + i / 4096), "collapsed memory");
        check(madvise(part, HUGE_PAGE / 2, MADV_DONTNEED) == 0 && part[0] == 0, "MADV_DONTNEED");
    }
    return 0;
}

/* Policies and moves, with the pages as they were: where there is one node, nothing can move. */
static int balance(long ms)
{
    enum { PAGES = 256, MPOL_BIND_HERE = 2, MPOL_MOVE = 2 };
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = PAGES * page;
    unsigned long nodes = 1;
    unsigned char *memory = map(size);
    memset(memory, 0x33, size);
    long end = now_ms() + ms;
    while (now_ms() < end) {
        void *pages[PAGES];
        int at[PAGES], places[PAGES];
        for (size_t i = 0; i < PAGES; i++) {
            pages[i] = memory + i * page;
            places[i] = 0;
        }
        if (syscall(SYS_mbind, memory, size, MPOL_BIND_HERE, &nodes, 64, MPOL_MOVE) != 0)
            return errno == ENOSYS || errno == EPERM ? NOT_ALLOWED : 1;
        check(syscall(SYS_move_pages, 0, PAGES, pages, places, at, MPOL_MOVE) >= 0, "move_pages");
        check(syscall(SYS_migrate_pages, 0, 64, &nodes, &nodes) >= 0, "migrate_pages");
        for (size_t i = 0; i < size; i++)
            check(memory[i] == 0x33, "moved memory");
        memset(memory, 0x33, size);
    }
    return 0;
}

/* ---- Asynchronous I/O: a context belongs to the memory, not to the process ---- */

enum { DEPTH = 8, PIECE = 1 << 16 }; /* requests in flight, bytes each */

static void read_all_pieces(aio_context_t context, int fd, char *memory)
{
    struct iocb requests[DEPTH] = {{0}};
    struct io_event events[DEPTH];
    for (int i = 0; i < DEPTH; i++) {
        struct iocb *request = &requests[i];
        request->aio_fildes = (unsigned)fd;
        request->aio_lio_opcode = IOCB_CMD_PREAD;
        request->aio_buf = (uintptr_t)memory + (unsigned)i * PIECE;
        request->aio_nbytes = PIECE;
        check(syscall(SYS_io_submit, context, 1, &request) == 1, "io_submit");
    }
    check(syscall(SYS_io_getevents, context, DEPTH, DEPTH, events, NULL) == DEPTH, "io_getevents");
    for (int i = 0; i < DEPTH; i++)
        check(events[i].res == PIECE, "a read");
}

static void destroy_unseen(aio_context_t context)
{
#ifdef __x86_64__
    long result = SYS_io_destroy;
    __asm__ volatile("nop; syscall" : "+a"(result) : "D"(context) : "rcx", "r11", "memory");
    check(result == 0, "io_destroy");
#endif
}

static int read_asynchronously(const char *path, const char *what)
{
    aio_context_t context = 0;
    if (syscall(SYS_io_setup, DEPTH, &context) != 0)
        return errno == ENOSYS || errno == EPERM ? NOT_ALLOWED : 1;
    int fd = open(path, O_RDONLY);
    check(fd >= 0, path);
    char *memory = map(DEPTH * PIECE);
    int is_named = strcmp(what, "aio-named") == 0, is_unseen = strcmp(what, "aio-unseen") == 0;
    if (is_unseen)
        destroy_unseen(context);
    if (is_named || is_unseen) {
        printf("%lx\n", (unsigned long)context);
        fflush(stdout);
        wait_for_line();
    }
    if (is_unseen)
        return 0;
    read_all_pieces(context, fd, memory);
    say("reading");
    while (strcmp(what, "aio") == 0)
        read_all_pieces(context, fd, memory);
    if (strcmp(what, "aio-destroy") == 0)
        check(syscall(SYS_io_destroy, context) == 0 && syscall(SYS_io_destroy, context) == -1 &&
                  errno == EINVAL,
              "io_destroy");
    return 0;
}

/* ---- A ring, mapped by the libc ---- */

enum { RING_ENTRIES = 8 };

struct ring {
    int fd;
    struct io_uring_params params;
    char *queues;
    struct io_uring_sqe *entries;
};

static void *map_ring(const struct ring *ring, size_t size, off_t offset)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, offset);
    check(memory != MAP_FAILED, "mmap of a ring");
    return memory;
}

static int make_ring(struct ring *ring)
{
    memset(ring, 0, sizeof(*ring));
    ring->fd = (int)syscall(SYS_io_uring_setup, RING_ENTRIES, &ring->params);
    if (ring->fd < 0 || !(ring->params.features & IORING_FEAT_SINGLE_MMAP))
        return -1;
    const struct io_uring_params *params = &ring->params;
    size_t submission = params->sq_off.array + params->sq_entries * sizeof(uint32_t);
    size_t completion = params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe);
    ring->queues =
        map_ring(ring, submission > completion ? submission : completion, IORING_OFF_SQ_RING);
    ring->entries = map_ring(ring, params->sq_entries * sizeof(*ring->entries), IORING_OFF_SQES);
    return 0;
}

/* The word of the ring at this offset, which the kernel reads or writes. */
static _Atomic uint32_t *ring_word(const struct ring *ring, uint32_t offset)
{
    return (_Atomic uint32_t *)(void *)(ring->queues + offset);
}

static void submit_read(struct ring *ring, int fd, void *to, unsigned wait_for)
{
    _Atomic uint32_t *tail = ring_word(ring, ring->params.sq_off.tail);
    uint32_t at = atomic_load_explicit(tail, memory_order_relaxed);
    uint32_t index = at & (ring->params.sq_entries - 1);
    ring->entries[index] = (struct io_uring_sqe){
        .opcode = IORING_OP_READ, .fd = fd, .addr = (uintptr_t)to, .len = 1, .off = ~0ULL};
    atomic_store(ring_word(ring, ring->params.sq_off.array) + index, index);
    atomic_store_explicit(tail, at + 1, memory_order_release); /* pairs with the kernel's load */
    check(syscall(SYS_io_uring_enter, ring->fd, 1, wait_for, IORING_ENTER_GETEVENTS, NULL, 0) == 1,
          "io_uring_enter");
}

static int use_ring(long rounds)
{
    struct ring ring;
    int full[2], empty[2];
    static char got, never[4];
    if (make_ring(&ring) != 0)
        return NOT_ALLOWED;
    check(pipe(full) == 0 && pipe(empty) == 0, "pipe");
    for (int i = 0; i < 4; i++)
        submit_read(&ring, empty[0], &never[i], 0);
    _Atomic uint32_t *head = ring_word(&ring, ring.params.cq_off.head);
    for (long round = 0; round < rounds; round++) {
        char sent = (char)round;
        check(write(full[1], &sent, 1) == 1, "write");
        submit_read(&ring, full[0], &got, 1);
        check(got == sent, "what was read");
        atomic_fetch_add(head, 1);
        if (round == 0)
            say("started");
    }
    return 0;
}

/* ---- A filter for all threads: all threads of the task, that is ---- */

static void *see_whether_denied(void *argument)
{
    wait_for_line();
    errno = 0;
    return syscall(SYS_getppid) == -1 && errno == EACCES ? argument : NULL;
}

static int synchronise(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
    pthread_t thread;
    void *was_denied = NULL;
    check(pthread_create(&thread, NULL, see_whether_denied, &filter) == 0, "pthread_create");
    check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "PR_SET_NO_NEW_PRIVS");
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) != 0)
        return NOT_ALLOWED;
    say("filtered");
    pthread_join(thread, &was_denied);
    check(was_denied != NULL, "the other thread is not filtered");
    return 0;
}

/* ---- The memory descriptor's own fields ---- */

static int move_arguments(void)
{
    char *text = map(4096);
    strcpy(text, "renamed");
    unsigned long low = (uintptr_t)text, high = low + strlen(text) + 1;
    for (int i = 0; i < 2; i++) { /* the start must be below the end at each step */
        (void)prctl(PR_SET_MM, PR_SET_MM_ARG_START, low, 0, 0);
        if (prctl(PR_SET_MM, PR_SET_MM_ARG_END, high, 0, 0) == 0)
            continue;
        if (errno == EPERM || errno == EINVAL)
            return NOT_ALLOWED;
    }
    return 0;
}

static int dump_core(const char *directory)
{
    static const struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
    if (setrlimit(RLIMIT_CORE, &unlimited) != 0)
        return NOT_ALLOWED;
    check(chdir(directory) == 0, directory);
    say("ready");
    wait_for_line();
    abort();
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    const char *text = argc > 2 ? argv[2] : "0";
    long number = atol(text);
    if (strcmp(what, "clone") == 0)
        return argc > 3 && clone_for(number) == 0 ? atoi(argv[3]) : 1;
    if (strcmp(what, "register") == 0)
        return register_all() > 0 ? 0 : 1;
    if (strcmp(what, "membarrier") == 0)
        return check_membarrier(number);
    if (strcmp(what, "probe") == 0)
        return count_calls(number);
    if (strcmp(what, "merge") == 0)
        return merge(number);
    if (strcmp(what, "collapse") == 0)
        return collapse(number);
    if (strcmp(what, "balance") == 0)
        return balance(number);
    if (strncmp(what, "aio", 3) == 0)
        return read_asynchronously(text, what);
    if (strcmp(what, "ring") == 0)
        return use_ring(number);
    if (strcmp(what, "synchronise") == 0)
        return synchronise();
    if (strcmp(what, "unfiltered") == 0)
        return syscall(SYS_getppid) > 0 ? 0 : 1;
    if (strcmp(what, "arguments") == 0)
        return move_arguments();
    if (strcmp(what, "crash") == 0)
        return dump_core(text);
    return 2;
}
