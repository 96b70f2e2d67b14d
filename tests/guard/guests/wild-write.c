/* tests/guard/guests/wild-write.c: tasks of which the last writes to memory of the first, of the
 * kind named, and the first says what became of it. The others wait until the last has ended.
 *
 *   wild-write KIND [WAY [TIMES]]
 *
 * KIND is a row of `kinds` below, or registry: the writer stores into the registry, unchanged.
 * WAY: itself, thread, handler, fork, vfork, read (a system call that fills it), copy */
#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "onespace.h"

enum { OLD = 41, NEW = 42, COUNT = 1000, LARGE = 4 << 20 };

/* ---- The kinds of memory ---- */

static const char *program;
static int in_data[COUNT] = {OLD}, in_bss[COUNT];
static const int in_constants[COUNT] = {OLD};
static __thread int in_thread_local[16] = {OLD};

static pthread_barrier_t has_begun, may_end;
static int *in_thread;

static int *map_by(size_t size, int protection, int flags, int fd)
{
    void *memory = mmap(NULL, size, protection, flags, fd, 0);
    assert(memory != MAP_FAILED);
    return memory;
}

static int *map_private(size_t size, int flags)
{
    return map_by(size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1);
}

static int *of_heap(void)
{
    return malloc(COUNT * sizeof(int));
}

static int *of_break(void)
{
    void *memory = sbrk(LARGE);
    assert(memory != (void *)-1);
    return memory;
}

static int *of_data(void)
{
    return in_data;
}

static int *of_bss(void)
{
    return in_bss;
}

static int *of_tls(void)
{
    return in_thread_local;
}

static void *hold(void *kind)
{
    int here[COUNT] = {OLD};
    in_thread = !strcmp(kind, "thread-stack") ? here
                : !strcmp(kind, "thread-tls") ? in_thread_local
                                              : malloc(sizeof(here)); /* an arena of its own */
    pthread_barrier_wait(&has_begun);
    pthread_barrier_wait(&may_end);
    in_thread = NULL;
    return NULL;
}

static int *of_thread(const char *kind)
{
    pthread_t thread;
    pthread_barrier_init(&has_begun, NULL, 2);
    pthread_barrier_init(&may_end, NULL, 2);
    assert(pthread_create(&thread, NULL, hold, (void *)kind) == 0);
    pthread_barrier_wait(&has_begun);
    return in_thread;
}

static int *of_thread_stack(void)
{
    return of_thread("thread-stack");
}

static int *of_thread_tls(void)
{
    return of_thread("thread-tls");
}

/* Makes the page a guard within its mapping. 0: the kernel cannot, or does not tell: Linux
 * before 6.15. */
static int install_guard(const void *page)
{
    enum { INSTALL = 102 /* MADV_GUARD_INSTALL */, GUARD_BIT = 58 };
    uint64_t entry = 0;
    int fd = open("/proc/self/pagemap", O_RDONLY);
    int told = madvise((void *)page, 4096, INSTALL) == 0 &&
               pread(fd, &entry, 8, (off_t)((uintptr_t)page / 4096 * 8)) == 8;
    close(fd);
    return told && (entry >> GUARD_BIT & 1);
}

/* As glibc 2.42 and later make a stack's guard, or else as earlier ones do. */
static int *of_guarded_stack(void)
{
    enum { SIZE = 1 << 16 };
    int *stack = map_private(SIZE, MAP_STACK);
    assert(install_guard(stack) || mprotect(stack, 4096, PROT_NONE) == 0);
    return stack + SIZE / 2 / sizeof(*stack);
}

static int *of_arena(void)
{
    return of_thread("arena");
}

static int *of_mmap(void)
{
    return map_private(COUNT * sizeof(int), 0);
}

static int *of_file(void)
{
    int fd = open("/etc/passwd", O_RDONLY);
    return map_by(COUNT, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd);
}

