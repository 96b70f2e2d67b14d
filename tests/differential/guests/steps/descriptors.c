/* tests/differential/guests/steps/descriptors.c: what makes, copies, changes, uses and closes
 * descriptors. None blocks: pipes, sockets and timers do not wait, and locks are only tried. */
#include "steps.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

enum { LOWEST = 3, BUFFER = 4 * PAGE };

int descriptors[DESCRIPTORS];
static unsigned char buffer[BUFFER];

int descriptor_of(int number)
{
    return descriptors[number % DESCRIPTORS];
}

/* Closes the descriptor that the entry had. */
void keep_descriptor(int number, int fd)
{
    int *entry = &descriptors[number % DESCRIPTORS];
    if (*entry >= LOWEST)
        close(*entry);
    *entry = fd;
}

static void made(int number, int fd)
{
    say_result(fd);
    keep_descriptor(number, fd);
}

static const char *file_name(int number)
{
    static const char *const names[] = {"f0", "f1", "f2", "f3", "d0", "d0/f0", "none/f", "s0"};
    return names[number % 8];
}

/* ---- What makes them ---- */

/* entry file flags mode */
OPERATION(open)
{
    static const int all[] = {O_RDWR | O_CREAT,
                              O_RDONLY,
                              O_RDWR | O_CREAT | O_TRUNC,
                              O_RDWR | O_CREAT | O_EXCL,
                              O_WRONLY | O_APPEND | O_CREAT,
                              O_RDONLY | O_DIRECTORY,
                              O_PATH,
                              O_RDWR | O_NOFOLLOW};
    int flags = all[a[2] % 8] | (a[3] % 2 ? O_CLOEXEC : 0) | O_NONBLOCK;
    made(a[0], a[3] / 2 % 2 ? open(file_name(a[1]), flags, 0600 | a[3] % 0100)
                            : openat(AT_FDCWD, file_name(a[1]), flags, 0666));
}

OPERATION(open_bad)
{
    switch (a[0] % 4) {
    case 0:
        say_result(open(bad_pointer(), O_RDONLY));
        break;
    case 1:
        say_result(open("", O_RDONLY));
        break;
    case 2:
        say_result(openat(descriptor_of(a[1]), "f0", O_RDONLY | O_EXCL | O_DIRECTORY));
        break;
    default:
        say_result(open(arenas[a[1] % 2], O_RDONLY) < 0 ? -1 : 0);
    }
}

OPERATION(pipe)
{
    int ends[2] = {-1, -1};
    say_result(a[2] % 8 == 7 ? pipe2(bad_pointer(), O_NONBLOCK)
                             : pipe2(ends, O_NONBLOCK | (a[2] % 2 ? O_CLOEXEC : 0)));
    if (ends[0] >= 0) {
        say(" %d %d", ends[0], ends[1]);
        keep_descriptor(a[0], ends[0]);
        keep_descriptor(a[0] + 1, ends[1]);
    }
}

OPERATION(socketpair)
{
    int ends[2] = {-1, -1}, type = a[2] % 2 ? SOCK_STREAM : SOCK_SEQPACKET;
    say_result(socketpair(AF_UNIX, type | SOCK_NONBLOCK, a[2] % 8 == 7 ? 99 : 0, ends));
    if (ends[0] >= 0) {
        say(" %d %d", ends[0], ends[1]);
        keep_descriptor(a[0], ends[0]);
        keep_descriptor(a[0] + 1, ends[1]);
    }
}

OPERATION(memfd)
{
    int fd =
        memfd_create("m", (a[1] % 2 ? MFD_CLOEXEC : 0) | (a[1] / 2 % 2 ? MFD_ALLOW_SEALING : 0));
    made(a[0], fd);
    if (fd >= 0)
        say_result(ftruncate(fd, (off_t)(a[2] % 8) * PAGE));
}

OPERATION(eventfd)
{
    made(a[0], eventfd((unsigned)a[1] % 5, EFD_NONBLOCK | (a[2] % 2 ? EFD_SEMAPHORE : 0) |
                                               (a[2] / 2 % 2 ? EFD_CLOEXEC : 0)));
}

