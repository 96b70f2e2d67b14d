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
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <type_traits>
#include <unistd.h>
#include <utility>

#include "onespace/sync/backing.hpp"
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
    // Throws peer_lost where collective work cannot succeed any more.
    void need_all() const
    {
        if (auto lost = own().broken.load(std::memory_order_relaxed))
            throw peer_lost(static_cast<int>(lost) - 1);
    }
    // The caller omits collective work that the others do: they find it lost.
    void abandon() noexcept
    {
        if (!own().broken.load(std::memory_order_relaxed))
            own().broken.store(static_cast<std::uint32_t>(rank_) + 1, std::memory_order_release);
    }

    template <wait_policy Wait> std::uint64_t await(flag &what, std::uint64_t wanted, int from);
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
    template <wait_policy Wait = adaptive> static void signal(flag &what, std::uint64_t value)
    {
        if constexpr (Wait::wakes) {
            what.value.store(value, std::memory_order_seq_cst); // see flag::sleepers
            detail::wake(what);
        } else {
            what.value.store(value, std::memory_order_release);
        }
    }
    // Adds one to a flag with several writers; returns the new value.
    template <wait_policy Wait = adaptive> static std::uint64_t arrive(flag &what)
    {
        if constexpr (Wait::wakes) {
            auto now = what.value.fetch_add(1, std::memory_order_seq_cst) + 1;
            detail::wake(what);
            return now;
        } else {
            return what.value.fetch_add(1, std::memory_order_acq_rel) + 1;
        }
    }
    // Waits until a flag has reached `wanted`; returns its value. `from` is the rank that raises
    // it, or any_rank if there are several. Throws peer_lost if that rank has ended, left, or has
    // itself lost a peer, and the flag has not reached the value.
    template <wait_policy Wait = adaptive>
    std::uint64_t await(flag &what, std::uint64_t wanted, int from) const
    {
        auto seen = what.value.load(std::memory_order_acquire);
        if (seen >= wanted) [[likely]]
            return seen;
        return state_->template await<Wait>(what, wanted, from);
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

// ---- Definitions ----

namespace onespace::sync
{
namespace detail
{

inline constexpr std::uint64_t unknown_start = UINT64_MAX;

// Field 22 of /proc/PID/stat, the process's start time; 0 if it has ended (zombies included);
// unknown_start if it cannot be read now, for lack of descriptors, say.
inline std::uint64_t start_of(std::int32_t pid)
{
    char buffer[1024];
    int file = open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, buffer, sizeof(buffer));
    int error = errno;
    if (file >= 0)
        ::close(file);
    if (length < 0)
        return error == ENOENT || error == ESRCH ? 0 : unknown_start;
    std::string_view text(buffer, static_cast<std::size_t>(length));
    auto name_end = text.rfind(')'); // the name in parentheses may contain anything
    if (name_end == std::string_view::npos)
        return unknown_start;
    std::istringstream fields(std::string(text.substr(name_end + 1)));
    std::string word;
    fields >> word;
    if (word == "Z" || word == "X")
        return 0;
    for (int i = 4; i <= 22; i++)
        fields >> word;
    return fields ? std::strtoull(word.c_str(), nullptr, 10) : unknown_start;
}

inline std::uint64_t own_pid_namespace()
{
    struct stat status;
    return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

inline void introduce(control *where)
{
    where->pid = getpid();
    where->started = start_of(where->pid);
    where->pid_namespace = own_pid_namespace();
    where->where = find_place();
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    // Fails on machines with more than 1,024 CPUs: then the mask stays empty.
    (void)sched_getaffinity(0, sizeof(cpus), &cpus);
    std::memcpy(where->cpus, &cpus, sizeof(cpus));
    where->size = sizeof(control);
    where->abi = control_abi;
    where->hello.value.store(control_magic, std::memory_order_release);
}

inline team_state::team_state(std::unique_ptr<backing> from, int rank,
                              std::vector<control *> controls)
    : backing_(std::move(from)), rank_(rank), controls_(std::move(controls))
{
    for (int i = 0; i < size(); i++) {
        await<adaptive>(controls_[i]->hello, 1, i);
        check_layout(i);
    }
    for (const control *one : controls_)
        places_.push_back(one->where);
    oversubscribed_ = is_oversubscribed();
}

inline team_state::~team_state()
{
    bool good = orderly();
    if (good)
        try {
            exchange(rank_); // no rank uses regions any more
        } catch (const peer_lost &) {
            good = false;
        }
    if (good)
        good = depart();
    else
        own().left.store(1, std::memory_order_release);
    backing_->close(good);
}

// The caller has made its last access to the others' memory; waits until they have made theirs to
// the caller's. They all arrive soon unless one is killed just now, hence the time limit.
inline bool team_state::depart() noexcept
{
    for (int i = 0; i < size(); i++)
        if (i != rank_)
            controls_[i]->departed.value.fetch_add(1, std::memory_order_release);
    auto others = static_cast<std::uint64_t>(size() - 1);
    flag &seen = own().departed;
    for (pace now(oversubscribed_); seen.value.load(std::memory_order_acquire) < others;
         now.looks++) {
        adaptive::pause(now, seen, 0);
        bool late = now.is_long() && now.waited() > std::chrono::seconds(2);
        for (int i = 0; late && i < size(); i++)
            if (i != rank_ && backing_->ended(i))
                return false;
    }
    return true;
}

inline void team_state::check_layout(int rank) const
{
    const control &one = *controls_[rank];
    if (one.hello.value.load(std::memory_order_relaxed) != control_magic)
        throw std::runtime_error("onespace::sync: rank " + std::to_string(rank) +
                                 " shows something else where its team should be");
    if (one.abi != control_abi || one.size != sizeof(control))
        throw std::runtime_error("onespace::sync: rank " + std::to_string(rank) +
                                 " was built with sync headers of layout " +
                                 std::to_string(one.abi) + ", this rank with those of layout " +
                                 std::to_string(control_abi) +
                                 ": build all ranks with the same onespace");
}

// True if some set of ranks is confined to fewer CPUs than it has ranks: for each rank's CPUs,
// counts the ranks that are bound within them.
inline bool team_state::is_oversubscribed() const noexcept
{
    auto words = [this](int rank, std::uint64_t(&out)[16]) {
        std::memcpy(out, controls_[rank]->cpus, sizeof(out));
    };
    for (int i = 0; i < size(); i++) {
        std::uint64_t room[16], other[16];
        words(i, room);
        int cpus = 0, ranks = 0;
        for (auto word : room)
            cpus += std::popcount(word);
        for (int j = 0; j < size(); j++) {
            words(j, other);
            bool within = true;
            for (int w = 0; w < 16; w++)
                within &= (other[w] & ~room[w]) == 0;
            ranks += within;
        }
        if (ranks > cpus)
            return true;
    }
    return false;
}

// The lost rank, or -1. `from`: the rank that the caller waits for; -1: any.
inline int team_state::find_lost(int from) noexcept
{
    auto now = std::chrono::steady_clock::now();
    if (now - last_search_ < std::chrono::milliseconds(1))
        return -1;
    last_search_ = now;
    for (int i = from < 0 ? 0 : from; i < (from < 0 ? size() : from + 1); i++) {
        if (i == rank_)
            continue;
        // In this order: a rank that has found another one lost says so before it leaves.
        bool gone = controls_[i]->left.load(std::memory_order_acquire) || backing_->ended(i);
        if (auto lost = controls_[i]->broken.load(std::memory_order_acquire))
            return static_cast<int>(lost) - 1;
        if (gone)
            return i;
    }
    return -1;
}

template <wait_policy Wait>
std::uint64_t team_state::await(flag &what, std::uint64_t wanted, int from)
{
    pace now(oversubscribed_);
    auto seen = what.value.load(std::memory_order_acquire);
    while (seen < wanted) {
        Wait::pause(now, what, seen);
        now.looks++;
        seen = what.value.load(std::memory_order_acquire);
        if (seen >= wanted || !now.is_long())
            continue;
        int lost = find_lost(from);
        // The rank may have raised the flag before it left.
        seen = what.value.load(std::memory_order_acquire);
        if (lost >= 0 && seen < wanted) {
            own().broken.store(static_cast<std::uint32_t>(lost) + 1, std::memory_order_release);
            throw peer_lost(lost);
        }
    }
    return seen;
}

// Each rank publishes its value in its own flag and reads all others. Two alternating flags
// suffice: a rank that publishes value k + 2 has seen k + 1 of all others, so all have finished
// reading k.
template <class T> std::vector<T> team_state::exchange(const T &mine)
{
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= flag::payload_size);
    need_all();
    std::uint64_t round = ++exchanges_;
    flag &shown = own().exchange[round % 2];
    std::memcpy(shown.payload, &mine, sizeof(T));
    shown.value.store(round, std::memory_order_release);
    std::vector<T> all;
    for (int i = 0; i < size(); i++) {
        flag &other = controls_[i]->exchange[round % 2];
        await<adaptive>(other, round, i);
        alignas(T) std::byte bytes[sizeof(T)];
        std::memcpy(bytes, other.payload, sizeof(T));
        all.push_back(*std::launder(reinterpret_cast<const T *>(bytes))); // GCC 10 has no bit_cast
    }
    return all;
}

} // namespace detail

inline region team::allocate(std::size_t bytes) const
{
    return region(state_, bytes);
}

inline region::region(std::shared_ptr<detail::team_state> of, std::size_t bytes)
    : team_(std::move(of))
{
    team_->need_all();
    for (std::size_t wanted : team_->exchange(bytes))
        if (wanted > static_cast<std::size_t>(PTRDIFF_MAX))
            throw std::bad_alloc();
    std::size_t room = (bytes + line_size - 1) / line_size * line_size + line_size;
    segments_ = team_->base().allocate(room, handle_);
    if (segments_.empty()) {
        own_bytes_ = room;
        handle_ = detail::allocate_open(room);
        for (auto *data : team_->exchange(static_cast<std::byte *>(handle_)))
            segments_.push_back({data, 0});
    }
    auto sizes = team_->exchange(bytes); // also a barrier: all memory is zeroed
    for (int i = 0; i < team_->size(); i++)
        segments_[i].bytes = sizes[i];
    bool all = true;
    for (const auto &one : segments_)
        all &= one.data != nullptr;
    if (!all) {
        end();
        throw std::bad_alloc();
    }
}

inline void region::end() noexcept
{
    if (!team_)
        return;
    try {
        if (team_->orderly()) {
            team_->exchange(team_->rank()); // no rank uses it any more
            if (own_bytes_)
                detail::free_open(handle_, own_bytes_);
            else
                team_->base().release(handle_);
        } else {
            team_->abandon();
        }
    } catch (const peer_lost &) { // stays until the process ends
    }
    team_.reset();
}

} // namespace onespace::sync

#endif
