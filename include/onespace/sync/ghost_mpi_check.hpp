// onespace/sync/ghost_mpi_check.hpp: checks that the ghost lists of all ranks of a communicator
// match.
#ifndef ONESPACE_SYNC_GHOST_MPI_CHECK_HPP
#define ONESPACE_SYNC_GHOST_MPI_CHECK_HPP

#include "onespace/sync/ghost_lists.hpp"
#include "onespace/sync/mpi.hpp"

namespace onespace::sync::detail
{

// A communicator that is freed with its owner, unless MPI has ended before.
class ghost_communicator
{
  public:
    explicit ghost_communicator(MPI_Comm of)
    {
        check_mpi(MPI_Comm_dup(of, &handle), "MPI_Comm_dup");
        check_mpi(MPI_Comm_rank(handle, &rank), "MPI_Comm_rank");
        check_mpi(MPI_Comm_size(handle, &size), "MPI_Comm_size");
    }
    ghost_communicator(ghost_communicator &&other) noexcept
        : handle(std::exchange(other.handle, MPI_COMM_NULL)), rank(other.rank), size(other.size)
    {
    }
    ~ghost_communicator()
    {
        int finalized = 0;
        MPI_Finalized(&finalized);
        if (handle != MPI_COMM_NULL && !finalized)
            MPI_Comm_free(&handle);
    }
    MPI_Comm handle = MPI_COMM_NULL;
    int rank = 0, size = 0;
};

// The checks of a team, through messages: the first fault of any rank is thrown on all.
class ghost_mpi_check
{
  public:
    ghost_mpi_check(const ghost_communicator &world, std::span<const ghost_neighbour> lists,
                    const ghost_shape &shape, std::size_t point_bytes)
        : world_(world), lists_(lists), shape_(shape)
    {
        throw_together(ghost_local_check(world_.rank, world_.size, lists, shape).find());
        throw_together(compare_sizes(point_bytes));
        throw_together(compare_counts());
        throw_together(compare_ids());
    }

  private:
    void throw_together(const ghost_fault &mine) const
    {
        std::vector<ghost_fault> all(world_.size);
        check_mpi(MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, all.data(), sizeof(mine), MPI_BYTE,
                                world_.handle),
                  "MPI_Allgather");
        throw_first(all);
    }
    ghost_fault compare_sizes(std::size_t point_bytes) const
    {
        std::uint64_t of_first = point_bytes;
        check_mpi(MPI_Bcast(&of_first, 1, MPI_UINT64_T, 0, world_.handle), "MPI_Bcast");
        if (of_first == point_bytes)
            return {};
        return {ghost_fault::size_of_points,
                {},
                world_.rank,
                0,
                -1,
                static_cast<std::int64_t>(point_bytes),
                static_cast<std::int64_t>(of_first)};
    }
    // All to all, since a rank must also learn that a neighbour does not list it.
    ghost_fault compare_counts()
    {
        struct counts {
            int sent, expected, ids;
        };
        std::vector<counts> mine(world_.size), theirs(world_.size);
        for (const auto &with : lists_)
            mine[with.rank] = {static_cast<int>(with.send.size()),
                               static_cast<int>(with.receive.size()), !shape_.ids.empty()};
        check_mpi(MPI_Alltoall(mine.data(), 3, MPI_INT, theirs.data(), 3, MPI_INT, world_.handle),
                  "MPI_Alltoall");
        ghost_fault fault;
        for (const auto &with : lists_)
            gives_ids_.push_back(theirs[with.rank].ids);
        for (int i = 0; i < world_.size && !fault.kind; i++)
            fault = compare_lists(world_.rank, i, mine[i].sent, theirs[i].expected);
        for (int i = 0; i < world_.size && !fault.kind; i++)
            fault = compare_lists(i, world_.rank, theirs[i].sent, mine[i].expected);
        return fault;
    }
    // The counts agree, so every message has a matching receive.
    ghost_fault compare_ids() const
    {
        std::vector<std::vector<std::int64_t>> buffers(2 * lists_.size());
        std::vector<MPI_Request> requests;
        for (std::size_t i = 0; i < lists_.size(); i++) {
            const auto &with = lists_[i];
            auto &theirs = buffers[2 * i], &mine = buffers[2 * i + 1];
            theirs.resize(gives_ids_[i] ? with.receive.size() : 0);
            mine = ids_of(with.send, shape_);
            auto count = [](const auto &of) { return static_cast<int>(of.size()); };
            if (!theirs.empty())
                check_mpi(MPI_Irecv(theirs.data(), count(theirs), MPI_INT64_T, with.rank, 0,
                                    world_.handle, &requests.emplace_back()),
                          "MPI_Irecv");
            if (!mine.empty())
                check_mpi(MPI_Isend(mine.data(), count(mine), MPI_INT64_T, with.rank, 0,
                                    world_.handle, &requests.emplace_back()),
                          "MPI_Isend");
        }
        check_mpi(
            MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE),
            "MPI_Waitall");
        ghost_fault fault;
        for (std::size_t i = 0; i < lists_.size() && !fault.kind; i++) {
            auto count = lists_[i].receive.size();
            fault = compare_lists(lists_[i].rank, world_.rank, count, count, buffers[2 * i],
                                  ids_of(lists_[i].receive, shape_));
        }
        return fault;
    }
    const ghost_communicator &world_;
    std::span<const ghost_neighbour> lists_;
    const ghost_shape &shape_;
    std::vector<char> gives_ids_; // of each neighbour
};

} // namespace onespace::sync::detail

#endif
