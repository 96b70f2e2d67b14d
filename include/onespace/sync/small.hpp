// onespace/sync/small.hpp: the parts of collectives.hpp for data that fits a flag's payload.
#ifndef ONESPACE_SYNC_SMALL_HPP
#define ONESPACE_SYNC_SMALL_HPP

namespace onespace::sync
{

template <order_policy Order, wait_policy Wait>
template <class T, class Op>
void collectives<Order, Wait>::reduce_flat(std::span<const T> in, std::span<T> out, Op &op)
{
    // `out` may be `in`, which is overwritten before the caller's own operand is combined.
    T mine[small / sizeof(T) + 1];
    std::copy(in.begin(), in.end(), mine);
    slots_.write(flat_channel, mine, in.size_bytes());
    int rank = team_.rank();
    if (rank != 0)
        fetch(out, 0, flat_channel);
    else if (out.data() != in.data())
        std::copy(in.begin(), in.end(), out.begin());
    for (int i = 1; i < team_.size(); i++)
        if (i != rank)
            combine(out, i, flat_channel, false, op);
        else
            for (std::size_t e = 0; e < out.size(); e++)
                out[e] = op(out[e], mine[e]);
}

// If n is not a power of two, the first ranks form pairs whose odd member takes part for both. A
// rank always holds the result of consecutive ranks, so the rank order of operands is kept.
template <order_policy Order, wait_policy Wait>
template <class T, class Op>
void collectives<Order, Wait>::reduce_doubling(std::span<const T> in, std::span<T> out, Op &op)
{
    int size = team_.size(), rank = team_.rank();
    int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(size))), pairs = size - power;
    bool paired = rank < 2 * pairs;
    int last = doubling_channel + std::bit_width(static_cast<unsigned>(size));
    if (out.data() != in.data())
        std::copy(in.begin(), in.end(), out.begin());
    if (paired && rank % 2 == 0) {
        slots_.write(doubling_channel, out.data(), out.size_bytes());
        return fetch(out, rank + 1, last);
    }
    if (paired)
        combine(out, rank - 1, doubling_channel, true, op);
    int place = paired ? rank / 2 : rank - pairs, channel = doubling_channel;
    for (int bit = 1; bit < power; bit <<= 1) {
        int other = place ^ bit;
        slots_.write(++channel, out.data(), out.size_bytes());
        combine(out, other < pairs ? 2 * other + 1 : other + pairs, channel, other < place, op);
    }
    if (paired)
        slots_.write(last, out.data(), out.size_bytes());
}

template <order_policy Order, wait_policy Wait>
template <class T, class Op>
void collectives<Order, Wait>::reduce_up(std::span<const T> in, std::span<T> out, Op &op, int root)
{
    const tree &links = tree_from(root);
    T sum[small / sizeof(T) + 1];
    std::copy(in.begin(), in.end(), sum);
    std::span<T> so_far(sum, in.size());
    // Children with the smallest subtrees are ready first.
    for (auto child = links.children.rbegin(); child != links.children.rend(); ++child)
        combine(so_far, *child, up_channel, false, op);
    if (links.parent >= 0)
        slots_.write(up_channel, sum, in.size_bytes());
    else
        std::copy(so_far.begin(), so_far.end(), out.begin());
}

template <order_policy Order, wait_policy Wait>
template <class T>
void collectives<Order, Wait>::broadcast_down(std::span<T> data, int root)
{
    const tree &links = tree_from(root);
    if (links.parent >= 0)
        fetch(data, links.parent, down_channel);
    if (!links.children.empty())
        slots_.write(down_channel, data.data(), data.size_bytes());
}

template <order_policy Order, wait_policy Wait>
template <class T>
void collectives<Order, Wait>::gather_to(std::span<const T> in, std::span<T> out, int root)
{
    int size = team_.size(), rank = team_.rank();
    bool gets = root == everybody || rank == root;
    check(!gets || out.size() >= in.size() * size, "gather: `out` has no room for all");
    if (in.size_bytes() > small)
        return large_gather(in, out, root);
    slots_.begin();
    slots_.write(flat_channel, in.data(), in.size_bytes());
    for (int i = 0; gets && i < size; i++)
        fetch(out.subspan(i * in.size(), in.size()), i, flat_channel);
    slots_.end(gets);
}

} // namespace onespace::sync

#endif
