// onespace/sync/order.hpp: memory orders as a template parameter.
//
// Every algorithm here is written for release/acquire: what a rank wrote before it signalled a flag
// is visible to all ranks that saw the signal. `sequential` makes each atomic operation
// sequentially consistent instead; it exists for comparison (section 4.4 and figure 13 of the
// paper: about 15 % slower) and is never needed for correctness.
#ifndef ONESPACE_SYNC_ORDER_HPP
#define ONESPACE_SYNC_ORDER_HPP

#include <atomic>
#include <concepts>

namespace onespace::sync
{

// load: waits for a signal; store: signals; change: read-modify-write of a word with several
// writers.
struct release_acquire {
    static constexpr std::memory_order load = std::memory_order_acquire;
    static constexpr std::memory_order store = std::memory_order_release;
    static constexpr std::memory_order change = std::memory_order_acq_rel;
};

struct sequential {
    static constexpr std::memory_order load = std::memory_order_seq_cst;
    static constexpr std::memory_order store = std::memory_order_seq_cst;
    static constexpr std::memory_order change = std::memory_order_seq_cst;
};

template <class T>
concept order_policy = requires
{
    {
        T::load
        } -> std::convertible_to<std::memory_order>;
    {
        T::store
        } -> std::convertible_to<std::memory_order>;
    {
        T::change
        } -> std::convertible_to<std::memory_order>;
};

} // namespace onespace::sync

#endif