OPERATION(epoll)
{
    made(a[0], epoll_create1(a[1] % 2 ? EPOLL_CLOEXEC : 0));
}

OPERATION(inotify)
{
    int fd = inotify_init1(IN_NONBLOCK | (a[1] % 2 ? IN_CLOEXEC : 0));
    made(a[0], fd);
    if (fd >= 0)
        say_result(inotify_add_watch(fd, ".", IN_CREATE | IN_DELETE));
}

/* A timer that has expired is read: once. */
OPERATION(timerfd)
{
    uint64_t times = 0;
    struct itimerspec soon = {.it_value = {.tv_nsec = 500000}};
    int fd =
        timerfd_create(a[0] % 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME, a[1] % 2 ? TFD_CLOEXEC : 0);
    say_result(fd);
    if (fd < 0)
        return;
    say_result(timerfd_settime(fd, 0, &soon, NULL));
    long result;
    do
        result = read(fd, &times, sizeof(times));
    while (result < 0 && errno == EINTR);
    say_result(result);
    say(" %lu", (unsigned long)times);
    close(fd);
}

/* ---- What copies and closes them ---- */

OPERATION(close)
{
    say_result(close(descriptor_of(a[0])));
    descriptors[a[0] % DESCRIPTORS] = -1;
}

OPERATION(dup)
{
    int from = descriptor_of(a[0]);
    switch (a[2] % 4) {
    case 0:
        made(a[1], dup(from));
        break;
    case 1:
        made(a[1], fcntl(from, a[3] % 2 ? F_DUPFD : F_DUPFD_CLOEXEC, 20 + a[3] % 8));
        break;
    default: {
        int to = descriptor_of(a[1]);
        if (to >= LOWEST)
            say_result(a[2] % 4 == 2 ? dup2(from, to) : dup3(from, to, a[3] % 2 ? O_CLOEXEC : 0));
    }
    }
}

/* first last flags: of those above the standard ones and below the scratch file */
OPERATION(close_range)
{
    unsigned first = LOWEST + (unsigned)a[0] % 24, last = first + (unsigned)a[1] % 16;
    /* Not CLOSE_RANGE_UNSHARE: a thread that was joined and has not ended yet would keep the old
     * table, and its locks. */
    unsigned flags = a[2] % 4 == 1 ? 4 /* CLOSE_RANGE_CLOEXEC */ : 0;
    say_result(syscall(SYS_close_range, first, a[2] % 16 == 15 ? first - 1 : last, flags));
}

OPERATION(fcntl)
{
    static const int seals[] = {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE, F_SEAL_SEAL,
                                F_SEAL_FUTURE_WRITE};
    int fd = descriptor_of(a[0]);
    struct flock lock = {.l_type = a[2] % 2 ? F_WRLCK : F_RDLCK,
                         .l_whence = SEEK_SET,
                         .l_start = a[2] % 100,
                         .l_len = 10};
    switch (a[1] % 10) {
    case 0:
        say_result(fcntl(fd, F_GETFD));
        break;
    case 1:
        say_result(fcntl(fd, F_SETFD, a[2] % 2));
        break;
    case 2:
        say_result(fcntl(fd, F_GETFL));
        break;
    case 3:
        say_result(fcntl(fd, F_SETFL, O_NONBLOCK | (a[2] % 2 ? O_APPEND : 0)));
        break;
    case 4:
        say_result(fcntl(fd, F_GET_SEALS));
        break;
    case 5:
        say_result(fcntl(fd, F_ADD_SEALS, seals[a[2] % 5]));
        break;
    case 6:
        say_result(fcntl(fd, F_GETPIPE_SZ));
        break;
    case 7:
        say_result(fcntl(fd, F_SETLK, &lock));
        break;
    case 8:
        say_result(fcntl(fd, F_GETLK, &lock));
        say(" type %d", lock.l_type);
        break;
    default:
        say_result(fcntl(fd, 9999));
    }
}

