// onespace/sync/ghost.hpp: ghost update: each rank gets its neighbours' values of the points that
// they own and it has copies of. For teams; ghost_mpi.hpp adds neighbours on other nodes.
//
// Section 3.3 and algorithm 4 of the paper, without the barrier that its section 4.6 needs between
// consecutive updates. Updates are numbered from 1. Each ordered pair of neighbours, writer W and
// reader R, has two counters, each with one writer and a line of its own:
//
//   published  W stores k (release) when what it sends in update k may be read; R awaits it
//              (acquire) before it reads. In R's memory.
//   consumed   R stores k (release) after its last read of update k; W awaits it (acquire) before
//              it changes what R has read. In W's memory.
//
// With shared buffers (processes) W copies its points into buffer k mod 2 of this pair. It fills
// that buffer only when consumed >= k-2, so R has finished with what was in it, however late R is,
// and W may be up to two updates ahead of R. No rank waits for one that it exchanges nothing with.
//
// In a direct team (tasks, threads) R reads W's vector: one copy instead of two. The values that W
// sends stay unchanged from published = k until every reader has consumed >= k; `end` returns only
// then. So the address of the vector, which travels in the line of `published`, does not change
// under R either.
//
// Nobody waits in a circle: a rank that is furthest behind waits only for what ranks that are as
// far or further have stored already, or store without waiting for it.
#ifndef ONESPACE_SYNC_GHOST_HPP
#define ONESPACE_SYNC_GHOST_HPP

#include <optional>

#include "onespace/sync/ghost_directory.hpp"
#include "onespace/sync/ghost_points.hpp"

namespace onespace::sync
{

enum class ghost_path {
    automatic, // what the team allows: direct, or else buffers
    buffers,   // also in a direct team: `end` then waits for no reader
};

// Made collectively, for vectors of T. T is trivially copyable; T, `values` and the policies are
// the same on all ranks. Used by one thread of each rank. All ranks do the same updates in the same
// order; each waits for its neighbours only.
template <class T, order_policy Order = release_acquire, wait_policy Wait = adaptive>
class ghost_plan
{
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= line_size);

  public:
    // Collective over the team. `lists` name ranks of the team; they and the ids are copied. Throws
    // ghost_error on all ranks if a list is wrong on any; std::bad_alloc or the MPI's error like
    // team::allocate. If one rank asks for buffers, all use them.
    ghost_plan(const team &of, std::span<const ghost_neighbour> lists, const ghost_shape &shape,
               ghost_path path = ghost_path::automatic)
        : team_(of), values_(shape.points * shape.values), direct_(agree(lists, shape, path)),
          memory_(connect(lists, shape))
    {
    }

    // `begin` and `end` at once.
    void update(std::span<T> vector)
    {
        begin(vector);
        end();
    }
    // Gives the values of the points in `send` lists to the neighbours. Until `end` has returned
    // the vector stays where it is, those values stay as they are, and ghosts are not looked at;
    // all else may be read and written. Throws std::invalid_argument for a vector of another size,
    // peer_lost (see team::await).
    void begin(std::span<T> vector)
    {
        check(vector);
        open_ = true;
        vector_ = vector.data();
        update_++;
        for (auto &with : links_)
            if (!with.send.empty())
                publish(with);
    }
    // Puts the neighbours' values into the ghosts; waits for them. All is the caller's again.
    // Throws peer_lost, and even then no neighbour looks at the vector any more.
    void end()
    {
        if (!open_)
            throw std::logic_error("onespace::sync::ghost_plan: end without begin");
        open_ = false;
        try {
            for (auto &with : links_)
                if (!with.receive.empty())
                    consume(with);
        } catch (const peer_lost &) {
            await_readers(); // those that are left
            throw;
        }
        if (auto lost = await_readers())
            std::rethrow_exception(lost);
    }
    // Throws what `begin` would throw for this vector now, but for peer_lost.
    void check(std::span<const T> vector) const
    {
        if (vector.size() != values_)
            throw std::invalid_argument(
                "onespace::sync::ghost_plan: the vector has " + std::to_string(vector.size()) +
                " values, the plan was made for " + std::to_string(values_));
        if (open_)
            throw std::logic_error("onespace::sync::ghost_plan: begin twice without end");
    }
    // Whether neighbours read the vector itself.
    bool direct() const noexcept
    {
        return direct_;
    }

  private:
    // One neighbour. In the caller's memory: `arrived` and `read`, which the neighbour stores; in
    // the neighbour's: `give` and `done`, which the caller stores.
    struct link {
        int rank;
        detail::ghost_points send, receive;
        detail::ghost_points source; // what arrives, in the neighbour's vector; direct only
        flag *give, *arrived;        // published
        flag *done, *read;           // consumed
        T *out[2];                   // buffers only: to fill,
        const T *in[2];              // to read
    };

