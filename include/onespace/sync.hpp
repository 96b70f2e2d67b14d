// onespace/sync.hpp: synchronisation of ranks that share memory, on the C++ memory model.
//
// Includes everything that needs neither an MPI nor libonespace. One more header selects where the
// ranks come from: onespace/sync/mpi.hpp, space.hpp or threads.hpp. See docs/sync.md.
//
// Paper: "MPI+MPI hybrid approach" with the C11/C++11 memory model; its sections and algorithms are
// cited where the code follows them.
#ifndef ONESPACE_SYNC_HPP
#define ONESPACE_SYNC_HPP

#include "onespace/sync/barrier.hpp"
#include "onespace/sync/collectives.hpp"
#include "onespace/sync/team.hpp"

#endif
