// onespace/sync/flag.hpp: a counter in shared memory that one rank raises and others wait for.
//
// A flag fills a cache line of its own (two, since CPUs prefetch them in pairs), so that flags do
// not interfere. Its counter only grows. A small payload travels in the same line.
#ifndef ONESPACE_SYNC_FLAG_HPP
#define ONESPACE_SYNC_FLAG_HPP

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace onespace::sync
{

// Minimum distance of data written by different ranks.
#ifdef __aarch64__
inline constexpr std::size_t line_size = 256; // the A64FX has such lines
#else
inline constexpr std::size_t line_size = 128; // CPUs fetch lines of 64 bytes in pairs
#endif

struct alignas(line_size) flag {
    static constexpr std::size_t payload_size = line_size - 16;

    // Writer: one rank (or several, where an algorithm counts arrivals), Order::store or ::change.
    // Readers: the waiting ranks, Order::load. What was written before the store, the payload
    // included, is visible after a load that returned its value or a later one.
    std::atomic<std::uint64_t> value;
    // Ranks that sleep on `value` (policy `futex` only). No wake-up is missed: a sleeper increments
    // this before its last load of `value`, the writer loads this after its store to `value`, and
    // all four are sequentially consistent, so at least one of the two sees the other.
    std::atomic<std::uint32_t> sleepers;
    std::uint32_t unused;
    std::byte payload[payload_size]; // the first 48 bytes are in the counter's own 64-byte line
};

static_assert(sizeof(flag) == line_size && offsetof(flag, payload) == 16, "crosses programs");
static_assert(std::atomic<std::uint64_t>::is_always_lock_free,
              "locks do not work across processes");

} // namespace onespace::sync

#endif
