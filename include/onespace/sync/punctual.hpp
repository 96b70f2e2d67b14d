// onespace/sync/punctual.hpp: a barrier that all ranks of a team leave at the same time.
//
// Ranks leave other barriers when they see the last arrival, which takes each a cache line transfer
// of different length. Here they learn the time of the last arrival and leave a fixed interval
// later by the clock, which is the same on all CPUs of a node. For measurements: afterwards all
// ranks start simultaneously (section 4.3 and figure 10 of the paper). Slower than a plain barrier.
#ifndef ONESPACE_SYNC_PUNCTUAL_HPP
#define ONESPACE_SYNC_PUNCTUAL_HPP

#include <algorithm>
#include <chrono>

#include "onespace/sync/collectives.hpp"

namespace onespace::sync
{

template <order_policy Order = release_acquire, wait_policy Wait = adaptive> class punctual_barrier
{
  public:
    // Collective. Measures how long ranks take to learn of the last arrival.
    explicit punctual_barrier(const team &of) : all_(of)
    {
        std::vector<long> delays(64);
        for (auto &one : delays) {
            auto last = arrive();
            one = now() - last;
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
    collectives<Order, Wait> all_;
    long delay_ = 0;
};

} // namespace onespace::sync

#endif
