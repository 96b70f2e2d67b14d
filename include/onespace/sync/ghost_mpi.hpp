// onespace/sync/ghost_mpi.hpp: ghost update among all ranks of an MPI communicator: within a node
// by a ghost_plan of its team, between nodes by persistent MPI requests, overlapped.
//
// Section 5.3 of the paper, its option 2: each rank speaks for itself with ranks on other nodes,
// which the paper found faster than leaders that gather everything.
#ifndef ONESPACE_SYNC_GHOST_MPI_HPP
#define ONESPACE_SYNC_GHOST_MPI_HPP

#include "onespace/sync/ghost.hpp"
#include "onespace/sync/ghost_mpi_check.hpp"

namespace onespace::sync
{
namespace detail
{

// What a rank exchanges with those that it shares no memory with. Messages are packed, since the
// caller's vector may be another one each time, and persistent requests keep their buffers.
template <class T> class ghost_messages
{
  public:
    explicit ghost_messages(MPI_Comm over) : world_(over)
    {
    }
    ghost_messages(const ghost_messages &) = delete;
    ghost_messages &operator=(const ghost_messages &) = delete;
    ~ghost_messages()
    {
        int finalized = 0;
        MPI_Finalized(&finalized);
        if (finalized)
            return;
        for (auto *list : {&receives_, &sends_})
            for (auto &request : list->requests)
                MPI_Request_free(&request);
    }
    const ghost_communicator &world() const noexcept
    {
        return world_;
    }
    void add(const ghost_neighbour &with, std::size_t values)
    {
        MPI_Datatype point;
        check_mpi(MPI_Type_contiguous(static_cast<int>(values * sizeof(T)), MPI_BYTE, &point),
                  "MPI_Type_contiguous");
        check_mpi(MPI_Type_commit(&point), "MPI_Type_commit");
        auto count = [](const auto &of) { return static_cast<int>(of.size()); };
        if (!with.receive.empty()) {
            T *buffer = receives_.add(with.receive, values);
            check_mpi(MPI_Recv_init(buffer, count(with.receive), point, with.rank, 1, world_.handle,
                                    &receives_.requests.back()),
                      "MPI_Recv_init");
        }
        if (!with.send.empty()) {
            T *buffer = sends_.add(with.send, values);
            check_mpi(MPI_Send_init(buffer, count(with.send), point, with.rank, 1, world_.handle,
                                    &sends_.requests.back()),
                      "MPI_Send_init");
        }
        MPI_Type_free(&point); // the requests keep it
    }
    void begin(const T *vector)
    {
        if (!receives_.requests.empty())
            check_mpi(MPI_Startall(receives_.count(), receives_.requests.data()), "MPI_Startall");
        for (std::size_t i = 0; i < sends_.requests.size(); i++) {
            sends_.points[i].pack(sends_.buffers[i].data(), vector);
            check_mpi(MPI_Start(&sends_.requests[i]), "MPI_Start");
        }
    }
    void end(T *vector)
    {
        for (int left = receives_.count(); left > 0; left--) {
            int i;
            check_mpi(
                MPI_Waitany(receives_.count(), receives_.requests.data(), &i, MPI_STATUS_IGNORE),
                "MPI_Waitany");
            receives_.points[i].unpack(vector, receives_.buffers[i].data());
        }
        check_mpi(MPI_Waitall(sends_.count(), sends_.requests.data(), MPI_STATUSES_IGNORE),
                  "MPI_Waitall");
    }

  private:
    struct messages {
        T *add(const std::vector<int> &list, std::size_t values)
        {
            points.emplace_back(list, values);
            requests.push_back(MPI_REQUEST_NULL);
            return buffers.emplace_back(list.size() * values).data();
        }
        int count() const
        {
            return static_cast<int>(requests.size());
        }
        std::vector<ghost_points> points;
        std::vector<std::vector<T>> buffers;
        std::vector<MPI_Request> requests;
    };
    ghost_communicator world_;
    messages receives_, sends_;
};

} // namespace detail

// As ghost_plan, for the ranks of a communicator instead of those of a team.
template <class T, order_policy Order = release_acquire, wait_policy Wait = adaptive>
class mpi_ghost_plan
{
  public:
    // Collective over the communicator, of which a copy is kept. `lists` name its ranks. Throws
    // ghost_error on all ranks if a list is wrong on any, and std::runtime_error with the MPI's
    // text if its error handler returns.
    mpi_ghost_plan(MPI_Comm over, std::span<const ghost_neighbour> lists, const ghost_shape &shape,
                   ghost_path path = ghost_path::automatic)
        : mpi_ghost_plan(over, from_mpi(over), lists, shape, path)
    {
    }
    // The same with a team that there is already: ranks of the communicator that share memory, be
    // it all of a node or those of a socket. Others are reached through MPI. Every rank has one.
    mpi_ghost_plan(MPI_Comm over, const team &node, std::span<const ghost_neighbour> lists,
                   const ghost_shape &shape, ghost_path path = ghost_path::automatic)
        : messages_(std::make_unique<detail::ghost_messages<T>>(over)),
          node_(node, split(node, lists, shape), shape, path)
    {
    }
    mpi_ghost_plan(mpi_ghost_plan &&) noexcept = default;
    // Collective, before MPI_Finalize.
    ~mpi_ghost_plan()
    {
        if (started_) // a peer was lost: the MPI may still write to the buffers
            (void)messages_.release();
    }

    // See ghost_plan. Messages are on their way between `begin` and `end` as far as the MPI makes
    // progress by itself; a rank that waits for another on its node does not call it.
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
        messages_->begin(vector_);
        node_.begin(vector);
    }
    void end()
    {
        node_.end();
        messages_->end(vector_);
        started_ = false;
    }
    // Whether neighbours on the node read the vector itself.
    bool direct() const noexcept
    {
        return node_.direct();
    }

  private:
    // Checks all lists, keeps what goes through messages, and returns the rest with the ranks of
    // the team.
    std::vector<ghost_neighbour> split(const team &node, std::span<const ghost_neighbour> lists,
                                       const ghost_shape &shape)
    {
        const auto &world = messages_->world();
        detail::ghost_mpi_check(world, lists, shape, shape.values * sizeof(T));
        auto members = node.exchange(world.rank);
        std::vector<ghost_neighbour> near;
        for (const auto &with : lists) {
            auto at = std::find(members.begin(), members.end(), with.rank);
            if (at == members.end())
                messages_->add(with, shape.values);
            else
                near.push_back({static_cast<int>(at - members.begin()), with.send, with.receive});
        }
        return near;
    }
    std::unique_ptr<detail::ghost_messages<T>> messages_;
    ghost_plan<T, Order, Wait> node_;
    T *vector_ = nullptr;
    bool started_ = false;
};

} // namespace onespace::sync

#endif