/* ---- Data ---- */

OPERATION(read)
{
    size_t size = (size_t)a[1] % BUFFER;
    struct stat file = {.st_mode = 0};
    fstat(descriptor_of(a[0]), &file);
    /* Data of other descriptors than files, pipes and eventfds hold numbers of processes and
     * cookies. */
    int is_stable = (file.st_mode & S_IFMT) != 0, is_place = a[2] % 4 == 3 && is_stable;
    long result = read(descriptor_of(a[0]), is_place ? (void *)place_of(a[3]) : buffer, size);
    say_result(result);
    if (result > 0 && !is_place && (is_stable || result == 8))
        say(" sum %08x", checksum(0, buffer, (size_t)result));
}

OPERATION(write)
{
    size_t size = (size_t)a[1] % BUFFER;
    memset(buffer, a[2], size);
    /* The number of an eventfd: so small that the next read does not differ */
    memset(buffer, 0, size < 8 ? size : 8);
    buffer[0] = (unsigned char)a[2];
    say_result(a[3] % 4 == 3 ? write(descriptor_of(a[0]), place_of(a[4]), size)
                             : write(descriptor_of(a[0]), buffer, size));
}

OPERATION(pread)
{
    size_t size = (size_t)a[1] % BUFFER;
    if (a[3] % 2) /* not what was read before, which may be of this run alone */
        memset(buffer, a[3], size);
    long result = a[3] % 2 ? pwrite(descriptor_of(a[0]), buffer, size, (off_t)(a[2] % 4) * PAGE)
                           : pread(descriptor_of(a[0]), buffer, size, (off_t)(a[2] % 4) * PAGE);
    say_result(result);
}

OPERATION(seek)
{
    static const int all[] = {SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA, SEEK_HOLE, 77};
    say_result(lseek(descriptor_of(a[0]), a[1] % 3 ? a[1] % 5000 : -(a[1] % 100), all[a[2] % 6]));
}

OPERATION(truncate)
{
    say_result(ftruncate(descriptor_of(a[0]), (off_t)(a[1] % 9) * PAGE - (a[2] % 8 == 7)));
}

OPERATION(fallocate)
{
    static const int all[] = {0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE,
                              0x40};
    say_result(fallocate(descriptor_of(a[0]), all[a[1] % 4], (off_t)(a[2] % 5) * PAGE,
                         (off_t)(a[3] % 5) * PAGE));
}

OPERATION(sendfile)
{
    off_t offset = 0;
    size_t size = (size_t)a[2] % BUFFER;
    switch (a[3] % 3) {
    case 0:
        say_result(sendfile(descriptor_of(a[0]), descriptor_of(a[1]), &offset, size));
        break;
    case 1:
        say_result(
            splice(descriptor_of(a[1]), NULL, descriptor_of(a[0]), NULL, size, SPLICE_F_NONBLOCK));
        break;
    default:
        say_result(copy_file_range(descriptor_of(a[1]), NULL, descriptor_of(a[0]), NULL, size, 0));
    }
}

OPERATION(vmsplice)
{
    struct iovec vector = {place_of(a[1]), (size_t)(a[2] % 3) * PAGE + 5};
    say_result(vmsplice(descriptor_of(a[0]), &vector, 1, SPLICE_F_NONBLOCK));
}

OPERATION(fstat)
{
    struct stat file;
    long result = fstat(descriptor_of(a[0]), &file);
    say_result(result);
    if (result == 0)
        say(" mode %o links %ld size %ld", file.st_mode, (long)file.st_nlink,
            S_ISDIR(file.st_mode) ? 0l : (long)file.st_size);
}

OPERATION(ioctl)
{
    static const unsigned long all[] = {FIONREAD, FIOCLEX, FIONCLEX, 0x5401 /* TCGETS */, 0x9999};
    int value = -1;
    if (a[1] % 5 == 3)
        say_result(ioctl(descriptor_of(a[0]), all[3], buffer));
    else
        say_result(ioctl(descriptor_of(a[0]), all[a[1] % 5], &value));
    say(" %d", value);
}

