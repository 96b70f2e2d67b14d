/* mpi_storage_mixed.h: the cases of mpi_storage.c about windows whose ranks ask for different kinds
 * of memory. */

enum kind {
    OWN_FILE,
    PLAIN, /* MPI_INFO_NULL */
    SHARED_FILE,
    MEMORY, /* alloc_type=memory */
    MEMORY_FIRST,
    EMPTY_FILE,
    STORAGE_FIRST,
    EMPTY_MEMORY,
    KINDS
};
enum { LONGS = 2500, SHARED_BEGIN = 16, SHARED_STRIDE = 8 * LONGS + 16, AREAS = 2, CELLS = 4 };
static const int areas[AREAS] = {0, 2200}; /* of a combined part: in memory, and on storage */
static int kinds_shift, kinds_step;

static enum kind kind_of(int owner)
{
    return (enum kind)((kinds_shift + owner * kinds_step) % KINDS);
}

static int is_on_storage(enum kind kind)
{
    return kind != PLAIN && kind != MEMORY && kind != EMPTY_MEMORY;
}

static int is_empty(enum kind kind)
{
    return kind == EMPTY_FILE || kind == EMPTY_MEMORY;
}

static const char *kind_path(int owner)
{
    return kind_of(owner) == SHARED_FILE ? path_of("kinds", -1) : path_of("kind", owner);
}

static MPI_Info info_of_kind(void)
{
    char offset[64];
    const char *path = kind_path(rank), *unlinked = "storage_alloc_unlink=true";
    snprintf(offset, sizeof(offset), "storage_alloc_offset=%d",
             SHARED_BEGIN + rank * SHARED_STRIDE);
    switch (kind_of(rank)) {
    case PLAIN:
    case EMPTY_MEMORY:
        return MPI_INFO_NULL;
    case MEMORY:
        return info_of(PAIRS("alloc_type=memory"));
    case SHARED_FILE:
        return hints(path, PAIRS(unlinked, offset));
    case MEMORY_FIRST:
        return hints(path, PAIRS(unlinked, "storage_alloc_factor=0.5"));
    case STORAGE_FIRST:
        return hints(
            path, PAIRS(unlinked, "storage_alloc_factor=0.5", "storage_alloc_order=storage_first"));
    default:
        return hints(path, PAIRS(unlinked));
    }
}

static int unit_of(int owner)
{
    return owner % 2 ? 4 : 8;
}

/* The place in the file of a long of a rank's part; -1: it is in memory. */
static long place_of(int owner, int index)
{
    long at = 8L * index, stored = file_size(kind_path(owner));
    switch (kind_of(owner)) {
    case OWN_FILE:
        return at;
    case SHARED_FILE:
        return SHARED_BEGIN + (long)owner * SHARED_STRIDE + at;
    case MEMORY_FIRST:
        return at >= 8L * LONGS - stored ? at - (8L * LONGS - stored) : -1;
    case STORAGE_FIRST:
        return at + 8 <= stored ? at : -1;
    default:
        return -1;
    }
}

static void check_stored(int owner, int index, long expected)
{
    long found = ~expected, at = is_empty(kind_of(owner)) ? -1 : place_of(owner, index);
    if (at < 0)
        return;
    int fd = open(kind_path(owner), O_RDONLY);
    CHECK(fd >= 0 && pread(fd, &found, sizeof(found), at) == sizeof(found));
    CHECK(found == expected);
    close(fd);
}

static int first_cell(int area, int round, int origin)
{
    return areas[area] + (round * ranks + origin) * CELLS;
}

static int sum_of_all(int area, int round)
{
    return areas[area] + 4 * 8 * CELLS + round;
}

static long value_for(int origin, int to, int area, int round)
{
    return 1000 + origin * 64 + to * 8 + area * 4 + round;
}

