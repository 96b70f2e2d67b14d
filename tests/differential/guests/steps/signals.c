/* tests/differential/guests/steps/signals.c: handlers, masks, alternate stacks, and signals that
 * the program sends to itself. A child sends the signals that would kill it. */
#include "steps.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "faults.h"

enum { STACK = 64 << 10, STACKS = 2 };

/* Written by handlers, said by the next end_line. */
static char noted[4096];
static volatile sig_atomic_t noted_length;
static char stacks[STACKS][STACK];
static int pipe_to_write = -1; /* what a handler of SIGALRM writes to */

static const int signals[] = {SIGUSR1, SIGUSR2, SIGSEGV, SIGBUS, SIGCHLD, SIGALRM,
                              SIGPIPE, SIGTERM, SIGILL,  SIGFPE, SIGTRAP, SIGWINCH,
                              SIGURG,  40,      50,      SIGCONT};
static const int unusual[] = {0, 65, SIGKILL, SIGSTOP, -1, 64};

int signal_of(int number)
{
    size_t count = sizeof(signals) / sizeof(signals[0]);
    return number % 64 == 63 ? unusual[number / 64 % 6] : signals[(size_t)number % count];
}

static uint64_t bits_of(const sigset_t *set)
{
    uint64_t bits = 0;
    for (int signal = 1; signal <= 64; signal++)
        bits |= (uint64_t)(sigismember(set, signal) == 1) << (signal - 1);
    return bits;
}

static sigset_t set_of(int number)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (number >> i & 1)
            sigaddset(&set, signals[i]);
    return set;
}

/* ---- Handlers ---- */

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length =
        vsnprintf(noted + noted_length, sizeof(noted) - (size_t)noted_length, format, arguments);
    va_end(arguments);
    if (length > 0 && (size_t)noted_length + (size_t)length < sizeof(noted))
        noted_length += length;
}

void say_noted(void)
{
    if (noted_length)
        say("%s", noted);
    noted_length = 0;
}

static const char *name_of_address(const void *address, char *name, size_t size)
{
    const char *p = address;
    for (int i = 0; i < 2; i++) {
        if (p >= arenas[i] && p < arenas[i] + (size_t)ARENA_PAGES * PAGE) {
            snprintf(name, size, "%c+%#zx", "AB"[i], (size_t)(p - arenas[i]));
            return name;
        }
    }
    snprintf(name, size, "%s", p ? "elsewhere" : "0");
    return name;
}

static void note_common(int signal)
{
    int stack = -1;
    for (int i = 0; i < STACKS; i++)
        if ((char *)&stack >= stacks[i] && (char *)&stack < stacks[i] + STACK)
            stack = i;
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    note(" [signal %d stack %d mask %llx", signal, stack, (unsigned long long)bits_of(&mask));
}

static void after(int signal, int is_fault)
{
    if (fault_is_fatal || (is_fault && !fault_is_expected))
        _exit(94); /* it would recur */
    if (is_fault)
        siglongjmp(fault_jump, 1);
    if (signal == SIGALRM && pipe_to_write >= 0)
        (void)!write(pipe_to_write, "!", 1);
}

static void on_signal(int signal)
{
    int error = errno;
    note_common(signal);
    note("]");
    /* A signal that was sent has no code here: what is expected is a fault. */
    after(signal, (signal == SIGSEGV || signal == SIGBUS) && fault_is_expected);
    errno = error;
}

static void on_signal_with_information(int signal, siginfo_t *info, void *context)
{
    int error = errno;
    char name[32];
    (void)context;
    note_common(signal);
    note(" code %d", info->si_code);
    if (info->si_code == SI_QUEUE)
        note(" value %d", info->si_value.sival_int);
    if (info->si_code <= 0 && info->si_code != SI_TIMER)
        note(" %s", info->si_pid == getpid() ? "own" : "other");
    int is_fault = (signal == SIGSEGV || signal == SIGBUS) && info->si_code > 0;
    if (is_fault)
        note(" at %s", name_of_address(info->si_addr, name, sizeof(name)));
    note("]");
    after(signal, is_fault);
    errno = error;
}

static struct sigaction action_of(int handler, int flags, int mask)
{
    static const int all[] = {SA_NODEFER, SA_RESETHAND, SA_ONSTACK,
                              SA_RESTART, SA_NOCLDSTOP, 0x800 /* SA_EXPOSE_TAGBITS */,
                              0x400 /* SA_UNSUPPORTED */};
    struct sigaction action = {.sa_handler = SIG_DFL, .sa_mask = set_of(mask)};
    for (int i = 0; i < 7; i++)
        if (flags >> i & 1)
            action.sa_flags |= all[i];
    if (handler % 4 == 1)
        action.sa_handler = SIG_IGN;
    if (handler % 4 == 2)
        action.sa_handler = on_signal;
    if (handler % 4 == 3) {
        action.sa_flags |= SA_SIGINFO;
        action.sa_sigaction = on_signal_with_information;
    }
    return action;
}

