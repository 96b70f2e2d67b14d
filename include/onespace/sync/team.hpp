// onespace/sync/team.hpp: ranks that share memory, and the primitives that algorithms build on.
//
// A team is made from an MPI communicator (mpi.hpp), from the tasks of a space (space.hpp) or from
// threads (threads.hpp). It allocates regions: memory of each rank that all can address. Functions
// marked "collective" must be called by all ranks of the team in the same order.
//
// A team is a handle; copies refer to the same team. Regions and algorithms keep it alive.
// Destroying the last handle ends the team, collectively: destroy them in the same order on all
// ranks, and before MPI_Finalize. A handle is used by one thread at a time.
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
#include "onespace/sync/memory.hpp"
#include "onespace/sync/order.hpp"
#include "onespace/sync/wait.hpp"

namespace onespace::sync
{

class region;

namespace detail
{

// The state that handles refer to. Its own exchange always uses release/acquire and the adaptive
// wait.
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
    bool oversubscribed() const noexcept
    {
        return oversubscribed_;
    }
    backing &base() const noexcept
    {
        return *backing_;
    }
    const std::vector<place> &places() const noexcept
    {
        return places_;
    }
    // True if no peer is lost, so that a destructor may do collective work.
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
    bool is_oversubscribed() const noexcept;
    void check_layout(int rank) const;
    bool depart() noexcept;

    std::unique_ptr<backing> backing_;
    int rank_;
    std::vector<control *> controls_;
    std::vector<place> places_;
    std::uint64_t exchanges_ = 0;
    int exceptions_ = std::uncaught_exceptions();
    bool oversubscribed_ = true; // until all ranks' CPUs are known
    std::chrono::steady_clock::time_point last_search_{};
};

// Fills in the caller's control. `where` is zeroed memory that the others will see.
void introduce(control *where);

} // namespace detail

class team
{
  public:
    // For backings: see from_mpi, from_space and thread_group::join. `controls` are those of all
    // ranks, at their addresses in the caller, whose own was filled in by detail::introduce.
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
    // True if an address of one rank, also of private memory, is valid in all others, so that data
    // can be read in place (exchange its address). True in a space and for threads.
    bool direct() const noexcept
    {
        return state_->base().direct();
    }
    // True if there are more ranks than CPUs for them, so that spinning can keep a peer from
    // running. Determined from the ranks' CPU affinities when the team was made.
    bool oversubscribed() const noexcept
    {
        return state_->oversubscribed();
    }
    // Where each rank runs; known only for bound ranks and with hwloc.
    const std::vector<place> &places() const noexcept
    {
        return state_->places();
    }

    // Collective: a region with `bytes` of the caller's own memory in it; ranks may ask for
    // different amounts. Zeroed, aligned to 128 bytes, and first touched here, so it is on the
    // caller's NUMA node. Throws std::bad_alloc or the MPI's error. Slow: several system calls.
    region allocate(std::size_t bytes) const;

    // Collective: the values of all ranks, in rank order; meant for setup. T is trivially copyable.
    template <class T> std::vector<T> exchange(const T &mine) const
    {
        return state_->exchange(mine);
    }

    // Raises a flag of which the caller is the only writer, and wakes the ranks that sleep on it.
    // Everything that the caller wrote before is visible to ranks that await this value.
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
    // Adds one to a flag with several writers; returns the new value.
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
    // Waits until a flag has reached `wanted`; returns its value. `from` is the rank that raises
    // it, or any_rank if there are several. Throws peer_lost if that rank has ended, left, or has
    // itself lost a peer, and the flag has not reached the value.
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

// Memory of each rank of a team, visible to all. Movable, not copyable; its destruction is
// collective, like the team's, unless a peer was lost (then it stays until the process ends).
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
            own_bytes_ = other.own_bytes_;
            segments_ = std::move(other.segments_);
        }
        return *this;
    }
    ~region()
    {
        end();
    }

    // The memory of `rank`, at its address in the caller.
    std::byte *data(int rank) const noexcept
    {
        return segments_[rank].data;
    }
    std::size_t bytes(int rank) const noexcept
    {
        return segments_[rank].bytes;
    }
    // The same as objects of T, for which zeroed memory must be a valid initial state.
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
    std::size_t own_bytes_ = 0; // handle_ is so much of the caller's memory; 0: the backing's
    std::vector<segment> segments_;
};

} // namespace onespace::sync

#include "onespace/sync/team_impl.hpp"

#endif
