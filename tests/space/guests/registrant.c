/* tests/space/guests/registrant.c: a member that registers memory with a device and keeps the
 * registration until its hook hears that the memory goes, as libraries for RDMA do. io_uring's
 * fixed buffers pin pages as a network card does. With -DUCX the cache and its hooks are UCX's;
 * -DNO_ONESPACE makes a program for another C library, which does not use onespace's.
 * Does what its standard input says, one line each, and answers with one line: a result, and an
 * address where there is one. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef NO_ONESPACE
#include "onespace.h"
#endif

/* ---- The card ---- */

struct pinned {
    char *start; /* NULL: nothing */
    size_t size;
    int ring;
    struct io_uring_params parameters;
    char *submissions, *completions;
    struct io_uring_sqe *entries;
};

static size_t submission_bytes(const struct io_uring_params *p)
{
    return p->sq_off.array + p->sq_entries * sizeof(unsigned);
}

static size_t completion_bytes(const struct io_uring_params *p)
{
    return p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe);
}

static size_t entry_bytes(const struct io_uring_params *p)
{
    return p->sq_entries * sizeof(struct io_uring_sqe);
}

static char *map_ring(int ring, size_t size, off_t offset)
{
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, offset);
}

static int register_buffer(int ring, const struct iovec *buffer)
{
    return syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, buffer, 1) == 0 ? 0
                                                                                         : -errno;
}

static int pin(struct pinned *entry, char *start, size_t size)
{
    enum { TRIES = 60000 };
    struct io_uring_params *p = &entry->parameters;
    struct iovec buffer = {start, size};
    memset(p, 0, sizeof(*p));
    entry->ring = (int)syscall(SYS_io_uring_setup, 2, p);
    if (entry->ring < 0)
        return -errno;
    int error;
    /* Memory that a closed ring had pinned counts against the user's limit a little longer. */
    for (int tries = 0; (error = register_buffer(entry->ring, &buffer)) == -ENOMEM; tries++)
        if (tries == TRIES || usleep(1000) != 0)
            break;
    if (error) {
        close(entry->ring);
        return error;
    }
    entry->submissions = map_ring(entry->ring, submission_bytes(p), IORING_OFF_SQ_RING);
    entry->completions = map_ring(entry->ring, completion_bytes(p), IORING_OFF_CQ_RING);
    entry->entries = (struct io_uring_sqe *)map_ring(entry->ring, entry_bytes(p), IORING_OFF_SQES);
    entry->start = start;
    entry->size = size;
    return 0;
}

/* A ring that is mapped stays, and what it has pinned. Not by munmap, which calls this. */
static void unpin(struct pinned *entry)
{
    const struct io_uring_params *p = &entry->parameters;
    syscall(SYS_munmap, entry->submissions, submission_bytes(p));
    syscall(SYS_munmap, entry->completions, completion_bytes(p));
    syscall(SYS_munmap, entry->entries, entry_bytes(p));
    close(entry->ring);
    entry->start = NULL;
}

