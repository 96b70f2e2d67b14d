/* src/mpi/names/functions.h: the table of MPI functions that the layer wraps.
 *
 * The layer defines MPI_NAME and PMPI_NAME for each. The agent exports a jump for each name, so
 * that programs without windows never load the layer. Both names are wrapped because Open MPI's
 * Fortran bindings, and MPICH's for mpi_f08, call PMPI_NAME. A profiling tool linked with the
 * program still sees every call, since its wrappers end in PMPI_NAME too. */
#ifndef ONESPACE_MPI_NAMES_FUNCTIONS_H
#define ONESPACE_MPI_NAMES_FUNCTIONS_H

/* Functions that create windows: the first call of any of them loads the layer. */
#define MPI_LOADING(X)                                                                             \
    X(Alloc_mem)                                                                                   \
    X(Win_allocate)                                                                                \
    X(Win_allocate_shared)

/* Collective operations: the first call of any of them loads the layer, if the task has
 * ONESPACE_SPAWN_COLLECTIVES. */
#define MPI_COLLECTIVES(X)                                                                         \
    X(Allgather)                                                                                   \
    X(Allgatherv)                                                                                  \
    X(Allreduce)                                                                                   \
    X(Alltoall)                                                                                    \
    X(Alltoallv)                                                                                   \
    X(Alltoallw)                                                                                   \
    X(Barrier)                                                                                     \
    X(Bcast)                                                                                       \
    X(Exscan)                                                                                      \
    X(Gather)                                                                                      \
    X(Gatherv)                                                                                     \
    X(Reduce)                                                                                      \
    X(Reduce_scatter)                                                                              \
    X(Reduce_scatter_block)                                                                        \
    X(Scan)                                                                                        \
    X(Scatter)                                                                                     \
    X(Scatterv)

/* Nonblocking collective operations, likewise. */
#define MPI_NONBLOCKING(X)                                                                         \
    X(Iallgather)                                                                                  \
    X(Iallreduce)                                                                                  \
    X(Ialltoall)                                                                                   \
    X(Ibarrier)                                                                                    \
    X(Ibcast)                                                                                      \
    X(Igather)                                                                                     \
    X(Ireduce)                                                                                     \
    X(Iscatter)

/* Point-to-point calls that wait. They lead to the layer, and load it, if CPUs are oversubscribed
 * at their first call (mpi/wrap/waits.c). */
#define MPI_WAITING(X)                                                                             \
    X(Mprobe)                                                                                      \
    X(Probe)                                                                                       \
    X(Recv)                                                                                        \
    X(Rsend)                                                                                       \
    X(Send)                                                                                        \
    X(Sendrecv)                                                                                    \
    X(Sendrecv_replace)                                                                            \
    X(Ssend)                                                                                       \
    X(Wait)                                                                                        \
    X(Waitall)                                                                                     \
    X(Waitany)                                                                                     \
    X(Waitsome)

/* The environment variable that lists collective operations for the MPI library to do: names in any
 * case, separated by commas. */
#define COLLECTIVES_OFF_ENV "ONESPACE_COLLECTIVES_OFF"

/* Functions that use windows or requests of the layer's, free objects about which the layer keeps
 * state, find what was sent before an operation of the layer's, or end MPI. They never load the
 * layer. */
#define MPI_FORWARDED(X)                                                                           \
    X(Cancel)                                                                                      \
    X(Finalize)                                                                                    \
    X(Free_mem)                                                                                    \
    X(Improbe)                                                                                     \
    X(Iprobe)                                                                                      \
    X(Request_get_status)                                                                          \
    X(Test)                                                                                        \
    X(Testall)                                                                                     \
    X(Testany)                                                                                     \
    X(Testsome)                                                                                    \
    X(Type_free)                                                                                   \
    X(Win_attach)                                                                                  \
    X(Win_detach)                                                                                  \
    X(Win_free)                                                                                    \
    X(Win_shared_query)                                                                            \
    X(Win_get_attr)                                                                                \
    X(Win_get_group)                                                                               \
    X(Win_get_info)                                                                                \
    X(Win_fence)                                                                                   \
    X(Win_lock)                                                                                    \
    X(Win_unlock)                                                                                  \
    X(Win_lock_all)                                                                                \
    X(Win_unlock_all)                                                                              \
    X(Win_flush)                                                                                   \
    X(Win_flush_all)                                                                               \
    X(Win_flush_local)                                                                             \
    X(Win_flush_local_all)                                                                         \
    X(Win_sync)                                                                                    \
    X(Win_post)                                                                                    \
    X(Win_start)                                                                                   \
    X(Win_complete)                                                                                \
    X(Win_wait)                                                                                    \
    X(Win_test)                                                                                    \
    X(Put)                                                                                         \
    X(Get)                                                                                         \
    X(Accumulate)                                                                                  \
    X(Get_accumulate)                                                                              \
    X(Fetch_and_op)                                                                                \
    X(Compare_and_swap)                                                                            \
    X(Rput)                                                                                        \
    X(Rget)                                                                                        \
    X(Raccumulate)                                                                                 \
    X(Rget_accumulate)

