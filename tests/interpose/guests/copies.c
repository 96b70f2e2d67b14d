/* tests/interpose/guests/copies.c: process_vm_readv and process_vm_writev in every way, good and
 * bad.
 *
 * `serve` lays memory out and says where; `check PID PLACES...` copies from and to it and prints
 * the result of each case, so that the same program as processes and as tasks can be compared. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "programs/scene.h"
#include "programs/system_call.h"

enum { PAGE = 4096, AREA = 16 * PAGE };

/* The addresses of the server's memory. */
static char *area;      /* AREA bytes of a pattern, then nothing */
static char *read_only; /* a page */
static char *no_access; /* a page */
static char *cut_file;  /* two pages of which the file has one */
static pid_t server;

static char pattern(size_t at)
{
    return (char)(at * 131 + at / 251);
}

SCENE(serve)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    area = mmap(NULL, AREA + PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
    munmap(area + AREA, PAGE);
    (void)mmap(area + AREA, PAGE, PROT_NONE, flags | MAP_FIXED_NOREPLACE, -1, 0);
    read_only = mmap(NULL, PAGE, PROT_READ, flags, -1, 0);
    no_access = mmap(NULL, PAGE, PROT_NONE, flags, -1, 0);
    int fd = memfd_create("cut", 0);
    if (ftruncate(fd, PAGE) != 0)
        return 1;
    cut_file = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    for (size_t i = 0; i < AREA; i++)
        area[i] = pattern(i);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    printf("%d %p %p %p %p\n", getpid(), (void *)area, (void *)read_only, (void *)no_access,
           (void *)cut_file);
    while (getchar() != EOF)
        ;
    return 0;
}

/* Says where something is and, when it has got a line, executes cat by an instruction whose number
 * is not loaded before it. */
SCENE(execute_unseen)
{
    static char *const words[] = {"cat", NULL};
    volatile long number = SYS_execve;
    char byte = 0;
    printf("%d %p\n", getpid(), (void *)argv);
    while (read(0, &byte, 1) == 1 && byte != '\n')
        ;
    system_call(number, (long)"/bin/cat", (long)words, (long)environ, 0, 0, 0);
    return 1;
}

static ssize_t copy(int writing, pid_t pid, const struct iovec *local, unsigned long locals,
                    const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    return writing ? process_vm_writev(pid, local, locals, remote, remotes, flags)
                   : process_vm_readv(pid, local, locals, remote, remotes, flags);
}

static unsigned checksum(const char *bytes, size_t size)
{
    unsigned sum = 0;
    for (size_t i = 0; i < size; i++)
        sum = sum * 31 + (unsigned char)bytes[i];
    return sum;
}

static char *local; /* AREA bytes, then nothing */

static void report(const char *name, int writing, ssize_t result)
{
    int error = result < 0 ? errno : 0;
    printf("%s %s: %zd %s", writing ? "write" : "read", name, result, error ? strerror(error) : "");
    /* The memory of the other side, read from here. */
    static char there[AREA];
    struct iovec mine = {there, AREA}, theirs = {area, AREA};
    ssize_t size = server > 0 ? process_vm_readv(server, &mine, 1, &theirs, 1, 0) : 0;
    printf(" here %08x there %08x\n", checksum(local, AREA),
           checksum(there, size > 0 ? (size_t)size : 0));
}

static void prepare(void)
{
    static char bytes[AREA];
    for (size_t i = 0; i < AREA; i++) {
        local[i] = (char)(i * 7 + 1);
        bytes[i] = pattern(i);
    }
    struct iovec mine = {bytes, AREA}, theirs = {area, AREA};
    if (server > 0 && process_vm_writev(server, &mine, 1, &theirs, 1, 0) != AREA)
        printf("cannot prepare: %s\n", strerror(errno));
}

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define CASE(name, locals, remotes)                                                                \
    do {                                                                                           \
        struct iovec mine[] = {locals}, theirs[] = {remotes};                                      \
        prepare();                                                                                 \
        report(name, writing,                                                                      \
               copy(writing, server, mine, LENGTH(mine), theirs, LENGTH(theirs), 0));              \
    } while (0)
#define LIST(...) __VA_ARGS__

