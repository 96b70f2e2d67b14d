! Two ranks: one MPI_Send of 40 bytes and two MPI_Isend of 8,000, in Fortran.
program mpi_sizes
   use mpi
   implicit none
   integer :: rank, other, error, i, request, status(MPI_STATUS_SIZE)
   double precision :: out(1000) = 1, into(1000)
   call MPI_Init(error)
   call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
   other = 1 - rank
   if (rank == 0) then
      call MPI_Send(out, 5, MPI_DOUBLE_PRECISION, other, 0, MPI_COMM_WORLD, error)
   else
      call MPI_Recv(into, 5, MPI_DOUBLE_PRECISION, other, 0, MPI_COMM_WORLD, status, error)
   end if
   do i = 1, 2
      call MPI_Isend(out, 1000, MPI_DOUBLE_PRECISION, other, i, MPI_COMM_WORLD, request, error)
      call MPI_Recv(into, 1000, MPI_DOUBLE_PRECISION, other, i, MPI_COMM_WORLD, status, error)
      call MPI_Wait(request, status, error)
   end do
   if (rank == 0) print '(a)', 'done 0'
   call MPI_Finalize(error)
end program
