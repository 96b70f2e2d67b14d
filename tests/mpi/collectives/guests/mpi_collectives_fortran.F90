! mpi_collectives_fortran.F90: collective operations of ranks that are tasks of one space, through the module mpi_f08
! (-DF08) or mpif.h.
#ifdef F08
#define HANDLE(kind) type(kind)
#else
#define HANDLE(kind) integer
#endif
program collectives
#ifdef F08
  use mpi_f08
#endif
  implicit none
#ifndef F08
  include 'mpif.h'
#endif
  HANDLE(MPI_Op) :: own
  integer :: error, rank, ranks, wrong, i
  integer :: sums(3), all(64), counts(64), displs(64)
  real(8) :: numbers(20000), results(20000)
#ifdef F08
  procedure(MPI_User_function) :: add
#else
  external :: add
#endif
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  wrong = 0
  sums = [rank, 1, 2]
  call MPI_Allreduce(MPI_IN_PLACE, sums, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  if (any(sums /= [ranks * (ranks - 1) / 2, ranks, 2 * ranks])) wrong = wrong + 1
  call MPI_Allgather(rank, 1, MPI_INTEGER, all, 1, MPI_INTEGER, MPI_COMM_WORLD, error)
  if (any(all(1:ranks) /= [(i, i = 0, ranks - 1)])) wrong = wrong + 1
  results = rank
  call MPI_Bcast(results, 20000, MPI_DOUBLE_PRECISION, 1, MPI_COMM_WORLD, error)
  if (any(results /= 1)) wrong = wrong + 1
  call MPI_Op_create(add, .true., own, error)
  numbers = rank + 1
  call MPI_Reduce(numbers, results, 20000, MPI_DOUBLE_PRECISION, own, 0, MPI_COMM_WORLD, error)
  if (rank == 0 .and. any(results /= ranks * (ranks + 1) / 2)) wrong = wrong + 1
  call MPI_Op_free(own, error)
  counts = 1
  displs = [(2 * (i - 1), i = 1, 64)]
  all = -1
  call MPI_Gatherv(rank, 1, MPI_INTEGER, all, counts, displs, MPI_INTEGER, 0, MPI_COMM_WORLD, error)
  if (rank == 0 .and. any(all(1:2 * ranks:2) /= [(i, i = 0, ranks - 1)])) wrong = wrong + 1
  call MPI_Barrier(MPI_COMM_WORLD, error)
  print '(a,i0,a,i0,a)', 'rank ', rank, ': ', wrong, ' wrong'
  call MPI_Finalize(error)
end program

#ifdef F08
subroutine add(from, to, length, type)
  use, intrinsic :: iso_c_binding
  use mpi_f08
  implicit none
  type(c_ptr), value :: from, to
  integer :: length
  type(MPI_Datatype) :: type
  real(8), pointer :: a(:), b(:)
  call c_f_pointer(from, a, [length])
  call c_f_pointer(to, b, [length])
  if (type == MPI_DOUBLE_PRECISION) b = b + a
end subroutine
#else
subroutine add(from, to, length, type)
  implicit none
  integer :: length, type
  real(8) :: from(length), to(length)
  if (type /= 0) to = to + from
end subroutine
#endif
