// plugins/adios2/loan.cpp: see loan.hpp.
#include "loan.hpp"

#include <onespace.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <sched.h>
#include <thread>

namespace onespace_adios
{
namespace
{

bool lives(int id)
{
    return onespace_kill(id, 0) != -ESRCH;
}

// The place of a reader that has died: ids are never used again.
std::atomic<int32_t> *inherit(Loan &loan, int32_t me)
{
    for (std::atomic<int32_t> &place : loan.reading) {
        int32_t other = place.load();
        if (other && !lives(other - 1) && place.compare_exchange_strong(other, me))
            return &place;
    }
    return nullptr;
}

// A place in `reading`, of as many as there are: who finds none waits for a Get of another to end.
std::atomic<int32_t> *enter(Loan &loan)
{
    const int32_t me = onespace_self() + 1;
    while (loan.state.load() == Loan::lent) {
        for (std::atomic<int32_t> &place : loan.reading) {
            int32_t nobody = 0;
            if (place.compare_exchange_strong(nobody, me))
                return &place;
        }
        if (std::atomic<int32_t> *place = inherit(loan, me))
            return place;
        sched_yield();
    }
    return nullptr;
}

} // namespace

Borrowed::Borrowed(Loan *loan, const Block &block)
{
    if (block.lent)
        place = enter(*loan);
    if (place && loan->state.load() == Loan::lent) {
        address = block.lent;
        return;
    }
    address = block.data; // after the state was read
}

Borrowed::~Borrowed()
{
    if (place)
        place->store(0);
}

// A writer that has died keeps its promise, too: what it has lent stays as it was, since an open
// channel holds its memory.
const void *lasting_data(Loan *loan, const Block &block)
{
    if (!block.lent)
        return block.data;
    loan->is_called.store(1);
    while (loan->state.load() == Loan::lent) {
        if (!lives(loan->writer))
            return block.lent;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return block.data;
}

bool is_being_read(const Loan &loan)
{
    return std::any_of(std::begin(loan.reading), std::end(loan.reading), [](const auto &place) {
        int32_t reader = place.load();
        return reader != 0 && lives(reader - 1);
    });
}

// Some copies' time, since the reader copies too, and as long as it may take to get a CPU: after
// pauses, so little on average.
std::chrono::microseconds patience(uint64_t bytes)
{
    constexpr uint64_t BYTES_PER_US = 2000, CPU_US = 20000;
    return std::chrono::microseconds(CPU_US + bytes / BYTES_PER_US);
}

} // namespace onespace_adios
