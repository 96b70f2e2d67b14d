/* mpi_storage_errors.h: the cases of mpi_storage.c about hints, and about errors. */

CASE(info_names_what_is_used)
{
    char *base, *path = path_of("info", rank), factor[32];
    long page = sysconf(_SC_PAGESIZE), end = (4096 + 20000 + page - 1) / page * page;
    snprintf(factor, sizeof(factor), "%g", end - 4096 < 40000 ? (double)(end - 4096) / 40000 : 1.0);
    MPI_Win window = open_window(40000, path,
                                 PAIRS("storage_alloc_offset=4096", "storage_alloc_factor=0.5",
                                       "storage_alloc_order=storage_first",
                                       "storage_alloc_unlink=true", "storage_alloc_discard=true",
                                       "access_style=read_mostly,sequential", "file_perm=416"),
                                 &base);
    info_is(window, "alloc_type", "storage");
    info_is(window, "storage_alloc_filename", path);
    info_is(window, "storage_alloc_offset", "4096");
    info_is(window, "storage_alloc_factor", factor); /* whole pages: 0.512 with those of 4 KiB */
    info_is(window, "storage_alloc_order", "storage_first");
    info_is(window, "storage_alloc_unlink", "true");
    info_is(window, "storage_alloc_discard", "true");
    info_is(window, "access_style", "read_mostly,sequential");
    info_is(window, "file_perm", "0640");
    OK(MPI_Win_free(&window));
    CHECK(file_size(path) < 0);
}

/* Each value is refused on all ranks, whichever rank has it. Without the empty value, which MPI
 * libraries refuse themselves. */
CASE(bad_hints)
{
    static const char *const bad[] = {
        "alloc_type=disk",
        "storage_alloc_offset=-1",
        "storage_alloc_offset=4k",
        "storage_alloc_factor=1.5",
        "storage_alloc_factor=half",
        "storage_alloc_factor=nan",
        "storage_alloc_order=first",
        "storage_alloc_unlink=yes",
        "storage_alloc_discard=1",
        "access_style=fast",
        "access_style=read_once,",
        "file_perm=rw",
        "file_perm=09",
        "file_perm=640",
        "striping_factor=0",
        "striping_unit=1000",
        "storage_alloc_versions=-2",
        "access_style=random,sequential",
        "storage_alloc_offset=9223372036854775807",
    };
    char *base = NULL;
    MPI_Win window = MPI_WIN_NULL;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        const char *const *pairs = (int)i % ranks == rank ? PAIRS(bad[i]) : NULL;
        int class = class_of(allocate(4096, hints(path_of("bad", rank), pairs), &base, &window));
        if (class == MPI_SUCCESS)
            printf("rank %d: %s is allowed\n", rank, bad[i]);
        CHECK(class == MPI_ERR_INFO_VALUE && window == MPI_WIN_NULL);
    }
    CHECK(class_of(allocate(10, hints(NULL, NULL), &base, &window)) == MPI_ERR_INFO_VALUE);
    CHECK(file_size(path_of("bad", rank)) < 0);
}

CASE(good_hints)
{
    static const char *const good[] = {
        "alloc_type=storage",
        "storage_alloc_offset=0",
        "storage_alloc_offset=12345",
        "storage_alloc_factor=0",
        "storage_alloc_factor=1",
        "storage_alloc_factor=.25",
        "storage_alloc_factor=auto",
        "storage_alloc_order=memory_first",
        "storage_alloc_order=storage_first",
        "storage_alloc_unlink=false",
        "storage_alloc_discard=true",
        "access_style=read_once,write_once,read_mostly,write_mostly",
        "access_style=sequential",
        "access_style=reverse_sequential",
        "access_style=random",
        "file_perm=0600",
        "file_perm=384",
        "striping_factor=4",
        "striping_unit=1048576",
        "storage_alloc_versions=0",
        "something_else=whatever",
    };
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        char *base;
        MPI_Win window = open_window(10000, path_of("good", rank), PAIRS(good[i]), &base);
        memset(base, (int)i, 10000);
        OK(MPI_Win_sync(window));
        OK(MPI_Win_free(&window));
    }
}

CASE(memory_unless_storage_is_asked_for)
{
    char *base, *path = path_of("none", rank), pair[4200];
    snprintf(pair, sizeof(pair), "storage_alloc_filename=%s", path);
    for (int is_named = 0; is_named < 2; is_named++) {
        MPI_Info info = info_of(PAIRS(pair, is_named ? "alloc_type=memory" : NULL));
        MPI_Win window = open_units(100, 1, info, &base);
        OK(MPI_Win_free(&window));
    }
    CHECK(file_size(path) < 0);
}

/* The last rank's file cannot be: all fail, no rank hangs, and nothing is left. */
CASE(one_rank_failing_fails_all)
{
    char *base, *path = path_of(rank == ranks - 1 ? "nofolder/x" : "left", rank);
    MPI_Win window;
    CHECK(class_of(allocate(4096, hints(path, NULL), &base, &window)) == MPI_ERR_NO_SUCH_FILE);
    CHECK(file_size(path) < 0);
    window = open_window(4096, path_of("left", rank), NULL, &base);
    OK(MPI_Win_free(&window));
}