static void check_vectors(int writing)
{
    void *nowhere = (void *)0x123000, *kernel = (void *)(uintptr_t)0xffff800000000000u;
    CASE("one byte", LIST({local, 1}), LIST({area, 1}));
    CASE("all", LIST({local, AREA}), LIST({area, AREA}));
    CASE("unaligned", LIST({local + 3, 5001}), LIST({area + 1001, 5001}));
    CASE("local shorter", LIST({local, 100}), LIST({area, 5000}));
    CASE("remote shorter", LIST({local, 5000}), LIST({area, 100}));
    CASE("scattered", LIST({local, 10}, {local + 100, 1}, {local + 5000, 7000}),
         LIST({area + 1, 3}, {area + 50, 6000}, {area + 9000, 2000}));
    CASE("zero lengths", LIST({local, 0}, {local, 4}, {local + 8, 0}, {local + 9, 4}),
         LIST({area, 0}, {area, 2}, {area + 8, 0}, {area + 3, 6}));
    CASE("zero length nowhere", LIST({nowhere, 0}, {local, 4}), LIST({nowhere, 0}, {area, 4}));
    CASE("nothing at all", LIST({local, 0}), LIST({area, 0}));
    CASE("nothing here", LIST({local, 0}), LIST({nowhere, 10}));
    CASE("nothing there", LIST({local, 10}), LIST({nowhere, 0}));
    CASE("remote nowhere", LIST({local, 100}), LIST({nowhere, 100}));
    CASE("remote null", LIST({local, 100}), LIST({NULL, 100}));
    CASE("remote in the kernel", LIST({local, 100}), LIST({kernel, 100}));
    CASE("local nowhere", LIST({nowhere, 100}), LIST({area, 100}));
    CASE("local in the kernel", LIST({kernel, 100}), LIST({area, 100}));
    CASE("remote ends", LIST({local, AREA}), LIST({area + AREA - 100, 200}));
    CASE("remote ends after pages", LIST({local, AREA}),
         LIST({area + AREA - 2 * PAGE - 100, AREA}));
    CASE("local ends", LIST({local + AREA - 100, 200}), LIST({area, 200}));
    CASE("local ends after pages", LIST({local + AREA - 2 * PAGE - 100, AREA}), LIST({area, AREA}));
    CASE("second remote nowhere", LIST({local, 300}),
         LIST({area, 100}, {nowhere, 100}, {area + 300, 100}));
    CASE("second local nowhere", LIST({local, 100}, {nowhere, 100}, {local + 300, 100}),
         LIST({area, 300}));
    CASE("unused remote nowhere", LIST({local, 100}), LIST({area, 100}, {nowhere, 100}));
    CASE("unused local nowhere", LIST({local, 100}, {nowhere, 100}), LIST({area, 100}));
    CASE("unused local in the kernel", LIST({local, 100}, {kernel, 100}), LIST({area, 100}));
    CASE("remote read-only", LIST({local, 100}), LIST({read_only, 100}));
    CASE("remote without access", LIST({local, 100}), LIST({no_access, 100}));
    CASE("remote behind the file", LIST({local, 2 * PAGE}), LIST({cut_file + PAGE - 10, 100}));
    CASE("remote partly read-only", LIST({local, 200}), LIST({area, 100}, {read_only, 100}));
    CASE("huge remote length", LIST({local, 100}), LIST({area, (size_t)1 << 46}));
    CASE("huge local length", LIST({local, (size_t)1 << 40}), LIST({area, 100}));
    CASE("both lengths above INT_MAX", LIST({local, (size_t)INT_MAX + 10}),
         LIST({area, (size_t)INT_MAX + 10}));
    CASE("negative remote length", LIST({local, 100}), LIST({area, (size_t)-1}));
    CASE("negative local length", LIST({local, (size_t)-1}), LIST({area, 100}));
    CASE("unused negative remote length", LIST({local, 100}),
         LIST({area, 100}, {area, (size_t)-5}));
    CASE("unused negative local length", LIST({local, 100}, {local, (size_t)-5}),
         LIST({area, 100}));
    CASE("sum of remote lengths overflows", LIST({local, 100}),
         LIST({area, SSIZE_MAX}, {area, SSIZE_MAX}));
    CASE("sum of local lengths overflows", LIST({local, SSIZE_MAX}, {local, SSIZE_MAX}),
         LIST({area, 100}));
}

