// onespace/sync/collect.hpp: the part of engine.hpp in which one rank gets the data of all others.
//
// If the root copied all of it, the others would wait for it one after another. So who has much
// says in its offer that it puts, and the root posts the places. Both see both sizes, and decide
// alike whether it is put there or, as other offers, taken by the root.
#ifndef ONESPACE_SYNC_COLLECT_HPP
#define ONESPACE_SYNC_COLLECT_HPP

namespace onespace::sync::detail
{

template <member Member>
template <class Take, class Put>
void engine<Member>::collect(const offer *mine, const offer *places, int root, Take &&take,
                             Put &&put)
{
    std::uint32_t call = call_of(kind::gather, everybody, root);
    slots_.begin();
    if (member_.rank() == root)
        collect_all(member_.guarded() ? nullptr : places, call, take);
    else
        give_to(root, *mine, call, put);
}

template <member Member>
template <class Put>
void engine<Member>::give_to(int root, const offer &mine, std::uint32_t call, Put &put)
{
    bool puts = mine.bytes >= put_min && !member_.guarded();
    bool in_place = post(mine, call, puts);
    const std::byte *slot = in_place && puts ? posted_by(root, call) : nullptr;
    if (slot && reinterpret_cast<const posted *>(slot)->stride) {
        const part place =
            reinterpret_cast<const offer *>(slot + sizeof(posted))->of(member_.rank());
        if (place.bytes == mine.bytes) {
            put(place);
            slots_.tell_end();
            return slots_.end(false);
        }
    }
    slots_.end(false);
    if (in_place && !member_.lost())
        slots_.await_end(root);
}

// Whether the peer puts what it has posted; `places`: what the caller has posted, or null.
template <member Member>
bool engine<Member>::is_put_by(int peer, const std::byte *slot, const offer *places) const
{
    const auto *theirs = reinterpret_cast<const posted *>(slot);
    return places && theirs->bytes == posted::in_place && theirs->stride &&
           reinterpret_cast<const offer *>(slot + sizeof(posted))->bytes == places->of(peer).bytes;
}

template <member Member>
template <class Take>
void engine<Member>::collect_all(const offer *places, std::uint32_t call, Take &take)
{
    int size = member_.size(), rank = member_.rank();
    bool posts = places != nullptr;
    if (places)
        post_in_place(*places, call, true);
    take(rank, part{}); // while the others put
    for (int i = 1; i < size; i++) {
        int peer = (rank + i) % size;
        const std::byte *slot = posted_by(peer, call);
        if (!slot)
            break;
        const auto *theirs = reinterpret_cast<const posted *>(slot);
        // It waits for an answer, also if the caller expects less than it gives.
        if (!posts && theirs->bytes == posted::in_place && theirs->stride) {
            post_in_place({}, call, false);
            posts = true;
        }
        if (!is_put_by(peer, slot, places))
            take_from(peer, call, take);
    }
    for (int peer = 0; peer < size && !member_.lost(); peer++)
        if (peer != rank && is_put_by(peer, slots_.place(peer, flat_channel, 0), places))
            slots_.await_end(peer);
    slots_.end(true);
}

} // namespace onespace::sync::detail

#endif
