// plugins/adios2/lend.cpp: EndStep of a writer lends the program's memory to readers (loan.hpp).
#include "writer.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>

namespace onespace_adios
{

// Deferred Puts that readers can read where they are. With Puts="wait" the memory is theirs until
// they release the step, as if it were the step's.
void Writer::lend()
{
    if (puts == Parameters::Puts::copy || (puts == Parameters::Puts::lend && !lending.shall_try()))
        return;
    std::vector<Deferred> others;
    for (Deferred &put : deferred) {
        Block &block = stage().blocks[put.block];
        if (!put.request.memory_count.empty() || block.dimensions == 0) {
            others.push_back(std::move(put));
        } else if (puts == Parameters::Puts::wait) {
            block.data = put.values;
        } else {
            block.lent = put.values;
            lent.push_back(put.block);
        }
    }
    deferred = std::move(others);
}

void Writer::await_release()
{
    int result = onespace_insitu_reclaim(channel, -1);
    if (result < 0)
        fail("EndStep", result);
}

// Until readers have released the step, or have been waited for long enough.
void Writer::settle(Stage &now)
{
    using clock = std::chrono::steady_clock;
    uint64_t bytes = 0;
    for (size_t block : lent)
        bytes += now.blocks[block].bytes;
    auto deadline = clock::now() + patience(bytes);
    int result = -ETIMEDOUT;
    while (result == -ETIMEDOUT && !now.loan.is_called.load() && clock::now() < deadline)
        result = onespace_insitu_reclaim(channel, 1);
    lending.ended(result == 0);
    if (result == -ETIMEDOUT)
        copy_lent(now);
    lent.clear();
    if (result < 0 && result != -ETIMEDOUT)
        fail("EndStep", result);
}

// Without memory for that it waits for readers, as long as they need.
void Writer::copy_lent(Stage &now)
{
    try {
        for (size_t number : lent) {
            Block &block = now.blocks[number];
            void *to = now.memory.give(block.bytes);
            memcpy(to, block.lent, block.bytes);
            block.data = to;
        }
    } catch (const std::bad_alloc &) {
        await_release();
        return;
    }
    now.loan.state.store(Loan::copied);
    while (is_being_read(now.loan))
        std::this_thread::sleep_for(std::chrono::microseconds(20));
}

} // namespace onespace_adios
