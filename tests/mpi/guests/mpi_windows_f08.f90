! mpi_windows_f08.f90: windows of ranks that are tasks of one space, through the module mpi_f08.
program windows
  use mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none
  type(MPI_Win) :: window
  type(MPI_Datatype) :: column
  type(c_ptr) :: base, other
  integer(MPI_ADDRESS_KIND) :: size, value, address
  integer :: rank, ranks, next, previous, unit, wrong, i
  integer :: mine(10), got(10)
  integer, pointer :: part(:), theirs(:)
  logical :: found
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  next = mod(rank + 1, ranks)
  previous = mod(rank + ranks - 1, ranks)
  wrong = 0
  size = 4000
  call MPI_Win_allocate_shared(size, 4, MPI_INFO_NULL, MPI_COMM_WORLD, base, window)
  call c_f_pointer(base, part, [1000])
  call MPI_Win_shared_query(window, next, size, unit, other)
  if (size /= 4000 .or. unit /= 4) wrong = wrong + 1
  call c_f_pointer(other, theirs, [1000])
  ! Contiguous, at the same addresses on all ranks: the neighbour's part begins where this one ends.
  if (next == rank + 1 .and. transfer(other, address) /= transfer(base, address) + 4000) wrong = wrong + 1
  part(1) = rank
  call MPI_Win_fence(0, window)
  if (theirs(1) /= next) wrong = wrong + 1
  mine = [(rank * 100 + i, i = 1, 10)]
  call MPI_Put(mine, 10, MPI_INTEGER, next, 20_MPI_ADDRESS_KIND, 10, MPI_INTEGER, window)
  call MPI_Win_fence(0, window)
  if (any(part(21:30) /= [(previous * 100 + i, i = 1, 10)])) wrong = wrong + 1
  call MPI_Win_fence(0, window)
  call MPI_Accumulate(mine, 10, MPI_INTEGER, next, 20_MPI_ADDRESS_KIND, 10, MPI_INTEGER, MPI_SUM, window)
  call MPI_Win_fence(0, window)
  call MPI_Get(got, 10, MPI_INTEGER, next, 20_MPI_ADDRESS_KIND, 10, MPI_INTEGER, window)
  call MPI_Win_fence(0, window)
  if (any(got /= 2 * mine)) wrong = wrong + 1
  ! A handle that MPI gives out again stands for the new type.
  do i = 2, 9
    call MPI_Type_vector(5, 1, i, MPI_INTEGER, column)
    call MPI_Type_commit(column)
    call MPI_Put(mine, 5, MPI_INTEGER, next, 100_MPI_ADDRESS_KIND, 1, column, window)
    call MPI_Win_fence(0, window)
    call MPI_Type_free(column)
    if (any(part(101:101 + 4 * i:i) /= [(previous * 100 + unit, unit = 1, 5)])) wrong = wrong + 1
    part(101:200) = -1
    call MPI_Win_fence(0, window)
  end do
  call MPI_Win_get_attr(window, MPI_WIN_SIZE, value, found)
  if (.not. found .or. value /= 4000) wrong = wrong + 1
  call MPI_Win_get_attr(window, MPI_WIN_BASE, value, found)
  if (.not. found .or. value /= transfer(base, address)) wrong = wrong + 1
  call MPI_Win_get_attr(window, MPI_WIN_CREATE_FLAVOR, value, found)
  if (.not. found .or. value /= MPI_WIN_FLAVOR_SHARED) wrong = wrong + 1
  call MPI_Win_free(window)
  call MPI_Win_allocate(size, 4, MPI_INFO_NULL, MPI_COMM_WORLD, base, window)
  call MPI_Win_lock_all(0, window)
  call MPI_Put(mine, 10, MPI_INTEGER, next, 0_MPI_ADDRESS_KIND, 10, MPI_INTEGER, window)
  call MPI_Win_flush(next, window)
  call MPI_Win_unlock_all(window)
  call MPI_Win_free(window)
  print '(a,i0,a,i0,a)', 'rank ', rank, ': ', wrong, ' wrong'
  call MPI_Finalize()
end program
