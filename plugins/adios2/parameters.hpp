// plugins/adios2/parameters.hpp: the engine's parameters in adios2.xml.
#pragma once

#include "polling.hpp"

#include <adios2/common/ADIOSTypes.h>

#include <string>

namespace onespace_adios
{

struct Parameters {
    // Deferred Puts, in EndStep: `lend`: readers read the program's memory, if they are as fast as
    // a copy; `copy`: copies; `wait`: lends, and waits for readers however long they take.
    enum class Puts { lend, copy, wait };

    std::string channel;      // the stream's name, where it is not that given to Open
    unsigned queue_limit = 0; // complete steps that readers have not released; 0: the most
    bool discards = false;    // QueueFullPolicy
    unsigned readers = 1;     // RendezvousReaderCount
    unsigned spin_us = Polling::BY_ITSELF; // of a reader's BeginStep
    unsigned open_timeout = 60;            // seconds
    bool latest = false;                   // AlwaysProvideLatestTimestep
    bool keeps_first = false;              // FirstTimestepPrecious
    bool ranks_by_launcher = false;
    Puts puts = Puts::lend;
    size_t copied_at_once = size_t(4) << 20; // MinDeferredSize: smaller Puts, even deferred
    bool shows_addresses = false;
    bool has_statistics = true;
    bool verbose = false;
    std::string fallback = "SST"; // "": none
};

// Throws std::invalid_argument, which names the parameter and what it may be.
Parameters read_parameters(const adios2::Params &given);

} // namespace onespace_adios
