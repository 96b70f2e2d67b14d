/* src/host/peer.h: the process at the other end of a socket.
 *
 * The kernel tells its PID as of when it connected or listened. When that process has ended,
 * another one may get the PID, and /proc would tell the privileges of that one. So whatever is read
 * by PID counts only if peer_confirm says afterwards that the process was there all the time. */
#ifndef ONESPACE_HOST_PEER_H
#define ONESPACE_HOST_PEER_H

#include <stdint.h>

struct peer {
    int pid;              /* 0: it is in another PID namespace */
    uint64_t start_ticks; /* of that PID when it was noted, 0: there was no such process */
};

/* To be called as soon as there is a connection: 0, or -EPERM if the peer runs as another user. */
int peer_note(int socket, struct peer *peer);
/* Whether peer->pid has been the peer's until now: 0, -ESRCH if it has ended, or another -errno
 * when that cannot be told. Exact since Linux 6.5, which keeps the process with the socket
 * (SO_PEERPIDFD); before, from peer_note on. */
int peer_confirm(int socket, const struct peer *peer);

/* Sends the signal to process group `leader`, unless that PID belongs to a process that began at
 * another time than `start_ticks`: the group has ended then. 0 or -errno. */
int peer_signal_group(int leader, uint64_t start_ticks, int signal);

#endif
