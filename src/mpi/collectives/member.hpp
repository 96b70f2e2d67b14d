// src/mpi/collectives/member.hpp: a rank of a communicator as onespace/sync's algorithms see it.
#ifndef ONESPACE_MPI_COLLECTIVES_MEMBER_HPP
#define ONESPACE_MPI_COLLECTIVES_MEMBER_HPP

#include <cstdlib>
#include <span>

#include "mpi/collectives/engine.h"
#include "onespace/sync/member.hpp"

namespace onespace::mpi
{

using sync::flag;

// What the copies of a member share.
struct state {
    engine_ranks ranks;
    std::byte *memory;
    std::size_t stride, used = 0;
    int error = 0; // once it is set, nothing waits any more
};

class member
{
  public:
    class region
    {
      public:
        region(const state &of, std::size_t offset)
            : memory_(of.memory + offset), stride_(of.stride)
        {
        }
        template <class T> T *at(int rank, std::size_t offset = 0) const
        {
            return reinterpret_cast<T *>(memory_ + rank * stride_ + offset);
        }

      private:
        std::byte *memory_;
        std::size_t stride_;
    };
    // Never asked for more than engine_new has tried to get.
    class buffer
    {
      public:
        buffer() = default;
        buffer(const buffer &) = delete;
        buffer &operator=(const buffer &) = delete;
        ~buffer()
        {
            std::free(memory_);
        }
        std::byte *get(std::size_t bytes)
        {
            if (bytes <= bytes_)
                return memory_;
            std::free(memory_);
            memory_ = static_cast<std::byte *>(std::malloc(bytes));
            bytes_ = memory_ ? bytes : 0;
            return memory_;
        }

      private:
        std::byte *memory_ = nullptr;
        std::size_t bytes_ = 0;
    };
    struct links {
        int parent;
        std::span<const int> children;
    };

    explicit member(state &of) : state_(&of)
    {
    }
    int rank() const
    {
        return state_->ranks.rank;
    }
    int size() const
    {
        return state_->ranks.size;
    }
    static constexpr bool direct()
    {
        return true;
    }
    bool oversubscribed() const
    {
        return state_->ranks.is_oversubscribed;
    }
    bool guarded() const
    {
        return state_->ranks.is_guarded;
    }
    // Release: pairs with the acquire of await. What the caller wrote before is seen after it.
    void signal(flag &what, std::uint64_t value) const
    {
        what.value.store(value, std::memory_order_release);
    }
    std::uint64_t await(flag &what, std::uint64_t value, int) const
    {
        auto seen = what.value.load(std::memory_order_acquire);
        if (seen >= value) [[likely]]
            return seen;
        if (!state_->error)
            state_->error = state_->ranks.await(
                state_->ranks.context, reinterpret_cast<std::uint64_t *>(&what.value), value);
        return what.value.load(std::memory_order_acquire);
    }
    bool lost() const
    {
        return state_->error != 0;
    }
    void disagrees(int rank) const
    {
        if (!state_->error)
            state_->error = state_->ranks.disagrees(state_->ranks.context, rank);
    }
    region allocate(std::size_t bytes) const
    {
        region given(*state_, state_->used);
        state_->used += bytes;
        return given;
    }
    // A binomial tree in rank order from the root on.
    links links_from(int root)
    {
        int ranks = size(), at = (rank() - root + ranks) % ranks, bit = 1, count = 0;
        while (bit <= at)
            bit <<= 1;
        for (int below = bit; at + below < ranks; below <<= 1)
            children_[count++] = (at + below + root) % ranks;
        return {at ? (at - (bit >> 1) + root) % ranks : -1,
                {children_, static_cast<std::size_t>(count)}};
    }

  private:
    state *state_;
    int children_[32];
};

static_assert(sync::detail::member<member>);

} // namespace onespace::mpi

#endif
