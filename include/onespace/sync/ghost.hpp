// onespace/sync/ghost.hpp: ghost update: refreshes each rank's copies of points that its neighbours
// own. For teams; ghost_mpi.hpp adds neighbours on other nodes.
//
// Section 3.3 and algorithm 4 of the paper, without the barrier that its section 4.6 needs between
// consecutive updates. Updates are numbered from 1. Each ordered pair of neighbours, writer W and
// reader R, has two counters, each with one writer and a line of its own:
//
//   published  W stores k (release) when the data of update k may be read; R awaits it (acquire)
//              before it reads. In R's memory.
//   consumed   R stores k (release) after its last read of update k; W awaits it (acquire) before
//              it overwrites what R has read. In W's memory.
//
// With shared buffers (processes) W copies its points into buffer k mod d of the pair, d >= 2, and
// fills that buffer only when consumed >= k-2. Hence R has finished with its old contents, however
// late R is, and W can be up to two updates ahead of R. Ranks that exchange nothing never wait for
// each other. Two buffers suffice for that. More of them, in a ring larger than a core's private
// caches, are filled faster between cores that share an outer cache: by the time a buffer is
// reused, its lines have been evicted from both cores' private caches.
//
// In a direct team (tasks, threads) R can read W's vector: one copy instead of two. The values that
// W sends stay unchanged from published = k until every reader has consumed >= k; `end` returns
// only then. The same holds for the vector's address, which travels in the line of `published`.
//
// Whether two buffers, a ring, two buffers filled by non-temporal stores (ghost_points.hpp) or no
// buffer is fastest depends on the caches that the ranks share, so a plan measures them when it is
// made.
//
// Deadlock-free: the slowest rank waits only for data that was published without waiting for it.
#ifndef ONESPACE_SYNC_GHOST_HPP
#define ONESPACE_SYNC_GHOST_HPP

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>

#include "onespace/sync/ghost_directory.hpp"
#include "onespace/sync/ghost_points.hpp"

namespace onespace::sync
{

enum class ghost_path {
    automatic, // the fastest, by measurement; buffers for ranks that share CPUs
    direct,    // in place if the team is direct, else buffers; `end` waits for the readers
    buffers,   // two per pair; `end` waits for no reader
    ring,      // more buffers, 4 times as large as a core's private caches
    streamed,  // two buffers; large lists are written by non-temporal stores
};

// Created collectively, for vectors of T. T is trivially copyable; T, `values` and the policies are
// the same on all ranks. Used by one thread per rank. All ranks do the same updates in the same
// order; each waits only for its neighbours.
template <class T, wait_policy Wait = adaptive> class ghost_plan
{
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= line_size);

  public:
    // Collective over the team. `lists` name ranks of the team; they and the ids are copied. Throws
    // ghost_error on all ranks if a list is wrong on any; std::bad_alloc or the MPI's error like
    // team::allocate. If ranks request different paths, all use the one that is last in ghost_path.
    // Finding the fastest takes some milliseconds of updates on scratch memory.
    ghost_plan(const team &of, std::span<const ghost_neighbour> lists, const ghost_shape &shape,
               ghost_path path = ghost_path::automatic)
        : team_(of), values_(shape.points * shape.values), path_(agree(lists, shape, path)),
          memory_(connect(lists, shape))
    {
        choose();
    }

