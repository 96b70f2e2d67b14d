// onespace/sync/collectives.hpp: broadcast, reduce, allreduce, gather, scatter, allgather over a
// team.
//
// Values and spans of trivially copyable types, with any associative operation. Data that fits a
// flag's payload (112 bytes) travels in the flag's own line; larger spans go through shared memory
// in pieces or, in a direct team, are read in place. Results are bitwise equal on all ranks.
// Operands are combined in rank order, unless `algorithm::tree` was requested with a commutative
// operation.
//
// Objects are created collectively; operations are collective and order memory: they see what was
// written before them. They throw peer_lost (see team::await), and std::invalid_argument for
// mismatched spans; that must happen on all ranks alike.
#ifndef ONESPACE_SYNC_COLLECTIVES_HPP
#define ONESPACE_SYNC_COLLECTIVES_HPP

#include <functional>
#include <optional>
#include <span>

#include "onespace/sync/barrier.hpp"
#include "onespace/sync/slots.hpp"

namespace onespace::sync
{

// The algorithm of small allreduces, reduces and broadcasts. All ranks must choose the same.
enum class algorithm {
    automatic, // flat if the ranks are few or share CPUs; else doubling or tree
    flat,      // each rank reads all others: one step
    doubling,  // recursive doubling, ceil(log2 n) steps
    tree,      // the paper's algorithm 3: up and down a tree that follows the machine's topology
};

// True for commutative operations. Specialise it for your own operations.
template <class Op> inline constexpr bool is_commutative = false;
template <class T> inline constexpr bool is_commutative<std::plus<T>> = true;
template <class T> inline constexpr bool is_commutative<std::multiplies<T>> = true;
template <class T> inline constexpr bool is_commutative<std::bit_and<T>> = true;
template <class T> inline constexpr bool is_commutative<std::bit_or<T>> = true;
template <class T> inline constexpr bool is_commutative<std::bit_xor<T>> = true;
template <class T> inline constexpr bool is_commutative<std::logical_and<T>> = true;
template <class T> inline constexpr bool is_commutative<std::logical_or<T>> = true;

struct minimum {
    template <class T> T operator()(const T &a, const T &b) const
    {
        return b < a ? b : a;
    }
};
struct maximum {
    template <class T> T operator()(const T &a, const T &b) const
    {
        return a < b ? b : a;
    }
};
template <> inline constexpr bool is_commutative<minimum> = true;
template <> inline constexpr bool is_commutative<maximum> = true;

template <class T>
concept transferable = std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T>;

template <order_policy Order = release_acquire, wait_policy Wait = adaptive> class collectives
{
  public:
    // Collective. `piece`: bytes of each of two shared buffers per rank for large spans; allocated
    // at the first large span, and never by direct teams.
    explicit collectives(const team &of, algorithm how = algorithm::automatic,
                         std::size_t piece = 64 << 10)
        : team_(of), slots_(of, doubling_channel + 2 + std::bit_width(unsigned(of.size()))),
          barrier_(of), how_(choose(how, of)), piece_(std::max(piece, line_size))
    {
    }

    // `op` over the values of all ranks, to all ranks.
    template <transferable T, class Op> T allreduce(const T &mine, Op op)
    {
        T result;
        allreduce(std::span(&mine, 1), std::span(&result, 1), op);
        return result;
    }
    // The same element by element. `in` and `out` may be the same memory, and have the same length,
    // on all ranks.
    template <transferable T, class Op>
    void allreduce(std::span<const T> in, std::span<T> out, Op op)
    {
        check(in.size() == out.size(), "allreduce: `in` and `out` differ in length");
        if (in.size_bytes() > small)
            return large_reduce(in, out, op, everybody);
        slots_.begin();
        if (how_ == algorithm::tree && is_commutative<Op>)
            reduce_up(in, out, op, 0), broadcast_down(out, 0);
        else if (how_ == algorithm::flat)
            reduce_flat(in, out, op);
        else
            reduce_doubling(in, out, op);
        slots_.end(true);
    }

    // `op` over the values of all ranks, to `root`; the others' result is their own value.
    template <transferable T, class Op> T reduce(const T &mine, Op op, int root)
    {
        T result = mine;
        reduce(std::span(&mine, 1), std::span(&result, 1), op, root);
        return result;
    }
    // `out` is significant at the root only.
    template <transferable T, class Op>
    void reduce(std::span<const T> in, std::span<T> out, Op op, int root)
    {
        bool is_root = team_.rank() == root;
        check(!is_root || in.size() == out.size(), "reduce: `in` and `out` differ in length");
        if (in.size_bytes() > small)
            return large_reduce(in, out, op, root);
        slots_.begin();
        if (how_ != algorithm::flat && is_commutative<Op>)
            reduce_up(in, out, op, root);
        else if (is_root)
            reduce_flat(in, out, op);
        else
            slots_.write(flat_channel, in.data(), in.size_bytes());
        slots_.end(is_root);
    }

    // The root's value, to all ranks.
    template <transferable T> T broadcast(const T &value, int root)
    {
        T result = value;
        broadcast(std::span(&result, 1), root);
        return result;
    }
    template <transferable T> void broadcast(std::span<T> data, int root)
    {
        if (data.size_bytes() > small)
            return large_broadcast(data, root);
        slots_.begin();
        if (how_ != algorithm::flat)
            broadcast_down(data, root);
        else if (team_.rank() == root)
            slots_.write(flat_channel, data.data(), data.size_bytes());
        else
            fetch(data, root, flat_channel);
        slots_.end(false);
    }

    // The values of all ranks, in rank order, to all ranks.
    template <transferable T> std::vector<T> allgather(const T &mine)
    {
        std::vector<T> all(team_.size());
        allgather(std::span(&mine, 1), std::span(all));
        return all;
    }
    // `in` has the same length on all ranks; `out` has room for all of them.
    template <transferable T> void allgather(std::span<const T> in, std::span<T> out)
    {
        gather_to(in, out, everybody);
    }
    // The same to `root` only; the others get nothing and need no room.
    template <transferable T> std::vector<T> gather(const T &mine, int root)
    {
        std::vector<T> all(team_.rank() == root ? team_.size() : 0);
        gather(std::span(&mine, 1), std::span(all), root);
        return all;
    }
    template <transferable T> void gather(std::span<const T> in, std::span<T> out, int root)
    {
        gather_to(in, out, root);
    }

    // Rank i gets the root's element i.
    template <transferable T> T scatter(std::span<const T> all, int root)
    {
        T result;
        scatter(all, std::span(&result, 1), root);
        return result;
    }
    // `out` has the same length on all ranks; the root's `in` holds that many for each of them.
    template <transferable T> void scatter(std::span<const T> in, std::span<T> out, int root);

    // A barrier in two halves: arrive_at returns at the root once all ranks have arrived, and the
    // others wait in release_from until the root calls it. In between the root may do work during
    // which all others must wait (see cluster.hpp).
    void arrive_at(int root)
    {
        char nothing = 0;
        std::span<char> none(&nothing, 0);
        reduce(std::span<const char>(none), none, std::bit_or<char>(), root);
    }
    void release_from(int root)
    {
        char nothing = 0;
        broadcast(std::span(&nothing, 0), root);
    }

    const sync::team &team() const noexcept
    {
        return team_;
    }

  private:
    static constexpr std::size_t small = detail::slots<Order, Wait>::room;
    static constexpr int everybody = -1;
    enum { flat_channel, up_channel, down_channel, doubling_channel };

    static void check(bool good, const char *what)
    {
        if (!good)
            throw std::invalid_argument(std::string("onespace::sync: ") + what);
    }
    static algorithm choose(algorithm how, const sync::team &of)
    {
        if (how != algorithm::automatic)
            return how;
        return of.oversubscribed() || of.size() <= 8 ? algorithm::flat : algorithm::doubling;
    }

    template <class T> void fetch(std::span<T> out, int rank, int channel)
    {
        const std::byte *found = slots_.read(rank, channel);
        if (!out.empty())
            std::memcpy(out.data(), found, out.size_bytes());
    }
    // out[i] = op(out[i], other's [i]), or op(other's [i], out[i]) if other_first.
    template <class T, class Op>
    void combine(std::span<T> out, int rank, int channel, bool other_first, Op &op)
    {
        const std::byte *found = slots_.read(rank, channel);
        for (std::size_t i = 0; i < out.size(); i++) {
            T other;
            std::memcpy(&other, found + i * sizeof(T), sizeof(T));
            out[i] = other_first ? op(other, out[i]) : op(out[i], other);
        }
    }
    template <class T, class Op> void reduce_flat(std::span<const T> in, std::span<T> out, Op &op);
    template <class T, class Op>
    void reduce_doubling(std::span<const T> in, std::span<T> out, Op &op);
    template <class T, class Op>
    void reduce_up(std::span<const T> in, std::span<T> out, Op &op, int root);
    template <class T> void broadcast_down(std::span<T> data, int root);
    template <class T> void gather_to(std::span<const T> in, std::span<T> out, int root);

    template <class T, class Op>
    void large_reduce(std::span<const T> in, std::span<T> out, Op &op, int root);
    template <class T> void large_broadcast(std::span<T> data, int root);
    template <class T> void large_gather(std::span<const T> in, std::span<T> out, int root);
    struct addresses {
        const void *in;
        void *out;
    };
    // The spans of T of all ranks while they are read; see large.hpp.
    template <class T> class exposed;

    const tree &tree_from(int root)
    {
        if (root != tree_root_)
            tree_ = tree_of(team_.places(), team_.rank(), tree_root_ = root);
        return tree_;
    }

    sync::team team_;
    detail::slots<Order, Wait> slots_;
    dissemination_barrier<Order, Wait> barrier_;
    algorithm how_;
    std::size_t piece_;
    std::optional<region> pieces_;
    tree tree_;
    int tree_root_ = -1;
};

} // namespace onespace::sync

#include "onespace/sync/small.hpp"
#include "onespace/sync/large.hpp"

#endif
