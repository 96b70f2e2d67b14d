/* mpi_storage_intra_node.h: the cases of mpi_storage.c about windows whose ranks are on several
 * nodes. They hold on one node too. The ranks of a node follow one another. */

static MPI_Win open_longs(const char *name, MPI_Aint longs, long **base)
{
    return open_units(8 * longs, 8, hints(path_of(name, rank), PAIRS("storage_alloc_unlink=true")),
                      base);
}

/* Delays, so that a missing wait shows. */
static void delay(int max_us)
{
    static unsigned seed;
    seed = seed * 1103515245 + 12345 + (unsigned)rank * 77;
    usleep((seed >> 8) % (unsigned)max_us);
}

/* All parts are in one file, and neighbours share pages. A part that a network device may write
 * into is a copy: its bytes, and no others, go to the file when they are synchronised. */
CASE(parts_that_devices_write_to)
{
    enum { FIRST = 16, SIZE = 20000, AT = 100 }; /* MPICH rounds addresses down to 16 bytes */
    char offset[64], *base, *path = path_of("copied", -1), letter = (char)('A' + rank);
    char *before = malloc(SIZE);
    int on_node = ranks_of_node(), fd;
    memset(before, 'o', SIZE);
    if (rank == 0) {
        fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        for (int i = 0; i <= ranks; i++)
            CHECK(pwrite(fd, before, SIZE, FIRST + i * SIZE) == SIZE);
        close(fd);
    }
    MPI_Barrier(world);
    snprintf(offset, sizeof(offset), "storage_alloc_offset=%d", FIRST + rank * SIZE);
    MPI_Win window = open_window(SIZE, path, PAIRS(offset), &base);
    CHECK(memcmp(base, before, SIZE) == 0);
    base[0] = base[SIZE - 1] = letter;
    CHECK(byte_at(path, FIRST + rank * SIZE) == 'o'); /* no page of the file was stored into */
    MPI_Barrier(world);
    OK(MPI_Win_lock_all(0, window));
    for (int to = 0; to < ranks; to++)
        put_char(letter, to, AT + rank, window);
    OK(MPI_Win_sync(window));
    for (int to = 0; to < ranks; to++)
        CHECK(to / on_node != rank / on_node ||
              byte_at(path, FIRST + to * SIZE + AT + rank) == letter);
    OK(MPI_Win_unlock_all(window));
    MPI_Barrier(world);
    OK(MPI_Win_sync(window));
    MPI_Barrier(world);
    for (int part = 0; part < ranks; part++) {
        long at = FIRST + part * SIZE;
        CHECK(byte_at(path, at) == 'A' + part && byte_at(path, at + SIZE - 1) == 'A' + part);
        CHECK(byte_at(path, at + 1) == 'o');
        for (int from = 0; from < ranks; from++)
            CHECK(byte_at(path, at + AT + from) == 'A' + from);
    }
    CHECK(byte_at(path, FIRST + ranks * SIZE) == 'o');
    base[1] = letter;
    OK(MPI_Win_free(&window));
    CHECK(byte_at(path, FIRST + rank * SIZE + 1) == letter);
    free(before);
}

/* Puts and gets to this node, and no others, are loads and stores; MPI_Win_sync covers what they
 * and accumulates wrote there. */
CASE(intra_node_targets_are_stored_into)
{
    long *base, value = rank + 1, got = -1, one = 1;
    int on_node = ranks_of_node();
    MPI_Win window = open_longs("stored", 100, &base);
    struct onespace_window_statistics before = statistics_of(window);
    OK(MPI_Win_lock_all(0, window));
    for (int to = 0; to < ranks; to++) {
        OK(MPI_Put(&value, 1, MPI_LONG, to, rank, 1, MPI_LONG, window));
        OK(MPI_Get(&got, 1, MPI_LONG, to, 50, 1, MPI_LONG, window));
    }
    OK(MPI_Win_flush_all(window));
    struct onespace_window_statistics after = statistics_of(window);
    CHECK(before.is_intra_node && after.put.calls == (uint64_t)on_node &&
          after.put.bytes == 8 * after.put.calls);
    CHECK(after.get.calls == (uint64_t)on_node);
    OK(MPI_Win_sync(window));
    after = statistics_of(window);
    CHECK(after.sync.bytes - before.sync.bytes == 800 * (uint64_t)on_node);
    OK(MPI_Win_sync(window)); /* of this part alone */
    CHECK(statistics_of(window).sync.bytes - after.sync.bytes == 800);
    MPI_Barrier(world);
    for (int from = 0; from < ranks; from++)
        CHECK(base[from] == from + 1);
    after = statistics_of(window);
    for (int to = 0; to < ranks; to++)
        OK(MPI_Accumulate(&one, 1, MPI_LONG, to, 60, 1, MPI_LONG, MPI_SUM, window));
    OK(MPI_Win_flush_all(window));
    OK(MPI_Win_sync(window));
    CHECK(statistics_of(window).sync.bytes - after.sync.bytes == 800 * (uint64_t)on_node);
    CHECK(statistics_of(window).accumulate.calls == (on_node == ranks ? (uint64_t)ranks : 0));
    MPI_Barrier(world);
    CHECK(base[60] == ranks);
    OK(MPI_Win_unlock_all(window));
    OK(MPI_Win_free(&window));
}

