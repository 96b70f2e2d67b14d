/* mpi_storage_delayed.h: the cases of mpi_storage.c about stores that the layer's call does not end
 * before another thread synchronises, stores that no call makes, and userfaultfd. */
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

/* A page that is not there: a thread that reads it waits until the test supplies it. */
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
    if (store->call == LATE_PUT)
        OK(MPI_Put(store->origin, 1, MPI_LONG, next_rank, rank, 1, MPI_LONG, store->window));
    else if (store->call == LATE_ACCUMULATE)
        OK(MPI_Accumulate(store->origin, 1, MPI_LONG, next_rank, rank, 1, MPI_LONG, MPI_SUM,
                          store->window));
    else if (store->call == LATE_GET_ACCUMULATE)
        OK(MPI_Get_accumulate(store->origin, 1, MPI_LONG, &before, 1, MPI_LONG, next_rank, rank, 1,
                              MPI_LONG, MPI_REPLACE, store->window));
    else
        OK(MPI_Compare_and_swap(store->origin, &zero, &before, MPI_LONG, next_rank, rank,
                                store->window));
    return NULL;
}

/* Another thread synchronises after a call has found that its target is marked as written, and
 * before the call stores: the next synchronisation covers the store. */
CASE(sync_during_a_store)
{
    const long part = 4096 * (long)sizeof(long);
    for (enum late_call call = 0; call < LATE_CALLS && ranks > 1; call++) {
        long *base, zero = 0;
        struct late_page page;
        struct late_store store = {.call = call};
        pthread_t thread;
        store.window = open_units(part, sizeof(long), hints(path_of("delayed", rank), NULL), &base);
        memset(base, 0, (size_t)part);
        MPI_Barrier(world);
        OK(MPI_Win_lock_all(0, store.window));
        if (!late_page_make(&page)) {
            printf("rank %d: no userfaultfd\n", rank);
            CHECK(0);
            return;
        }
        OK(MPI_Put(&zero, 1, MPI_LONG, next_rank, rank, 1, MPI_LONG, store.window));
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
        MPI_Barrier(world);
        CHECK(base[previous_rank] == 7);
        OK(MPI_Win_free(&store.window));
    }
}

/* The layer does not see stores through the address: the part stays marked. */
CASE(queried_part_is_synchronised)
{
    const long part = 40000;
    char *base, *path = path_of("queried", next_rank);
    MPI_Win window = open_window(part, path_of("queried", rank), NULL, &base);
    CHECK(synchronised(window) == part);
    char *other = part_of(window, next_rank);
    for (int i = 0; i < 3 && ranks > 1; i++) {
        other[5000] = (char)('a' + i);
        CHECK(synchronised(window) == 2 * part);
        CHECK(byte_at(path, 5000) == 'a' + i);
    }
    OK(MPI_Win_free(&window));
}

/* Whether another userfaultfd may watch the part: tracking and it exclude each other. */
static int may_be_watched(const char *hint)
{
    char *base, *path = path_of("watched", rank);
    MPI_Win window = open_window(40960, path, PAIRS("storage_alloc_versions=1", hint), &base);
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
    window = open_window(40960, path, PAIRS("storage_alloc_versions=1"), &base);
    CHECK(base[7] == 'w');
    OK(MPI_Win_free(&window));
    return may;
}

CASE(untracked_part_may_be_watched)
{
    CHECK(may_be_watched("storage_alloc_tracking=true") <= 0);
    CHECK(may_be_watched("storage_alloc_tracking=false") != 0);
}
