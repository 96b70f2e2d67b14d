// src/mpi/collectives/engine.cpp: see engine.h.
#include "onespace/sync/engine.hpp"

#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "mpi/collectives/engine.h"

namespace
{

using onespace::sync::algorithm;
using onespace::sync::flag;
using onespace::sync::detail::kind;
using onespace::sync::detail::offer;
using onespace::sync::detail::operand;
using onespace::sync::detail::part;

// The state that the copies of a member share.
struct member_state {
    engine_ranks ranks;
    std::byte *memory;
    std::size_t stride, used = 0;
    int error = 0;         // once it is set no call waits any more
    bool has_read = false; // see engine_take_has_read
    std::uint64_t calls_finished = 0;

    // How many calls a rank has finished without an error. The rank writes it (release) when it has
    // raised its last flag of the call; others read it (acquire) when that rank has ended.
    std::atomic<std::uint64_t> &finished(int rank) const
    {
        return reinterpret_cast<flag *>(memory + (rank + 1) * stride)[-1].value;
    }
};

// A rank of the communicator as the algorithms see it (onespace/sync/member.hpp).
class member
{
  public:
    class region
    {
      public:
        region(const member_state &of, std::size_t offset)
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
    // engine_new reserves what later calls of get ask for.
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

    explicit member(member_state &of) : state_(&of)
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
    // Release: pairs with the acquire of await, after which what the caller wrote before is seen.
    void signal(flag &what, std::uint64_t value) const
    {
        what.value.store(value, std::memory_order_release);
    }
    std::uint64_t await(flag &what, std::uint64_t value, int) const
    {
        state_->has_read = true;
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
    void mismatch(int rank) const
    {
        if (!state_->error)
            state_->error = state_->ranks.mismatch(state_->ranks.context, rank);
    }
    region allocate(std::size_t bytes) const
    {
        region given(*state_, state_->used);
        state_->used += bytes;
        return given;
    }
    // A binomial tree in rank order, starting at the root.
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
    member_state *state_;
    int children_[32];
};

static_assert(onespace::sync::detail::member<member>);

// Long operands behind the callbacks of engine_blocks; see `contiguous` in onespace/sync/large.hpp.
class loaded
{
  public:
    explicit loaded(const engine_operation &operation) : operation_(operation)
    {
    }
    std::size_t block() const
    {
        return operation_.blocks->max_bytes;
    }
    const void *layout() const
    {
        return operation_.blocks->layout;
    }
    const void *out_layout() const
    {
        return operation_.blocks->out_layout;
    }
    void sum_in(std::byte *)
    {
    }
    void load(const operand &from, std::size_t at, std::size_t bytes)
    {
        load_to(ENGINE_SUM, from, at, bytes);
    }
    void add(const operand &from, std::size_t at, std::size_t bytes)
    {
        load_next(from, at, bytes);
        add_next(bytes);
    }
    void load_next(const operand &from, std::size_t at, std::size_t bytes)
    {
        load_to(ENGINE_NEXT, from, at, bytes);
    }
    void add_next(std::size_t bytes)
    {
        operation_.blocks->combine(operation_.context, bytes);
    }
    void store(const operand &to, std::size_t at, std::size_t bytes)
    {
        operation_.blocks->store(operation_.context, to.data, to.layout, at, bytes);
    }
    void copy(const operand &to, std::size_t to_at, const operand &from, std::size_t from_at,
              std::size_t bytes)
    {
        for (std::size_t done = 0, some; done < bytes; done += some) {
            some = std::min(block(), bytes - done);
            load(from, from_at + done, some);
            store(to, to_at + done, some);
        }
    }