static int *of_reserved(void)
{
    int *memory = map_by(LARGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    assert(mprotect(memory, 4096, PROT_READ | PROT_WRITE) == 0);
    return memory;
}

static int *of_moved(void)
{
    void *memory = mremap(map_private(4096, 0), 4096, LARGE, MREMAP_MAYMOVE);
    assert(memory != MAP_FAILED);
    return memory;
}

static int *of_transparent(void)
{
    int *memory = map_private(LARGE, 0);
    (void)madvise(memory, LARGE, MADV_HUGEPAGE);
    return memory;
}

static int *of_huge(void)
{
    return map_private(LARGE, MAP_HUGETLB);
}

/* Data of a library that the program is linked to, of one that it has opened, and of the dynamic
 * linker. */
static int *of_libc(void)
{
    return dlsym(RTLD_DEFAULT, "opterr");
}

static int *of_opened(void)
{
    char path[4096];
    snprintf(path, sizeof(path), "%.*s/extra.so", (int)(strrchr(program, '/') - program), program);
    void *library = dlopen(path, RTLD_NOW);
    assert(library);
    return dlsym(library, "extra_number");
}

static int *of_loader(void)
{
    return dlsym(RTLD_DEFAULT, "_r_debug");
}

static int *of_constants(void)
{
    return (int *)in_constants;
}

static int *of_code(void)
{
    return (int *)(void *)&of_constants;
}

static int *of_shared(void)
{
    return map_by(4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
}

static int *of_segment(void)
{
    int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
    void *memory = shmat(id, NULL, 0);
    assert(memory != (void *)-1 && shmctl(id, IPC_RMID, NULL) == 0);
    return memory;
}

static int *of_opened_by_owner(void)
{
    int *memory = map_private(4096, 0);
    assert(pkey_mprotect(memory, 4096, PROT_READ | PROT_WRITE, 0) == 0);
    return memory;
}

/* clang-format off */
static const struct kind {
    const char *name;
    int *(*make)(void);
    int is_read_only;
} kinds[] = {
    {"heap", of_heap, 0}, {"brk", of_break, 0}, {"arena", of_arena, 0}, {"stack", NULL, 0},
    {"globals", of_data, 0}, {"bss", of_bss, 0}, {"libc", of_libc, 0}, {"opened", of_opened, 0},
    {"loader", of_loader, 0}, {"tls", of_tls, 0}, {"thread-stack", of_thread_stack, 0},
    {"thread-tls", of_thread_tls, 0}, {"guarded-stack", of_guarded_stack, 0}, {"mmap", of_mmap, 0},
    {"file", of_file, 0}, {"reserved", of_reserved, 0}, {"moved", of_moved, 0},
    {"transparent", of_transparent, 0}, {"huge", of_huge, 0}, {"constants", of_constants, 1},
    {"code", of_code, 1}, {"shared", of_shared, 0}, {"segment", of_segment, 0},
    {"pkey0", of_opened_by_owner, 0},
};
/* clang-format on */

static const struct kind *kind_of(const char *name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(name, kinds[i].name) == 0)
            return &kinds[i];
    return &kinds[0]; /* registry: the first task's memory is left alone */
}

/* ---- The ways to write ---- */

static volatile int *target;
static int times = 1;

static void store(void)
{
    for (int i = 0; i < times; i++)
        *target = NEW;
}

static void handle(int number)
{
    (void)number;
    store();
}

static void *store_in_thread(void *unused)
{
    store();
    return unused;
}

static void store_in_child(pid_t child)
{
    int status;
    assert(child >= 0);
    if (child == 0) {
        store();
        _exit(0);
    }
    assert(waitpid(child, &status, 0) == child);
    printf("%d: child %s\n", onespace_number(), WIFSIGNALED(status) ? "killed" : "ended");
}

static void store_by_system_call(int is_copy)
{
    int pair[2], value = NEW;
    struct iovec to = {(void *)target, sizeof(int)}, from = {&value, sizeof(int)};
    assert(pipe(pair) == 0 && write(pair[1], &value, sizeof(int)) == sizeof(int));
    long done = is_copy ? process_vm_writev(getpid(), &from, 1, &to, 1, 0)
                        : read(pair[0], (void *)target, sizeof(int));
    printf("%d: %s\n", onespace_number(), done == sizeof(int) ? "passes" : strerror(errno));
}

/* Where the registry lies: the mapping of the space's own file. */
static volatile int *registry(void)
{
    char line[512];
    unsigned long start = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert(maps);
    while (!start && fgets(line, sizeof(line), maps))
        if (strstr(line, " rw-") && strstr(line, "/memfd:onespace-space"))
            start = strtoul(line, NULL, 16);
    fclose(maps);
    assert(start);
    return (volatile int *)start; /* NOLINT(performance-no-int-to-ptr) */
}

static void write_by(const char *way)
{
    pthread_t thread;
    if (strcmp(way, "thread") == 0) {
        assert(pthread_create(&thread, NULL, store_in_thread, NULL) == 0);
        pthread_join(thread, NULL);
    } else if (strcmp(way, "handler") == 0) {
        signal(SIGUSR1, handle);
        raise(SIGUSR1);
    } else if (strcmp(way, "fork") == 0) {
        store_in_child(fork());
    } else if (strcmp(way, "vfork") == 0) {
        store_in_child(vfork()); // NOLINT(clang-analyzer-unix.Vfork): the point
    } else if (strcmp(way, "read") == 0 || strcmp(way, "copy") == 0) {
        store_by_system_call(way[0] == 'c');
    } else {
        store();
    }
}

/* ---- The tasks ---- */

static void wait_for_last(void)
{
    int id;
    do
        usleep(10000);
    while ((id = onespace_task(onespace_ntasks() - 1)) >= 0 || id == -ESRCH);
}

static int offer(const struct kind *kind)
{
    int on_stack[COUNT] = {OLD};
    int *memory = kind->make ? kind->make() : on_stack;
    assert(memory);
    if (!kind->is_read_only)
        memory[0] = OLD;
    int old = *(volatile int *)memory, result = onespace_export("target", memory, sizeof(int));
    assert(result == 0);
    wait_for_last();
    int now = *(volatile int *)memory;
    printf("0: %s\n", now == old ? "kept" : now == NEW ? "changed" : "?");
    return 0;
}

static int disturb(const char *name, const char *way)
{
    void *memory;
    int id, self = onespace_number();
    while ((id = onespace_task(0)) < 0)
        usleep(10000);
    int result = onespace_import(id, "target", &memory, NULL, 180000);
    assert(result == 0);
    target = memory;
    printf("%d: reads %d\n", self, *target);
    fflush(stdout);
    if (strcmp(name, "registry") == 0) {
        target = registry();
        *target = *target; /* NOLINT(clang-diagnostic-self-assign) */
    } else {
        write_by(way);
    }
    printf("%d: went on\n", self);
    return 0;
}

int main(int argc, char **argv)
{
    assert(argc > 1);
    program = argv[0];
    times = argc > 3 ? atoi(argv[3]) : 1;
    if (onespace_number() == onespace_ntasks() - 1)
        return disturb(argv[1], argc > 2 ? argv[2] : "itself");
    if (onespace_number() == 0)
        return offer(kind_of(argv[1]));
    wait_for_last();
    return 0;
}
