/* polls.h: whether one poll finds a message of rank 0 that was sent before a synchronisation. */
#ifndef ONESPACE_TESTS_MPI_GUESTS_POLLS_H
#define ONESPACE_TESTS_MPI_GUESTS_POLLS_H

#include "mpi/guests/mpi_check.h"

static int messages = 1; /* that rank 0 sends to each other rank */

static inline void send_all(int tag)
{
    for (int to = 1; rank == 0 && to < ranks; to++)
        for (int i = 0; i < messages; i++)
            MPI_Send(&i, 1, MPI_INT, to, tag, world);
}

static inline void receive(int tag)
{
    int got;
    MPI_Recv(&got, 1, MPI_INT, 0, tag, world, MPI_STATUS_IGNORE);
}

/* Each kind of poll receives all messages and returns how many it did not find at once. */
static inline int probe(int tag)
{
    int flag, misses = 0;
    for (int i = 0; i < messages; i++) {
        MPI_Iprobe(0, tag, world, &flag, MPI_STATUS_IGNORE);
        misses += !flag;
        receive(tag);
    }
    return misses;
}

static inline int matched_probe(int tag)
{
    int flag, got, misses = 0;
    MPI_Message message;
    for (int i = 0; i < messages; i++) {
        MPI_Improbe(0, tag, world, &flag, &message, MPI_STATUS_IGNORE);
        misses += !flag;
        if (flag)
            MPI_Mrecv(&got, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
        else
            receive(tag);
    }
    return misses;
}

/* Receives while there is a message: the end of a sparse exchange. */
static inline int probe_until_none(int tag)
{
    int flag = 1, got = 0;
    while (flag) {
        MPI_Iprobe(MPI_ANY_SOURCE, tag, world, &flag, MPI_STATUS_IGNORE);
        if (flag)
            receive(tag);
        got += flag;
    }
    for (int i = got; i < messages; i++)
        receive(tag);
    return messages - got;
}

/* Receives that were posted before the messages were sent. */
enum { MESSAGES_MAX = 64 };
static MPI_Request posted[MESSAGES_MAX];
static int received[MESSAGES_MAX];
static MPI_Status statuses[MESSAGES_MAX];

static inline void post(int tag)
{
    for (int i = 0; rank && i < messages; i++)
        MPI_Irecv(&received[i], 1, MPI_INT, 0, tag, world, &posted[i]);
}

static inline int test_each(int tag)
{
    int flag, misses = 0;
    (void)tag;
    for (int i = 0; i < messages; i++) {
        MPI_Test(&posted[i], &flag, MPI_STATUS_IGNORE);
        misses += !flag;
    }
    MPI_Waitall(messages, posted, statuses);
    return misses;
}

static inline int test_all(int tag)
{
    int flag;
    (void)tag;
    MPI_Testall(messages, posted, &flag, statuses);
    MPI_Waitall(messages, posted, statuses);
    return !flag;
}

static inline int test_some(int tag)
{
    int found, indices[MESSAGES_MAX];
    (void)tag;
    MPI_Testsome(messages, posted, &found, indices, statuses);
    MPI_Waitall(messages, posted, statuses);
    return messages - found;
}

static inline int test_any(int tag)
{
    int flag, index, misses = 0;
    (void)tag;
    for (int i = 0; i < messages; i++) {
        MPI_Testany(messages, posted, &index, &flag, MPI_STATUS_IGNORE);
        misses += !flag;
    }
    MPI_Waitall(messages, posted, statuses);
    return misses;
}

static inline int get_status(int tag)
{
    int flag, misses = 0;
    (void)tag;
    for (int i = messages; i--;) {
        MPI_Request_get_status(posted[i], &flag, MPI_STATUS_IGNORE);
        misses += !flag;
    }
    MPI_Waitall(messages, posted, statuses);
    return misses;
}

#endif
