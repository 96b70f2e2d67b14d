/* src/host/peer.c: see peer.h. */
#include "host/peer.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/proc.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* 0: there is no such process. */
static uint64_t start_of(int pid)
{
    struct proc_stat stat;
    int is_there = pid > 0 && proc_read_stat(pid, &stat) == 0 && stat.state != 'Z';
    return is_there ? stat.start_ticks : 0;
}

int peer_note(int socket, struct peer *peer)
{
    struct ucred credentials;
    socklen_t size = sizeof(credentials);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0 ||
        credentials.uid != geteuid())
        return -EPERM;
    *peer = (struct peer){credentials.pid, start_of(credentials.pid)};
    return 0;
}

int peer_confirm(int socket, const struct peer *peer)
{
    int pidfd;
    socklen_t size = sizeof(pidfd);
    if (peer->pid <= 0)
        return -ESRCH;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) == 0) {
        struct pollfd end = {pidfd, POLLIN, 0};
        int has_ended = poll(&end, 1, 0) != 0;
        close(pidfd);
        return has_ended ? -ESRCH : 0;
    }
    if (errno == EMFILE || errno == ENFILE)
        return -errno;
    if (errno != ENOPROTOOPT) /* EINVAL, ESRCH: it has been reaped */
        return -ESRCH;
    uint64_t start = start_of(peer->pid);
    return start && start == peer->start_ticks ? 0 : -ESRCH;
}

int peer_signal_group(int leader, uint64_t start_ticks, int signal)
{
    struct proc_stat stat;
    if (leader <= 0)
        return -ESRCH;
    /* The kernel gives nobody the number of a group that has members. So if no process has it, the
     * group is the leader's, or is empty. */
    long result = proc_read_stat(leader, &stat);
    if (result == 0 && stat.start_ticks != start_ticks)
        return -ESRCH;
    if (result < 0 && result != -ENOENT && result != -ESRCH)
        return (int)result;
    return kill(-leader, signal) == 0 ? 0 : -errno;
}