/* All calls of a passive epoch, to one rank. */
static void exchange_passively(MPI_Win window, int to, int area, int round)
{
    int scale = 8 / unit_of(to), cell = first_cell(area, round, rank);
    long value = value_for(rank, to, area, round), next = value + 1, one = 1, none = 0, got[4];
    MPI_Request request;
#define AT(i) to, (MPI_Aint)scale *(i)
    OK(MPI_Put(&value, 1, MPI_LONG, AT(cell), 1, MPI_LONG, window));
    OK(MPI_Rput(&next, 1, MPI_LONG, AT(cell + 1), 1, MPI_LONG, window, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Accumulate(&value, 1, MPI_LONG, AT(cell + 2), 1, MPI_LONG, MPI_SUM, window));
    OK(MPI_Fetch_and_op(&one, &got[0], MPI_LONG, AT(cell + 2), MPI_SUM, window));
    OK(MPI_Compare_and_swap(&value, &none, &got[1], MPI_LONG, AT(cell + 3), window));
    OK(MPI_Raccumulate(&one, 1, MPI_LONG, AT(sum_of_all(area, round)), 1, MPI_LONG, MPI_SUM, window,
                       &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Win_flush(to, window));
    CHECK(got[0] == value && got[1] == 0);
    OK(MPI_Get(&got[0], 1, MPI_LONG, AT(cell), 1, MPI_LONG, window));
    OK(MPI_Rget(&got[1], 1, MPI_LONG, AT(cell + 1), 1, MPI_LONG, window, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Get_accumulate(&one, 1, MPI_LONG, &got[2], 1, MPI_LONG, AT(cell + 2), 1, MPI_LONG,
                          MPI_NO_OP, window));
    OK(MPI_Rget_accumulate(&one, 1, MPI_LONG, &got[3], 1, MPI_LONG, AT(cell + 3), 1, MPI_LONG,
                           MPI_NO_OP, window, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Win_flush(to, window));
    CHECK(got[0] == value && got[1] == next && got[2] == next && got[3] == value);
}

/* The same outcome by the calls of an active epoch. */
static void exchange_actively(MPI_Win window, int to, int area, int round)
{
    static long value[64][AREAS], next[64][AREAS];
    static const long one = 1;
    long *first = &value[to][area], *second = &next[to][area];
    int scale = 8 / unit_of(to), cell = first_cell(area, round, rank);
    *first = value_for(rank, to, area, round);
    *second = *first + 1;
    OK(MPI_Put(first, 1, MPI_LONG, AT(cell), 1, MPI_LONG, window));
    OK(MPI_Put(second, 1, MPI_LONG, AT(cell + 1), 1, MPI_LONG, window));
    OK(MPI_Accumulate(second, 1, MPI_LONG, AT(cell + 2), 1, MPI_LONG, MPI_SUM, window));
    OK(MPI_Accumulate(first, 1, MPI_LONG, AT(cell + 3), 1, MPI_LONG, MPI_REPLACE, window));
    OK(MPI_Accumulate(&one, 1, MPI_LONG, AT(sum_of_all(area, round)), 1, MPI_LONG, MPI_SUM,
                      window));
#undef AT
}

/* Checks the values that all ranks have sent to this rank. */
static void check_arrived(const long *base, int round)
{
    for (int area = 0; area < AREAS && !is_empty(kind_of(rank)); area++) {
        for (int from = 0; from < ranks; from++) {
            const long *cell = base + first_cell(area, round, from);
            long value = value_for(from, rank, area, round);
            CHECK(cell[0] == value && cell[1] == value + 1);
            CHECK(cell[2] == value + 1 && cell[3] == value);
        }
        CHECK(base[sum_of_all(area, round)] == ranks);
    }
}

static void check_stored_by_all(int to, int round)
{
    for (int area = 0; area < AREAS; area++)
        for (int from = 0; from < ranks; from++)
            check_stored(to, first_cell(area, round, from), value_for(from, to, area, round));
}

static void to_all(MPI_Win window, int round, void (*exchange)(MPI_Win, int, int, int))
{
    for (int to = 0; to < ranks; to++)
        for (int area = 0; area < AREAS && !is_empty(kind_of(to)); area++)
            exchange(window, to, area, round);
}

/* Puts, then MPI_Win_sync at the origin: of this node's parts. */
static void sync_follows_puts(MPI_Win window, const long *base, int round)
{
    int on_node = ranks_of_node();
    OK(MPI_Win_lock_all(0, window));
    to_all(window, round, exchange_passively);
    OK(MPI_Win_sync(window));
    OK(MPI_Win_unlock_all(window));
    for (int to = 0; to < ranks; to++)
        for (int area = 0; area < AREAS && to / on_node == rank / on_node; area++)
            check_stored(to, first_cell(area, round, rank), value_for(rank, to, area, round));
    MPI_Barrier(world);
    OK(MPI_Win_sync(window));
    check_arrived(base, round);
}

/* MPI_Win_sync before there is anything, and at the target. */
static void sync_is_the_targets(MPI_Win window, const long *base, int round)
{
    OK(MPI_Win_sync(window));
    OK(MPI_Win_fence(0, window));
    to_all(window, round, exchange_actively);
    OK(MPI_Win_fence(0, window));
    OK(MPI_Win_sync(window));
    check_arrived(base, round);
    check_stored_by_all(rank, round);
}

/* Listing 4: an exclusive lock around puts and MPI_Win_sync, rank by rank. */
static void sync_is_locked(MPI_Win window, const long *base, int round)
{
    for (int i = 0; i < ranks; i++) {
        int to = (rank + i) % ranks;
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, window));
        for (int area = 0; area < AREAS && !is_empty(kind_of(to)); area++)
            exchange_passively(window, to, area, round);
        OK(MPI_Win_sync(window));
        OK(MPI_Win_unlock(to, window));
    }
    MPI_Barrier(world);
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window));
    OK(MPI_Win_sync(window));
    check_arrived(base, round);
    check_stored_by_all(rank, round);
    OK(MPI_Win_unlock(rank, window));
}

