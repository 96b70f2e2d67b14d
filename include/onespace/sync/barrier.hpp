// onespace/sync/barrier.hpp: barriers over a team.
//
//   simple_barrier         the paper's algorithm 1: arrivals are counted in one word, the leader
//                          releases the others one by one
//   tree_barrier           its algorithm 2: the same arrivals, released along a tree that follows
//                          the machine's topology (topology.hpp)
//   dissemination_barrier  ceil(log_r n) rounds in which each rank waits for r-1 others; with r = n
//                          a single round, in which each rank waits for all others
//   barrier                the default: dissemination, in one round if the ranks are few or share
//                          CPUs, where every further round would cost a context switch
//
// All are created collectively, used by all ranks of the team, and order memory: what any rank
// wrote before the barrier is visible to all ranks after it. They throw peer_lost (see
// team::await).
#ifndef ONESPACE_SYNC_BARRIER_HPP
#define ONESPACE_SYNC_BARRIER_HPP

#include "onespace/sync/rounds.hpp"
#include "onespace/sync/team_member.hpp"

namespace onespace::sync
{

template <order_policy Order = release_acquire, wait_policy Wait = adaptive> class simple_barrier
{
  public:
    explicit simple_barrier(const team &of) : team_(of), flags_(of.allocate(2 * sizeof(flag)))
    {
    }
    void wait()
    {
        epoch_++;
        int size = team_.size();
        if (team_.rank() != 0) {
            team::arrive<Order, Wait>(*arrivals());
            team_.await<Order, Wait>(*release(team_.rank()), epoch_, 0);
            return;
        }
        // The counter only grows; the paper resets it, which would need additional ordering.
        team_.await<Order, Wait>(*arrivals(), epoch_ * (size - 1), team::any_rank);
        for (int i = 1; i < size; i++)
            team::signal<Order, Wait>(*release(i), epoch_);
    }

  private:
    // In the leader's memory, since the leader waits on it; each rank adds 1 per barrier.
    flag *arrivals() const
    {
        return flags_.template at<flag>(0);
    }
    // In the memory of the rank that waits on it; written by the leader.
    flag *release(int rank) const
    {
        return flags_.template at<flag>(rank, sizeof(flag));
    }
    team team_;
    region flags_;
    std::uint64_t epoch_ = 0;
};

template <order_policy Order = release_acquire, wait_policy Wait = adaptive> class tree_barrier
{
  public:
    explicit tree_barrier(const team &of)
        : team_(of), flags_(of.allocate(2 * sizeof(flag))), links_(tree_of(of.places(), of.rank()))
    {
    }
    void wait()
    {
        epoch_++;
        if (links_.parent < 0) {
            team_.await<Order, Wait>(*arrivals(), epoch_ * (team_.size() - 1), team::any_rank);
        } else {
            team::arrive<Order, Wait>(*arrivals());
            team_.await<Order, Wait>(*release(team_.rank()), epoch_, links_.parent);
        }
        for (int child : links_.children)
            team::signal<Order, Wait>(*release(child), epoch_);
    }

  private:
    flag *arrivals() const // in the root's memory; each rank adds 1 per barrier
    {
        return flags_.template at<flag>(0);
    }
    flag *release(int rank) const // in the memory of the rank that waits; written by its parent
    {
        return flags_.template at<flag>(rank, sizeof(flag));
    }
    team team_;
    region flags_;
    tree links_;
    std::uint64_t epoch_ = 0;
};

template <order_policy Order = release_acquire, wait_policy Wait = adaptive>
class dissemination_barrier
{
  public:
    // radix: 2 to team size; 0 chooses.
    explicit dissemination_barrier(const team &of, int radix = 0)
        : rounds_(detail::team_member<Order, Wait>(of), radix)
    {
    }
    void wait()
    {
        rounds_.wait();
    }

  private:
    detail::rounds<detail::team_member<Order, Wait>> rounds_;
};

template <order_policy Order = release_acquire, wait_policy Wait = adaptive>
class barrier : public dissemination_barrier<Order, Wait>
{
  public:
    explicit barrier(const team &of) : dissemination_barrier<Order, Wait>(of)
    {
    }
};

} // namespace onespace::sync

#endif
