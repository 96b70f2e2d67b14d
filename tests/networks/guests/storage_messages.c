/* storage_messages DIRECTORY: large messages from and to windows on storage of one rank each, whose
 * files are there. The first half of the ranks is on another node than the second, and reads the
 * second half's files past the file system's client. */
#include <fcntl.h>
#include <unistd.h>

#include "mpi/guests/mpi_check.h"

enum { SIZE = 4 << 20, ROUNDS = 4 };

static char letter(int from, int round)
{
    return (char)('a' + (from * ROUNDS + round) % 26);
}

/* Bytes of the file from `at` on that the rank did not send in this round. */
static int count_wrong(const char *path, off_t at, int from, int round)
{
    static char bytes[SIZE];
    int wrong = 0, fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && pread(fd, bytes, SIZE, at) == SIZE);
    close(fd);
    for (int i = 0; i < SIZE; i++)
        wrong += bytes[i] != letter(from, round);
    return wrong;
}

int main(int argc, char **argv)
{
    char *base;
    MPI_Win window;
    mpi_begin(&argc, &argv);
    directory = argv[1];
    int partner = (rank + ranks / 2) % ranks;
    MPI_Info info = hints(path_of("messages", rank), NULL);
    OK(MPI_Win_allocate(2 * SIZE, 1, info, MPI_COMM_SELF, &base, &window));
    info_free(info);
    for (int round = 0; round < ROUNDS; round++) {
        memset(base, letter(rank, round), SIZE);
        OK(MPI_Sendrecv(base, SIZE, MPI_CHAR, partner, 0, base + SIZE, SIZE, MPI_CHAR, partner, 0,
                        world, MPI_STATUS_IGNORE));
        CHECK(base[SIZE] == letter(partner, round) && base[2 * SIZE - 1] == base[SIZE]);
        OK(MPI_Win_sync(window));
        MPI_Barrier(world);
        if (rank < ranks / 2) {
            const char *path = path_of("messages", partner);
            CHECK(count_wrong(path, 0, partner, round) == 0);
            CHECK(count_wrong(path, SIZE, rank, round) == 0);
        }
        MPI_Barrier(world);
    }
    OK(MPI_Win_free(&window));
    return mpi_end();
}