/* One call makes all files durable, wherever they are. */
static void sync_is_collective(MPI_Win window, const long *base, int round)
{
    MPI_Group group;
    OK(MPI_Win_get_group(window, &group));
    OK(MPI_Win_post(group, 0, window));
    OK(MPI_Win_start(group, 0, window));
    to_all(window, round, exchange_actively);
    OK(MPI_Win_complete(window));
    OK(MPI_Win_wait(window));
    MPI_Group_free(&group);
    OK(FIND(onespace_window_sync_all)(window));
    check_arrived(base, round);
    for (int to = 0; to < ranks; to++)
        check_stored_by_all(to, round);
}

/* Once with the kinds as they are. */
static void exchange_kinds(void)
{
    long *base;
    MPI_Aint size = is_empty(kind_of(rank)) ? 0 : 8L * LONGS;
    MPI_Win window = open_units(size, unit_of(rank), info_of_kind(), &base);
    attribute(window, MPI_WIN_CREATE_FLAVOR, MPI_WIN_FLAVOR_ALLOCATE);
    attribute(window, MPI_WIN_BASE, (long)base);
    attribute(window, MPI_WIN_SIZE, size);
    attribute(window, MPI_WIN_DISP_UNIT, unit_of(rank));
    info_is(window, "alloc_type", is_on_storage(kind_of(rank)) ? "storage" : "memory");
    sync_follows_puts(window, base, 0);
    sync_is_the_targets(window, base, 1);
    sync_is_locked(window, base, 2);
    sync_is_collective(window, base, 3);
    OK(MPI_Win_free(&window));
    MPI_Barrier(world);
    CHECK(file_size(kind_path(rank)) < 0);
}

/* Every pair of kinds is a pair of neighbours, in both orders. */
CASE(kinds_mix)
{
    for (kinds_step = 1; kinds_step <= KINDS / 2; kinds_step++)
        for (kinds_shift = 0; kinds_shift < KINDS; kinds_shift++) {
            int is_any = 0;
            for (int i = 0; i < ranks; i++)
                is_any |= is_on_storage(kind_of(i));
            if (is_any)
                exchange_kinds();
        }
}

/* Between nodes windows cost more. */
CASE(some_kinds_mix)
{
    kinds_step = 1;
    for (kinds_shift = 0; kinds_shift < KINDS; kinds_shift += 3)
        exchange_kinds();
}

/* ---- Few ranks on storage ---- */

/* Rank `owner` on storage, the others in memory. */
static MPI_Info info_of_one(int owner, const char *path, const char *const *pairs)
{
    return rank == owner ? hints(path, pairs) : MPI_INFO_NULL;
}

