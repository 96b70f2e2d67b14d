! mpi_storage_f08.f90 DIRECTORY: a window on storage from Fortran; prints "rank N: M wrong".
program storage
    use mpi_f08
    use, intrinsic :: iso_c_binding
    implicit none
    type(MPI_Info) :: info, used
    type(MPI_Win) :: window
    type(c_ptr) :: base
    integer, pointer :: numbers(:)
    integer :: rank, ranks, wrong, next, size_of_file, value
    character(len=1024) :: directory, path, text
    logical :: flag
    wrong = 0
    call get_command_argument(1, directory)
    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    write (path, '(a,a,i0)') trim(directory), '/fortran', rank
    call MPI_Info_create(info)
    call MPI_Info_set(info, 'alloc_type', 'storage')
    call MPI_Info_set(info, 'storage_alloc_filename', trim(path))
    call MPI_Win_allocate(4000_MPI_ADDRESS_KIND, 4, info, MPI_COMM_WORLD, base, window)
    call c_f_pointer(base, numbers, [1000])
    next = mod(rank + 1, ranks)
    value = rank + 7
    call MPI_Win_fence(0, window)
    call MPI_Put(value, 1, MPI_INTEGER, next, 99_MPI_ADDRESS_KIND, 1, MPI_INTEGER, window)
    call MPI_Win_fence(0, window)
    if (numbers(100) /= mod(rank + ranks - 1, ranks) + 7) wrong = wrong + 1
    call MPI_Win_sync(window)
    call MPI_Win_get_info(window, used)
    call MPI_Info_get(used, 'alloc_type', 1000, text, flag)
    if (.not. flag .or. text(1:8) /= 'storage ') wrong = wrong + 1
    call MPI_Info_free(used)
    call MPI_Win_free(window)
    inquire (file=trim(path), size=size_of_file)
    if (size_of_file /= 4000) wrong = wrong + 1
    call MPI_Info_set(info, 'storage_alloc_filename', trim(path)//'memory')
    call MPI_Alloc_mem(4000_MPI_ADDRESS_KIND, info, base)
    call c_f_pointer(base, numbers, [1000])
    numbers = 5
    inquire (file=trim(path)//'memory', size=size_of_file)
    if (size_of_file /= 4000) wrong = wrong + 1
    call MPI_Free_mem(numbers)
    call MPI_Info_free(info)
    call MPI_Finalize()
    write (*, '(a,i0,a,i0,a)') 'rank ', rank, ': ', wrong, ' wrong'
end program
