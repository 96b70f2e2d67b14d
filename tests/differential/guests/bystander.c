/* tests/differential/guests/bystander.c: bystander: has memory of each kind, changes it and sums it
 * up over and over, and looks at what else a process has by itself. It must not
 * notice other tasks of its space. It says "ready", ends when its standard input does, and prints
 * how often it has looked, or what has changed, with exit status 1. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIZE = 64 << 10, KINDS = 10 };

struct area {
    const char *name;
    unsigned char *start;
};

static unsigned char of_data[SIZE] = {1}, of_bss[SIZE];
static __thread unsigned char of_thread[SIZE];
static struct area areas[KINDS];
static int area_count;
static volatile sig_atomic_t signals_seen;
static pthread_barrier_t rounds;
static unsigned char *volatile on_thread_stack;

static void fail(const char *what, const char *where)
{
    printf("%s: %s\n", what, where);
    exit(1);
}

static void on_signal(int signal)
{
    signals_seen = signal;
}

static void add(const char *name, void *start)
{
    if (!start || start == MAP_FAILED)
        fail("cannot have", name);
    areas[area_count++] = (struct area){name, start};
}

static void write_area(const struct area *area, unsigned round)
{
    for (size_t i = 0; i < SIZE; i++)
        area->start[i] = (unsigned char)(i * 31 + (i >> 8) + round + (unsigned)(area - areas));
}

static void check_area(const struct area *area, unsigned round)
{
    for (size_t i = 0; i < SIZE; i++)
        if (area->start[i] != (unsigned char)(i * 31 + (i >> 8) + round + (unsigned)(area - areas)))
            fail("memory has changed", area->name);
}

/* The other thread only lends its stack, and has one of its own. */
static void *lend_stack(void *argument)
{
    unsigned char stack[SIZE];
    (void)argument;
    on_thread_stack = stack;
    pthread_barrier_wait(&rounds);
    pthread_barrier_wait(&rounds);
    on_thread_stack = NULL;
    return NULL;
}

static void *map_file(void)
{
    FILE *file = tmpfile();
    if (!file || ftruncate(fileno(file), SIZE) != 0)
        fail("cannot have", "a file");
    return mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(file), 0);
}

static void *map_shared(void)
{
    int fd = memfd_create("bystander", 0);
    return ftruncate(fd, SIZE) == 0 ? mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                                    : NULL;
}

static void *attach(void)
{
    int id = shmget(IPC_PRIVATE, SIZE, IPC_CREAT | 0600);
    void *start = shmat(id, NULL, 0);
    shmctl(id, IPC_RMID, NULL);
    return start == (void *)-1 ? NULL : start;
}

/* New memory is zero and apart from the rest. */
static void map_and_grow(unsigned round)
{
    size_t size = (size_t)(round % 7 + 1) * 4096;
    unsigned char *map =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *heap = sbrk((intptr_t)size);
    if (map == MAP_FAILED || heap == (void *)-1)
        fail("no memory", strerror(errno));
    for (size_t i = 0; i < size; i++)
        if (map[i] || heap[i])
            fail("not zero", map[i] ? "a new mapping" : "the heap");
    memset(map, (int)round, size);
    memset(heap, (int)round, size);
    if (map[size - 1] != (unsigned char)round || heap[0] != (unsigned char)round)
        fail("memory has changed", "new");
    if (munmap(map, size) != 0 || sbrk(-(intptr_t)size) == (void *)-1)
        fail("not given back", strerror(errno));
}

struct state {
    char directory[4096];
    sigset_t mask;
    struct rlimit files;
    mode_t umask;
    int priority;
};

static void read_state(struct state *state)
{
    memset(state, 0, sizeof(*state));
    if (!getcwd(state->directory, sizeof(state->directory)))
        fail("no working directory", strerror(errno));
    sigprocmask(SIG_BLOCK, NULL, &state->mask);
    getrlimit(RLIMIT_NOFILE, &state->files);
    umask(state->umask = umask(0));
    state->priority = getpriority(PRIO_PROCESS, 0);
}

static void check_state(const struct state *before)
{
    struct state now;
    read_state(&now);
    if (memcmp(&now, before, sizeof(now)) != 0)
        fail("state has changed", "working directory, mask, limits, umask or priority");
    if (signals_seen)
        fail("a signal came", strsignal(signals_seen));
}

static int is_over(void)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    char byte;
    return poll(&input, 1, 0) == 1 && read(0, &byte, 1) <= 0;
}

int main(void)
{
    unsigned char on_stack[SIZE];
    pthread_t thread;
    struct state state;
    struct sigaction action = {.sa_handler = on_signal};
    unsigned round = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int signal = 1; signal < 32; signal++)
        if (signal != SIGKILL && signal != SIGSTOP && signal != SIGSEGV && signal != SIGBUS)
            sigaction(signal, &action, NULL);
    pthread_barrier_init(&rounds, NULL, 2);
    pthread_create(&thread, NULL, lend_stack, NULL);
    pthread_barrier_wait(&rounds);
    add("data", of_data);
    add("zeroed data", of_bss);
    add("thread-local storage", of_thread);
    add("main stack", on_stack);
    add("stack of a thread", on_thread_stack);
    add("heap", malloc(SIZE));
    add("private mapping",
        mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    add("mapping of a file", map_file());
    add("shared mapping", map_shared());
    add("segment", attach());
    for (int i = 0; i < area_count; i++)
        write_area(&areas[i], round);
    read_state(&state);
    puts("ready");
    while (!is_over()) {
        for (int i = 0; i < area_count; i++) {
            check_area(&areas[i], round);
            write_area(&areas[i], round + 1);
        }
        round++;
        map_and_grow(round);
        check_state(&state);
    }
    pthread_barrier_wait(&rounds);
    pthread_join(thread, NULL);
    printf("noticed nothing in %u rounds\n", round);
    return 0;
}
