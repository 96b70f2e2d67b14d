/* mpi_storage_files.h: the cases of mpi_storage.c about files: one per rank, one for all ranks, and
 * what remains of them. */

CASE(file_per_rank)
{
    char *base, *path = path_of("own", rank);
    MPI_Win window = open_window(100000, path, NULL, &base);
    CHECK(file_size(path) == 100000);
    fill(base, 100000, rank);
    OK(MPI_Win_sync(window)); /* outside of any epoch */
    CHECK(byte_at(path, 77777) == fill_of(rank, 77777));
    OK(MPI_Win_free(&window));
    window = open_window(100000, path, NULL, &base);
    CHECK(is_filled(base, 100000, rank));
    OK(MPI_Win_free(&window));
}

/* Neighbours share pages. */
CASE(one_file_at_unaligned_offsets)
{
    char offset[64], *base, *path = path_of("shared", -1);
    snprintf(offset, sizeof(offset), "storage_alloc_offset=%d", 13 + rank * 5001);
    MPI_Win window = open_window(5001, path, PAIRS(offset), &base);
    fill(base, 5001, rank);
    OK(MPI_Win_sync(window));
    MPI_Barrier(world);
    CHECK(file_size(path) == 13 + ranks * 5001);
    for (int i = 0; i < ranks; i++) {
        CHECK(byte_at(path, 13 + i * 5001) == fill_of(i, 0));
        CHECK(byte_at(path, 13 + i * 5001 + 5000) == fill_of(i, 5000));
    }
    OK(MPI_Win_free(&window));
}

/* Listing 1: the same file and the same offset: the ranks' windows are the same bytes. */
CASE(same_bytes)
{
    int *base, k = 100 + rank;
    MPI_Win window =
        open_units(ranks * (int)sizeof(int), sizeof(int), hints(path_of("same", -1), NULL), &base);
    for (int i = 0; i < ranks; i++) {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, i, 0, window));
        OK(MPI_Put(&k, 1, MPI_INT, i, rank, 1, MPI_INT, window));
        OK(MPI_Win_unlock(i, window));
    }
    MPI_Barrier(world);
    for (int i = 0; i < ranks; i++)
        CHECK(base[i] == 100 + i);
    OK(MPI_Win_free(&window));
}

/* On one node accumulates are atomic, whichever of the ranks' parts they go to. */
CASE(same_bytes_accumulate)
{
    int *base, one = 1;
    MPI_Win window = open_units(sizeof(int), sizeof(int), hints(path_of("sums", -1), NULL), &base);
    for (int i = 0; i < 1000; i++) {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window));
        OK(MPI_Accumulate(&one, 1, MPI_INT, rank, 0, 1, MPI_INT, MPI_SUM, window));
        OK(MPI_Win_unlock(rank, window));
    }
    MPI_Barrier(world);
    CHECK(base[0] == ranks * 1000);
    OK(MPI_Win_free(&window));
}

/* As Listing 1 has it: with an offset. */
CASE(same_bytes_by_their_offset)
{
    char *base;
    MPI_Win window = open_window(100, path_of("meant", -1), PAIRS("storage_alloc_offset=0"), &base);
    base[rank] = 'm';
    MPI_Barrier(world);
    for (int i = 0; i < ranks; i++)
        CHECK(base[i] == 'm');
    OK(MPI_Win_free(&window));
}

CASE(extends_a_file)
{
    char *base, *path = path_of("longer", rank);
    int fd = open(path, O_CREAT | O_RDWR, 0640);
    CHECK(write(fd, "beginning", 9) == 9);
    close(fd);
    MPI_Win window = open_window(1000, path, PAIRS("storage_alloc_offset=9"), &base);
    CHECK(base[0] == 0 && base[-1] == 'g');
    memset(base, 'x', 1000);
    OK(MPI_Win_free(&window)); /* flushes */
    CHECK(file_size(path) == 1009);
    CHECK(byte_at(path, 8) == 'g' && byte_at(path, 9) == 'x' && byte_at(path, 1008) == 'x');
}

CASE(in_use_is_refused)
{
    char *base, *path = path_of("busy", -1);
    MPI_Win second, window = open_window(4096, path, NULL, &base);
    CHECK(class_of(allocate(1, hints(path, PAIRS("storage_alloc_offset=4095")), &base, &second)) ==
          MPI_ERR_FILE_IN_USE);
    second = open_window(1, path, PAIRS("storage_alloc_offset=4096"), &base);
    OK(MPI_Win_free(&second));
    OK(MPI_Win_free(&window));
    second = open_window(1, path, NULL, &base);
    OK(MPI_Win_free(&second));
}

/* For a test that starts another job meanwhile, which may take a minute on a busy machine. */
CASE(holds_a_file)
{
    enum { TRIES = 18000 }; /* three minutes at least */
    char *base;
    MPI_Win window = open_window(4096, path_of("held", -1), NULL, &base);
    MPI_Barrier(world);
    if (rank == 0)
        printf("holding\n"), fflush(stdout);
    for (int i = 0; i < TRIES && file_size(path_of("go", -1)) < 0; i++)
        usleep(10000);
    OK(MPI_Win_free(&window));
}