/* The card writes `size` bytes of the value into the registered memory: how many, or -errno. */
static int write_into(struct pinned *entry, int value)
{
    const struct io_uring_params *p = &entry->parameters;
    char *bytes = malloc(entry->size);
    int file = memfd_create("message", MFD_CLOEXEC);
    memset(bytes, value, entry->size);
    ssize_t written = write(file, bytes, entry->size);
    free(bytes);
    if (written != (ssize_t)entry->size)
        return -EIO;
    _Atomic unsigned *tail = (_Atomic unsigned *)(entry->submissions + p->sq_off.tail);
    unsigned at = atomic_load(tail) & (p->sq_entries - 1);
    memset(&entry->entries[at], 0, sizeof(entry->entries[at]));
    entry->entries[at].opcode = IORING_OP_READ_FIXED;
    entry->entries[at].fd = file;
    entry->entries[at].addr = (uintptr_t)entry->start;
    entry->entries[at].len = (unsigned)entry->size;
    ((unsigned *)(entry->submissions + p->sq_off.array))[at] = at;
    atomic_fetch_add(tail, 1);
    long result = syscall(SYS_io_uring_enter, entry->ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
    _Atomic unsigned *head = (_Atomic unsigned *)(entry->completions + p->cq_off.head);
    const struct io_uring_cqe *done =
        (const struct io_uring_cqe *)(entry->completions + p->cq_off.cqes) +
        (atomic_load(head) & (p->cq_entries - 1));
    result = result < 0 ? -errno : done->res;
    atomic_fetch_add(head, 1);
    close(file);
    return (int)result;
}

/* ---- The cache of registrations, and its hook ---- */

static _Atomic int heard, heard_at; /* notices so far; the TID of the last one's thread */
static _Atomic int delay_ms;        /* the hook takes so long */
static void *_Atomic unmapped_in_hook;
static size_t bytes_in_hook;

#ifdef UCX
#include "lib/ucx_cache.h"

struct region {
    ucs_rcache_region_t super;
    struct pinned pinned;
};

static ucs_status_t pin_region(void *context, ucs_rcache_t *of, void *argument,
                               ucs_rcache_region_t *region, uint16_t flags)
{
    (void)context, (void)of, (void)argument, (void)flags;
    char *start = (char *)region->super.start;
    size_t size = region->super.end - region->super.start;
    return pin(&((struct region *)region)->pinned, start, size) == 0 ? UCS_OK : UCS_ERR_IO_ERROR;
}

static void unpin_region(void *context, ucs_rcache_t *of, ucs_rcache_region_t *region)
{
    (void)context, (void)of;
    unpin(&((struct region *)region)->pinned);
    atomic_fetch_add(&heard, 1);
}

static int send_to(char *start, size_t size, int value)
{
    static ucs_rcache_t *cache;
    static ucs_rcache_ops_t operations = {.mem_reg = pin_region, .mem_dereg = unpin_region};
    ucs_rcache_region_t *region;
    if (!cache)
        cache = ucx_cache_create(sizeof(struct region), &operations);
    if (!cache)
        return -ENOMEM;
    if (ucs_rcache_get(cache, start, size, PROT_READ | PROT_WRITE, NULL, &region) != UCS_OK)
        return -EPERM;
    int result = write_into(&((struct region *)region)->pinned, value);
    ucs_rcache_region_put(cache, region);
    return result;
}

#else

enum { REGISTRATIONS = 64 };

static struct pinned registrations[REGISTRATIONS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((visibility("default"))) int munmap(void *start, size_t size);

/* Also called for the program's own memory, and by the notifier first for a page of onespace's. */
int munmap(void *start, size_t size)
{
    static _Atomic int calls;
    char *low = start, *high = low + size;
    int is_notice = gettid() != getpid() && atomic_fetch_add(&calls, 1) > 0;
    void *own = is_notice ? atomic_exchange(&unmapped_in_hook, NULL) : NULL;
    if (is_notice) {
        atomic_store(&heard_at, gettid());
        usleep((useconds_t)atomic_load(&delay_ms) * 1000);
    }
    if (own)
        syscall(SYS_munmap, own, bytes_in_hook);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < REGISTRATIONS; i++) {
        struct pinned *entry = &registrations[i];
        if (!entry->start || entry->start >= high || entry->start + entry->size <= low)
            continue;
        unpin(entry);
    }
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&heard, is_notice);
    return (int)syscall(SYS_munmap, start, size);
}

/* Registers the memory unless that was done before: the index in `registrations`, or -errno. */
static int find_or_register(char *start, size_t size)
{
    int unused = -ENOSPC;
    for (int i = 0; i < REGISTRATIONS; i++) {
        if (registrations[i].start == start && registrations[i].size == size)
            return i;
        if (!registrations[i].start)
            unused = i;
    }
    int result = unused < 0 ? unused : pin(&registrations[unused], start, size);
    return result < 0 ? result : unused;
}

static int send_to(char *start, size_t size, int value)
{
    pthread_mutex_lock(&lock);
    int index = find_or_register(start, size);
    int result = index < 0 ? index : write_into(&registrations[index], value);
    pthread_mutex_unlock(&lock);
    return result;
}
#endif

/* ---- libibverbs ---- */

