// onespace/sync/slots.hpp: small messages between ranks, in the flags' own lines or next to them.
//
// Each rank has a ring of slots per channel: flags with payload, written by that rank only and read
// as the algorithm requires. One message of a rank in each operation may be longer: it has memory
// of its own. The collective operations of an object are numbered 1, 2, ..., with the same numbers
// on all ranks; operation k uses slot k mod depth.
//
// A slot is reused only when all ranks are known to have finished the operation that used it
// before. Mostly that needs no communication: a rank that has read a message of every other rank in
// operation k knows that all have finished k - 1. Otherwise it reads the other ranks' completion
// counters. Ranks raise these every few operations only, because a writer that is ahead would take
// the line away from its reader in each operation (up to 1.8 times as slow, measured).
//
// The depth of the ring limits how far ranks may be ahead of one another in operations that do not
// synchronise them, such as scans and broadcasts. If ranks share CPUs, each that gets a CPU
// completes many operations before it must wait: 64 slots are up to six times as fast as eight. If
// each has its own CPU, eight stay in its cache and are up to 1.4 times as fast as 64 (both
// measured).
//
// A slot's counter is twice the number of its operation, plus one if the message is a failure: its
// writer takes no part in the operation, or has itself read a failure before. So a failure reaches
// every rank whose result depends on it, and leaves the slots usable.
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
    // Messages up to this size lie close together, so that a ring of them stays in the cache.
    static constexpr std::size_t medium_room = 512;
    // The ring of a message that is longer than `room`: that for its size; or, also for at most
    // medium_room bytes, that of the longest, so that a rank can write two in one operation.
    enum ring_choice { by_size, in_longest };

    // How many slots, and the longest that one message may be.
    struct shape {
        std::uint64_t depth; // a power of two
        std::size_t longest;
    };
    static constexpr shape shape_for(bool direct, bool oversubscribed)
    {
        return direct && oversubscribed ? shape{64, 8192} : shape{8, long_room};
    }
    static constexpr std::size_t memory_for(int channels, const shape &of)
    {
        return (channels * of.depth + 1) * sizeof(flag) + of.depth * (medium_room + of.longest);
    }

    // Collective.
    slots(const Member &of, int channels)
        : member_(of), shape_(shape_for(of.direct(), of.oversubscribed())),
          flags_(of.allocate(memory_for(channels, shape_))), channels_(channels)
    {
    }

    // Begins the next operation, in which the caller may write its slots.
    void begin()
    {
        operation_++;
        acknowledges_ = false;
        failed_by_ = -1;
        if (operation_ <= shape_.depth)
            return;
        std::uint64_t needed = operation_ - shape_.depth;
        // Halfway between the operations in which the counters are raised: then no rank waits for
        // the line.
        if (all_finished_ < needed + ack_interval && operation_ % ack_interval == ack_interval - 1)
            read_acks(0);
        if (all_finished_ < needed)
            read_acks(needed);
    }
    std::size_t longest() const
    {
        return shape_.longest;
    }
    void write(int channel, const void *data, std::size_t bytes, ring_choice ring = by_size)
    {
        if (bytes)
            std::memcpy(place(member_.rank(), channel, bytes, ring), data, bytes);
        post(channel);
    }
    // The message of `bytes` bytes that `rank` wrote in this operation; valid until `end`. The
    // bytes of a failure are undefined.
    const std::byte *read(int rank, int channel, std::size_t bytes, ring_choice ring = by_size)
    {
        is_failure_ = member_.await(*at(rank, channel), 2 * operation_, rank) == failure();
        if (is_failure_) [[unlikely]]
            failed_by_ = rank;
        return place(rank, channel, bytes, ring);
    }
    // Whether the last message that was read is a failure.
    bool is_failure() const
    {
        return is_failure_;
    }
    // The rank whose failure the caller has read in this operation, or the caller if it has failed;
    // -1: none.
    int failed_by() const
    {
        return failed_by_;
    }
    // The caller takes no part in this operation: all its messages are failures, and it reads none.
    void fail()
    {
        failed_by_ = member_.rank();
        for (std::uint64_t channel = 0; channel < channels_; channel++)
            post(static_cast<int>(channel));
        acknowledge();
    }
    // Whether the rank has written a message in this operation.
    bool is_written(int rank, int channel) const
    {
        return member_.await(*at(rank, channel), 0, rank) >= 2 * operation_;
    }
    // Memory of a rank's message; the caller writes its own there before `post`.
    std::byte *place(int rank, int channel, std::size_t bytes, ring_choice ring = by_size) const
    {
        if (bytes <= room)
            return at(rank, channel)->payload;
        std::size_t flags = (channels_ * shape_.depth + 1) * sizeof(flag);
        return flags_.template at<std::byte>(rank, bytes <= medium_room && ring == by_size
                                                       ? flags + index(operation_) * medium_room
                                                       : flags + shape_.depth * medium_room +
                                                             index(operation_) * shape_.longest);
    }
    void post(int channel)
    {
        member_.signal(*at(member_.rank(), channel), failed_by_ < 0 ? 2 * operation_ : failure());
        fetch_for_write(at(member_.rank(), channel, operation_ + 1));
    }
    // Another rank will call await_ack for the caller.
    void acknowledge()
    {
        acknowledges_ = true;
    }
    // The caller has finished this operation. `heard_all`: it has read data that depends on all
    // ranks having begun the operation, unless one has failed: its message depends on no other.
    void end(bool heard_all)
    {
        if (heard_all && failed_by_ < 0)
            all_finished_ = operation_ - 1;
        if (acknowledges_ || operation_ % ack_interval == 0 ||
            member_.lost()) // then, others may wait
            member_.signal(*finished(member_.rank()), operation_);
    }
    // The caller has left a barrier, so all ranks have finished all operations before it.
    void note_all_finished()
    {
        all_finished_ = operation_;
    }
    // Waits until `rank`, which must call `acknowledge`, has finished this operation.
    void await_ack(int rank) const
    {
        member_.await(*finished(rank), operation_, rank);
    }

  private:
    static constexpr std::uint64_t ack_interval = 4; // operations; at most half the depth

    std::uint64_t failure() const
    {
        return 2 * operation_ + 1;
    }
    // The index of an operation's slots in the rings.
    std::uint64_t index(std::uint64_t operation) const
    {
        return operation & (shape_.depth - 1);
    }
    flag *at(int rank, int channel) const
    {
        return at(rank, channel, operation_);
    }
    flag *at(int rank, int channel, std::uint64_t operation) const
    {
        return flags_.template at<flag>(rank,
                                        (channel * shape_.depth + index(operation)) * sizeof(flag));
    }
    // Reads the completion counters of all others; waits until each is at least `needed`.
    void read_acks(std::uint64_t needed)
    {
        std::uint64_t oldest = operation_;
        for (int i = 0; i < member_.size(); i++)
            if (i != member_.rank())
                oldest = std::min(oldest, member_.await(*finished(i), needed, i));
        all_finished_ = std::max(all_finished_, oldest);
    }
    // Takes the line from its readers of the previous round, so that the next write need not wait
    // for it.
    static void fetch_for_write(const flag *what)
    {
#ifdef __x86_64__
        __asm__ volatile("prefetchw %0" ::"m"(*what)); // which the builtin is with -mprfchw only
#else
        __builtin_prefetch(what, 1);
#endif
    }
    // The rank's completion counter: it has finished all operations up to this number. Read by
    // ranks before they overwrite a slot.
    flag *finished(int rank) const
    {
        return flags_.template at<flag>(rank, channels_ * shape_.depth * sizeof(flag));
    }

    Member member_;
    shape shape_;
    typename Member::region flags_;
    std::uint64_t channels_, operation_ = 0, all_finished_ = 0;
    int failed_by_ = -1;
    bool acknowledges_ = false, is_failure_ = false;
};

} // namespace onespace::sync::detail

#endif
