// onespace/sync/barrier.hpp: the barrier over a team.
//
// Dissemination: ceil(log_r n) rounds in which each rank waits for r-1 others; with r = n a single
// round, in which each rank waits for all others. That is the default for few ranks and for ranks
// that share CPUs, where every further round would cost a context switch.
//
// A barrier is created collectively, used by all ranks of the team, and orders memory: what any
// rank wrote before it is visible to all ranks after it. It throws peer_lost (see team::await).
#ifndef ONESPACE_SYNC_BARRIER_HPP
#define ONESPACE_SYNC_BARRIER_HPP

#include "onespace/sync/member.hpp"
#include "onespace/sync/team.hpp"

namespace onespace::sync
{
namespace detail
{

// A rank of a team as the algorithms see it (member.hpp).
template <wait_policy Wait> class team_member
{
  public:
    using region = sync::region;
    class buffer
    {
      public:
        std::byte *get(std::size_t bytes)
        {
            memory_.resize(std::max(memory_.size(), bytes / sizeof(std::max_align_t) + 1));
            return reinterpret_cast<std::byte *>(memory_.data());
        }

      private:
        std::vector<std::max_align_t> memory_;
    };

    explicit team_member(const team &of) : team_(of)
    {
    }
    const sync::team &team() const noexcept
    {
        return team_;
    }
    int rank() const noexcept
    {
        return team_.rank();
    }
    int size() const noexcept
    {
        return team_.size();
    }
    bool direct() const noexcept
    {
        return team_.direct();
    }
    bool oversubscribed() const noexcept
    {
        return team_.oversubscribed();
    }
    static bool guarded() noexcept
    {
        return is_guarded();
    }
    void signal(flag &what, std::uint64_t value) const
    {
        sync::team::signal<Wait>(what, value);
    }
    std::uint64_t await(flag &what, std::uint64_t value, int rank) const
    {
        return team_.template await<Wait>(what, value, rank);
    }
    static constexpr bool lost() noexcept // await throws
    {
        return false;
    }
    static void mismatch(int rank)
    {
        throw std::invalid_argument("onespace::sync: rank " + std::to_string(rank) +
                                    " is in another collective operation, or gave another size or "
                                    "root");
    }
    region allocate(std::size_t bytes) const
    {
        return team_.allocate(bytes);
    }
    const tree &links_from(int root)
    {
        if (root != root_)
            links_ = tree_of(team_.places(), team_.rank(), root_ = root);
        return links_;
    }

  private:
    sync::team team_;
    tree links_;
    int root_ = -1; // of links_
};

static_assert(member<team_member<adaptive>>);

} // namespace detail

template <wait_policy Wait = adaptive> class barrier
{
  public:
    // radix: 2 to team size; 0 chooses.
    explicit barrier(const team &of, int radix = 0) : rounds_(detail::team_member<Wait>(of), radix)
    {
    }
    void wait()
    {
        rounds_.wait();
    }

  private:
    detail::rounds<detail::team_member<Wait>> rounds_;
};

} // namespace onespace::sync

#endif