    // `begin` and `end` at once.
    void update(std::span<T> vector)
    {
        begin(vector);
        end();
    }
    // Publishes the values of the points in `send` lists to the neighbours. Until `end` has
    // returned, the caller must not move the vector, change those values or access ghosts;
    // everything else may be read and written. Throws std::invalid_argument for a vector of another
    // size, peer_lost (see team::await).
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
    // Waits for the neighbours' values and stores them into the ghosts. The whole vector is the
    // caller's again. Throws peer_lost; even then no neighbour reads the vector any more.
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
    // Throws what `begin` would throw for this vector now, except peer_lost.
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
        return path_ == ghost_path::direct;
    }

  private:
    // Smaller updates gain nothing from a ring.
    static constexpr std::size_t ring_from = 8 << 10;

    // One neighbour. In the caller's memory: `arrived` and `read`, written by the neighbour. In the
    // neighbour's: `give` and `done`, written by the caller.
    struct link {
        int rank;
        detail::ghost_points send, receive;
        detail::ghost_points source; // direct team: the received points in the neighbour's vector
        flag *give, *arrived;        // published
        flag *done, *read;           // consumed
        std::byte *out;              // unless direct: the first buffer to fill
        const std::byte *in;         // and to read; the next ones follow at these steps
        std::size_t out_step, in_step;
    };

    // The index of this update's buffer.
    std::size_t turn() const noexcept
    {
        return update_ & ((path_ == ghost_path::ring ? depth_ : 2) - 1);
    }
    void publish(link &with)
    {
        if (direct()) {
            // The reader has consumed the previous update, hence its address: see `end`.
            std::memcpy(with.give->payload, &vector_, sizeof(vector_));
        } else {
            if (update_ > 2)
                team_.template await<Wait>(*with.read, update_ - 2, with.rank);
            auto *buffer = reinterpret_cast<T *>(with.out + turn() * with.out_step);
            if (path_ == ghost_path::streamed &&
                with.send.values() * sizeof(T) >= detail::stream_from) {
                with.send.stream(buffer, vector_);
                detail::stream_fence();
            } else {
                with.send.pack(buffer, vector_);
            }
        }
        team::signal<Wait>(*with.give, update_);
    }
    void consume(link &with)
    {
        team_.template await<Wait>(*with.arrived, update_, with.rank);
        if (direct()) {
            const T *theirs;
            std::memcpy(&theirs, with.arrived->payload, sizeof(theirs));
            with.receive.take(vector_, with.source, theirs);
        } else {
            with.receive.unpack(vector_,
                                reinterpret_cast<const T *>(with.in + turn() * with.in_step));
        }
        team::signal<Wait>(*with.done, update_);
    }
    // Waits until no neighbour reads the vector any more. A lost neighbour does not read; one that
    // finds another lost stops reading before it reports the loss. Returns the loss, if any.
    std::exception_ptr await_readers()
    {
        std::exception_ptr lost;
        for (auto &with : links_)
            try {
                if (direct() && !with.send.empty())
                    team_.template await<Wait>(*with.read, update_, with.rank);
            } catch (const peer_lost &) {
                lost = std::current_exception();
            }
        return lost;
    }

    // Checks everything that does not need the lists of others, and agrees on the path; automatic
    // if it must be measured.
    ghost_path agree(std::span<const ghost_neighbour> lists, const ghost_shape &shape,
                     ghost_path path)
    {
        struct claim {
            std::uint64_t point_bytes;
            ghost_path path;
        };
        auto fault = detail::ghost_local_check(team_.rank(), team_.size(), lists, shape).find();
        detail::throw_first(team_.exchange(fault));
        // Ranks on the same CPU share its caches, and with buffers `end` does not wait for readers.
        if (path == ghost_path::automatic ? team_.oversubscribed()
                                          : path == ghost_path::direct && !team_.direct())
            path = ghost_path::buffers;
        auto claims = team_.exchange(claim{shape.values * sizeof(T), path});
        for (int i = 0; i < team_.size(); i++) {
            path = std::max(path, claims[i].path);
            if (claims[i].point_bytes != claims[0].point_bytes)
                throw ghost_error(detail::ghost_fault::of(detail::ghost_fault::size_of_points, i, 0,
                                                          claims[i].point_bytes,
                                                          claims[0].point_bytes));
        }
        return path;
    }
    // Compares the lists of all ranks and creates the links.
    region connect(std::span<const ghost_neighbour> lists, const ghost_shape &shape)
    {
        auto bytes = shape.values * sizeof(T);
        std::vector<detail::ghost_fault> faults;
        std::optional<region> memory;
        {
            depth_ = find_depth(lists, bytes);
            detail::ghost_directory directory(team_, lists, shape, bytes, depth_);
            faults = team_.exchange(directory.find(lists, shape));
            bool good = true;
            for (const auto &fault : faults)
                good &= !fault.kind;
            if (good) {
                memory.emplace(team_.allocate(
                    detail::ghost_directory::plan_bytes(lists, direct() ? 0 : bytes, depth_)));
                for (std::size_t slot = 0; slot < lists.size(); slot++)
                    links_.push_back(connect(lists[slot], static_cast<int>(slot), directory,
                                             *memory, shape.values));
            }
        } // before any throw, since the end of the directory is collective
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
        if (team_.direct())
            made.source = {directory.points(with.rank, other), values};
        if (direct())
            return made;
        auto step = [&](const auto &entry) {
            return detail::whole_lines(entry.sent * values * sizeof(T));
        };
        made.out = memory.data(self) + own.buffer;
        made.in = memory.data(with.rank) + other.buffer;
        made.out_step = step(own);
        made.in_step = step(other);
        return made;
    }
    // Collective. The maximum over all ranks.
    template <class V> V greatest(V mine) const
    {
        auto all = team_.exchange(mine);
        return *std::max_element(all.begin(), all.end());
    }
    // Collective. The number of buffers per pair: a power of 2, the same on all ranks.
    std::size_t find_depth(std::span<const ghost_neighbour> lists, std::size_t point_bytes)
    {
        std::size_t most = 0;
        for (const auto &with : lists)
            most += detail::whole_lines(with.send.size() * point_bytes);
        most = greatest(most);
        if ((path_ != ghost_path::ring && path_ != ghost_path::automatic) || most < ring_from)
            return 2;
        // 0: not known. The cores of a machine may differ.
        long cache = greatest(std::max(sysconf(_SC_LEVEL2_CACHE_SIZE), 1L << 20));
        return std::max<std::size_t>(std::bit_floor(4 * static_cast<std::size_t>(cache) / most), 2);
    }

    // Collective. Chooses, among the candidates, the path whose updates are fastest on the slowest
    // rank.
    void choose()
    {
        if (path_ != ghost_path::automatic)
            return;
        auto several = candidates();
        std::unique_ptr<T, decltype(&std::free)> vector(
            static_cast<T *>(std::aligned_alloc(
                line_size, detail::whole_lines(std::max<std::size_t>(values_, 1) * sizeof(T)))),
            std::free);
        if (!vector)
            throw std::bad_alloc();
        std::vector<double> best(several.size(), std::numeric_limits<double>::max());
        for (std::size_t i = 0; i < several.size(); i++) {
            path_ = several[i];
            // Warm-up: several passes through all buffers bring them to their steady cache state.
            (void)time_of_updates(vector.get(), 8 * (path_ == ghost_path::ring ? depth_ : 2));
            for (int group = 0; group < 3; group++)
                best[i] = std::min(best[i], time_of_updates(vector.get(), 16));
        }
        for (auto &one : best)
            one = greatest(one);
        path_ = several[std::min_element(best.begin(), best.end()) - best.begin()];
    }
    // The same on all ranks.
    std::vector<ghost_path> candidates()
    {
        std::size_t largest = 0;
        for (const auto &with : links_)
            largest = std::max(largest, with.send.values() * sizeof(T));
        largest = greatest(largest);
        std::vector<ghost_path> several{ghost_path::buffers};
        if (depth_ > 2)
            several.push_back(ghost_path::ring);
        if (largest >= detail::stream_from)
            several.push_back(ghost_path::streamed);
        if (team_.direct())
            several.push_back(ghost_path::direct);
        return several;
    }
    double time_of_updates(T *vector, std::size_t count)
    {
        auto start = std::chrono::steady_clock::now();
        for (; count > 0; count--) {
            for (const auto &with : links_)
                with.send.touch(vector);
            update({vector, values_});
        }
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }

    team team_;
    std::size_t values_; // of the whole vector
    ghost_path path_;    // automatic until it is chosen
    std::size_t depth_ = 2;
    std::vector<link> links_;
    region memory_;
    T *vector_ = nullptr; // of the update that has begun
    std::uint64_t update_ = 0;
    bool open_ = false;
};

} // namespace onespace::sync

#endif
