/* mpi_storage_memory.h: the cases of mpi_storage.c about memory of MPI_Alloc_mem. */

CASE(created_on_storage)
{
    char *base, *path = path_of("created", rank), letter = 'q';
    MPI_Win window;
    MPI_Info info = hints(path, NULL);
    OK(MPI_Alloc_mem(20000, info, &base));
    MPI_Info_free(&info);
    CHECK(file_size(path) == 20000);
    OK(MPI_Win_create(base, 20000, 1, MPI_INFO_NULL, world, &window));
    attribute(window, MPI_WIN_CREATE_FLAVOR, MPI_WIN_FLAVOR_CREATE);
    OK(MPI_Win_fence(0, window));
    OK(MPI_Put(&letter, 1, MPI_CHAR, next_rank, 19999, 1, MPI_CHAR, window));
    OK(MPI_Win_fence(0, window));
    OK(MPI_Win_sync(window));
    CHECK(byte_at(path, 19999) == 'q');
    OK(MPI_Win_free(&window));
    OK(MPI_Free_mem(base));
    CHECK(byte_at(path, 19999) == 'q');
}

/* Listing 3. */
CASE(attached_to_a_dynamic_window)
{
    char *base, *path = path_of("attached", rank), letter = 'd';
    MPI_Win window;
    MPI_Aint own, addresses[64];
    MPI_Info info = hints(path, NULL);
    OK(MPI_Alloc_mem(20000, info, &base));
    MPI_Info_free(&info);
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, world, &window));
    OK(MPI_Win_attach(window, base, 20000));
    MPI_Get_address(base, &own);
    MPI_Allgather(&own, 1, MPI_AINT, addresses, 1, MPI_AINT, world);
    OK(MPI_Win_fence(0, window));
    OK(MPI_Put(&letter, 1, MPI_CHAR, next_rank, addresses[next_rank] + 9000, 1, MPI_CHAR, window));
    OK(MPI_Win_fence(0, window));
    OK(MPI_Win_sync(window));
    CHECK(byte_at(path, 9000) == 'd');
    OK(MPI_Win_detach(window, base));
    OK(MPI_Win_free(&window));
    OK(MPI_Free_mem(base));
}

CASE(memory_may_be_shared_and_excludes_windows)
{
    char *base, *path = path_of("together", -1);
    int *numbers;
    MPI_Win window;
    MPI_Info info = hints(path, NULL);
    OK(MPI_Alloc_mem(ranks * (int)sizeof(int), info, &numbers));
    numbers[rank] = rank + 1;
    MPI_Barrier(world);
    for (int i = 0; i < ranks; i++)
        CHECK(numbers[i] == i + 1);
    CHECK(class_of(allocate(4, hints(path, NULL), &base, &window)) == MPI_ERR_FILE_IN_USE);
    OK(MPI_Free_mem(numbers));
    MPI_Info_set(info, "storage_alloc_factor", "2");
    CHECK(class_of(MPI_Alloc_mem(100, info, &base)) == MPI_ERR_INFO_VALUE);
    MPI_Info_free(&info);
}

CASE(plain_memory_is_mpis)
{
    char *base;
    MPI_Info info = info_of(NULL);
    OK(MPI_Alloc_mem(1000, MPI_INFO_NULL, &base));
    memset(base, 1, 1000);
    OK(MPI_Free_mem(base));
    OK(MPI_Alloc_mem(1000, info, &base));
    OK(MPI_Free_mem(base));
    MPI_Info_free(&info);
}

CASE(memory_left_at_finalize)
{
    char *base;
    MPI_Info info = hints(path_of("leftmemory", rank), PAIRS("storage_alloc_unlink=true"));
    OK(MPI_Alloc_mem(1000, info, &base));
    MPI_Info_free(&info);
    base[0] = 1;
}
