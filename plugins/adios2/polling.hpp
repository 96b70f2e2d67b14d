// plugins/adios2/polling.hpp: how long a reader's BeginStep polls for a step before it waits as
// channels do: a step is then there within a microsecond, and the writer wakes nobody.
//
// By itself it polls as long as steps may be apart that a channel's consumer naps for, unless the
// stream has more ranks than there are CPUs. If that was in vain, because the step took longer or
// another thread got the CPU meanwhile, some waits do not poll.
#pragma once

#include "backoff.hpp"

#include <chrono>
#include <onespace/sync/wait.hpp>

namespace onespace_adios
{

class Polling
{
  public:
    using Clock = std::chrono::steady_clock;
    static constexpr unsigned BY_ITSELF = ~0u;

    // Microseconds, 0: not at all; or BY_ITSELF.
    explicit Polling(unsigned us) : is_automatic(us == BY_ITSELF), most(us)
    {
    }

    // Calls `is_over` again and again until it returns true, but not for long, and not beyond the
    // timeout (ms; -1: none). Returns the time that is left of the timeout, in ms, or -1. `ranks`:
    // of both ends, as far as they are known.
    template <class F> int poll(int timeout_ms, unsigned ranks, F &&is_over)
    {
        if (is_over() || timeout_ms == 0 || !begins(ranks))
            return timeout_ms;
        const Clock::time_point begin = Clock::now(), end = begin + limit(timeout_ms);
        Clock::time_point now = begin, before;
        bool is_found = false;
        do {
            onespace::sync::relax();
            is_found = is_over();
            before = now;
            now = Clock::now();
        } while (!is_found && now < end && !is_stopped(before, now));
        if (is_automatic)
            backoff.ended(is_found && !is_stopped(before, now));
        using std::chrono::milliseconds;
        auto left = milliseconds(timeout_ms) - (now - begin);
        return timeout_ms < 0
                   ? -1
                   : (int)std::chrono::ceil<milliseconds>(std::max(left, Clock::duration(0)))
                         .count();
    }

  private:
    static constexpr std::chrono::milliseconds AUTOMATIC{10};
    // Between two looks at the clock: another thread had this one's CPU.
    static constexpr std::chrono::microseconds PREEMPTED{1000};

    bool begins(unsigned ranks);
    std::chrono::microseconds limit(int timeout_ms) const;
    bool is_stopped(Clock::time_point before, Clock::time_point now) const
    {
        return is_automatic && now - before > PREEMPTED;
    }

    const bool is_automatic;
    const std::chrono::microseconds most;
    Backoff backoff;
};

} // namespace onespace_adios