static void check_arguments(int writing)
{
    static struct iovec many[IOV_MAX + 1], theirs[IOV_MAX + 1];
    struct iovec mine = {local, 100}, there = {area, 100}, *nowhere = (struct iovec *)0x123000;
    for (int i = 0; i <= IOV_MAX; i++) {
        many[i] = (struct iovec){local + i * 3, 3};
        theirs[i] = (struct iovec){area + i * 2, 2};
    }
    prepare();
    report("IOV_MAX vectors", writing, copy(writing, server, many, IOV_MAX, theirs, IOV_MAX, 0));
    prepare();
    report("too many local", writing, copy(writing, server, many, IOV_MAX + 1, theirs, 1, 0));
    report("too many remote", writing, copy(writing, server, many, 1, theirs, IOV_MAX + 1, 0));
    report("very many", writing, copy(writing, server, many, ULONG_MAX, theirs, ULONG_MAX, 0));
    report("no local", writing, copy(writing, server, &mine, 0, &there, 1, 0));
    report("no remote", writing, copy(writing, server, &mine, 1, &there, 0, 0));
    report("neither", writing, copy(writing, server, NULL, 0, NULL, 0, 0));
    report("no local, remote vector nowhere", writing,
           copy(writing, server, &mine, 0, nowhere, 1, 0));
    report("flags", writing, copy(writing, server, &mine, 1, &there, 1, 1));
    report("high flags", writing, copy(writing, server, &mine, 1, &there, 1, 1ul << 40));
    report("local vector nowhere", writing, copy(writing, server, nowhere, 1, &there, 1, 0));
    report("remote vector nowhere", writing, copy(writing, server, &mine, 1, nowhere, 1, 0));
    report("local vector null", writing, copy(writing, server, NULL, 1, &there, 1, 0));
    /* The vector's second entry lies behind the end of memory. */
    char *page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(page + PAGE, PAGE, PROT_NONE);
    struct iovec *edge = (struct iovec *)(page + PAGE) - 1;
    prepare();
    *edge = (struct iovec){area, 100};
    report("remote vector ends", writing, copy(writing, server, &mine, 1, edge, 2, 0));
    prepare();
    *edge = (struct iovec){local, 100};
    report("local vector ends", writing, copy(writing, server, edge, 2, &there, 1, 0));
}

static void check_targets(int writing)
{
    struct iovec mine = {local, 100}, there = {area, 100}, own = {local + 1000, 100};
    pid_t saved = server;
    prepare();
    report("oneself", writing, copy(writing, getpid(), &mine, 1, &own, 1, 0));
    prepare();
    struct iovec overlapping = {local + 10, 100};
    report("oneself, overlapping", writing, copy(writing, getpid(), &mine, 1, &overlapping, 1, 0));
    prepare();
    struct iovec pieces[] = {{local, 10}, {local + 100, 10}, {local + 200, 10}};
    struct iovec chain[] = {{local + 100, 10}, {local + 200, 10}, {local + 300, 10}};
    report("oneself, in a chain", writing, copy(writing, getpid(), chain, 3, pieces, 3, 0));
    prepare();
    struct iovec partly[] = {{local + 1000, 50}, {(void *)0x123000, 50}};
    report("oneself, partly", writing, copy(writing, getpid(), &mine, 1, partly, 2, 0));
    report("pid 0", writing, copy(writing, 0, &mine, 1, &there, 1, 0));
    report("pid -1", writing, copy(writing, -1, &mine, 1, &there, 1, 0));
    pid_t child = fork();
    if (child == 0)
        pause();
    prepare();
    report("a child", writing, copy(writing, child, &mine, 1, &own, 1, 0));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    report("a dead child", writing, copy(writing, child, &mine, 1, &own, 1, 0));
    fflush(stdout);
    child = fork(); /* that copies itself, from and to the server and its parent */
    if (child == 0) {
        prepare();
        report("from a child", writing, copy(writing, server, &mine, 1, &there, 1, 0));
        report("from a child, partly", writing,
               copy(writing, server, &(struct iovec){local, AREA}, 1,
                    &(struct iovec){area + AREA - 9, 99}, 1, 0));
        report("from a child, nowhere", writing,
               copy(writing, server, &mine, 1, &(struct iovec){(void *)0x123000, 10}, 1, 0));
        exit(0);
    }
    waitpid(child, NULL, 0);
    server = saved;
}

