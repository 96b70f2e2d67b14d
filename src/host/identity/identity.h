/* src/host/identity/identity.h: privileges, scheduling and surroundings of a shim, which its task
 * must not exceed.
 *
 * A task is a child of the host's reaper. What can be set for one process follows the shim; a shim
 * that differs from the host in anything else is refused (docs/launchers-reference.md has the
 * table). The host reads both from the kernel: a process of the same user might send a request of
 * its own making. Only what the kernel shows to no other process is taken from the request
 * (docs/trust.md lists it). A shim compares as well, before it sends anything: a confined process
 * of the same user might listen in place of a host. */
#ifndef ONESPACE_HOST_IDENTITY_H
#define ONESPACE_HOST_IDENTITY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "host/peer.h"
#include "host/protocol.h"
#include "host/identity/scheduling.h"

enum identity_set {
    IDENTITY_INHERITABLE,
    IDENTITY_PERMITTED,
    IDENTITY_EFFECTIVE,
    IDENTITY_BOUNDING,
    IDENTITY_AMBIENT,
    IDENTITY_SETS
};

/* What follows the shim into its task. */
struct identity {
    uint64_t capabilities[IDENTITY_SETS]; /* bit n: capability n */
    int no_new_privileges;
    int io_priority; /* as ioprio_get has it */
    struct scheduling scheduling;
    struct rlimit limits[16];
    int umask, nice;
    unsigned cpus_size; /* bytes of `cpus`, 0: any CPU */
    unsigned char cpus[1024];
    gid_t *groups; /* supplementary, ascending as the kernel has them; to be freed */
    size_t group_count;
    struct protocol_told told;
};

/* Fills what only the calling process knows of itself. */
void identity_tell(struct protocol_told *told);

/* What a task is to change from what it has of the reaper. The groups of both are to be freed. */
struct identity_change {
    struct identity has, wants;
    const char *failed; /* which of them the kernel refused, or NULL */
};

/* Whether the host has to refuse the shim: 0, or an error, -ECONNREFUSED with *message. Fills a
 * zeroed change, as far as it got. launcher: the process whose descendants may be in cgroups of
 * their own, or 0. */
int identity_check(int socket, const struct peer *peer, const struct protocol_told *told,
                   int launcher, struct identity_change *change, char *message, size_t size);

/* Whether the shim has to refuse the host, which told this of itself: 0, or an error with *message.
 * is_hidden: /proc may hide the host because the space is undumpable. */
int identity_check_host(int socket, const struct protocol_told *told, int is_hidden, char *message,
                        size_t size);

/* For onespace_spawn_attr.before, with a struct identity_change: runs as the new task. 0, or an
 * error with `failed` set. */
int identity_assume(void *argument);

#endif
