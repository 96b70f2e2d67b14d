/* tests/interpose/guests/signals.c: programs with handlers of their own for SIGSEGV and SIGBUS. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "programs/scene.h"

extern char **environ;

static sigjmp_buf back;
static volatile sig_atomic_t count, seen_signal, seen_code, on_alternate;
static void *volatile seen_address;
static char alternate[65536];

static void note(int signal, siginfo_t *info, void *context)
{
    char here;
    (void)context;
    count++;
    seen_signal = signal;
    seen_code = info ? info->si_code : 0;
    seen_address = info ? info->si_addr : NULL;
    on_alternate = &here >= alternate && &here < alternate + sizeof(alternate);
}

static void note_and_jump(int signal, siginfo_t *info, void *context)
{
    note(signal, info, context);
    siglongjmp(back, 1);
}

static void simple_handler(int signal)
{
    count++;
    seen_signal = signal;
}

static void install(int signal, void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, NULL);
}

static void fault(uintptr_t address)
{
    *(volatile int *)address = 1; // NOLINT(clang-analyzer-core.NullDereference): the point
}

static const char *what(const struct sigaction *action)
{
    return action->sa_handler == SIG_DFL          ? "default"
           : action->sa_handler == SIG_IGN        ? "ignored"
           : action->sa_handler == simple_handler ? "simple"
           : action->sa_sigaction == note         ? "note"
                                                  : "unknown";
}

static void say(int signal)
{
    struct sigaction action;
    if (sigaction(signal, NULL, &action) == 0)
        printf("%d %s flags %x mask %d%d%d\n", signal, what(&action),
               (unsigned)action.sa_flags & 0xfbffffff, sigismember(&action.sa_mask, SIGUSR1),
               sigismember(&action.sa_mask, SIGUSR2), sigismember(&action.sa_mask, SIGKILL));
}

/* sigaction gives back what was set. */
SCENE(remember)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGUSR1};
    for (unsigned i = 0; i < 3; i++) {
        struct sigaction action = {.sa_sigaction = note,
                                   .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER},
                         old;
        say(signals[i]);
        sigemptyset(&action.sa_mask);
        sigaddset(&action.sa_mask, SIGUSR2);
        sigaction(signals[i], &action, &old);
        printf("before %s\n", what(&old));
        say(signals[i]);
        sigaddset(&action.sa_mask, SIGKILL); /* which the kernel leaves out */
        action.sa_flags = SA_RESTART;
        action.sa_handler = simple_handler;
        sigaction(signals[i], &action, &old);
        printf("before %s\n", what(&old));
        say(signals[i]);
        signal(signals[i], SIG_IGN);
        say(signals[i]);
        signal(signals[i], SIG_DFL);
        say(signals[i]);
    }
    struct sigaction action = {.sa_handler = SIG_DFL};
    printf("%d %d\n", sigaction(SIGKILL, &action, NULL), sigaction(77, &action, NULL));
    return 0;
}

SCENE(address)
{
    static const uintptr_t places[] = {0, 8, 4096 * 5 + 17, 0x7fffffffe000, 0xdead00000000};
    install(SIGSEGV, note_and_jump, 0);
    for (unsigned i = 0; i < 5; i++) {
        if (sigsetjmp(back, 1) == 0)
            fault(places[i]);
        printf("%d times, signal %d, code %d, address %s\n", (int)count, (int)seen_signal,
               (int)seen_code, seen_address == (void *)places[i] ? "right" : "wrong");
    }
    char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (sigsetjmp(back, 1) == 0)
        fault((uintptr_t)page + 100);
    printf("code %d, address %s\n", (int)seen_code, seen_address == page + 100 ? "right" : "wrong");
    if (sigsetjmp(back, 1) == 0)
        fault(UINT64_C(0x8000000000001000)); /* not canonical */
    printf("code %d\n", (int)seen_code);
    return 0;
}

SCENE(bus)
{
    int fd = memfd_create("short", 0);
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    install(SIGBUS, note_and_jump, 0);
    if (sigsetjmp(back, 1) == 0)
        fault((uintptr_t)page + 8);
    printf("%d times, signal %d, code %d, address %s\n", (int)count, (int)seen_signal,
           (int)seen_code, seen_address == page + 8 ? "right" : "wrong");
    return 0;
}

/* A handler that repairs the cause and returns, as collectors and paging run-times do. */
static char *repaired;

static void repair(int signal, siginfo_t *info, void *context)
{
    note(signal, info, context);
    mprotect(repaired, 4096, PROT_READ | PROT_WRITE);
}

