// onespace/sync/ghost_directory.hpp: data that the ranks of a team share while a ghost_plan is
// made: how much each sends to whom, from which points, and where its buffers are.
#ifndef ONESPACE_SYNC_GHOST_DIRECTORY_HPP
#define ONESPACE_SYNC_GHOST_DIRECTORY_HPP

#include "onespace/sync/ghost_lists.hpp"
#include "onespace/sync/team.hpp"

namespace onespace::sync::detail
{

inline std::size_t whole_lines(std::size_t bytes)
{
    return (bytes + line_size - 1) / line_size * line_size;
}

// In shared memory: `count`, the entries, and for each the ids sent, the ids expected, and the
// points sent. Written by its owner before an exchange, read by the others after it.
class ghost_directory
{
  public:
    struct entry {
        std::int32_t rank, sent, expected, unused;
        std::uint64_t ids_sent, ids_expected; // counts
        std::uint64_t data;                   // offset of its ids and points
        std::uint64_t buffer;                 // offset of its first buffer in the plan's memory
    };

    // Collective. The lists have passed the local check. `depth`: buffers per neighbour, the same
    // on all ranks.
    ghost_directory(const team &of, std::span<const ghost_neighbour> lists,
                    const ghost_shape &shape, std::size_t point_bytes, std::size_t depth)
        : team_(of), memory_(of.allocate(size_of(lists, shape)))
    {
        auto *own = memory_.data(of.rank());
        std::uint64_t count = lists.size(), buffer = 2 * lists.size() * sizeof(flag);
        auto data = sizeof(count) + count * sizeof(entry);
        std::memcpy(own, &count, sizeof(count));
        for (std::size_t slot = 0; slot < count; slot++) {
            const auto &with = lists[slot];
            auto out = ids_of(with.send, shape), in = ids_of(with.receive, shape);
            entry made{with.rank,
                       static_cast<std::int32_t>(with.send.size()),
                       static_cast<std::int32_t>(with.receive.size()),
                       0,
                       out.size(),
                       in.size(),
                       data,
                       buffer};
            std::memcpy(own + sizeof(count) + slot * sizeof(entry), &made, sizeof(entry));
            data = put(own, put(own, put(own, data, out), in), with.send);
            buffer += depth * whole_lines(with.send.size() * point_bytes);
        }
        of.exchange(0); // all ranks' entries are filled in
    }
    // The memory that the caller's plan needs.
    static std::size_t plan_bytes(std::span<const ghost_neighbour> lists, std::size_t point_bytes,
                                  std::size_t depth)
    {
        std::size_t bytes = 2 * lists.size() * sizeof(flag);
        for (const auto &with : lists)
            bytes += depth * whole_lines(with.send.size() * point_bytes);
        return bytes;
    }

    // The index of the caller among the neighbours of `rank`, or -1.
    int slot_at(int rank) const
    {
        for (std::uint64_t slot = 0; slot < get<std::uint64_t>(rank, 0); slot++)
            if (at(rank, static_cast<int>(slot)).rank == team_.rank())
                return static_cast<int>(slot);
        return -1;
    }
    entry at(int rank, int slot) const
    {
        return get<entry>(rank, sizeof(std::uint64_t) + slot * sizeof(entry));
    }
    // The points in the vector of `rank` that it sends to the caller.
    std::vector<int> points(int rank, const entry &of) const
    {
        return copy<int>(rank, of.data + (of.ids_sent + of.ids_expected) * sizeof(std::int64_t),
                         of.sent);
    }
    // The first difference between the caller's lists and its neighbours'.
    ghost_fault find(std::span<const ghost_neighbour> lists, const ghost_shape &shape) const
    {
        ghost_fault fault;
        int self = team_.rank();
        for (const auto &with : lists) {
            int slot = slot_at(with.rank);
            entry theirs = slot < 0 ? entry{} : at(with.rank, slot);
            auto sent = copy<std::int64_t>(with.rank, theirs.data, theirs.ids_sent);
            auto expected =
                copy<std::int64_t>(with.rank, theirs.data + theirs.ids_sent * sizeof(std::int64_t),
                                   theirs.ids_expected);
            if (!fault.kind)
                fault = compare_lists(self, with.rank, with.send.size(), theirs.expected,
                                      ids_of(with.send, shape), expected);
            if (!fault.kind)
                fault = compare_lists(with.rank, self, theirs.sent, with.receive.size(), sent,
                                      ids_of(with.receive, shape));
        }
        return fault;
    }

  private:
    static std::size_t size_of(std::span<const ghost_neighbour> lists, const ghost_shape &shape)
    {
        std::size_t bytes = sizeof(std::uint64_t) + lists.size() * (sizeof(entry) + 8);
        for (const auto &with : lists)
            bytes += with.send.size() * sizeof(int) +
                     (shape.ids.empty() ? 0 : with.send.size() + with.receive.size()) *
                         sizeof(std::int64_t);
        return bytes;
    }
    // Returns the offset of the next, aligned to 8 bytes.
    template <class T> static std::uint64_t put(std::byte *own, std::uint64_t at, const T &list)
    {
        auto bytes = list.size() * sizeof(list[0]);
        if (bytes)
            std::memcpy(own + at, list.data(), bytes);
        return at + (bytes + 7) / 8 * 8;
    }
    template <class T> T get(int rank, std::uint64_t at) const
    {
        T value;
        std::memcpy(&value, memory_.data(rank) + at, sizeof(value));
        return value;
    }
    template <class T> std::vector<T> copy(int rank, std::uint64_t at, std::size_t count) const
    {
        std::vector<T> list(count);
        if (count)
            std::memcpy(list.data(), memory_.data(rank) + at, count * sizeof(T));
        return list;
    }
    const team &team_;
    region memory_;
};

} // namespace onespace::sync::detail

#endif
