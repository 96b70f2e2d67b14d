/* mpi_exchange: each rank exchanges with both neighbours messages of 0 B to 4 MiB, contiguous and
 * strided, blocking and not, from the heap, the stack and static memory; every byte is checked. */
#include "mpi/guests/mpi_check.h"

enum { BYTES_MAX = 4 << 20, EDGE = 64 };

static unsigned char in_static[1 << 16];

static unsigned char expected(int from, int to, int size, int at)
{
    return (unsigned char)(from * 31 + to * 17 + size + at * 7 + (at >> 8));
}

static void check_bytes(const unsigned char *got, int from, int size, const char *what)
{
    for (int i = 0; i < size; i++)
        if (got[i] != expected(from, rank, size, i)) {
            if (wrong++ < 3)
                printf("rank %d: %s of %d bytes from %d: byte %d is wrong\n", rank, what, size,
                       from, i);
            return;
        }
}

static void exchange(unsigned char *out, unsigned char *in, int size, int step, const char *what)
{
    int to = (rank + step + ranks) % ranks, from = (rank - step + ranks) % ranks, count;
    MPI_Status status;
    for (int i = 0; i < size; i++)
        out[i] = expected(rank, to, size, i);
    memset(in, 0xEE, size + EDGE);
    MPI_Sendrecv(out, size, MPI_BYTE, to, size, in, size + EDGE, MPI_BYTE, from, size, world,
                 &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    check_bytes(in, from, size, what);
    for (int i = 0; i < EDGE; i++)
        wrong += in[size + i] != 0xEE;
    wrong += count != size || status.MPI_SOURCE != from;
}

/* Every third of 64-bit words. */
static void exchange_strided(int words)
{
    long *out = malloc(words * 24), *in = malloc(words * 24);
    MPI_Datatype vector;
    MPI_Type_vector(words, 1, 3, MPI_LONG, &vector);
    MPI_Type_commit(&vector);
    for (int i = 0; i < words * 3; i++)
        out[i] = rank * 1000000L + i, in[i] = -1;
    MPI_Sendrecv(out, 1, vector, next_rank, 1, in, 1, vector, previous_rank, 1, world,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < words * 3 - 2; i++)
        wrong += in[i] != (i % 3 ? -1 : previous_rank * 1000000L + i);
    /* packed on one side, strided on the other */
    MPI_Sendrecv(out, 1, vector, next_rank, 2, in, words, MPI_LONG, previous_rank, 2, world,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < words; i++)
        wrong += in[i] != previous_rank * 1000000L + i * 3;
    MPI_Type_free(&vector);
    free(out);
    free(in);
}

static void exchange_struct(void)
{
    struct record {
        char name[5];
        double value;
        int number;
    } out[1000], in[1000];
    int lengths[3] = {5, 1, 1};
    MPI_Aint places[3] = {0, (char *)&out[0].value - (char *)out,
                          (char *)&out[0].number - (char *)out};
    MPI_Datatype kinds[3] = {MPI_CHAR, MPI_DOUBLE, MPI_INT}, plain, record;
    MPI_Type_create_struct(3, lengths, places, kinds, &plain);
    MPI_Type_create_resized(plain, 0, sizeof(struct record), &record);
    MPI_Type_commit(&record);
    for (int i = 0; i < 1000; i++) {
        memcpy(out[i].name, "ab", 3);
        out[i].value = rank + i / 8.0;
        out[i].number = rank * i;
    }
    MPI_Sendrecv(out, 1000, record, next_rank, 3, in, 1000, record, previous_rank, 3, world,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < 1000; i++)
        wrong += in[i].value != previous_rank + i / 8.0 || in[i].number != previous_rank * i ||
                 strcmp(in[i].name, "ab") != 0;
    MPI_Type_free(&record);
    MPI_Type_free(&plain);
}

/* Many messages in flight, received in another order. */
static void exchange_at_once(unsigned char *out, unsigned char *in)
{
    enum { COUNT = 16, SIZE = 100000 };
    MPI_Request requests[2 * COUNT];
    for (int i = 0; i < COUNT * SIZE; i++)
        out[i] = expected(rank, next_rank, SIZE, i % SIZE);
    for (int i = 0; i < COUNT; i++) {
        MPI_Irecv(in + i * SIZE, SIZE, MPI_BYTE, previous_rank, COUNT - 1 - i, world, &requests[i]);
        MPI_Isend(out + i * SIZE, SIZE, MPI_BYTE, next_rank, i, world, &requests[COUNT + i]);
    }
    MPI_Waitall(2 * COUNT, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < COUNT; i++)
        check_bytes(in + i * SIZE, previous_rank, SIZE, "Isend");
}

int main(int argc, char **argv)
{
    static const int sizes[] = {0,        1,     7,      8,      63,      64,      65,
                                1000,     4095,  4096,   8191,   8192,    8193,    16384,
                                65535,    65536, 131071, 262144, 1000003, 1048576, BYTES_MAX - 1,
                                BYTES_MAX};
    mpi_begin(&argc, &argv);
    unsigned char *out = malloc(BYTES_MAX + EDGE), *in = malloc(BYTES_MAX + EDGE),
                  in_stack[8192 + EDGE];
    for (int round = 0; round < 2; round++)
        for (unsigned i = 0; i < COUNT_OF(sizes); i++)
            for (int step = -1; step <= 1; step += 2)
                exchange(out, in, sizes[i], step, "Sendrecv");
    exchange(out + 3, in_static + 5, 50001, 1, "Sendrecv to static memory");
    exchange(in_static + 1, in_stack, 8191, 1, "Sendrecv to the stack");
    exchange_strided(10);
    exchange_strided(100000);
    exchange_struct();
    exchange_at_once(out, in);
    return mpi_end();
}