static volatile sig_atomic_t handled;

static void handler(int signal)
{
    (void)signal;
    handled++;
    _exit(99);
}

/* A copy that faults is not the business of the program's handlers, masks and stacks. */
static void check_signals(int writing)
{
    struct iovec mine = {local, 100}, nowhere = {(void *)0x123000, 100},
                 behind = {cut_file + PAGE, 100};
    sigset_t all, old;
    signal(SIGSEGV, handler);
    signal(SIGBUS, handler);
    report("with handlers", writing, copy(writing, server, &mine, 1, &nowhere, 1, 0));
    report("with handlers, SIGBUS", writing, copy(writing, server, &mine, 1, &behind, 1, 0));
    signal(SIGSEGV, SIG_IGN);
    signal(SIGBUS, SIG_IGN);
    report("ignored", writing, copy(writing, server, &mine, 1, &nowhere, 1, 0));
    report("ignored, SIGBUS", writing, copy(writing, server, &mine, 1, &behind, 1, 0));
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old);
    report("blocked", writing, copy(writing, server, &mine, 1, &nowhere, 1, 0));
    report("blocked, SIGBUS", writing, copy(writing, server, &mine, 1, &behind, 1, 0));
    sigprocmask(SIG_SETMASK, &old, NULL);
    printf("handled %d\n", (int)handled);
}

static void check_system_call(int writing)
{
    struct iovec mine = {local, 5000}, there = {area + 50, 5000}, nowhere = {(void *)0x123000, 100};
    long number = writing ? SYS_process_vm_writev : SYS_process_vm_readv;
    prepare();
    report("syscall", writing, syscall(number, server, &mine, 1ul, &there, 1ul, 0ul));
    report("syscall nowhere", writing, syscall(number, server, &mine, 1ul, &nowhere, 1ul, 0ul));
    report("syscall flags", writing, syscall(number, server, &mine, 1ul, &there, 1ul, 7ul));
}

/* Vector registers are the caller's even when the copy is stopped by a fault half way. */
static void check_registers(void)
{
    struct iovec mine = {local, AREA}, there = {area + AREA - 5000, 9000};
    double before[8], after[8];
    for (int i = 0; i < 8; i++)
        before[i] = i * 1.5;
    for (int i = 0; i < 8; i++)
        after[i] = before[i];
    ssize_t size = process_vm_readv(server, &mine, 1, &there, 1, 0);
    printf("registers %zd %d\n", size, memcmp(before, after, sizeof(before)));
}

static void *copy_in_thread(void *argument)
{
    struct iovec mine = {argument, 4000}, there = {area, 4000}, nowhere = {(void *)0x123000, 100};
    for (int i = 0; i < 2000; i++)
        if (process_vm_readv(server, &mine, 1, &there, 1, 0) != 4000 ||
            (i % 50 == 0 &&
             (process_vm_readv(server, &mine, 1, &nowhere, 1, 0) != -1 || errno != EFAULT)))
            return (void *)1;
    return NULL;
}

static void check_threads(void)
{
    pthread_t threads[4];
    uintptr_t wrong = 0;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, copy_in_thread, local + i * 4000);
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        wrong += (uintptr_t)result;
    }
    printf("threads wrong %lu\n", (unsigned long)wrong);
}

