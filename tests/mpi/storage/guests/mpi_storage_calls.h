/* mpi_storage_calls.h: the cases of mpi_storage.c about MPI's calls on windows on storage, combined
 * and shared windows, the calls of onespace/window.h, and threads. */

CASE(puts_and_gets)
{
    long *base, value, one = 1, sum = -1;
    MPI_Win window = open_units(8 * 4096, 8, hints(path_of("rma", rank), NULL), &base);
    OK(MPI_Win_fence(0, window));
    for (long i = 0; i < 4096; i += 511) {
        value = rank * 100000 + i;
        OK(MPI_Put(&value, 1, MPI_LONG, next_rank, i, 1, MPI_LONG, window));
        OK(MPI_Win_fence(0, window));
    }
    for (long i = 0; i < 4096; i += 511)
        CHECK(base[i] == previous_rank * 100000 + i);
    OK(MPI_Win_fence(0, window));
    OK(MPI_Win_lock_all(0, window));
    OK(MPI_Get(&value, 1, MPI_LONG, next_rank, 511, 1, MPI_LONG, window));
    OK(MPI_Win_flush(next_rank, window));
    CHECK(value == rank * 100000 + 511);
    for (int i = 0; i < 500; i++)
        OK(MPI_Fetch_and_op(&one, &sum, MPI_LONG, 0, 1, MPI_SUM, window));
    OK(MPI_Win_unlock_all(window));
    MPI_Barrier(world);
    CHECK(rank || base[1] == ranks * 500);
    OK(MPI_Win_free(&window));
}

/* From each rank to each rank, each at its place, then back; MPI_Win_sync alone makes all of it
 * durable. */
static void exchange_much(const char *const *pairs)
{
    enum { SIZE = (3 << 20) + 777, BEGIN = 300 };
    char *base, *data = malloc(SIZE), *back = malloc(SIZE), *path = path_of("much", next_rank);
    MPI_Win window =
        open_window(BEGIN + (MPI_Aint)ranks * SIZE, path_of("much", rank), pairs, &base);
    MPI_Aint own = BEGIN + (MPI_Aint)rank * SIZE;
    fill(data, SIZE, rank);
    OK(MPI_Win_lock_all(0, window));
    for (int to = 0; to < ranks; to++)
        OK(MPI_Put(data, SIZE, MPI_CHAR, to, own, SIZE, MPI_CHAR, window));
    OK(MPI_Win_flush_all(window));
    OK(MPI_Win_sync(window));
    MPI_Barrier(world);
    OK(MPI_Win_sync(window));
    for (int from = 0; from < ranks; from++) {
        CHECK(is_filled(base + BEGIN + (size_t)from * SIZE, SIZE, from));
        OK(MPI_Get(back, SIZE, MPI_CHAR, from, own, SIZE, MPI_CHAR, window));
        OK(MPI_Win_flush(from, window));
        CHECK(memcmp(back, data, SIZE) == 0);
    }
    MPI_Barrier(world);
    OK(MPI_Win_unlock_all(window));
    OK(MPI_Win_free(&window));
    int file = open(path, O_RDONLY);
    CHECK(pread(file, back, SIZE, file_size(path) - (off_t)(ranks - rank) * SIZE) == SIZE);
    CHECK(memcmp(back, data, SIZE) == 0);
    close(file);
    MPI_Barrier(world);
    unlink(path);
    free(data);
    free(back);
}

CASE(large_puts_and_gets)
{
    exchange_much(NULL);
    exchange_much(PAIRS("access_style=sequential"));
    exchange_much(PAIRS("access_style=read_once,write_once"));
    exchange_much(PAIRS("storage_alloc_versions=2"));
}

/* MPI_Win_sync covers what this rank put into other ranks' files. */
CASE(sync_covers_puts)
{
    char *base, letter = (char)('a' + rank);
    MPI_Win window = open_window(9000, path_of("puts", rank), NULL, &base);
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next_rank, 0, window));
    put_char(letter, next_rank, 5000, window);
    OK(MPI_Win_sync(window));
    CHECK(byte_at(path_of("puts", next_rank), 5000) == letter);
    OK(MPI_Win_unlock(next_rank, window));
    OK(MPI_Win_free(&window));
}

