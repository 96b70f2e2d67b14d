// plugins/adios2/polling.hpp: how long BeginStep of a reader polls for a step before it sleeps as
// channels do. A polling reader gets a step within a microsecond, and the writer wakes nothing.
//
// By default a reader polls for up to 10 ms, the longest interval between steps for which a
// channel's consumer naps, unless the stream has more ranks than there are CPUs. After a wait that
// found no step or lost its CPU to another thread, the next waits do not poll (Backoff).
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <onespace/sync/wait.hpp>

namespace onespace_adios
{

// Decides whether to attempt an optimisation that costs time when it fails. After consecutive
// failures it skips 1, 2, 4, … 64 attempts.
class Backoff
{
  public:
    bool should_attempt()
    {
        if (skips > 0)
            return --skips, false;
        return true;
    }
    void record(bool succeeded)
    {
        skips = succeeded ? 0 : next_skips;
        next_skips = succeeded ? 1 : std::min(2 * next_skips, SKIPS_MAX);
    }

  private:
    static constexpr unsigned SKIPS_MAX = 64;
    unsigned skips = 0, next_skips = 1;
};

class Polling
{
  public:
    static constexpr unsigned AUTOMATIC_US = ~0u;

    // `us`: microseconds to poll, 0 for none, or AUTOMATIC_US.
    explicit Polling(unsigned us) : is_automatic(us == AUTOMATIC_US), limit_us(us)
    {
    }

    // Calls is_done() until it returns true, the limit has passed or the timeout (ms; -1: none)
    // has. `ranks`: the known ranks of both ends. Returns what remains of the timeout in ms, or -1.
    template <class F> int poll(int timeout_ms, unsigned ranks, F &&is_done)
    {
        if (is_done() || timeout_ms == 0 || !should_poll(ranks))
            return timeout_ms;
        const Clock::time_point begin = Clock::now(), end = begin + limit(timeout_ms);
        Clock::time_point now = begin, before;
        bool done = false;
        do {
            onespace::sync::relax();
            done = is_done();
            before = now;
            now = Clock::now();
        } while (!done && now < end && !was_preempted(before, now));
        if (is_automatic)
            backoff.record(done && !was_preempted(before, now));
        using std::chrono::milliseconds;
        auto left = milliseconds(timeout_ms) - (now - begin);
        return timeout_ms < 0
                   ? -1
                   : (int)std::chrono::ceil<milliseconds>(std::max(left, Clock::duration(0)))
                         .count();
    }

  private:
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::milliseconds AUTOMATIC_LIMIT{10};
    // Between two readings of the clock: another thread had this thread's CPU.
    static constexpr std::chrono::microseconds PREEMPTION_MIN{1000};

    bool should_poll(unsigned ranks)
    {
        if (!is_automatic)
            return limit_us.count() > 0;
        return (long)ranks <= sysconf(_SC_NPROCESSORS_ONLN) && backoff.should_attempt();
    }
    std::chrono::microseconds limit(int timeout_ms) const
    {
        std::chrono::microseconds result = is_automatic ? AUTOMATIC_LIMIT : limit_us;
        return timeout_ms < 0 ? result
                              : std::min<std::chrono::microseconds>(
                                    result, std::chrono::milliseconds(timeout_ms));
    }
    bool was_preempted(Clock::time_point before, Clock::time_point now) const
    {
        return is_automatic && now - before > PREEMPTION_MIN;
    }

    const bool is_automatic;
    const std::chrono::microseconds limit_us;
    Backoff backoff;
};

} // namespace onespace_adios
