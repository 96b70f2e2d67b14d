/* mpi_registered DIRECTORY MEMORY...: data that a network card writes into registered memory
 * arrives, although that memory was freed and allocated again since it was registered.
 *
 * A registration pins pages. Network libraries keep registrations, and drop them when a hook in
 * their own task's libc sees that the memory goes. io_uring's fixed buffers pin pages as a card
 * does; with -DUCX the cache and its hooks are UCX's. DIRECTORY is one in memory, because io_uring
 * does not pin pages of files on disk. Ends with 77 where io_uring is not permitted. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mpi/guests/mpi_check.h"

enum { TIMES = 4, LARGE = 1 << 20, SMALL = 8192 };

/* ---- The card ---- */

/* Memory that a closed ring had pinned counts against the user's limit a little longer. */
static int pin(struct io_uring *ring, void *base, size_t size)
{
    enum { TRIES = 60000 };
    struct iovec buffer = {base, size};
    if (io_uring_queue_init(4, ring, 0) != 0)
        return -1;
    for (int tries = 0; tries < TRIES; tries++, usleep(1000)) {
        int result = io_uring_register_buffers(ring, &buffer, 1);
        if (result == 0)
            return 0;
        if (result != -ENOMEM)
            break;
    }
    io_uring_queue_exit(ring);
    return -1;
}

