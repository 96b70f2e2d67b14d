// onespace/sync/ghost_far.hpp: the inter-node part of ghost updates, by persistent MPI requests:
// the interface, and the variant in which each rank sends its own messages (section 5.3 of the
// paper, option 2). ghost_leaders.hpp has the other variant.
#ifndef ONESPACE_SYNC_GHOST_FAR_HPP
#define ONESPACE_SYNC_GHOST_FAR_HPP

#include "onespace/sync/ghost.hpp"
#include "onespace/sync/ghost_mpi_check.hpp"

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

    const ghost_communicator world;
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
