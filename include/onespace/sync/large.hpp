// onespace/sync/large.hpp: the parts of engine.hpp for data that does not fit a slot.
//
// Where addresses are valid in all ranks each publishes its own, and the others read there; what is
// only read goes by offers.hpp. Otherwise data passes in pieces through shared memory: each rank
// copies its piece in, a barrier, all read, and another barrier before the next piece. Either way
// the caller's memory is its own again on return.
//
// Direct ranks also write results where they belong, unless one of them is guarded: then each
// writes to its own memory only.
#ifndef ONESPACE_SYNC_LARGE_HPP
#define ONESPACE_SYNC_LARGE_HPP

namespace onespace::sync::detail
{

// `bytes` of each rank: piece by piece, or in place all at once.
template <member Member> class engine<Member>::exposed
{
  public:
    // Collective. `out`: memory that others read after the caller has written it. A piece holds
    // whole elements: one must fit piece_ unless ranks are direct.
    exposed(engine &of, kind what, int root, const std::byte *in, std::byte *out, std::size_t bytes,
            std::size_t element)
        : of_(of), in_(in), out_(out), bytes_(bytes), direct_(of.member_.direct())
    {
        step_ = direct_ ? bytes : of.piece_ / element * element;
        if (direct_) {
            addresses mine{in, out, call_of(what, root, bytes), of.member_.guarded()};
            peers_ = reinterpret_cast<addresses *>(
                of_.peers_.get(of_.member_.size() * sizeof(addresses)));
            of_.gather(&mine, peers_, sizeof(mine), everybody);
            for (int i = 0; i < of_.member_.size() && of_.failed_by() < 0; i++) {
                if (peers_[i].call != mine.call)
                    of_.member_.disagrees(i); // what it wrote may not be addresses
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
            of_.rounds_.wait(); // everybody has read, or copied what it wanted of the last piece
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
    // The piece of a rank's `in`.
    const std::byte *in(int rank) const
    {
        return direct_ ? peers_[rank].in + start_ : shared(rank, 0);
    }
    // Whether the caller may write to no other rank's `out`. The same on all ranks.
    bool guarded() const
    {
        return guarded_;
    }
    // The piece of a rank's `out`, which others read once it is written.
    std::byte *out(int rank) const
    {
        return direct_ ? peers_[rank].out + start_ : shared(rank, of_.piece_);
    }

  private:
    static std::uint64_t call_of(kind what, int root, std::size_t bytes)
    {
        return (bytes << 2 | static_cast<std::uint64_t>(what)) ^
               static_cast<std::uint64_t>(root + 1) << 40;
    }
    std::byte *shared(int rank, std::size_t offset) const
    {
        return of_.pieces_->template at<std::byte>(rank, offset);
    }
    engine &of_;
    const std::byte *in_;
    std::byte *out_;
    std::size_t bytes_, step_, start_ = 0, size_ = 0;
    bool direct_, guarded_ = false, begun_ = false;
    addresses *peers_ = nullptr;
};

// Each rank reduces a slice of all ranks' pieces, in rank order. Direct ranks write it to all that
// get the result; if they may not, a root reduces all slices. Otherwise those that get the result
// copy the slices of the others.
template <member Member>
template <class Combine>
void engine<Member>::large_reduce(const std::byte *in, std::byte *out, std::size_t bytes,
                                  std::size_t element, Combine &combine, int root)
{
    int size = member_.size(), rank = member_.rank();
    bool to_all = root == everybody, gets = to_all || rank == root;
    exposed all(*this, kind::reduce, root, in, out, bytes, element);
    bool alone = member_.direct() && !to_all && all.guarded();
    bool pushes = member_.direct() && !all.guarded();
    std::size_t block = (block_size / element + 1) * element;
    std::byte *sum = sum_.get(block);
    auto deliver = [&](std::size_t at, std::size_t count) {
        if (pushes && to_all)
            for (int i = 0; i < size; i++)
                onespace_copy(all.out((rank + i) % size) + at, sum, count);
        else
            onespace_copy(all.out(pushes ? root : rank) + at, sum, count);
    };
    while (all.next(true)) {
        auto begin = [&](int of) {
            return all.size() / element * static_cast<std::size_t>(of) /
                   static_cast<std::size_t>(size) * element;
        };
        std::size_t first = alone ? 0 : begin(rank);
        std::size_t last = alone ? gets * all.size() : begin(rank + 1);
        for (std::size_t at = first; at < last; at += block) {
            std::size_t count = std::min(block, last - at);
            onespace_copy(sum, all.in(0) + at, count);
            for (int i = 1; i < size; i++)
                combine(sum, all.in(i) + at, count, false);
            deliver(at, count);
        }
        if (pushes || alone)
            continue;
        rounds_.wait();
        for (int i = 0; gets && !member_.lost() && i < size; i++)
            if (!member_.direct() || i != rank)
                copy(out + all.start() + begin(i), all.out(i) + begin(i), begin(i + 1) - begin(i));
    }
}

// Each rank reduces the bytes that it asks for.
template <member Member>
template <class Combine>
void engine<Member>::reduce_scatter(const void *in, std::size_t bytes, void *out, std::size_t begin,
                                    std::size_t end, std::size_t element, Combine &combine)
{
    auto sum = [&](auto in_of, std::size_t from, std::size_t to) {
        for (int i = 0; from < to && i < member_.size(); i++)
            if (i == 0)
                onespace_copy(bytes_of(out) + (from - begin), in_of(0), to - from);
            else
                combine(bytes_of(out) + (from - begin), in_of(i), to - from, false);
    };
    if (is_small(bytes)) {
        slots_.begin();
        slots_.write(flat_channel, in, bytes);
        for (int i = 0; i < member_.size(); i++)
            slots_.read(i, flat_channel, bytes);
        sum([&](int i) { return slots_.place(i, flat_channel, bytes) + begin; }, begin, end);
        return slots_.end(true);
    }
    exposed all(*this, kind::reduce, everybody - 1, bytes_of(in), nullptr, bytes, element);
    std::size_t block = (block_size / element + 1) * element;
    while (all.next(true))
        for (std::size_t at = std::max(begin, all.start()),
                         last = std::min(end, all.start() + all.size());
             at < last; at += block)
            sum([&](int i) { return all.in(i) + (at - all.start()); }, at,
                std::min(at + block, last));
}

// Each rank reduces what it gets, of the first `operands` ranks, block by block: its `out` may be
// its `in`, of which the others have read a block when all have passed the barrier behind it.
template <member Member>
template <class Combine>
void engine<Member>::guarded_scan(exposed &all, std::byte *out, std::size_t element,
                                  Combine &combine, int operands)
{
    std::size_t block = (block_size / element + 1) * element;
    std::byte *sum = sum_.get(block);
    while (all.next(true))
        for (std::size_t at = 0; at < all.size(); at += block) {
            std::size_t count = std::min(block, all.size() - at);
            for (int i = 0; i < operands; i++)
                if (i == 0)
                    onespace_copy(sum, all.in(0) + at, count);
                else
                    combine(sum, all.in(i) + at, count, false);
            rounds_.wait();
            if (operands)
                onespace_copy(out + at, sum, count);
        }
}

// Each rank reduces a slice of all ranks' data, and writes what each of them gets of it.
template <member Member>
template <class Combine>
void engine<Member>::scan(const void *in, void *out, std::size_t bytes, std::size_t element,
                          Combine &combine, bool exclusive)
{
    int size = member_.size(), rank = member_.rank();
    if (is_small(bytes)) {
        slots_.begin();
        slots_.write(flat_channel, in, bytes);
        for (int i = 0; i <= rank - exclusive; i++)
            if (i == 0)
                fetch(out, bytes, 0, flat_channel);
            else
                combine(out, slots_.read(i, flat_channel, bytes), bytes, false);
        return slots_.end(rank == size - 1);
    }
    exposed all(*this, kind::scan, exclusive, bytes_of(in), bytes_of(out), bytes, element);
    if (all.guarded())
        return guarded_scan(all, bytes_of(out), element, combine, rank + !exclusive);
    std::size_t block = (block_size / element + 1) * element;
    std::byte *sum = sum_.get(2 * block), *next = sum + block;
    while (all.next(true)) {
        auto begin = [&](std::size_t of) { return all.size() / element * of / size * element; };
        for (std::size_t at = begin(rank); at < begin(rank + 1); at += block) {
            std::size_t count = std::min(block, begin(rank + 1) - at);
            for (int i = 0; i < size; i++) {
                // Read before its `out` is written, which may be the same. Of an exclusive scan the
                // sum without it goes there, and the last one is not needed.
                std::byte *with = exclusive ? next : sum;
                if (i == 0) {
                    onespace_copy(with, all.in(0) + at, count);
                } else if (!exclusive || i + 1 < size) {
                    if (exclusive)
                        onespace_copy(next, sum, count);
                    combine(with, all.in(i) + at, count, false);
                }
                if (!exclusive || i)
                    onespace_copy(all.out(i) + at, sum, count);
                if (exclusive)
                    std::swap(sum, next);
            }
        }
    }
}

template <member Member>
void engine<Member>::large_broadcast(std::byte *data, std::size_t bytes, int root)
{
    if (member_.direct()) {
        offer mine{data, bytes, 0, nullptr, nullptr};
        return exchange(kind::broadcast, root, everybody, member_.rank() == root ? &mine : nullptr,
                        [&](int from, const part &theirs) {
                            if (from != member_.rank())
                                take(from, theirs, data, bytes);
                        });
    }
    exposed all(*this, kind::broadcast, root, data, nullptr, bytes, 1);
    while (all.next(member_.rank() == root))
        if (member_.rank() != root)
            onespace_copy(data + all.start(), all.in(root), all.size());
}

template <member Member>
void engine<Member>::large_gather(const std::byte *in, std::byte *out, std::size_t bytes, int root)
{
    bool gets = root == everybody || member_.rank() == root;
    if (member_.direct()) {
        offer mine{in, bytes, 0, nullptr, nullptr};
        return exchange(kind::gather, everybody, root, member_.rank() == root ? nullptr : &mine,
                        [&](int from, const part &theirs) {
                            if (from != member_.rank())
                                take(from, theirs, out + from * bytes, bytes);
                            else if (gets)
                                onespace_copy(out + from * bytes, in, bytes);
                        });
    }
    exposed all(*this, kind::gather, root, in, nullptr, bytes, 1);
    while (all.next(true))
        for (int i = 0; gets && i < member_.size(); i++)
            onespace_copy(out + i * bytes + all.start(), all.in(i), all.size());
}

// Each rank reads its part of the root's memory. Unless ranks are direct, all of it passes through
// shared memory piece by piece, so that every byte is copied twice.
template <member Member>
void engine<Member>::scatter(const void *in, void *out, std::size_t bytes, int root)
{
    std::size_t mine = member_.rank() * bytes;
    if (member_.direct()) {
        offer all{bytes_of(in), bytes, bytes, nullptr, nullptr};
        return exchange(kind::scatter, root, everybody, member_.rank() == root ? &all : nullptr,
                        [&](int from, const part &theirs) {
                            if (from != member_.rank())
                                take(from, theirs, bytes_of(out), bytes);
                            else if (from == root)
                                onespace_copy(out, bytes_of(in) + mine, bytes);
                        });
    }
    exposed all(*this, kind::scatter, root, bytes_of(in), nullptr, bytes * member_.size(), 1);
    while (all.next(member_.rank() == root)) {
        std::size_t from = std::max(mine, all.start());
        std::size_t to = std::min(mine + bytes, all.start() + all.size());
        if (from < to)
            onespace_copy(bytes_of(out) + (from - mine), all.in(root) + (from - all.start()),
                          to - from);
    }
}

} // namespace onespace::sync::detail

#endif
