/* src/launch/peer.c: the process at the other end of a socket, and its files in /proc. */
#include "launch/identity.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/proc.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* The start time of a process, 0 if there is none. */
static uint64_t start_ticks_of(int pid)
{
    struct proc_stat stat;
    int exists = pid > 0 && proc_read_stat(pid, &stat) == 0 && stat.state != 'Z';
    return exists ? stat.start_ticks : 0;
}

int peer_identify(int socket, struct peer *peer)
{
    struct ucred credentials;
    socklen_t size = sizeof(credentials);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0 ||
        credentials.uid != geteuid())
        return -EPERM;
    *peer = (struct peer){credentials.pid, start_ticks_of(credentials.pid)};
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
    if (errno != ENOPROTOOPT) /* EINVAL, ESRCH: the process was reaped */
        return -ESRCH;
    uint64_t start = start_ticks_of(peer->pid);
    return start && start == peer->start_ticks ? 0 : -ESRCH;
}

int peer_signal_group(int leader, uint64_t start_ticks, int signal)
{
    struct proc_stat stat;
    /* In a container the leader may be process 1, and kill(-1) would reach every process. */
    if (leader <= 1)
        return -ESRCH;
    /* The kernel gives the number of a group with members to no new process. So if no process has
     * it, the group is the leader's, or it is empty. */
    long result = proc_read_stat(leader, &stat);
    if (result == 0 && stat.start_ticks != start_ticks)
        return -ESRCH;
    if (result < 0 && result != -ENOENT && result != -ESRCH)
        return (int)result;
    return kill(-leader, signal) == 0 ? 0 : -errno;
}

/* ---- Files in /proc/PID ---- */

char *proc_text_read(int pid, const char *name)
{
    char path[64], *text = NULL;
    size_t room = 0;
    proc_path(path, pid, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return NULL;
    ssize_t length =
        getdelim(&text, &room, 0, file); /* the file has no 0 byte, so this reads all of it */
    fclose(file);
    if (length >= 0)
        return text;
    free(text);
    errno = ESRCH;
    return NULL;
}

char *proc_status_read(int pid)
{
    return proc_text_read(pid, "status");
}

const char *proc_status_field(const char *status, const char *field)
{
    size_t length = strlen(field);
    for (const char *end = strchr(status, '\n'); end; end = strchr(end + 1, '\n'))
        if (strncmp(end + 1, field, length) == 0)
            return end + 1 + length + strspn(end + 1 + length, " \t");
    return NULL;
}

int proc_status_has_bits(int pid, const char *field, uint64_t bits)
{
    char *status = proc_status_read(pid);
    const char *mask = status ? proc_status_field(status, field) : NULL;
    int result = mask && (strtoull(mask, NULL, 16) & bits) != 0;
    free(status);
    return result;
}

static const char *parse_limit(const char *at, rlim_t *limit)
{
    static const char unlimited[] = "unlimited";
    char *end;
    at += strspn(at, " ");
    if (strncmp(at, unlimited, sizeof(unlimited) - 1) == 0) {
        *limit = RLIM_INFINITY;
        return at + sizeof(unlimited) - 1;
    }
    *limit = strtoull(at, &end, 10);
    return end == at ? NULL : end;
}

int proc_limits_parse(const char *text, struct rlimit *limits, unsigned count)
{
    enum { NAME_WIDTH = 25 }; /* names contain blanks */
    const char *line = strchr(text, '\n');
    for (unsigned i = 0; i < count; i++, line = strchr(line, '\n')) {
        if (!line || strcspn(++line, "\n") <= NAME_WIDTH)
            return -EPROTO;
        const char *at = parse_limit(line + NAME_WIDTH, &limits[i].rlim_cur);
        if (!at || !parse_limit(at, &limits[i].rlim_max))
            return -EPROTO;
    }
    return 0;
}