/* MPI-4's large counts; MPICH has them, Open MPI up to 5.0 does not (pmpi/large_counts.h). */
#define MPI_LOADING_LARGE(X)                                                                       \
    X(Win_allocate_c)                                                                              \
    X(Win_allocate_shared_c)
#define MPI_COLLECTIVES_LARGE(X)                                                                   \
    X(Allgather_c)                                                                                 \
    X(Allgatherv_c)                                                                                \
    X(Allreduce_c)                                                                                 \
    X(Alltoall_c)                                                                                  \
    X(Alltoallv_c)                                                                                 \
    X(Alltoallw_c)                                                                                 \
    X(Bcast_c)                                                                                     \
    X(Exscan_c)                                                                                    \
    X(Gather_c)                                                                                    \
    X(Gatherv_c)                                                                                   \
    X(Reduce_c)                                                                                    \
    X(Reduce_scatter_c)                                                                            \
    X(Reduce_scatter_block_c)                                                                      \
    X(Scan_c)                                                                                      \
    X(Scatter_c)                                                                                   \
    X(Scatterv_c)
#define MPI_WAITING_LARGE(X)                                                                       \
    X(Recv_c)                                                                                      \
    X(Rsend_c)                                                                                     \
    X(Send_c)                                                                                      \
    X(Sendrecv_c)                                                                                  \
    X(Ssend_c)
#define MPI_FORWARDED_LARGE(X)                                                                     \
    X(Win_shared_query_c)                                                                          \
    X(Put_c)                                                                                       \
    X(Get_c)                                                                                       \
    X(Accumulate_c)                                                                                \
    X(Get_accumulate_c)                                                                            \
    X(Rput_c)                                                                                      \
    X(Rget_c)                                                                                      \
    X(Raccumulate_c)                                                                               \
    X(Rget_accumulate_c)

/* The layer's own functions (onespace/window.h). The agent's jumps make them visible to dlsym and
 * to weak references; a program that calls one has a window, so the layer is loaded. */
#define MPI_ONESPACE(X)                                                                            \
    X(onespace_window_sync_all)                                                                    \
    X(onespace_window_sync_range)                                                                  \
    X(onespace_window_sync_start)                                                                  \
    X(onespace_window_wait)                                                                        \
    X(onespace_window_test)                                                                        \
    X(onespace_window_statistics)                                                                  \
    X(onespace_window_commit)                                                                      \
    X(onespace_window_version)

/* Fortran's MPI_Win_get_attr: MPICH's bindings call MPII_Win_get_attr in the C library;
 * Open MPI's are symbols of libmpi_mpifh, with the names that a Fortran compiler gives them. */
#define MPI_FORTRAN(X)                                                                             \
    X(MPII_Win_get_attr)                                                                           \
    X(mpi_win_get_attr_)                                                                           \
    X(pmpi_win_get_attr_)

/* Open MPI calls this before it looks for components. A library built without support for
 * components in files gets onespace's at that moment (src/smsc/component.c). No program calls it.
 */
#define MPI_INTERNAL(X) X(mca_base_component_repository_init)

/* The MPI libraries that a program may have loaded, by soname, and the layer's library for each. */
#define MPI_LIBRARIES(X)                                                                           \
    X("libmpi_abi.so.1", "libonespace-mpi-abi.so")                                                 \
    X("libmpi.so.40", "libonespace-mpi-openmpi.so")                                                \
    X("libmpi.so.12", "libonespace-mpi-mpich.so")                                                  \
    X("libmpich.so.12", "libonespace-mpi-mpich.so")

#endif
