// onespace/sync/slots.hpp: small messages between ranks, in the flags' own lines or next to them.
//
// Each rank has eight slots per channel: flags with payload, written by that rank only and read as
// the algorithm requires. One message of a rank in each operation may be longer: it lies in a page
// of its own. The collective operations of an object are numbered 1, 2, ... on all
// ranks alike; operation k uses slot k mod 8. A slot is reused only when all ranks are known to
// have finished the operation that used it before. That is mostly known without communication: a
// rank that has heard from all others in operation k knows that all have finished k - 1.
#ifndef ONESPACE_SYNC_SLOTS_HPP
#define ONESPACE_SYNC_SLOTS_HPP

#include <algorithm>
#include <cstring>

#include "onespace/sync/member.hpp"

namespace onespace::sync::detail
{

template <member Member> class slots
{
  public:
    static constexpr std::size_t room = flag::payload_size; // bytes of a message
    static constexpr std::size_t long_room = 2048;          // of one in each operation
    static constexpr std::uint64_t depth = 8;

    static constexpr std::size_t memory_for(int channels)
    {
        return (channels * depth + 1) * sizeof(flag) + depth * long_room;
    }

    // Collective.
    slots(const Member &of, int channels)
        : member_(of), flags_(of.allocate(memory_for(channels))), channels_(channels)
    {
    }

    // Begins the next operation, in which the caller may write its slots.
    void begin()
    {
        operation_++;
        if (operation_ <= depth || all_finished_ >= operation_ - depth)
            return;
        std::uint64_t oldest = operation_;
        for (int i = 0; i < member_.size(); i++)
            if (i != member_.rank())
                oldest = std::min(oldest, member_.await(*finished(i), operation_ - depth, i));
        all_finished_ = std::max(all_finished_, oldest);
    }
    void write(int channel, const void *data, std::size_t bytes)
    {
        if (bytes)
            std::memcpy(place(member_.rank(), channel, bytes), data, bytes);
        post(channel);
    }
    // The message of so many bytes that `rank` wrote in this operation; valid until `end`.
    const std::byte *read(int rank, int channel, std::size_t bytes) const
    {
        member_.await(*at(rank, channel), operation_, rank);
        return place(rank, channel, bytes);
    }
    // Where a message of the rank lies; its own is written there before `post`.
    std::byte *place(int rank, int channel, std::size_t bytes) const
    {
        return bytes <= room ? at(rank, channel)->payload : page(rank);
    }
    void post(int channel)
    {
        member_.signal(*at(member_.rank(), channel), operation_);
    }
    // The caller has finished this operation. `heard_all`: the data it read depended on all ranks
    // having begun it.
    void end(bool heard_all)
    {
        if (heard_all)
            all_finished_ = operation_ - 1;
        member_.signal(*finished(member_.rank()), operation_);
    }
    // After `end`: waits until `rank` has finished this operation, too.
    void await_end(int rank) const
    {
        member_.await(*finished(rank), operation_, rank);
    }

  private:
    flag *at(int rank, int channel) const
    {
        return flags_.template at<flag>(rank,
                                        (channel * depth + operation_ % depth) * sizeof(flag));
    }
    // Its rank has finished all operations up to this number; read by ranks before they overwrite.
    flag *finished(int rank) const
    {
        return flags_.template at<flag>(rank, channels_ * depth * sizeof(flag));
    }
    std::byte *page(int rank) const
    {
        return flags_.template at<std::byte>(rank, (channels_ * depth + 1) * sizeof(flag) +
                                                       operation_ % depth * long_room);
    }

    Member member_;
    typename Member::region flags_;
    std::uint64_t channels_, operation_ = 0, all_finished_ = 0;
};

} // namespace onespace::sync::detail

#endif