CASE(attributes)
{
    char *base;
    MPI_Win window = open_window(777, path_of("attributes", rank), NULL, &base);
    attribute(window, MPI_WIN_BASE, (long)base);
    attribute(window, MPI_WIN_SIZE, 777);
    attribute(window, MPI_WIN_DISP_UNIT, 1);
    attribute(window, MPI_WIN_CREATE_FLAVOR, MPI_WIN_FLAVOR_ALLOCATE);
    attribute(window, MPI_WIN_MODEL, MPI_WIN_UNIFIED);
    OK(MPI_Win_free(&window));
}

/* ---- Combined windows ---- */

static void use_combined(const char *order, int is_storage_first)
{
    enum { SIZE = 50000 };
    char pair[64], *path = path_of(order, rank), *base, *got = malloc(SIZE), *put = malloc(SIZE);
    snprintf(pair, sizeof(pair), "storage_alloc_order=%s", order);
    MPI_Win window = open_window(SIZE, path, PAIRS("storage_alloc_factor=0.4", pair), &base);
    CHECK(file_size(path) >= 20000 && file_size(path) < 20000 + sysconf(_SC_PAGESIZE));
    fill(put, SIZE, rank);
    OK(MPI_Win_fence(0, window));
    OK(MPI_Put(put, SIZE, MPI_CHAR, next_rank, 0, SIZE, MPI_CHAR, window));
    OK(MPI_Win_fence(0, window));
    CHECK(is_filled(base, SIZE, previous_rank));
    OK(MPI_Get(got, SIZE, MPI_CHAR, next_rank, 0, SIZE, MPI_CHAR, window));
    OK(MPI_Win_fence(0, window));
    CHECK(memcmp(got, put, SIZE) == 0);
    OK(MPI_Win_sync(window));
    long stored = file_size(path), begin = is_storage_first ? 0 : SIZE - stored;
    CHECK(byte_at(path, stored - 1) == base[begin + stored - 1]);
    CHECK(byte_at(path, 0) == base[begin]);
    OK(MPI_Win_free(&window));
    free(got);
    free(put);
}

CASE(combined)
{
    use_combined("memory_first", 0);
    use_combined("storage_first", 1);
}

CASE(auto_factor_of_what_fits_is_memory)
{
    char *base, *path = path_of("auto", rank);
    MPI_Win window = open_window(100000, path, PAIRS("storage_alloc_factor=auto"), &base);
    info_is(window, "storage_alloc_factor", "0");
    memset(base, 7, 100000);
    CHECK(file_size(path) < 0);
    OK(MPI_Win_free(&window));
}

/* ---- Shared windows ---- */

CASE(shared_contiguous)
{
    char *base, *path = path_of("contiguous", -1);
    MPI_Win window;
    long before = 0;
    MPI_Info info = hints(path, PAIRS("storage_alloc_offset=100"));
    OK(MPI_Win_allocate_shared(3000 + rank, 1, info, world, &base, &window));
    attribute(window, MPI_WIN_CREATE_FLAVOR, MPI_WIN_FLAVOR_SHARED);
    CHECK(part_of(window, rank) == base);
    for (int i = 0; i < ranks; i++) {
        CHECK(part_of(window, i) == part_of(window, 0) + before);
        before += 3000 + i;
    }
    CHECK(file_size(path) == 100 + before);
    part_of(window, next_rank)[1500] = (char)('A' + rank);
    OK(MPI_Win_sync(window));
    MPI_Barrier(world);
    CHECK(base[1500] == 'A' + previous_rank);
    CHECK(byte_at(path, 100 + (base - part_of(window, 0)) + 1500) == base[1500]);
    OK(MPI_Win_free(&window));
    MPI_Info_set(info, "storage_alloc_filename", path_of("several", rank));
    if (ranks > 1)
        CHECK(MPI_Win_allocate_shared(3000, 1, info, world, &base, &window) != MPI_SUCCESS);
    MPI_Info_set(info, "alloc_shared_noncontig", "true");
    OK(MPI_Win_allocate_shared(3000, 1, info, world, &base, &window));
    part_of(window, next_rank)[2999] = (char)('a' + rank);
    OK(MPI_Win_sync(window));
    MPI_Barrier(world);
    CHECK(byte_at(path_of("several", rank), 3099) == 'a' + previous_rank);
    OK(MPI_Win_free(&window));
    MPI_Info_free(&info);
}