SCENE(repair)
{
    repaired = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    install(SIGSEGV, repair, 0);
    for (int i = 0; i < 100; i++) {
        mprotect(repaired, 4096, PROT_NONE);
        repaired[i] = (char)i;
        if (repaired[i] != i || count != i + 1)
            return 1;
    }
    printf("%d times\n", (int)count);
    return 0;
}

static void overflow_handler(int signal, siginfo_t *info, void *context)
{
    note(signal, info, context);
    siglongjmp(back, 1);
}

__attribute__((noinline)) static int recurse(int depth)
{
    volatile char frame[4096];
    frame[0] = (char)depth;
    return depth == INT32_MAX ? 0 : recurse(depth + 1) + frame[0];
}

SCENE(alternate_stack)
{
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
    sigaltstack(&stack, NULL);
    install(SIGSEGV, overflow_handler, SA_ONSTACK);
    if (sigsetjmp(back, 1) == 0)
        recurse(0);
    printf("%d times, on the alternate stack %d\n", (int)count, (int)on_alternate);
    install(SIGSEGV, note_and_jump, 0);
    if (sigsetjmp(back, 1) == 0)
        fault(8);
    printf("%d times, on the alternate stack %d\n", (int)count, (int)on_alternate);
    return 0;
}

SCENE(reset)
{
    install(SIGSEGV, note_and_jump, SA_RESETHAND);
    if (sigsetjmp(back, 1) == 0)
        fault(8);
    say(SIGSEGV);
    printf("%d times\n", (int)count);
    fault(8);
    return 1;
}

static volatile sig_atomic_t nested;

static void fault_again(int signal, siginfo_t *info, void *context)
{
    note(signal, info, context);
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    nested = sigismember(&mask, SIGSEGV) * 2 + sigismember(&mask, SIGUSR1);
    if (count < 2)
        fault(8);
    siglongjmp(back, 1);
}

SCENE(nodefer)
{
    install(SIGSEGV, fault_again, SA_NODEFER);
    if (sigsetjmp(back, 1) == 0)
        fault(8);
    printf("%d times, mask %d\n", (int)count, (int)nested);
    return 0;
}

/* Without SA_NODEFER the second fault inside the handler kills. */
SCENE(fault_in_handler)
{
    install(SIGSEGV, fault_again, 0);
    if (sigsetjmp(back, 1) == 0)
        fault(8);
    return 1;
}

SCENE(mask)
{
    struct sigaction action = {.sa_sigaction = fault_again, .sa_flags = SA_SIGINFO};
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaction(SIGSEGV, &action, NULL);
    count = 1; /* no second fault */
    if (sigsetjmp(back, 1) == 0)
        fault(8);
    printf("mask %d\n", (int)nested);
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    printf("restored %d\n", sigismember(&mask, SIGSEGV) + sigismember(&mask, SIGUSR1));
    return 0;
}

SCENE(ignored_fault)
{
    signal(SIGSEGV, SIG_IGN);
    raise(SIGSEGV);
    kill(getpid(), SIGSEGV);
    printf("ignored\n");
    fault(8);
    return 1;
}

SCENE(blocked_fault)
{
    sigset_t mask;
    sigfillset(&mask);
    install(SIGSEGV, note_and_jump, 0);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    fault(8);
    return 1;
}

SCENE(raised)
{
    install(SIGSEGV, note, 0);
    raise(SIGSEGV);
    printf("%d times, code %d\n", (int)count, (int)seen_code);
    union sigval value = {.sival_int = 99};
    sigqueue(getpid(), SIGSEGV, value);
    printf("%d times, code %d\n", (int)count, (int)seen_code);
    signal(SIGSEGV, simple_handler);
    raise(SIGSEGV);
    printf("%d times, signal %d\n", (int)count, (int)seen_signal);
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
    return 1;
}

SCENE(abort)
{
    abort();
}

/* Children: what was ignored stays so, what was caught is default, by each way of starting them. */
SCENE(children)
{
    char *words[] = {argv[1], "signals", NULL};
    sigset_t defaults;
    posix_spawnattr_t attr;
    for (int round = 0; round < 2; round++) {
        signal(SIGBUS, SIG_IGN);
        install(SIGSEGV, note, 0);
        pid_t child;
        posix_spawnattr_init(&attr);
        if (round == 1) {
            sigemptyset(&defaults);
            sigaddset(&defaults, SIGBUS);
            sigaddset(&defaults, SIGSEGV);
            posix_spawnattr_setsigdefault(&attr, &defaults);
            posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
        }
        printf("posix_spawn %d\n", round);
        fflush(stdout);
        if (posix_spawn(&child, argv[1], NULL, &attr, words, environ) != 0)
            return 1;
        waitpid(child, NULL, 0);
        say(SIGSEGV); /* the parent's own are as they were */
        say(SIGBUS);
    }
    printf("fork\n");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        say(SIGSEGV);
        if (sigsetjmp(back, 1) == 0)
            install(SIGSEGV, note_and_jump, 0), fault(8);
        printf("child's handler %d times\n", (int)count);
        fflush(stdout);
        install(SIGSEGV, note, 0);
        execv(argv[1], words);
        _exit(127);
    }
    waitpid(child, NULL, 0);
    printf("parent's handler %d times\n", (int)count);
    printf("exec\n");
    fflush(stdout);
    execv(argv[1], words);
    return 1;
}

