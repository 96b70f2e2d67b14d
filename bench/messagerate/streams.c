/* bench/messagerate/streams.c: the limit of a message rate between two nodes: TCP streams.
 *
 * usage: streams PAIRS BYTES MILLISECONDS ADDRESS    on one node, ADDRESS being the other's
 *        streams PAIRS BYTES MILLISECONDS -          on the other
 *
 * The minimum work of a window of messages: one system call sends it, its bytes go through the
 * network, and one byte comes back. Each pair is two threads with a connection. The first node
 * prints "rate PAIRS SECONDS", the time per message over all pairs. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>

#include "../lib/bench.h"

enum { WINDOW = 64, PAIRS_MAX = 256, PORT = 4711, TRIES = 6000, TRY_MS = 10 };

static int pair_count, bytes;
static double seconds;

struct stream {
    pthread_t thread;
    int socket;
    double rate;
};

static void move_all(ssize_t (*move)(int, char *, size_t), int fd, char *buffer, size_t size)
{
    while (size > 0) {
        ssize_t moved = move(fd, buffer, size);
        if (moved <= 0)
            bench_fail("the connection", strerror(errno));
        buffer += moved;
        size -= (size_t)moved;
    }
}

static ssize_t receive_some(int fd, char *buffer, size_t size)
{
    return recv(fd, buffer, size, 0);
}

static ssize_t send_some(int fd, char *buffer, size_t size)
{
    return send(fd, buffer, size, MSG_NOSIGNAL);
}

static void *send_windows(void *argument)
{
    struct stream *stream = argument;
    size_t size = (size_t)bytes * WINDOW;
    char *buffer = calloc(1, size), answer;
    long windows = 0;
    double start = seconds_now(), now = start;
    for (; buffer && now - start < seconds; windows++, now = seconds_now()) {
        move_all(send_some, stream->socket, buffer, size);
        move_all(receive_some, stream->socket, &answer, 1);
    }
    stream->rate = (double)windows * WINDOW / (now - start);
    free(buffer);
    shutdown(stream->socket, SHUT_WR);
    return NULL;
}

static void *receive_windows(void *argument)
{
    struct stream *stream = argument;
    size_t size = (size_t)bytes * WINDOW;
    char *buffer = malloc(size);
    ssize_t first;
    while (buffer && (first = receive_some(stream->socket, buffer, size)) > 0) {
        move_all(receive_some, stream->socket, buffer, size - (size_t)first);
        move_all(send_some, stream->socket, buffer, 1);
    }
    free(buffer);
    return NULL;
}

static int connect_to(const struct sockaddr_in *address)
{
    const struct timespec pause = {0, TRY_MS * 1000000};
    for (int i = 0; i < TRIES; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0)
            return fd;
        close(fd);
        nanosleep(&pause, NULL);
    }
    bench_fail("connect", strerror(errno));
}

static int listen_at(const struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(fd, (const struct sockaddr *)address, sizeof(*address)) != 0 ||
        listen(fd, PAIRS_MAX) != 0)
        bench_fail("listen", strerror(errno));
    return fd;
}

int main(int argc, char **argv)
{
    static struct stream streams[PAIRS_MAX];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    int is_sender = argc == 5 && strcmp(argv[4], "-") != 0, yes = 1, listener = -1;
    pair_count = argc == 5 ? atoi(argv[1]) : 0;
    bytes = argc == 5 ? atoi(argv[2]) : 0;
    seconds = argc == 5 ? atof(argv[3]) / 1000 : 0;
    if (pair_count < 1 || pair_count > PAIRS_MAX || bytes < 1 || seconds <= 0 ||
        (is_sender && inet_pton(AF_INET, argv[4], &address.sin_addr) != 1)) {
        fprintf(stderr, "usage: streams PAIRS BYTES MILLISECONDS ADDRESS|-\n");
        return 2;
    }
    if (!is_sender)
        listener = listen_at(&address);
    for (int i = 0; i < pair_count; i++) {
        streams[i].socket = is_sender ? connect_to(&address) : accept(listener, NULL, NULL);
        setsockopt(streams[i].socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    }
    for (int i = 0; i < pair_count; i++)
        if (pthread_create(&streams[i].thread, NULL, is_sender ? send_windows : receive_windows,
                           &streams[i]) != 0)
            bench_fail("cannot start a thread", NULL);
    double rate = 0;
    for (int i = 0; i < pair_count; i++) {
        pthread_join(streams[i].thread, NULL);
        rate += streams[i].rate;
    }
    if (is_sender)
        bench_print("rate", pair_count, 1 / rate);
    return 0;
}
