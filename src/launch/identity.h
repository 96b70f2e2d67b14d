/* src/launch/identity.h: which process is at the other end of a socket (peer.c), and its
 * privileges, scheduling and surroundings, which the task of a shim must not exceed (identity.c).
 *
 * A task is a child of the host's reaper. Attributes that can be set for one process follow the
 * shim. A shim that differs from the host in any other attribute is refused (docs/launchers.md has
 * the table). The host reads both from the kernel, because another process of the same user could
 * send a forged request. It takes from the request only what the kernel shows to no other process
 * (docs/trust.md lists it). The shim compares as well, before it sends anything: a confined process
 * of the same user could listen in place of a host. */
#ifndef ONESPACE_LAUNCH_IDENTITY_H
#define ONESPACE_LAUNCH_IDENTITY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "launch/protocol.h"

/* ---- peer.c ---- */

/* The kernel reports the PID that the peer had when it connected or listened. When that process has
 * ended, another process may get the PID, and /proc would show the privileges of that one. So
 * anything that is read by PID counts only if peer_confirm succeeds afterwards. */
struct peer {
    int pid;              /* 0: in another PID namespace */
    uint64_t start_ticks; /* of that PID at peer_identify, 0: there was no such process */
};

/* To be called as soon as the connection exists: 0, or -EPERM if the peer runs as another user. */
int peer_identify(int socket, struct peer *peer);
/* Whether peer->pid has been the peer's until now: 0, -ESRCH if it has ended, or another -errno if
 * that cannot be determined. Exact since Linux 6.5, which keeps the process with the socket
 * (SO_PEERPIDFD); before, from peer_identify on. */
int peer_confirm(int socket, const struct peer *peer);

/* Sends the signal to process group `leader`, unless that PID belongs to a process that began at
 * another time than `start_ticks`: the group has ended then. 0 or -errno. */
int peer_signal_group(int leader, uint64_t start_ticks, int signal);

/* The text of /proc/PID/status or another file; pid 0: the caller's. The caller frees it. NULL with
 * errno. */
char *proc_status_read(int pid);
char *proc_text_read(int pid, const char *name);
/* The rest of the line that begins with `field`, such as "Uid:", or NULL. Not for Name, the first
 * line. */
const char *proc_status_field(const char *status, const char *field);
/* Whether a field of /proc/PID/status, a mask in hexadecimal such as "SigCgt:", has one of the
 * bits. All users may read that file, also of an undumpable process. */
int proc_status_has_bits(int pid, const char *field, uint64_t bits);
/* Soft and hard limits by number, at most `count`, from the text of /proc/PID/limits. 0, or -EPROTO
 * when there are fewer. */
int proc_limits_parse(const char *text, struct rlimit *limits, unsigned count);

/* ---- identity.c ---- */

/* struct sched_attr of Linux 3.14, which not every libc declares. */
struct scheduling {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

enum capability_set {
    CAPABILITY_INHERITABLE,
    CAPABILITY_PERMITTED,
    CAPABILITY_EFFECTIVE,
    CAPABILITY_BOUNDING,
    CAPABILITY_AMBIENT,
    CAPABILITY_SETS
};

/* The attributes of a shim that its task gets. */
struct identity {
    uint64_t capabilities[CAPABILITY_SETS]; /* bit n: capability n */
    int no_new_privileges;
    int io_priority; /* as ioprio_get returns it */
    struct scheduling scheduling;
    struct rlimit limits[16];
    int umask, nice;
    unsigned cpus_size; /* bytes of `cpus`, 0: any CPU */
    unsigned char cpus[1024];
    gid_t *groups; /* supplementary, ascending as the kernel keeps them; to be freed */
    size_t group_count;
    struct protocol_self_report self_report;
};

/* Fills the attributes that the calling process alone knows of itself. */
void identity_report_self(struct protocol_self_report *report);

/* The identity that a task has from the reaper, and the one it is to get. The caller frees the
 * groups of both. */
struct identity_change {
    struct identity has, wants;
    const char *failed; /* the attribute that the kernel refused, or NULL */
};

/* Whether the host has to refuse the shim: 0, or an error, -ECONNREFUSED with *message. Fills a
 * zeroed change as far as it got. launcher: the process whose descendants may be in cgroups of
 * their own, or 0. */
int identity_check(int socket, const struct peer *peer, const struct protocol_self_report *report,
                   int launcher, struct identity_change *change, char *message, size_t size);

/* Whether the shim has to refuse the host, which sent `report`: 0, or an error with *message.
 * is_hidden: /proc may hide the host because the space is undumpable. */
int identity_check_host(int socket, const struct protocol_self_report *report, int is_hidden,
                        char *message, size_t size);

/* For onespace_spawn_attr.before, with a struct identity_change: runs as the new task. 0, or an
 * error with `failed` set. */
int identity_assume(void *argument);

#endif
