// onespace/sync/ghost_leaders.hpp: ghost update between nodes by their leaders: one message per
// pair of nodes and direction (section 5.3 of the paper, option 1).
//
// The leader is rank 0 of the node's team. The message buffers are in its shared memory: ranks pack
// into its outgoing buffer and unpack from its incoming one, so that gathering needs no extra copy.
// Updates are numbered from 1. Flags, all in the leader's memory, one writer each:
//
//   ready(i)  rank i stores k (release) when its points of update k are packed; the leader awaits
//             all (acquire) before it sends
//   sent      the leader stores k when the messages of update k have left the outgoing buffer;
//             ranks await k - 1 before they pack update k
//   arrived   the leader stores k when all messages of update k are in the incoming buffer; ranks
//             await k before they unpack
//   taken(i)  rank i stores k when it has unpacked; the leader awaits k - 1 of all before it starts
//             the receives of update k
#ifndef ONESPACE_SYNC_GHOST_LEADERS_HPP
#define ONESPACE_SYNC_GHOST_LEADERS_HPP

#include <optional>
#include <tuple>

#include "onespace/sync/ghost_far.hpp"

namespace onespace::sync::detail
{

template <class T, wait_policy Wait> class ghost_leaders : public ghost_far<T>
{
  public:
    using ghost_far<T>::ghost_far;
    ~ghost_leaders() override
    {
        ghost_free(receives_);
        ghost_free(sends_);
    }
    void connect(const team &node, const std::vector<int> &members,
                 std::span<const ghost_neighbour> lists, std::size_t values) override
    {
        node_.emplace(node);
        auto pieces = all_pieces(members[0], lists);
        layout outgoing(pieces, members[0], true), incoming(pieces, members[0], false);
        auto bytes = values * sizeof(T);
        auto head = (2 + 2 * node.size()) * sizeof(flag);
        auto out_bytes = whole_lines(outgoing.points * bytes);
        bool leads = node.rank() == 0;
        memory_.emplace(
            node.allocate(leads ? head + out_bytes + whole_lines(incoming.points * bytes) : 0));
        auto *out = reinterpret_cast<T *>(memory_->data(0) + head);
        auto *in = reinterpret_cast<T *>(memory_->data(0) + head + out_bytes);
        for (const auto &with : lists) {
            if (!with.send.empty())
                packs_.push_back(
                    {{with.send, values}, out + outgoing.at(this->world.rank, with.rank) * values});
            if (!with.receive.empty())
                unpacks_.push_back({{with.receive, values},
                                    in + incoming.at(with.rank, this->world.rank) * values});
        }
        if (!leads)
            return;
        senders_ = among(members, outgoing, true);
        receivers_ = among(members, incoming, false);
        make_requests(outgoing, incoming, out, in, values);
    }
    void begin(const T *vector) override
    {
        update_++;
        if (!packs_.empty()) {
            await(sent(), update_ - 1, 0);
            for (const auto &one : packs_)
                one.points.pack(one.buffer, vector);
            team::signal<Wait>(*ready(node_->rank()), update_);
        }
        receiving_ = sending_ = false;
        start(false);
    }
    void end(T *vector) override
    {
        if (node_->rank() == 0) {
            start(true);
            ghost_wait(receives_);
            team::signal<Wait>(*arrived(), update_);
            ghost_wait(sends_);
            team::signal<Wait>(*sent(), update_);
        }
        if (unpacks_.empty())
            return;
        await(arrived(), update_, 0);
        for (const auto &one : unpacks_)
            one.points.unpack(vector, one.buffer);
        team::signal<Wait>(*taken(node_->rank()), update_);
    }

  private:
    // The data from one rank to a rank on another node. Ranks are those of the communicator.
    struct piece {
        int from, to, points;
        int from_leader, to_leader;
    };
    // The layout of the leader's outgoing or incoming buffer: the pieces of a message are
    // contiguous, in the same order on both sides.
    struct layout {
        layout(const std::vector<piece> &all, int leader, bool outgoing)
        {
            for (const auto &one : all)
                if ((outgoing ? one.from_leader : one.to_leader) == leader)
                    pieces.push_back(one);
            auto other = [=](const piece &one) {
                return outgoing ? one.to_leader : one.from_leader;
            };
            std::sort(pieces.begin(), pieces.end(), [&](const piece &a, const piece &b) {
                return std::tuple(other(a), a.from, a.to) < std::tuple(other(b), b.from, b.to);
            });
            for (const auto &one : pieces) {
                if (messages.empty() || messages.back().with != other(one))
                    messages.push_back({other(one), points, 0});
                messages.back().points += one.points;
                starts.push_back(points);
                points += one.points;
            }
        }
        std::size_t at(int from, int to) const
        {
            auto found = std::find_if(pieces.begin(), pieces.end(), [=](const piece &one) {
                return one.from == from && one.to == to;
            });
            return starts[found - pieces.begin()];
        }
        struct message {
            int with; // the other leader
            std::size_t start;
            int points;
        };
        std::vector<piece> pieces;
        std::vector<std::size_t> starts;
        std::vector<message> messages;
        std::size_t points = 0;
    };
    struct copy {
        ghost_points points;
        T *buffer;
    };

    // The pieces of all ranks, on all ranks: needed only while the plan is made.
    std::vector<piece> all_pieces(int leader, std::span<const ghost_neighbour> lists) const
    {
        const auto &world = this->world;
        std::vector<int> leaders(world.size), counts(world.size), starts(world.size + 1);
        check_mpi(MPI_Allgather(&leader, 1, MPI_INT, leaders.data(), 1, MPI_INT, world.handle),
                  "MPI_Allgather");
        std::vector<piece> mine;
        for (const auto &with : lists)
            if (!with.send.empty())
                mine.push_back({world.rank, with.rank, static_cast<int>(with.send.size()), leader,
                                leaders[with.rank]});
        auto bytes = static_cast<int>(mine.size() * sizeof(piece));
        check_mpi(MPI_Allgather(&bytes, 1, MPI_INT, counts.data(), 1, MPI_INT, world.handle),
                  "MPI_Allgather");
        for (int i = 0; i < world.size; i++)
            starts[i + 1] = starts[i] + counts[i];
        std::vector<piece> all(starts[world.size] / sizeof(piece));
        check_mpi(MPI_Allgatherv(mine.data(), bytes, MPI_BYTE, all.data(), counts.data(),
                                 starts.data(), MPI_BYTE, world.handle),
                  "MPI_Allgatherv");
        return all;
    }
    // The ranks of the team that have pieces in it.
    static std::vector<int> among(const std::vector<int> &members, const layout &of, bool outgoing)
    {
        std::vector<int> found;
        for (std::size_t i = 0; i < members.size(); i++)
            for (const auto &one : of.pieces)
                if ((outgoing ? one.from : one.to) == members[i]) {
                    found.push_back(static_cast<int>(i));
                    break;
                }
        return found;
    }
    void make_requests(const layout &outgoing, const layout &incoming, T *out, T *in,
                       std::size_t values)
    {
        ghost_point_type point(values * sizeof(T));
        for (const auto &one : incoming.messages)
            check_mpi(MPI_Recv_init(in + one.start * values, one.points, point.handle, one.with, 2,
                                    this->world.handle, &receives_.emplace_back()),
                      "MPI_Recv_init");
        for (const auto &one : outgoing.messages)
            check_mpi(MPI_Send_init(out + one.start * values, one.points, point.handle, one.with, 2,
                                    this->world.handle, &sends_.emplace_back()),
                      "MPI_Send_init");
    }

    // Leader only: starts the messages whose pieces are all ready; with `all`, waits for the pieces
    // of every message. Thus `begin` waits only for a leader that still sends the previous
    // update.
    void start(bool all)
    {
        if (node_->rank() != 0)
            return;
        auto done = [&](auto which, const std::vector<int> &ranks, std::uint64_t wanted) {
            for (int i : ranks) {
                flag &one = *(this->*which)(i);
                if (all)
                    await(&one, wanted, i);
                else if (one.value.load(std::memory_order_acquire) < wanted)
                    return false;
            }
            return true;
        };
        if (!receiving_ && (receiving_ = done(&ghost_leaders::taken, receivers_, update_ - 1)))
            ghost_start(receives_);
        if (!sending_ && (sending_ = done(&ghost_leaders::ready, senders_, update_)))
            ghost_start(sends_);
    }
    void await(flag *what, std::uint64_t wanted, int from) const
    {
        node_->template await<Wait>(*what, wanted, from);
    }
    // The flags described at the top of this file.
    flag *arrived() const
    {
        return memory_->template at<flag>(0);
    }
    flag *sent() const
    {
        return arrived() + 1;
    }
    flag *ready(int rank) const
    {
        return arrived() + 2 + 2 * rank;
    }
    flag *taken(int rank) const
    {
        return ready(rank) + 1;
    }

    std::optional<team> node_;
    std::optional<region> memory_;
    std::vector<copy> packs_, unpacks_;
    // Used by the leader only.
    std::vector<int> senders_, receivers_; // ranks of the team
    std::vector<MPI_Request> receives_, sends_;
    bool receiving_ = false, sending_ = false; // this update's messages have been started
    std::uint64_t update_ = 0;
};

} // namespace onespace::sync::detail

#endif
