/* src/mpi/wrap/waits.c: wraps MPI's point-to-point calls that wait. Where tasks outnumber CPUs, a
 * rank that waits gives its CPU away. With --progress it makes progress for ranks that compute
 * (group/progress_thread.c).
 *
 * MPI libraries wait by polling in a loop. A rank that polls without success keeps its CPU from the
 * ranks that it waits for, until the end of its time slice. Here each call is made of the one that
 * returns at once and of tests, between which the rank yields its CPU or sleeps. Each test makes as
 * much progress in the library as a step of the library's own loop.
 *
 * The agent's jumps lead here only with --progress, or if CPUs were oversubscribed at a function's
 * first call. The host may find later that they no longer are: then the library waits by itself. */
#include <limits.h>
#include <stdlib.h>

#include "mpi/lifetime/lifetime.h"
#include "mpi/wrap/wrap.h"

/* Whether this call must wait by tests. Where ranks share CPUs, Open MPI yields by itself
 * (OMPI_MCA_mpi_yield_when_idle; src/launch/mpi_defaults.c sets it, too), and faster: each of its
 * polls would yield twice. */
static int waits_by_tests(void)
{
    if (task_shares_cpu())
        return !pmpi_is_open_mpi();
    finalize_hook_install(); /* starts the progress thread */
    return progress_thread_is_on();
}

/* ---- Waiting by tests ---- */

struct pause {
    struct backoff backoff;
    uint64_t asked; /* of progress_help_others */
};

static void pause_between_tests(struct pause *pause)
{
    if (task_shares_cpu())
        backoff_wait(&pause->backoff);
    else
        progress_help_others(&pause->asked);
}

/* Repeats a test until it fails or sets `done`. */
#define UNTIL(done, test)                                                                          \
    __extension__({                                                                                \
        int result_ = (test);                                                                      \
        struct pause pause_ = {0};                                                                 \
        while (result_ == MPI_SUCCESS && !(done)) {                                                \
            pause_between_tests(&pause_);                                                          \
            result_ = (test);                                                                      \
        }                                                                                          \
        result_;                                                                                   \
    })

static int wait_for(MPI_Request *request, MPI_Status *status)
{
    int done = 0;
    return UNTIL(done, pmpi()->Test(request, &done, status));
}

WRAP(Wait)
int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    return waits_by_tests() ? wait_for(request, status) : pmpi()->Wait(request, status);
}

WRAP(Waitall)
int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    int done = 0;
    return waits_by_tests() ? UNTIL(done, pmpi()->Testall(count, requests, &done, statuses))
                            : pmpi()->Waitall(count, requests, statuses);
}

WRAP(Waitany)
int MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    int done = 0;
    return waits_by_tests() ? UNTIL(done, pmpi()->Testany(count, requests, index, &done, status))
                            : pmpi()->Waitany(count, requests, index, status);
}

/* Testsome says MPI_UNDEFINED if no request is active. */
WRAP(Waitsome)
int MPI_Waitsome(int count, MPI_Request requests[], int *completed, int indices[],
                 MPI_Status statuses[])
{
    return waits_by_tests()
               ? UNTIL(*completed, pmpi()->Testsome(count, requests, completed, indices, statuses))
               : pmpi()->Waitsome(count, requests, completed, indices, statuses);
}

WRAP(Probe)
int MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    int done = 0;
    return waits_by_tests() ? UNTIL(done, pmpi()->Iprobe(source, tag, comm, &done, status))
                            : pmpi()->Probe(source, tag, comm, status);
}

WRAP(Mprobe)
int MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
    int done = 0;
    return waits_by_tests()
               ? UNTIL(done, pmpi()->Improbe(source, tag, comm, &done, message, status))
               : pmpi()->Mprobe(source, tag, comm, message, status);
}

/* ---- Sends and receives, with int and with large counts ----
 *
 * A library without functions for large counts gets those that fit as int. */

static int fail_count(MPI_Comm comm)
{
    pmpi()->Comm_call_errhandler(comm, MPI_ERR_COUNT);
    return MPI_ERR_COUNT;
}

#define FITS(count) ((count) >= INT_MIN && (count) <= INT_MAX)

/* Passes the call to the library's function with large counts, if the count is one and the library
 * has it, or else to that with int. */
#define PASS(function, is_large, count, before, ...)                                               \
    (is_large && pmpi()->function##_c ? pmpi()->function##_c(before, count, __VA_ARGS__)           \
     : !is_large || FITS(count)       ? pmpi()->function(before, (int)(count), __VA_ARGS__)        \
                                      : fail_count(comm))

/* A receive from MPI_PROC_NULL does not wait; MPICH 4.0 gives its request the status of none. */
static int receive(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                   MPI_Comm comm, MPI_Status *status, int is_large)
{
    MPI_Request request;
    if (!waits_by_tests() || source == MPI_PROC_NULL)
        return PASS(Recv, is_large, count, buf, datatype, source, tag, comm, status);
    int result = PASS(Irecv, is_large, count, buf, datatype, source, tag, comm, &request);
    return result == MPI_SUCCESS ? wait_for(&request, status) : result;
}

WRAP(Recv)
int MPI_Recv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
             MPI_Status *status)
{
    return receive(buf, count, datatype, source, tag, comm, status, 0);
}

WRAP(Recv_c)
int MPI_Recv_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
               MPI_Comm comm, MPI_Status *status)
{
    return receive(buf, count, datatype, source, tag, comm, status, 1);
}