  private:
    void load_to(engine_operand which, const operand &from, std::size_t at, std::size_t bytes)
    {
        operation_.blocks->load(operation_.context, which, from.data, from.layout, at, bytes);
    }
    const engine_operation &operation_;
};

using algorithms = onespace::sync::detail::engine<member>;

static_assert(ENGINE_FLAT == static_cast<int>(algorithm::flat));
static_assert(ENGINE_LARGE == static_cast<int>(algorithm::large));
static_assert(ENGINE_ALL_RANKS == algorithms::all_ranks);
static_assert(sizeof(part) == sizeof(engine_part) && sizeof(offer) == sizeof(engine_offer));
static_assert(offsetof(part, layout) == offsetof(engine_part, layout));
static_assert(offsetof(offer, parts) == offsetof(engine_offer, parts));

} // namespace

struct engine {
    engine(const engine_ranks &ranks, void *memory)
        : state{ranks, static_cast<std::byte *>(memory),
                engine_memory(ranks.size, ranks.is_oversubscribed)},
          run(member(state), static_cast<algorithm>(ranks.algorithm), 0)
    {
    }
    member_state state;
    algorithms run;
};

// The end of each call.
static int finish(engine *engine)
{
    member_state &state = engine->state;
    if (!state.error)
        state.finished(state.ranks.rank).store(++state.calls_finished, std::memory_order_release);
    return state.error;
}

// The end of a call that reads messages of other ranks.
static int finish_reading(engine *engine)
{
    int failed_by = engine->run.failed_by(), error = finish(engine);
    if (error || failed_by < 0)
        return error;
    return engine->state.ranks.peer_failed(engine->state.ranks.context, failed_by);
}

// A loop computes op(into, from) into `into`. The order of operands decides bits of the result: of
// two NaNs, or of the maximum of a NaN or a zero. Both partners must compute the same.
static void combine_before(const engine_operation *operation, void *into, const void *from,
                           std::size_t bytes)
{
    alignas(std::max_align_t) std::byte first[flag::payload_size];
    std::memcpy(first, from, bytes); // in a slot: no more than its payload
    operation->loop(first, into, bytes / operation->element);
    std::memcpy(into, first, bytes);
}

static auto combine_by(const engine *engine, const engine_operation *operation)
{
    return [=](void *into, const void *from, std::size_t bytes, bool from_is_first) {
        if (engine->run.failed_by() >= 0)
            return; // `from` may be no operand, which a function of the program must not get
        if (operation->loop && from_is_first)
            combine_before(operation, into, from, bytes);
        else if (operation->loop)
            operation->loop(into, from, bytes / operation->element);
        else
            operation->combine(operation->context, into, from, bytes, from_is_first);
    };
}

static auto receive_by(engine_receive *receive, void *context)
{
    return [=](int source, const part &theirs) {
        receive(context, source, reinterpret_cast<const engine_part *>(&theirs));
    };
}

extern "C" {

size_t engine_memory(int ranks, int is_oversubscribed)
{
    return algorithms::memory_for(ranks, is_oversubscribed) + sizeof(flag); // calls_finished
}

struct engine *engine_new(const struct engine_ranks *ranks, void *memory)
{
    void *room = std::malloc(sizeof(struct engine));
    struct engine *made = room ? new (room) engine(*ranks, memory) : nullptr;
    if (!made || made->run.reserve())
        return made;
    engine_free(made);
    return nullptr;
}

void engine_free(struct engine *engine)
{
    if (engine)
        engine->~engine();
    std::free(engine);
}

int engine_has_finished(const struct engine *engine, int rank)
{
    const member_state &state = engine->state;
    return state.finished(rank).load(std::memory_order_acquire) > state.calls_finished;
}

int engine_take_has_read(struct engine *engine)
{
    return std::exchange(engine->state.has_read, false);
}

int engine_barrier(struct engine *engine)
{
    engine->run.barrier();
    return finish(engine);
}

int engine_fail(struct engine *engine)
{
    engine->run.fail();
    return finish(engine);
}

int engine_reduce(struct engine *engine, const void *in, void *out, size_t bytes,
                  const struct engine_operation *operation, int root)
{
    if (operation->blocks) {
        loaded blocks(*operation);
        engine->run.large_reduce(in, out, bytes, operation->element, blocks, root);
    } else {
        auto combine = combine_by(engine, operation);
        engine->run.reduce(in, out, bytes, operation->element, combine, operation->commutes, root);
    }
    return finish_reading(engine);
}

int engine_reduce_scatter(struct engine *engine, const void *in, size_t bytes, void *out,
                          size_t begin, size_t end, const struct engine_operation *operation)
{
    if (operation->blocks) {
        loaded blocks(*operation);
        engine->run.large_reduce_scatter(in, bytes, out, begin, end, operation->element, blocks);
    } else {
        auto combine = combine_by(engine, operation);
        engine->run.reduce_scatter(in, bytes, out, begin, end, operation->element, combine);
    }
    return finish_reading(engine);
}

int engine_scan(struct engine *engine, const void *in, void *out, size_t bytes,
                const struct engine_operation *operation, int is_exclusive)
{
    if (operation->blocks) {
        loaded blocks(*operation);
        engine->run.large_scan(in, out, bytes, operation->element, blocks, is_exclusive);
    } else {
        auto combine = combine_by(engine, operation);
        engine->run.scan(in, out, bytes, operation->element, combine, is_exclusive);
    }
    return finish_reading(engine);
}

int engine_exchange(struct engine *engine, enum engine_kind kind_of, int from, int to,
                    const struct engine_offer *mine, engine_receive *receive, void *context)
{
    static constexpr kind kinds[] = {kind::gather, kind::scatter, kind::alltoall};
    engine->run.exchange(kinds[kind_of], from, to, reinterpret_cast<const offer *>(mine),
                         receive_by(receive, context));
    return finish_reading(engine);
}

int engine_broadcast(struct engine *engine, int root, const struct engine_offer *mine,
                     engine_receive *receive, void *context)
{
    engine->run.broadcast(*reinterpret_cast<const offer *>(mine), root,
                          receive_by(receive, context));
    return finish_reading(engine);
}
}