/* The three ways of a registration, on a file that is no device: the kernel answers ENOTTY. */
static int register_by_verbs(const char *way, uintptr_t start, size_t size)
{
    enum { ATTRIBUTES = 2 };
    union {
        struct ib_uverbs_ioctl_hdr header;
        char bytes[sizeof(struct ib_uverbs_ioctl_hdr) + ATTRIBUTES * sizeof(struct ib_uverbs_attr)];
    } call = {.header = {.num_attrs = ATTRIBUTES, .length = sizeof(call)}};
    struct ib_uverbs_attr *attributes = call.header.attrs;
    struct ib_uverbs_reg_mr reg = {.start = start, .length = size};
    struct ib_uverbs_rereg_mr rereg = {.start = start, .length = size};
    int file = open("/dev/null", O_RDWR | O_CLOEXEC);
    call.header.object_id = UVERBS_OBJECT_DEVICE;
    call.header.method_id = UVERBS_METHOD_INVOKE_WRITE;
    attributes[0].attr_id = UVERBS_ATTR_WRITE_CMD;
    attributes[1].attr_id = UVERBS_ATTR_CORE_IN;
    if (strcmp(way, "reg_mr") == 0) {
        attributes[0].data = IB_USER_VERBS_CMD_REG_MR;
        attributes[1].data = (uintptr_t)&reg;
        attributes[1].len = sizeof(reg);
    } else if (strcmp(way, "rereg_mr") == 0) {
        attributes[0].data = IB_USER_VERBS_CMD_REREG_MR;
        attributes[1].data = (uintptr_t)&rereg;
        attributes[1].len = sizeof(rereg);
    } else if (strcmp(way, "method") == 0) {
        call.header.object_id = UVERBS_OBJECT_MR;
        call.header.method_id = 5 /* UVERBS_METHOD_REG_MR */;
        attributes[0].attr_id = 4;
        attributes[0].data = start;
        attributes[1].attr_id = 5;
        attributes[1].data = size;
    } else if (strcmp(way, "many-attributes") == 0) {
        call.header.num_attrs = UINT16_MAX;
    } else if (strcmp(way, "bad-pointer") == 0) {
        attributes[0].data = IB_USER_VERBS_CMD_REG_MR;
        attributes[1].data = 16;
        attributes[1].len = sizeof(reg);
    }
    void *argument = strcmp(way, "bad-call") == 0 ? (void *)16 : &call;
    int result = ioctl(file, RDMA_VERBS_IOCTL, argument);
    int error = errno;
    close(file);
    return result < 0 ? -error : result;
}

/* ---- Memory, and ways to unmap it ---- */

