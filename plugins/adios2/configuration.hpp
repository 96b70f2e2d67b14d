// plugins/adios2/configuration.hpp: the engine's parameters in adios2.xml, and the ranks that open
// a stream together.
#pragma once

#include "polling.hpp"

#include <adios2/common/ADIOSConfig.h>
#include <adios2/common/ADIOSTypes.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#if defined(ADIOS2_USE_MPI) && ADIOS2_USE_MPI
#include <mpi.h>
#endif

namespace onespace_adios
{

struct Parameters {
    // Deferred Puts in EndStep. `lend`: readers read the program's memory if they are as fast as a
    // copy; `copy`: copies; `wait`: lends, and waits for the readers without a limit.
    enum class Puts { lend, copy, wait };

    std::string channel;        // Channel: the stream's name
    unsigned queue_limit = 0;   // complete steps that readers have not released; 0: the maximum
    bool discards = false;      // QueueFullPolicy
    unsigned reader_groups = 1; // RendezvousReaderCount
    unsigned poll_us = Polling::AUTOMATIC_US; // Spin, of a reader's BeginStep
    unsigned open_timeout_s = 60;             // OpenTimeoutSecs
    bool takes_latest = false;                // AlwaysProvideLatestTimestep
    bool retains_first = false;               // FirstTimestepPrecious
    bool ranks_by_launcher = false;           // Ranks
    Puts puts = Puts::lend;
    size_t deferred_min_bytes = size_t(4) << 20; // MinDeferredSize: smaller Puts are copied at once
    bool shows_addresses = false;                // Addresses
    bool has_statistics = true;                  // StatsLevel
    bool verbose = false;
    std::string fallback = "SST"; // Fallback; "": none
};

// Throws std::invalid_argument, whose message names the parameter and its possible values.
Parameters read_parameters(const adios2::Params &given);

// The processes that open a stream together: those of a communicator or, with an ADIOS2 without MPI
// and Ranks="launcher", those that one launcher has started.
struct Ranks {
    unsigned rank = 0, size = 1;
    bool on_one_node = true; // true if unknown

#if defined(ADIOS2_USE_MPI) && ADIOS2_USE_MPI
    // Frees the communicator, except after MPI_Finalize, which an engine may outlive.
    struct FreeComm {
        void operator()(MPI_Comm *freed) const;
    };
    std::unique_ptr<MPI_Comm, FreeComm> comm; // a duplicate, or NULL
#endif
    // Frees the communicator, as the destructor does.
    void release();
    // Replaces each value by its maximum over all ranks, if they can communicate.
    void allreduce_max(uint64_t *values, int count) const;
    // Whether the condition holds on any rank; on this one if the ranks cannot communicate.
    bool any(bool condition) const;
    bool can_communicate() const;
};

// Thrown by Reader's constructor: the writer is not in this space. The message is the reason.
struct NotInSpace : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Calls `open` on all ranks; if it throws on one of them, `undo` on all, because a rank that had
// the stream would wait in BeginStep for one that has not. Throws the rank's own exception, or that
// another rank has failed; but returns why the stream is not in this space if the worst was
// NotInSpace. "" on success. Readers that have announced themselves (Reader::arrive) are not taken
// back, so a writer that waits for them may begin.
std::string open_on_all(const Ranks &ranks, const std::string &stream,
                        const std::function<void()> &open, const std::function<void()> &undo);

#if defined(ADIOS2_USE_MPI) && ADIOS2_USE_MPI
// Collective over `comm`.
Ranks ranks_of(MPI_Comm comm);
#endif

// Reads the environment that MPI launchers, Slurm and `onespace run` set. A process without a
// number is alone, because an analysis that was started by hand shares adios2.xml with a
// simulation.
Ranks ranks_of_launcher();

} // namespace onespace_adios
