! mpi_collectives_mpif.f90: collective operations of ranks that are tasks of one space, through mpif.h.
program collectives
  implicit none
  include 'mpif.h'
  integer :: own, error, rank, ranks, wrong, i
  integer :: sums(3), all(64), counts(64), places(64)
  real(8) :: mine(20000), many(20000)
  external :: add
  call MPI_INIT(error)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, error)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, error)
  wrong = 0
  sums = [rank, 1, 2]
  call MPI_ALLREDUCE(MPI_IN_PLACE, sums, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  if (any(sums /= [ranks * (ranks - 1) / 2, ranks, 2 * ranks])) wrong = wrong + 1
  call MPI_ALLGATHER(rank, 1, MPI_INTEGER, all, 1, MPI_INTEGER, MPI_COMM_WORLD, error)
  if (any(all(1:ranks) /= [(i, i = 0, ranks - 1)])) wrong = wrong + 1
  many = rank
  call MPI_BCAST(many, 20000, MPI_DOUBLE_PRECISION, 1, MPI_COMM_WORLD, error)
  if (any(many /= 1)) wrong = wrong + 1
  call MPI_OP_CREATE(add, .true., own, error)
  mine = rank + 1
  call MPI_REDUCE(mine, many, 20000, MPI_DOUBLE_PRECISION, own, 0, MPI_COMM_WORLD, error)
  if (rank == 0 .and. any(many /= ranks * (ranks + 1) / 2)) wrong = wrong + 1
  call MPI_OP_FREE(own, error)
  counts = 1
  places = [(2 * (i - 1), i = 1, 64)]
  all = -1
  call MPI_GATHERV(rank, 1, MPI_INTEGER, all, counts, places, MPI_INTEGER, 0, MPI_COMM_WORLD, error)
  if (rank == 0 .and. any(all(1:2 * ranks:2) /= [(i, i = 0, ranks - 1)])) wrong = wrong + 1
  call MPI_BARRIER(MPI_COMM_WORLD, error)
  print '(a,i0,a,i0,a)', 'rank ', rank, ': ', wrong, ' wrong'
  call MPI_FINALIZE(error)
end program

subroutine add(from, to, length, type)
  implicit none
  integer :: length, type
  real(8) :: from(length), to(length)
  if (type /= 0) to = to + from
end subroutine
