! mpi_windows_fortran.F90: windows of ranks that are tasks of one space, through the module mpi_f08 (-DF08) or mpif.h.
#ifdef F08
#define HANDLE(kind) type(kind)
#define ADDRESS type(c_ptr)
#else
#define HANDLE(kind) integer
#define ADDRESS integer(MPI_ADDRESS_KIND)
#endif
program windows
#ifdef F08
  use mpi_f08
#endif
  use, intrinsic :: iso_c_binding
  implicit none
#ifndef F08
  include 'mpif.h'
#endif
  HANDLE(MPI_Win) :: window
  HANDLE(MPI_Datatype) :: column
  ADDRESS :: base, other
  integer(MPI_ADDRESS_KIND) :: size, value, address
  type(c_ptr) :: pointer
  integer :: error, rank, ranks, next, previous, unit, wrong, i
  integer :: numbers(10), got(10)
  integer, pointer :: part(:), next_part(:)
  logical :: found
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  next = mod(rank + 1, ranks)
  previous = mod(rank + ranks - 1, ranks)
  wrong = 0
  size = 4000
  call MPI_Win_allocate_shared(size, 4, MPI_INFO_NULL, MPI_COMM_WORLD, base, window, error)
  if (error /= MPI_SUCCESS) wrong = wrong + 1
  pointer = transfer(base, pointer)
  call c_f_pointer(pointer, part, [1000])
  call MPI_Win_shared_query(window, next, size, unit, other, error)
  if (size /= 4000 .or. unit /= 4) wrong = wrong + 1
  pointer = transfer(other, pointer)
  call c_f_pointer(pointer, next_part, [1000])
  ! Contiguous, at the same addresses on all ranks: the neighbour's part begins where this one ends.
  if (next == rank + 1 .and. transfer(other, address) /= transfer(base, address) + 4000) wrong = wrong + 1
  part(1) = rank
  call MPI_Win_fence(0, window, error)
  if (next_part(1) /= next) wrong = wrong + 1
  numbers = [(rank * 100 + i, i = 1, 10)]
  value = 20
  call MPI_Put(numbers, 10, MPI_INTEGER, next, value, 10, MPI_INTEGER, window, error)
  call MPI_Win_fence(0, window, error)
  if (any(part(21:30) /= [(previous * 100 + i, i = 1, 10)])) wrong = wrong + 1
  call MPI_Win_fence(0, window, error)
  call MPI_Accumulate(numbers, 10, MPI_INTEGER, next, value, 10, MPI_INTEGER, MPI_SUM, window, error)
  call MPI_Win_fence(0, window, error)
  call MPI_Get(got, 10, MPI_INTEGER, next, value, 10, MPI_INTEGER, window, error)
  call MPI_Win_fence(0, window, error)
  if (any(got /= 2 * numbers)) wrong = wrong + 1
  ! A handle that MPI gives out again stands for the new type.
  value = 100
  do i = 2, 9
    call MPI_Type_vector(5, 1, i, MPI_INTEGER, column, error)
    call MPI_Type_commit(column, error)
    call MPI_Put(numbers, 5, MPI_INTEGER, next, value, 1, column, window, error)
    call MPI_Win_fence(0, window, error)
    call MPI_Type_free(column, error)
    if (any(part(101:101 + 4 * i:i) /= [(previous * 100 + unit, unit = 1, 5)])) wrong = wrong + 1
    part(101:200) = -1
    call MPI_Win_fence(0, window, error)
  end do
  call MPI_Win_get_attr(window, MPI_WIN_SIZE, value, found, error)
  if (.not. found .or. value /= 4000) wrong = wrong + 1
  call MPI_Win_get_attr(window, MPI_WIN_BASE, value, found, error)
  if (.not. found .or. value /= transfer(base, address)) wrong = wrong + 1
  call MPI_Win_get_attr(window, MPI_WIN_CREATE_FLAVOR, value, found, error)
  if (.not. found .or. value /= MPI_WIN_FLAVOR_SHARED) wrong = wrong + 1
  call MPI_Win_free(window, error)
  if (window /= MPI_WIN_NULL) wrong = wrong + 1
  size = 4000
  call MPI_Win_allocate(size, 4, MPI_INFO_NULL, MPI_COMM_WORLD, base, window, error)
  call MPI_Win_lock_all(0, window, error)
  value = 0
  call MPI_Put(numbers, 10, MPI_INTEGER, next, value, 10, MPI_INTEGER, window, error)
  call MPI_Win_flush(next, window, error)
  call MPI_Win_unlock_all(window, error)
  call MPI_Win_free(window, error)
  print '(a,i0,a,i0,a)', 'rank ', rank, ': ', wrong, ' wrong'
  call MPI_Finalize(error)
end program
