/* src/mpi/pmpi/large_counts.h: MPI-4's functions with large counts, for an mpi.h that lacks them.
 *
 * The layer exports them in any case: programs such as mpi4py test whether a name exists, and find
 * the agent's. Where the library lacks one, the layer calls its function with int counts if the
 * counts fit. */
#ifndef ONESPACE_MPI_PMPI_LARGE_COUNTS_H
#define ONESPACE_MPI_PMPI_LARGE_COUNTS_H

#include <mpi.h>

#if MPI_VERSION < 4

#define LARGE_MAKER(name)                                                                          \
    int name(MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm, void *baseptr,       \
             MPI_Win *win);
#define LARGE_QUERY(name)                                                                          \
    int name(MPI_Win win, int rank, MPI_Aint *size, MPI_Aint *disp_unit, void *baseptr);
#define LARGE_PUT(name)                                                                            \
    int name(const void *origin, MPI_Count origin_count, MPI_Datatype origin_type, int rank,       \
             MPI_Aint displacement, MPI_Count count, MPI_Datatype type, MPI_Win win);
#define LARGE_GET(name)                                                                            \
    int name(void *origin, MPI_Count origin_count, MPI_Datatype origin_type, int rank,             \
             MPI_Aint displacement, MPI_Count count, MPI_Datatype type, MPI_Win win);
#define LARGE_ACCUMULATE(name)                                                                     \
    int name(const void *origin, MPI_Count origin_count, MPI_Datatype origin_type, int rank,       \
             MPI_Aint displacement, MPI_Count count, MPI_Datatype type, MPI_Op op, MPI_Win win);
#define LARGE_FETCH(name)                                                                          \
    int name(const void *origin, MPI_Count origin_count, MPI_Datatype origin_type, void *result,   \
             MPI_Count result_count, MPI_Datatype result_type, int rank, MPI_Aint displacement,    \
             MPI_Count count, MPI_Datatype type, MPI_Op op, MPI_Win win);
#define LARGE_RPUT(name)                                                                           \
    int name(const void *origin, MPI_Count origin_count, MPI_Datatype origin_type, int rank,       \
             MPI_Aint displacement, MPI_Count count, MPI_Datatype type, MPI_Win win,               \
             MPI_Request *request);
#define LARGE_RGET(name)                                                                           \
    int name(void *origin, MPI_Count origin_count, MPI_Datatype origin_type, int rank,             \
             MPI_Aint displacement, MPI_Count count, MPI_Datatype type, MPI_Win win,               \
             MPI_Request *request);
#define LARGE_RACCUMULATE(name)                                                                    \
    int name(const void *origin, MPI_Count origin_count, MPI_Datatype origin_type, int rank,       \
             MPI_Aint displacement, MPI_Count count, MPI_Datatype type, MPI_Op op, MPI_Win win,    \
             MPI_Request *request);
#define LARGE_RFETCH(name)                                                                         \
    int name(const void *origin, MPI_Count origin_count, MPI_Datatype origin_type, void *result,   \
             MPI_Count result_count, MPI_Datatype result_type, int rank, MPI_Aint displacement,    \
             MPI_Count count, MPI_Datatype type, MPI_Op op, MPI_Win win, MPI_Request *request);
#define LARGE_ENVELOPE(name)                                                                       \
    int name(MPI_Datatype type, MPI_Count *integers, MPI_Count *addresses, MPI_Count *counts,      \
             MPI_Count *types, int *combiner);
#define LARGE_CONTENTS(name)                                                                       \
    int name(MPI_Datatype type, MPI_Count integers, MPI_Count addresses, MPI_Count counts,         \
             MPI_Count types, int integer[], MPI_Aint address[], MPI_Count count[],                \
             MPI_Datatype inner[]);
#define LARGE_ALL_TO_ALL(name)                                                                     \
    int name(const void *send, MPI_Count send_count, MPI_Datatype send_type, void *receive,        \
             MPI_Count receive_count, MPI_Datatype receive_type, MPI_Comm comm);
#define LARGE_ALLGATHERV(name)                                                                     \
    int name(const void *send, MPI_Count send_count, MPI_Datatype send_type, void *receive,        \
             const MPI_Count counts[], const MPI_Aint places[], MPI_Datatype receive_type,         \
             MPI_Comm comm);
#define LARGE_REDUCTION(name)                                                                      \
    int name(const void *send, void *receive, MPI_Count count, MPI_Datatype type, MPI_Op op,       \
             MPI_Comm comm);
#define LARGE_ALLTOALLV(name)                                                                      \
    int name(const void *send, const MPI_Count send_counts[], const MPI_Aint send_places[],        \
             MPI_Datatype send_type, void *receive, const MPI_Count receive_counts[],              \
             const MPI_Aint receive_places[], MPI_Datatype receive_type, MPI_Comm comm);
#define LARGE_ALLTOALLW(name)                                                                      \
    int name(const void *send, const MPI_Count send_counts[], const MPI_Aint send_places[],        \
             const MPI_Datatype send_types[], void *receive, const MPI_Count receive_counts[],     \
             const MPI_Aint receive_places[], const MPI_Datatype receive_types[], MPI_Comm comm);
