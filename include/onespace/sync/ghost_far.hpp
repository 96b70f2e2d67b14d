// onespace/sync/ghost_far.hpp: the inter-node part of ghost updates, by persistent MPI requests:
// the interface, and the variant in which each rank sends its own messages (section 5.3 of the
// paper, option 2). ghost_leaders.hpp has the other variant.
#ifndef ONESPACE_SYNC_GHOST_FAR_HPP
#define ONESPACE_SYNC_GHOST_FAR_HPP

#include "onespace/sync/ghost.hpp"
#include "onespace/sync/mpi.hpp"

namespace onespace::sync::detail
{

// The checks of a team, through messages: the first fault of any rank is thrown on all.
class ghost_mpi_check
{
  public:
    ghost_mpi_check(const communicator &world, std::span<const ghost_neighbour> lists,
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
        return ghost_fault::of(ghost_fault::size_of_points, world_.rank, 0, point_bytes, of_first);
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
    const communicator &world_;
    std::span<const ghost_neighbour> lists_;
    const ghost_shape &shape_;
    std::vector<char> gives_ids_; // of each neighbour
};

} // namespace onespace::sync::detail

namespace onespace::sync::detail
{

// The exchange with neighbours that share no memory with the caller.
template <class T> class ghost_far
{
  public:
    explicit ghost_far(MPI_Comm over) : world(over)
    {
    }
    ghost_far(const ghost_far &) = delete;
    ghost_far &operator=(const ghost_far &) = delete;
    virtual ~ghost_far() = default;
    // Collective. `members`: the ranks of `world` that form the team; `lists` name ranks of `world`
    // that are not among them.
    virtual void connect(const team &node, const std::vector<int> &members,
                         std::span<const ghost_neighbour> lists, std::size_t values) = 0;
    virtual void begin(const T *vector) = 0;
    virtual void end(T *vector) = 0;

    const communicator world;
};

// An MPI datatype of all values of a point, so that messages may exceed 2 GiB.
class ghost_point_type
{
  public:
    explicit ghost_point_type(std::size_t bytes)
    {
        check_mpi(MPI_Type_contiguous(static_cast<int>(bytes), MPI_BYTE, &handle),
                  "MPI_Type_contiguous");
        check_mpi(MPI_Type_commit(&handle), "MPI_Type_commit");
    }
    ghost_point_type(const ghost_point_type &) = delete;
    ~ghost_point_type()
    {
        MPI_Type_free(&handle); // requests keep a reference
    }
    MPI_Datatype handle;
};

inline void ghost_start(std::vector<MPI_Request> &requests)
{
    if (!requests.empty())
        check_mpi(MPI_Startall(static_cast<int>(requests.size()), requests.data()), "MPI_Startall");
}
inline void ghost_wait(std::vector<MPI_Request> &requests)
{
    check_mpi(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE),
              "MPI_Waitall");
}
inline void ghost_free(std::vector<MPI_Request> &requests)
{
    int finalized = 0;
    MPI_Finalized(&finalized);
    for (auto &request : requests)
        if (!finalized)
            MPI_Request_free(&request);
}

// Messages are packed: the caller's vector may differ from update to update, but the buffers of
// persistent requests are fixed.
template <class T> class ghost_messages : public ghost_far<T>
{
  public:
    using ghost_far<T>::ghost_far;
    ~ghost_messages() override
    {
        ghost_free(receives_.requests);
        ghost_free(sends_.requests);
    }
    void connect(const team &, const std::vector<int> &, std::span<const ghost_neighbour> lists,
                 std::size_t values) override
    {
        ghost_point_type point(values * sizeof(T));
        auto count = [](const auto &of) { return static_cast<int>(of.size()); };
        for (const auto &with : lists) {
            if (!with.receive.empty()) {
                T *buffer = receives_.add(with.receive, values);
                check_mpi(MPI_Recv_init(buffer, count(with.receive), point.handle, with.rank, 1,
                                        this->world.handle, &receives_.requests.back()),
                          "MPI_Recv_init");
            }
            if (!with.send.empty()) {
                T *buffer = sends_.add(with.send, values);
                check_mpi(MPI_Send_init(buffer, count(with.send), point.handle, with.rank, 1,
                                        this->world.handle, &sends_.requests.back()),
                          "MPI_Send_init");
            }
        }
    }
    void begin(const T *vector) override
    {
        ghost_start(receives_.requests);
        for (std::size_t i = 0; i < sends_.requests.size(); i++) {
            sends_.points[i].pack(sends_.buffers[i].data(), vector);
            check_mpi(MPI_Start(&sends_.requests[i]), "MPI_Start");
        }
    }
    void end(T *vector) override
    {
        auto &requests = receives_.requests;
        for (std::size_t left = requests.size(); left > 0; left--) {
            int i;
            check_mpi(MPI_Waitany(static_cast<int>(requests.size()), requests.data(), &i,
                                  MPI_STATUS_IGNORE),
                      "MPI_Waitany");
            receives_.points[i].unpack(vector, receives_.buffers[i].data());
        }
        ghost_wait(sends_.requests);
    }

  private:
    struct messages {
        T *add(const std::vector<int> &list, std::size_t values)
        {
            points.emplace_back(list, values);
            requests.push_back(MPI_REQUEST_NULL);
            return buffers.emplace_back(list.size() * values).data();
        }
        std::vector<ghost_points> points;
        std::vector<std::vector<T>> buffers;
        std::vector<MPI_Request> requests;
    };
    messages receives_, sends_;
};

} // namespace onespace::sync::detail

#endif
