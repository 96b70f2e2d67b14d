// onespace/sync/wait.hpp: a counter in shared memory that one rank raises and others wait for, and
// how they wait, as a template parameter.
//
//   adaptive    the default: spins if the ranks on the node have a CPU each, yields if they do not,
//               and naps if a rank is very late
//   futex       spins briefly, then sleeps in the kernel until the flag's writer wakes it
//
// All ranks of an algorithm must use the same policy, because with `futex` the writers must wake.
#ifndef ONESPACE_SYNC_WAIT_HPP
#define ONESPACE_SYNC_WAIT_HPP

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace onespace::sync
{

// A flag fills a cache line of its own (two, because CPUs prefetch them in pairs), so that flags do
// not interfere. Its counter only grows. A small payload travels in the same line.

// Minimum distance of data written by different ranks.
#ifdef __aarch64__
inline constexpr std::size_t line_size = 256; // the A64FX has such lines
#else
inline constexpr std::size_t line_size = 128; // CPUs fetch lines of 64 bytes in pairs
#endif

struct alignas(line_size) flag {
    static constexpr std::size_t payload_size = line_size - 16;

    // Writer: one rank, or several where an algorithm counts arrivals (release). Readers: the
    // waiting ranks (acquire). What was written before the store, the payload included, is visible
    // after a load that returned its value or a later one.
    std::atomic<std::uint64_t> value;
    // Ranks that sleep on `value` (policy `futex` only). No wake-up is lost: a sleeper increments
    // this before its last load of `value`, the writer loads this after its store to `value`, and
    // all four are sequentially consistent, so at least one of the two sees the other.
    std::atomic<std::uint32_t> sleepers;
    std::uint32_t unused;
    std::byte payload[payload_size]; // the first 48 bytes are in the counter's own 64-byte line
};

static_assert(sizeof(flag) == line_size && offsetof(flag, payload) == 16, "crosses programs");
static_assert(std::atomic<std::uint64_t>::is_always_lock_free,
              "locks do not work across processes");

// One wait, from its first unsuccessful poll on.
struct pace {
    explicit pace(bool few_cpus) : oversubscribed(few_cpus)
    {
    }
    bool oversubscribed;     // more ranks on the node than CPUs for them
    std::uint32_t looks = 0; // polls so far
    bool slept = false;      // since `is_long` last returned true
    bool naps = false;       // at each poll from now on
    std::chrono::steady_clock::time_point start{};

    std::chrono::nanoseconds waited()
    {
        auto now = std::chrono::steady_clock::now();
        if (start == std::chrono::steady_clock::time_point{})
            start = now;
        return now - start;
    }
    // True if it is time to check that the peer still lives: rarely while spinning.
    bool is_long()
    {
        bool yes = slept || looks % 4096 == 0;
        slept = false;
        return yes;
    }
};

inline void relax() noexcept
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

namespace detail
{

// The futex word is the lower half of the counter.
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

inline void sleep_while(flag &what, std::uint64_t seen)
{
    // Shared, not private: ranks may be processes. The timeout is for peers that die.
    timespec limit{0, 20'000'000};
    what.sleepers.fetch_add(1, std::memory_order_seq_cst);
    if (what.value.load(std::memory_order_seq_cst) == seen)
        syscall(SYS_futex, &what.value, FUTEX_WAIT, static_cast<std::uint32_t>(seen), &limit,
                nullptr, 0);
    what.sleepers.fetch_sub(1, std::memory_order_relaxed);
}

inline void wake(flag &what)
{
    if (what.sleepers.load(std::memory_order_seq_cst) != 0)
        syscall(SYS_futex, &what.value, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

} // namespace detail

struct futex {
    static constexpr bool wakes = true;
    static constexpr std::uint32_t spins = 64;
    static void pause(pace &now, flag &what, std::uint64_t seen)
    {
        if (now.looks < spins && !now.oversubscribed)
            return relax();
        detail::sleep_while(what, seen);
        now.slept = true;
    }
};

struct adaptive {
    static constexpr bool wakes = false;
    // If all ranks are running, a peer is at most a few cache line transfers late.
    static constexpr std::uint32_t oversubscribed_spins = 16;
    static constexpr std::uint32_t spins = 2000; // some 20 us: about the cost of a context switch
    static constexpr std::chrono::milliseconds patience{20}; // then naps
    static void pause(pace &now, flag &, std::uint64_t)
    {
        if (now.looks < (now.oversubscribed ? oversubscribed_spins : spins))
            return relax();
        if (now.looks % 256 == 0 || now.naps)
            nap(now);
        sched_yield();
    }

  private:
    // A nap of at most a hundredth of the time waited so far, and at most a millisecond, adds
    // little latency and frees the CPU.
    static void nap(pace &now)
    {
        auto late = now.waited();
        if (late < patience)
            return;
        auto rest = std::min<std::chrono::nanoseconds>(late / 100, std::chrono::milliseconds(1));
        timespec time{0, static_cast<long>(rest.count())};
        nanosleep(&time, nullptr);
        now.slept = now.naps = true;
    }
};

template <class T>
concept wait_policy = requires(pace &now, flag &what)
{
    {
        T::wakes
        } -> std::convertible_to<bool>;
    T::pause(now, what, std::uint64_t{});
};

} // namespace onespace::sync

#endif
