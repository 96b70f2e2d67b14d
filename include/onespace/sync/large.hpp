// onespace/sync/large.hpp: the parts of collectives.hpp for spans that do not fit a flag.
//
// In a direct team each rank publishes the addresses of its spans, and the others read there.
// Otherwise spans pass in pieces through shared memory: each rank copies its piece in, a barrier,
// all read, and another barrier before the next piece. Either way the caller's memory is its own
// again on return.
#ifndef ONESPACE_SYNC_LARGE_HPP
#define ONESPACE_SYNC_LARGE_HPP

namespace onespace::sync
{

// The spans of all ranks, `count` elements each: piece by piece, or in place all at once.
template <order_policy Order, wait_policy Wait>
template <class T>
class collectives<Order, Wait>::exposed
{
  public:
    // Collective. `out`: memory that others read after the caller has written it.
    exposed(collectives &of, const T *in, T *out, std::size_t count)
        : of_(of), in_(in), out_(out), count_(count), direct_(of.team_.direct())
    {
        step_ = direct_ ? count : of.piece_ / sizeof(T);
        if (direct_) {
            addresses_ = of_.allgather(addresses{in, out});
        } else if (!of_.pieces_) {
            of_.pieces_.emplace(of_.team_.allocate(2 * of_.piece_));
        }
        check(step_ > 0, "an element is larger than a piece of shared memory: make `piece` larger");
    }
    // Advances to the next piece, if any; `offers`: others read the caller's `in`.
    bool next(bool offers)
    {
        if (begun_) {
            of_.barrier_.wait(); // everybody has read, or copied what it wanted of the last piece
            start_ += size_;
        }
        begun_ = true;
        size_ = std::min(step_, count_ - start_);
        if (start_ == count_)
            return false;
        if (!direct_) {
            if (offers)
                std::memcpy(shared(of_.team_.rank(), 0), in_ + start_, size_ * sizeof(T));
            of_.barrier_.wait();
        }
        return true;
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
    const T *in(int rank) const
    {
        return direct_ ? static_cast<const T *>(addresses_[rank].in) + start_ : shared(rank, 0);
    }
    // The piece of a rank's `out`, which others read once it is written.
    T *out(int rank) const
    {
        return direct_ ? static_cast<T *>(addresses_[rank].out) + start_ : shared(rank, of_.piece_);
    }

  private:
    T *shared(int rank, std::size_t offset) const
    {
        return of_.pieces_->template at<T>(rank, offset);
    }
    collectives &of_;
    const T *in_;
    T *out_;
    std::size_t count_, step_, start_ = 0, size_ = 0;
    bool direct_, begun_ = false;
    std::vector<addresses> addresses_;
};

// Each rank reduces a slice of all ranks' pieces, in rank order; then the ranks that get the result
// copy all slices.
template <order_policy Order, wait_policy Wait>
template <class T, class Op>
void collectives<Order, Wait>::large_reduce(std::span<const T> in, std::span<T> out, Op &op,
                                            int root)
{
    std::size_t size = team_.size(), rank = team_.rank();
    bool gets = root == everybody || static_cast<int>(rank) == root, direct = team_.direct();
    exposed<T> all(*this, in.data(), out.data(), in.size());
    // In a direct team all write to the root's `out` directly.
    int to = direct && root != everybody ? root : static_cast<int>(rank);
    constexpr std::size_t block = 4096 / sizeof(T) + 1; // stays in the first-level cache
    while (all.next(true)) {
        auto begin = [&](std::size_t of) { return all.size() * of / size; };
        for (std::size_t at = begin(rank); at < begin(rank + 1); at += block) {
            std::size_t count = std::min(block, begin(rank + 1) - at);
            T sum[block];
            std::copy_n(all.in(0) + at, count, sum);
            for (std::size_t i = 1; i < size; i++) {
                const T *other = all.in(static_cast<int>(i)) + at;
                for (std::size_t e = 0; e < count; e++)
                    sum[e] = op(sum[e], other[e]);
            }
            std::copy_n(sum, count, all.out(to) + at);
        }
        barrier_.wait();
        bool there = direct && root != everybody;
        for (std::size_t i = 0; gets && !there && i < size; i++)
            if (!direct || i != rank)
                std::copy_n(all.out(static_cast<int>(i)) + begin(i), begin(i + 1) - begin(i),
                            out.data() + all.start() + begin(i));
    }
}

template <order_policy Order, wait_policy Wait>
template <class T>
void collectives<Order, Wait>::large_broadcast(std::span<T> data, int root)
{
    exposed<T> all(*this, data.data(), nullptr, data.size());
    while (all.next(team_.rank() == root))
        if (team_.rank() != root)
            std::memcpy(data.data() + all.start(), all.in(root), all.size() * sizeof(T));
}

template <order_policy Order, wait_policy Wait>
template <class T>
void collectives<Order, Wait>::large_gather(std::span<const T> in, std::span<T> out, int root)
{
    bool gets = root == everybody || team_.rank() == root;
    exposed<T> all(*this, in.data(), nullptr, in.size());
    while (all.next(true))
        for (int i = 0; gets && i < team_.size(); i++)
            std::memmove(out.data() + i * in.size() + all.start(), all.in(i),
                         all.size() * sizeof(T));
}

// Each rank reads its part of the root's span. Unless the team is direct, the whole span passes
// through shared memory piece by piece, so that every element is copied twice.
template <order_policy Order, wait_policy Wait>
template <transferable T>
void collectives<Order, Wait>::scatter(std::span<const T> in, std::span<T> out, int root)
{
    bool is_root = team_.rank() == root;
    std::size_t each = out.size(), mine = team_.rank() * each;
    check(!is_root || in.size() >= each * team_.size(), "scatter: `in` lacks parts");
    exposed<T> all(*this, in.data(), nullptr, each * team_.size());
    while (all.next(is_root)) {
        std::size_t from = std::max(mine, all.start());
        std::size_t to = std::min(mine + each, all.start() + all.size());
        if (from < to)
            std::memmove(out.data() + (from - mine), all.in(root) + (from - all.start()),
                         (to - from) * sizeof(T));
    }
}

} // namespace onespace::sync

#endif