/* An MPI may take a lock later than MPI_Win_lock returns. */
CASE(locks_exclude_within_and_across_nodes)
{
    enum { ROUNDS = 40 };
    long *base;
    MPI_Win window = open_longs("locks", 1, &base);
    for (int i = 0; i < ROUNDS; i++) {
        long value;
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window));
        OK(MPI_Get(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, window));
        OK(MPI_Win_flush(0, window));
        delay(300);
        value++;
        OK(MPI_Put(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, window));
        OK(MPI_Win_unlock(0, window));
        delay(300);
    }
    MPI_Barrier(world);
    CHECK(rank || base[0] == (long)ROUNDS * ranks);
    OK(MPI_Win_free(&window));
}

/* Each rank has an element at each target that it puts, adds to and gets in turn, and all add to
 * one of all. */
CASE(accumulates_mix_with_puts)
{
    enum { ROUNDS = 50 };
    long *base, one = 1, got;
    MPI_Win window = open_longs("mix", 100, &base);
    OK(MPI_Win_lock_all(0, window));
    for (long i = 0; i < ROUNDS; i++)
        for (int to = 0; to < ranks; to++) {
            long value = i * 1000 + rank, more = 7;
            OK(MPI_Put(&value, 1, MPI_LONG, to, 1 + rank, 1, MPI_LONG, window));
            OK(MPI_Win_flush(to, window));
            OK(MPI_Fetch_and_op(&more, &got, MPI_LONG, to, 1 + rank, MPI_SUM, window));
            OK(MPI_Accumulate(&one, 1, MPI_LONG, to, 0, 1, MPI_LONG, MPI_SUM, window));
            OK(MPI_Win_flush(to, window));
            CHECK(got == value);
            OK(MPI_Get(&got, 1, MPI_LONG, to, 1 + rank, 1, MPI_LONG, window));
            OK(MPI_Win_flush(to, window));
            CHECK(got == value + 7);
        }
    OK(MPI_Win_flush_all(window));
    MPI_Barrier(world);
    CHECK(base[0] == (long)ROUNDS * ranks);
    OK(MPI_Win_unlock_all(window));
    OK(MPI_Win_free(&window));
}

/* A fence that begins is not a barrier of MPI's. */
CASE(fences_order_within_and_across_nodes)
{
    enum { ROUNDS = 15 };
    long *base, got[64];
    MPI_Win window = open_longs("fences", 100, &base);
    for (long i = 1; i <= ROUNDS; i++) {
        delay(2000);
        base[0] = i;
        OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, window));
        for (int to = 0; to < ranks; to++) {
            OK(MPI_Get(&got[to], 1, MPI_LONG, to, 0, 1, MPI_LONG, window));
            OK(MPI_Put(&i, 1, MPI_LONG, to, 1 + rank, 1, MPI_LONG, window));
        }
        delay(500);
        OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, window));
        for (int from = 0; from < ranks; from++)
            CHECK(got[from] == i && base[1 + from] == i);
    }
    OK(MPI_Win_free(&window));
}

