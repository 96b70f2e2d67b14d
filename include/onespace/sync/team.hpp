// onespace/sync/team.hpp: the ranks that share memory, and what algorithms build on.
//
// A team comes from an MPI communicator (mpi.hpp), from the tasks of a space (space.hpp) or from
// threads (threads.hpp). It gives out regions: memory of each rank that all can address. Everything
// called "collective" must be called by all ranks of the team in the same order.
//
// A team is a handle; copies mean the same team. Regions and algorithms keep it alive. The last
// handle to go ends the team, collectively: let them go in the same order everywhere, and before
// MPI_Finalize. A handle belongs to one thread at a time.
#ifndef ONESPACE_SYNC_TEAM_HPP
#define ONESPACE_SYNC_TEAM_HPP

#include <bit>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <type_traits>
#include <utility>

#include "onespace/sync/backing.hpp"
#include "onespace/sync/order.hpp"
#include "onespace/sync/wait.hpp"

namespace onespace::sync
{

class region;

namespace detail
{

// The team itself. Its own exchange always uses release/acquire and the adaptive wait.
class team_state
{
  public:
    team_state(std::unique_ptr<backing> from, int rank, std::vector<control *> controls);
    team_state(const team_state &) = delete;
    team_state &operator=(const team_state &) = delete;
    ~team_state();

    int rank() const noexcept
    {
        return rank_;
    }
    int size() const noexcept
    {
        return static_cast<int>(controls_.size());
    }
    bool crowded() const noexcept
    {
        return crowded_;
    }
    backing &base() const noexcept
    {
        return *backing_;
    }
    const std::vector<place> &places() const noexcept
    {
        return places_;
    }
    // Whether all is well, so that something collective may be done in a destructor.
    bool orderly() const noexcept
    {
        return !own().broken.load(std::memory_order_relaxed) &&
               std::uncaught_exceptions() == exceptions_;
    }

    template <order_policy Order, wait_policy Wait>
    std::uint64_t await(flag &what, std::uint64_t wanted, int from);
    template <class T> std::vector<T> exchange(const T &mine);

  private:
    control &own() const noexcept
    {
        return *controls_[rank_];
    }
    int find_lost(int from) noexcept;
    bool is_crowded() const noexcept;
    void check_layout(int rank) const;
    bool depart() noexcept;

    std::unique_ptr<backing> backing_;
    int rank_;
    std::vector<control *> controls_;
    std::vector<place> places_;
    std::uint64_t exchanges_ = 0;
    int exceptions_ = std::uncaught_exceptions();
    bool crowded_ = true; // until everybody's processors are known
    std::chrono::steady_clock::time_point last_search_{};
};

// Fills the caller's part. `where` is zeroed memory that the others will see.
void introduce(control *where);

} // namespace detail

class team
{
  public:
    // For backings: see from_mpi, from_space and thread_group::join. `controls` are those of all
    // ranks, at their addresses for the caller, whose own was filled by detail::introduce.
    team(std::unique_ptr<backing> from, int rank, std::vector<detail::control *> controls)
        : state_(std::make_shared<detail::team_state>(std::move(from), rank, std::move(controls)))
    {
    }

    int rank() const noexcept
    {
        return state_->rank();
    }
    int size() const noexcept
    {
        return state_->size();
    }
    // Whether an address of one rank is valid for all others, private memory included: then data
    // can be read where it is (exchange its address). True in a space and for threads.
    bool direct() const noexcept
    {
        return state_->base().direct();
    }
    // Whether the ranks have fewer processors than they are, so that spinning keeps a peer from
    // running. Found from the ranks' CPU affinities when the team was made.
    bool crowded() const noexcept
    {
        return state_->crowded();
    }
    // Where each rank runs, for those who have bound ranks and hwloc.
    const std::vector<place> &places() const noexcept
    {
        return state_->places();
    }

    // Collective: a region with `bytes` of the caller's own memory in it; ranks may ask for
    // different amounts. Zeroed, aligned to 128 bytes, and placed on the caller's NUMA node by
    // being touched here first. Throws std::bad_alloc or the MPI's error. Not fast: some system
    // calls each.
    region allocate(std::size_t bytes) const;

    // Collective: everybody's value, by rank; for setting things up. T is trivially copyable.
    template <class T> std::vector<T> exchange(const T &mine) const
    {
        return state_->exchange(mine);
    }

    // Raises a flag of which the caller is the only writer, and wakes those who sleep on it. All
    // that the caller wrote before is seen by whoever awaits this value.
    template <order_policy Order = release_acquire, wait_policy Wait = adaptive>
    static void signal(flag &what, std::uint64_t value)
    {
        if constexpr (Wait::wakes) {
            what.value.store(value, std::memory_order_seq_cst); // see flag::sleepers
            detail::wake(what);
        } else {
            what.value.store(value, Order::store);
        }
    }
    // Adds one to a flag that several raise; returns what it is then.
    template <order_policy Order = release_acquire, wait_policy Wait = adaptive>
    static std::uint64_t arrive(flag &what)
    {
        if constexpr (Wait::wakes) {
            auto now = what.value.fetch_add(1, std::memory_order_seq_cst) + 1;
            detail::wake(what);
            return now;
        } else {
            return what.value.fetch_add(1, Order::change) + 1;
        }
    }
    // Waits until a flag has reached `wanted`; returns what it is. `from` is the rank that raises
    // it, or any_rank when that may be several. Throws peer_lost when that rank has ended, left, or
    // has itself lost somebody, and the flag does not have the value.
    template <order_policy Order = release_acquire, wait_policy Wait = adaptive>
    std::uint64_t await(flag &what, std::uint64_t wanted, int from) const
    {
        auto seen = what.value.load(Order::load);
        if (seen >= wanted) [[likely]]
            return seen;
        return state_->template await<Order, Wait>(what, wanted, from);
    }
    static constexpr int any_rank = -1;

  private:
    friend class region;
    std::shared_ptr<detail::team_state> state_;
};

// Memory of each rank of a team that all of them see. Moves, does not copy; its end is collective,
// like the team's, unless a peer was lost (then it stays until the process ends).
class region
{
  public:
    region(region &&other) noexcept = default; // leaves `other` without a team: nothing to end
    region &operator=(region &&other) noexcept
    {
        if (this != &other) {
            end();
            team_ = std::move(other.team_);
            handle_ = std::exchange(other.handle_, nullptr);
            own_memory_ = other.own_memory_;
            segments_ = std::move(other.segments_);
        }
        return *this;
    }
    ~region()
    {
        end();
    }

    // Where the memory of `rank` begins, for the caller.
    std::byte *data(int rank) const noexcept
    {
        return segments_[rank].data;
    }
    std::size_t bytes(int rank) const noexcept
    {
        return segments_[rank].bytes;
    }
    // The same as objects of T, which must be trivial enough to begin as zeroed memory.
    template <class T> T *at(int rank, std::size_t offset = 0) const noexcept
    {
        static_assert(std::is_trivially_destructible_v<T>);
        return std::launder(reinterpret_cast<T *>(segments_[rank].data + offset));
    }

  private:
    friend class team;
    region(std::shared_ptr<detail::team_state> of, std::size_t bytes);
    void end() noexcept;

    std::shared_ptr<detail::team_state> team_;
    void *handle_ = nullptr;
    bool own_memory_ = false; // handle_ is the caller's memory, not the backing's
    std::vector<segment> segments_;
};

} // namespace onespace::sync

#include "onespace/sync/team_impl.hpp"

#endif
