// plugins/adios2/loan.cpp: reading of blocks that a writer may have lent (step.hpp has the
// protocol; the writer's side is in writer.cpp).
#include "step.hpp"

#include <onespace.h>

#include <algorithm>
#include <sched.h>
#include <thread>

namespace onespace_adios
{
namespace
{

// A member that has ended or executed another program reads and writes no more.
bool has_left(int id)
{
    return onespace_is_member(id) == 0;
}

// Takes over the slot of a dead reader. Ids are never reused.
std::atomic<int32_t> *take_over_slot(Loan &loan, int32_t own)
{
    for (std::atomic<int32_t> &slot : loan.readers) {
        int32_t other = slot.load();
        if (other && has_left(other - 1) && slot.compare_exchange_strong(other, own))
            return &slot;
    }
    return nullptr;
}

// Enters this member in `readers`. If all slots are taken, waits until another Get ends. Returns
// NULL if nothing is lent any more.
std::atomic<int32_t> *claim_slot(Loan &loan)
{
    const int32_t own = onespace_self() + 1;
    while (loan.state.load() == Loan::lent) {
        for (std::atomic<int32_t> &slot : loan.readers) {
            int32_t empty = 0;
            if (slot.compare_exchange_strong(empty, own))
                return &slot;
        }
        if (std::atomic<int32_t> *slot = take_over_slot(loan, own))
            return slot;
        sched_yield();
    }
    return nullptr;
}

} // namespace

BlockGuard::BlockGuard(Loan *loan, const Block &block)
{
    if (block.lent)
        slot = claim_slot(*loan);
    if (slot && loan->state.load() == Loan::lent)
        address = block.lent;
    else
        address = block.data; // read after the state
}

BlockGuard::~BlockGuard()
{
    if (slot)
        slot->store(0);
}

const void *data_until_release(Loan *loan, const Block &block)
{
    if (!block.lent)
        return block.data;
    loan->copy_requested.store(1);
    while (loan->state.load() == Loan::lent) {
        if (has_left(loan->writer)) // an open channel keeps a dead writer's memory as it was
            return block.lent;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return block.data;
}

bool has_readers(const Loan &loan)
{
    return std::any_of(std::begin(loan.readers), std::end(loan.readers), [](const auto &slot) {
        int32_t reader = slot.load();
        return reader != 0 && !has_left(reader - 1);
    });
}

// Several times the time of a copy, because the reader copies too, plus the time that a descheduled
// reader may need to get a CPU. The back-off after a timeout keeps the average cost low.
std::chrono::microseconds loan_timeout(uint64_t bytes)
{
    constexpr uint64_t BYTES_PER_US = 2000, SCHEDULING_US = 20000;
    return std::chrono::microseconds(SCHEDULING_US + bytes / BYTES_PER_US);
}

} // namespace onespace_adios