static void say_action(const struct sigaction *action)
{
    const char *handler = action->sa_handler == SIG_DFL     ? "default"
                          : action->sa_handler == SIG_IGN   ? "ignored"
                          : action->sa_handler == on_signal ? "plain"
                          : (void *)action->sa_sigaction == (void *)on_signal_with_information
                              ? "information"
                              : "other";
    say(" %s %x %llx", handler, (unsigned)action->sa_flags,
        (unsigned long long)bits_of(&action->sa_mask));
}

void prepare_signals(void)
{
    struct sigaction action = action_of(3, 0, 0);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static int is_ours(int signal)
{
    struct sigaction action;
    sigset_t mask;
    sigaction(signal, NULL, &action);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    return action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN &&
           !sigismember(&mask, signal);
}

int faults_are_ours(void)
{
    return is_ours(SIGSEGV) && is_ours(SIGBUS);
}

/* Whether the signal would end or stop the program, now or when it is no longer blocked. */
static int is_lethal(int signal)
{
    struct sigaction action;
    if (signal == SIGKILL || signal == SIGSTOP)
        return 1;
    if (signal <= 0 || signal > 64 || signal == SIGCHLD || signal == SIGURG || signal == SIGWINCH ||
        signal == SIGCONT)
        return 0;
    return sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_DFL;
}

/* ---- Operations ---- */

/* signal handler flags mask: sets it, or only asks for it */
OPERATION(sigaction)
{
    struct sigaction wanted = action_of(a[1], a[2], a[3]), before;
    memset(&before, 0, sizeof(before));
    errno = 0;
    long result = sigaction(signal_of(a[0]), a[1] % 8 == 7 ? NULL : &wanted, &before);
    say_result(result);
    if (result == 0)
        say_action(&before);
}

/* signal and where the pointers lead: the call itself, with pointers of which one may be bad */
OPERATION(sigaction_raw)
{
    void *in = a[1] % 3 == 0 ? NULL : a[1] % 3 == 1 ? place_of(a[2]) : bad_pointer();
    void *out = a[3] % 3 == 0 ? NULL : a[3] % 3 == 1 ? place_of(a[4]) : bad_pointer();
    if (in && in != bad_pointer())
        in = NULL; /* whatever lies there is no handler */
    long result = syscall(SYS_rt_sigaction, signal_of(a[0]), in, out, a[5] % 8 == 7 ? 4 : 8);
    say_result(result);
    if (result == 0 && out == place_of(a[4]))
        memset(out, 0, 32); /* addresses */
}

OPERATION(sigprocmask)
{
    static const int all[] = {SIG_BLOCK, SIG_UNBLOCK, SIG_SETMASK, 7};
    sigset_t set = set_of(a[1]), before;
    sigemptyset(&before);
    long result = sigprocmask(all[a[0] % 4], a[2] % 4 == 3 ? NULL : &set, &before);
    say_result(result);
    if (result == 0)
        say(" %llx", (unsigned long long)bits_of(&before));
}

OPERATION(sigpending)
{
    sigset_t set;
    sigemptyset(&set);
    say_result(sigpending(&set));
    say(" %llx", (unsigned long long)bits_of(&set));
}

static long send_signal(int signal, int way, int value)
{
    switch (way % 5) {
    case 0:
        return kill(getpid(), signal);
    case 1:
        return syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signal);
    case 2:
        return sigqueue(getpid(), signal, (union sigval){.sival_int = value});
    case 3:
        return syscall(SYS_tkill, syscall(SYS_gettid), signal);
    default:
        return raise(signal);
    }
}

/* signal way value */
OPERATION(kill)
{
    int signal = signal_of(a[0]);
    if (is_lethal(signal)) {
        pid_t child = fork_quietly();
        if (child == 0) {
            send_signal(signal == SIGSTOP ? SIGKILL : signal, a[1], a[2]);
            _exit(7);
        }
        say_end_of(child);
        return;
    }
    say_result(send_signal(signal, a[1], a[2]));
}

OPERATION(sigtimedwait)
{
    sigset_t set = set_of(a[0]);
    siginfo_t info = {0};
    struct timespec none = {0, 0};
    long result = sigtimedwait(&set, &info, &none);
    say_result(result);
    if (result > 0)
        say(" code %d value %d", info.si_code,
            info.si_code == SI_QUEUE ? info.si_value.sival_int : 0);
}

/* Waits for a signal that is pending and that the handler will get. */
OPERATION(sigsuspend)
{
    sigset_t set, before, all;
    int signal = a[0] % 2 ? SIGUSR1 : SIGSEGV;
    if (!is_ours(signal))
        return;
    sigemptyset(&set);
    sigaddset(&set, signal);
    sigprocmask(SIG_BLOCK, &set, &before);
    raise(signal);
    sigfillset(&all);
    sigdelset(&all, signal);
    say_result(sigsuspend(&all));
    sigprocmask(SIG_SETMASK, &before, NULL);
}

