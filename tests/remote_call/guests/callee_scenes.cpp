// tests/remote_call/guests/callee_scenes.cpp: what a task does as the caller.
#include "callee.hpp"

#include <onespace/call.h>

#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/time.h>
#include <thread>
#include <unistd.h>

static int callee;
static thread_local long mine; // the handlers' too
static volatile long handled, elsewhere;
static long *address_of_mine;
static sigjmp_buf place;
static int turn; // of loops that are jumped back into: survives longjmp

static onespace_call_function *function(const char *name, int id = callee)
{
    void *address = nullptr;
    if (onespace_lookup(id, name, &address, nullptr) != 0)
        printf("no %s\n", name);
    return reinterpret_cast<onespace_call_function *>(reinterpret_cast<uintptr_t>(address));
}

static int call(const char *name, const void *argument = nullptr, intptr_t *result = nullptr)
{
    return onespace_call(callee, function(name), const_cast<void *>(argument), result);
}

static void *number(intptr_t value)
{
    return reinterpret_cast<void *>(value);
}

// Another signal may interrupt it anywhere.
static void on_signal(int)
{
    int before = errno;
    __atomic_fetch_add(&mine, 1, __ATOMIC_RELAXED);
    errno = ENOTTY; // in the caller's
    __atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
    elsewhere = elsewhere + (&mine != address_of_mine);
    errno = before;
}

static void set(int signal, void (*handler)(int))
{
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    if (sigaction(signal, &action, nullptr) != 0)
        perror("sigaction");
}

// One timer's signal has its handler before the first call, the other one's after it.
static int signals()
{
    struct itimerval often = {{0, 500}, {0, 500}}, never = {};
    address_of_mine = &mine;
    set(SIGALRM, on_signal);
    setitimer(ITIMER_REAL, &often, nullptr);
    auto *use_heap = function("use_heap"), *get_errno = function("get_errno");
    int failed = 0;
    for (int timer : {SIGALRM, SIGPROF}) {
        set(timer, on_signal);
        if (timer == SIGPROF)
            setitimer(ITIMER_PROF, &often, nullptr);
        long until = handled + 100;
        for (long i = 0; handled < until; i++) {
            intptr_t value = 0;
            failed |= onespace_call(callee, use_heap, number(2000), &value);
            failed |= onespace_call(callee, get_errno, nullptr, &value);
            failed |= value != ERANGE;
        }
    }
    setitimer(ITIMER_REAL, &never, nullptr);
    setitimer(ITIMER_PROF, &never, nullptr);
    printf("%s\n", failed            ? "a call failed"
                   : elsewhere       ? "a handler had other storage"
                   : mine != handled ? "a handler had other storage at times"
                                     : "handled");
    return 0;
}

static volatile int in_call, has_told; // the callee's function sets in_call

static void tell_in_call(int signal)
{
    on_signal(signal);
    if (in_call && !has_told && write(1, "calls\n", 6) == 6)
        has_told = 1;
}

static void tell_in_call_slowly(int)
{
    if (!in_call || has_told || write(1, "in a handler\n", 13) != 13)
        return;
    has_told = 1;
    usleep(100000);
}

// The callee ends while a handler runs in the middle of a call (`slowly`), or among many.
static int end_among_signals(bool slowly)
{
    struct itimerval often = {{0, 300}, {0, 300}}, never = {};
    sigset_t mask;
    set(SIGALRM, slowly ? tell_in_call_slowly : tell_in_call);
    auto *waits = function("waits_for_ever");
    setitimer(ITIMER_REAL, &often, nullptr);
    int result = onespace_call(callee, waits, const_cast<int *>(&in_call), nullptr);
    setitimer(ITIMER_REAL, &never, nullptr);
    sigprocmask(SIG_BLOCK, nullptr, &mask);
    printf("%s\n", result != -EOWNERDEAD         ? onespace_call_message()
                   : sigismember(&mask, SIGALRM) ? "the signal is blocked"
                                                 : "ended");
    return 0;
}

static int actions()
{
    struct sigaction found = {}, action = {};
    set(SIGUSR1, on_signal);
    int failed = call("use_heap", number(1));
    failed |= sigaction(SIGUSR1, nullptr, &found) != 0 || found.sa_handler != on_signal;
    action.sa_handler = SIG_IGN;
    failed |= sigaction(SIGUSR1, &action, &found) != 0 || found.sa_handler != on_signal;
    failed |= sigaction(SIGUSR1, nullptr, &found) != 0 || found.sa_handler != SIG_IGN;
    action.sa_handler = on_signal;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    failed |= sigaction(SIGUSR1, &action, &found) != 0 || found.sa_handler != SIG_IGN;
    address_of_mine = &mine;
    raise(SIGUSR1);
    failed |= handled != 1;
    failed |= sigaction(SIGUSR1, nullptr, &found) != 0 || found.sa_handler != SIG_DFL;
    failed |= sigaction(SIGKILL, &action, nullptr) != -1 || errno != EINVAL;
    printf("%s\n", failed ? "not as set" : "as set");
    return 0;
}

