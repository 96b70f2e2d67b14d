// plugins/adios2/loan.hpp: blocks that readers read in the program's own memory, while EndStep of
// the writer waits for them.
//
// A deferred Put's memory is the program's again when EndStep returns. Where readers release a step
// about as fast as it could be copied, EndStep lends them that memory and waits: then a byte is
// copied once, by the reader's Get. If they take longer EndStep copies after all:
//
//   none -> lent      the writer, before it publishes the step
//   lent -> copied    the writer, when every Block::data is set
//
//   reader:  enters its id in `reading`          writer:  lent -> copied
//            still lent?                                  waits until nobody is in `reading`
//            it reads Block::lent, then leaves;           the memory is the program's
//            else it leaves and reads Block::data
//
// All of it sequentially consistent, so that at least one of the two sees the other. A step whose
// readers have released it is taken back (onespace_insitu_reclaim), so that nobody finds it later.
// tests/models/loan.pml has the protocol for Spin.
#pragma once

#include "exchange.hpp"

#include <chrono>

namespace onespace_adios
{

// The memory of a block, for a reader that holds the step: until this ends.
class Borrowed
{
  public:
    Borrowed(Loan *loan, const Block &block);
    ~Borrowed();
    Borrowed(const Borrowed &) = delete;
    Borrowed &operator=(const Borrowed &) = delete;
    const void *data() const
    {
        return address;
    }

  private:
    const void *address;
    std::atomic<int32_t> *place = nullptr;
};

// The memory of a block, for a reader that holds the step: until it releases it. Has the writer
// copy what it has lent.
const void *lasting_data(Loan *loan, const Block &block);

// Of a writer: whether somebody who lives reads lent memory.
bool is_being_read(const Loan &loan);

// How long EndStep of a writer waits for readers of so many bytes. A wait in vain costs time that a
// copy at once would have saved, so after one some steps are copied at once (backoff.hpp).
std::chrono::microseconds patience(uint64_t bytes);

} // namespace onespace_adios
