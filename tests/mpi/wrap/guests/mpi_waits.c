/* mpi_waits CASE...: the calls of MPI that wait for a message. Rank 0's message comes late, so each
 * other rank waits. `yields` and `sleeps` say how often the rank has called sched_yield and
 * nanosleep meanwhile. */
#define _GNU_SOURCE
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "mpi/guests/mpi_check.h"

enum { TAG = 7, VALUES = 1000, LATE_MS = 20 };

static _Atomic int yields;

/* In front of libc's. */
int sched_yield(void)
{
    yields++;
    return (int)syscall(SYS_sched_yield);
}

static _Atomic int sleeps;

/* In front of libc's. */
int nanosleep(const struct timespec *time, struct timespec *rest)
{
    sleeps++;
    return (int)syscall(SYS_nanosleep, time, rest);
}

/* Rank 0 is late, without a call of MPI. */
static void be_late(void)
{
    const struct timespec late = {0, LATE_MS * 1000000};
    MPI_Barrier(world);
    yields = sleeps = 0;
    if (rank == 0)
        nanosleep(&late, NULL);
}

/* The values that a rank sends in a step, and what it receives. */
static int sent[VALUES], received[VALUES];

static void fill(int step)
{
    for (int i = 0; i < VALUES; i++) {
        sent[i] = rank * 1000000 + step * 1000 + i;
        received[i] = -1;
    }
}

static void expect_from(int source, int step, int count)
{
    int same = 1;
    for (int i = 0; i < count; i++)
        same &= received[i] == source * 1000000 + step * 1000 + i;
    CHECK(same);
    CHECK(count == VALUES || received[count] == -1);
}

static void expect_status(const MPI_Status *status, int source, int tag, int count)
{
    int found = -1;
    CHECK(status->MPI_SOURCE == source && status->MPI_TAG == tag);
    CHECK(MPI_Get_count((MPI_Status *)status, MPI_INT, &found) == MPI_SUCCESS && found == count);
}

/* A call that is passed a status sets its error field only if it returns MPI_ERR_IN_STATUS. */
static MPI_Status new_status(void)
{
    MPI_Status status;
    memset(&status, 0, sizeof(status));
    status.MPI_ERROR = 12345;
    return status;
}