/* More than a put by stores, to and from each kind. */
CASE(large_puts_between_kinds)
{
    enum { SIZE = (3 << 20) + 777 };
    char *data = malloc(SIZE), *back = malloc(SIZE);
    for (int owner = 0; owner < ranks; owner++) {
        char *base;
        const char *path = path_of("largest", owner);
        MPI_Win window = open_units(
            SIZE, 1, info_of_one(owner, path, PAIRS("access_style=sequential,write_once")), &base);
        fill(data, SIZE, rank + owner);
        OK(MPI_Win_fence(0, window));
        OK(MPI_Put(data, SIZE, MPI_CHAR, next_rank, 0, SIZE, MPI_CHAR, window));
        OK(MPI_Win_fence(0, window));
        CHECK(is_filled(base, SIZE, previous_rank + owner));
        OK(MPI_Get(back, SIZE, MPI_CHAR, next_rank, 0, SIZE, MPI_CHAR, window));
        OK(MPI_Win_fence(0, window));
        CHECK(memcmp(back, data, SIZE) == 0);
        OK(MPI_Win_sync(window));
        OK(MPI_Win_free(&window));
        MPI_Barrier(world);
        CHECK(file_size(path) == SIZE);
        CHECK(byte_at(path, SIZE - 1) == fill_of((owner + ranks - 1) % ranks + owner, SIZE - 1));
        MPI_Barrier(world);
        if (rank == owner)
            CHECK(unlink(path) == 0);
    }
    free(data);
    free(back);
}

/* Nearly all memory is rank 0's, which does not touch it: more than nine tenths of all that the
 * machine has, since what is available may become more meanwhile. */
CASE(auto_leaves_others_their_memory)
{
    char *base, line[256];
    long kilobytes = 0;
    MPI_Win window;
    FILE *file = fopen("/proc/meminfo", "r");
    while (kilobytes == 0 && fgets(line, sizeof(line), file))
        sscanf(line, "MemTotal: %ld", &kilobytes);
    fclose(file);
    CHECK(kilobytes > 0);
    if (ranks < 2)
        return;
    int last = ranks - 1;
    MPI_Info info = info_of_one(last, path_of("automatic", last),
                                PAIRS("storage_alloc_factor=auto", "storage_alloc_unlink=true"));
    MPI_Aint size = rank == 0 ? kilobytes / 100 * 91 * 1024 : rank == last ? 2 << 20 : 0;
    OK(allocate(size, info, &base, &window));
    if (rank == last)
        info_is(window, "storage_alloc_factor", "1");
    OK(MPI_Win_free(&window));
}

/* The first and the last rank have the same bytes of a file; what is between is in memory. */
CASE(same_bytes_beside_memory)
{
    int *base, one = 1, last = ranks - 1, is_end = rank == 0 || rank == last;
    MPI_Win window;
    MPI_Info info =
        is_end ? hints(path_of("ends", -1), PAIRS("storage_alloc_unlink=true")) : MPI_INFO_NULL;
    OK(allocate(sizeof(int), info, &base, &window));
    for (int i = 0; i < 1000; i++) {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, i % ranks, 0, window));
        OK(MPI_Accumulate(&one, 1, MPI_INT, i % ranks, 0, 1, MPI_INT, MPI_SUM, window));
        OK(MPI_Win_unlock(i % ranks, window));
    }
    MPI_Barrier(world);
    int expected = 0;
    for (int i = 0; i < 1000; i++)
        expected += i % ranks == rank || (is_end && (i % ranks == 0 || i % ranks == last));
    CHECK(base[0] == ranks * expected);
    OK(MPI_Win_free(&window));
}

/* ---- Shared windows ---- */

/* Each rank has its own kind; all load from and store to all. */
CASE(shared_window_of_kinds)
{
    for (kinds_shift = 0, kinds_step = 1; kinds_shift < KINDS; kinds_shift++) {
        char *base;
        MPI_Win window;
        MPI_Info info = info_of_kind();
        if (info == MPI_INFO_NULL)
            MPI_Info_create(&info);
        MPI_Info_set(info, "alloc_shared_noncontig", "true");
        OK(allocate_shared(is_empty(kind_of(rank)) ? 0 : 8 * LONGS, 1, info, &base, &window));
        attribute(window, MPI_WIN_CREATE_FLAVOR, MPI_WIN_FLAVOR_SHARED);
        for (int to = 0; to < ranks; to++)
            if (!is_empty(kind_of(to)))
                for (int area = 0; area < AREAS; area++)
                    ((long *)part_of(window, to))[areas[area] + rank] =
                        value_for(rank, to, area, 0);
        OK(MPI_Win_sync(window));
        for (int to = 0; to < ranks; to++)
            for (int area = 0; area < AREAS; area++)
                check_stored(to, areas[area] + rank, value_for(rank, to, area, 0));
        MPI_Barrier(world);
        for (int from = 0; from < ranks && !is_empty(kind_of(rank)); from++)
            for (int area = 0; area < AREAS; area++)
                CHECK(((long *)base)[areas[area] + from] == value_for(from, rank, area, 0));
        OK(MPI_Win_free(&window));
    }
}

