// bench/ghost/windows.hpp: the ghost update through a shared window with MPI's own synchronisation
// (the paper's algorithms 6 to 8). Ranks pack what they send into their part of the window, where
// their neighbours fetch it; ranks of other nodes get messages, by persistent requests. "Plain" is
// what the paper describes, "tuned" adds the assertions and info hints that MPI permits.
#ifndef BENCH_GHOST_WINDOWS_HPP
#define BENCH_GHOST_WINDOWS_HPP

#include <cstring>
#include <sched.h>

#include "messages.hpp"

// The ranks of the caller's node, which are consecutive in MPI_COMM_WORLD.
struct node {
    MPI_Comm ranks;
    int first = 0, rank = 0, size = 0;
    bool oversubscribed = false;

    bool has(int world_rank) const
    {
        return world_rank >= first && world_rank < first + size;
    }
};

// The data of `buffers` updates.
class shared_window
{
  public:
    shared_window(part &of, const node &on, int buffers)
        : part_(of), node_(on), far_(of, MPI_COMM_WORLD, [&](int rank) { return !on.has(rank); })
    {
        std::vector<int> offsets(on.size), slots(on.size);
        for (auto &with : of.neighbours)
            if (on.has(with.rank)) {
                offsets[with.rank - on.first] = words_;
                slots[with.rank - on.first] = static_cast<int>(node_links_.size());
                node_links_.push_back({&with, with.rank - on.first, words_, 0, nullptr, 0});
                words_ += (with.sent() + 15) / 16 * 16; // whole lines
            }
        std::vector<int> peer_offsets(on.size), peer_slots(on.size), sizes(on.size);
        MPI_Alltoall(offsets.data(), 1, MPI_INT, peer_offsets.data(), 1, MPI_INT, on.ranks);
        MPI_Alltoall(slots.data(), 1, MPI_INT, peer_slots.data(), 1, MPI_INT, on.ranks);
        MPI_Allgather(&words_, 1, MPI_INT, sizes.data(), 1, MPI_INT, on.ranks);
        MPI_Info info;
        MPI_Info_create(&info);
        MPI_Info_set(info, "alloc_shared_noncontig", "true");
        MPI_Win_allocate_shared(static_cast<MPI_Aint>(buffers * words_ * sizeof(double) + 128), 8,
                                info, on.ranks, &own_, &data_);
        MPI_Info_free(&info);
        for (auto &peer : node_links_) {
            MPI_Aint length;
            int unit;
            void *base;
            MPI_Win_shared_query(data_, peer.rank, &length, &unit, &base);
            peer.base = static_cast<double *>(base) + peer_offsets[peer.rank];
            peer.base_words = sizes[peer.rank];
            peer.slot = peer_slots[peer.rank];
        }
    }
    shared_window(const shared_window &) = delete;
    ~shared_window()
    {
        MPI_Win_free(&data_);
    }

  protected:
    struct link {
        const neighbour *with;
        int rank;   // in the node
        int offset; // of the points sent to it, in the caller's memory
        int slot;   // the caller's number among its neighbours
        const double *base;
        int base_words; // of one buffer
    };
    void pack(const link &peer, int buffer = 0)
    {
        double *to = own_ + buffer * words_ + peer.offset;
        if (peer.with->in_one_piece())
            std::memcpy(to, &part_.vector[peer.with->send.front()],
                        peer.with->sent() * sizeof(double));
        else
            for (int point : peer.with->send)
                *to++ = part_.vector[point];
    }
    void pack()
    {
        for (const auto &peer : node_links_)
            pack(peer);
    }
    void fetch(const link &peer, int buffer = 0)
    {
        std::memcpy(&part_.vector[peer.with->first], peer.base + buffer * peer.base_words,
                    peer.with->received * sizeof(double));
    }
    void fetch()
    {
        for (const auto &peer : node_links_)
            fetch(peer);
    }
    part &part_;
    const node &node_;
    persistent far_;
    std::vector<link> node_links_;
    MPI_Win data_;
    double *own_;
    int words_ = 0;
};

// The lower bound of any update within a node: one copy of the ghosts from their owners' memory,
// which has just changed, without any synchronisation. Values may belong to another update.
class only_copies : public shared_window
{
  public:
    only_copies(part &of, const node &on) : shared_window(of, on, 1)
    {
        MPI_Win_lock_all(MPI_MODE_NOCHECK, data_);
    }
    ~only_copies()
    {
        MPI_Win_unlock_all(data_);
    }
    void prepare()
    {
        pack();
    }
    void update()
    {
        fetch();
    }
};

class fence : public shared_window
{
  public:
    // tuned: asserts what is not done in the window.
    fence(part &of, const node &on, bool tuned) : shared_window(of, on, 1)
    {
        if (tuned)
            filled_ = MPI_MODE_NOPUT, fetched_ = MPI_MODE_NOPUT | MPI_MODE_NOSTORE;
        MPI_Win_fence(0, data_);
    }
    ~fence()
    {
        MPI_Win_fence(MPI_MODE_NOSUCCEED, data_);
    }
    void update()
    {
        far_.begin();
        pack();
        MPI_Win_fence(filled_, data_);
        fetch();
        MPI_Win_fence(fetched_, data_);
        far_.end();
    }

  private:
    int filled_ = 0, fetched_ = 0;
};

