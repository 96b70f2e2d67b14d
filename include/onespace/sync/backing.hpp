// onespace/sync/backing.hpp: the backing of a team: how its ranks obtain shared memory.
//
// A backing is used during setup and teardown and when a wait takes long, never in between: the
// algorithms see addresses only. mpi.hpp, space.hpp and threads.hpp define one each.
#ifndef ONESPACE_SYNC_BACKING_HPP
#define ONESPACE_SYNC_BACKING_HPP

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sched.h>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <vector>

#include "onespace/sync/wait.hpp"
#include "onespace/sync/topology.hpp"

namespace onespace::sync
{

// A rank ended, left the team or, in a team of a space, executed another program while another
// waited for it. The rank that catches this can no longer use the team nor anything made from it.
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

// A rank's memory in one region, at its address in the caller.
struct segment {
    std::byte *data;
    std::size_t bytes;
};

namespace detail
{

inline constexpr std::uint64_t control_magic = 0x31636e7973656e6f; // "onesync1"
inline constexpr std::uint32_t control_abi = 8;

// A rank's state that the rest of its team can see. The offsets of the first three fields must not
// change in future layouts, so that ranks with different layouts can detect it.
struct alignas(line_size) control {
    // Owner: 0 -> control_magic once the fields below are filled in; the others await it before
    // they read them.
    flag hello;
    std::uint32_t abi, size; // of this struct
    std::int32_t pid;
    place where;
    std::uint64_t started;       // the process's start time, since PIDs are reused
    std::uint64_t pid_namespace; // in which the PID is valid
    unsigned char cpus[128];     // cpu_set_t: the rank's affinity mask
    // Owner: 0 -> 1 when it leaves the team on its own, for instance by an exception (release);
    // read with acquire by those that wait for it.
    alignas(line_size) std::atomic<std::uint32_t> left;
    // Owner: 0 -> rank + 1 of a peer that it found lost, or of its own if an exception made it omit
    // collective work (release); read like `left`, so that ranks that wait for the owner learn of
    // the loss too.
    std::atomic<std::uint32_t> broken;
    // The others add 1 each after their last access to the owner's memory (release); the owner
    // waits for all of them (acquire) before it releases the memory.
    flag departed;
    flag exchange[2]; // written by the owner, alternately: see team_state::exchange
};

static_assert(sizeof(cpu_set_t) == sizeof(control::cpus));
// The fields after `hello` take two lines of 128 bytes or one of 256.
inline constexpr std::size_t control_lines = line_size < 256 ? 7 : 6;
static_assert(sizeof(control) == control_lines * line_size &&
                  offsetof(control, departed) == (control_lines - 3) * line_size,
              "crosses programs");

// Memory of one rank to which the others write is malloc's; or mapped shared if the rank is a
// guarded task (onespace run --guard, which sets the variable): others may write only there.
inline bool is_guarded()
{
    static const bool is = std::getenv("ONESPACE_GUARD") != nullptr;
    return is;
}

// Zeroed, `bytes` being whole lines; null: no memory.
inline void *allocate_open(std::size_t bytes)
{
    if (is_guarded()) {
        void *memory =
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        return memory == MAP_FAILED ? nullptr : memory;
    }
    void *memory = std::aligned_alloc(line_size, bytes);
    if (memory)
        std::memset(memory, 0, bytes);
    return memory;
}

inline void free_open(void *memory, std::size_t bytes) noexcept
{
    if (is_guarded() && memory)
        munmap(memory, bytes);
    else
        std::free(memory);
}

} // namespace detail

class backing
{
  public:
    virtual ~backing() = default;
    // True if an address of one rank is valid in all others.
    virtual bool direct() const noexcept = 0;
    // True if that rank is known to have ended. Called at most once per millisecond.
    virtual bool ended(int rank) noexcept = 0;
    // Collective: allocates zeroed memory for the caller and returns every rank's segment. Only for
    // backings that must share memory explicitly; the default returns nothing, which means that
    // ordinary memory will do.
    virtual std::vector<segment> allocate(std::size_t, void *&)
    {
        return {};
    }
    // Collective: releases what `allocate` returned. No rank uses it any more.
    virtual void release(void *)
    {
    }
    // The team ends. `orderly`: all ranks are here and have made their last access to this rank's
    // memory. Otherwise peers may be lost, so nothing collective is allowed.
    virtual void close(bool orderly) noexcept = 0;
};

} // namespace onespace::sync

#endif
