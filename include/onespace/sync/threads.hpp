// onespace/sync/threads.hpp: a team of threads of one process, mainly for tests.
#ifndef ONESPACE_SYNC_THREADS_HPP
#define ONESPACE_SYNC_THREADS_HPP

#include "onespace/sync/team.hpp"

namespace onespace::sync
{

// Created by one thread for `size` others, each of which calls join once, with a distinct rank.
// Must outlive all their teams.
class thread_group
{
  public:
    // `direct` false: the team claims that addresses are valid in their own rank only, to test the
    // code for processes.
    explicit thread_group(int size, bool direct = true) : direct_(direct)
    {
        for (int i = 0; i < size; i++)
            controls_.push_back(new detail::control{});
    }
    thread_group(const thread_group &) = delete;
    thread_group &operator=(const thread_group &) = delete;
    ~thread_group()
    {
        for (auto *one : controls_)
            delete one;
    }

    // Collective. A thread that leaves by an exception counts as lost: the others get peer_lost.
    team join(int rank)
    {
        detail::introduce(controls_[rank]);
        return team(std::make_unique<threads>(direct_), rank, controls_);
    }

  private:
    struct threads : backing {
        explicit threads(bool direct) : direct_(direct)
        {
        }
        bool direct() const noexcept override
        {
            return direct_;
        }
        bool ended(int) noexcept override
        {
            return false; // a thread that leaves sets `left`
        }
        void close(bool) noexcept override
        {
        }
        bool direct_;
    };
    bool direct_;
    std::vector<detail::control *> controls_;
};

} // namespace onespace::sync

#endif