#define LARGE_BCAST(name)                                                                          \
    int name(void *buffer, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm);
#define LARGE_ROOTED(name)                                                                         \
    int name(const void *send, MPI_Count send_count, MPI_Datatype send_type, void *receive,        \
             MPI_Count receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm);
#define LARGE_GATHERV(name)                                                                        \
    int name(const void *send, MPI_Count send_count, MPI_Datatype send_type, void *receive,        \
             const MPI_Count counts[], const MPI_Aint places[], MPI_Datatype receive_type,         \
             int root, MPI_Comm comm);
#define LARGE_REDUCE(name)                                                                         \
    int name(const void *send, void *receive, MPI_Count count, MPI_Datatype type, MPI_Op op,       \
             int root, MPI_Comm comm);
#define LARGE_REDUCE_SCATTER(name)                                                                 \
    int name(const void *send, void *receive, const MPI_Count counts[], MPI_Datatype type,         \
             MPI_Op op, MPI_Comm comm);
#define LARGE_SCATTERV(name)                                                                       \
    int name(const void *send, const MPI_Count counts[], const MPI_Aint places[],                  \
             MPI_Datatype send_type, void *receive, MPI_Count receive_count,                       \
             MPI_Datatype receive_type, int root, MPI_Comm comm);
#define LARGE_RECV(name)                                                                           \
    int name(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,               \
             MPI_Comm comm, MPI_Status *status);
#define LARGE_IRECV(name)                                                                          \
    int name(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,               \
             MPI_Comm comm, MPI_Request *request);
#define LARGE_SEND(name)                                                                           \
    int name(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,           \
             MPI_Comm comm);
#define LARGE_ISEND(name)                                                                          \
    int name(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,           \
             MPI_Comm comm, MPI_Request *request);
#define LARGE_SENDRECV(name)                                                                       \
    int name(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest,            \
             int sendtag, void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int source,   \
             int recvtag, MPI_Comm comm, MPI_Status *status);
#define LARGE_BOTH(kind, name) kind(MPI_##name) kind(PMPI_##name)

LARGE_BOTH(LARGE_MAKER, Win_allocate_c)
LARGE_BOTH(LARGE_MAKER, Win_allocate_shared_c)
LARGE_BOTH(LARGE_QUERY, Win_shared_query_c)
LARGE_BOTH(LARGE_PUT, Put_c)
LARGE_BOTH(LARGE_GET, Get_c)
LARGE_BOTH(LARGE_ACCUMULATE, Accumulate_c)
LARGE_BOTH(LARGE_FETCH, Get_accumulate_c)
LARGE_BOTH(LARGE_RPUT, Rput_c)
LARGE_BOTH(LARGE_RGET, Rget_c)
LARGE_BOTH(LARGE_RACCUMULATE, Raccumulate_c)
LARGE_BOTH(LARGE_RFETCH, Rget_accumulate_c)
LARGE_BOTH(LARGE_ENVELOPE, Type_get_envelope_c)
LARGE_BOTH(LARGE_CONTENTS, Type_get_contents_c)
LARGE_BOTH(LARGE_ALL_TO_ALL, Allgather_c)
LARGE_BOTH(LARGE_ALLGATHERV, Allgatherv_c)
LARGE_BOTH(LARGE_REDUCTION, Allreduce_c)
LARGE_BOTH(LARGE_ALL_TO_ALL, Alltoall_c)
LARGE_BOTH(LARGE_ALLTOALLV, Alltoallv_c)
LARGE_BOTH(LARGE_ALLTOALLW, Alltoallw_c)
LARGE_BOTH(LARGE_BCAST, Bcast_c)
LARGE_BOTH(LARGE_REDUCTION, Exscan_c)
LARGE_BOTH(LARGE_ROOTED, Gather_c)
LARGE_BOTH(LARGE_GATHERV, Gatherv_c)
LARGE_BOTH(LARGE_REDUCE, Reduce_c)
LARGE_BOTH(LARGE_REDUCE_SCATTER, Reduce_scatter_c)
LARGE_BOTH(LARGE_REDUCTION, Reduce_scatter_block_c)
LARGE_BOTH(LARGE_REDUCTION, Scan_c)
LARGE_BOTH(LARGE_ROOTED, Scatter_c)
LARGE_BOTH(LARGE_SCATTERV, Scatterv_c)
LARGE_BOTH(LARGE_RECV, Recv_c)
LARGE_BOTH(LARGE_IRECV, Irecv_c)
LARGE_BOTH(LARGE_SEND, Rsend_c)
LARGE_BOTH(LARGE_SEND, Send_c)
LARGE_BOTH(LARGE_SEND, Ssend_c)
LARGE_BOTH(LARGE_ISEND, Irsend_c)
LARGE_BOTH(LARGE_ISEND, Isend_c)
LARGE_BOTH(LARGE_ISEND, Issend_c)
LARGE_BOTH(LARGE_SENDRECV, Sendrecv_c)

#endif

#endif
