// onespace/sync/engine.hpp: the collective operations on bytes, over any member (member.hpp).
//
// collectives.hpp gives them types. Data that fits a slot travels in it (this file). Larger data is
// read in place where addresses are valid in all ranks (offers.hpp), else it goes through shared
// memory in pieces (large.hpp).
//
// Operations work on elements through a function `combine(into, from, bytes, from_is_first)`, which
// puts op(from, into) into `into` if from_is_first, else op(into, from), element by element.
// Operands are combined in rank order. An operation that commutes may go up a tree (reduce), which
// combines operands in the tree's order, the root's first. On a rank that lost a peer the operation
// throws, or it returns early and member.lost() is true.
#ifndef ONESPACE_SYNC_ENGINE_HPP
#define ONESPACE_SYNC_ENGINE_HPP

#include <bit>
#include <optional>

#include "onespace/sync/copy.h"
#include "onespace/sync/slots.hpp"

namespace onespace::sync
{

// The algorithms, for all numbers of ranks. All ranks must choose the same.
enum class algorithm {
    automatic, // flat if the ranks are few or share CPUs; else doubling
    flat,      // each rank reads all others: one step
    doubling,  // recursive doubling, ceil(log2 n) steps
    tree,      // up and down a tree that follows the machine's topology
    large,     // as flat, but direct teams treat short data like long: read in place, in slices
};

namespace detail
{

// The part of an offer for one receiver.
struct part {
    const std::byte *data;
    std::size_t bytes;
    const void *layout; // how the bytes lie in memory, opaque here; null: contiguous
};

// A rank's offer to the others: parts[i] to rank i or, without `parts`, `bytes` bytes of that
// layout from base + i * stride.
struct offer {
    const std::byte *base;
    std::size_t bytes, stride;
    const void *layout;
    const part *parts;