// Post, start, complete, wait.
class pscw : public shared_window
{
  public:
    pscw(part &of, const node &on, bool tuned)
        : shared_window(of, on, 1), posted_(tuned ? MPI_MODE_NOPUT : 0)
    {
        std::vector<int> ranks;
        for (const auto &peer : node_links_)
            ranks.push_back(peer.rank);
        MPI_Group all;
        MPI_Comm_group(on.ranks, &all);
        MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &neighbours_);
        MPI_Group_free(&all);
    }
    ~pscw()
    {
        MPI_Group_free(&neighbours_);
    }
    void update()
    {
        far_.begin();
        if (!node_links_.empty()) {
            pack();
            MPI_Win_post(neighbours_, posted_, data_);
            MPI_Win_start(neighbours_, 0, data_);
            fetch();
            MPI_Win_complete(data_);
            MPI_Win_wait(data_);
        }
        far_.end();
    }

  private:
    int posted_;
    MPI_Group neighbours_; // symmetric: the caller's readers are the ranks it reads from
};

// Flags in a window of their own: two per neighbour, "arrived" and "read", which the neighbour
// increments by MPI_Accumulate and their owner reads by MPI_Fetch_and_op.
class flag_window : public shared_window
{
  public:
    flag_window(part &of, const node &on, int buffers) : shared_window(of, on, buffers)
    {
        MPI_Win_allocate(static_cast<MPI_Aint>((2 * node_links_.size() + 1) * sizeof(std::int64_t)),
                         sizeof(std::int64_t), MPI_INFO_NULL, on.ranks, &words_of_flags_, &flags_);
        std::memset(words_of_flags_, 0, (2 * node_links_.size() + 1) * sizeof(std::int64_t));
        MPI_Barrier(on.ranks);
    }
    ~flag_window()
    {
        MPI_Win_free(&flags_);
    }

  protected:
    void count_up(const link &peer, int which)
    {
        static constexpr std::int64_t once = 1;
        MPI_Accumulate(&once, 1, MPI_INT64_T, peer.rank, 2 * peer.slot + which, 1, MPI_INT64_T,
                       MPI_SUM, flags_);
    }
    void look(std::size_t slot, int which, std::int64_t &seen)
    {
        MPI_Fetch_and_op(nullptr, &seen, MPI_INT64_T, node_.rank,
                         static_cast<MPI_Aint>(2 * slot + which), MPI_NO_OP, flags_);
    }
    void pause() const
    {
        if (node_.oversubscribed)
            sched_yield();
    }
    MPI_Win flags_;
    std::int64_t *words_of_flags_;
    std::int64_t update_ = 0;
};

// The paper's algorithm 8, with the barrier that its section 4.6 adds for consecutive updates.
class lock : public flag_window
{
  public:
    lock(part &of, const node &on) : flag_window(of, on, 1)
    {
    }
    void update()
    {
        far_.begin();
        update_++;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, node_.rank, 0, data_);
        pack();
        MPI_Win_unlock(node_.rank, data_);
        for (const auto &peer : node_links_) {
            MPI_Win_lock(MPI_LOCK_SHARED, peer.rank, 0, flags_);
            count_up(peer, 0);
            MPI_Win_unlock(peer.rank, flags_);
        }
        for (std::size_t slot = 0; slot < node_links_.size(); slot++) {
            await(slot);
            MPI_Win_lock(MPI_LOCK_SHARED, node_links_[slot].rank, 0, data_);
            fetch(node_links_[slot]);
            MPI_Win_unlock(node_links_[slot].rank, data_);
        }
        MPI_Barrier(node_.ranks);
        far_.end();
    }

  private:
    void await(std::size_t slot)
    {
        for (std::int64_t seen = 0;; pause()) {
            MPI_Win_lock(MPI_LOCK_SHARED, node_.rank, 0, flags_);
            look(slot, 0, seen);
            MPI_Win_unlock(node_.rank, flags_);
            if (seen >= update_)
                return;
        }
    }
};

// The same with both windows locked once, flushes, and two alternating buffers instead of the
// barrier, as onespace/sync has them.
class lock_tuned : public flag_window
{
  public:
    lock_tuned(part &of, const node &on) : flag_window(of, on, 2)
    {
        MPI_Win_lock_all(MPI_MODE_NOCHECK, data_);
        MPI_Win_lock_all(MPI_MODE_NOCHECK, flags_);
    }
    ~lock_tuned()
    {
        MPI_Win_unlock_all(flags_);
        MPI_Win_unlock_all(data_);
    }
    void update()
    {
        far_.begin();
        update_++;
        int buffer = static_cast<int>(update_ % 2);
        for (std::size_t slot = 0; slot < node_links_.size(); slot++) {
            await(slot, 1, update_ - 2);
            pack(node_links_[slot], buffer);
        }
        MPI_Win_sync(data_);
        for (const auto &peer : node_links_)
            count_up(peer, 0);
        MPI_Win_flush_all(flags_);
        for (std::size_t slot = 0; slot < node_links_.size(); slot++) {
            await(slot, 0, update_);
            MPI_Win_sync(data_);
            fetch(node_links_[slot], buffer);
        }
        for (const auto &peer : node_links_)
            count_up(peer, 1);
        MPI_Win_flush_all(flags_);
        far_.end();
    }

  private:
    void await(std::size_t slot, int which, std::int64_t wanted)
    {
        for (std::int64_t seen = 0;; pause()) {
            look(slot, which, seen);
            MPI_Win_flush(node_.rank, flags_);
            if (seen >= wanted)
                return;
        }
    }
};

#endif
