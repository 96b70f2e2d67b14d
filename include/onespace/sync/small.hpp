// onespace/sync/small.hpp: the parts of engine.hpp for data that fits a slot.
#ifndef ONESPACE_SYNC_SMALL_HPP
#define ONESPACE_SYNC_SMALL_HPP

namespace onespace::sync::detail
{

template <member Member>
template <class Combine>
void engine<Member>::reduce_flat(const void *in, void *out, std::size_t bytes, Combine &combine)
{
    slots_.write(flat_channel, in, bytes);
    if (member_.rank() != 0)
        fetch(out, bytes, 0, flat_channel);
    else
        copy(out, in, bytes);
    // The caller's own operand too: `out` may be `in`, which is overwritten by now.
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
void engine<Member>::broadcast_down(void *data, std::size_t bytes, int root, placement where)
{
    const auto &links = member_.links_from(root);
    if (links.parent >= 0)
        copy(data, slots_.read(links.parent, down_channel, bytes, where), bytes);
    if (!links.children.empty())
        slots_.write(down_channel, data, bytes, where);
}

} // namespace onespace::sync::detail

#endif
