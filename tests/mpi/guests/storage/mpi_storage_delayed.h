/* mpi_storage_delayed.h: the cases of mpi_storage.c about stores that the layer's call does not end
 * before another thread synchronises, stores that no call makes, and userfaultfd. */
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

/* A page that is not there: who reads it waits until the test supplies it. */
struct late_page {
    int fault;
    long *at;
    size_t size;
};

static int late_page_make(struct late_page *page)
{
    struct uffdio_api api = {.api = UFFD_API};
    page->size = (size_t)sysconf(_SC_PAGESIZE);
    page->at = mmap(NULL, page->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {.range = {(uintptr_t)page->at, page->size},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    page->fault = (int)syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */);
    return page->fault >= 0 && ioctl(page->fault, UFFDIO_API, &api) == 0 &&
           ioctl(page->fault, UFFDIO_REGISTER, &range) == 0;
}

static void late_page_await_reader(const struct late_page *page)
{
    struct uffd_msg message;
    CHECK(read(page->fault, &message, sizeof(message)) == sizeof(message));
    CHECK(message.event == UFFD_EVENT_PAGEFAULT);
}

static void late_page_supply(const struct late_page *page)
{
    static long content[1 << 13] = {7};
    struct uffdio_copy copy = {
        .dst = (uintptr_t)page->at, .src = (uintptr_t)content, .len = page->size};
    CHECK(ioctl(page->fault, UFFDIO_COPY, &copy) == 0);
}

enum late_call { LATE_PUT, LATE_ACCUMULATE, LATE_GET_ACCUMULATE, LATE_SWAP, LATE_CALLS };

struct late_store {
    MPI_Win window;
    const long *origin;
    enum late_call call;
};

/* Stores 7 into the next rank's part, which holds 0. */
static void *store_late(void *argument)
{
    const struct late_store *store = argument;
    const long zero = 0;
    long before;
    int next = (rank + 1) % ranks;
    if (store->call == LATE_PUT)
        OK(MPI_Put(store->origin, 1, MPI_LONG, next, rank, 1, MPI_LONG, store->window));
    else if (store->call == LATE_ACCUMULATE)
        OK(MPI_Accumulate(store->origin, 1, MPI_LONG, next, rank, 1, MPI_LONG, MPI_SUM,
                          store->window));
    else if (store->call == LATE_GET_ACCUMULATE)
        OK(MPI_Get_accumulate(store->origin, 1, MPI_LONG, &before, 1, MPI_LONG, next, rank, 1,
                              MPI_LONG, MPI_REPLACE, store->window));
    else
        OK(MPI_Compare_and_swap(store->origin, &zero, &before, MPI_LONG, next, rank,
                                store->window));
    return NULL;
}

/* How many bytes MPI_Win_sync makes durable. */
static long synchronised(MPI_Win window)
{
    struct onespace_window_statistics before = {.size = sizeof(before)}, after = before;
    OK(FIND(onespace_window_statistics)(window, &before));
    OK(MPI_Win_sync(window));
    OK(FIND(onespace_window_statistics)(window, &after));
    return (long)(after.sync.bytes - before.sync.bytes);
}

/* Another thread synchronises after a call has found that its target is marked as written, and
 * before the call stores: the next synchronisation covers the store. */
static void sync_during_a_store(void)
{
    const long part = 4096 * (long)sizeof(long);
    for (enum late_call call = 0; call < LATE_CALLS && ranks > 1; call++) {
        long *base, zero = 0;
        struct late_page page;
        struct late_store store = {.call = call};
        pthread_t thread;
        MPI_Info info = hints(path_of("delayed", rank), NULL);
        OK(MPI_Win_allocate(part, sizeof(long), info, MPI_COMM_WORLD, &base, &store.window));
        MPI_Info_free(&info);
        memset(base, 0, (size_t)part);
        MPI_Barrier(MPI_COMM_WORLD);
        OK(MPI_Win_lock_all(0, store.window));
        if (!late_page_make(&page)) {
            printf("rank %d: no userfaultfd\n", rank);
            CHECK(0);
            return;
        }
        OK(MPI_Put(&zero, 1, MPI_LONG, (rank + 1) % ranks, rank, 1, MPI_LONG, store.window));
        store.origin = page.at;
        CHECK(pthread_create(&thread, NULL, store_late, &store) == 0);
        late_page_await_reader(&page);
        CHECK(synchronised(store.window) == 2 * part);
        late_page_supply(&page);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(close(page.fault) == 0 && munmap(page.at, page.size) == 0);
        CHECK(synchronised(store.window) == 2 * part);
        CHECK(synchronised(store.window) == part); /* nothing was stored into the other part */
        OK(MPI_Win_unlock_all(store.window));
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK(base[(rank + ranks - 1) % ranks] == 7);
        OK(MPI_Win_free(&store.window));
    }
}

/* What is stored through the address is noticed by nobody: the part stays marked. */
static void queried_part_is_synchronised(void)
{
    const long part = 40000;
    char *base, path[4096];
    int next = (rank + 1) % ranks;
    MPI_Win window;
    OK(allocate(part, hints(path_of("queried", rank), NULL), &base, &window));
    snprintf(path, sizeof(path), "%s", path_of("queried", next));
    CHECK(synchronised(window) == part);
    char *other = part_of(window, next);
    for (int i = 0; i < 3 && ranks > 1; i++) {
        other[5000] = (char)('a' + i);
        CHECK(synchronised(window) == 2 * part);
        CHECK(byte_at(path, 5000) == (unsigned char)('a' + i));
    }
    OK(MPI_Win_free(&window));
}

/* Whether another userfaultfd may watch the part: tracking and it exclude each other. */
static int may_be_watched(const char *hint)
{
    char *base;
    MPI_Win window;
    OK(allocate(40960, hints(path_of("watched", rank), PAIRS("storage_alloc_versions=1", hint)),
                &base, &window));
    struct uffdio_api api = {.api = UFFD_API, .features = 1u << 15 | 1u << 13};
    struct uffdio_register range = {.range = {(uintptr_t)base, 40960},
                                    .mode = UFFDIO_REGISTER_MODE_WP};
    int fault = (int)syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */), may = -1;
    if (fault >= 0 && ioctl(fault, UFFDIO_API, &api) == 0) /* not before Linux 6.7 */
        may = ioctl(fault, UFFDIO_REGISTER, &range) == 0;
    base[7] = 'w';
    OK(FIND(onespace_window_commit)(window, NULL));
    close(fault);
    OK(MPI_Win_free(&window));
    OK(allocate(40960, hints(path_of("watched", rank), PAIRS("storage_alloc_versions=1")), &base,
                &window));
    CHECK(base[7] == 'w');
    OK(MPI_Win_free(&window));
    return may;
}

static void untracked_part_may_be_watched(void)
{
    CHECK(may_be_watched("storage_alloc_tracking=true") <= 0);
    CHECK(may_be_watched("storage_alloc_tracking=false") != 0);
}

#define DELAYED_CASES                                                                              \
    CASE(sync_during_a_store), CASE(queried_part_is_synchronised),                                 \
        CASE(untracked_part_may_be_watched),
