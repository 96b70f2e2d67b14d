! mpi_collectives_f08.f90: collective operations of ranks that are tasks of one space, through the module mpi_f08.
program collectives
  use mpi_f08
  implicit none
  type(MPI_Op) :: own
  integer :: rank, ranks, wrong, i
  integer :: sums(3), all(64), counts(64), places(64)
  real(8) :: mine(20000), many(20000)
  procedure(MPI_User_function) :: add
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  wrong = 0
  sums = [rank, 1, 2]
  call MPI_Allreduce(MPI_IN_PLACE, sums, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (any(sums /= [ranks * (ranks - 1) / 2, ranks, 2 * ranks])) wrong = wrong + 1
  call MPI_Allgather(rank, 1, MPI_INTEGER, all, 1, MPI_INTEGER, MPI_COMM_WORLD)
  if (any(all(1:ranks) /= [(i, i = 0, ranks - 1)])) wrong = wrong + 1
  many = rank
  call MPI_Bcast(many, 20000, MPI_DOUBLE_PRECISION, 1, MPI_COMM_WORLD)
  if (any(many /= 1)) wrong = wrong + 1
  call MPI_Op_create(add, .true., own)
  mine = rank + 1
  call MPI_Reduce(mine, many, 20000, MPI_DOUBLE_PRECISION, own, 0, MPI_COMM_WORLD)
  if (rank == 0 .and. any(many /= ranks * (ranks + 1) / 2)) wrong = wrong + 1
  call MPI_Op_free(own)
  counts = 1
  places = [(2 * (i - 1), i = 1, 64)]
  all = -1
  call MPI_Gatherv(rank, 1, MPI_INTEGER, all, counts, places, MPI_INTEGER, 0, MPI_COMM_WORLD)
  if (rank == 0 .and. any(all(1:2 * ranks:2) /= [(i, i = 0, ranks - 1)])) wrong = wrong + 1
  call MPI_Barrier(MPI_COMM_WORLD)
  print '(a,i0,a,i0,a)', 'rank ', rank, ': ', wrong, ' wrong'
  call MPI_Finalize()
end program

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