static void *memory(const char *kind, size_t size)
{
    enum { RW = PROT_READ | PROT_WRITE };
    char *start = MAP_FAILED;
    if (strcmp(kind, "mmap") == 0)
        start = mmap(NULL, size, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (strcmp(kind, "outside") == 0)
        start = mmap((void *)0x6ff000000000, size, RW,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (strcmp(kind, "break") == 0)
        start = sbrk((intptr_t)size);
    if (strcmp(kind, "segment") == 0) {
        int id = shmget(IPC_PRIVATE, size, IPC_CREAT | 0600);
        start = shmat(id, NULL, 0);
        shmctl(id, IPC_RMID, NULL);
    }
    return start == MAP_FAILED ? NULL : memset(start, 'a', size);
}

/* Ends with other pages at the same addresses, filled with b. */
static int renew(const char *way, char *start, size_t size)
{
    enum { RW = PROT_READ | PROT_WRITE, ANONYMOUS = MAP_PRIVATE | MAP_ANONYMOUS };
    void *now = start;
    if (strcmp(way, "shmdt") == 0) {
        shmdt(start);
        now = memory("segment", size); /* the first free address is that one */
    } else if (strcmp(way, "munmap") == 0 || strcmp(way, "system-call") == 0) {
        if (strcmp(way, "munmap") == 0)
            munmap(start, size);
        else
            syscall(SYS_munmap, start, size);
        now = mmap(start, size, RW, ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    } else if (strcmp(way, "mmap") == 0) {
        now = mmap(start, size, RW, ANONYMOUS | MAP_FIXED, -1, 0);
    } else if (strcmp(way, "mremap-away") == 0) {
        char *other = mmap(NULL, 2 * size, PROT_NONE, ANONYMOUS, -1, 0);
        if (mremap(start, size, 2 * size, MREMAP_MAYMOVE | MREMAP_FIXED, other) != other)
            return -errno;
        now = mmap(start, size, RW, ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    } else if (strcmp(way, "mremap-over") == 0) {
        char *other = mmap(NULL, size, RW, ANONYMOUS, -1, 0);
        memset(other, 'c', size);
        now = mremap(other, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, start);
    } else if (strcmp(way, "mremap-smaller") == 0) {
        char *rest = start + size / 2;
        if (mremap(start, size, size / 2, 0) != start ||
            mmap(rest, size / 2, RW, ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != rest)
            return -errno;
    } else if (strcmp(way, "dontneed") == 0) {
        madvise(start, size, MADV_DONTNEED);
    } else if (strcmp(way, "break") == 0) {
        sbrk(-(intptr_t)size);
        /* A small part stays mapped above a lowered break. */
        now = sbrk((intptr_t)size);
    }
    if (now != start)
        return now == MAP_FAILED ? -errno : -EADDRINUSE;
    memset(start, 'b', size);
    return 0;
}

/* A child unmaps its own copy. */
static int unmap_in_child(char *start, size_t size)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0)
        _exit((int)syscall(SYS_munmap, start, size));
    waitpid(child, &status, 0);
    return status;
}

static int count_bytes(const char *start, size_t size, int value)
{
    int count = 0;
    for (size_t i = 0; i < size; i++)
        count += start[i] == value;
    return count;
}

#ifndef NO_ONESPACE
/* Starts this program in thread mode, which reads the commands until it ends: its status. */
static int run_in_thread_mode(void)
{
    struct onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
    struct onespace_status status = {0};
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    char *words[] = {path, NULL};
    if (length < 0)
        return -errno;
    path[length] = 0;
    attr.flags = ONESPACE_SPAWN_THREAD;
    int id = onespace_spawn(path, words, NULL, &attr);
    int result = id < 0 ? id : onespace_wait(id, &status, -1);
    return result < 0 ? result : status.status;
}
#endif

/* ---- The commands ---- */

static int obey(const char *command, const char *word, char *start, size_t size, int value,
                void **address)
{
    if (strcmp(command, "memory") == 0)
        return (*address = memory(word, size)) ? 0 : -errno;
    if (strcmp(command, "send") == 0)
        return send_to(start, size, value);
    if (strcmp(command, "renew") == 0)
        return renew(word, start, size);
    if (strcmp(command, "unmap") == 0)
        return (int)syscall(SYS_munmap, start, size);
    if (strcmp(command, "unmap-in-child") == 0)
        return unmap_in_child(start, size);
    if (strcmp(command, "unmap-in-hook") == 0) {
        bytes_in_hook = size;
        atomic_store(&unmapped_in_hook, start);
        return 0;
    }
    if (strcmp(command, "count") == 0)
        return count_bytes(start, size, value);
    if (strcmp(command, "verbs") == 0)
        return register_by_verbs(word, (uintptr_t)start, size);
    if (strcmp(command, "verbs-many") == 0) { /* every second page */
        for (int i = 0; i < value; i++)
            register_by_verbs("reg_mr", (uintptr_t)start + (uintptr_t)i * 2 * size, size);
        return 0;
    }
    if (strcmp(command, "heard") == 0)
        return atomic_load(&heard);
    if (strcmp(command, "heard-at") == 0)
        return atomic_load(&heard_at);
    if (strcmp(command, "delay") == 0) {
        atomic_store(&delay_ms, value);
        return 0;
    }
    if (strcmp(command, "pthread-exit") == 0)
        pthread_exit(NULL);
    if (strcmp(command, "setgid") == 0)
        return setgid(getgid());
    if (strcmp(command, "exec-missing") == 0)
        return execl("/proc/self/missing", "missing", NULL) < 0 ? -errno : 0;
#ifndef NO_ONESPACE
    if (strcmp(command, "thread-mode") == 0)
        return run_in_thread_mode();
    if (strcmp(command, "unmapping") == 0)
        return onespace_unmapping(start, size);
    if (strcmp(command, "import") == 0) {
        void *found;
        int result = onespace_import(value, word, &found, NULL, 20000);
        *address = found;
        return result;
    }
    if (strcmp(command, "export") == 0)
        return onespace_export(word, start, size);
#endif
    return -ENOSYS;
}

int main(void)
{
    char line[256], command[32], word[32];
#ifndef NO_ONESPACE
    if (onespace_init() < 0)
        return 1;
#endif
    setvbuf(stdin, NULL, _IONBF, 0); /* the rest is for a task in thread mode */
    while (fgets(line, sizeof(line), stdin)) {
        uintptr_t start = 0;
        size_t size = 0;
        int value = 0;
        void *address = NULL;
        if (sscanf(line, "%31s %31s %" SCNxPTR " %zu %d", command, word, &start, &size, &value) < 1)
            return 2;
        int result = obey(command, word, (char *)start, size, value, &address);
        printf("%d %p\n", result, address);
        fflush(stdout);
    }
    return 0;
}
