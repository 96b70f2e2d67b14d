// src/mpi/collectives/engine.cpp: see engine.h.
#include "onespace/sync/engine.hpp"

#include <cstring>
#include <new>

#include "mpi/collectives/engine.h"
#include "mpi/collectives/member.hpp"

using onespace::mpi::member;
using onespace::mpi::state;
using algorithms = onespace::sync::detail::engine<member>;

using onespace::sync::detail::kind;
using onespace::sync::detail::offer;
using onespace::sync::detail::part;

using onespace::sync::algorithm;
static_assert(ENGINE_FLAT == static_cast<int>(algorithm::flat));
static_assert(ENGINE_LARGE == static_cast<int>(algorithm::large));
static_assert(ENGINE_EVERYBODY == algorithms::everybody);
static_assert(ENGINE_SHARE_MAX == algorithms::share_max);
static_assert(sizeof(part) == sizeof(engine_part) && sizeof(offer) == sizeof(engine_offer));
static_assert(offsetof(part, form) == offsetof(engine_part, form));
static_assert(offsetof(offer, parts) == offsetof(engine_offer, parts));

struct engine {
    engine(const engine_ranks &ranks, void *memory)
        : shared{ranks, static_cast<std::byte *>(memory),
                 engine_memory(ranks.size, ranks.is_oversubscribed)},
          run(member(shared), static_cast<algorithm>(ranks.algorithm), 0)
    {
    }
    state shared;
    algorithms run;
};

// A call that reads messages of others has ended.
static int result_of(const engine *engine)
{
    int failed_by = engine->run.failed_by();
    if (engine->shared.error || failed_by < 0)
        return engine->shared.error;
    return engine->shared.ranks.peer_failed(engine->shared.ranks.context, failed_by);
}

// A loop puts op(into, from) into `into`. Which operand is first decides bits of the result: of two
// NaNs, of a NaN or a zero and the largest or smallest. Both partners must compute the same.
static void combine_before(const engine_operation *operation, void *into, const void *from,
                           std::size_t bytes)
{
    alignas(std::max_align_t) std::byte first[onespace::sync::flag::payload_size];
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

static auto taken_by(engine_take *take, void *context)
{
    return [=](int from, const part &theirs) {
        take(context, from, reinterpret_cast<const engine_part *>(&theirs));
    };
}

extern "C" {

size_t engine_memory(int ranks, int is_oversubscribed)
{
    return algorithms::memory_for(ranks, is_oversubscribed);
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

int engine_barrier(struct engine *engine)
{
    engine->run.barrier();
    return engine->shared.error;
}

int engine_share(struct engine *engine, const void *mine, size_t bytes, const void **all)
{
    *all = engine->run.share(mine, bytes);
    return result_of(engine);
}

int engine_fail(struct engine *engine)
{
    engine->run.fail();
    return engine->shared.error;
}

int engine_disagree(struct engine *engine, int rank)
{
    engine->run.member().disagrees(rank);
    return engine->shared.error;
}

int engine_reduce(struct engine *engine, const void *in, void *out, size_t bytes,
                  const struct engine_operation *operation, int root)
{
    auto combine = combine_by(engine, operation);
    engine->run.reduce(in, out, bytes, operation->element, combine, operation->commutes, root);
    return result_of(engine);
}

int engine_reduce_scatter(struct engine *engine, const void *in, size_t bytes, void *out,
                          size_t begin, size_t end, const struct engine_operation *operation)
{
    auto combine = combine_by(engine, operation);
    engine->run.reduce_scatter(in, bytes, out, begin, end, operation->element, combine);
    return result_of(engine);
}

int engine_scan(struct engine *engine, const void *in, void *out, size_t bytes,
                const struct engine_operation *operation, int is_exclusive)
{
    auto combine = combine_by(engine, operation);
    engine->run.scan(in, out, bytes, operation->element, combine, is_exclusive);
    return result_of(engine);
}

int engine_exchange(struct engine *engine, enum engine_call call, int from, int to,
                    const struct engine_offer *mine, engine_take *take, void *context)
{
    static constexpr kind kinds[] = {kind::gather, kind::scatter, kind::alltoall};
    engine->run.exchange(kinds[call], from, to, reinterpret_cast<const offer *>(mine),
                         taken_by(take, context));
    return result_of(engine);
}

int engine_broadcast(struct engine *engine, int root, const struct engine_offer *mine,
                     engine_take *take, void *context)
{
    engine->run.broadcast(*reinterpret_cast<const offer *>(mine), root, taken_by(take, context));
    return result_of(engine);
}
}