CASE(refused_while_held)
{
    char *base;
    MPI_Win window;
    CHECK(class_of(allocate(4096, hints(path_of("held", -1), NULL), &base, &window)) ==
          MPI_ERR_FILE_IN_USE);
}

CASE(unlink_removes)
{
    char *base, *path = path_of("temporary", -1);
    MPI_Win window = open_window(4096, path, PAIRS("storage_alloc_unlink=true"), &base);
    CHECK(file_size(path) == 4096);
    base[rank] = 1;
    OK(MPI_Win_free(&window));
    MPI_Barrier(world);
    CHECK(file_size(path) < 0);
}

/* A relative name stays that of the same file when the current directory changes. */
CASE(unlink_removes_after_chdir)
{
    char *base, name[64], before[4096];
    CHECK(getcwd(before, sizeof(before)) && chdir(directory) == 0);
    snprintf(name, sizeof(name), "relative%d", rank);
    MPI_Win window = open_window(4096, name, PAIRS("storage_alloc_unlink=true"), &base);
    CHECK(file_size(name) == 4096);
    CHECK(chdir(before) == 0);
    OK(MPI_Win_free(&window));
    CHECK(file_size(path_of(name, -1)) == -1);
}

/* Flushing would fail, and is not tried. */
CASE(discard_flushes_nothing)
{
    char *base, *path = path_of("discard", rank);
    MPI_Win window = open_window(8192, path, PAIRS("storage_alloc_discard=true"), &base);
    OK(MPI_Win_sync(window));
    CHECK(truncate(path, 4096) == 0);
    OK(MPI_Win_free(&window));
    CHECK(file_size(path) == 4096);
}

CASE(permissions)
{
    char *base, *path = path_of("perm", rank);
    struct stat status;
    MPI_Win window = open_window(10, path, PAIRS("file_perm=0644"), &base);
    CHECK(stat(path, &status) == 0 && (status.st_mode & 07777) == 0644);
    OK(MPI_Win_free(&window));
    window = open_window(10, path, PAIRS("file_perm=0600"), &base);
    CHECK(stat(path, &status) == 0 && (status.st_mode & 07777) == 0644); /* it existed */
    info_is(window, "file_perm", "0644");
    OK(MPI_Win_free(&window));
}

CASE(zero_sizes)
{
    char *base, value = 3;
    MPI_Win window = open_window(rank % 2 ? 0 : 100, path_of("zero", rank), NULL, &base);
    OK(MPI_Win_fence(0, window));
    OK(MPI_Put(&value, 1, MPI_CHAR, 0, rank, 1, MPI_CHAR, window));
    OK(MPI_Win_fence(0, window));
    CHECK(rank || base[ranks - 1] == 3);
    OK(MPI_Win_sync(window));
    OK(MPI_Win_free(&window));
}

CASE(left_at_finalize)
{
    char *base;
    (void)open_window(4096, path_of("leftover", rank), PAIRS("storage_alloc_unlink=true"), &base);
    base[0] = 1;
}

/* DIRECTORY is a block device. */
CASE(block_device)
{
    char offset[64], *base;
    snprintf(offset, sizeof(offset), "storage_alloc_offset=%d", rank * 70000);
    MPI_Win window =
        open_window(70000, directory, PAIRS(offset, "storage_alloc_unlink=true"), &base);
    memset(base, 'a' + rank, 70000);
    OK(MPI_Win_sync(window));
    MPI_Barrier(world);
    for (int i = 0; i < ranks; i++)
        CHECK(byte_at(directory, i * 70000 + 69999) == 'a' + i);
    OK(MPI_Win_free(&window));
    CHECK(access(directory, F_OK) == 0);
    CHECK(class_of(allocate(1L << 40, hints(directory, NULL), &base, &window)) == MPI_ERR_NO_SPACE);
}

/* 132 stores of 4 KiB into 512 MiB; the file system adds its own bookkeeping. */
CASE(scattered_stores_write_little)
{
    char *base;
    MPI_Aint size = (512L << 20) / ranks, stores = 132 / ranks;
    MPI_Win window =
        open_window(size, path_of("scattered", rank), PAIRS("storage_alloc_unlink=true"), &base);
    sync();
    MPI_Barrier(world);
    long before = written_bytes();
    for (MPI_Aint i = 0; i < stores; i++)
        memset(base + size / stores * i / 4096 * 4096, 3, 4096);
    OK(MPI_Win_sync(window));
    long bytes = written_bytes() - before;
    if (bytes > (1 << 20))
        printf("rank %d: %ld bytes written\n", rank, bytes);
    CHECK(before >= 0 && bytes >= stores * 4096 && bytes <= (1 << 20));
    OK(MPI_Win_free(&window));
}