OPERATION(sigaltstack)
{
    stack_t wanted = {.ss_sp = stacks[a[0] % STACKS], .ss_size = STACK}, before;
    memset(&before, 0, sizeof(before));
    if (a[1] % 8 == 1)
        wanted.ss_flags = SS_DISABLE;
    if (a[1] % 8 == 2)
        wanted.ss_size = 100;
    if (a[1] % 8 == 3)
        wanted.ss_flags = 0x100;
    if (a[1] % 8 == 4)
        wanted.ss_flags = (int)(1u << 31); /* SS_AUTODISARM */
    long result = sigaltstack(a[1] % 8 == 5 ? NULL : &wanted, &before);
    say_result(result);
    if (result == 0)
        say(" %d %x %zu",
            before.ss_sp == stacks[0]   ? 0
            : before.ss_sp == stacks[1] ? 1
                                        : -1,
            (unsigned)before.ss_flags, before.ss_size);
}

OPERATION(signalfd)
{
    sigset_t set = set_of(a[1]);
    int fd = signalfd(-1, &set, SFD_NONBLOCK | (a[2] % 2 ? SFD_CLOEXEC : 0));
    say_result(fd);
    keep_descriptor(a[0], fd);
}

OPERATION(signalfd_read)
{
    struct signalfd_siginfo info;
    memset(&info, 0, sizeof(info));
    long result = read(descriptor_of(a[0]), &info, sizeof(info));
    say_result(result);
    if (result == sizeof(info))
        say(" signal %u code %d", info.ssi_signo, info.ssi_code);
}

/* A read of an empty pipe that a timer interrupts; with SA_RESTART it goes on and reads what the
 * handler has written. */
OPERATION(interrupted)
{
    int ends[2];
    char byte = 0;
    struct sigaction action = action_of(2 + a[0] % 2, a[1], 0), before;
    struct itimerval soon = {.it_value = {.tv_usec = 2000}}, none = {.it_value = {.tv_usec = 0}};
    sigset_t set, mask;
    if (pipe(ends) != 0) {
        say_result(-1);
        return;
    }
    sigaction(SIGALRM, &action, &before);
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pipe_to_write = ends[1];
    sigprocmask(SIG_UNBLOCK, &set, &mask); /* one may have been pending, and written */
    struct pollfd early = {ends[0], POLLIN, 0};
    while (poll(&early, 1, 0) == 1 && read(ends[0], &byte, 1) == 1)
        ;
    int noted_before = noted_length;
    long result;
    do { /* again if the signal came before the call, which then finds the handler's byte */
        noted_length = noted_before;
        sigaction(SIGALRM, &action, NULL);
        setitimer(ITIMER_REAL, &soon, NULL);
        result = read(ends[0], &byte, 1);
    } while (result == 1 && !(action.sa_flags & SA_RESTART));
    say_result(result);
    setitimer(ITIMER_REAL, &none, NULL);
    pipe_to_write = -1;
    sigprocmask(SIG_SETMASK, &mask, NULL);
    sigaction(SIGALRM, &before, NULL);
    close(ends[0]);
    close(ends[1]);
}

/* A timer whose signal is waited for. */
OPERATION(timer)
{
    timer_t timer;
    siginfo_t info = {0};
    sigset_t set, mask;
    struct sigevent event = {
        .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2, .sigev_value.sival_int = a[0]};
    struct itimerspec soon = {.it_value = {.tv_nsec = 1000000}};
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, &mask);
    long result = timer_create(a[1] % 4 == 3 ? 99 : CLOCK_MONOTONIC, &event, &timer);
    say_result(result);
    if (result == 0) {
        timer_settime(timer, 0, &soon, NULL);
        do
            result = sigwaitinfo(&set, &info);
        while ((result < 0 && errno == EINTR) || (result > 0 && info.si_code != SI_TIMER));
        say(" signal %ld code %d value %d", result, info.si_code, info.si_value.sival_int);
        timer_delete(timer);
    }
    sigprocmask(SIG_SETMASK, &mask, NULL);
}

OPERATION(alarm)
{
    unsigned seconds = 1000 + (unsigned)a[0] % 5;
    say(" %u", alarm(seconds));
    unsigned left = alarm(0);
    say(" %d", left <= seconds && left + 60 > seconds);
}

/* A fault with the default action, or one that is ignored or blocked: the end of a child */
OPERATION(fatal_fault)
{
    pid_t child = fork_quietly();
    if (child == 0) {
        struct sigaction action = action_of(a[1] % 2, a[2], 0);
        sigset_t set = set_of(a[3]);
        fault_is_fatal = 1;
        sigaction(SIGSEGV, &action, NULL);
        sigprocmask(SIG_BLOCK, &set, NULL);
        if (a[0] % 3 == 0)
            *(volatile int *)8 = 1;
        else if (a[0] % 3 == 1)
            __builtin_trap();
        else
            raise(SIGSEGV);
        _exit(3);
    }
    say_end_of(child);
}
