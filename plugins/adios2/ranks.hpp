// plugins/adios2/ranks.hpp: who opens a stream together: the processes of a communicator or, with
// an ADIOS2 without MPI, those that one launcher has started (Ranks="launcher").
#pragma once

#include <adios2/common/ADIOSConfig.h>

#include <cstdint>
#include <string>

#if defined(ADIOS2_USE_MPI) && ADIOS2_USE_MPI
#include <mpi.h>
#endif

namespace onespace_adios
{

struct Ranks {
    unsigned rank = 0, size = 1;
    bool on_one_node = true; // as far as is known

#if defined(ADIOS2_USE_MPI) && ADIOS2_USE_MPI
    MPI_Comm comm = MPI_COMM_NULL;
#endif
    // Of a communicator, by the last user of it.
    void release();
    // The largest of all ranks' values; by oneself without MPI.
    uint64_t largest(uint64_t value) const;
    bool agrees() const; // whether `largest` reaches the other ranks
};

#if defined(ADIOS2_USE_MPI) && ADIOS2_USE_MPI
// Collective.
Ranks ranks_of(MPI_Comm comm);
#endif

// Of the environment that MPI's launchers, Slurm and `onespace run` set. A process that none of
// them has numbered is alone: an analysis that was started by hand shares adios2.xml with a
// simulation.
Ranks ranks_of_launcher();

} // namespace onespace_adios
