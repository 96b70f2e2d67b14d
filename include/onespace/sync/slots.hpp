// onespace/sync/slots.hpp: small messages between the ranks of a team, in the flags' own lines.
//
// Each rank has four slots per channel: flags with payload, written by that rank only and read as
// the algorithm requires. The collective operations of an object are numbered 1, 2, ... on all
// ranks alike; operation k uses slot k mod 4. A slot is reused only when all ranks are known to
// have finished the operation that used it before. That is mostly known without communication: a
// rank that has heard from all others in operation k knows that all have finished k - 1.
#ifndef ONESPACE_SYNC_SLOTS_HPP
#define ONESPACE_SYNC_SLOTS_HPP

#include "onespace/sync/team.hpp"

namespace onespace::sync::detail
{

template <order_policy Order, wait_policy Wait> class slots
{
  public:
    static constexpr std::size_t room = flag::payload_size; // bytes of a message
    static constexpr std::uint64_t depth = 4;

    // Collective.
    slots(const team &of, int channels)
        : team_(of), flags_(of.allocate((channels * depth + 1) * sizeof(flag))), channels_(channels)
    {
    }

    // Begins the next operation, in which the caller may write its slots.
    void begin()
    {
        operation_++;
        if (operation_ <= depth || all_finished_ >= operation_ - depth)
            return;
        std::uint64_t oldest = operation_;
        for (int i = 0; i < team_.size(); i++)
            if (i != team_.rank())
                oldest =
                    std::min(oldest, team_.await<Order, Wait>(*finished(i), operation_ - depth, i));
        all_finished_ = std::max(all_finished_, oldest);
    }
    void write(int channel, const void *data, std::size_t bytes)
    {
        flag &slot = *at(team_.rank(), channel);
        if (bytes)
            std::memcpy(slot.payload, data, bytes);
        team::signal<Order, Wait>(slot, operation_);
    }
    // The message that `rank` wrote in this operation; valid until `end`.
    const std::byte *read(int rank, int channel) const
    {
        flag &slot = *at(rank, channel);
        team_.await<Order, Wait>(slot, operation_, rank);
        return slot.payload;
    }
    // The caller has finished this operation. `heard_all`: the data it read depended on all ranks
    // having begun it.
    void end(bool heard_all)
    {
        if (heard_all)
            all_finished_ = operation_ - 1;
        team::signal<Order, Wait>(*finished(team_.rank()), operation_);
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

    team team_;
    region flags_;
    std::uint64_t channels_, operation_ = 0, all_finished_ = 0;
};

} // namespace onespace::sync::detail

#endif