static volatile int may_jump; // the callee's function sets it

static void jump(int)
{
    if (may_jump)
        siglongjmp(place, 1);
}

// More often than there are donors.
static int jumps()
{
    struct itimerval often = {{0, 2000}, {0, 2000}}, never = {};
    set(SIGALRM, jump);
    for (turn = 0; turn < ONESPACE_CALL_LENDERS + 6; turn++) {
        if (sigsetjmp(place, 1) == 0) {
            setitimer(ITIMER_REAL, &often, nullptr);
            call("spins_for_ever", const_cast<int *>(&may_jump));
            printf("the call returned: %s\n", onespace_call_message());
        }
        setitimer(ITIMER_REAL, &never, nullptr);
        may_jump = 0;
        int result = call("use_heap", number(1));
        if (result != 0)
            printf("%d: %s\n", turn, onespace_call_message());
    }
    printf("jumped\n");
    return 0;
}

static jmp_buf place_back;

static intptr_t jumps_back(void *)
{
    longjmp(place_back, 1);
}

static int jump_back()
{
    for (turn = 0; turn < ONESPACE_CALL_LENDERS + 6; turn++) {
        Onward onward = {onespace_self(), reinterpret_cast<const void *>(&jumps_back), 0, 0, 0};
        if (setjmp(place_back) == 0) {
            call("passes_on", &onward);
            printf("the call returned: %s\n", onespace_call_message());
        }
        int result = call("use_heap", number(1));
        if (result != 0)
            printf("%d: %s\n", turn, onespace_call_message());
    }
    printf("jumped back\n");
    return 0;
}

static void on_fault(int)
{
    elsewhere = elsewhere + (&mine != address_of_mine);
    siglongjmp(place, 1);
}

static int fault()
{
    address_of_mine = &mine;
    set(SIGSEGV, on_fault);
    for (turn = 0; turn < 3; turn++)
        if (sigsetjmp(place, 1) == 0)
            call("crashes");
    printf("%s\n", elsewhere || call("use_heap", number(1)) != 0 ? "no" : "survived");
    return 0;
}

// setuid and the like stop all threads by a signal, and wait for each.
static int identity()
{
    volatile int began = 0;
    auto *spins = function("spins_for_ever");
    std::thread thread([&] {
        int result = onespace_call(callee, spins, const_cast<int *>(&began), nullptr);
        printf("the call returned %d\n", result);
    });
    while (!began)
        usleep(1000);
    for (int i = 0; i < 20; i++)
        if (setegid(getegid()) != 0)
            perror("setegid");
    printf("changed\n");
    fflush(stdout);
    _exit(0);
}

static int spin(const char *name)
{
    volatile int began = 0;
    auto *spins = function(name);
    if (strcmp(name, "spins_for_ever") == 0)
        printf("spins\n");
    fflush(stdout);
    return onespace_call(callee, spins, const_cast<int *>(&began), nullptr) ? 1 : 3;
}

static int in_thread_mode()
{
    int id = onespace_init(), failed = onespace_call_serve() != -ENOTSUP;
    failed |= onespace_call(ONESPACE_ROOT, jumps_back, nullptr, nullptr) != -ENOTSUP;
    return failed || id <= 0;
}

static int into_the_root()
{
    intptr_t value = 0;
    auto *twice = function("function_of_the_root", ONESPACE_ROOT);
    int result = onespace_call(ONESPACE_ROOT, twice, number(42), &value);
    printf("the root's %ld%s\n", static_cast<long>(value),
           result == 0 ? "" : onespace_call_message());
    return 0;
}

// One of two tasks calls the other, in which the function stays until the end of the input.
static int pair(int from)
{
    if (onespace_call_serve() != 0 || onespace_barrier(-1) != 0)
        return 1;
    printf("ready\n");
    fflush(stdout);
    int result = 0;
    if (onespace_number() == from) {
        callee = onespace_task(1 - from);
        result = call("reads_to_the_end");
    }
    return onespace_barrier(-1) != 0 || result != 0;
}

int scene(int argc, char **argv)
{
    const char *name = argv[1];
    callee = argc > 2 ? atoi(argv[2]) : 0;
    if (strcmp(name, "signals") == 0)
        return signals();
    if (strcmp(name, "end-in-handler") == 0)
        return end_among_signals(true);
    if (strcmp(name, "end-among-signals") == 0)
        return end_among_signals(false);
    if (strcmp(name, "actions") == 0)
        return actions();
    if (strcmp(name, "jump") == 0)
        return jumps();
    if (strcmp(name, "jump-back") == 0)
        return jump_back();
    if (strcmp(name, "fault") == 0)
        return fault();
    if (strcmp(name, "identity") == 0)
        return identity();
    if (strcmp(name, "spin") == 0)
        return spin("spins_for_ever");
    if (strcmp(name, "crash") == 0)
        return spin("crashes");
    if (strcmp(name, "thread-mode") == 0)
        return in_thread_mode();
    if (strcmp(name, "pair") == 0)
        return pair(callee);
    if (strcmp(name, "root") == 0)
        return into_the_root();
    return 2;
}
