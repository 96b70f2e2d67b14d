// onespace/sync.hpp: synchronisation of ranks that share memory, on the C++ memory model.
//
// Includes what needs neither an MPI nor libonespace. Where the ranks come from is chosen by a
// further header: onespace/sync/mpi.hpp, space.hpp or threads.hpp. See docs/sync.md.
//
// Paper: "MPI+MPI hybrid approach" with the C11/C++11 memory model; its sections and algorithms are
// named where they are followed.
#ifndef ONESPACE_SYNC_HPP
#define ONESPACE_SYNC_HPP

#include "onespace/sync/barrier.hpp"
#include "onespace/sync/collectives.hpp"
#include "onespace/sync/punctual.hpp"
#include "onespace/sync/team.hpp"

#endif