/* A contiguous window whose bytes are all of one rank, on storage; the others give no hints. */
CASE(shared_on_storage_of_one_rank)
{
    for (int owner = 0; owner < ranks; owner++) {
        char *base;
        MPI_Win window;
        const char *path = path_of("given", owner);
        MPI_Info info = info_of_one(owner, path, PAIRS("storage_alloc_offset=77"));
        OK(allocate_shared(rank == owner ? 200000 : 0, 1, info, &base, &window));
        char *all = part_of(window, MPI_PROC_NULL), *put = malloc(100000);
        CHECK(all == part_of(window, owner) && (rank != owner || base == all));
        all[rank] = (char)('a' + rank);
        memset(put, 'P', 100000);
        MPI_Barrier(world);
        for (int i = 0; i < ranks; i++)
            CHECK(all[i] == 'a' + i);
        OK(MPI_Win_lock_all(0, window));
        if (rank == (owner + 1) % ranks)
            OK(MPI_Put(put, 100000, MPI_CHAR, owner, 1000, 100000, MPI_CHAR, window));
        OK(MPI_Win_unlock_all(window));
        OK(MPI_Win_sync(window));
        MPI_Barrier(world);
        CHECK(all[100999] == 'P' && byte_at(path, 77 + 100999) == 'P');
        CHECK(byte_at(path, 77 + rank) == 'a' + rank && file_size(path) == 77 + 200000);
        info_is(window, "alloc_type", rank == owner ? "storage" : "memory");
        OK(MPI_Win_free(&window));
        MPI_Barrier(world);
        CHECK(rank != owner || unlink(path) == 0);
        free(put);
    }
}

/* Memory cannot follow in the file, whichever rank it is of. */
CASE(memory_in_a_contiguous_window_is_refused)
{
    for (int owner = 0; owner < ranks && ranks > 1; owner++) {
        char *base;
        MPI_Win window;
        const char *path = path_of("onlyone", owner);
        MPI_Info info = info_of_one(owner, path, NULL);
        CHECK(class_of(allocate_shared(5000, 1, info, &base, &window)) == MPI_ERR_INFO_VALUE);
        info = info_of_one(owner, path, PAIRS("alloc_shared_noncontig=true")); /* not by all */
        CHECK(class_of(allocate_shared(5000, 1, info, &base, &window)) == MPI_ERR_INFO_VALUE);
        MPI_Barrier(world);
        CHECK(file_size(path) < 0);
    }
}

/* ---- Dynamic windows ---- */

/* Odd ranks attach a file twice, at an unaligned offset, and memory; even ones memory twice. */
CASE(dynamic_window_of_kinds)
{
    enum { SIZE = 5001, BLOCKS = 3 };
    char *block[BLOCKS], letter = (char)('a' + rank);
    MPI_Aint own[BLOCKS], all[64][BLOCKS];
    MPI_Win window;
    const char *path = path_of("dynamic", rank);
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, world, &window));
    for (int i = 0; i < BLOCKS; i++) {
        char offset[64];
        snprintf(offset, sizeof(offset), "storage_alloc_offset=%d", i * SIZE);
        MPI_Info info = rank % 2 && i < 2 ? hints(path, PAIRS(offset)) : MPI_INFO_NULL;
        OK(MPI_Alloc_mem(SIZE, info, &block[i]));
        info_free(info);
        OK(MPI_Win_attach(window, block[i], SIZE));
        MPI_Get_address(block[i], &own[i]);
    }
    MPI_Allgather(own, BLOCKS, MPI_AINT, all, BLOCKS, MPI_AINT, world);
    for (int to = 0; to < ranks; to++) {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, to, 0, window));
        for (int i = 0; i < BLOCKS; i++)
            OK(MPI_Put(&letter, 1, MPI_CHAR, to, all[to][i] + SIZE - 1 - rank, 1, MPI_CHAR,
                       window));
        OK(MPI_Win_unlock(to, window));
    }
    MPI_Barrier(world);
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window));
    OK(MPI_Win_sync(window));
    OK(MPI_Win_unlock(rank, window));
    for (int from = 0; from < ranks; from++)
        for (int i = 0; i < BLOCKS; i++) {
            CHECK(block[i][SIZE - 1 - from] == 'a' + from);
            if (rank % 2 && i < 2)
                CHECK(byte_at(path, (i + 1) * SIZE - 1 - from) == 'a' + from);
        }
    for (int i = 0; i < BLOCKS; i++) {
        OK(MPI_Win_detach(window, block[i]));
        OK(MPI_Free_mem(block[i]));
    }
    OK(MPI_Win_free(&window));
    CHECK(rank % 2 == 0 || (file_size(path) == 2 * SIZE && unlink(path) == 0));
}