SCENE(check)
{
    if (argc < 6)
        return 2;
    server = atoi(argv[1]);
    sscanf(argv[2], "%p", (void **)&area);
    sscanf(argv[3], "%p", (void **)&read_only);
    sscanf(argv[4], "%p", (void **)&no_access);
    sscanf(argv[5], "%p", (void **)&cut_file);
    /* Low: the kernel refuses lengths that lead from there beyond the last address. */
    local = mmap((void *)(UINT64_C(1) << 44), AREA + PAGE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(local + AREA, PAGE, PROT_NONE);
    for (int writing = 0; writing < 2; writing++) {
        check_vectors(writing);
        check_arguments(writing);
        check_targets(writing);
        check_signals(writing);
        check_system_call(writing);
    }
    check_registers();
    check_threads();
    return 0;
}

/* oneself TIMES: copies within the caller. */
SCENE(oneself)
{
    static char from[AREA], to[AREA];
    struct iovec mine = {to, AREA}, own = {from, AREA};
    int times = argc > 1 ? atoi(argv[1]) : 0;
    for (int i = 0; i < times; i++) {
        memset(from, i + 1, AREA);
        if (copy(i % 2, getpid(), i % 2 ? &own : &mine, 1, i % 2 ? &mine : &own, 1, 0) != AREA ||
            memcmp(from, to, AREA) != 0)
            return 1;
    }
    return times == 0;
}

/* dead PID PLACES...: when the server has ended. */
SCENE(dead)
{
    char bytes[8];
    struct iovec mine = {bytes, 8}, there = {NULL, 8};
    if (argc < 3)
        return 2;
    sscanf(argv[2], "%p", &there.iov_base);
    printf("%zd ", process_vm_readv(atoi(argv[1]), &mine, 1, &there, 1, 0));
    printf("%s\n", strerror(errno));
    return 0;
}

/* hammer PID PLACES...: copies until there is no server any more. */
SCENE(hammer)
{
    static char bytes[AREA];
    struct iovec mine = {bytes, AREA}, there = {NULL, AREA};
    if (argc < 3)
        return 2;
    sscanf(argv[2], "%p", &there.iov_base);
    printf("copying\n");
    while (process_vm_readv(atoi(argv[1]), &mine, 1, &there, 1, 0) >= 0 || errno == EFAULT)
        ;
    printf("%s\n", strerror(errno));
    return 0;
}

enum { LARGE = 256 << 20, PIECE = 1 << 20 };

/* target: a large area that only its owner writes to; at the end of its input says what it holds.
 */
SCENE(target)
{
    unsigned wrong = 0;
    char *large = mmap(NULL, LARGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    printf("%d %p\n", getpid(), (void *)large);
    while (getchar() != EOF)
        ;
    for (size_t at = 0; at < LARGE; at += PAGE)
        wrong += large[at] != 0;
    printf("%u pages changed\n", wrong);
    return 0;
}

static volatile sig_atomic_t is_copying, was_stopped;
static volatile char *first; /* byte of the target's area, in the same address space */
static pthread_t copier;

static void stop_here(int signal)
{
    char line[8];
    (void)signal;
    if (!is_copying)
        return;
    was_stopped = 1;
    if (write(1, "stopped\n", 8) != 8 || read(0, line, sizeof(line)) < 0)
        _exit(1);
}

static void *stop_copier(void *argument)
{
    while (!*first)
        ;
    pthread_kill(copier, SIGUSR1);
    return argument;
}

/* stopped-writer PID PLACE: stops in the middle of a copy to a target until it reads a line. */
SCENE(stopped_writer)
{
    static char bytes[PIECE];
    static struct iovec mine[LARGE / PIECE];
    struct iovec there = {NULL, LARGE};
    pthread_t stopper;
    ssize_t size = 0;
    if (argc < 3)
        return 2;
    sscanf(argv[2], "%p", &there.iov_base);
    first = there.iov_base;
    memset(bytes, 1, sizeof(bytes));
    for (int i = 0; i < LARGE / PIECE; i++)
        mine[i] = (struct iovec){bytes, PIECE};
    copier = pthread_self();
    signal(SIGUSR1, stop_here);
    for (int tries = 0; tries < 100 && !was_stopped; tries++) { /* the copy may be done earlier */
        *first = 0;
        pthread_create(&stopper, NULL, stop_copier, NULL);
        is_copying = 1;
        size = process_vm_writev(atoi(argv[1]), mine, LARGE / PIECE, &there, 1, 0);
        is_copying = 0;
        pthread_join(stopper, NULL);
    }
    printf("%zd bytes\n", size);
    return 0;
}

int main(int argc, char **argv)
{
    return play_scene(argc, argv);
}
