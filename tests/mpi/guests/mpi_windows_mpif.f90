! mpi_windows_mpif.f90: windows of ranks that are tasks of one space, through mpif.h.
program windows
  use, intrinsic :: iso_c_binding
  implicit none
  include 'mpif.h'
  integer :: window, column, error, rank, ranks, next, previous, unit, wrong, i
  integer(MPI_ADDRESS_KIND) :: base, other, size, value
  type(c_ptr) :: place
  integer :: mine(10), got(10)
  integer, pointer :: part(:), theirs(:)
  logical :: found
  call MPI_INIT(error)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, error)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, error)
  next = mod(rank + 1, ranks)
  previous = mod(rank + ranks - 1, ranks)
  wrong = 0
  size = 4000
  call MPI_WIN_ALLOCATE_SHARED(size, 4, MPI_INFO_NULL, MPI_COMM_WORLD, base, window, error)
  if (error /= MPI_SUCCESS) wrong = wrong + 1
  place = transfer(base, place)
  call c_f_pointer(place, part, [1000])
  call MPI_WIN_SHARED_QUERY(window, next, size, unit, other, error)
  if (size /= 4000 .or. unit /= 4) wrong = wrong + 1
  place = transfer(other, place)
  call c_f_pointer(place, theirs, [1000])
  if (next == rank + 1 .and. other /= base + 4000) wrong = wrong + 1
  part(1) = rank
  call MPI_WIN_FENCE(0, window, error)
  if (theirs(1) /= next) wrong = wrong + 1
  mine = [(rank * 100 + i, i = 1, 10)]
  value = 20
  call MPI_PUT(mine, 10, MPI_INTEGER, next, value, 10, MPI_INTEGER, window, error)
  call MPI_WIN_FENCE(0, window, error)
  if (any(part(21:30) /= [(previous * 100 + i, i = 1, 10)])) wrong = wrong + 1
  call MPI_WIN_FENCE(0, window, error)
  call MPI_ACCUMULATE(mine, 10, MPI_INTEGER, next, value, 10, MPI_INTEGER, MPI_SUM, window, error)
  call MPI_WIN_FENCE(0, window, error)
  call MPI_GET(got, 10, MPI_INTEGER, next, value, 10, MPI_INTEGER, window, error)
  call MPI_WIN_FENCE(0, window, error)
  if (any(got /= 2 * mine)) wrong = wrong + 1
  ! A handle that MPI gives out again stands for the new type.
  value = 100
  do i = 2, 9
    call MPI_TYPE_VECTOR(5, 1, i, MPI_INTEGER, column, error)
    call MPI_TYPE_COMMIT(column, error)
    call MPI_PUT(mine, 5, MPI_INTEGER, next, value, 1, column, window, error)
    call MPI_WIN_FENCE(0, window, error)
    call MPI_TYPE_FREE(column, error)
    if (any(part(101:101 + 4 * i:i) /= [(previous * 100 + unit, unit = 1, 5)])) wrong = wrong + 1
    part(101:200) = -1
    call MPI_WIN_FENCE(0, window, error)
  end do
  call MPI_WIN_GET_ATTR(window, MPI_WIN_SIZE, value, found, error)
  if (.not. found .or. value /= 4000) wrong = wrong + 1
  call MPI_WIN_GET_ATTR(window, MPI_WIN_BASE, value, found, error)
  if (.not. found .or. value /= base) wrong = wrong + 1
  call MPI_WIN_GET_ATTR(window, MPI_WIN_CREATE_FLAVOR, value, found, error)
  if (.not. found .or. value /= MPI_WIN_FLAVOR_SHARED) wrong = wrong + 1
  call MPI_WIN_FREE(window, error)
  if (window /= MPI_WIN_NULL) wrong = wrong + 1
  print '(a,i0,a,i0,a)', 'rank ', rank, ': ', wrong, ' wrong'
  call MPI_FINALIZE(error)
end program