static void write_into(struct io_uring *ring, char *to, size_t size, int value)
{
    struct io_uring_cqe *done;
    char *bytes = malloc(size);
    int fd = memfd_create("message", MFD_CLOEXEC);
    memset(bytes, value, size);
    CHECK(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
    io_uring_prep_read_fixed(io_uring_get_sqe(ring), fd, to, (unsigned)size, 0, 0);
    io_uring_submit(ring);
    CHECK(io_uring_wait_cqe(ring, &done) == 0 && done->res == (int)size);
    io_uring_cqe_seen(ring, done);
    close(fd);
    free(bytes);
}

/* ---- The cache of registrations ---- */

#ifdef UCX
#include "lib/ucx_cache.h"

struct registration {
    ucs_rcache_region_t super;
    struct io_uring ring;
};

static ucs_rcache_t *cache;

static ucs_status_t pin_region(void *context, ucs_rcache_t *of, void *argument,
                               ucs_rcache_region_t *region, uint16_t flags)
{
    (void)context, (void)of, (void)argument, (void)flags;
    struct registration *made = (struct registration *)region;
    void *base = (void *)region->super.start;
    return pin(&made->ring, base, region->super.end - region->super.start) == 0 ? UCS_OK
                                                                                : UCS_ERR_IO_ERROR;
}

static void unpin_region(void *context, ucs_rcache_t *of, ucs_rcache_region_t *region)
{
    (void)context, (void)of;
    io_uring_queue_exit(&((struct registration *)region)->ring);
}

static void open_cache(void)
{
    static ucs_rcache_ops_t operations = {.mem_reg = pin_region, .mem_dereg = unpin_region};
    cache = ucx_cache_create(sizeof(struct registration), &operations);
    CHECK(cache != NULL);
}

static void receive(char *to, size_t size, int value)
{
    ucs_rcache_region_t *region = NULL;
    CHECK(ucs_rcache_get(cache, to, size, PROT_READ | PROT_WRITE, NULL, &region) == UCS_OK);
    if (!region)
        return;
    write_into(&((struct registration *)region)->ring, to, size, value);
    ucs_rcache_region_put(cache, region);
}

static int is_registered(const char *base, size_t size)
{
    (void)base, (void)size;
    return 0; /* the cache does not say */
}

#else

enum { REGISTRATIONS = 64 };

static struct registration {
    char *base;
    size_t size; /* 0: unused */
    struct io_uring ring;
} registrations[REGISTRATIONS];

static struct registration *find(const char *base, size_t size)
{
    for (int i = 0; i < REGISTRATIONS; i++) {
        struct registration *other = &registrations[i];
        if (other->size && other->base < base + size && base < other->base + other->size)
            return other;
    }
    return NULL;
}

static int is_registered(const char *base, size_t size)
{
    return find(base, size) != NULL;
}

static void drop(const char *base, size_t size)
{
    for (struct registration *other; (other = find(base, size));) {
        other->size = 0;
        io_uring_queue_exit(&other->ring);
    }
}

/* The hooks: this program's definitions come before those of its libc. */
int munmap(void *base, size_t size)
{
    drop(base, size);
    return ((int (*)(void *, size_t))dlsym(RTLD_NEXT, "munmap"))(base, size);
}

int madvise(void *base, size_t size, int advice)
{
    if (advice == MADV_DONTNEED)
        drop(base, size);
    return ((int (*)(void *, size_t, int))dlsym(RTLD_NEXT, "madvise"))(base, size, advice);
}

void *mmap(void *base, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (flags & MAP_FIXED)
        drop(base, size);
    return ((void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap"))(
        base, size, protection, flags, fd, offset);
}

static void open_cache(void)
{
}

static void receive(char *to, size_t size, int value)
{
    struct registration *found = find(to, size), *unused = registrations;
    if (found && (to < found->base || to + size > found->base + found->size)) {
        drop(to, size);
        found = NULL;
    }
    while (!found && unused->size)
        unused++;
    if (!found) {
        found = unused;
        found->base = to;
        found->size = pin(&found->ring, to, size) == 0 ? size : 0;
        CHECK(found->size);
        if (!found->size)
            return;
    }
    write_into(&found->ring, to, size, value);
}
#endif

/* ---- The memory ---- */

struct memory {
    MPI_Win window;
    char *base; /* this rank's part */
    size_t size;
};

static void open_allocate(struct memory *memory)
{
    OK(MPI_Win_allocate((MPI_Aint)memory->size, 1, MPI_INFO_NULL, world, &memory->base,
                        &memory->window));
}

static void open_shared(struct memory *memory)
{
    OK(MPI_Win_allocate_shared((MPI_Aint)memory->size, 1, MPI_INFO_NULL, world, &memory->base,
                               &memory->window));
}

static void open_storage(struct memory *memory)
{
    MPI_Info info = hints(path_of("part", rank), NULL);
    OK(MPI_Win_allocate((MPI_Aint)memory->size, 1, info, world, &memory->base, &memory->window));
    MPI_Info_free(&info);
}

static void close_window(struct memory *memory)
{
    OK(MPI_Win_free(&memory->window));
}

static void open_alloc_mem(struct memory *memory)
{
    MPI_Info info = hints(path_of("part", rank), NULL);
    OK(MPI_Alloc_mem((MPI_Aint)memory->size, info, &memory->base));
    MPI_Info_free(&info);
}

static void close_alloc_mem(struct memory *memory)
{
    OK(MPI_Free_mem(memory->base));
}

static void open_dynamic(struct memory *memory)
{
    memory->base =
        mmap(NULL, memory->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, world, &memory->window));
    OK(MPI_Win_attach(memory->window, memory->base, (MPI_Aint)memory->size));
}

static void close_dynamic(struct memory *memory)
{
    OK(MPI_Win_detach(memory->window, memory->base));
    OK(MPI_Win_free(&memory->window));
    munmap(memory->base, memory->size);
}

/* All ranks map one file of shared memory, which has a part for each. */
static void open_segment(struct memory *memory)
{
    int fd = open(path_of("segment", -1), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    size_t all = memory->size * (size_t)ranks;
    CHECK(fd >= 0 && ftruncate(fd, (off_t)all) == 0);
    char *found = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(found != MAP_FAILED);
    memory->base = found + memory->size * (size_t)rank;
    close(fd);
}

static void close_segment(struct memory *memory)
{
    MPI_Barrier(world);
    munmap(memory->base - memory->size * (size_t)rank, memory->size * (size_t)ranks);
    unlink(path_of("segment", -1)); /* the next segment is another file */
    MPI_Barrier(world);
}

static const struct {
    const char *name;
    size_t size;
    void (*open)(struct memory *), (*close)(struct memory *);
    int reaches_others;
} memories[] = {
    {"allocate", LARGE, open_allocate, close_window, 0},
    {"allocate_shared", LARGE, open_shared, close_window, 1},
    {"small", SMALL, open_shared, close_window, 1},
    {"storage", LARGE, open_storage, close_window, 0},
    {"alloc_mem", LARGE, open_alloc_mem, close_alloc_mem, 0},
    {"dynamic", LARGE, open_dynamic, close_dynamic, 0},
    {"segment", LARGE, open_segment, close_segment, 0},
};

static void receive_and_check(char *to, size_t size, int value)
{
    size_t arrived = 0;
    receive(to, size, value);
    for (size_t i = 0; i < size; i++)
        arrived += to[i] == (char)value;
    CHECK(arrived == size);
}

static void run(int which)
{
    for (int time = 0; time < TIMES; time++) {
        struct memory memory = {.size = memories[which].size};
        memories[which].open(&memory);
        memset(memory.base, 'a' + time, memory.size);
        MPI_Barrier(world);
        receive_and_check(memory.base, memory.size, 'A' + time);
        MPI_Barrier(world);
        char *next = memories[which].reaches_others ? part_of(memory.window, next_rank) : NULL;
        if (next)
            receive_and_check(next, memory.size, 'B' + time);
        MPI_Barrier(world);
        char *base = memory.base;
        memories[which].close(&memory);
        CHECK(!is_registered(base, memories[which].size));
        CHECK(!next || !is_registered(next, memories[which].size));
    }
}

int main(int argc, char **argv)
{
    struct io_uring ring;
    int error = io_uring_queue_init(4, &ring, 0);
    if (error == -EPERM || error == -ENOSYS)
        return 77;
    io_uring_queue_exit(&ring);
    mpi_begin(&argc, &argv);
    directory = argv[1];
    open_cache();
    for (int i = 2; i < argc; i++)
        for (size_t which = 0; which < COUNT_OF(memories); which++)
            if (strcmp(argv[i], memories[which].name) == 0)
                run((int)which);
    return mpi_end();
}
