# bench/applications/sums.R: moments of numbers that all ranks have parts of, with Rmpi: vectors are summed, objects
# broadcast and gathered, and neighbours exchange vectors. `sums.ini` holds numbers for each rank, and repetitions.
library(Rmpi)
given <- scan("sums.ini", quiet = TRUE)
rank <- mpi.comm.rank(0)
size <- mpi.comm.size(0)
right <- (rank + 1) %% size
left <- (rank - 1) %% size
numbers <- sin(seq_len(given[1]) + rank)
for (step in seq_len(given[2])) {
    total <- mpi.allreduce(numbers, type = 2, op = "sum", comm = 0)
    if (rank %% 2 == 0) {
        mpi.send(numbers, type = 2, dest = right, tag = step, comm = 0)
        other <- mpi.recv(double(given[1]), type = 2, source = left, tag = step, comm = 0)
    } else {
        other <- mpi.recv(double(given[1]), type = 2, source = left, tag = step, comm = 0)
        mpi.send(numbers, type = 2, dest = right, tag = step, comm = 0)
    }
    scale <- list(by = max(abs(total)))
    if (rank == 0) mpi.bcast.Robj(scale, rank = 0, comm = 0) else scale <- mpi.bcast.Robj(rank = 0, comm = 0)
    numbers <- (numbers + other) / (1 + scale$by) + cos(step * numbers)
}
parts <- mpi.gather.Robj(c(mean(numbers), var(numbers)), root = 0, comm = 0)
if (rank == 0)
    cat(sprintf("mean %.15e\nvariance %.15e\n", mean(total), var(total)),
        sprintf("of the ranks %.15e\n", sum(abs(unlist(parts)))), sep = "")
invisible(mpi.barrier(0))
mpi.quit()
