/* cmd/lib/user.c: see user.h. */
#include "cmd/lib/user.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/proc.h"

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#else
#define NATIVE AUDIT_ARCH_AARCH64
#endif
enum { X32_BIT = 0x40000000 }; /* of the numbers of a third interface of x86-64 */

/* Denies the ioctls that put characters into the input of a terminal, and system calls of other
 * interfaces, by which they could be made, too. The kernel looks at the lower 32 bits of a command
 * only. A kernel without seccomp is left as it is. */
static int deny_typing(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 0, 7),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TIOCSTI, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TIOCLINUX, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0 && errno != EINVAL)
        return -errno;
    return 0;
}

static int has_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &header, sets) != 0)
        return 1;
    for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
        if (sets[i].effective || sets[i].permitted)
            return 1;
    return 0;
}

int user_become(uid_t uid, gid_t gid)
{
    uid_t real, effective, saved;
    gid_t groups[3];
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || setgroups(0, NULL) != 0 ||
        setresgid(gid, gid, gid) != 0 || setresuid(uid, uid, uid) != 0)
        return -errno;
    if (getresuid(&real, &effective, &saved) != 0 || real != uid || effective != uid ||
        saved != uid || getresgid(&groups[0], &groups[1], &groups[2]) != 0 || groups[0] != gid ||
        groups[1] != gid || groups[2] != gid || getgroups(0, NULL) != 0)
        return -EPERM;
    if (uid != 0 && (setuid(0) == 0 || has_capabilities()))
        return -EPERM;
    return deny_typing();
}

int user_is_stuck(struct user_progress *progress, pid_t child)
{
    const uint64_t second = 1000000000, stopped_limit = second, waiting_limit = 60 * second;
    struct proc_stat stat;
    if (proc_read_stat(child, &stat) != 0)
        return 0;
    uint64_t ticks = stat.user_ticks + stat.system_ticks;
    uint64_t now = futex_now_ns(), passed = progress->last ? now - progress->last : 0;
    int is_stopped = stat.state == 'T';
    if (ticks != progress->ticks || is_stopped != progress->is_stopped)
        *progress = (struct user_progress){progress->reads_only, ticks, 0, 0, is_stopped};
    /* The caller may have been stopped together with the child. */
    progress->waited += passed < second ? passed : 0;
    progress->last = now;
    return is_stopped ? progress->waited > stopped_limit
                      : progress->reads_only && progress->waited > waiting_limit;
}

int user_await(pid_t child, int reads_only, int *status)
{
    enum { FIRST_PAUSE_US = 500, LONGEST_PAUSE_US = 50000, PATIENCE_MS = 5000 };
    struct user_progress progress = {.reads_only = reads_only};
    uint64_t give_up = 0; /* set when it is killed */
    for (unsigned pause = FIRST_PAUSE_US;; pause = 2 * pause) {
        pid_t ended = waitpid(child, status, WNOHANG);
        if (ended != 0 && !(ended < 0 && errno == EINTR))
            return ended < 0 ? -errno : 0;
        if (give_up && futex_now_ns() > give_up)
            return -ETIMEDOUT;
        if (!give_up && user_is_stuck(&progress, child)) {
            kill(child, SIGKILL);
            give_up = futex_deadline(PATIENCE_MS);
        }
        pause = pause < LONGEST_PAUSE_US ? pause : LONGEST_PAUSE_US;
        usleep(pause);
    }
}

int user_open_regular(const char *path)
{
    struct stat status;
    char link[32];
    int at = open(path, O_PATH | O_CLOEXEC), fd = -EINVAL;
    if (at < 0)
        return -errno;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", at);
    if (fstat(at, &status) == 0 && S_ISREG(status.st_mode)) {
        fd = open(link, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        fd = fd < 0 ? -errno : fd;
    }
    close(at);
    return fd;
}

int32_t *user_shared_number(void)
{
    void *page =
        mmap(NULL, sizeof(int32_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return page == MAP_FAILED ? NULL : page;
}
