/* src/host/job/descriptors.h: the descriptors that a task inherits, from its shim into its own
 * table.
 *
 * Under Hydra rank k inherits about 2k descriptors, so all of them together are as many as the
 * square of the ranks. The host never has them: the new task receives them itself, from its shim's
 * socket, when it has closed everything else. */
#ifndef ONESPACE_HOST_DESCRIPTORS_H
#define ONESPACE_HOST_DESCRIPTORS_H

#include <stdint.h>
#include <sys/resource.h>

/* From when the shim has begun to send until all has arrived: meanwhile the host serves no other.
 */
enum { DESCRIPTORS_TIMEOUT_MS = 2000 };

struct descriptors {
    unsigned count;
    int *fds;            /* as received, `count` of them */
    int32_t *numbers;    /* what each is to be */
    struct rlimit limit; /* RLIMIT_NOFILE of the task: set last, it may be below a number */
    uint64_t deadline;   /* for receiving them: CLOCK_MONOTONIC, ns */
    const char *failed;  /* what could not be done, or NULL */
};

/* Runs as the new task, whose only descriptor is the shim's socket. Allocates nothing: the task may
 * be killed at any instruction, and the memory is the host's. 0, or -errno with `failed` set. */
int descriptors_assume(struct descriptors *descriptors, int socket);

#endif