OPERATION(flock)
{
    static const int all[] = {LOCK_SH, LOCK_EX, LOCK_UN, 0};
    say_result(flock(descriptor_of(a[0]), all[a[1] % 4] | LOCK_NB));
}

/* A descriptor travels over a socket to the other end */
OPERATION(send_descriptor)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)),
                            .cmsg_level = SOL_SOCKET,
                            .cmsg_type = SCM_RIGHTS}};
    char byte = 'x';
    struct iovec vector = {&byte, 1};
    struct msghdr message = {.msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    int ends[2], fd = descriptor_of(a[0]);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0) {
        say_result(-1);
        return;
    }
    memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
    long result = sendmsg(ends[0], &message, 0);
    say_result(result);
    if (result > 0) {
        say_result(recvmsg(ends[1], &message, 0));
        memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
        made(a[1], fd);
    }
    close(ends[0]);
    close(ends[1]);
}

/* ---- What waits for them ---- */

OPERATION(poll)
{
    struct pollfd polled[4];
    for (int i = 0; i < 4; i++)
        polled[i] = (struct pollfd){.fd = descriptor_of(a[i]), .events = POLLIN | POLLOUT};
    say_result(poll(polled, 4, 0));
    for (int i = 0; i < 4; i++)
        say(" %x", (unsigned)polled[i].revents);
}

OPERATION(epoll_ctl)
{
    static const int all[] = {EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL, 9};
    struct epoll_event event = {.events = EPOLLIN | (a[3] % 2 ? EPOLLET : 0) |
                                          (a[3] / 2 % 2 ? EPOLLONESHOT : 0),
                                .data.u32 = (uint32_t)a[1]};
    say_result(epoll_ctl(descriptor_of(a[0]), all[a[2] % 4], descriptor_of(a[1]), &event));
}

OPERATION(epoll_wait)
{
    struct epoll_event events[8];
    uint32_t sum = 0;
    long result = epoll_wait(descriptor_of(a[0]), a[1] % 8 == 7 ? bad_pointer() : events,
                             a[1] % 8 == 6 ? 0 : 8, 0);
    say_result(result);
    for (int i = 0; i < result && a[1] % 8 != 7; i++)
        sum += events[i].data.u32 * 31 + events[i].events;
    say(" sum %x", sum);
}

/* ---- Names ---- */

OPERATION(mkdir)
{
    say_result(a[1] % 2 ? rmdir(file_name(a[0])) : mkdir(file_name(a[0]), 0777));
}

OPERATION(unlink)
{
    say_result(unlink(file_name(a[0])));
}

OPERATION(rename)
{
    say_result(rename(file_name(a[0]), file_name(a[1])));
}

OPERATION(symlink)
{
    say_result(a[2] % 2 ? link(file_name(a[0]), file_name(a[1]))
                        : symlink(file_name(a[0]), file_name(a[1])));
}

/* Up only from d0: what the program makes stays below the directory in which it was started. */
OPERATION(chdir)
{
    char name[4096] = "";
    char *last = getcwd(name, sizeof(name)) ? strrchr(name, '/') : NULL;
    int is_below = last && strcmp(last, "/d0") == 0;
    say(" %s", !last ? "lost" : is_below ? "below" : "top");
    if (!is_below || a[0] % 2)
        say_result(a[0] % 4 < 2 ? chdir(is_below ? ".." : "d0") : chdir("none"));
    else
        say_result(chdir(".."));
}

OPERATION(umask)
{
    say(" %o", umask((mode_t)a[0] % 0100));
}

OPERATION(access)
{
    say_result(access(file_name(a[0]), a[1] % 8));
}

OPERATION(stat)
{
    struct stat file;
    long result = stat(file_name(a[0]), &file);
    say_result(result);
    if (result == 0)
        say(" mode %o", file.st_mode);
}