/* The directory is a small file system. */
CASE(full_disk)
{
    char *base, *path = path_of("full", rank);
    MPI_Win window;
    CHECK(class_of(allocate(1L << 30, hints(path, NULL), &base, &window)) == MPI_ERR_NO_SPACE);
    CHECK(file_size(path) < 0);
    window = open_window(1 << 20, path, NULL, &base);
    memset(base, 1, 1 << 20);
    OK(MPI_Win_sync(window));
    OK(MPI_Win_free(&window));
    CHECK(class_of(allocate(1L << 30, hints(path, NULL), &base, &window)) == MPI_ERR_NO_SPACE);
    CHECK(file_size(path) == 1 << 20); /* as it was */
    MPI_Barrier(world);
    CHECK(unlink(path) == 0);
}

static int errors_handled;

static void count_error(MPI_Win *window, int *code, ...)
{
    CHECK(*window != MPI_WIN_NULL && class_of(*code) == MPI_ERR_IO);
    errors_handled++;
}

/* The pages that are gone read as zeroes, which must not replace what was committed. */
CASE(truncation_is_an_error_at_a_commit)
{
    char *base, *path = path_of("cut_version", rank);
    long page = sysconf(_SC_PAGESIZE);
    int last = ranks - 1;
    uint64_t version = 0;
    for (int opening = 0; opening < 2; opening++) {
        MPI_Win window = open_window(16 * page, path, PAIRS("storage_alloc_versions=1"), &base);
        OK(MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN));
        for (long i = 0; opening > 0 && i < 16; i++)
            CHECK(base[i * page] == 7);
        if (opening == 0) {
            memset(base, 7, 16 * (size_t)page);
            OK(FIND(onespace_window_commit)(window, &version));
            MPI_Barrier(world);
            if (rank == last)
                CHECK(truncate(path, page) == 0);
            MPI_Barrier(world);
            base[0] = 8;
            for (int i = 0; i < 3; i++)
                CHECK(class_of(FIND(onespace_window_commit)(window, &version)) == MPI_ERR_IO);
        }
        MPI_Win_free(&window); /* an error on the rank whose file was cut */
        MPI_Barrier(world);
    }
}

/* The last rank's file is cut while the window lives. */
CASE(truncation_is_an_error_at_sync)
{
    char *base, *path = path_of("cut", rank);
    long page = sysconf(_SC_PAGESIZE);
    int last = ranks - 1;
    MPI_Win window = open_window(16 * page, path, NULL, &base);
    memset(base, 1, 16 * (size_t)page);
    OK(MPI_Win_sync(window));
    OK(MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN));
    MPI_Barrier(world);
    if (rank == last)
        CHECK(truncate(path, page) == 0);
    MPI_Barrier(world);
    char value = 5; /* intra-node or not, a store there ends no rank */
    OK(MPI_Win_lock(MPI_LOCK_SHARED, last, 0, window));
    OK(MPI_Put(&value, 1, MPI_CHAR, last, 9 * page + rank, 1, MPI_CHAR, window));
    OK(MPI_Win_unlock(last, window));
    MPI_Barrier(world);
    if (rank == last) {
        base[12 * page] = 1;
        CHECK(class_of(MPI_Win_sync(window)) == MPI_ERR_IO);
        CHECK(truncate(path, 16 * page) == 0); /* it stays failed */
        CHECK(class_of(MPI_Win_sync(window)) == MPI_ERR_IO);
    }
    MPI_Barrier(world);
    CHECK(class_of(FIND(onespace_window_sync_all)(window)) == MPI_ERR_IO); /* on every rank */
    MPI_Errhandler handler;
    OK(MPI_Win_create_errhandler(count_error, &handler));
    OK(MPI_Win_set_errhandler(window, handler));
    errors_handled = 0;
    CHECK(class_of(MPI_Win_free(&window)) == MPI_ERR_IO); /* on every rank, too */
    CHECK(errors_handled == 1);
    OK(MPI_Errhandler_free(&handler));
}

/* For the rank that has put there, before the file's own rank synchronises. */
CASE(truncation_of_anothers_file_is_an_error_at_sync)
{
    char *base, *path = path_of("cut", rank), value = 5;
    long page = sysconf(_SC_PAGESIZE);
    int last = ranks - 1;
    MPI_Win window = open_window(16 * page, path, NULL, &base);
    OK(MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN));
    if (rank == 0) {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, last, 0, window));
        OK(MPI_Put(&value, 1, MPI_CHAR, last, 9 * page, 1, MPI_CHAR, window));
        OK(MPI_Win_unlock(last, window));
    }
    MPI_Barrier(world);
    if (rank == last)
        CHECK(truncate(path, page) == 0);
    MPI_Barrier(world);
    if (rank == 0)
        CHECK(class_of(MPI_Win_sync(window)) == MPI_ERR_IO);
    MPI_Barrier(world);
    CHECK(class_of(MPI_Win_free(&window)) == MPI_ERR_IO);
}
