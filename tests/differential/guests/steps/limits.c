/* tests/differential/guests/steps/limits.c: limits, priorities, prctl, futexes and what else a
 * process has by itself. Not here, because the kernel compares them with all memory of the space
 * (docs/programs.md): RLIMIT_AS, RLIMIT_DATA, RLIMIT_MEMLOCK, mlockall, the dumpable flag,
 * PR_SET_MM, PR_SET_MDWE, PR_SET_THP_DISABLE. */
#include "steps.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* linux/futex.h, which musl's compiler does not find */
enum { FUTEX_WAIT = 0, FUTEX_WAKE = 1, FUTEX_WAIT_PRIVATE = 128, FUTEX_WAKE_PRIVATE = 129 };

static const int limits[] = {RLIMIT_NOFILE,
                             RLIMIT_CORE,
                             RLIMIT_STACK,
                             RLIMIT_NPROC,
                             RLIMIT_SIGPENDING,
                             RLIMIT_MSGQUEUE,
                             RLIMIT_NICE,
                             RLIMIT_RTPRIO,
                             RLIMIT_LOCKS,
                             RLIMIT_FSIZE,
                             99};

static void say_limit(const struct rlimit *limit)
{
    say(" %llx %llx", (unsigned long long)limit->rlim_cur, (unsigned long long)limit->rlim_max);
}

OPERATION(getrlimit)
{
    struct rlimit limit = {0, 0};
    say_result(getrlimit((unsigned)limits[a[0] % 11], a[1] % 8 == 7 ? bad_pointer() : &limit));
    say_limit(&limit);
}

/* limit value: at least 12 files may be open, and a file may have a GiB. RLIMIT_SIGPENDING counts
 * the signals of all processes of the user: with their signals pending, pthread_cancel fails
 * (EAGAIN), and the thread that joins waits for ever. RLIMIT_NPROC counts their threads, also those
 * of other tests. */
OPERATION(setrlimit)
{
    static const rlim_t values[] = {12, 64, 1024, RLIM_INFINITY, 8 << 20, 1 << 30};
    int which = limits[a[0] % 11];
    struct rlimit limit;
    if (getrlimit((unsigned)which, &limit) != 0) {
        say_result(setrlimit((unsigned)which, &(struct rlimit){1, 1}));
        return;
    }
    limit.rlim_cur = which == RLIMIT_FSIZE        ? values[3 + a[1] % 3 / 2 * 2]
                     : which == RLIMIT_STACK      ? values[4]
                     : which == RLIMIT_SIGPENDING ? values[2 + a[1] % 2]
                     : which == RLIMIT_NPROC      ? values[3 + a[1] % 2]
                                                  : values[a[1] % 4];
    say_result(setrlimit((unsigned)which, &limit));
    getrlimit((unsigned)which, &limit);
    say_limit(&limit);
}

OPERATION(priority)
{
    errno = 0;
    if (a[0] % 3 == 2)
        say_result(setpriority(PRIO_PROCESS, 0, a[1] % 5));
    errno = 0;
    say(" %d %d", getpriority(PRIO_PROCESS, 0), getpriority(99, 0));
}

OPERATION(sched)
{
    cpu_set_t set;
    struct sched_param none = {0};
    CPU_ZERO(&set);
    switch (a[0] % 6) {
    case 0:
        say_result(sched_getaffinity(0, sizeof(set), &set));
        say(" %d", CPU_COUNT(&set));
        break;
    case 1:
        say_result(sched_getscheduler(0));
        break;
    case 2:
        say_result(sched_setscheduler(0, a[1] % 2 ? SCHED_BATCH : SCHED_OTHER, &none));
        break;
    case 3:
        say_result(sched_yield());
        break;
    case 4:
        say_result(sched_get_priority_max(a[1] % 9));
        break;
    default:
        say_result(sched_setaffinity(0, sizeof(set), &set));
    }
}

OPERATION(prctl)
{
    static const int asked[] = {
        PR_GET_KEEPCAPS, PR_GET_NO_NEW_PRIVS, PR_GET_SECCOMP,  PR_GET_TIMING, PR_GET_SECUREBITS,
        PR_CAPBSET_READ, PR_GET_TIMERSLACK,   PR_MCE_KILL_GET, 9999,          PR_GET_THP_DISABLE};
    char name[17] = "";
    int value = 0;
    switch (a[0] % 8) {
    case 0:
        say_result(prctl(PR_SET_NAME, a[1] % 2 ? "a name" : "another, too long for it"));
        break;
    case 1:
        say_result(prctl(PR_GET_NAME, a[1] % 8 == 7 ? bad_pointer() : name));
        say(" %s", name);
        break;
    case 2:
        say_result(prctl(PR_SET_TIMERSLACK, 50000 + a[1] % 3));
        break;
    case 3:
        say_result(prctl(PR_SET_KEEPCAPS, a[1] % 3));
        break;
    case 4:
        say_result(prctl(PR_GET_CHILD_SUBREAPER, &value));
        say(" %d", value);
        break;
    case 5:
        say_result(prctl(PR_SET_PDEATHSIG, 99));
        break;
    default:
        say_result(prctl(asked[a[1] % 10], 0, 0, 0, 0));
    }
}

OPERATION(futex)
{
    static uint32_t word = 5;
    struct timespec soon = {0, 100000}, bad = {0, -1};
    switch (a[0] % 6) {
    case 0:
        say_result(syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 9, NULL, NULL, 0));
        break;
    case 1:
        say_result(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 6, NULL, NULL, 0));
        break;
    case 2:
        say_result(syscall(SYS_futex, &word, FUTEX_WAIT, 5, &soon, NULL, 0));
        break;
    case 3:
        say_result(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 5, &bad, NULL, 0));
        break;
    case 4:
        say_result(syscall(SYS_futex, place_of(a[1]), FUTEX_WAKE, 1, NULL, NULL, 0));
        break;
    default:
        say_result(syscall(SYS_futex, (char *)&word + 1, FUTEX_WAIT_PRIVATE, 5, NULL, NULL, 0));
    }
}

/* Whether the kernel knows the list that the libc has registered */
OPERATION(robust_list)
{
    void *head = NULL;
    size_t size = 0;
    say_result(syscall(SYS_get_robust_list, 0, &head, &size));
    say(" %s %zu", head ? "set" : "none", size);
}

OPERATION(unknown)
{
    say_result(syscall(a[0] % 2 ? -1 : 100000, 1, 2, 3));
}

OPERATION(uname)
{
    struct utsname name;
    memset(&name, 0, sizeof(name));
    say_result(uname(a[0] % 4 == 3 ? bad_pointer() : &name));
    say(" %s", name.sysname);
}

OPERATION(clock)
{
    struct timespec time = {0, 0};
    say_result(clock_getres(a[0] % 12, &time));
    say(" %ld", time.tv_nsec);
    say_result(clock_gettime(a[0] % 8 == 7 ? 99 : CLOCK_MONOTONIC, &time) == 0 ? 0 : -1);
}

OPERATION(usage)
{
    struct rusage usage;
    struct tms used;
    struct itimerval timer;
    say_result(getrusage(a[0] % 4 == 3   ? 99
                         : a[0] % 4 == 2 ? RUSAGE_CHILDREN
                                         : RUSAGE_SELF,
                         &usage));
    say(" %d", times(&used) != -1);
    say_result(getitimer(a[0] % 4, &timer));
}

OPERATION(groups)
{
    gid_t groups[64];
    say_result(getgroups(a[0] % 2 ? 0 : 64, groups));
}
