// onespace/sync/cluster.hpp: ranks on several nodes: a team per node, and the teams' leaders.
//
// Section 5 of the paper: shared memory within a node, MPI between nodes, by one rank per node. The
// communicators are created once.
#ifndef ONESPACE_SYNC_CLUSTER_HPP
#define ONESPACE_SYNC_CLUSTER_HPP

#include <algorithm>
#include <climits>

#include "onespace/sync/collectives.hpp"
#include "onespace/sync/mpi.hpp"

namespace onespace::sync
{
namespace detail
{

// MPI's handle for a type or an operation, or the null handle if it has none.
template <class T> MPI_Datatype mpi_type()
{
    if constexpr (std::is_same_v<T, double>)
        return MPI_DOUBLE;
    else if constexpr (std::is_same_v<T, float>)
        return MPI_FLOAT;
    else if constexpr (std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) == 8)
        return MPI_INT64_T;
    else if constexpr (std::is_integral_v<T> && std::is_unsigned_v<T> && sizeof(T) == 8)
        return MPI_UINT64_T;
    else if constexpr (std::is_same_v<T, int>)
        return MPI_INT;
    else
        return MPI_DATATYPE_NULL;
}
template <class T, class Op> MPI_Op mpi_operation()
{
    if constexpr (std::is_same_v<Op, std::plus<T>> || std::is_same_v<Op, std::plus<>>)
        return MPI_SUM;
    else if constexpr (std::is_same_v<Op, std::multiplies<T>> ||
                       std::is_same_v<Op, std::multiplies<>>)
        return MPI_PROD;
    else if constexpr (std::is_same_v<Op, minimum>)
        return MPI_MIN;
    else if constexpr (std::is_same_v<Op, maximum>)
        return MPI_MAX;
    else
        return MPI_OP_NULL;
}

} // namespace detail

// The distribution of ranks over nodes. Objects made from it share its state, so it need not
// outlive them.
class cluster
{
  public:
    // Collective over `world`, which is duplicated.
    explicit cluster(MPI_Comm world)
        : made_(std::make_shared<parts>(world)), node_(from_mpi(made_->world.handle))
    {
        auto &all = *made_;
        int rank = all.world.rank, size = all.world.size;
        detail::check_mpi(MPI_Comm_split(all.world.handle, node_.rank() == 0 ? 0 : MPI_UNDEFINED,
                                         rank, &all.leaders.handle),
                          "MPI_Comm_split");
        int leader_and_local[2] = {node_.exchange(rank)[0], node_.rank()};
        std::vector<int> everybodys(2 * size);
        detail::check_mpi(MPI_Allgather(leader_and_local, 2, MPI_INT, everybodys.data(), 2, MPI_INT,
                                        all.world.handle),
                          "MPI_Allgather");
        for (int i = 0; i < size; i++) {
            all.local.push_back(everybodys[2 * i] == leader_and_local[0] ? everybodys[2 * i + 1]
                                                                         : -1);
            all.nodes += everybodys[2 * i] == i;
        }
    }
    // The ranks on the caller's node. Its rank 0 is the leader.
    const team &node() const noexcept
    {
        return node_;
    }
    int nodes() const noexcept
    {
        return made_->nodes;
    }
    // The rank in node() of a rank of the world; -1: it is on another node.
    int local(int world_rank) const
    {
        return made_->local[world_rank];
    }
    // The duplicate of the communicator that the cluster was made from.
    MPI_Comm world() const noexcept
    {
        return made_->world.handle;
    }
    // The leaders, in the order of their ranks in the world; MPI_COMM_NULL for the others.
    MPI_Comm leaders() const noexcept
    {
        return made_->leaders.handle;
    }

  private:
    struct parts {
        explicit parts(MPI_Comm from) : world(from)
        {
        }
        detail::communicator world, leaders;
        std::vector<int> local;
        int nodes = 0;
    };
    std::shared_ptr<parts> made_;
    team node_;
};

// The paper's algorithms 9 and 10. Created collectively; operations are collective over the
// cluster.
template <wait_policy Wait = adaptive> class cluster_collectives
{
  public:
    explicit cluster_collectives(const cluster &over)
        : cluster_(over), node_(over.node()), barrier_(over.node())
    {
    }
    void barrier()
    {
        if (cluster_.nodes() == 1)
            return barrier_.wait();
        node_.arrive_at(0);
        if (cluster_.leaders() != MPI_COMM_NULL)
            detail::check_mpi(MPI_Barrier(cluster_.leaders()), "MPI_Barrier");
        node_.release_from(0);
    }
    // Combines in the order of ranks within each node, then in the order of the leaders. Between
    // nodes, sum, product, minimum and maximum of common types use MPI_Allreduce; for others the
    // leaders combine.
    template <transferable T, class Op> T allreduce(const T &mine, Op op)
    {
        T result;
        allreduce(std::span(&mine, 1), std::span(&result, 1), op);
        return result;
    }
    template <transferable T, class Op>
    void allreduce(std::span<const T> in, std::span<T> out, Op op)
    {
        if (cluster_.nodes() == 1)
            return node_.allreduce(in, out, op);
        node_.reduce(in, out, op, 0);
        if (cluster_.leaders() != MPI_COMM_NULL)
            between_nodes(out, op);
        node_.broadcast(out, 0);
    }

  private:
    // In pieces whose bytes MPI can count with an int.
    template <class T, class Op> void between_nodes(std::span<T> data, Op &op)
    {
        constexpr std::size_t most = INT_MAX / sizeof(T);
        for (std::size_t at = 0; at < data.size(); at += most)
            piece_between_nodes(data.subspan(at, std::min(most, data.size() - at)), op);
    }
    template <class T, class Op> void piece_between_nodes(std::span<T> data, Op &op)
    {
        auto count = static_cast<int>(data.size());
        auto type = detail::mpi_type<T>();
        auto operation = detail::mpi_operation<T, Op>();
        if (type != MPI_DATATYPE_NULL && operation != MPI_OP_NULL) {
            detail::check_mpi(MPI_Allreduce(MPI_IN_PLACE, data.data(), count, type, operation,
                                            cluster_.leaders()),
                              "MPI_Allreduce");
            return;
        }
        auto bytes = static_cast<int>(data.size_bytes());
        std::vector<T> all(data.size() * cluster_.nodes());
        detail::check_mpi(MPI_Allgather(data.data(), bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE,
                                        cluster_.leaders()),
                          "MPI_Allgather");
        std::copy_n(all.begin(), data.size(), data.begin());
        for (std::size_t i = data.size(); i < all.size(); i++)
            data[i % data.size()] = op(data[i % data.size()], all[i]);
    }
    cluster cluster_;
    collectives<Wait> node_;
    sync::barrier<Wait> barrier_;
};

} // namespace onespace::sync

#endif