    part of(int receiver) const
    {
        return parts ? parts[receiver] : part{base + receiver * stride, bytes, layout};
    }
};

// An operand or result of a large reduction.
struct operand {
    std::byte *data;
    const void *layout; // as of a part
};

enum class kind : std::uint64_t { reduce, broadcast, gather, scatter, alltoall, scan };

template <member Member> class engine
{
  public:
    static constexpr int all_ranks = -1; // in place of a root

    // The most memory that an engine of direct ranks (their addresses are valid in one another)
    // asks member.allocate for.
    static constexpr std::size_t memory_for(int ranks, bool oversubscribed)
    {
        auto shape = slots<Member>::shape_for(true, oversubscribed);
        return slots<Member>::memory_for(channels_for(ranks), shape) + sizeof(flag);
    }

    // Collective. `piece`: bytes of each of two shared buffers per rank for large data; allocated
    // at the first large one, and never by ranks whose addresses are valid in one another.
    engine(const Member &of, algorithm how, std::size_t piece)
        : member_(of), slots_(of, channels_for(of.size())), rounds_(of, radix_for(how, of.size())),
          how_(choose(how, of)), is_large_(how == algorithm::large && of.direct()),
          piece_(std::max(piece, line_size))
    {
    }

    // `in` of all ranks, combined, to `out` of the root, or of all ranks. The root's `in` and `out`
    // may be the same memory. `element`: bytes of one.
    template <class Combine>
    void reduce(const void *in, void *out, std::size_t bytes, std::size_t element, Combine &combine,
                bool commutes, int root)
    {
        // To all ranks the result is a second message, which has room only if the first is short.
        bool can_use_tree =
            commutes && how_ != algorithm::flat &&
            bytes <= (root == all_ranks ? slots<Member>::medium_room : slots<Member>::long_room);
        if (!is_short(bytes) && !can_use_tree) {
            contiguous<Combine> blocks(combine, sum_, element);
            return large_reduce(in, out, bytes, element, blocks, root);
        }
        bool gets = root == all_ranks || root == member_.rank();
        // By doubling each rank sends several messages, which must fit slots.
        bool uses_doubling = root == all_ranks && how_ == algorithm::doubling && is_short(bytes);
        bool uses_tree = can_use_tree && !uses_doubling;
        slots_.begin();
        if (uses_tree)
            reduce_up(in, out, bytes, combine, root == all_ranks ? 0 : root);
        else if (root == all_ranks && how_ != algorithm::flat)
            reduce_doubling(in, out, bytes, combine);
        else if (gets)
            reduce_flat(in, out, bytes, combine);
        else
            slots_.write(flat_channel, in, bytes);
        if (uses_tree && root == all_ranks)
            broadcast_down(out, bytes, 0, slots<Member>::in_longest);
        slots_.end(gets);
    }
    // The bytes from `begin` to `end` of `in` of all ranks, combined, to `out`. `bytes` is the same
    // on all ranks; `begin` and `end` may differ. In large operations `out` is not part of `in`.
    template <class Combine>
    void reduce_scatter(const void *in, std::size_t bytes, void *out, std::size_t begin,
                        std::size_t end, std::size_t element, Combine &combine);
    // `in` of all ranks up to the caller, combined, to `out`, which may be `in`; if `exclusive`
    // without the caller's, so that rank 0's `out` stays as it is. Large ones need direct ranks.
    template <class Combine>
    void scan(const void *in, void *out, std::size_t bytes, std::size_t element, Combine &combine,
              bool exclusive);
    // The same of long data, in blocks (large.hpp: contiguous).
    template <class Blocks>
    void large_reduce(const void *in, void *out, std::size_t bytes, std::size_t element,
                      Blocks &blocks, int root);
    template <class Blocks>
    void large_reduce_scatter(const void *in, std::size_t bytes, void *out, std::size_t begin,
                              std::size_t end, std::size_t element, Blocks &blocks);
    template <class Blocks>
    void large_scan(const void *in, void *out, std::size_t bytes, std::size_t element,
                    Blocks &blocks, bool exclusive);

    // The root's `data`, to all ranks.
    void broadcast(void *data, std::size_t bytes, int root)
    {
        if (bytes > slots<Member>::long_room)
            return large_broadcast(bytes_of(data), bytes, root);
        slots_.begin();
        if (how_ != algorithm::flat)
            broadcast_down(data, bytes, root);
        else if (member_.rank() == root)
            slots_.write(flat_channel, data, bytes);
        else
            fetch(data, bytes, root, flat_channel);
        slots_.end(false);
    }

    // `bytes` of each rank, in rank order, to `out` of the root, or of all ranks.
    void gather(const void *in, void *out, std::size_t bytes, int root)
    {
        if (bytes > slots<Member>::long_room)
            return large_gather(bytes_of(in), bytes_of(out), bytes, root);
        bool gets = root == all_ranks || member_.rank() == root;
        slots_.begin();
        slots_.write(flat_channel, in, bytes);
        for (int i = 0; gets && i < member_.size(); i++)
            fetch(bytes_of(out) + i * bytes, bytes, i, flat_channel);
        slots_.end(gets);
    }

    // Rank i gets the i-th `bytes` of the root's `in`.
    void scatter(const void *in, void *out, std::size_t bytes, int root);

    // For direct ranks only. Each rank that is `from` (a rank, or all_ranks) sends `mine`; each
    // that is `to` calls receive(rank, part) with every other rank's part for it, in no certain
    // order. Parts may differ in size. First, or last of all, each calls receive(own rank,
    // nothing), to copy what it sends to itself.
    template <class Receive>
    void exchange(kind what, int from, int to, const offer *mine, Receive &&receive);
    // The same from the root to all, for short data and many ranks down a tree. `mine` is what the
    // caller has after receive: ranks pass it on.
    template <class Receive> void broadcast(const offer &mine, int root, Receive &&receive);

    void barrier()
    {
        rounds_.wait();
        if (!member_.lost())
            slots_.note_all_finished();
    }

    // In place of any operation but a barrier, whichever the others call: the caller's arguments
    // are wrong. The others' operations end; those that need the caller's data have no result.
    void fail()
    {
        slots_.begin();
        slots_.fail();
        slots_.end(false);
    }
    // The rank whose failure left the caller's last operation, barriers apart, without a result, or
    // that passed on a failure; -1: there is a result.
    int failed_by() const
    {
        return slots_.failed_by();
    }

    // Allocates the caller's own memory, for elements of up to 4 KiB. False: out of memory.
    bool reserve()
    {
        return peers_.get(member_.size() * sizeof(addresses)) && sum_.get(2 * block_bytes(4096));
    }

    const Member &member() const noexcept
    {
        return member_;
    }

  private:
    // The size of a block of whole elements, about 4 KiB: it stays in the first-level cache.
    static constexpr std::size_t block_bytes(std::size_t element)
    {
        return (4096 / element + 1) * element;
    }
    enum { flat_channel, up_channel, down_channel, doubling_channel };
    using ring_choice = typename slots<Member>::ring_choice;

    static constexpr int channels_for(int ranks)
    {
        return doubling_channel + 2 + std::bit_width(static_cast<unsigned>(ranks));
    }
    // The radix of the barrier's rounds; 0: rounds chooses.
    static int radix_for(algorithm how, int size)
    {
        return how == algorithm::automatic                         ? 0
               : how == algorithm::flat || how == algorithm::large ? std::max(size, 2)
               : how == algorithm::doubling                        ? 2
                                                                   : 4;
    }
    static algorithm choose(algorithm how, const Member &of)
    {
        if (how == algorithm::large)
            return algorithm::flat;
        if (how != algorithm::automatic)
            return how;
        return of.oversubscribed() || of.size() <= 8 ? algorithm::flat : algorithm::doubling;
    }
    static std::byte *bytes_of(void *data)
    {
        return static_cast<std::byte *>(data);
    }
    static const std::byte *bytes_of(const void *data)
    {
        return static_cast<const std::byte *>(data);
    }
    // Copies an offer of `from`, which must have the expected size.
    void receive_exactly(int from, const part &theirs, std::byte *to, std::size_t bytes)
    {
        if (theirs.bytes == bytes)
            onespace_copy(to, theirs.data, bytes);
        else
            member_.mismatch(from);
    }
    static void copy(void *to, const void *from, std::size_t bytes)
    {
        if (bytes && to != from)
            onespace_copy(to, from, bytes);
    }

    // Whether it is faster that each rank that gets the result reads the data of all ranks than
    // that each combines a slice of it, which needs three waits (measured).
    bool is_short(std::size_t bytes) const
    {
        std::size_t all = bytes * member_.size(), most = member_.oversubscribed() ? 32768 : 4096;
        if (is_large_)
            return false;
        return bytes <= slots<Member>::room ||
               (how_ == algorithm::flat && bytes <= slots<Member>::long_room && all <= most);
    }
    void fetch(void *out, std::size_t bytes, int rank, int channel)
    {
        copy(out, slots_.read(rank, channel, bytes), bytes);
    }
    template <class Combine>
    void reduce_flat(const void *in, void *out, std::size_t bytes, Combine &combine);
    template <class Combine>
    void reduce_doubling(const void *in, void *out, std::size_t bytes, Combine &combine);
    template <class Combine>
    void reduce_up(const void *in, void *out, std::size_t bytes, Combine &combine, int root);
    void broadcast_down(void *data, std::size_t bytes, int root,
                        ring_choice ring = slots<Member>::by_size);

    void large_broadcast(std::byte *data, std::size_t bytes, int root);
    void large_gather(const std::byte *in, std::byte *out, std::size_t bytes, int root);
    // An offer in its slot. Behind it lies the data, or a page of it, if that was
    // copied; else the offer.
    struct posted {
        static constexpr std::uint16_t in_place = 0xffff, in_parts = 0xfffe;
        std::uint32_t call;          // equal on all ranks
        std::uint16_t bytes, stride; // of copied data; or in_place; or in_parts and bytes
    };
    // How much is copied for its readers, so that its owner need not wait for them. Compared with
    // reading in place, copying 512 bytes takes 0.6 times as long if they were just written, and
    // 1.3 times if they were sent before (measured). Where ranks share CPUs, a wait costs most.
    std::size_t copied_max() const
    {
        if (is_large_)
            return 0;
        return member_.oversubscribed() ? slots_.longest() : slots_.medium_room;
    }
    static std::uint32_t call_of(kind what, int from, int to)
    {
        return static_cast<std::uint32_t>(what) << 28 | static_cast<std::uint32_t>(from + 1) << 14 |
               static_cast<std::uint32_t>(to + 1);
    }
    bool post(const offer &mine, std::uint32_t call);
    bool post_parts(const part *parts, posted &shown);
    // Where the copied data of a rank lies, of so many bytes in all.
    std::byte *data_of(int rank, std::size_t bytes) const
    {
        bool is_behind = sizeof(posted) + bytes <= slots<Member>::room;
        return is_behind
                   ? slots_.place(rank, flat_channel, 0) + sizeof(posted)
                   : slots_.place(rank, flat_channel, std::max(bytes, slots<Member>::room + 1));
    }
    template <class Receive> void receive_from(int peer, std::uint32_t call, Receive &receive);
    struct addresses {
        std::byte *in, *out;
        const void *layout; // of both
        std::uint64_t call; // equal on all ranks
        bool guarded;       // only that rank itself may write to `out`
    };
    // See large.hpp.
    template <class Combine> class contiguous;
    class exposed;
    template <class Blocks>
    static void combine_block(Blocks &blocks, const exposed &all, std::size_t at, std::size_t count,
                              int operands);
    template <class Blocks>
    void guarded_scan(exposed &all, std::size_t element, Blocks &blocks, int operands);

    Member member_;
    slots<Member> slots_;
    rounds<Member> rounds_;
    algorithm how_; // not `large`
    bool is_large_;
    std::size_t piece_;
    std::optional<typename Member::region> pieces_;
    typename Member::buffer peers_, sum_;
};

// ---- Data that fits a slot ----

template <member Member>
template <class Combine>
void engine<Member>::reduce_flat(const void *in, void *out, std::size_t bytes, Combine &combine)
{
    slots_.write(flat_channel, in, bytes);
    if (member_.rank() != 0)
        fetch(out, bytes, 0, flat_channel);
    else
        copy(out, in, bytes);
    // Reads the caller's own operand in its slot, too: `out` may be `in`, which is overwritten now.
    for (int i = 1; i < member_.size(); i++)
        combine(out, slots_.read(i, flat_channel, bytes), bytes, false);
}

// If n is not a power of two, the first ranks form pairs whose odd member takes part for both. A
// rank always holds the result of consecutive ranks, so the rank order of operands is kept.
template <member Member>
template <class Combine>
void engine<Member>::reduce_doubling(const void *in, void *out, std::size_t bytes, Combine &combine)
{
    int size = member_.size(), rank = member_.rank();
    int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(size))), pairs = size - power;
    bool paired = rank < 2 * pairs;
    int last = doubling_channel + std::bit_width(static_cast<unsigned>(size));
    copy(out, in, bytes);
    if (paired && rank % 2 == 0) {
        slots_.write(doubling_channel, out, bytes);
        return fetch(out, bytes, rank + 1, last);
    }
    if (paired)
        combine(out, slots_.read(rank - 1, doubling_channel, bytes), bytes, true);
    int place = paired ? rank / 2 : rank - pairs, channel = doubling_channel;
    for (int bit = 1; bit < power; bit <<= 1) {
        int other = place ^ bit;
        slots_.write(++channel, out, bytes);
        int from = other < pairs ? 2 * other + 1 : other + pairs;
        combine(out, slots_.read(from, channel, bytes), bytes, other < place);
    }
    if (paired)
        slots_.write(last, out, bytes);
}

template <member Member>
template <class Combine>
void engine<Member>::reduce_up(const void *in, void *out, std::size_t bytes, Combine &combine,
                               int root)
{
    const auto &links = member_.links_from(root);
    alignas(std::max_align_t) std::byte sum[slots<Member>::long_room];
    copy(sum, in, bytes);
    // Children with the smallest subtrees are ready first.
    for (auto child = links.children.rbegin(); child != links.children.rend(); ++child)
        combine(sum, slots_.read(*child, up_channel, bytes), bytes, false);
    if (links.parent >= 0)
        slots_.write(up_channel, sum, bytes);
    else
        copy(out, sum, bytes);
}

template <member Member>
void engine<Member>::broadcast_down(void *data, std::size_t bytes, int root, ring_choice ring)
{
    const auto &links = member_.links_from(root);
    if (links.parent >= 0)
        copy(data, slots_.read(links.parent, down_channel, bytes, ring), bytes);
    if (!links.children.empty())
        slots_.write(down_channel, data, bytes, ring);
}

} // namespace detail
} // namespace onespace::sync

#include "onespace/sync/large.hpp"
#include "onespace/sync/offers.hpp"

#endif