/* MPI_Win_start may return before the target has posted. */
CASE(puts_await_the_post)
{
    enum { ROUNDS = 15 };
    long *base;
    MPI_Group all;
    MPI_Win window = open_longs("post", 100, &base);
    MPI_Comm_group(world, &all);
    for (long i = 1; i <= ROUNDS; i++) {
        long got[64];
        delay(2000);
        for (int from = 0; from < ranks; from++)
            base[1 + from] = -1;
        base[0] = i;
        OK(MPI_Win_post(all, 0, window));
        OK(MPI_Win_start(all, 0, window));
        for (int to = 0; to < ranks; to++) {
            OK(MPI_Put(&i, 1, MPI_LONG, to, 1 + rank, 1, MPI_LONG, window));
            OK(MPI_Get(&got[to], 1, MPI_LONG, to, 0, 1, MPI_LONG, window));
        }
        OK(MPI_Win_complete(window));
        OK(MPI_Win_wait(window));
        for (int from = 0; from < ranks; from++)
            CHECK(got[from] == i && base[1 + from] == i);
    }
    MPI_Group_free(&all);
    OK(MPI_Win_free(&window));
}

/* Requests, derived types, large transfers, and displacements in units of the target. */
CASE(requests_types_and_units)
{
    enum { LARGE = 200000, UNIT = 4 };
    char *base, *data = malloc(LARGE), *back = malloc(LARGE);
    int unit = UNIT * (rank + 1), wrong_units = 0, on_node = ranks_of_node();
    MPI_Datatype every_other;
    MPI_Win window =
        open_units((MPI_Aint)ranks * LARGE + 1000, unit,
                   hints(path_of("units", rank), PAIRS("storage_alloc_unlink=true")), &base);
    MPI_Type_vector(10, 1, 2, MPI_CHAR, &every_other);
    MPI_Type_commit(&every_other);
    fill(data, LARGE, rank);
    OK(MPI_Win_lock_all(0, window));
    for (int to = 0; to < ranks; to++) { /* LARGE is a multiple of all units up to 4 ranks' */
        MPI_Request requests[2];
        MPI_Status statuses[2];
        MPI_Aint place = (MPI_Aint)rank * LARGE / (UNIT * (to + 1)) + 1;
        long at = (long)place * UNIT * (to + 1) - (long)rank * LARGE;
        wrong_units += at < 0 || at > UNIT * (to + 1);
        OK(MPI_Rput(data, LARGE - 100, MPI_CHAR, to, place, LARGE - 100, MPI_CHAR, window,
                    &requests[0]));
        OK(MPI_Wait(&requests[0], &statuses[0]));
        OK(MPI_Win_flush(to, window));
        OK(MPI_Rget(back, LARGE - 100, MPI_CHAR, to, place, LARGE - 100, MPI_CHAR, window,
                    &requests[0]));
        OK(MPI_Rget(back + LARGE - 20, 10, MPI_CHAR, to, place, 1, every_other, window,
                    &requests[1]));
        OK(MPI_Waitall(2, requests, statuses));
        if (to / on_node != rank / on_node)
            OK(MPI_Win_flush(
                to, window)); /* seen once with MPICH 4.0: not all there after MPI_Waitall */
        CHECK(memcmp(back, data, LARGE - 100) == 0);
        for (int i = 0; i < 10; i++)
            CHECK(back[LARGE - 20 + i] == data[2 * i]);
    }
    CHECK(wrong_units == 0);
    MPI_Barrier(world);
    OK(MPI_Win_unlock_all(window));
    for (int from = 0; from < ranks; from++) {
        long place = (long)from * LARGE / unit * unit + unit;
        CHECK(is_filled(base + place, LARGE - 100, from));
    }
    MPI_Type_free(&every_other);
    OK(MPI_Win_free(&window));
    free(data);
    free(back);
}

/* main() has hidden rank 1: its node does without, as it does on one node. */
CASE(one_part_is_out_of_reach)
{
    long *base, value = rank;
    int is_without = rank < ranks_of_node();
    MPI_Win window = open_longs("one", 100, &base);
    CHECK(statistics_of(window).is_intra_node == !is_without);
    OK(MPI_Win_fence(0, window));
    OK(MPI_Put(&value, 1, MPI_LONG, next_rank, 3, 1, MPI_LONG, window));
    OK(MPI_Win_fence(0, window));
    CHECK(base[3] == previous_rank);
    CHECK(statistics_of(window).put.calls == 0 || !is_without);
    OK(MPI_Win_sync(window));
    OK(MPI_Win_free(&window));
}
