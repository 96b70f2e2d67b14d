// onespace/sync/offers.hpp: the part of engine.hpp in which ranks whose addresses are valid in one
// another read each other's data where it lies.
//
// Each rank that sends publishes an offer in its slot; each rank that receives reads there. Short
// data is copied next to the offer, so that its owner need not wait for the readers. The owner
// alone decides that, so sizes may differ between ranks and need not be known in advance.
#ifndef ONESPACE_SYNC_OFFERS_HPP
#define ONESPACE_SYNC_OFFERS_HPP

namespace onespace::sync::detail
{

// Posts the caller's offer. True: readers read the caller's own memory, until their await_ack.
template <member Member> bool engine<Member>::post(const offer &mine, std::uint32_t call)
{
    std::size_t all = mine.stride * (member_.size() - 1) + mine.bytes;
    bool copied = !mine.parts && !mine.layout && all <= copied_max();
    std::byte *slot = slots_.place(member_.rank(), flat_channel, 0);
    auto *shown = new (slot) posted{call, posted::in_place, 0};
    if (mine.parts && post_parts(mine.parts, *shown))
        return false;
    if (copied) {
        shown->bytes = static_cast<std::uint16_t>(mine.bytes);
        shown->stride = static_cast<std::uint16_t>(mine.stride);
        copy(data_of(member_.rank(), all), mine.base, all);
    } else {
        new (slot + sizeof(posted)) offer(mine);
    }
    slots_.post(flat_channel);
    return !copied;
}

// Posts copies of the parts for the other ranks; false: they are too long.
template <member Member> bool engine<Member>::post_parts(const part *parts, posted &shown)
{
    std::size_t size = member_.size(), own = member_.rank(), all = size * sizeof(part), data = all;
    for (std::size_t i = 0; i < size; i++) {
        if (i == own)
            continue;
        all += parts[i].bytes;
        if (parts[i].layout || all - data > copied_max() || all > slots_.longest())
            return false;
    }
    std::byte *place = data_of(member_.rank(), all), *to = place + data;
    for (std::size_t i = 0; i < size; i++) {
        if (i == own)
            continue;
        copy(to, parts[i].data, parts[i].bytes);
        new (place + i * sizeof(part)) part{to, parts[i].bytes, nullptr};
        to += parts[i].bytes;
    }
    shown.bytes = posted::in_parts;
    shown.stride = static_cast<std::uint16_t>(all);
    slots_.post(flat_channel);
    return true;
}

template <member Member>
template <class Receive>
void engine<Member>::exchange(kind what, int from, int to, const offer *mine, Receive &&receive)
{
    int size = member_.size(), rank = member_.rank();
    bool receives = to == all_ranks || to == rank, receives_all = receives && from == all_ranks;
    std::uint32_t call = call_of(what, from, to);
    slots_.begin();
    bool read_in_place = mine && post(*mine, call);
    // The caller copies its own part while the others read, or while it would wait for one. A rank
    // that gathers copies it when the others continue.
    bool is_last = receives_all && to == rank && slots_.is_written((rank + 1) % size, flat_channel);
    if (!is_last)
        receive(rank, part{});
    // Each begins with its neighbour, so that not all read from one rank at once.
    for (int i = 1; receives && i < size && !member_.lost(); i++) {
        int peer = receives_all ? (rank + i) % size : from;
        if (peer != rank)
            receive_from(peer, call, receive);
        if (!receives_all)
            break;
    }
    slots_.end(receives_all);
    if (is_last && !member_.lost())
        receive(rank, part{});
    for (int i = 0; read_in_place && i < size && !member_.lost(); i++)
        if (i != rank && (to == all_ranks || to == i))
            slots_.await_ack(i);
}

template <member Member>
template <class Receive>
void engine<Member>::broadcast(const offer &mine, int root, Receive &&receive)
{
    bool is_root = member_.rank() == root;
    if (how_ == algorithm::flat || mine.bytes > slots<Member>::long_room)
        return exchange(kind::broadcast, root, all_ranks, is_root ? &mine : nullptr, receive);
    const auto &links = member_.links_from(root);
    std::uint32_t call = call_of(kind::broadcast, root, all_ranks);
    slots_.begin();
    if (!is_root)
        receive_from(links.parent, call, receive);
    bool read_in_place = !links.children.empty() && post(mine, call);
    slots_.end(false);
    for (int child : links.children)
        if (read_in_place && !member_.lost())
            slots_.await_ack(child);
}

template <member Member>
template <class Receive>
void engine<Member>::receive_from(int peer, std::uint32_t call, Receive &receive)
{
    const std::byte *slot = slots_.read(peer, flat_channel, 0);
    const auto *theirs = reinterpret_cast<const posted *>(slot);
    if (slots_.is_failure() && !member_.lost())
        return slots_.acknowledge(); // it may have passed on what it offers in place
    if (!member_.lost() && theirs->call != call)
        member_.mismatch(peer); // what it wrote may not be addresses
    if (member_.lost())
        return;
    if (theirs->bytes == posted::in_place) {
        slots_.acknowledge();
        receive(peer, reinterpret_cast<const offer *>(slot + sizeof(posted))->of(member_.rank()));
    } else if (theirs->bytes == posted::in_parts) {
        const auto *parts = reinterpret_cast<const part *>(data_of(peer, theirs->stride));
        receive(peer, parts[member_.rank()]);
    } else {
        std::size_t bytes = theirs->bytes, stride = theirs->stride;
        const std::byte *data = data_of(peer, stride * (member_.size() - 1) + bytes);
        receive(peer, part{data + member_.rank() * stride, bytes, nullptr});
    }
}

} // namespace onespace::sync::detail

#endif
