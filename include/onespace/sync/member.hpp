// onespace/sync/member.hpp: what the algorithms need of the ranks that they run on.
//
// slots, rounds and engine move bytes between ranks and know neither how ranks find each other nor
// how they wait. A member is one rank's view of the ranks: it raises flags, awaits those of others
// and allocates memory that all can address. Copies refer to the same ranks. team_member is the one
// over a team; the MPI layer has another one.
#ifndef ONESPACE_SYNC_MEMBER_HPP
#define ONESPACE_SYNC_MEMBER_HPP

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include "onespace/sync/wait.hpp"

namespace onespace::sync::detail
{

template <class T>
concept member = requires(T &one, const T &same, flag &what, std::uint64_t value, int rank,
                          std::size_t bytes)
{
    {
        same.rank()
        } -> std::same_as<int>;
    {
        same.size()
        } -> std::same_as<int>;
    // Whether an address of one rank is valid in all others.
    {
        same.direct()
        } -> std::same_as<bool>;
    {
        same.oversubscribed()
        } -> std::same_as<bool>;
    // Whether others may not write to the caller's memory but to what is allocated here: a guarded
    // task (memory.hpp). Ranks may differ in that.
    {
        same.guarded()
        } -> std::same_as<bool>;
    // Raises a flag of which the caller is the only writer.
    same.signal(what, value);
    // Waits until the flag, which `rank` raises, has reached the value; returns what it has. If
    // that rank is lost it throws, or returns at once, as all later waits do, and lost() is true.
    {
        same.await(what, value, rank)
        } -> std::same_as<std::uint64_t>;
    {
        same.lost()
        } -> std::same_as<bool>;
    // `rank` is in another call, or gave another size. Throws, or lost() is true from now on, or
    // the ranks are known to agree.
    same.mismatch(rank);
    // Collective: zeroed memory of each rank, with at<T>(rank, offset).
    typename T::region;
    {
        same.allocate(bytes)
        } -> std::same_as<typename T::region>;
    // The caller's parent (-1: none) and children in a tree over all ranks, rooted at `rank`.
    one.links_from(rank).parent;
    one.links_from(rank).children;
    // The caller's own memory, kept until more is asked for; aligned for any type.
    typename T::buffer;
};

// The dissemination barrier.
template <member Member> class rounds
{
  public:
    // Collective. radix: 2 to the number of ranks; 0 chooses.
    explicit rounds(const Member &of, int radix = 0)
        : member_(of), flags_(of.allocate(sizeof(flag))),
          radix_(radix ? radix : choose(of.size(), of.oversubscribed()))
    {
    }
    void wait()
    {
        int size = member_.size(), rank = member_.rank();
        for (long distance = 1; distance < size; distance *= radix_) {
            // One word per rank counts the rounds of all barriers: a larger value than awaited
            // implies that the rank has passed the awaited round.
            member_.signal(*flags_.template at<flag>(rank), ++round_);
            for (long i = 1; i < radix_ && i * distance < size; i++) {
                int from = static_cast<int>((rank + size - i * distance) % size);
                member_.await(*flags_.template at<flag>(from), round_, from);
            }
        }
    }

  private:
    static int choose(int size, bool oversubscribed)
    {
        return oversubscribed || size <= 8 ? std::max(size, 2) : 4;
    }
    Member member_;
    typename Member::region flags_;
    long radix_;
    std::uint64_t round_ = 0;
};

} // namespace onespace::sync::detail

#endif