static void *faulting_thread(void *argument)
{
    (void)argument;
    fault(8);
    return NULL;
}

SCENE(thread_fault)
{
    pthread_t thread;
    pthread_create(&thread, NULL, faulting_thread, NULL);
    pthread_join(thread, NULL);
    return 1;
}

/* Bad pointers are the caller's error, not its death. */
SCENE(bad_pointers)
{
    char buffer[64];
    struct sigaction old;
    char *volatile place = (char *)16; /* volatile: the compiler shall not judge it */
    char *bad = place, *words[] = {NULL},
         *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf("readlink %zd", readlink(bad, buffer, sizeof(buffer)));
    printf(" %s\n", strerror(errno));
    printf("readlink %zd", readlink("/proc/self/exe", none, 64));
    printf(" %s\n", strerror(errno));
    printf("readlinkat %zd", readlinkat(AT_FDCWD, bad, buffer, sizeof(buffer)));
    printf(" %s\n", strerror(errno));
    printf("execve %d", execve(bad, words, words));
    printf(" %s\n", strerror(errno));
    printf("sigaction %d", sigaction(SIGUSR1, NULL, &old));
    printf(" %s\n", "fine");
    printf("sigaction %ld", syscall(SYS_rt_sigaction, SIGSEGV, bad, NULL, 8));
    printf(" %s\n", strerror(errno));
    printf("sigaction %ld", syscall(SYS_rt_sigaction, SIGBUS, NULL, none, 8));
    printf(" %s\n", strerror(errno));
    /* A path that ends at the end of its page. */
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(page + 4096, 4096);
    memcpy(page + 4096 - 6, "/proc/", 6); // NOLINT(bugprone-not-null-terminated-result): the point
    printf("readlink %zd", readlink(page + 4096 - 6, buffer, sizeof(buffer)));
    printf(" %s\n", strerror(errno));
    return 0;
}

/* The same where a fault would kill. */
SCENE(bad_pointers_blocked)
{
    sigset_t mask;
    sigfillset(&mask);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    return play_bad_pointers(argc, argv);
}

SCENE(bad_pointers_ignored)
{
    signal(SIGSEGV, SIG_IGN);
    signal(SIGBUS, SIG_IGN);
    return play_bad_pointers(argc, argv);
}

SCENE(bad_pointers_of_child)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        exit(play_bad_pointers(argc, argv));
    }
    waitpid(child, NULL, 0);
    return 0;
}

static char state_of(pid_t pid)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY);
    ssize_t size = read(fd, text, sizeof(text) - 1);
    close(fd);
    return size > 0 ? *(strrchr(text, ')') + 2) : 'X';
}

/* An ignored signal interrupts no call. */
SCENE(ignored_while_asleep)
{
    static const int signals[] = {SIGSEGV, SIGBUS};
    for (int i = 0; i < 2; i++) {
        int ends[2];
        signal(signals[i], SIG_IGN);
        pid_t parent = getpid(), child = pipe(ends) == 0 ? fork() : -1;
        if (child == 0) {
            while (state_of(parent) != 'S')
                usleep(1000);
            kill(parent, signals[i]);
            _exit(write(ends[1], "", 1) != 1);
        }
        struct pollfd ready = {ends[0], POLLIN, 0};
        printf("poll %d\n", poll(&ready, 1, -1));
        waitpid(child, NULL, 0);
    }
    return 0;
}

/* A vfork child that changes its handlers, by SA_RESETHAND too, leaves its parent's alone. */
SCENE(vfork_resets)
{
    install(SIGSEGV, note, SA_RESETHAND);
    pid_t child = vfork();
    if (child == 0) {
        raise(SIGSEGV); // NOLINT(clang-analyzer-unix.Vfork): the point
        raise(SIGSEGV);
        _exit(1);
    }
    int status;
    waitpid(child, &status, 0);
    printf("%d times, then signal %d\n", (int)count, WTERMSIG(status));
    say(SIGSEGV);
    return 0;
}

int main(int argc, char **argv)
{
    return play_scene(argc, argv);
}
