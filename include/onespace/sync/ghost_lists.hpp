// onespace/sync/ghost_lists.hpp: the points of a vector that go to each neighbour, and the check
// that the ranks' lists match.
//
// A rank's vector holds its own points and, as ghosts, copies of points that its neighbours own
// (section 3.3 and figures 7 and 8 of the paper). Wrong lists are detected before the first update;
// all ranks then get the same ghost_error.
#ifndef ONESPACE_SYNC_GHOST_LISTS_HPP
#define ONESPACE_SYNC_GHOST_LISTS_HPP

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace onespace::sync
{

// The exchange with one other rank. Both lists hold points: positions in the caller's vector, in
// units of whole points. Entry i of `send` is received as entry i of the other rank's `receive`
// list for the caller. Either list may be empty; a point may be in the `send` lists of several
// neighbours.
struct ghost_neighbour {
    int rank;
    std::vector<int> send, receive;
};

// The caller's vector.
struct ghost_shape {
    std::size_t points;     // own points and ghosts
    std::size_t values = 1; // per point, contiguous; the same on all ranks
    // A global id per point, or empty. Used when a plan is made, to check that both sides mean the
    // same points, not just equally many.
    std::span<const std::int64_t> ids = {};
};

namespace detail
{

// A fault in the lists, small enough for an exchange among all ranks.
struct ghost_fault {
    enum what : std::int32_t {
        none,
        no_such_rank,      // first: number of ranks
        itself,            //
        listed_twice,      //
        number_of_ids,     // first: ids, second: points
        out_of_range,      // first: the point, second: points, side
        received_twice,    // first: the point
        sent_and_received, // first: the point
        size_of_points,    // first, second: bytes of a point for `rank` and `neighbour`
        unequal,           // first: sent by `rank`, second: expected by `neighbour`
        other_id,          // first: id that `rank` sends, second: that `neighbour` expects
    };
    enum list : std::int32_t { send, receive };
    what kind = none;
    list side = send;
    std::int32_t rank = -1, neighbour = -1;
    std::int64_t index = -1; // entry of the list
    std::int64_t first = 0, second = 0;

    // A fault that two numbers describe.
    static ghost_fault of(what kind, int rank, int neighbour, std::size_t first, std::size_t second,
                          std::int64_t index = -1)
    {
        return {kind,
                send,
                rank,
                neighbour,
                index,
                static_cast<std::int64_t>(first),
                static_cast<std::int64_t>(second)};
    }
};

inline std::string text_of(const ghost_fault &fault)
{
    auto number = [](std::int64_t value) { return std::to_string(value); };
    std::string rank = "rank " + number(fault.rank), other = "rank " + number(fault.neighbour);
    std::string entry = rank + ", entry " + number(fault.index) + " of the " +
                        (fault.side == ghost_fault::send ? "send" : "receive") + " list for " +
                        other;
    switch (fault.kind) {
    case ghost_fault::none:
        break;
    case ghost_fault::no_such_rank:
        return rank + " lists neighbour " + number(fault.neighbour) + ", but the ranks are 0 to " +
               number(fault.first - 1);
    case ghost_fault::itself:
        return rank + " lists itself as a neighbour: copy such points without the plan";
    case ghost_fault::listed_twice:
        return rank + " lists " + other + " twice: join the two lists";
    case ghost_fault::number_of_ids:
        return rank + " gives " + number(fault.first) + " ids for " + number(fault.second) +
               " points: give one for each point, or none";
    case ghost_fault::out_of_range:
        return entry + " is point " + number(fault.first) + ", but the vector has " +
               number(fault.second) + " points";
    case ghost_fault::received_twice:
        return entry + " is point " + number(fault.first) +
               ", which an earlier entry receives already: a ghost has one source";
    case ghost_fault::sent_and_received:
        return entry + " is point " + number(fault.first) +
               ", which is a ghost there: only its owner can send it";
    case ghost_fault::size_of_points:
        return rank + " has points of " + number(fault.first) + " bytes, " + other + " of " +
               number(fault.second) + ": use the same type and number of values";
    case ghost_fault::unequal:
        return rank + " sends " + number(fault.first) + " points to " + other + ", which expects " +
               number(fault.second) + " from it: entry " + number(fault.index) +
               " is in one of the two lists only";
    case ghost_fault::other_id:
        return entry + " is the point with id " + number(fault.first) + ", but " + other +
               " expects that with id " + number(fault.second) + " there";
    }
    return "no fault";
}

// The first fault in one rank's lists that can be found without the others'.
class ghost_local_check
{
  public:
    ghost_local_check(int rank, int size, std::span<const ghost_neighbour> lists,
                      const ghost_shape &shape)
        : rank_(rank), size_(size), lists_(lists), shape_(shape)
    {
    }
    ghost_fault find()
    {
        ghost_fault fault = find_wrong_rank();
        if (!fault.kind && !shape_.ids.empty() && shape_.ids.size() != shape_.points)
            fault = ghost_fault::of(ghost_fault::number_of_ids, rank_, -1, shape_.ids.size(),
                                    shape_.points);
        for (auto side : {ghost_fault::receive, ghost_fault::send})
            for (const auto &with : lists_)
                if (!fault.kind)
                    fault = find_wrong_entry(with, side);
        return fault;
    }

  private:
    ghost_fault find_wrong_rank() const
    {
        for (std::size_t i = 0; i < lists_.size(); i++) {
            int other = lists_[i].rank;
            if (other < 0 || other >= size_)
                return {ghost_fault::no_such_rank, {}, rank_, other, -1, size_, 0};
            if (other == rank_)
                return {ghost_fault::itself, {}, rank_, other};
            for (std::size_t j = 0; j < i; j++)
                if (lists_[j].rank == other)
                    return {ghost_fault::listed_twice, {}, rank_, other};
        }
        return {};
    }
    // Receive lists first: they determine which points are ghosts.
    ghost_fault find_wrong_entry(const ghost_neighbour &with, ghost_fault::list side)
    {
        const auto &list = side == ghost_fault::send ? with.send : with.receive;
        ghost_.resize(shape_.points);
        for (std::size_t i = 0; i < list.size(); i++) {
            auto point = static_cast<std::int64_t>(list[i]);
            auto fault = [&](ghost_fault::what kind) {
                return ghost_fault{kind,
                                   side,
                                   rank_,
                                   with.rank,
                                   static_cast<std::int64_t>(i),
                                   point,
                                   static_cast<std::int64_t>(shape_.points)};
            };
            if (point < 0 || point >= static_cast<std::int64_t>(shape_.points))
                return fault(ghost_fault::out_of_range);
            if (ghost_[point])
                return fault(side == ghost_fault::send ? ghost_fault::sent_and_received
                                                       : ghost_fault::received_twice);
            if (side == ghost_fault::receive)
                ghost_[point] = true;
        }
        return {};
    }

    int rank_, size_;
    std::span<const ghost_neighbour> lists_;
    const ghost_shape &shape_;
    std::vector<bool> ghost_;
};

// Compares what a rank sends with what the receiver expects; the ids only if both gave them.
inline ghost_fault compare_lists(int rank, int neighbour, std::size_t sent, std::size_t expected,
                                 std::span<const std::int64_t> sent_ids = {},
                                 std::span<const std::int64_t> expected_ids = {})
{
    if (sent != expected)
        return ghost_fault::of(ghost_fault::unequal, rank, neighbour, sent, expected,
                               static_cast<std::int64_t>(std::min(sent, expected)));
    for (std::size_t i = 0; i < std::min(sent_ids.size(), expected_ids.size()); i++)
        if (sent_ids[i] != expected_ids[i])
            return {ghost_fault::other_id,        ghost_fault::send, rank,           neighbour,
                    static_cast<std::int64_t>(i), sent_ids[i],       expected_ids[i]};
    return {};
}

inline std::vector<std::int64_t> ids_of(const std::vector<int> &list, const ghost_shape &shape)
{
    std::vector<std::int64_t> ids;
    if (!shape.ids.empty())
        for (int point : list)
            ids.push_back(shape.ids[point]);
    return ids;
}

} // namespace detail

// The lists of the ranks are wrong; thrown on all ranks alike, before any values are exchanged. The
// text names the rank, the entry and the fault.
class ghost_error : public std::invalid_argument
{
  public:
    explicit ghost_error(const detail::ghost_fault &fault)
        : std::invalid_argument("onespace::sync::ghost_plan: " + detail::text_of(fault)),
          fault_(fault)
    {
    }
    int rank() const noexcept // owner of the list; of a pair, the sender
    {
        return fault_.rank;
    }
    int neighbour() const noexcept // the neighbour of that list; -1: none
    {
        return fault_.neighbour;
    }
    std::int64_t index() const noexcept // the entry of that list; -1: none
    {
        return fault_.index;
    }

  private:
    detail::ghost_fault fault_;
};

namespace detail
{

// The fault of the lowest rank that found one, for all of them.
inline void throw_first(std::span<const ghost_fault> of_ranks)
{
    for (const auto &fault : of_ranks)
        if (fault.kind)
            throw ghost_error(fault);
}

} // namespace detail

} // namespace onespace::sync

#endif
