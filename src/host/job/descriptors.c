/* src/host/job/descriptors.c: see descriptors.h. */
#include "host/job/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

#include "host/protocol.h"

static int fail(struct descriptors *descriptors, const char *what, int error)
{
    descriptors->failed = what;
    return error;
}

/* The descriptor that waits at that number to be put where it belongs, among those from index
 * `from` on: its index, or `count`. */
static unsigned waiting_at(const struct descriptors *descriptors, unsigned from, int number)
{
    while (from < descriptors->count && descriptors->fds[from] != number)
        from++;
    return from;
}

/* Moves rather than copies, so that one free number is enough: a program may have as many
 * descriptors as its limit allows. */
static int put(struct descriptors *descriptors, unsigned index)
{
    int *fds = descriptors->fds, number = descriptors->numbers[index];
    if (fds[index] == number)
        return fcntl(number, F_SETFD, 0) < 0 ? -errno : 0; /* it was received close-on-exec */
    unsigned other = waiting_at(descriptors, index + 1, number);
    if (other < descriptors->count) {
        int aside = fcntl(number, F_DUPFD_CLOEXEC, 0);
        if (aside < 0)
            return -errno;
        fds[other] = aside;
    }
    if (dup3(fds[index], number, 0) < 0)
        return -errno;
    close(fds[index]);
    return 0;
}

int descriptors_assume(struct descriptors *descriptors, int socket)
{
    int result = protocol_receive_fds(socket, descriptors->fds, descriptors->numbers,
                                      descriptors->count, descriptors->deadline);
    if (result < 0)
        return fail(descriptors, "receive its descriptors", result);
    close(socket); /* its number may be one of those that are to be */
    for (unsigned i = 0; i < descriptors->count; i++)
        if ((result = put(descriptors, i)) < 0)
            return fail(descriptors, "set its descriptors", result);
    if (setrlimit(RLIMIT_NOFILE, &descriptors->limit) != 0)
        return fail(descriptors, "set its limits", -errno);
    return 0;
}
