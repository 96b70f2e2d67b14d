/* ring ROUNDS: reads and writes a file through io_uring with registered buffers, 32 requests at a
 * time. Ends with 77 where io_uring is not permitted. */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH = 32, SIZE = 65536 };

static int submit_all(struct io_uring *ring, int fd, struct iovec *buffers, int write)
{
    for (int i = 0; i < DEPTH; i++) {
        struct io_uring_sqe *entry = io_uring_get_sqe(ring);
        if (write)
            io_uring_prep_write_fixed(entry, fd, buffers[i].iov_base, SIZE, (long)i * SIZE, i);
        else
            io_uring_prep_read_fixed(entry, fd, buffers[i].iov_base, SIZE, (long)i * SIZE, i);
    }
    io_uring_submit(ring);
    for (int i = 0; i < DEPTH; i++) {
        struct io_uring_cqe *done;
        if (io_uring_wait_cqe(ring, &done) != 0 || done->res != SIZE)
            return 1;
        io_uring_cqe_seen(ring, done);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct io_uring ring;
    struct iovec buffers[DEPTH];
    int error = io_uring_queue_init(DEPTH, &ring, 0);
    if (error == -EPERM || error == -ENOSYS)
        return 77;
    FILE *file = tmpfile();
    for (int i = 0; i < DEPTH; i++) {
        buffers[i].iov_len = SIZE;
        if (posix_memalign(&buffers[i].iov_base, 4096, SIZE) != 0)
            return 3;
        memset(buffers[i].iov_base, i, SIZE);
    }
    if (error || !file || io_uring_register_buffers(&ring, buffers, DEPTH) != 0)
        return 2;
    long rounds = argc > 1 ? atol(argv[1]) : 1;
    for (long round = 0; round < rounds; round++) {
        if (submit_all(&ring, fileno(file), buffers, 1) ||
            submit_all(&ring, fileno(file), buffers, 0))
            return 4;
        for (int i = 0; i < DEPTH; i++)
            if (((unsigned char *)buffers[i].iov_base)[round % SIZE] != i)
                return 5;
        if (round == 0) {
            printf("started %d\n", getpid());
            fflush(stdout);
        }
    }
    io_uring_queue_exit(&ring);
    return 0;
}
