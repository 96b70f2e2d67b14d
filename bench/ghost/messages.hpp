// bench/ghost/messages.hpp: the ghost update of flat MPI programs, in three variants. All receive
// ghosts in place, and send points in place unless these are not contiguous and must be packed.
#ifndef BENCH_GHOST_MESSAGES_HPP
#define BENCH_GHOST_MESSAGES_HPP

#include <mpi.h>

#include "part.hpp"

// Exchanges with the neighbours that `chosen` selects.
class messages
{
  public:
    template <class Chosen>
    messages(part &of, MPI_Comm over, Chosen chosen) : part_(of), over_(over)
    {
        for (const auto &with : of.neighbours)
            if (chosen(with.rank))
                outgoing_.push_back(
                    {&with, std::vector<double>(with.in_one_piece() ? 0 : with.send.size())});
    }
    messages(const messages &) = delete;

  protected:
    struct message {
        const neighbour *with;
        std::vector<double> packed; // empty: contiguous, sent in place
    };
    double *send_address(message &item)
    {
        return item.packed.empty() ? &part_.vector[item.with->send.front()] : item.packed.data();
    }
    static void pack(double *to, const part &from, const neighbour &with)
    {
        for (int point : with.send)
            *to++ = from.vector[point];
    }
    void pack(message &item)
    {
        if (!item.packed.empty())
            pack(item.packed.data(), part_, *item.with);
    }
    double *receive_address(const message &item)
    {
        return &part_.vector[item.with->first];
    }
    part &part_;
    MPI_Comm over_;
    std::vector<message> outgoing_;
};

class immediate : public messages
{
  public:
    using messages::messages;
    void update()
    {
        requests_.resize(2 * outgoing_.size());
        auto *request = requests_.data();
        for (auto &item : outgoing_)
            MPI_Irecv(receive_address(item), item.with->received, MPI_DOUBLE, item.with->rank, 0,
                      over_, request++);
        for (auto &item : outgoing_) {
            pack(item);
            MPI_Isend(send_address(item), item.with->sent(), MPI_DOUBLE, item.with->rank, 0, over_,
                      request++);
        }
        MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    }

  private:
    std::vector<MPI_Request> requests_;
};

class persistent : public messages
{
  public:
    template <class Chosen>
    persistent(part &of, MPI_Comm over, Chosen chosen) : messages(of, over, chosen)
    {
        for (auto &item : outgoing_)
            MPI_Recv_init(receive_address(item), item.with->received, MPI_DOUBLE, item.with->rank,
                          1, over, &requests_.emplace_back());
        for (auto &item : outgoing_)
            MPI_Send_init(send_address(item), item.with->sent(), MPI_DOUBLE, item.with->rank, 1,
                          over, &requests_.emplace_back());
    }
    ~persistent()
    {
        for (auto &request : requests_)
            MPI_Request_free(&request);
    }
    void update()
    {
        begin();
        end();
    }
    void begin()
    {
        auto half = static_cast<int>(outgoing_.size());
        if (half)
            MPI_Startall(half, requests_.data());
        for (int i = 0; i < half; i++) {
            pack(outgoing_[i]);
            MPI_Start(&requests_[half + i]);
        }
    }
    void end()
    {
        MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    }

  private:
    std::vector<MPI_Request> requests_;
};

// One buffer for all messages, unless none has to be packed.
class collective : public messages
{
  public:
    template <class Chosen>
    collective(part &of, MPI_Comm over, Chosen chosen) : messages(of, over, chosen)
    {
        std::vector<int> ranks;
        for (auto &item : outgoing_) {
            ranks.push_back(item.with->rank);
            sent_.push_back(item.with->sent());
            received_.push_back(item.with->received);
            from_.push_back(item.with->first);
            packs_ |= !item.packed.empty();
        }
        for (auto &item : outgoing_) {
            to_.push_back(packs_ ? static_cast<int>(packed_.size()) : item.with->send.front());
            packed_.resize(packed_.size() + item.with->send.size());
        }
        auto count = static_cast<int>(ranks.size());
        MPI_Dist_graph_create_adjacent(over, count, ranks.data(), MPI_UNWEIGHTED, count,
                                       ranks.data(), MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph_);
    }
    ~collective()
    {
        MPI_Comm_free(&graph_);
    }
    void update()
    {
        for (std::size_t i = 0; packs_ && i < outgoing_.size(); i++)
            pack(&packed_[to_[i]], part_, *outgoing_[i].with);
        auto *vector = part_.vector.data();
        MPI_Neighbor_alltoallv(packs_ ? packed_.data() : vector, sent_.data(), to_.data(),
                               MPI_DOUBLE, vector, received_.data(), from_.data(), MPI_DOUBLE,
                               graph_);
    }

  private:
    using messages::pack;
    bool packs_ = false;
    std::vector<double> packed_;
    std::vector<int> sent_, to_, received_, from_;
    MPI_Comm graph_;
};

#endif