/* MPI_NAME and MPI_NAME_c, of which MPI_START is the call that returns at once. */
#define SEND(name, start)                                                                          \
    static int name(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,    \
                    MPI_Comm comm, int is_large)                                                   \
    {                                                                                              \
        MPI_Request request;                                                                       \
        if (!waits_by_tests())                                                                     \
            return PASS(name, is_large, count, buf, datatype, dest, tag, comm);                    \
        int result = PASS(start, is_large, count, buf, datatype, dest, tag, comm, &request);       \
        return result == MPI_SUCCESS ? wait_for(&request, MPI_STATUS_IGNORE) : result;             \
    }                                                                                              \
    WRAP(name)                                                                                     \
    int MPI_##name(const void *buf, int count, MPI_Datatype datatype, int dest, int tag,           \
                   MPI_Comm comm)                                                                  \
    {                                                                                              \
        return name(buf, count, datatype, dest, tag, comm, 0);                                     \
    }                                                                                              \
    WRAP(name##_c)                                                                                 \
    int MPI_##name##_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, \
                       MPI_Comm comm)                                                              \
    {                                                                                              \
        return name(buf, count, datatype, dest, tag, comm, 1);                                     \
    }

SEND(Send, Isend)
SEND(Ssend, Issend)
SEND(Rsend, Irsend)

/* The send could not start: takes the receive back, so that the buffer is the program's again. */
static int cancel(MPI_Request *receiving, int error)
{
    pmpi()->Cancel(receiving);
    (void)wait_for(receiving, MPI_STATUS_IGNORE);
    return error;
}

static int finish_both(MPI_Request *receiving, MPI_Request *sending, MPI_Status *status)
{
    int received = wait_for(receiving, status), sent = wait_for(sending, MPI_STATUS_IGNORE);
    return received == MPI_SUCCESS ? sent : received;
}

static int send_and_receive(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                            int dest, int sendtag, void *recvbuf, MPI_Count recvcount,
                            MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
                            MPI_Status *status, int is_large)
{
    MPI_Request receiving, sending;
    if (source == MPI_PROC_NULL) {
        int sent = Send(sendbuf, sendcount, sendtype, dest, sendtag, comm, is_large);
        return sent == MPI_SUCCESS
                   ? receive(recvbuf, recvcount, recvtype, source, recvtag, comm, status, is_large)
                   : sent;
    }
    int result =
        PASS(Irecv, is_large, recvcount, recvbuf, recvtype, source, recvtag, comm, &receiving);
    if (result != MPI_SUCCESS)
        return result;
    result = PASS(Isend, is_large, sendcount, sendbuf, sendtype, dest, sendtag, comm, &sending);
    return result == MPI_SUCCESS ? finish_both(&receiving, &sending, status)
                                 : cancel(&receiving, result);
}

WRAP(Sendrecv)
int MPI_Sendrecv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                 void *recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag,
                 MPI_Comm comm, MPI_Status *status)
{
    return waits_by_tests()
               ? send_and_receive(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount,
                                  recvtype, source, recvtag, comm, status, 0)
               : pmpi()->Sendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount,
                                  recvtype, source, recvtag, comm, status);
}

WRAP(Sendrecv_c)
int MPI_Sendrecv_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest,
                   int sendtag, void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                   int source, int recvtag, MPI_Comm comm, MPI_Status *status)
{
    return !waits_by_tests() && pmpi()->Sendrecv_c
               ? pmpi()->Sendrecv_c(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount,
                                    recvtype, source, recvtag, comm, status)
               : send_and_receive(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount,
                                  recvtype, source, recvtag, comm, status, 1);
}

/* Whether a copy of the message is small enough for MPI_Pack, which counts with int. */
static int can_be_packed(int count, MPI_Datatype datatype, MPI_Comm comm, int *size)
{
    enum { MAX = 1 << 28 };
    MPI_Count each = 0;
    return pmpi()->Type_size_x(datatype, &each) == MPI_SUCCESS && each <= MAX && count >= 0 &&
           each * count <= MAX && pmpi()->Pack_size(count, datatype, comm, size) == MPI_SUCCESS;
}

/* The message leaves from a copy. */
WRAP(Sendrecv_replace)
int MPI_Sendrecv_replace(void *buf, int count, MPI_Datatype datatype, int dest, int sendtag,
                         int source, int recvtag, MPI_Comm comm, MPI_Status *status)
{
    int size = 0, packed = 0;
    void *copy = waits_by_tests() && can_be_packed(count, datatype, comm, &size)
                     ? malloc((size_t)size + 1)
                     : NULL;
    if (!copy)
        return pmpi()->Sendrecv_replace(buf, count, datatype, dest, sendtag, source, recvtag, comm,
                                        status);
    int result = pmpi()->Pack(buf, count, datatype, copy, size, &packed, comm);
    if (result == MPI_SUCCESS)
        result = send_and_receive(copy, packed, MPI_PACKED, dest, sendtag, buf, count, datatype,
                                  source, recvtag, comm, status, 0);
    free(copy);
    return result;
}

/* ---- The end ---- */

/* MPICH takes no locks any more when it deletes the attributes of MPI_COMM_SELF. */
WRAP(Finalize)
int MPI_Finalize(void)
{
    progress_thread_stop();
    return pmpi()->Finalize();
}