typedef int send_function(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int receive_function(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *);

/* Every rank sends to the next one; rank 0 first, so that the others wait. */
static void send_around(send_function *send, receive_function *receive, int step)
{
    MPI_Status status = new_status();
    fill(step);
    be_late();
    if (rank == 0)
        OK(send(sent, VALUES, MPI_INT, next_rank, TAG, world));
    OK(receive(received, VALUES, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &status));
    if (rank != 0)
        OK(send(sent, VALUES, MPI_INT, next_rank, TAG, world));
    expect_from(previous_rank, step, VALUES);
    expect_status(&status, previous_rank, TAG, VALUES);
    CHECK(status.MPI_ERROR == 12345);
}

CASE(sends)
{
    send_around(MPI_Send, MPI_Recv, 1);
    send_around(MPI_Ssend, MPI_Recv, 2);
}

CASE(ready_send)
{
    MPI_Request request;
    fill(3);
    OK(MPI_Irecv(received, VALUES, MPI_INT, previous_rank, TAG, world, &request));
    be_late();
    OK(MPI_Rsend(sent, VALUES, MPI_INT, next_rank, TAG, world));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(request == MPI_REQUEST_NULL);
    expect_from(previous_rank, 3, VALUES);
}

CASE(sendrecv)
{
    MPI_Status status = new_status();
    fill(4);
    be_late();
    OK(MPI_Sendrecv(sent, VALUES, MPI_INT, next_rank, TAG, received, VALUES, MPI_INT, previous_rank,
                    TAG, world, &status));
    expect_from(previous_rank, 4, VALUES);
    expect_status(&status, previous_rank, TAG, VALUES);
    CHECK(status.MPI_ERROR == 12345);
    OK(MPI_Sendrecv(sent, 1, MPI_INT, MPI_PROC_NULL, TAG, received, 1, MPI_INT, MPI_PROC_NULL, TAG,
                    world, &status));
    expect_status(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    OK(MPI_Recv(received, 1, MPI_INT, MPI_PROC_NULL, TAG, world, &status));
    expect_status(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
}

/* Every other value is exchanged, and the ones between stay. */
CASE(sendrecv_replace)
{
    MPI_Status status = new_status();
    MPI_Datatype every_other;
    fill(5);
    MPI_Type_vector(VALUES / 2, 1, 2, MPI_INT, &every_other);
    MPI_Type_commit(&every_other);
    be_late();
    OK(MPI_Sendrecv_replace(sent, 1, every_other, next_rank, TAG, previous_rank, TAG, world,
                            &status));
    for (int i = 0; i < VALUES; i++)
        CHECK(sent[i] == (i % 2 ? rank : previous_rank) * 1000000 + 5 * 1000 + i);
    expect_status(&status, previous_rank, TAG, VALUES / 2);
    MPI_Type_free(&every_other);
}

/* Longer than what a library sends at once. */
CASE(large)
{
    enum { COUNT = 1 << 20 };
    int *out = malloc(COUNT * sizeof(int)), *in = malloc(COUNT * sizeof(int)), same = 1;
    for (int i = 0; i < COUNT; i++)
        out[i] = rank + i;
    be_late();
    OK(MPI_Sendrecv(out, COUNT, MPI_INT, next_rank, TAG, in, COUNT, MPI_INT, previous_rank, TAG,
                    world, MPI_STATUS_IGNORE));
    for (int i = 0; i < COUNT; i++)
        same &= in[i] == previous_rank + i;
    CHECK(same);
    free(out);
    free(in);
}

CASE(waits)
{
    enum { PIECES = 4, EACH = VALUES / PIECES };
    for (int kind = 0; kind < 3; kind++) {
        MPI_Request requests[2 * PIECES];
        MPI_Status statuses[2 * PIECES];
        int indices[2 * PIECES], done = 0, count;
        fill(6 + kind);
        for (int i = 0; i < PIECES; i++)
            OK(MPI_Irecv(received + i * EACH, EACH, MPI_INT, previous_rank, i, world,
                         &requests[i]));
        be_late();
        for (int i = 0; i < PIECES; i++)
            OK(MPI_Isend(sent + i * EACH, EACH, MPI_INT, next_rank, i, world,
                         &requests[PIECES + i]));
        if (kind == 0) {
            OK(MPI_Waitall(2 * PIECES, requests, statuses));
            for (int i = 0; i < PIECES; i++)
                expect_status(&statuses[i], previous_rank, i, EACH);
        }
        while (kind == 1 && done < 2 * PIECES) {
            int index = -1;
            OK(MPI_Waitany(2 * PIECES, requests, &index, &statuses[0]));
            CHECK(index >= 0 && index < 2 * PIECES && requests[index] == MPI_REQUEST_NULL);
            if (index >= 0 && index < PIECES)
                expect_status(&statuses[0], previous_rank, index, EACH);
            done++;
        }
        while (kind == 2 && done < 2 * PIECES) {
            OK(MPI_Waitsome(2 * PIECES, requests, &count, indices, statuses));
            CHECK(count > 0 && count <= 2 * PIECES - done);
            for (int i = 0; i < count; i++)
                if (indices[i] < PIECES)
                    expect_status(&statuses[i], previous_rank, indices[i], EACH);
            done += count;
        }
        expect_from(previous_rank, 6 + kind, VALUES);
    }
}

CASE(no_request)
{
    MPI_Request none[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}, persistent;
    int index = 0, count = 0, indices[2];
    MPI_Status status = new_status(), statuses[2];
    OK(MPI_Wait(&none[0], &status));
    CHECK(status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG);
    OK(MPI_Waitall(2, none, statuses));
    OK(MPI_Waitall(0, none, statuses));
    OK(MPI_Waitany(2, none, &index, MPI_STATUS_IGNORE));
    CHECK(index == MPI_UNDEFINED);
    OK(MPI_Waitsome(2, none, &count, indices, statuses));
    CHECK(count == MPI_UNDEFINED);
    OK(MPI_Recv_init(received, 1, MPI_INT, previous_rank, TAG, world, &persistent));
    OK(MPI_Wait(&persistent, MPI_STATUS_IGNORE)); /* it is inactive */
    be_late();
    OK(MPI_Start(&persistent));
    OK(MPI_Send(sent, 1, MPI_INT, next_rank, TAG, world));
    OK(MPI_Wait(&persistent, MPI_STATUS_IGNORE));
    CHECK(persistent != MPI_REQUEST_NULL);
    OK(MPI_Request_free(&persistent));
}

CASE(probes)
{
    for (int kind = 0; kind < 2; kind++) {
        MPI_Status status = new_status();
        MPI_Message message;
        fill(10 + kind);
        be_late();
        if (rank == 0)
            OK(MPI_Send(sent, VALUES / 2, MPI_INT, next_rank, TAG, world));
        if (kind == 0) {
            OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, world, &status));
            expect_status(&status, previous_rank, TAG, VALUES / 2);
            OK(MPI_Recv(received, VALUES, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, world,
                        MPI_STATUS_IGNORE));
        } else {
            OK(MPI_Mprobe(previous_rank, TAG, world, &message, &status));
            expect_status(&status, previous_rank, TAG, VALUES / 2);
            OK(MPI_Mrecv(received, VALUES, MPI_INT, &message, MPI_STATUS_IGNORE));
        }
        if (rank != 0)
            OK(MPI_Send(sent, VALUES / 2, MPI_INT, next_rank, TAG, world));
        expect_from(previous_rank, 10 + kind, VALUES / 2);
    }
}

CASE(no_partner)
{
    MPI_Status status = new_status();
    MPI_Message message = MPI_MESSAGE_NULL;
    OK(MPI_Probe(MPI_PROC_NULL, TAG, world, &status));
    expect_status(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    OK(MPI_Mprobe(MPI_PROC_NULL, TAG, world, &message, &status));
    CHECK(message == MPI_MESSAGE_NO_PROC);
    expect_status(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    OK(MPI_Send(sent, 1, MPI_INT, MPI_PROC_NULL, TAG, world));
    OK(MPI_Sendrecv_replace(sent, 1, MPI_INT, MPI_PROC_NULL, TAG, MPI_PROC_NULL, TAG, world,
                            &status));
    expect_status(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    fill(20); /* a line of ranks */
    be_late();
    OK(MPI_Sendrecv(sent, VALUES, MPI_INT, rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL, TAG,
                    received, VALUES, MPI_INT, rank ? rank - 1 : MPI_PROC_NULL, TAG, world,
                    &status));
    expect_status(&status, rank ? rank - 1 : MPI_PROC_NULL, rank ? TAG : MPI_ANY_TAG,
                  rank ? VALUES : 0);
    if (rank)
        expect_from(rank - 1, 20, VALUES);
}

CASE(errors)
{
    MPI_Status status = new_status(), statuses[2];
    MPI_Request requests[2];
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Recv(received, -1, MPI_INT, 0, TAG, world, &status)) == MPI_ERR_COUNT);
    CHECK(class_of(MPI_Send(sent, 1, MPI_INT, ranks, TAG, world)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Ssend(sent, 1, MPI_INT, 0, -5, world)) == MPI_ERR_TAG);
    CHECK(class_of(MPI_Probe(ranks, TAG, world, &status)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Sendrecv(sent, 1, MPI_INT, ranks, TAG, received, 1, MPI_INT, previous_rank,
                                TAG, world, &status)) == MPI_ERR_RANK);
    fill(12);
    be_late();
    OK(MPI_Sendrecv(sent, 2, MPI_INT, next_rank, TAG, received, 2, MPI_INT, previous_rank, TAG,
                    world, &status)); /* the message that the failed call would have received */
    expect_from(previous_rank, 12, 2);
    OK(MPI_Send(sent, 2, MPI_INT, next_rank, TAG, world));
    be_late();
    CHECK(class_of(MPI_Recv(received, 1, MPI_INT, previous_rank, TAG, world, &status)) ==
          MPI_ERR_TRUNCATE);
    OK(MPI_Irecv(received, 1, MPI_INT, previous_rank, 1, world, &requests[0]));
    OK(MPI_Irecv(received + 1, 1, MPI_INT, previous_rank, 2, world, &requests[1]));
    be_late();
    OK(MPI_Send(sent, 2, MPI_INT, next_rank, 1, world));
    OK(MPI_Send(sent, 1, MPI_INT, next_rank, 2, world));
    CHECK(class_of(MPI_Waitall(2, requests, statuses)) == MPI_ERR_IN_STATUS);
    CHECK(class_of(statuses[0].MPI_ERROR) == MPI_ERR_TRUNCATE);
    MPI_Barrier(world);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_ARE_FATAL);
}

#if MPI_VERSION >= 4
static int send_large(const void *buf, int count, MPI_Datatype datatype, int dest, int tag,
                      MPI_Comm comm)
{
    return MPI_Send_c(buf, count, datatype, dest, tag, comm);
}

static int ssend_large(const void *buf, int count, MPI_Datatype datatype, int dest, int tag,
                       MPI_Comm comm)
{
    return MPI_Ssend_c(buf, count, datatype, dest, tag, comm);
}

static int recv_large(void *buf, int count, MPI_Datatype datatype, int source, int tag,
                      MPI_Comm comm, MPI_Status *status)
{
    return MPI_Recv_c(buf, count, datatype, source, tag, comm, status);
}

CASE(large_counts)
{
    MPI_Status status = new_status();
    send_around(send_large, recv_large, 13);
    send_around(ssend_large, recv_large, 15);
    fill(14);
    be_late();
    OK(MPI_Sendrecv_c(sent, VALUES, MPI_INT, next_rank, TAG, received, VALUES, MPI_INT,
                      previous_rank, TAG, world, &status));
    expect_from(previous_rank, 14, VALUES);
}
#else
CASE(large_counts)
{
}
#endif

/* The last rank prints whether it has yielded while it waited in MPI_Recv. */
CASE(yield)
{
    be_late();
    if (rank == 0)
        OK(MPI_Send(sent, 1, MPI_INT, ranks - 1, TAG, world));
    if (rank == ranks - 1) {
        OK(MPI_Recv(received, 1, MPI_INT, 0, TAG, world, MPI_STATUS_IGNORE));
        printf("the last rank %s\n", yields ? "yields" : "does not yield");
    }
}

/* Pairs of ranks. Rank 1 prints whether it has slept while it waited for rank 0. */
CASE(pairs)
{
    enum { SET_UP = 40 }; /* operations after which the layer runs them */
    const struct timespec later = {0, 9 * LATE_MS * 1000000};
    MPI_Comm pair;
    OK(MPI_Comm_split(world, rank / 2, rank, &pair));
    for (int i = 0; i < SET_UP; i++)
        OK(MPI_Barrier(pair));
    be_late();
    if (rank == 0)
        nanosleep(&later, NULL);
    OK(MPI_Barrier(pair));
    if (rank == 1)
        printf("rank 1 %s\n", sleeps ? "sleeps" : "does not sleep");
    OK(MPI_Comm_free(&pair));
}

int main(int argc, char **argv)
{
    mpi_begin(&argc, &argv);
    run_cases(argv + 1);
    return mpi_end();
}