/* ---- Errors ---- */

/* The arguments of a rank in memory are checked as soon as another rank is on storage. */
CASE(bad_sizes_beside_storage)
{
    char *base;
    MPI_Win window;
    int last = ranks - 1;
    if (ranks < 2)
        return;
    MPI_Info info = info_of_one(0, path_of("beside", 0), NULL);
    CHECK(class_of(MPI_Win_allocate(rank == last ? -5 : 100, 1, info, world, &base, &window)) ==
          MPI_ERR_SIZE);
    CHECK(class_of(MPI_Win_allocate(100, rank == last ? 0 : 1, info, world, &base, &window)) ==
          MPI_ERR_DISP);
    info_free(info);
    CHECK(file_size(path_of("beside", 0)) < 0);
}

/* The file of one rank cannot be: all fail, those in memory as well. */
CASE(one_file_failing_fails_memory)
{
    char *base;
    MPI_Win window;
    for (int owner = 0; owner < ranks; owner++) {
        MPI_Info info = info_of_one(owner, path_of("nofolder/x", -1), NULL);
        CHECK(class_of(allocate(4096, info, &base, &window)) == MPI_ERR_NO_SUCH_FILE);
        info = info_of_one(owner, path_of("badhint", -1), PAIRS("storage_alloc_factor=2"));
        CHECK(class_of(allocate(4096, info, &base, &window)) == MPI_ERR_INFO_VALUE);
    }
}

/* The last rank's file is cut: every rank learns of it, also those in memory. */
CASE(truncation_reaches_memory)
{
    char *base;
    MPI_Win window;
    int last = ranks - 1;
    const char *path = path_of("cutone", last);
    MPI_Info info = info_of_one(last, path, NULL);
    OK(allocate(65536, info, &base, &window));
    OK(MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN));
    MPI_Barrier(world);
    CHECK(rank != last || truncate(path, 4096) == 0);
    MPI_Barrier(world);
    char value = 5;
    OK(MPI_Win_lock(MPI_LOCK_SHARED, last, 0, window));
    OK(MPI_Put(&value, 1, MPI_CHAR, last, 40960 + rank, 1, MPI_CHAR, window));
    OK(MPI_Win_unlock(last, window));
    MPI_Barrier(world);
    CHECK(class_of(FIND(onespace_window_sync_all)(window)) == MPI_ERR_IO);
    CHECK(class_of(MPI_Win_free(&window)) == MPI_ERR_IO);
    MPI_Barrier(world);
    CHECK(rank != last || unlink(path) == 0);
}

/* DIRECTORY is a small file system, on which only the last rank has its file: odd ranks have theirs
 * beside it, even ones are in memory. */
CASE(full_disk_of_one_rank)
{
    char *base, path[4096];
    MPI_Win window;
    int last = ranks - 1, is_file = rank % 2 || rank == last;
    snprintf(path, sizeof(path), rank == last ? "%s/only%d" : "%s/../beside%d", directory, rank);
    for (int round = 0; round < 2; round++) {
        MPI_Info info = is_file ? hints(path, NULL) : MPI_INFO_NULL;
        MPI_Aint size = round == 0 && rank == last ? 1L << 30 : 1 << 20;
        int class = class_of(allocate(size, info, &base, &window));
        CHECK(class == (round ? MPI_SUCCESS : MPI_ERR_NO_SPACE));
        if (class != MPI_SUCCESS) {
            CHECK(file_size(path) < 0); /* nothing is left of any */
            continue;
        }
        memset(base, 1, 1 << 20);
        OK(MPI_Win_sync(window));
        OK(MPI_Win_free(&window));
        CHECK(!is_file || unlink(path) == 0);
    }
}
