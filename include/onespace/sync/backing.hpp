// onespace/sync/backing.hpp: what a team stands on: how its ranks get memory that all of them see.
//
// A backing is used while things are made and unmade and when a wait takes long, never in between:
// the algorithms see addresses only. mpi.hpp, space.hpp and threads.hpp have one each.
#ifndef ONESPACE_SYNC_BACKING_HPP
#define ONESPACE_SYNC_BACKING_HPP

#include <cstddef>
#include <memory>
#include <sched.h>
#include <stdexcept>
#include <string>
#include <vector>

#include "onespace/sync/flag.hpp"
#include "onespace/sync/topology.hpp"

namespace onespace::sync
{

// A rank ended, left the team or executed another program while somebody waited for it. The team
// and what was made from it cannot be used any more by the rank that gets this.
class peer_lost : public std::runtime_error
{
  public:
    explicit peer_lost(int rank)
        : std::runtime_error("onespace::sync: rank " + std::to_string(rank) +
                             " of the team ended or left while others waited for it: see what it "
                             "said last"),
          rank_(rank)
    {
    }
    int rank() const noexcept
    {
        return rank_;
    }

  private:
    int rank_; // in the team
};

// A rank's memory of one region, at its address for the caller.
struct segment {
    std::byte *data;
    std::size_t bytes;
};

namespace detail
{

inline constexpr std::uint64_t control_magic = 0x31636e7973656e6f; // "onesync1"
inline constexpr std::uint32_t control_abi = 1;

// What a rank shows of itself to the rest of its team. The first three fields keep their place in
// all layouts to come, so that ranks of different layouts can tell.
struct alignas(line_size) control {
    // Owner: 0 -> control_magic when its part is filled in; the others await it before they read
    // on.
    flag hello;
    std::uint32_t abi, size; // of this struct
    std::int32_t pid;
    place where;
    std::uint64_t started;       // when the process was, since a PID alone may be another's by now
    std::uint64_t pid_namespace; // where the PID means anything
    unsigned char cpus[128];     // cpu_set_t: where the rank may run
    // Owner: 0 -> 1 when it leaves the team alone, say by an exception (release); read with acquire
    // by those who wait for it.
    alignas(line_size) std::atomic<std::uint32_t> left;
    // Owner: 0 -> rank + 1 of a peer that it found lost (release), read like `left`, so that those
    // who wait for the owner learn of it too.
    std::atomic<std::uint32_t> broken;
    // The others add 1 each after their last access to the owner's memory (release); the owner
    // waits for all of them (acquire) before it gives the memory back.
    flag departed;
    flag exchange[2]; // owner, by turns: see team_state::exchange
};

static_assert(sizeof(cpu_set_t) == sizeof(control::cpus));
static_assert(sizeof(control) == 7 * line_size && offsetof(control, departed) == 4 * line_size,
              "crosses programs");

} // namespace detail

class backing
{
  public:
    virtual ~backing() = default;
    // Whether an address of one rank means the same to all.
    virtual bool direct() const noexcept = 0;
    // Whether that rank has ended, as far as this can be known. Called at most once a millisecond.
    virtual bool ended(int rank) noexcept = 0;
    // Collective: zeroed memory of the caller's, and where everybody's is. Only if memory has to be
    // shared explicitly; else the default, which says so by giving nothing.
    virtual std::vector<segment> allocate(std::size_t, void *&)
    {
        return {};
    }
    // Collective: what `allocate` gave. Nobody uses it any more.
    virtual void release(void *)
    {
    }
    // The team ends. `orderly`: all ranks are here and have looked at this rank's memory for the
    // last time. Otherwise peers may be lost, and nothing collective must be done.
    virtual void close(bool orderly) noexcept = 0;
};

} // namespace onespace::sync

#endif