/* Rank 0 gives all the memory. */
CASE(shared_of_one_rank)
{
    long *base;
    MPI_Win window;
    MPI_Info info = hints(path_of("ofone", -1), NULL);
    OK(allocate_shared(rank ? 0 : 8L * ranks, 8, info, &base, &window));
    long *all = (long *)part_of(window, MPI_PROC_NULL);
    CHECK(all == (long *)part_of(window, 0));
    all[rank] = rank + 5;
    MPI_Barrier(world);
    for (int i = 0; i < ranks; i++)
        CHECK(all[i] == i + 5);
    OK(MPI_Win_free(&window));
}

/* ---- onespace/window.h ---- */

CASE(sync_calls)
{
    enum { SIZE = 1 << 20 };
    char *base, *path = path_of("calls", rank);
    int flag = 0;
    struct onespace_window_request *request = NULL, *second = NULL;
    MPI_Win window = open_window(SIZE, path, NULL, &base);
    memset(base, 1, SIZE);
    OK(FIND(onespace_window_sync_range)(window, 5, 100000));
    OK(FIND(onespace_window_sync_all)(window));
    base[70000] = 9;
    OK(FIND(onespace_window_sync_start)(window, 65536, 65536, &request));
    OK(FIND(onespace_window_sync_start)(window, 0, 65536, &second));
    OK(FIND(onespace_window_wait)(&request));
    CHECK(!request);
    while (!flag)
        OK(FIND(onespace_window_test)(&second, &flag));
    CHECK(!second && byte_at(path, 70000) == 9);
    OK(MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN));
    CHECK(FIND(onespace_window_sync_range)(window, 5, SIZE) != MPI_SUCCESS);
    OK(MPI_Win_sync(window));
    struct onespace_window_statistics statistics = statistics_of(window);
    CHECK(statistics.sync.calls == 2 && statistics.sync_range.calls == 1);
    CHECK(statistics.sync_start.calls == 2 && statistics.sync_start.bytes == 131072);
    CHECK(statistics.storage_bytes == SIZE && statistics.sync.failures == 0);
    CHECK(statistics.is_intra_node == 1);
    OK(FIND(onespace_window_sync_start)(window, 0, 4096, &request)); /* left to MPI_Win_free */
    OK(MPI_Win_free(&window));
}

/* After main() made it so. */
CASE(parts_are_out_of_reach)
{
    char *base;
    MPI_Win window = open_window(5000, path_of("inter-node", rank), NULL, &base);
    CHECK(statistics_of(window).is_intra_node == 0);
    OK(MPI_Win_sync(window)); /* outside of any epoch, which MPICH's own refuses */
    OK(FIND(onespace_window_sync_all)(window));
    OK(MPI_Win_free(&window));
    CHECK(class_of(allocate_shared(5000, 1, hints(path_of("farshared", -1), NULL), &base,
                                   &window)) == MPI_ERR_RMA_SHARED);
    CHECK(file_size(path_of("farshared", -1)) < 0);
}

/* ---- Threads ---- */

static void *use_windows(void *argument)
{
    MPI_Comm comm = *(MPI_Comm *)argument;
    char name[64], *base;
    snprintf(name, sizeof(name), "thread%lx-", (unsigned long)(uintptr_t)argument & 0xfff);
    for (int round = 0; round < 5; round++) {
        MPI_Win window;
        MPI_Info info = hints(path_of(name, rank), NULL);
        OK(MPI_Win_allocate(20000, 1, info, comm, &base, &window));
        MPI_Info_free(&info);
        OK(MPI_Win_lock_all(0, window));
        put_char((char)(rank + 1), next_rank, round, window);
        OK(MPI_Win_sync(window));
        OK(MPI_Win_unlock_all(window));
        MPI_Barrier(comm);
        CHECK(base[round] == previous_rank + 1);
        OK(MPI_Win_free(&window));
    }
    return NULL;
}

CASE(threads)
{
    run_threads(use_windows);
}
