// onespace/sync/ghost_mpi.hpp: ghost update among all ranks of an MPI communicator: within a node
// by a ghost_plan of its team, between nodes by persistent MPI requests, overlapped (section 5.3 of
// the paper).
#ifndef ONESPACE_SYNC_GHOST_MPI_HPP
#define ONESPACE_SYNC_GHOST_MPI_HPP

#include "onespace/sync/ghost_leaders.hpp"

namespace onespace::sync
{

// Which ranks send messages to other nodes; the same on all ranks.
enum class ghost_speaker {
    each,   // every rank its own: many small messages; the paper found this faster
    leader, // rank 0 of the team for all of them: one message per pair of nodes
};

// As ghost_plan, for the ranks of a communicator instead of those of a team.
template <class T, wait_policy Wait = adaptive> class mpi_ghost_plan
{
  public:
    // Collective over the communicator, which is duplicated. `lists` name its ranks. Throws
    // ghost_error on all ranks if a list is wrong on any, std::invalid_argument on all if they name
    // different speakers, and std::runtime_error with the MPI's text if its error handler returns.
    mpi_ghost_plan(MPI_Comm over, std::span<const ghost_neighbour> lists, const ghost_shape &shape,
                   ghost_path path = ghost_path::automatic,
                   ghost_speaker speaker = ghost_speaker::each)
        : mpi_ghost_plan(over, from_mpi(over), lists, shape, path, speaker)
    {
    }
    // The same with an existing team of ranks of the communicator that share memory, for instance
    // those of a node or of a socket. Others are reached through MPI. Every rank is in one team.
    mpi_ghost_plan(MPI_Comm over, const team &node, std::span<const ghost_neighbour> lists,
                   const ghost_shape &shape, ghost_path path = ghost_path::automatic,
                   ghost_speaker speaker = ghost_speaker::each)
        : far_(choose(over, speaker)), node_(node, split(node, lists, shape, speaker), shape, path)
    {
    }
    mpi_ghost_plan(mpi_ghost_plan &&) noexcept = default;
    // Collective, before MPI_Finalize.
    ~mpi_ghost_plan()
    {
        if (started_) // after the loss of a peer the MPI may still write to the buffers
            (void)far_.release();
    }

    // See ghost_plan. Between `begin` and `end` messages advance only if the MPI has asynchronous
    // progress, since a rank that waits for another on its node does not call the MPI. With
    // leaders, `begin` may wait for the leader's previous `end`, and `end` for `begin` of the whole
    // node.
    void update(std::span<T> vector)
    {
        begin(vector);
        end();
    }
    void begin(std::span<T> vector)
    {
        node_.check(vector);
        started_ = true;
        vector_ = vector.data();
        far_->begin(vector_);
        node_.begin(vector);
    }
    void end()
    {
        // Messages first: that wait makes MPI progress, whereas data published by neighbours on the
        // node needs none.
        try {
            far_->end(vector_);
        } catch (...) {
            node_.end(); // no neighbour reads the vector any more
            throw;
        }
        node_.end();
        started_ = false;
    }
    // True if neighbours on the node read the vector in place.
    bool direct() const noexcept
    {
        return node_.direct();
    }

  private:
    static std::unique_ptr<detail::ghost_far<T>> choose(MPI_Comm over, ghost_speaker speaker)
    {
        if (speaker == ghost_speaker::leader)
            return std::make_unique<detail::ghost_leaders<T, Wait>>(over);
        return std::make_unique<detail::ghost_messages<T>>(over);
    }
    // Checks all lists, keeps the inter-node ones, and returns the intra-node ones with the ranks
    // of the team.
    std::vector<ghost_neighbour> split(const team &node, std::span<const ghost_neighbour> lists,
                                       const ghost_shape &shape, ghost_speaker speaker)
    {
        const auto &world = far_->world;
        detail::ghost_mpi_check(world, lists, shape, shape.values * sizeof(T));
        check(world, speaker);
        auto members = node.exchange(world.rank);
        std::vector<ghost_neighbour> on_node, remote;
        for (const auto &with : lists) {
            auto at = std::find(members.begin(), members.end(), with.rank);
            if (at == members.end())
                remote.push_back(with);
            else
                on_node.push_back(
                    {static_cast<int>(at - members.begin()), with.send, with.receive});
        }
        far_->connect(node, members, remote, shape.values);
        return on_node;
    }
    static void check(const detail::communicator &world, ghost_speaker speaker)
    {
        int lowest_and_highest[2] = {static_cast<int>(speaker), -static_cast<int>(speaker)};
        detail::check_mpi(
            MPI_Allreduce(MPI_IN_PLACE, lowest_and_highest, 2, MPI_INT, MPI_MIN, world.handle),
            "MPI_Allreduce");
        if (lowest_and_highest[0] != -lowest_and_highest[1])
            throw std::invalid_argument(
                "onespace::sync::mpi_ghost_plan: some ranks want ghost_speaker::leader and some "
                "ghost_speaker::each: give the same on all");
    }
    std::unique_ptr<detail::ghost_far<T>> far_;
    ghost_plan<T, Wait> node_;
    T *vector_ = nullptr; // of the update that has begun
    bool started_ = false;
};

} // namespace onespace::sync

#endif