    void publish(link &with)
    {
        if (direct_) {
            // The reader has consumed the last update, hence read the last address: see `end`.
            std::memcpy(with.give->payload, &vector_, sizeof(vector_));
        } else {
            if (update_ > 2)
                team_.template await<Order, Wait>(*with.read, update_ - 2, with.rank);
            with.send.pack(with.out[update_ % 2], vector_);
        }
        team::signal<Order, Wait>(*with.give, update_);
    }
    void consume(link &with)
    {
        team_.template await<Order, Wait>(*with.arrived, update_, with.rank);
        if (direct_) {
            const T *theirs;
            std::memcpy(&theirs, with.arrived->payload, sizeof(theirs));
            with.receive.take(vector_, with.source, theirs);
        } else {
            with.receive.unpack(vector_, with.in[update_ % 2]);
        }
        team::signal<Order, Wait>(*with.done, update_);
    }
    // Until nobody reads the vector any more: a neighbour that is lost does not, and one that has
    // found another lost stops reading before it says so. Returns the loss, if there was one.
    std::exception_ptr await_readers()
    {
        std::exception_ptr lost;
        for (auto &with : links_)
            try {
                if (direct_ && !with.send.empty())
                    team_.template await<Order, Wait>(*with.read, update_, with.rank);
            } catch (const peer_lost &) {
                lost = std::current_exception();
            }
        return lost;
    }

    // Everything that can be wrong without looking at lists of others; whether to read directly.
    bool agree(std::span<const ghost_neighbour> lists, const ghost_shape &shape, ghost_path path)
    {
        struct claim {
            std::uint64_t point_bytes;
            bool direct;
        };
        auto fault = detail::ghost_local_check(team_.rank(), team_.size(), lists, shape).find();
        detail::throw_first(team_.exchange(fault));
        auto claims = team_.exchange(
            claim{shape.values * sizeof(T), team_.direct() && path == ghost_path::automatic});
        bool all_direct = true;
        for (int i = 0; i < team_.size(); i++) {
            all_direct &= claims[i].direct;
            if (claims[i].point_bytes != claims[0].point_bytes)
                throw ghost_error({detail::ghost_fault::size_of_points,
                                   {},
                                   i,
                                   0,
                                   -1,
                                   static_cast<std::int64_t>(claims[i].point_bytes),
                                   static_cast<std::int64_t>(claims[0].point_bytes)});
        }
        return all_direct;
    }
    // Compares the lists of all ranks and makes the links.
    region connect(std::span<const ghost_neighbour> lists, const ghost_shape &shape)
    {
        auto bytes = shape.values * sizeof(T);
        std::vector<detail::ghost_fault> faults;
        std::optional<region> memory;
        {
            detail::ghost_directory directory(team_, lists, shape, bytes);
            faults = team_.exchange(directory.find(lists, shape));
            bool good = true;
            for (const auto &fault : faults)
                good &= !fault.kind;
            if (good) {
                memory.emplace(team_.allocate(
                    detail::ghost_directory::plan_bytes(lists, direct_ ? 0 : bytes)));
                for (std::size_t slot = 0; slot < lists.size(); slot++)
                    links_.push_back(connect(lists[slot], static_cast<int>(slot), directory,
                                             *memory, shape.values));
            }
        } // in step, before anything is thrown: the end of the directory is collective
        detail::throw_first(faults);
        return std::move(*memory);
    }
    link connect(const ghost_neighbour &with, int slot, const detail::ghost_directory &directory,
                 const region &memory, std::size_t values)
    {
        link made{};
        made.rank = with.rank;
        made.send = {with.send, values};
        made.receive = {with.receive, values};
        int theirs = directory.slot_at(with.rank);
        if (theirs < 0) // nothing is exchanged with it, and it does not list the caller
            return made;
        int self = team_.rank();
        made.arrived = memory.template at<flag>(self, 2 * slot * sizeof(flag));
        made.read = made.arrived + 1;
        made.give = memory.template at<flag>(with.rank, 2 * theirs * sizeof(flag));
        made.done = made.give + 1;
        auto own = directory.at(self, slot), other = directory.at(with.rank, theirs);
        if (direct_) {
            made.source = {directory.points(with.rank, other), values};
            return made;
        }
        for (int i = 0; i < 2; i++) {
            auto of = [&](const auto &entry) {
                return entry.buffer + i * detail::whole_lines(entry.sent * values * sizeof(T));
            };
            made.out[i] = reinterpret_cast<T *>(memory.data(self) + of(own));
            made.in[i] = reinterpret_cast<const T *>(memory.data(with.rank) + of(other));
        }
        return made;
    }

    team team_;
    std::size_t values_; // of the whole vector
    bool direct_;
    std::vector<link> links_;
    region memory_;
    T *vector_ = nullptr; // of the update that has begun
    std::uint64_t update_ = 0;
    bool open_ = false;
};

} // namespace onespace::sync

#endif
