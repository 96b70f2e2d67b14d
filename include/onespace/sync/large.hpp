// onespace/sync/large.hpp: the part of engine.hpp for data that does not fit a slot.
//
// Where addresses are valid in all ranks each publishes its own, and the others read there; data
// that is only read goes by offers.hpp. Otherwise data passes in pieces through shared memory: each
// rank copies its piece in, a barrier, all read, and another barrier before the next piece. Either
// way no other rank accesses the caller's memory after the return.
//
// Direct ranks also write results to their destination; if any rank is guarded, each rank writes
// to its own memory only.
//
// Reductions see operands through a `Blocks` object, in blocks of whole elements: `contiguous`, or
// the MPI layer's for operands with gaps and for functions of the program.
#ifndef ONESPACE_SYNC_LARGE_HPP
#define ONESPACE_SYNC_LARGE_HPP

namespace onespace::sync::detail
{

// Operands without gaps, which are combined where they lie. Offsets and sizes are in bytes of data,
// multiples of the element.
template <member Member> template <class Combine> class engine<Member>::contiguous
{
  public:
    contiguous(Combine &combine, typename Member::buffer &memory, std::size_t element)
        : combine_(combine), block_(block_bytes(element)), sum_(memory.get(2 * block_)),
          next_(sum_ + block_)
    {
    }
    // The largest block.
    std::size_t block() const
    {
        return block_;
    }
    // The layouts of the caller's operands, as they are published, and of reduce_scatter's result.
    static const void *layout()
    {
        return nullptr;
    }
    static const void *out_layout()
    {
        return nullptr;
    }
    // The next sum is made there, if it can be.
    void sum_in(std::byte *out)
    {
        sum_ = out;
    }
    // The sum is that operand.
    void load(const operand &from, std::size_t at, std::size_t bytes)
    {
        onespace_copy(sum_, from.data + at, bytes);
    }
    // Combines the sum with the operand of a higher rank: at once, or in two steps between which
    // the sum is stored.
    void add(const operand &from, std::size_t at, std::size_t bytes)
    {
        combine_(sum_, from.data + at, bytes, false);
    }
    void load_next(const operand &from, std::size_t at, std::size_t bytes)
    {
        onespace_copy(next_, from.data + at, bytes);
    }
    void add_next(std::size_t bytes)
    {
        combine_(sum_, next_, bytes, false);
    }
    void store(const operand &to, std::size_t at, std::size_t bytes)
    {
        if (to.data + at != sum_)
            onespace_copy(to.data + at, sum_, bytes);
    }
    static void copy(const operand &to, std::size_t to_at, const operand &from, std::size_t from_at,
                     std::size_t bytes)
    {
        onespace_copy(to.data + to_at, from.data + from_at, bytes);
    }

  private:
    Combine &combine_;
    std::size_t block_;
    std::byte *sum_, *next_;
};

// `bytes` of each rank: piece by piece, or in place all at once.
template <member Member> class engine<Member>::exposed
{
  public:
    // Collective. `out`: memory that others read after the caller has written it. A piece holds
    // whole elements: one must fit piece_ unless ranks are direct.
    exposed(engine &of, kind what, int root, const void *in, void *out, const void *layout,
            std::size_t bytes, std::size_t element)
        : of_(of), in_(const_cast<std::byte *>(bytes_of(in))), out_(bytes_of(out)), layout_(layout),
          bytes_(bytes), direct_(of.member_.direct())
    {
        step_ = direct_ ? bytes : of.piece_ / element * element;
        if (direct_) {
            addresses mine{in_, out_, layout, call_of(what, root, bytes), of.member_.guarded()};
            peers_ = reinterpret_cast<addresses *>(
                of_.peers_.get(of_.member_.size() * sizeof(addresses)));
            of_.gather(&mine, peers_, sizeof(mine), all_ranks);
            for (int i = 0; i < of_.member_.size() && of_.failed_by() < 0; i++) {
                if (peers_[i].call != mine.call)
                    of_.member_.mismatch(i); // what it wrote may not be addresses
                guarded_ |= peers_[i].guarded;
            }
        } else if (!of_.pieces_) {
            of_.pieces_.emplace(of_.member_.allocate(2 * of_.piece_));
        }
    }
    // Advances to the next piece, if any; `offers`: others read the caller's `in`.
    bool next(bool offers)
    {
        if (of_.failed_by() >= 0) // which all have read, with the addresses
            return false;
        if (begun_) {
            of_.rounds_.wait(); // all ranks have read, or copied their share of, the last piece
            start_ += size_;
        }
        begun_ = true;
        size_ = std::min(step_, bytes_ - start_);
        if (start_ == bytes_ || of_.member_.lost())
            return false;
        if (!direct_) {
            if (offers)
                onespace_copy(shared(of_.member_.rank(), 0), in_ + start_, size_);
            of_.rounds_.wait();
        }
        return !of_.member_.lost();
    }
    std::size_t start() const
    {
        return start_;
    }
    std::size_t size() const
    {
        return size_;
    }
    // Whether the caller may write to no other rank's `out`. The same on all ranks.
    bool guarded() const
    {
        return guarded_;
    }
    // The piece of a rank's `in`.
    operand in(int rank) const
    {
        return direct_ ? operand{peers_[rank].in, peers_[rank].layout}
                       : operand{shared(rank, 0), nullptr};
    }
    // The piece of a rank's `out`, which others read once it is written.
    operand out(int rank) const
    {
        return direct_ ? operand{peers_[rank].out, peers_[rank].layout}
                       : operand{shared(rank, of_.piece_), nullptr};
    }
    // The piece of the caller's `out`.
    operand own_out() const
    {
        return {out_ + start_, layout_};
    }

  private:
    static std::uint64_t call_of(kind what, int root, std::size_t bytes)
    {
        return (bytes << 3 | static_cast<std::uint64_t>(what)) ^
               static_cast<std::uint64_t>(root + 1) << 40;
    }
    std::byte *shared(int rank, std::size_t offset) const
    {
        return of_.pieces_->template at<std::byte>(rank, offset);
    }
    engine &of_;
    std::byte *in_, *out_;
    const void *layout_;
    std::size_t bytes_, step_, start_ = 0, size_ = 0;
    bool direct_, guarded_ = false, begun_ = false;
    addresses *peers_ = nullptr;
};

// Combines a block of the first `operands` ranks.
template <member Member>
template <class Blocks>
void engine<Member>::combine_block(Blocks &blocks, const exposed &all, std::size_t at,
                                   std::size_t count, int operands)
{
    for (int i = 0; i < operands; i++)
        if (i == 0)
            blocks.load(all.in(0), at, count);
        else
            blocks.add(all.in(i), at, count);
}

// Each rank reduces a slice of all ranks' pieces, in rank order. Direct ranks write it to all that
// receive the result; if they may not, a root reduces all slices. Otherwise those that receive the
// result copy the slices of the others.
template <member Member>
template <class Blocks>
void engine<Member>::large_reduce(const void *in, void *out, std::size_t bytes, std::size_t element,
                                  Blocks &blocks, int root)
{
    int size = member_.size(), rank = member_.rank();
    bool to_all = root == all_ranks, receives = to_all || rank == root;
    exposed all(*this, kind::reduce, root, in, out, blocks.layout(), bytes, element);
    bool alone = member_.direct() && !to_all && all.guarded();
    bool pushes = member_.direct() && !all.guarded();
    while (all.next(true)) {
        auto begin = [&](int of) {
            return all.size() / element * static_cast<std::size_t>(of) /
                   static_cast<std::size_t>(size) * element;
        };
        std::size_t first = alone ? 0 : begin(rank);
        std::size_t last = alone ? receives * all.size() : begin(rank + 1);
        for (std::size_t at = first, count; at < last; at += count) {
            count = std::min(blocks.block(), last - at);
            combine_block(blocks, all, at, count, size);
            if (pushes && to_all)
                for (int i = 0; i < size; i++)
                    blocks.store(all.out((rank + i) % size), at, count);
            else
                blocks.store(all.out(pushes ? root : rank), at, count);
        }
        if (pushes || alone)
            continue;
        rounds_.wait();
        for (int i = 0; receives && !member_.lost() && i < size; i++)
            if (!member_.direct() || i != rank)
                blocks.copy(all.own_out(), begin(i), all.out(i), begin(i), begin(i + 1) - begin(i));
    }
}

// Each rank reduces the bytes that it asks for.
template <member Member>
template <class Combine>
void engine<Member>::reduce_scatter(const void *in, std::size_t bytes, void *out, std::size_t begin,
                                    std::size_t end, std::size_t element, Combine &combine)
{
    if (!is_short(bytes)) {
        contiguous<Combine> blocks(combine, sum_, element);
        return large_reduce_scatter(in, bytes, out, begin, end, element, blocks);
    }
    slots_.begin();
    slots_.write(flat_channel, in, bytes);
    for (int i = 0; i < member_.size(); i++) {
        const std::byte *theirs = slots_.read(i, flat_channel, bytes) + begin;
        if (begin < end && i == 0)
            onespace_copy(out, theirs, end - begin);
        else if (begin < end)
            combine(out, theirs, end - begin, false);
    }
    slots_.end(true);
}

template <member Member>
template <class Blocks>
void engine<Member>::large_reduce_scatter(const void *in, std::size_t bytes, void *out,
                                          std::size_t begin, std::size_t end, std::size_t element,
                                          Blocks &blocks)
{
    exposed all(*this, kind::reduce, all_ranks - 1, in, nullptr, blocks.layout(), bytes, element);
    operand result{bytes_of(out), blocks.out_layout()};
    while (all.next(true)) {
        std::size_t last = std::min(end, all.start() + all.size());
        for (std::size_t at = std::max(begin, all.start()), count; at < last; at += count) {
            count = std::min(blocks.block(), last - at);
            blocks.sum_in(result.data + (at - begin));
            combine_block(blocks, all, at - all.start(), count, member_.size());
            blocks.store(result, at - begin, count);
        }
    }
}

template <member Member>
template <class Combine>
void engine<Member>::scan(const void *in, void *out, std::size_t bytes, std::size_t element,
                          Combine &combine, bool exclusive)
{
    if (!is_short(bytes)) {
        contiguous<Combine> blocks(combine, sum_, element);
        return large_scan(in, out, bytes, element, blocks, exclusive);
    }
    slots_.begin();
    slots_.write(flat_channel, in, bytes);
    for (int i = 0; i <= member_.rank() - exclusive; i++)
        if (i == 0)
            fetch(out, bytes, 0, flat_channel);
        else
            combine(out, slots_.read(i, flat_channel, bytes), bytes, false);
    slots_.end(member_.rank() == member_.size() - 1);
}

// Each rank reduces a slice of all ranks' data, and writes to each of them its result.
template <member Member>
template <class Blocks>
void engine<Member>::large_scan(const void *in, void *out, std::size_t bytes, std::size_t element,
                                Blocks &blocks, bool exclusive)
{
    std::size_t size = member_.size(), rank = member_.rank();
    exposed all(*this, kind::scan, exclusive, in, out, blocks.layout(), bytes, element);
    if (all.guarded())
        return guarded_scan(all, element, blocks, member_.rank() + !exclusive);
    while (all.next(true)) {
        auto begin = [&](std::size_t of) { return all.size() / element * of / size * element; };
        for (std::size_t at = begin(rank), count; at < begin(rank + 1); at += count) {
            count = std::min(blocks.block(), begin(rank + 1) - at);
            for (std::size_t i = 0; i < size; i++) {
                // A rank's `in` is read before its `out` is written: they may be the same. Nothing
                // is exclusive of the last rank's operand, which is not read then.
                bool is_next = exclusive && i > 0 && i + 1 < size;
                if (i == 0)
                    blocks.load(all.in(0), at, count);
                else if (!exclusive)
                    blocks.add(all.in(static_cast<int>(i)), at, count);
                else if (is_next)
                    blocks.load_next(all.in(static_cast<int>(i)), at, count);
                if (!exclusive || i > 0)
                    blocks.store(all.out(static_cast<int>(i)), at, count);
                if (is_next)
                    blocks.add_next(count);
            }
        }
    }
}

// Each rank reduces its own result, of the first `operands` ranks, in steps: its `out` may be its
// `in`, of which the others have read a step when all have passed the barrier after it.
template <member Member>
template <class Blocks>
void engine<Member>::guarded_scan(exposed &all, std::size_t element, Blocks &blocks, int operands)
{
    std::size_t step = block_bytes(element);
    operand kept{sum_.get(2 * step), nullptr};
    while (all.next(true))
        for (std::size_t start = 0; start < all.size(); start += step) {
            std::size_t end = std::min(start + step, all.size());
            for (std::size_t at = start, count; at < end; at += count) {
                count = std::min(blocks.block(), end - at); // ranks may have different blocks
                blocks.sum_in(kept.data + (at - start));
                combine_block(blocks, all, at, count, operands);
                if (operands)
                    blocks.store(kept, at - start, count);
            }
            rounds_.wait();
            if (operands)
                blocks.copy(all.own_out(), start, kept, 0, end - start);
        }
}

template <member Member>
void engine<Member>::large_broadcast(std::byte *data, std::size_t bytes, int root)
{
    if (member_.direct()) {
        offer mine{data, bytes, 0, nullptr, nullptr};
        return exchange(kind::broadcast, root, all_ranks, member_.rank() == root ? &mine : nullptr,
                        [&](int from, const part &theirs) {
                            if (from != member_.rank())
                                receive_exactly(from, theirs, data, bytes);
                        });
    }
    exposed all(*this, kind::broadcast, root, data, nullptr, nullptr, bytes, 1);
    while (all.next(member_.rank() == root))
        if (member_.rank() != root)
            onespace_copy(data + all.start(), all.in(root).data, all.size());
}

template <member Member>
void engine<Member>::large_gather(const std::byte *in, std::byte *out, std::size_t bytes, int root)
{
    bool gets = root == all_ranks || member_.rank() == root;
    if (member_.direct()) {
        offer mine{in, bytes, 0, nullptr, nullptr};
        return exchange(kind::gather, all_ranks, root, member_.rank() == root ? nullptr : &mine,
                        [&](int from, const part &theirs) {
                            if (from != member_.rank())
                                receive_exactly(from, theirs, out + from * bytes, bytes);
                            else if (gets)
                                onespace_copy(out + from * bytes, in, bytes);
                        });
    }
    exposed all(*this, kind::gather, root, in, nullptr, nullptr, bytes, 1);
    while (all.next(true))
        for (int i = 0; gets && i < member_.size(); i++)
            onespace_copy(out + i * bytes + all.start(), all.in(i).data, all.size());
}

// Each rank reads its part of the root's memory. Unless ranks are direct, all of it passes through
// shared memory piece by piece, so that every byte is copied twice.
template <member Member>
void engine<Member>::scatter(const void *in, void *out, std::size_t bytes, int root)
{
    std::size_t mine = member_.rank() * bytes;
    if (member_.direct()) {
        offer all{bytes_of(in), bytes, bytes, nullptr, nullptr};
        return exchange(kind::scatter, root, all_ranks, member_.rank() == root ? &all : nullptr,
                        [&](int from, const part &theirs) {
                            if (from != member_.rank())
                                receive_exactly(from, theirs, bytes_of(out), bytes);
                            else if (from == root)
                                onespace_copy(out, bytes_of(in) + mine, bytes);
                        });
    }
    exposed all(*this, kind::scatter, root, in, nullptr, nullptr, bytes * member_.size(), 1);
    while (all.next(member_.rank() == root)) {
        std::size_t from = std::max(mine, all.start());
        std::size_t to = std::min(mine + bytes, all.start() + all.size());
        if (from < to)
            onespace_copy(bytes_of(out) + (from - mine), all.in(root).data + (from - all.start()),
                          to - from);
    }
}

} // namespace onespace::sync::detail

#endif
