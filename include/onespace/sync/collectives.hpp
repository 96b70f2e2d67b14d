// onespace/sync/collectives.hpp: broadcast, reduce, allreduce, gather, scatter, allgather over a
// team.
//
// Values and spans of trivially copyable types, with any associative operation. Data that fits a
// flag's payload (112 bytes) travels in the flag's own line; larger spans go through shared memory
// in pieces or, in a direct team, are read in place. Results are bitwise equal on all ranks.
// Operands are combined in rank order, unless a commutative operation goes up a tree: with
// `algorithm::tree`, and with `doubling` to one rank up to 2,048 bytes and to all ranks from 113 to
// 512 bytes.
//
// Objects are created collectively; operations are collective and order memory: they see what was
// written before them. They throw peer_lost (see team::await), and std::invalid_argument for
// mismatched spans; that must happen on all ranks alike.
#ifndef ONESPACE_SYNC_COLLECTIVES_HPP
#define ONESPACE_SYNC_COLLECTIVES_HPP

#include <algorithm>
#include <chrono>
#include <functional>
#include <span>

#include "onespace/sync/barrier.hpp"
#include "onespace/sync/engine.hpp"

namespace onespace::sync
{

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

template <wait_policy Wait = adaptive> class collectives
{
  public:
    // Collective. `piece`: bytes of each of two shared buffers per rank for large spans; allocated
    // at the first large span, and never by direct teams.
    explicit collectives(const team &of, algorithm how = algorithm::automatic,
                         std::size_t piece = 64 << 10)
        : engine_(member(of), how, piece), piece_(std::max(piece, line_size))
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
        reduce_to(in, out, op, all_ranks);
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
        check(team().rank() != root || in.size() == out.size(),
              "reduce: `in` and `out` differ in length");
        reduce_to(in, out, op, root);
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
        engine_.broadcast(data.data(), data.size_bytes(), root);
    }

    // The values of all ranks, in rank order, to all ranks.
    template <transferable T> std::vector<T> allgather(const T &mine)
    {
        std::vector<T> all(team().size());
        allgather(std::span(&mine, 1), std::span(all));
        return all;
    }
    // `in` has the same length on all ranks; `out` has room for all of them.
    template <transferable T> void allgather(std::span<const T> in, std::span<T> out)
    {
        gather_to(in, out, all_ranks);
    }
    // The same to `root` only; the others get nothing and need no room.
    template <transferable T> std::vector<T> gather(const T &mine, int root)
    {
        std::vector<T> all(team().rank() == root ? team().size() : 0);
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
    template <transferable T> void scatter(std::span<const T> in, std::span<T> out, int root)
    {
        check(team().rank() != root || in.size() >= out.size() * team().size(),
              "scatter: `in` lacks parts");
        engine_.scatter(in.data(), out.data(), out.size_bytes(), root);
    }

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
        return engine_.member().team();
    }

  private:
    using member = detail::team_member<Wait>;
    static constexpr int all_ranks = detail::engine<member>::all_ranks;

    static void check(bool good, const char *what)
    {
        if (!good)
            throw std::invalid_argument(std::string("onespace::sync: ") + what);
    }

    template <class T, class Op>
    void reduce_to(std::span<const T> in, std::span<T> out, Op &op, int root)
    {
        check(sizeof(T) <= piece_ || team().direct(),
              "an element is larger than a piece of shared memory: make `piece` larger");
        auto combine = [&op](void *into, const void *from, std::size_t bytes, bool from_is_first) {
            auto *to = static_cast<std::byte *>(into);
            auto *other = static_cast<const std::byte *>(from);
            for (std::size_t at = 0; at < bytes; at += sizeof(T)) {
                T a, b;
                std::memcpy(&a, to + at, sizeof(T));
                std::memcpy(&b, other + at, sizeof(T));
                a = from_is_first ? op(b, a) : op(a, b);
                std::memcpy(to + at, &a, sizeof(T));
            }
        };
        engine_.reduce(in.data(), out.data(), in.size_bytes(), sizeof(T), combine,
                       is_commutative<Op>, root);
    }
    template <class T> void gather_to(std::span<const T> in, std::span<T> out, int root)
    {
        bool gets = root == all_ranks || team().rank() == root;
        check(!gets || out.size() >= in.size() * team().size(),
              "gather: `out` has no room for all");
        engine_.gather(in.data(), out.data(), in.size_bytes(), root);
    }

    detail::engine<member> engine_;
    std::size_t piece_;
};

// A barrier that all ranks of a team leave at the same time, for measurements: they learn the time
// of the last arrival and leave a fixed interval later by the clock, which is the same on all CPUs
// of a node (section 4.3 and figure 10 of the paper). Ranks leave other barriers when they see the
// last arrival, after cache line transfers of different length. Slower than `barrier`.
template <wait_policy Wait = adaptive> class punctual_barrier
{
  public:
    // Collective. Measures how long ranks take to learn of the last arrival.
    explicit punctual_barrier(const team &of) : all_(of)
    {
        std::vector<long> delays(64);
        for (auto &delay : delays) {
            auto last = arrive();
            delay = now() - last;
        }
        // Not the maximum, since a rank may have been interrupted.
        std::sort(delays.begin(), delays.end());
        for (auto other : of.exchange(delays[delays.size() * 9 / 10]))
            delay_ = std::max(delay_, other);
        delay_ += delay_ / 2;
    }
    // A barrier, see barrier.hpp. A rank that learns of the last arrival too late, because it was
    // not running, leaves later.
    void wait()
    {
        auto leave = arrive() + delay_;
        while (now() < leave) {
        }
    }
    // The interval between the last arrival and leaving.
    std::chrono::nanoseconds delay() const noexcept
    {
        return std::chrono::nanoseconds(delay_);
    }

  private:
    long arrive()
    {
        return all_.allreduce(now(), maximum());
    }
    static long now()
    {
        return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch())
            .count();
    }
    collectives<Wait> all_;
    long delay_ = 0;
};

} // namespace onespace::sync

#endif
